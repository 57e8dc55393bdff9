"""A search from its config to its result: the settings that run, and the files about them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import yaml

from ragtrial.comparison.comparing import options_of
from ragtrial.comparison.comparison_input import input_of
from ragtrial.config import ExperimentConfig
from ragtrial.config.load import written_in
from ragtrial.config.models import MOST_TIMED, scored
from ragtrial.config.settings import Setting, setting_of, settings_of
from ragtrial.config.space import Point, Space
from ragtrial.config.sweep import METHODS, Combination, unique
from ragtrial.config.variants import listed_config, probes_of
from ragtrial.errors import Fault, InputError, ReportError
from ragtrial.evaluation.grading import Scores
from ragtrial.pipeline.reporting import report_of, write_outcome
from ragtrial.pipeline.run import Run, RunOptions
from ragtrial.report.model import Report, environment
from ragtrial.report.schema import SearchedPart
from ragtrial.search.search_result import Choice, SearchResult, TrialPart, decide, sentences_of
from ragtrial.search.search_run import SearchRun, TrialRunner
from ragtrial.search.split import power_sentence, split_of

RESULT, WINNER = "search.json", "winner.yaml"

_MOST_REFUSED = 5
_Names = Mapping[tuple[str, int], str]
"""The names of settings by their keys."""


def search_experiment(config: ExperimentConfig, options: RunOptions) -> Report:
    """Search for the best setting as ``config`` says, and write the report of all settings that were tried.

    The listener first receives the power of the queries. Raises InputError for names that the axes use and that do not
    exist, and LabelsError for too few queries, before anything is run; RunError if the baseline or all settings fail.
    """
    if options.settings is not None or config.search is None:
        raise InputError("a search chooses its settings; leave out the names, or set search to null.")
    run = Run.prepare(config, options)
    run.notice_unlabelled()
    split = split_of(run, config.search)
    probes = [setting_of(probe.config, entry) for probe in probes_of(config) for entry in scored(probe.config)]
    run.of_settings([*run.settings, *{probe.key: probe for probe in probes}.values()]).check()
    runner = TrialRunner(run)
    options.listener.notice(power_sentence(split, config.search))
    search = SearchRun(Space(config), run.settings, split, runner)
    baseline = search.baseline.setting  # which is tried first
    METHODS[config.search.method].search(search)
    ended = search.ended
    listed = listed_config(config, _combinations(search))
    settings = {setting.key: setting for setting in settings_of(listed)[0]}
    keys = [*(trial.setting.key for trial in search.trials), *(setting.key for setting in search.failed)]
    chosen = {key: settings[key] for key in keys if key in settings}
    measures = runner.measures_latency or (config.latency is None and len(chosen) <= MOST_TIMED)
    final = run.of_settings(list(chosen.values()), latency=measures, keeps_models=True)
    known = runner.scored if measures == runner.measures_latency else {}
    outcome = final.score_all(known, were_reported=True)
    report = report_of(final, outcome, listed)
    names = {key: setting.name for key, setting in chosen.items()}
    result = result_of(search, report, names, names[baseline.key], ended)
    files = {RESULT: result.model_dump_json(indent=1) + "\n"}
    if result.winner:
        setting = next(setting for setting in chosen.values() if setting.name == result.winner.setting)
        folder = Path(config.output.directory) / report.experiment / report.run_id
        title = f"{setting.name}: the best setting of the search in run {report.run_id}."
        files[WINNER] = winner_config(config, setting, folder, title)
    return write_outcome(final, outcome, _with_search(report, search, result), files)


def _combinations(run: SearchRun) -> list[Combination]:
    """The values of all trials, as far as they affect the setting."""
    combinations = run.config.sweep.given() if run.config.sweep else []
    points: dict[Setting, Point | None] = {trial.setting: trial.point for trial in run.trials if not trial.is_given}
    for setting, point in [*points.items(), *run.failed.items()]:
        if point is not None:
            whole = run.space.combination(point.positions)
            reached = [key for key in whole.values if key in setting.values]
            combinations.append(Combination({key: whole.values[key] for key in reached}, whole.where))
    return unique(combinations)


def load_result(report: Report) -> SearchResult | None:
    """The result of the search of ``report``; None without a search, or if its file is missing. Raises ReportError."""
    if report.search is None or not (path := report.file(RESULT)).is_file():
        return None
    try:
        return SearchResult.model_validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        message = f"cannot be read: {getattr(error, 'strerror', None) or 'it is of another version'}."
        raise ReportError(Fault(str(path), message=message)) from error


def _with_search(report: Report, search: SearchRun, result: SearchResult) -> Report:
    """``report`` with a summary of the search."""
    part = SearchedPart(
        method=result.method,
        is_adaptive=METHODS[search.options.method].is_adaptive,
        baseline=result.baseline,
        winner=result.winner.setting if result.winner else None,
        held_out=list(search.split.held_out),
    )
    packages = report.environment["packages"] | environment(search.options.packages)["packages"]
    return report.model_copy(update={"search": part, "environment": {**report.environment, "packages": packages}})


def result_of(run: SearchRun, report: Report, names: _Names, baseline: str, ended: str) -> SearchResult:
    """The result of the search, by the scores of ``report``; ``names`` are those of its settings, by their keys."""
    options, inputs = run.options, input_of([report], [report.primary_metric], may_be_one=True)
    scores = {names[trial.setting.key]: trial.score for trial in run.trials}
    column = np.array([scores.get(name, -math.inf) for name in inputs.names])
    choice = Choice(inputs, column, run.split.held_out, baseline)
    judging = choice.judging
    values = judging.scores(judging.primary).values
    held_out = dict(zip(inputs.names, values, strict=True)) if run.split.held_out else {}
    result = SearchResult(
        **dict(decide(choice, options_of(inputs))),
        method=options.method,
        seed=run.seed,
        metric=inputs.primary,
        settings=options.settings - run.unused,
        possible=run.space.size,
        refused=[str(fault) for fault in run.space.refusals()[:_MOST_REFUSED]],
        ended=ended,
        failed=[setting.name for setting in run.failed],
        searched=len(run.split.searched),
        held_out=len(run.split.held_out),
        baseline=baseline,
        trials=list(_trials(run, names, held_out)),
        sentences=[],
    )
    return result.model_copy(update={"sentences": list(sentences_of(result))})


def _trials(run: SearchRun, names: _Names, held_out: Mapping[str, Scores]) -> Iterator[TrialPart]:
    best = -math.inf
    for trial in run.trials:
        name = names.get(trial.setting.key, trial.setting.name)
        best = max(best, trial.score)
        known = held_out[name][~np.isnan(held_out[name])] if name in held_out else np.empty(0)
        yield TrialPart(
            setting=name,
            is_given=trial.is_given,
            queries=trial.queries,
            score=None if math.isnan(trial.mean) else trial.mean,
            held_out=float(known.mean()) if len(known) else None,
            best=None if best == -math.inf else trial.sign * best,
            costs=dict(trial.costs),
            is_within=trial.is_within,
            seconds=round(trial.seconds, 3),
        )


def winner_config(config: ExperimentConfig, setting: Setting, folder: Path, title: str) -> str:
    """The text of a config in ``folder`` that runs only ``setting``. ``title`` is its first line.

    It extends the file of ``config``, so that paths keep their meaning, and has the differences. Without a file it is
    complete.
    """
    written = {key: value for key, value in setting.config.as_written.items() if key not in ("sweep", "search")}
    parts = {part.entry for part in setting.tree()}
    retrievers = {name: dict(entry) for name, entry in written["retrievers"].items() if name in parts}
    for name, entry in retrievers.items():
        entry.pop("score", None)
        if name != setting.entry:
            entry["score"] = False
    written["retrievers"] = retrievers
    if config.file is not None:
        base = written_in(config.file)
        changed = {key: written.get(key) for key in {**base, **written} if base.get(key) != written.get(key)}
        removed = dict.fromkeys(base.get("retrievers", {}))  # null removes a key
        written = {"extends": _relative(Path(config.file), folder), **changed, "retrievers": removed | retrievers}
    plain = json.loads(json.dumps(written, default=str))
    body = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110)
    return f"# {title}\n# ragtrial run THIS_FILE\n{body}"


def _relative(file: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix()
    except ValueError:  # on another drive
        return str(file.resolve())
