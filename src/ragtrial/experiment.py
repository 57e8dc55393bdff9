"""The whole way: run_experiment retrieves with every setting, scores it and writes the report."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ragtrial.config import ExperimentConfig
from ragtrial.config.settings import Setting, chosen_settings, settings_of
from ragtrial.errors import Fault, InputError, RagtrialError, RunError, without_frames, without_secrets
from ragtrial.evaluator import RetrievalEvaluator
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.open_setting import open_setting
from ragtrial.pipeline.reporting import build_report, part_rankings, ranking_rows, text_rows
from ragtrial.pipeline.retrieval import Depth, found_texts
from ragtrial.pipeline.scores import Scored
from ragtrial.pipeline.stage import Stage, all_needs
from ragtrial.pipeline.written_wordings import write_wordings
from ragtrial.progress import Progress, Silent
from ragtrial.records import FoundText, Question
from ragtrial.report.model import Report, new_run_id, write_report
from ragtrial.report.schema import FailurePart

if TYPE_CHECKING:
    from ragtrial.search.searched import Searched

logger = logging.getLogger(__name__)

_NONE: Mapping[tuple[str, int], Scored] = MappingProxyType({})


def run_experiment(
    config: ExperimentConfig,
    *,
    progress: Progress | None = None,
    settings: Sequence[str] | None = None,
    limit: int | None = None,
    strict: bool = False,
    audit: bool = False,
    jobs: int = 1,
    fail_fast: bool = False,
    extrapolate: int | None = None,
    on_failure: Callable[[str, str], None] | None = None,
    notice: Callable[[str], None] = logger.info,
) -> Report:
    """Run every setting of ``config``, or search for the best, score it, and write the report.

    ``settings`` runs only these, ``limit`` only the first queries; ``strict`` makes warnings about the input errors;
    ``audit`` compares every index with exact search, also those of 100,000 vectors and more. Up to ``jobs`` stages are
    made side by side. With ``extrapolate`` settings also run on parts of the documents, and extrapolation.json says
    what that suggests for this many documents. ``notice`` gets what is to be known before work begins, and the score of
    each setting that took work.

    A setting that fails is reported to ``on_failure`` at once (name and reason), noted in the report, and the others go
    on; with ``fail_fast`` the first one ends the run, and no stage beside it is begun any more. Raises InputError
    before anything is run, RunError if all settings fail.
    """
    _check_search(config, settings, extrapolate)
    evaluator = RetrievalEvaluator(
        config, progress=progress, settings=settings, limit=limit, strict=strict, audit=audit
    )
    evaluator.prepare()
    _notice_unlabelled(evaluator, notice)
    parts: Sequence[RetrievalEvaluator] | None = None
    if extrapolate is not None:
        from ragtrial.comparison.extrapolation import document_parts

        parts = document_parts(evaluator, extrapolate)
    searched: Searched | None = None
    if config.search:
        from ragtrial.search.searched import search

        def score(one: RetrievalEvaluator) -> Mapping[str, Scored]:
            return _score_each(one, jobs, on_failure, fail_fast=fail_fast)[0]

        searched = search(evaluator, score, notice)
        evaluator = evaluator.over(searched.settings, latency=searched.measures_latency)
        config, on_failure = searched.config, None  # which has heard of each failure
    known = searched.scored if searched else {}
    scored, failures = _score_all(evaluator, jobs, on_failure, notice, known, fail_fast=fail_fast)
    report = build_report(
        config,
        scored,
        run_id=new_run_id(datetime.now(UTC)),
        labels=evaluator.resolved.labels,
        documents_fingerprint=evaluator.corpus.fingerprint,
        metrics=evaluator.metrics,
        failures=failures,
        warnings=evaluator.warnings,
    )
    directory, beside = Path(config.output.directory), dict[str, str]()
    if searched is not None:
        from ragtrial.search.searched import with_findings

        report, beside = with_findings(searched, report, directory)
    if parts is not None and extrapolate is not None:
        from ragtrial.comparison.extrapolation import EXTRAPOLATION, extrapolated

        smaller = [_score_each(one, jobs, on_failure, fail_fast=fail_fast)[0] for one in parts]
        whole = {one.result.setting.name: one for one in scored}
        made = extrapolated(report.primary_metric, [*smaller, whole], extrapolate)
        beside[EXTRAPOLATION] = made.model_dump_json(indent=1) + "\n"
    evaluator.corpus.resources.workspace.finish(complete=limit is None and settings is None and not failures)
    rankings = {one.result.setting.name: ranking_rows(one) for one in scored} | part_rankings(scored)
    text = (searched.run.config if searched else config).text or json.dumps(config.as_written, indent=1)
    return write_report(report, directory, rankings, text_rows(scored), text, beside)


def search_settings(
    config: ExperimentConfig, text: str, only: str | None = None, *, progress: Progress | None = None
) -> dict[str, list[FoundText]]:
    """What the settings of ``config`` (or ``only`` one) return for ``text``. Raises ConfigError for an unknown name."""
    settings = chosen_settings(settings_of(config)[0], only and [only])
    corpus, found, unit = Corpus(config, progress or Silent()), {}, config.evaluators.unit
    written = write_wordings(settings, [Question(text)], corpus.resources)
    for error in written.failures.values():
        raise error
    for setting in settings:
        depth = Depth(units=setting.retriever.top_k)
        with open_setting(corpus.resources, corpus.stages(setting), corpus.runner, unit) as opened:
            ranked = opened.ranked(written.questions, depth)
        hits = found_texts(ranked, corpus.library)
        if setting.retriever.has_matches:
            context, units = corpus.context(setting), ranked.candidates.units
            (why,) = setting.retriever.matches(context, written.questions, units, ranked.units)
            hits = [replace(hit, matches=one.matches, terms=one.terms) for hit, one in zip(hits, why.hits, strict=True)]
        found[setting.name] = hits
    return found


def _score_all(
    evaluator: RetrievalEvaluator,
    jobs: int,
    on_failure: Callable[[str, str], None] | None,
    notice: Callable[[str], None],
    known: Mapping[tuple[str, int], Scored],
    *,
    fail_fast: bool,
) -> tuple[list[Scored], list[FailurePart]]:
    """The settings that were scored, and those that failed, in their order. Raises RunError if none was scored."""
    scored, failures = _score_each(evaluator, jobs, on_failure, notice, known, fail_fast=fail_fast)
    if not scored:
        raise _all_of(failures)
    runner = evaluator.corpus.runner
    if not runner.built:
        notice(f"Nothing was computed: all {len(runner.kept):,} stages are cached, and only scored again.")
    names = [setting.name for setting in evaluator.settings if setting.name not in scored]
    return list(scored.values()), [failures[name][0] for name in names]


def _check_search(config: ExperimentConfig, settings: Sequence[str] | None, extrapolate: int | None) -> None:
    """Raise InputError for what a search cannot be combined with."""
    if config.search and settings is not None:
        raise InputError("a search chooses its settings; leave out the names, or set search to null.")
    if config.search and extrapolate is not None:
        raise InputError("a search runs its settings once; extrapolate with the config of its winner, winner.yaml.")


def _notice_unlabelled(evaluator: RetrievalEvaluator, notice: Callable[[str], None]) -> None:
    """Say before any work that no setting will have a score, where that is so."""
    queries = evaluator.resolved.labels.queries
    if not any(judgment.relevance > 0 for query in queries for judgment in query.relevant_docs):
        notice(
            f"No question in {evaluator.dataset.labels_file} has a relevant document: settings are run, but get no "
            'scores. `ragtrial search CONFIG "a question" --label` labels one.'
        )


def _score_each(
    evaluator: RetrievalEvaluator,
    jobs: int,
    on_failure: Callable[[str, str], None] | None,
    notice: Callable[[str], None] | None = None,
    known: Mapping[tuple[str, int], Scored] = _NONE,
    *,
    fail_fast: bool,
) -> tuple[dict[str, Scored], dict[str, tuple[FailurePart, Exception]]]:
    """The settings that were scored, and those that failed, by name. Raises the first failure under ``fail_fast``.

    ``notice`` gets the score of each of several for which a stage was built, as soon as it is known. ``known`` are
    those of settings, by their keys, that were scored before.
    """
    scored: dict[str, Scored] = {}
    failures: dict[str, tuple[FailurePart, Exception]] = {}

    def failed(setting: Setting, error: Exception) -> None:
        part = _failure(setting, error)
        if on_failure and setting.name not in failures:
            on_failure(setting.name, part.error)
        failures[setting.name] = part, without_frames(error)
        if fail_fast:
            raise _all_of(failures)

    if jobs > 1:
        _make_side_by_side(evaluator, jobs, failed)
    primary, runner, count = str(evaluator.metrics.primary), evaluator.corpus.runner, len(evaluator.settings)
    for setting in evaluator.one_by_one():
        built = runner.built
        try:
            earlier = known.get(setting.key)
            if earlier is not None:
                one = replace(earlier, result=earlier.result.of(setting))
            else:
                one = evaluator.scorer.score(evaluator.results.of(setting))
            scored[setting.name] = one
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - of whatever kind: the others go on, and it is reported
            failed(setting, error)
            continue
        if notice and count > 1 and runner.built > built and (mean := one.evaluations[primary].mean.mean) is not None:
            notice(f"{setting.name}: {primary} {mean:.4f} ({len(scored)} of {count} settings)")
    return scored, failures


def _make_side_by_side(evaluator: RetrievalEvaluator, jobs: int, failed: Callable[[Setting, Exception], None]) -> None:
    """Make all stages up to the rankings; ``failed`` is called at once with every setting that needs one that fails."""
    stages: dict[Setting, list[Stage[Any]]] = {}
    for setting in evaluator.settings:
        try:
            stages[setting] = all_needs(evaluator.graph.run_of(setting).ranking)
        except RunError as error:
            failed(setting, error)

    def stage_failed(stage: Stage[Any], error: Exception) -> None:
        for setting, needed in stages.items():
            if stage in needed:
                failed(setting, error)

    every = dict.fromkeys(stage for needed in stages.values() for stage in needed)
    evaluator.corpus.runner.run_side_by_side(every, jobs, stage_failed)


def _all_of(failures: Mapping[str, tuple[FailurePart, Exception]]) -> Exception:
    """What to raise where no report is written: what nobody expected as it is, since its traceback is of use."""
    faults: list[Fault] = []
    for name, (_, error) in failures.items():
        if not isinstance(error, RagtrialError):
            return error
        faults += (replace(fault, message=f"setting {name!r}: {fault.message}") for fault in error.faults)
    return RunError(*faults)


def _failure(setting: Setting, error: Exception) -> FailurePart:
    """What is noted of a setting that failed; where nobody expected that, with the traceback."""
    if isinstance(error, RagtrialError):
        return FailurePart(name=setting.name, error=str(error))
    said = f"{type(error).__name__}: {error}"
    details = without_secrets("".join(traceback.format_exception(error)))
    return FailurePart(name=setting.name, error=without_secrets(f"it broke ({said})"), details=details)
