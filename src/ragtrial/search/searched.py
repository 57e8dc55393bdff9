"""A search over settings: the experiment, its result and the sentences on it, and the config of the winner."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import yaml
from pydantic import Field

from ragtrial.comparison.comparing import ComparisonOptions, options_of, primary_comparisons
from ragtrial.comparison.comparison_input import ComparisonInput, input_of
from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.conclusion import labels_to_settle
from ragtrial.comparison.selection import select_winner
from ragtrial.comparison.statistics.estimates import mean_interval
from ragtrial.config import ExperimentConfig
from ragtrial.config.load import written_in
from ragtrial.config.models import MOST_TIMED, scored
from ragtrial.config.settings import Setting, setting_of, settings_of
from ragtrial.config.space import Point, Space
from ragtrial.config.sweep import METHODS, Combination, unique
from ragtrial.config.variants import listed_config, probes_of
from ragtrial.errors import Fault, InputError, ReportError, counted, listed
from ragtrial.evaluation.clusters import linearised
from ragtrial.evaluation.grading import Scores
from ragtrial.pipeline.reporting import report_of, write_outcome
from ragtrial.pipeline.run import Run, RunOptions
from ragtrial.report.model import Report, environment
from ragtrial.report.schema import Part, SearchedPart
from ragtrial.search.search_run import SearchRun, TrialRunner, power_sentence, split_of


class TrialPart(Part):
    """A setting that was tried, in the order of trying."""

    setting: str
    is_given: bool
    """True if it is in the config, false if the search chose it."""

    queries: int
    """The number of queries to search by for which it has a score."""

    score: float | None
    """The mean of the primary metric on these queries."""

    held_out: float | None
    """Its mean on the held-out queries; null without any."""

    best: float | None
    """The best score so far of a setting within the limits."""

    costs: dict[str, float | None]
    """The limited costs as measured; null if unknown."""

    is_within: bool
    seconds: float
    """The time from the beginning of the search until it was scored."""


class ScorePart(Part):
    """The expected score of the winner on new queries."""

    mean: float
    ci: tuple[float, float] | None
    """95% interval; null if there are too few queries."""

    n: int


class WinnerPart(Part):
    """The best setting within the limits, by the queries to search by."""

    setting: str
    searched: float
    """Its mean on the queries that chose it."""

    expected: ScorePart | None
    """Its expected mean on new queries: its mean on the held-out queries, or else its mean corrected for the choice."""

    optimism: float | None
    """``searched`` minus the mean of ``expected``."""


class Findings(Part):
    """The winner of a search, and the verdict on it."""

    winner: WinnerPart | None
    """Null if no setting meets the limits."""

    verdict: ComparisonPart | None
    """The winner against the baseline, on the deciding queries; null if it is the baseline."""

    compared_with: int
    """The number of comparisons with the baseline for which the verdict is corrected."""


class SearchResult(Findings):
    """The course of a search, its winner, and the verdict on it."""

    method: str
    seed: int
    metric: str
    settings: int
    """The number of settings tried, in addition to those in the config."""

    possible: int | None
    """The number of settings that the axes have; null for a continuous axis, or if there are very many."""

    refused: list[str]
    """Some of the reasons why combinations are not valid, and were left out."""

    ended: str
    """Why no other setting was tried."""

    failed: list[str] = Field(default=[])
    """The settings that failed; they have no scores."""

    searched: int
    """Queries to search by."""

    held_out: int
    baseline: str
    trials: list[TrialPart]
    sentences: list[str]
    """The result in words, the next step last."""


def sentences_of(result: SearchResult) -> Iterator[str]:
    """The result first, one next step last."""
    winner = result.winner
    if winner is None:
        yield f"None of {counted(len(result.trials), 'setting')} meets the limits of search.within."
        yield from _failed(result)
        yield "Next: raise the limits, or search along axes that lower the costs."
        return
    yield f"Best: {winner.setting} ({result.metric} {winner.searched:.3f} on the questions that chose it)."
    if winner.expected is not None:
        expected = winner.expected
        interval = f" (95% interval {expected.ci[0]:.3f} to {expected.ci[1]:.3f})" if expected.ci else ""
        on = f"On {result.held_out} held-out questions: " if result.held_out else "On new questions expect about "
        yield f"{on}{expected.mean:.3f}{interval}."
    yield from _failed(result)
    yield from _verdict(result)


def _verdict(result: SearchResult) -> Iterator[str]:
    verdict = result.verdict
    if verdict is None:
        yield f"No setting scored higher than {result.baseline}, the config as it is."
        yield "Next: search along other axes, or keep the config."
        return
    corrected = "" if result.held_out else f", corrected for {counted(result.compared_with, 'comparison')}"
    change = "" if verdict.difference is None else f" ({verdict.difference:+.3f}"
    if verdict.ci is not None:
        change += f", 95% interval {verdict.ci[0]:+.3f} to {verdict.ci[1]:+.3f}{corrected}"
    change += ")" if change else ""
    if verdict.verdict == "better":
        yield f"It is better than {result.baseline} with the current labels{change}."
        yield "Next: run the winner's config, winner.yaml of the report, and look at the questions that it loses."
        return
    if verdict.verdict in ("worse", "worse within the margin"):
        yield f"It is worse than {result.baseline} with the current labels{change}; it came first by chance."
        yield "Next: keep the config as it is."
        return
    yield f"No difference from {result.baseline} is shown{change}."
    if (more := labels_to_settle(verdict)) is not None:
        yield f"Next: label about {counted(more, 'more question')} to settle the two, or keep the config as it is."
    elif verdict.verdict == "no worse":
        yield "Next: keep the config as it is, or take the winner if it is cheaper."
    else:
        yield "Next: keep the config as it is."


def _failed(result: SearchResult) -> Iterator[str]:
    if result.failed:
        tried = counted(len({trial.setting for trial in result.trials} | set(result.failed)), "setting")
        have = "has" if len(result.failed) == 1 else "have"
        yield f"{len(result.failed)} of {tried} failed, and {have} no score: {listed(result.failed, 5)}."


@dataclass(frozen=True, eq=False)
class Choice:
    """The settings to choose from, by their scores on the queries to search by.

    ``inputs`` has all settings over all queries. ``searched`` has their means on the queries to search by, negated if
    lower is better, -inf beyond the limits, shape (settings,). ``held_out`` are the ids of the held-out queries.
    """

    inputs: ComparisonInput
    searched: Scores
    held_out: Sequence[str]
    baseline: str

    @property
    def ranked(self) -> list[int]:
        """The indices of the settings within the limits, best first, equal settings in their order."""
        order = np.argsort(-self.searched, kind="stable").tolist()
        return [index for index in order if self.searched[index] > -math.inf]

    @property
    def judging(self) -> ComparisonInput:
        """The settings over the deciding queries."""
        return self.inputs.over(set(self.held_out)) if self.held_out else self.inputs


def decide(choice: Choice, options: ComparisonOptions) -> Findings:
    """The winner, compared with the baseline.

    On held-out queries only the winner is compared with the baseline. Without held-out queries the settings must have
    been chosen independently of scores; then all are compared, and the verdict is corrected for their number.
    """
    ranked, inputs = choice.ranked, choice.judging
    if not ranked:
        return Findings(winner=None, verdict=None, compared_with=0)
    best, sign = inputs.names[ranked[0]], inputs.sign(inputs.primary)
    verdict, parts = None, list[ComparisonPart]()
    if best != choice.baseline:
        compared = inputs.only([choice.baseline, best]) if choice.held_out else inputs
        parts = primary_comparisons(compared, replace(options, baseline=choice.baseline))
        verdict = next(part for part in parts if part.setting == best)
    expected = _expected(choice, inputs, ranked[0], options)
    searched = sign * float(choice.searched[ranked[0]])
    optimism = None if expected is None else sign * (searched - expected.mean)
    winner = WinnerPart(setting=best, searched=searched, expected=expected, optimism=optimism)
    return Findings(winner=winner, verdict=verdict, compared_with=len(parts))


def _expected(choice: Choice, inputs: ComparisonInput, best: int, options: ComparisonOptions) -> ScorePart | None:
    """The expected score of the best setting on new queries; None if it cannot be corrected for the choice."""
    scores = inputs.scores(inputs.primary).values
    if choice.held_out:
        known = scores[best][~np.isnan(scores[best])]
        (values,) = linearised(scores[[best]], inputs.clusters)
        interval = mean_interval(values, options.procedure.level, inputs.primary)
        return ScorePart(mean=float(known.mean()), ci=interval, n=len(known))
    allowed = [inputs.names[index] for index in choice.ranked]
    scores, sign = inputs.only(allowed).scores(inputs.primary).values, inputs.sign(inputs.primary)
    selected = select_winner(scores, allowed, inputs.primary, inputs.clusters, sign=sign, seed=options.procedure.seed)
    if selected.corrected is None or selected.setting != inputs.names[best]:
        return None
    return ScorePart(mean=selected.corrected, ci=selected.ci, n=selected.n)


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
