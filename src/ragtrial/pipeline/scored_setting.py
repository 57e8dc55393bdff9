"""A scored setting: rankings against labels, graded by document or by passage, evaluated and audited.

It is filled from the stages of a run, from a stored report, or from a run file, and becomes one part of a report.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from ragtrial.config.metric_choice import MetricChoice
from ragtrial.config.models import EvaluatorOptions
from ragtrial.config.settings import Setting
from ragtrial.dataset.library import Library
from ragtrial.dataset.spans import ChunkSpans
from ragtrial.errors import LabelsError
from ragtrial.evaluation.bounds import tie_range, ties_that_matter
from ragtrial.evaluation.context_sizes import ContextSizes
from ragtrial.evaluation.evaluators import Evaluation, HitsOfQuery, QueryHits, evaluate
from ragtrial.evaluation.grading import DocumentLabels, GradedRankings, Scores, grade_spans
from ragtrial.evaluation.separation import top_scores
from ragtrial.evaluation.spans import Overlaps, SpanLabels, span_labels
from ragtrial.pipeline.measurement_stages import audit
from ragtrial.pipeline.results import SettingResult
from ragtrial.pipeline.retrieval import SettingRankings, found_texts
from ragtrial.rankings import PADDING, Bools, Rankings, collapse, from_rows
from ragtrial.records import Hit, Query
from ragtrial.report import schema

KNOWN = ("fingerprint", "parameters", "comparable", "facts", "index", "health", "timings", "costs", "latency")
"""The fields of a setting's part of the report that do not depend on labels."""


@dataclass(frozen=True, eq=False)
class EvaluatedRankings:
    """The rankings of a setting after grading, and the values of all metrics.

    ``tied`` is the range in which other orders of equal scores would move the mean of the primary metric; None if they
    cannot move it.
    """

    graded: GradedRankings
    evaluations: dict[str, Evaluation]
    budget: schema.BudgetPart | None
    tied: tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class ScoredSetting:
    """A setting with its scores, from any source.

    ``known`` has the fields of ``KNOWN``. ``short``, ``skipped`` and ``collapsed`` have one value per query.
    ``top_scores`` are those of first hits; NaN if they cannot be compared between questions. ``judged`` is None for a
    run file, whose hits are not kept; ``result`` is None for a setting that was not run here.
    """

    name: str
    query_ids: tuple[str, ...]
    evaluations: Mapping[str, Evaluation]
    known: Mapping[str, Any]
    counts: Mapping[str, int | None]
    short: Sequence[bool]
    skipped: Bools
    collapsed: Sequence[int]
    top_scores: Scores
    judged: EvaluatedRankings | None = None
    audit: schema.AuditPart | None = None
    context: Sequence[schema.ContextPart] = ()
    result: SettingResult | None = field(default=None, repr=False)

    @property
    def graded(self) -> GradedRankings:
        if self.judged is None:
            raise TypeError(f"the hits of {self.name} are not kept")
        return self.judged.graded

    @property
    def found(self) -> SettingResult:
        if self.result is None:
            raise TypeError(f"{self.name} was not run here")
        return self.result

    def renamed(self, setting: Setting) -> ScoredSetting:
        """The scores of an equal ``setting``, which may have another name."""
        result = self.found.of(setting)
        return replace(self, name=setting.name, result=result, known=result.described)

    def to_part(self, separation: schema.SeparationPart | None = None) -> schema.SettingPart:
        """Its part of the report."""
        judged = self.judged
        return schema.SettingPart(
            name=self.name,
            scores=means(self.evaluations),
            counts=dict(self.counts),
            audit=self.audit,
            separation=separation,
            context=list(self.context),
            budget=judged.budget if judged else None,
            per_query=schema.QueryColumns(
                evaluations={metric: values.as_list() for metric, values in self.evaluations.items()},
                short=list(self.short),
                skipped=self.skipped.tolist(),
                collapsed=list(self.collapsed),
                passages=passage_parts(judged.graded) if judged else None,
            ),
            **self.known,
        )


