"""A report scored again: what was found stays, by which labels and metrics it is judged changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.config import ExperimentConfig, load_config
from ragtrial.config.load import check, config_as_written
from ragtrial.config.metric_choice import MetricChoice, choose_metrics
from ragtrial.config.settings import settings_of
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library, NamedDocuments
from ragtrial.dataset.resolution import resolve, unlabelled_share
from ragtrial.errors import (
    ConfigError,
    Fault,
    InputError,
    LabelsError,
    MetricError,
    ReportError,
    listed,
)
from ragtrial.evaluation.context_sizes import ContextSizes
from ragtrial.evaluation.evaluators import Evaluation
from ragtrial.evaluation.grading import DocumentLabels, GradedRankings, grade_codes
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.evaluation.metrics.base import Family
from ragtrial.evaluation.metrics.spelling import spellings
from ragtrial.evaluation.span_labels import SpanLabels, span_labels, whole_warnings
from ragtrial.options import VARIABLE
from ragtrial.pipeline import reporting
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.metric_descriptions import metric_parts
from ragtrial.pipeline.scores import evaluated, grade_chunks, means, tied_means, within_budget
from ragtrial.progress import Progress, Silent
from ragtrial.records import PromptQueries, ReportWarning, WarningCode
from ragtrial.report.environment import environment
from ragtrial.report.model import PARTS, Report, new_run_id, write_report
from ragtrial.report.rows import Row
from ragtrial.report.schema import BudgetPart, SettingPart, WarningPart
from ragtrial.scoring.as_report import check_new, write_new
from ragtrial.scoring.rescoring.new_labels import ChosenLabels, choose_labels
from ragtrial.scoring.rescoring.report_documents import DocumentsNotFoundError, documents_of
from ragtrial.scoring.rescoring.scored_runs import is_of_given_runs, rescore_given_runs
from ragtrial.scoring.rescoring.stored import StoredSetting, stored_setting

_OF_LABELS = {
    WarningCode.FEW_JUDGED, WarningCode.TAG_CONTRADICTS, WarningCode.TIES,
    "no-relevant", "same-label", "label-moved", "text-changed", "quote-twice", "passage-twice", "no-passage",
    "overlay", "overlay-missing", "limit", "index-loss", "budget-not-full", "skipped",
}  # fmt: skip
"""Warnings that speak of labels, or of metrics: those of the parent say nothing of new ones."""

_OF_QUERIES = {"short"}
"""Warnings that count queries: kept where the queries are the same."""


def rescore(
    report: Report,
    labels: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    metrics: str | None = None,
    config_file: str | Path | None = None,
    target: str | Path | None = None,
    progress: Progress | None = None,
) -> Report:
    """Score the rankings of a run's ``report`` again, and write that as a report of its own.

    ``labels`` is a prompt_queries.json or qrels, by default the labels of the report; ``overrides`` are of keys of
    ``evaluators``, ``metrics`` names with commas between instead of those of the config. The numbers are those of a
    run with these labels and metrics, and the same rankings. Documents are read only where labels have passages:
    those of ``config_file``, or of ``labels`` if that is a config. ``target`` is a new folder, by default one beside
    that of ``report``.

    Raises ConfigError for metrics that look deeper than was kept, LabelsError, DocumentsNotFoundError, ReportError.
    """
    if labels is None and metrics is None and not overrides:
        raise InputError("nothing would change: give --labels, --metrics, or --set evaluators...")
    if target is not None:
        check_new(Path(target))
    if is_of_given_runs(report):
        if overrides or config_file:
            raise InputError("--set and --config belong to experiments; a report of `ragtrial score` has no config.")
        return rescore_given_runs(report, labels, metrics, target)
    if config_file is None and labels is not None and Path(labels).suffix in (".yaml", ".yml"):
        config_file = labels
    config = _config(report, overrides, metrics, None if config_file is None else load_config(config_file))
    chosen = choose_labels(report, labels)
    choice, faults = choose_metrics(config, ordered=any(query.ordered for query in chosen.labels.queries))
    if faults:
        raise ConfigError(*(config.fault_at(where, message) for where, message in faults))
    check(config)
    rescoring = _Rescoring(report, config, choice, chosen, config_file, progress or Silent())
    judged = rescoring.judged()
    return _write(report, rescoring.made(judged), judged, target)


def _config(
    report: Report, overrides: Sequence[str], metrics: str | None, named: ExperimentConfig | None
) -> ExperimentConfig:
    """The config of ``report`` with other ``evaluators``; of named ``metrics`` the first decides.

    Raises InputError for overrides of anything else: they would need another run; MetricError; ConfigError.
    """
    keys = [override.partition("=")[0].strip() for override in overrides]
    faults = [
        Fault(f"--set #{number}", message=f"{key} says what was ranked, which another run alone can change; only "
              "other keys of evaluators can be set.")
        for number, key in enumerate(keys, 1)
        if not key.startswith("evaluators.") or key in ("evaluators.unit", "evaluators.ties")
    ]  # fmt: skip
    if faults:
        raise InputError(*faults)
    written = dict(report.config)
    if metrics is not None:
        chosen = [parse_metric(name) for name in spellings(metrics)]
        if not chosen:
            raise MetricError(f"{metrics!r} names no metric; write them like ndcg@10,ap,rbp(p=0.8)@10.")
        written["evaluators"] = {**written.get("evaluators", {}), "primary_metric": str(chosen[0])}
        for family in get_args(Family):
            own = [str(one) for one in chosen if one.definition.family == family]
            written["evaluators"][family] = {"k": [], "metrics": own}
    try:
        return config_as_written(written, report.folder, overrides, f"the config of run {report.run_id}", named)
    except ConfigError as error:
        if named is not None or not VARIABLE.search(json.dumps(report.config)):
            raise
        message = "its variables are not read unless a config is named that has them: --config CONFIG."
        raise ConfigError(*error.faults, Fault(f"the config of run {report.run_id}", message=message)) from error


def _write(parent: Report, report: Report, judged: Sequence[_Judged], target: str | Path | None) -> Report:
    """Write ``report``, whose rankings and texts are those of ``parent``, as ``target``, by default beside ``parent``.

    There it is the latest run. Raises RunError if it cannot be written.
    """
    asked = [query.id for query in report.queries]
    rankings = {one.setting.part.name: one.rows(parent, asked) for one in judged}
    for path in sorted((parent.folder / "rankings" / PARTS).glob("*.jsonl.gz")):
        name = f"{PARTS}/{path.name.removesuffix('.jsonl.gz')}"
        rankings[name] = parent.rankings(name, asked)
    texts = parent.all_texts()
    copy, own = parent.file("config.yaml"), parent.folder.absolute()
    text = copy.read_text(encoding="utf-8") if copy.is_file() else json.dumps(report.config, indent=1) + "\n"
    if target is None and (own.name, own.parent.name) == (parent.run_id, parent.experiment):
        return write_report(report, own.parent.parent, rankings, texts, text)
    folder = own.with_name(f"{own.name}-{report.run_id}") if target is None else Path(target)
    return write_new(report, folder, rankings, texts, text)


@dataclass(frozen=True, eq=False)
class _Judged:
    """What is said of one setting now."""

    setting: StoredSetting
    graded: GradedRankings
    evaluations: dict[str, Evaluation]
    sizes: ContextSizes
    budget: BudgetPart | None
    tied: tuple[float, float] | None

    def part(self) -> SettingPart:
        """What the report says of it. Of an index without its exact rankings, what it loses is not known."""
        stored, part = self.setting, self.setting.part
        per_query = {
            "evaluations": {name: evaluation.as_list() for name, evaluation in self.evaluations.items()},
            "passages": reporting.passage_parts(self.graded),
        }
        told = {one.k: one for one in part.context} if stored.is_all else {}  # as the run measured it
        context = reporting.context_parts(self.evaluations, self.sizes, stored.top_k, stored.skipped)
        audit = part.audit and part.audit.model_copy(update={"lost": dict.fromkeys(self.evaluations)})
        return part.model_copy(
            update={
                "scores": means(self.evaluations),
                "counts": part.counts if stored.is_all else stored.counts(),
                "audit": audit if stored.is_all else None,
                "context": [told.get(one.k, one) for one in context],
                "budget": self.budget,
                "per_query": stored.per_query.model_copy(update=per_query),
            }
        )

    def rows(self, parent: Report, queries: Sequence[str]) -> Iterator[Row]:
        """The rows of the setting's rankings with the new grades."""
        for index, row in enumerate(parent.rankings(self.setting.part.name, queries)):
            yield {**row, "grades": reporting.grades_row(self.graded, index, len(row["docs"]))}


