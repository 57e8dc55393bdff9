"""A report scored again: what was found stays, by which labels and metrics it is judged changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.config import ExperimentConfig
from ragtrial.config.load import check
from ragtrial.config.metric_choice import MetricChoice
from ragtrial.config.settings import Setting, settings_of
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library, NamedDocuments
from ragtrial.dataset.resolution import ResolvedLabels, resolve
from ragtrial.errors import Fault, InputError, LabelsError, ModelNotFoundError, ReportError, listed
from ragtrial.evaluation.context_sizes import ContextSizes
from ragtrial.evaluation.evaluators import Evaluation
from ragtrial.evaluation.grading import DocumentLabels, GradedRankings, grade_codes
from ragtrial.evaluation.span_labels import SpanLabels, span_labels, whole_warnings
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.metric_descriptions import metric_parts
from ragtrial.pipeline.reporting import (
    budget_warnings,
    context_parts,
    passage_parts,
    query_parts,
    skipped_warnings,
)
from ragtrial.pipeline.scores import evaluated, grade_chunks, means, within_budget
from ragtrial.progress import Progress, Silent
from ragtrial.records import PromptQueries, ReportWarning, WarningCode
from ragtrial.report.environment import environment
from ragtrial.report.model import Report, new_run_id
from ragtrial.report.schema import AuditPart, BudgetPart, ContextPart, SettingPart, WarningPart
from ragtrial.scoring.rescoring.new_labels import ChosenLabels, choose_labels
from ragtrial.scoring.rescoring.report_documents import DocumentsNotFoundError, documents_of
from ragtrial.scoring.rescoring.rules import chosen_metrics, config_of
from ragtrial.scoring.rescoring.scored_runs import is_of_given_runs, rescore_given_runs
from ragtrial.scoring.rescoring.stored import StoredSetting, chunk_tokens, stored_settings
from ragtrial.scoring.rescoring.writing import check_new, write_rescored

_OF_LABELS = {
    "no-relevant", "same-label", "label-moved", "text-changed", "quote-twice", "passage-twice", "no-passage",
    "empty-passage", "overlay", "overlay-missing", "limit", "index-loss", "budget-not-full", "skipped",
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
    ``evaluators``, ``metrics`` names with commas between in place of those of the config. The numbers are those of a
    run with these labels and metrics, and the same rankings. Documents are read only where labels have passages:
    those of ``config_file``, else of the config of the report. ``target`` is a new folder, by default one beside that
    of ``report``.

    Raises CutoffError for metrics that look deeper than was kept, LabelsError, DocumentsNotFoundError, ReportError.
    """
    if labels is None and metrics is None and not overrides:
        raise InputError("nothing would change: give --labels, --metrics, or --set evaluators...")
    if target is not None:
        check_new(target)
    if is_of_given_runs(report):
        if overrides or config_file:
            raise InputError("--set and --config belong to experiments; a report of `ragtrial score` has no config.")
        return rescore_given_runs(report, labels, metrics, target)
    config = config_of(report, overrides, metrics, report.folder)
    chosen = choose_labels(report, labels)
    choice = chosen_metrics(config, ordered=any(query.ordered for query in chosen.labels.queries))
    check(config)
    made = _Rescoring(report, config, choice, chosen, config_file, progress or Silent()).made()
    return write_rescored(report, made, target)