@dataclass(eq=False)
class Scorer:
    """Scores rankings by the labels of ``queries``, which were looked up in ``library``."""

    options: EvaluatorOptions
    metrics: MetricChoice
    queries: Sequence[Query]
    library: Library

    @cached_property
    def span_labels(self) -> SpanLabels:
        """The labels as passages of documents, for ``unit: span``."""
        return span_labels(self.queries, self.library)

    @cached_property
    def document_labels(self) -> DocumentLabels:
        return DocumentLabels.of(self.queries, self.library.positions)

    def score(self, result: SettingResult) -> ScoredSetting:
        """Score the ``result`` of a run."""
        ranked, top_k = result.ranked, result.setting.retriever.top_k
        skipped, hits = ranked.candidates.skipped, partial(found_texts, ranked, self.library)
        spans, is_whole = _spans(ranked), result.are_all
        judged = self.judge(ranked.rankings, spans, result.sizes, skipped, top_k, hits, is_whole=is_whole)
        part = None
        if result.audited:
            exact = result.audited.exact
            spans, hits = _spans(exact), partial(found_texts, exact, self.library)
            best = self.judge(exact.rankings, spans, None, skipped, top_k, hits, is_whole=is_whole)
            part = audit(result.setting, ranked, result.audited, judged.evaluations, best.evaluations)
        lengths = judged.graded.lengths
        return ScoredSetting(
            name=result.setting.name,
            query_ids=tuple(query.id for query in self.queries),
            evaluations=judged.evaluations,
            known=result.described,
            counts=result.counts(judged.graded),
            short=(lengths < top_k).tolist(),
            skipped=skipped,
            collapsed=ranked.dropped.tolist(),
            top_scores=top_scores(ranked.rankings, skipped, are_comparable=result.setting.has_comparable_scores),
            judged=judged,
            audit=part,
            context=tuple(context_parts(judged.evaluations, result.sizes, top_k, skipped)),
            result=result,
        )

    def judge(
        self,
        rankings: Rankings,
        chunks: ChunkSpans | None,
        sizes: ContextSizes | None,
        skipped: Bools,
        top_k: int,
        hits: HitsOfQuery,
        *,
        is_whole: bool,
    ) -> EvaluatedRankings:
        """Grade and evaluate ``rankings`` of ``chunks``, or without these of documents, by position in the library.

        ``hits`` are the same rankings for functions. ``is_whole`` says if ``chunks`` are all chunks of the setting.
        ``sizes`` are needed for a budget alone.
        """
        options, metrics = self.options, self.metrics
        if chunks is None:
            graded = self.document_labels.grade(rankings, top_k, options.relevance_threshold)
        else:
            graded = grade_chunks(rankings, chunks, self.span_labels, top_k, options, is_whole=is_whole)
        given = QueryHits(metrics.functions, self.queries, hits)
        evaluations = evaluate(metrics.metrics, graded, options.no_relevant, given, skipped)
        tied = tied_means(rankings, graded, evaluations[str(self.metrics.primary)])
        return EvaluatedRankings(graded, evaluations, self._within_budget(graded, sizes, skipped), tied)

    def _within_budget(
        self, graded: GradedRankings, sizes: ContextSizes | None, skipped: Bools
    ) -> schema.BudgetPart | None:
        """The scores of the first hits that fit into the budget, over the queries that were answered.

        None without a budget or known tokens. They go by the metric without its cutoff, since the budget cuts.
        """
        budget = self.options.budget
        if budget is None or sizes is None or sizes.tokens is None:
            return None
        hits, depth = np.minimum(sizes.fitting(budget), graded.lengths), graded.depth or 0
        not_full = (hits >= graded.lengths) & (graded.lengths >= depth) & ~skipped
        usual = float(np.median(sizes.tokens[not_full, -1])) if not_full.any() else 0.0
        metrics = self.metrics.at_depth(graded.depth).metrics
        within = evaluate(metrics, graded.cut(hits), self.options.no_relevant, skipped=skipped)
        return schema.BudgetPart(
            tokens=budget,
            hits=float(hits[~skipped].mean()) if not skipped.all() else 0.0,
            queries_not_full=int(not_full.sum()),
            top_k_needed=math.ceil(depth * budget / usual) if usual else None,
            scores=means({str(values.metric.at(None)): values for values in within.values()}),
        )


def _spans(ranked: SettingRankings) -> ChunkSpans | None:
    """The positions of ranked chunks; None for documents."""
    units = ranked.candidates.units
    return None if ranked.unit == "document" else ChunkSpans(units.document, units.start, units.end)


