"""A search from its config to its result: which settings are run, and what is written about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ragtrial.comparison.comparing import options_of
from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.config import ExperimentConfig
from ragtrial.config.models import MOST_TIMED, scored
from ragtrial.config.settings import Setting, setting_of, settings_of
from ragtrial.config.sweep import Combination, unique
from ragtrial.config.variants import Point, Space, combinations_given, listed_config, probes_of
from ragtrial.errors import Fault, InputError, ReportError, RunError
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluator import RetrievalEvaluator
from ragtrial.pipeline.scores import Scored
from ragtrial.report.environment import environment
from ragtrial.report.model import Report
from ragtrial.report.schema import SearchedPart
from ragtrial.search.engine import PipelineEngine, Score
from ragtrial.search.findings import Choice, judge, pareto_set
from ragtrial.search.importance import RETRIEVER, importance_of
from ragtrial.search.methods import METHODS
from ragtrial.search.parts import ImportancePart, SearchResult, TrialPart
from ragtrial.search.power import power_sentence
from ragtrial.search.screening import screen_part, screened
from ragtrial.search.sentences import sentences_of
from ragtrial.search.session import Session, SettingsOfSpace, Trial
from ragtrial.search.split import split_queries
from ragtrial.search.winner_config import winner_config

RESULT, WINNER = "search.json", "winner.yaml"

_MOST_REFUSED = 5


@dataclass(frozen=True, eq=False)
class Searched:
    """A search that is over, and ``config``, which lists the settings that were tried on all queries.

    ``scored`` are those of the settings that need not be scored again, by their keys. ``ended`` says why no other
    setting was tried.
    """

    session: Session
    config: ExperimentConfig
    settings: Sequence[Setting]
    baseline: str
    scored: Mapping[tuple[str, int], Scored]
    measures_latency: bool
    ended: str


def search(evaluator: RetrievalEvaluator, score: Score, notice: Callable[[str], None]) -> Searched:
    """Try settings as the config of ``evaluator`` says. ``notice`` is called first, with what the queries can show.

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
    engine, whole_engine = PipelineEngine(evaluator, score), None
    if options.screen is not None:
        engine, whole_engine = PipelineEngine(screened(evaluator, options.screen), score), engine
    notice(power_sentence(split, options))
    session = Session(SettingsOfSpace(Space(config)), evaluator.settings, split, engine, whole=whole_engine)
    baseline = session.baseline.setting  # which is tried first
    METHODS[options.method](session)
    ended = session.ended  # before finalists run, which takes time, too
    session.confirm()
    whole = [trial for trial in session.trials if not trial.is_screened]
    # What failed on some of the documents is not run on all.
    failed = session.failed if options.screen is None else {}
    listed = listed_config(config, _combinations(session, whole, failed))
    keys = [*(trial.setting.key for trial in whole), *(setting.key for setting in failed)]
    if baseline.key not in keys:
        raise RunError(f"the baseline {baseline.name!r} failed on all documents, and nothing can be compared with it.")
    settings = {setting.key: setting for setting in settings_of(listed)[0]}
    chosen = list({key: settings[key] for key in keys if key in settings}.values())
    measures = engine.measures_latency or (config.latency is None and len(chosen) <= MOST_TIMED)
    known = (whole_engine or engine).scored if measures == engine.measures_latency else {}
    return Searched(session, listed, chosen, settings[baseline.key].name, known, measures, ended)


def _combinations(
    session: Session, trials: Sequence[Trial], failed: Mapping[Setting, Point | None]
) -> list[Combination]:
    """The values of what was tried, as far as they reach it."""
    found = combinations_given(session.config)
    points = {trial.setting: trial.point for trial in trials if not trial.is_given}
    for setting, point in [*points.items(), *failed.items()]:
        if point is not None:
            whole = session.space.combination(point.positions)
            reached = [key for key in whole.values if key in setting.values]
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
    inputs = input_of([report], [report.primary_metric], may_be_one=True)
    keys = {setting.key: setting.name for setting in searched.settings}
    scores = {keys[one.setting.key]: one.score for one in session.trials if not one.is_screened}
    column = np.array([scores.get(name, -math.inf) for name in inputs.names])
    choice = Choice(inputs, column, session.split.held_out, searched.baseline, options.finalists)
    compared = options_of(inputs)
    judgement, judging = judge(choice, compared), choice.judging
    values = judging.scores(judging.primary).values
    held_out = dict(zip(inputs.names, values, strict=True)) if session.split.held_out else {}
    made = SearchResult(
        method=options.method,
        seed=session.seed,
        metric=inputs.primary,
        settings=options.settings - session.unused,
        possible=session.settings.size,
        refused=[str(fault) for fault in session.space.refusals()[:_MOST_REFUSED]],
        ended=searched.ended,
        failed=[setting.name for setting in session.failed],
        searched=len(session.split.searched),
        held_out=len(session.split.held_out),
        baseline=searched.baseline,
        winner=judgement.winner,
        verdict=judgement.verdict,
        compared_with=judgement.compared_with,
        finalists=judgement.finalists,
        between_finalists=judgement.between_finalists,
        pareto=pareto_set(choice, compared),
        importance=_importance(session, [query.id for query in judging.queries], compared.procedure),
        screen=screen_part(session),
        trials=list(_trials(session, keys, held_out)),
        sentences=[],
    )
    return made.model_copy(update={"sentences": list(sentences_of(made))})


def _importance(session: Session, queries: Sequence[str], procedure: Procedure) -> list[ImportancePart]:
    """What axes do to the scores on ``queries``, by the settings that the search chose, screened if it screened."""
    screens = session.options.screen is not None
    chosen = [one for one in session.trials if one.is_screened == screens and not one.is_given]
    if not chosen:
        return []
    values = np.array([[one.sign * one.scores.get(name, math.nan) for name in queries] for one in chosen])
    several = len({one.setting.entry for one in chosen}) > 1
    axes = [
        {**({RETRIEVER: one.setting.entry} if several else {}), **_axis_values(session, one.setting)} for one in chosen
    ]
    return importance_of(axes, values, procedure)


def _axis_values(session: Session, setting: Setting) -> dict[str, Any]:
    """The values of a setting by axis."""
    found: dict[str, Any] = {}
    for axis in session.space.axes:
        known = [setting.values[key] for key in axis.keys if key in setting.values]
        if known:
            found[", ".join(axis.keys)] = known[0] if len(axis.keys) == 1 else known
    return found


def _trials(
    session: Session, keys: Mapping[tuple[str, int], str], held_out: Mapping[str, Scores]
) -> Iterator[TrialPart]:
    bests = {False: -math.inf, True: -math.inf}
    for trial in session.trials:
        name = keys.get(trial.setting.key, trial.setting.name)
        best = bests[trial.is_screened] = max(bests[trial.is_screened], trial.score)
        known = held_out[name][~np.isnan(held_out[name])] if name in held_out and not trial.is_screened else np.empty(0)
        yield TrialPart(
            setting=name,
            is_given=trial.is_given,
            queries=trial.queries,
            documents=trial.documents,
            score=None if math.isnan(trial.mean) else trial.mean,
            held_out=float(known.mean()) if len(known) else None,
            best=None if best == -math.inf else trial.sign * best,
            costs=dict(trial.costs),
            is_within=trial.is_within,
            seconds=round(trial.seconds, 3),
        )
