"""Differences within slices of the queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.number_text import signed, signed_interval
from ragtrial.comparison.statistics.estimates import side_of
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Family, Procedure
from ragtrial.evaluation.grading import Scores
from ragtrial.rankings import Bools
from ragtrial.records import Direction
from ragtrial.report.schema import Part, QueryPart, WarningPart

SlicingName = Literal["tag", "relevant documents", "relevant passages", "query length"]

MOST_SLICED = 20
"""Settings that are sliced at once: a table has no room for more."""


@dataclass(frozen=True, eq=False)
class QuerySlice:
    """Some of the queries; ``members`` has the shape (queries,)."""

    slicing: SlicingName
    name: str
    members: Bools


class SlicePart(Part):
    """Two settings by the primary metric over a slice of the queries: ``setting`` less ``baseline``."""

    slicing: SlicingName
    name: str
    """The slice of the slicing: a tag, or the bounds of a count."""

    baseline: str
    setting: str
    queries: int
    """How many queries of the slice count for any setting."""

    n: int
    """How many of them count for both."""

    mean_baseline: float | None
    mean: float | None
    difference: float | None
    """Null over no queries, as the means are."""

    ci: tuple[float, float] | None
    """Simultaneous for all slices of this pair; null for a small slice, or one in which too few queries (or clusters of
    queries) differ."""

    better: Direction = "higher"
    """Which values of the metric are better."""

    wins: int
    """Queries for which the setting has the better value."""

    ties: int
    losses: int
    contradicts: bool
    """True if ``ci`` and the interval over all queries exclude 0 on different sides."""


class SlicesPart(Part):
    """Where settings differ more, or the other way round."""

    metric: str
    least_differences: int
    """A slice in which fewer queries, or clusters of queries, differ has no interval."""

    slicings: list[SlicingName]
    """The slicings that divide the queries. Tags may overlap, other slices do not."""

    comparisons: list[SlicePart]
    """For each pair its slices, slicing by slicing."""

    settings_left_out: int
    """How many settings have none, because there are more than are sliced at once."""

    warnings: list[WarningPart]
    """One for each slice that contradicts the whole."""


def compare_slices(inputs: ComparisonInput, comparisons: Sequence[ComparisonPart], procedure: Procedure) -> SlicesPart:
    """The differences by the primary metric within each slice of the queries.

    ``comparisons`` are the comparisons over all queries. If a setting is in several of them, as in all pairs, the
    comparisons with the best baseline are used. At most ``MOST_SLICED`` settings are sliced. The intervals of one pair
    are simultaneous over all slices. A slice in which fewer than ``LEAST_DIFFERENCES`` queries differ has no interval.
    """
    wholes = [part for part in comparisons if part.metric == inputs.primary]
    if len({part.setting for part in wholes}) < len(wholes):
        sign = inputs.sign(inputs.primary)
        best = max(wholes, key=lambda part: sign * (part.mean_baseline or 0.0))
        wholes = [part for part in wholes if part.baseline == best.baseline]
    sliced = wholes[:MOST_SLICED]
    scores = inputs.scores(inputs.primary)
    slices = slices_of(inputs, np.asarray(~np.isnan(scores.values).all(axis=0)))
    pairs = [inputs.pair(whole.baseline, whole.setting) for whole in sliced]
    members, differences = np.array([query_slice.members for query_slice in slices]), scores.differences(pairs)
    families = [Family(np.where(members, row, np.nan), None, inputs.clusters) for row in differences if slices]
    inferences = infer(families, procedure) if families else []  # without slices there are none
    parts = [
        _part(whole, scores.values[[pair.baseline, pair.setting]], row, query_slice, ci)
        for whole, pair, row, inference in zip(sliced, pairs, differences, inferences, strict=bool(slices))
        for query_slice, *ci in zip(slices, inference.low.tolist(), inference.high.tolist(), strict=True)
    ]
    gains = {(whole.baseline, whole.setting): whole.gain_ci for whole in sliced}
    return SlicesPart(
        settings_left_out=len(wholes) - len(sliced),
        metric=inputs.primary,
        least_differences=LEAST_DIFFERENCES,
        slicings=list(dict.fromkeys(query_slice.slicing for query_slice in slices)),
        comparisons=parts,
        warnings=[_warning(part, gains[part.baseline, part.setting]) for part in parts if part.contradicts],
    )


def _part(
    whole: ComparisonPart, values: Scores, differences: Scores, query_slice: QuerySlice, ends: Sequence[float]
) -> SlicePart:
    """``values`` are the baseline's and the setting's, ``ends`` the interval, NaN if there is none."""
    both = query_slice.members & ~np.isnan(differences)
    own = differences[both]
    before, after, difference = (float(row[both].mean()) if len(own) else None for row in (*values, differences))
    ci = (ends[0], ends[1]) if np.isfinite(ends).all() else None
    gains = -own if whole.better == "lower" else own
    return SlicePart(
        slicing=query_slice.slicing,
        name=query_slice.name,
        baseline=whole.baseline,
        setting=whole.setting,
        queries=int(query_slice.members.sum()),
        n=len(own),
        mean_baseline=before,
        mean=after,
        difference=difference,
        ci=ci,
        better=whole.better,
        wins=int(np.count_nonzero(gains > 0)),
        ties=int(np.count_nonzero(gains == 0)),
        losses=int(np.count_nonzero(gains < 0)),
        contradicts=side_of(ci) * side_of(whole.ci) < 0,
    )


def _warning(part: SlicePart, whole: tuple[float, float] | None) -> WarningPart:
    """``whole`` is the interval of the gain over all queries."""
    overall, here = ("better", "worse") if side_of(whole) > 0 else ("worse", "better")
    ends = signed_interval(part.ci, part.n, " to ")
    return WarningPart(
        code="slice-contradicts",
        may_change_verdict=True,
        message=f"{part.setting} is {overall} than {part.baseline} over all questions, and {here} over the {part.n:,} "
        f"of {part.slicing} {part.name}: {signed(part.difference, part.n)}, {ends}.",
    )


def slices_of(inputs: ComparisonInput, counted: Bools) -> list[QuerySlice]:
    """The slices of the queries that are ``counted``, shape (queries,); other queries are in no slice.

    Queries are sliced by tag (a query may have several); by the number of relevant documents, or passages under unit:
    span; and by the number of words, in thirds. Slices of no queries, or of all, are left out.
    """
    is_span, threshold = inputs.report.unit == "span", inputs.report.relevance_threshold
    judged = [query.relevant_docs for query in inputs.queries]
    relevant = [[label.doc for label in labels if label.relevance >= threshold] for labels in judged]
    numbers = np.array([len(docs if is_span else set(docs)) for docs in relevant])
    slicing: SlicingName = "relevant passages" if is_span else "relevant documents"
    bounds = (("0", 0, 0), ("1", 1, 1), ("2-3", 2, 3), ("4 and more", 4, np.inf))
    by_number = [QuerySlice(slicing, name, (numbers >= low) & (numbers <= high)) for name, low, high in bounds]
    slices = [*_by_tag(inputs.queries), *by_number, *_by_length(inputs.queries, counted)]
    within = [replace(query_slice, members=query_slice.members & counted) for query_slice in slices]
    return [
        query_slice for query_slice in within if query_slice.members.any() and (query_slice.members != counted).any()
    ]


def _by_tag(queries: Sequence[QueryPart]) -> Iterator[QuerySlice]:
    tags = dict.fromkeys(tag for query in queries for tag in query.tags)
    for tag in tags:
        yield QuerySlice("tag", tag, np.array([tag in query.tags for query in queries], dtype=np.bool_))
    if tags:
        yield QuerySlice("tag", "no tag", np.array([not query.tags for query in queries], dtype=np.bool_))


def _by_length(queries: Sequence[QueryPart], counted: Bools) -> Iterator[QuerySlice]:
    """Three slices about as large, equal lengths in one; fewer where lengths repeat. Without a text it is unknown."""
    lengths = np.array([len(query.text.split()) for query in queries])
    known = counted & (lengths > 0)
    if known.any():
        bounds = np.unique(np.quantile(lengths[known], [1 / 3, 2 / 3], method="inverted_cdf"))
        thirds = np.searchsorted(bounds, lengths)
        for third in np.unique(thirds[known]):
            members = known & (thirds == third)
            low, high = lengths[members].min(), lengths[members].max()
            span = "1 word" if high == 1 else f"{low} words" if low == high else f"{low}-{high} words"
            yield QuerySlice("query length", span, members)
    yield QuerySlice("query length", "unknown", lengths == 0)