class _Rescoring:
    def __init__(
        self,
        report: Report,
        config: ExperimentConfig,
        metrics: MetricChoice,
        chosen: ChosenLabels,
        config_file: str | Path | None,
        progress: Progress,
    ) -> None:
        self._report, self._config, self._options = report, config, config.evaluators
        self._metrics, self._chosen = metrics, chosen
        self._warnings = list(chosen.warnings)
        self._of_config = {setting.name: setting for setting in settings_of(config)[0]}
        strange = [setting.name for setting in report.settings if setting.name not in self._of_config]
        if strange:
            raise ReportError(
                f"run {report.run_id} has the settings {listed(strange, 3)}, which its own config does not make: it "
                "was written by another version. Run the experiment again."
            )
        queries = [query.id for query in chosen.labels.queries]
        top_ks = {name: setting.retriever.top_k for name, setting in self._of_config.items()}
        self._settings = [stored_setting(report, one, queries, top_ks[one.name]) for one in report.settings]
        self._corpus = self._documents(config_file, progress)
        self._library: Library = self._corpus.library if self._corpus else self._named()
        self._labels = self._looked_up()

    def made(self, judged: Sequence[_Judged]) -> Report:
        """The report of it, not yet written."""
        report, options, queries = self._report, self._options, reporting.query_parts(self._labels)
        warnings = [*self._kept_warnings(), *self._warnings]
        for one in judged:
            warnings += reporting.skipped_warnings(one.setting.part.name, one.setting.skipped)
            warnings += reporting.budget_warnings(one.setting.part.name, one.budget)
        graded = {one.setting.part.name: one.graded for one in judged}
        warnings += reporting.judged_warnings(graded, self._metrics.primary.k)
        tied = {one.setting.part.name: one.tied for one in judged}
        warnings += reporting.tie_warnings(tied, str(self._metrics.primary), options.ties)
        dataset = {
            "queries": len(queries),
            "labels_fingerprint": fingerprint([query.model_dump(mode="json") for query in queries]),
            "judged_whole": reporting.judged_whole_parts(self._labels, self._library) if options.unit == "span" else {},
        }
        return report.model_copy(
            update={
                "run_id": new_run_id(datetime.now(UTC)),
                "parent": report.run_id,
                "config": self._config.as_written,
                "dataset": report.dataset.model_copy(update=dataset),
                "span_coverage": options.span_coverage if options.unit == "span" else None,
                "relevance_threshold": options.relevance_threshold,
                "primary_metric": str(self._metrics.primary),
                "metrics": metric_parts(self._metrics, options),
                "prompt": self._labels.prompt,
                "queries": queries,
                "settings": [one.part() for one in judged],
                "warnings": [WarningPart(code=one.code, message=one.message) for one in dict.fromkeys(warnings)],
                "environment": environment(report.environment.get("packages", ())),
            }
        )

    def _warn(self, code: WarningCode, message: str) -> None:
        self._warnings.append(ReportWarning(code, message))

    def _documents(self, config_file: str | Path | None, progress: Progress) -> Corpus | None:
        """The documents, where labels cannot do without; where they only would be of use, if they are there."""
        by_span = self._options.unit == "span"
        whole = by_span and any(not one.spans for query in self._chosen.labels.queries for one in query.relevant_docs)
        needed = whole or self._chosen.need_texts(by_content=self._config.dataset.match == "content")
        if not (needed or by_span or config_file):
            return None
        try:
            return documents_of(self._report, config_file, progress)[1]
        except DocumentsNotFoundError:
            if needed or config_file:
                raise
            return None

    def _named(self) -> NamedDocuments:
        """The documents that rankings and labels name. Raises LabelsError if these have none in common."""
        found = {doc: None for one in self._settings for doc in one.docs}
        found |= dict.fromkeys(one.doc for query in self._report.queries for one in query.relevant_docs)
        labelled = dict.fromkeys(one.doc for query in self._chosen.labels.queries for one in query.relevant_docs)
        known = NamedDocuments(found)
        strange = [doc for doc in labelled if known.position(doc) is None]
        message = (
            f"{len(strange):,} of the {len(labelled):,} documents in the labels are in no stored ranking and in no "
            f"earlier label: {listed(strange, 5)}."
        )
        if strange and len(strange) == len(labelled):
            which = f"The report has {listed(found, 3)}. Are these the labels of another data set?"
            raise LabelsError(Fault(self._chosen.file, message=f"{message} {which}"))
        if strange:
            unchecked = "They count as not found; whether they exist was not checked (--config CONFIG does)."
            self._warn(WarningCode.UNKNOWN_DOCUMENTS, f"{message} {unchecked}")
        return NamedDocuments([*found, *strange])

    def _looked_up(self) -> PromptQueries:
        chosen, threshold = self._chosen, self._options.relevance_threshold
        if not chosen.are_places:
            match = "id" if chosen.are_qrels else self._config.dataset.match
            resolved = resolve(chosen.labels, self._library, match, chosen.file, threshold)
            self._warnings += resolved.warnings
            return resolved.labels
        unlabelled = unlabelled_share(chosen.labels, threshold)
        self._warnings += [unlabelled] if unlabelled else []
        return chosen.labels

    def judged(self) -> list[_Judged]:
        """Each setting by the new labels and metrics."""
        queries, options = self._labels.queries, self._options
        labels: SpanLabels | DocumentLabels
        if options.unit == "span":
            labels = span_labels(queries, self._library)
            self._warnings += whole_warnings(labels)
        else:
            labels = DocumentLabels.of(queries, self._library.positions)
        judged = []
        for one in self._settings:
            graded = self._graded(one, labels)
            evaluations = evaluated(graded, self._metrics, options, one.skipped)
            budget, sizes = None, one.sizes()
            if options.budget is not None and sizes.tokens is not None:
                budget = within_budget(graded, sizes, options.budget, self._metrics, options, one.skipped)
            elif options.budget is not None:
                self._warn(
                    WarningCode.BUDGET_NOT_KNOWN,
                    f"{one.part.name}: the run counted no tokens, so there are no scores within the budget.",
                )
            tied = None
            if options.unit == "document":
                tied = tied_means(one.documents(self._library), graded, evaluations[str(self._metrics.primary)])
            judged.append(_Judged(one, graded, evaluations, sizes, budget, tied))
        return judged

    def _graded(self, setting: StoredSetting, labels: SpanLabels | DocumentLabels) -> GradedRankings:
        if isinstance(labels, DocumentLabels):
            ranked, threshold = setting.documents(self._library), self._options.relevance_threshold
            return grade_codes(ranked, labels.judgments, labels.codes, setting.top_k, threshold)
        whole = self._all_chunks(setting)
        if whole is None:
            self._warn(
                WarningCode.CHUNKS_NOT_KNOWN,
                f"{setting.part.name}: what its chunks allow (span_precision_ceiling) is not known, since only the "
                "chunks in rankings are. --config CONFIG names where the others are; or run the experiment again.",
            )
        ranked, spans = setting.chunks(self._library, whole)
        return grade_chunks(ranked, spans, labels, setting.top_k, self._options, is_whole=whole is not None)

    def _all_chunks(self, setting: StoredSetting) -> Chunks | None:
        """The chunks that ``setting`` ranks, all of them, where they are there or can be cut without a model."""
        for one in self._of_config[setting.part.name].tree() if self._corpus else ():
            chunks = self._corpus.chunks(one, loads_models=False) if self._corpus else None
            if chunks is not None and setting.are_of(chunks):
                return chunks
        return None

    def _kept_warnings(self) -> list[ReportWarning]:
        """The warnings of the parent that speak of what did not change."""
        left_out = _OF_LABELS if all(one.is_all for one in self._settings) else _OF_LABELS | _OF_QUERIES
        kept = [ReportWarning(one.code, one.message) for one in self._report.warnings if one.code not in left_out]
        if any(setting.audit for setting in self._report.settings):
            message = (
                f"indexes were compared with exact search in run {self._report.run_id}, by its labels: what they lose "
                "by these is not known."
            )
            kept.append(ReportWarning(WarningCode.AUDIT_OF_PARENT, message))
        return kept