@dataclass(frozen=True, eq=False)
class _Judged:
    """What is said of one setting now."""

    setting: StoredSetting
    graded: GradedRankings
    evaluations: dict[str, Evaluation]
    sizes: ContextSizes
    budget: BudgetPart | None


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
        self._report = report
        self._config = config
        self._options = config.evaluators
        self._metrics = metrics
        self._chosen = chosen
        self._warnings = list(chosen.warnings)
        self._of_config = _settings(report, config)
        queries = [query.id for query in chosen.labels.queries]
        top_ks = {name: setting.retriever.top_k for name, setting in self._of_config.items()}
        self._settings = stored_settings(report, queries, top_ks)
        self._corpus = self._documents(config_file, progress)
        self._library: Library = self._corpus.library if self._corpus else self._named()
        self._labels = self._looked_up()

    def made(self) -> Report:
        """The report of it, not yet written."""
        judged = self._judged()
        report, options = self._report, self._options
        queries = query_parts(self._labels)
        told = [*self._kept_warnings(), *self._warnings]
        for one in judged:
            told += skipped_warnings(one.setting.part.name, one.setting.skipped)
            told += budget_warnings(one.setting.part.name, one.budget)
        dataset = report.dataset.model_copy(
            update={
                "queries": len(queries),
                "labels_fingerprint": fingerprint([query.model_dump(mode="json") for query in queries]),
            }
        )
        return report.model_copy(
            update={
                "run_id": new_run_id(datetime.now(UTC)),
                "parent": report.run_id,
                "config": self._config.as_written,
                "dataset": dataset,
                "span_coverage": options.span_coverage if options.unit == "span" else None,
                "primary_metric": str(self._metrics.primary),
                "metrics": metric_parts(self._metrics, options),
                "prompt": self._labels.prompt,
                "queries": queries,
                "settings": [self._part(one) for one in judged],
                "warnings": [WarningPart(code=one.code, message=one.message) for one in dict.fromkeys(told)],
                "environment": environment(),
            }
        )

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
        found = dict.fromkeys(doc for one in self._settings for row in one.rows for doc in row["docs"])
        found |= dict.fromkeys(one.doc for query in self._report.queries for one in query.relevant_docs)
        known = NamedDocuments(found)
        labelled = dict.fromkeys(one.doc for query in self._chosen.labels.queries for one in query.relevant_docs)
        strange = [doc for doc in labelled if known.position(doc) is None]
        if labelled and len(strange) == len(labelled):
            message = (
                f"judges {listed(strange, 3)}, and none of the {len(labelled):,} documents that it judges was found or "
                f"labelled in run {self._report.run_id}, which has {listed(found, 3)}. Are these the labels of "
                "another data set?"
            )
            raise LabelsError(Fault(self._chosen.file, message=message))
        if strange:
            message = (
                f"{len(strange):,} of the {len(labelled):,} documents in the labels stand in no stored ranking and in "
                f"no earlier label: {listed(strange, 5)}. They count as not found; whether they exist was not checked "
                "(--config CONFIG does)."
            )
            self._warnings.append(ReportWarning(WarningCode.UNKNOWN_DOCUMENTS, message))
        return NamedDocuments([*found, *strange])

    def _looked_up(self) -> PromptQueries:
        chosen, match = self._chosen, self._config.dataset.match
        if not chosen.are_places:
            resolved: ResolvedLabels = resolve(
                chosen.labels,
                self._library,
                "id" if chosen.are_qrels else match,
                chosen.file,
                self._options.relevance_threshold,
            )
            self._warnings += resolved.warnings
            return resolved.labels
        absent = sorted(
            {one.doc for query in chosen.labels.queries for one in query.relevant_docs} - self._library.positions.keys()
        )
        if absent:
            raise ReportError(f"run {self._report.run_id} judges {listed(absent, 3)}, which its documents do not have.")
        threshold = self._options.relevance_threshold
        for query in chosen.labels.queries:
            if all(one.relevance < threshold for one in query.relevant_docs):
                self._warnings.append(
                    ReportWarning(WarningCode.NO_RELEVANT, f"query {query.id!r} has no relevant documents.")
                )
        return chosen.labels

    def _judged(self) -> list[_Judged]:
        queries, options = self._labels.queries, self._options
        by_span = span_labels(queries, self._library) if options.unit == "span" else None
        by_document = DocumentLabels.of(queries, self._library.positions) if by_span is None else None
        if by_span is not None:
            self._warnings += whole_warnings(by_span)
        judged = []
        for one in self._settings:
            graded = self._graded(one, by_document, by_span)
            evaluations = evaluated(graded, self._metrics, options, one.skipped)
            budget = None
            sizes = one.sizes(self._tokens)
            if options.budget is not None and sizes.tokens is not None:
                budget = within_budget(graded, sizes, options.budget, self._metrics, options, one.skipped)
            judged.append(_Judged(one, graded, evaluations, sizes, budget))
        return judged

    def _graded(
        self, setting: StoredSetting, by_document: DocumentLabels | None, by_span: SpanLabels | None
    ) -> GradedRankings:
        threshold = self._options.relevance_threshold
        if by_document is not None:
            ranked = setting.documents(self._library.positions)
            return grade_codes(ranked, by_document.judgments, by_document.codes, setting.top_k, threshold)
        assert by_span is not None  # noqa: S101 - one of both
        whole = self._all_chunks(setting)
        if whole is None:
            message = (
                f"{setting.part.name}: what its chunks allow (span_precision_ceiling) is not known, since only the "
                "chunks in rankings are. --config CONFIG names where the others are; or run the experiment again."
            )
            self._warnings.append(ReportWarning(WarningCode.CHUNKS_NOT_KNOWN, message))
        ranked, spans = setting.chunks(self._library, whole)
        return grade_chunks(ranked, spans, by_span, setting.top_k, self._options, is_whole=whole is not None)

    def _all_chunks(self, setting: StoredSetting) -> Chunks | None:
        """The chunks that ``setting`` ranks, all of them, where they are there or can be cut without a model."""
        if self._corpus is None:
            return None
        for one in self._of_config[setting.part.name].tree():
            chunks = self._corpus.chunks(one, loads_models=False)
            if chunks is not None and setting.are_of(chunks):
                return chunks
        return None

    def _tokenizer(self) -> Tokenizer | None:
        try:
            return self._config.embedder.tokenizer()
        except ModelNotFoundError:
            return None

    @cached_property
    def _tokens(self) -> Mapping[str, int] | None:
        tokens = chunk_tokens(self._report, self._settings, self._tokenizer)
        if tokens is None and self._options.budget is not None:
            message = (
                "how many tokens the hits have is not known of all of them, and their tokenizer cannot be had here: "
                "the scores within the budget were left out."
            )
            self._warnings.append(ReportWarning(WarningCode.BUDGET_NOT_KNOWN, message))
        return tokens

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

    def _part(self, one: _Judged) -> SettingPart:
        stored, part = one.setting, one.setting.part
        passages = passage_parts(one.graded)
        queries = []
        for index, query in enumerate(stored.queries):
            grades = one.graded.grades_by_rank(index)
            changes = {
                "evaluations": {name: evaluation.of(index) for name, evaluation in one.evaluations.items()},
                "hits": [hit.model_copy(update={"grade": grades.get(hit.rank)}) for hit in query.hits],
                "passages": passages[index] if passages else None,
            }
            queries.append(query.model_copy(update=changes))
        return part.model_copy(
            update={
                "scores": means(one.evaluations),
                "counts": part.counts if stored.is_all else stored.counts(),
                "audit": _audit(part.audit, one.evaluations) if stored.is_all else None,
                "context": self._context(one),
                "budget": one.budget,
                "queries": queries,
            }
        )

    def _context(self, one: _Judged) -> list[ContextPart]:
        """How much text there is at each cutoff: as the run has told, where it has and the queries are the same."""
        told = {part.k: part for part in one.setting.part.context} if one.setting.is_all else {}
        made = context_parts(one.evaluations, one.sizes, one.setting.top_k, one.setting.skipped)
        return [told.get(part.k, part) for part in made]


def _settings(report: Report, config: ExperimentConfig) -> dict[str, Setting]:
    """The settings of ``config`` by name. Raises ReportError if one of the report is not among them."""
    made = {setting.name: setting for setting in settings_of(config)[0]}
    strange = [setting.name for setting in report.settings if setting.name not in made]
    if strange:
        raise ReportError(
            f"run {report.run_id} has the settings {listed(strange, 3)}, which its own config does not make: it was "
            "written by another version. Run the experiment again."
        )
    return {setting.name: made[setting.name] for setting in report.settings}


def _audit(audit: AuditPart | None, evaluations: Mapping[str, Evaluation]) -> AuditPart | None:
    """What is known of an index without its exact rankings: what it finds, not what that is worth."""
    return audit and audit.model_copy(update={"lost": dict.fromkeys(evaluations)})