def tied_means(rankings: Rankings, graded: GradedRankings, evaluation: Evaluation) -> tuple[float, float] | None:
    """The lowest and the highest mean of ``evaluation`` over all orders of equal scores of documents in ``rankings``.

    None if all are equal, if no order is known to be best, and for passages.
    """
    if graded.unit == "span" or not len(graded.ranks):
        return None
    scores = rankings.scores
    ranks = np.broadcast_to(np.arange(1, rankings.depth + 1, dtype=np.int32), scores.shape)
    differs = np.diff(scores, axis=1) != 0  # an unknown score equals no other
    begins = np.pad(differs, ((0, 0), (1, 0)), constant_values=True)
    ends = np.pad(differs, ((0, 0), (0, 1)), constant_values=True)
    first = np.maximum.accumulate(np.where(begins, ranks, 0), axis=1)
    last = np.minimum.accumulate(np.where(ends, ranks, rankings.depth)[:, ::-1], axis=1)[:, ::-1]
    at_hits = graded.rows, graded.ranks - 1
    whole = replace(graded, ties=np.stack([first[at_hits], last[at_hits]], axis=1).astype(np.int32))
    if not ties_that_matter(whole).any():
        return None
    values = tie_range(evaluation.metric, whole)
    if values is None:
        return None
    low, high = (replace(evaluation, values=bound).mean.mean for bound in (values.low, values.high))
    return None if low is None or high is None or low == high else (low, high)


def means(evaluations: Mapping[str, Evaluation]) -> dict[str, schema.MeanPart]:
    return {name: schema.MeanPart(mean=values.mean.mean, n=values.mean.n) for name, values in evaluations.items()}


def context_parts(
    evaluations: Mapping[str, Evaluation], sizes: ContextSizes, top_k: int, skipped: Bools
) -> Iterator[schema.ContextPart]:
    """The size of the text at each cutoff of a metric, and at ``top_k``, over the queries that are not ``skipped``."""
    cutoffs = {values.metric.k for values in evaluations.values()} | {top_k}
    for k in sorted(k for k in cutoffs if k is not None):
        characters, tokens = sizes.at(k, ~skipped)
        yield schema.ContextPart(k=k, characters=characters, tokens=tokens)


def passage_parts(graded: GradedRankings) -> list[list[schema.PassagePart]] | None:
    """For each query the outcome for the passage of each label; None for rankings of documents."""
    if graded.overlaps is None:
        return None
    overlaps, starts = graded.overlaps, graded.judgments.starts.tolist()
    covered: list[list[schema.CoveredPart]] = [[] for _ in graded.judgments.grades]
    met = overlaps.meetings
    counted = (met.gained > 0) & overlaps.counted_passages(overlaps.codes.shape[1])[met.passages]
    shares = met.covered / overlaps.passages.lengths[met.passages]
    judgments = overlaps.passages.judgments[met.passages]
    columns = (judgments[counted].tolist(), met.ranks[counted].tolist(), shares[counted].tolist())
    for judgment, rank, share in zip(*columns, strict=True):
        covered[judgment].append(schema.CoveredPart(rank=rank, share=share))
    pairs = zip(overlaps.found_judgments.tolist(), covered, strict=True)
    parts = [schema.PassagePart(found=rank or None, covered=steps) for rank, steps in pairs]
    return [parts[start:end] for start, end in pairwise(starts)]


def grade_given_chunks(
    name: str,
    rows: Sequence[Sequence[Hit]],
    labels: SpanLabels,
    library: Library,
    depth: int,
    options: EvaluatorOptions,
) -> GradedRankings:
    """The grades of chunks from any source: the hits of each query, best first, with document, start and end.

    A chunk ranked twice counts once, at its first rank. Raises LabelsError for hits without a position, or with a
    position outside their document.
    """
    chunks: dict[tuple[str, int, int], int] = {}
    ranked = [[chunks.setdefault(_extent_of(name, hit, library), len(chunks)) for hit in row] for row in rows]
    documents = np.array([library.positions.get(doc, PADDING) for doc, _, _ in chunks], dtype=np.int32)
    extents = np.array([extent for _, *extent in chunks], dtype=np.int64).reshape(-1, 2)
    spans = ChunkSpans(documents, extents[:, 0], extents[:, 1])
    unique = collapse(from_rows(ranked), np.arange(len(chunks), dtype=np.int32)).rankings
    return grade_chunks(unique, spans, labels, depth, options, is_whole=False)


def grade_chunks(
    rankings: Rankings, chunks: ChunkSpans, labels: SpanLabels, depth: int, options: EvaluatorOptions, *, is_whole: bool
) -> GradedRankings:
    """The grades of rankings of ``chunks``; ``is_whole`` says whether these are all there are."""
    judgments, codes = labels.judgments, rankings.cut(depth).codes
    overlaps = Overlaps(codes, chunks, labels.passages, judgments, options.span_coverage, is_whole=is_whole)
    return grade_spans(overlaps, judgments, depth, options.relevance_threshold)


def _extent_of(name: str, hit: Hit, library: Library) -> tuple[str, int, int]:
    """Document, start and end of a hit. Raises LabelsError if it has none, or lies outside its document."""
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
