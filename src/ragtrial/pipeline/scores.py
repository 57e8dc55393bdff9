"""The scores of a setting: its rankings against labels, graded by document or by passage, evaluated and audited."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ragtrial.config.metric_choice import MetricChoice
from ragtrial.config.models import EvaluatorOptions
from ragtrial.dataset.library import Library
from ragtrial.dataset.spans import ChunkSpans
from ragtrial.errors import LabelsError
from ragtrial.evaluation.bounds import tie_range, ties_that_matter
from ragtrial.evaluation.context_sizes import ContextSizes
from ragtrial.evaluation.evaluators import EVALUATORS, Evaluation
from ragtrial.evaluation.grading import DocumentLabels, GradedRankings, grade_codes, grade_spans
from ragtrial.evaluation.span_labels import SpanLabels, span_labels
from ragtrial.evaluation.span_overlap import Overlaps
from ragtrial.pipeline.audit_stage import audit
from ragtrial.pipeline.results import SettingResult
from ragtrial.pipeline.retrieval import Ranked
from ragtrial.rankings import PADDING, Bools, Rankings, collapse, from_rows
from ragtrial.records import Hit, Query
from ragtrial.report.schema import AuditPart, BudgetPart, MeanPart


@dataclass(frozen=True, eq=False)
class Scored:
    """The rankings of a setting, graded, and what the evaluators say of them.

    ``tied`` is how far other orders of equal scores would move the mean of the primary metric; None if they cannot.
    """

    query_ids: tuple[str, ...]
    result: SettingResult
    graded: GradedRankings
    evaluations: dict[str, Evaluation]
    audit: AuditPart | None
    budget: BudgetPart | None
    tied: tuple[float, float] | None


class Scorer:
    """Scores rankings by labels that are looked up in ``library`` already."""

    def __init__(
        self, options: EvaluatorOptions, metrics: MetricChoice, queries: Sequence[Query], library: Library
    ) -> None:
        self._options = options
        self._metrics = metrics
        self._queries = queries
        self._library = library

    @cached_property
    def span_labels(self) -> SpanLabels:
        """The labels as passages of documents, for ``unit: span``."""
        return span_labels(self._queries, self._library)

    @cached_property
    def _document_labels(self) -> DocumentLabels:
        return DocumentLabels.of(self._queries, self._library.positions)

    def score(self, result: SettingResult) -> Scored:
        """``result``, graded and evaluated."""
        options, metrics, skipped = self._options, self._metrics, result.ranked.candidates.skipped
        graded = self._graded(result, result.ranked)
        evaluations = evaluated(graded, metrics, options, skipped)
        part = budget = None
        if result.audited:
            exact = evaluated(self._graded(result, result.audited.exact), metrics, options, skipped)
            part = audit(result.setting, result.ranked, result.audited, evaluations, exact)
        if options.budget is not None:
            budget = within_budget(graded, result.sizes, options.budget, metrics, options, skipped)
        tied = tied_means(result.ranked.rankings, graded, evaluations[str(metrics.primary)])
        return Scored(tuple(query.id for query in self._queries), result, graded, evaluations, part, budget, tied)

    def _graded(self, result: SettingResult, ranked: Ranked) -> GradedRankings:
        options, top_k, chunks = self._options, result.setting.retriever.top_k, ranked.candidates.units
        if options.unit == "document":
            labels, rankings = self._document_labels, ranked.rankings.cut(top_k)
            return grade_codes(rankings, labels.judgments, labels.codes, top_k, options.relevance_threshold)
        spans = ChunkSpans(chunks.document, chunks.start, chunks.end)
        return grade_chunks(ranked.rankings, spans, self.span_labels, top_k, options, is_whole=result.are_all)


def evaluated(
    graded: GradedRankings, metrics: MetricChoice, options: EvaluatorOptions, skipped: Bools | None = None
) -> dict[str, Evaluation]:
    """The evaluations by the metric's name.

    A query that could not be answered, one of ``skipped`` (queries,), counts in none: 0 would be a lie.
    """
    made: dict[str, Evaluation] = {}
    for evaluator in EVALUATORS:
        made.update(evaluator(metrics.of(evaluator.family), options.no_relevant).evaluate(graded))
    if skipped is None or not skipped.any():
        return made
    return {name: replace(one, counted=one.counted & ~skipped) for name, one in made.items()}


def tied_means(rankings: Rankings, graded: GradedRankings, evaluation: Evaluation) -> tuple[float, float] | None:
    """The lowest and the highest mean of ``evaluation`` over all orders of equal scores of documents in ``rankings``.

    None if all are equal, if no order is known to be best, and for passages.
    """
    if graded.unit == "span" or not len(graded.ranks):
        return None
    scores = rankings.scores
    ranks = np.broadcast_to(np.arange(1, rankings.depth + 1, dtype=np.int32), scores.shape)
    differs = np.diff(scores, axis=1) != 0  # what is not known is equal to nothing
    begins = np.pad(differs, ((0, 0), (1, 0)), constant_values=True)
    ends = np.pad(differs, ((0, 0), (0, 1)), constant_values=True)
    first = np.maximum.accumulate(np.where(begins, ranks, 0), axis=1)
    last = np.minimum.accumulate(np.where(ends, ranks, rankings.depth)[:, ::-1], axis=1)[:, ::-1]
    here = graded.rows, graded.ranks - 1
    whole = replace(graded, ties=np.stack([first[here], last[here]], axis=1).astype(np.int32))
    if not ties_that_matter(whole).any():
        return None
    values = tie_range(evaluation.metric, whole)
    if values is None:
        return None
    low, high = (replace(evaluation, values=one).mean.mean for one in (values.low, values.high))
    return None if low is None or high is None or low == high else (low, high)


def within_budget(
    graded: GradedRankings,
    sizes: ContextSizes,
    budget: int,
    metrics: MetricChoice,
    options: EvaluatorOptions,
    skipped: Bools,
) -> BudgetPart:
    """The scores of the first hits that fit into ``budget`` tokens, of the queries that were answered.

    They go by the metric without its cutoff, which the budget is. Raises ValueError without known tokens.
    """
    hits, depth = np.minimum(sizes.fitting(budget), graded.lengths), graded.depth or 0
    not_full = (hits >= graded.lengths) & (graded.lengths >= depth) & ~skipped
    is_known = sizes.tokens is not None and not_full.any()
    usual = float(np.median(sizes.tokens[not_full, -1])) if sizes.tokens is not None and is_known else 0.0
    within = evaluated(graded.cut(hits), metrics.at_depth(graded.depth), options, skipped)
    return BudgetPart(
        tokens=budget,
        hits=float(hits[~skipped].mean()) if not skipped.all() else 0.0,
        queries_not_full=int(not_full.sum()),
        top_k_needed=math.ceil(depth * budget / usual) if usual else None,
        scores=means({str(one.metric.at(None)): one for one in within.values()}),
    )


def means(evaluations: Mapping[str, Evaluation]) -> dict[str, MeanPart]:
    return {name: MeanPart(mean=one.mean.mean, n=one.mean.n) for name, one in evaluations.items()}


def grade_given_chunks(
    name: str,
    rows: Sequence[Sequence[Hit]],
    labels: SpanLabels,
    library: Library,
    depth: int,
    options: EvaluatorOptions,
) -> GradedRankings:
    """The grades of chunks from any source: the hits of each query, best first, with document, start and end.

    A chunk ranked twice counts once, at its first rank. Raises LabelsError for hits that do not say where they are, or
    lie outside their document.
    """
    chunks: dict[tuple[str, int, int], int] = {}
    ranked = [[chunks.setdefault(_place_of(name, hit, library), len(chunks)) for hit in row] for row in rows]
    documents = np.array([library.positions.get(doc, PADDING) for doc, _, _ in chunks], dtype=np.int32)
    places = np.array([place for _, *place in chunks], dtype=np.int64).reshape(-1, 2)
    spans = ChunkSpans(documents, places[:, 0], places[:, 1])
    unique = collapse(from_rows(ranked), np.arange(len(chunks), dtype=np.int32)).rankings
    return grade_chunks(unique, spans, labels, depth, options, is_whole=False)


def grade_chunks(
    rankings: Rankings,
    chunks: ChunkSpans,
    labels: SpanLabels,
    depth: int,
    options: EvaluatorOptions,
    *,
    is_whole: bool,
) -> GradedRankings:
    """The grades of rankings of ``chunks``; ``is_whole`` says whether these are all there are."""
    judgments, codes = labels.judgments, rankings.cut(depth).codes
    overlaps = Overlaps(codes, chunks, labels.passages, judgments.grades, options.span_coverage, is_whole=is_whole)
    return grade_spans(overlaps, judgments, depth, options.relevance_threshold)


def _place_of(name: str, hit: Hit, library: Library) -> tuple[str, int, int]:
    """Document, start and end of a hit. Raises LabelsError where it has none, or lies outside its document."""
    position = library.positions.get(hit.doc)
    length = None if position is None else len(library.text(position))
    start, end = hit.start, hit.end
    if start is None or end is None or not 0 <= start <= end <= (end if length is None else length):
        has = "" if length is None else f" (0 to {length:,} in this document)"
        raise LabelsError(
            f"results of {name!r} have a hit of {hit.doc!r} with start {start} and end {end}; under unit: span a hit "
            f"must say which characters of the document's normalised text it has{has}."
        )
    return hit.doc, start, end
