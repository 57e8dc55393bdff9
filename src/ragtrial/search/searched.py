"""A search from its config to its result: which settings are run, and what is written about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ragtrial.comparison.comparing import options_of
from ragtrial.comparison.contest import contest_of
from ragtrial.config import ExperimentConfig
from ragtrial.config.models import MOST_TIMED, scored
from ragtrial.config.settings import Setting, setting_of, settings_of
from ragtrial.config.space import Space
from ragtrial.config.sweep import Combination, unique
from ragtrial.config.variants import combinations_given, listed_config, probes_of
from ragtrial.errors import Fault, InputError, ReportError
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluator import RetrievalEvaluator
from ragtrial.report.environment import environment
from ragtrial.report.model import Report
from ragtrial.report.schema import SearchedPart
from ragtrial.search.engine import PipelineEngine, Score
from ragtrial.search.findings import Choice, judge, pareto_set
from ragtrial.search.importance import RETRIEVER, importance_of
from ragtrial.search.methods import METHODS
from ragtrial.search.parts import SearchResult, TrialPart
from ragtrial.search.power import power_sentence
from ragtrial.search.sentences import sentences_of
from ragtrial.search.session import Session, SettingsOfSpace, Trial
from ragtrial.search.split import split_queries
from ragtrial.search.winner_config import winner_config

RESULT, WINNER = "search.json", "winner.yaml"

_MOST_REFUSED = 5


@dataclass(frozen=True, eq=False)
class Searched:
    """A search that is over, and ``config``, which lists the settings that were tried on all queries."""

    session: Session
    config: ExperimentConfig
    settings: Sequence[Setting]
    baseline: str
    measures_latency: bool


def search(evaluator: RetrievalEvaluator, score: Score, notice: Callable[[str], None]) -> Searched:
    """Try settings as the config of ``evaluator`` says. ``notice`` is told at once what can be shown with the queries.

    Raises InputError for what the axes name and is not there, and LabelsError for too few queries, before anything is
    run; RunError if the baseline fails.
    """
    config, options = evaluator.config, evaluator.config.search
    if options is None:
        raise InputError("the config has no search.")
    labels = evaluator.resolved.labels
    split = split_queries(labels.queries, options, config.seed, evaluator.dataset.labels_file)
    probes = [setting_of(one.config, entry) for one in probes_of(config) for entry in scored(one.config)]
    evaluator.over([*evaluator.settings, *{one.key: one for one in probes}.values()]).prepare()
    notice(power_sentence(split, options))
    engine = PipelineEngine(evaluator, score)
    session = Session(SettingsOfSpace(Space(config)), evaluator.settings, split, engine)
    baseline = session.baseline.setting  # which is tried first
    METHODS[options.method](session)
    whole = [trial for trial in session.trials if trial.is_on_all]
    listed = listed_config(config, _combinations(session, whole))
    keys = [trial.setting.key for trial in whole] + [setting.key for setting in session.failed]
    settings = {setting.key: setting for setting in settings_of(listed)[0]}
    chosen = list({key: settings[key] for key in keys if key in settings}.values())
    is_short = config.latency is None and len(chosen) <= MOST_TIMED
    return Searched(session, listed, chosen, settings[baseline.key].name, engine.measures_latency or is_short)


def _combinations(session: Session, trials: Sequence[Trial]) -> list[Combination]:
    """The values of what was tried, as far as they reach it."""
    found = combinations_given(session.config)
    for trial in trials:
        if not trial.is_given:
            whole = session.space.combination(trial.point.positions)
            reached = [key for key in whole.values if key in trial.setting.values]
            found.append(Combination({key: whole.values[key] for key in reached}, whole.where))
    return unique(found)


def load_result(report: Report) -> SearchResult | None:
    """What the search of ``report`` came to; None where it had none, or its file is gone. Raises ReportError."""
    if report.search is None or not (path := report.file(RESULT)).is_file():
        return None
    try:
        return SearchResult.model_validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        message = f"cannot be read: {getattr(error, 'strerror', None) or 'it is of another version'}."
        raise ReportError(Fault(str(path), message=message)) from error


def with_findings(searched: Searched, report: Report, directory: Path) -> tuple[Report, dict[str, str]]:
    """``report`` with how its settings were chosen, and the files to be written beside it, by name."""
    session, options = searched.session, searched.session.options
    found = result_of(searched, report)
    part = SearchedPart(
        method=options.method,
        is_adaptive=options.is_adaptive,
        baseline=searched.baseline,
        winner=found.winner.setting if found.winner else None,
        held_out=list(session.split.held_out),
    )
    files = {RESULT: found.model_dump_json(indent=1) + "\n"}
    if found.winner:
        setting = next(one for one in searched.settings if one.name == found.winner.setting)
        folder = directory / report.experiment / report.run_id
        why = f"{setting.name}: the best setting of the search in run {report.run_id}."
        files[WINNER] = winner_config(session.config, setting, folder, why)
    packages = report.environment["packages"] | environment(options.packages)["packages"]
    return report.model_copy(
        update={"search": part, "environment": {**report.environment, "packages": packages}}
    ), files


def result_of(searched: Searched, report: Report) -> SearchResult:
    """What may be said of the search, by the scores of ``report``."""
    session, options = searched.session, searched.session.options
    contest = contest_of([report], [report.primary_metric], may_be_one=True)
    keys = {setting.key: setting.name for setting in searched.settings}
    scores = {keys[one.setting.key]: one.score for one in session.trials if one.is_on_all}
    column = np.array([scores.get(name, -math.inf) for name in contest.names])
    choice = Choice(contest, column, session.split.held_out, searched.baseline, options.finalists)
    aim = options_of(contest)
    judgement, judging = judge(choice, aim), choice.judging
    values = judging.scores(judging.primary).values
    held_out = dict(zip(contest.names, values, strict=True)) if session.split.held_out else {}
    by_name = {setting.name: setting for setting in searched.settings}
    entries = {setting.entry for setting in searched.settings}
    axes = [
        {**({RETRIEVER: by_name[name].entry} if len(entries) > 1 else {}), **_axis_values(session, by_name[name])}
        for name in contest.names
    ]
    made = SearchResult(
        method=options.method,
        seed=session.seed,
        metric=contest.primary,
        settings=options.settings - session.unused,
        possible=session.settings.size,
        refused=[str(fault) for fault in session.space.refusals()[:_MOST_REFUSED]],
        ended=session.ended,
        searched=len(session.split.searched),
        held_out=len(session.split.held_out),
        baseline=searched.baseline,
        winner=judgement.winner,
        verdict=judgement.verdict,
        compared_with=judgement.compared_with,
        finalists=judgement.finalists,
        between_finalists=judgement.between_finalists,
        pareto=pareto_set(choice, aim),
        importance=importance_of(axes, values, aim.procedure),
        trials=list(_trials(session, keys, held_out)),
        sentences=[],
    )
    return made.model_copy(update={"sentences": list(sentences_of(made))})


def _axis_values(session: Session, setting: Setting) -> dict[str, Any]:
    """The values of a setting by axis; of one in the config those that it has there."""
    found: dict[str, Any] = {}
    for axis in session.space.axes:
        known = [setting.values[key] for key in axis.keys if key in setting.values]
        if known:
            found[", ".join(axis.keys)] = known[0] if len(axis.keys) == 1 else known
    return found


def _trials(
    session: Session, keys: Mapping[tuple[str, int], str], held_out: Mapping[str, Scores]
) -> Iterator[TrialPart]:
    best = -math.inf
    for trial in session.trials:
        name = keys.get(trial.setting.key, trial.setting.name)
        best = max(best, trial.score) if trial.is_on_all else best
        known = held_out[name][~np.isnan(held_out[name])] if name in held_out and trial.is_on_all else np.empty(0)
        yield TrialPart(
            setting=name,
            is_given=trial.is_given,
            queries=trial.queries,
            score=None if math.isnan(trial.mean) else trial.mean,
            held_out=float(known.mean()) if len(known) else None,
            best=None if best == -math.inf else best,
            costs=dict(trial.costs),
            is_within=trial.is_within,
            seconds=round(trial.seconds, 3),
        )
