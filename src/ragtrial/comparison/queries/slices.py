"""Whether a difference holds for each kind of queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.contest import ComparisonSet, Pair
from ragtrial.comparison.figures import signed
from ragtrial.comparison.queries.slicing import QuerySlice, SlicingName, slices_of
from ragtrial.comparison.statistics.flips import infer
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Family, Inference, Procedure
from ragtrial.evaluation.grading import Scores
from ragtrial.records import WarningCode
from ragtrial.report.schema import Part, WarningPart

_COLUMNS_AT_ONCE = 1000
"""Differences are held for so many columns: over 5,000 queries 40 MB."""


class SlicePart(Part):
    """Two settings by the primary metric over a slice of the queries: ``setting`` less ``baseline``."""

    slicing: SlicingName
    name: str
    """Which slice of the slicing: a tag, or the bounds of what was counted."""

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
    """Simultaneous for all slices of this pair; null for a small slice, or one in which too few queries differ."""

    wins: int
    """Queries for which the setting has the higher value."""

    ties: int
    losses: int
    contradicts: bool
    """Whether ``ci`` and the interval over all queries leave out 0 on different sides."""


class SlicesPart(Part):
    """Where settings differ more, or the other way round."""

    metric: str
    least_differences: int
    """A slice in which fewer queries differ has no interval."""

    slicings: list[SlicingName]
    """Those that part the queries at all: the tags may overlap, the slices of any other do not."""

    comparisons: list[SlicePart]
    """For each pair its slices, slicing by slicing."""

    warnings: list[WarningPart]
    """One for each slice that contradicts the whole."""


def compare_slices(contest: ComparisonSet, comparisons: Sequence[ComparisonPart], procedure: Procedure) -> SlicesPart:
    """The differences by the primary metric within each slice of the queries.

    ``comparisons`` are what is said of all queries. Where a setting is in several, as in all pairs, those with the
    best baseline are taken, the one with the highest mean. The intervals of one pair hold together, whatever the slice;
    for a slice in which fewer than ``LEAST_DIFFERENCES`` queries differ there is none. Raises ReportError if
    the texts of a report are damaged.
    """
    wholes = _chosen([part for part in comparisons if part.metric == contest.primary])
    scores = contest.scores(contest.primary)
    slices = slices_of(contest, np.asarray(~np.isnan(scores.values).all(axis=0)))
    pairs = [Pair(contest.place(whole.baseline), contest.place(whole.setting)) for whole in wholes]
    differences = scores.differences(pairs)
    inferred = _inferred(differences, slices, procedure)
    parts = [
        _part(whole, scores.values[[pair.baseline, pair.setting]], row, one, ci)
        for whole, pair, row, intervals in zip(wholes, pairs, differences, inferred, strict=True)
        for one, ci in zip(slices, intervals, strict=True)
    ]
    of_pair = {(whole.baseline, whole.setting): whole for whole in wholes}
    return SlicesPart(
        metric=contest.primary,
        least_differences=LEAST_DIFFERENCES,
        slicings=list(dict.fromkeys(one.slicing for one in slices)),
        comparisons=parts,
        warnings=[_warning(of_pair[part.baseline, part.setting], part) for part in parts if part.contradicts],
    )


def _chosen(wholes: Sequence[ComparisonPart]) -> list[ComparisonPart]:
    """All, where each setting is compared once; else those with the best baseline."""
    if len({part.setting for part in wholes}) == len(wholes):
        return list(wholes)
    best = max(wholes, key=lambda part: part.mean_baseline or 0.0)
    return [part for part in wholes if part.baseline == best.baseline]


Interval = tuple[float, float]


def _inferred(
    differences: Scores, slices: Sequence[QuerySlice], procedure: Procedure
) -> Iterator[list[Interval | None]]:
    """For each pair the interval of each slice."""
    members = np.array([one.members for one in slices], dtype=np.bool_).reshape(len(slices), differences.shape[1])
    at_once = max(1, _COLUMNS_AT_ONCE // max(1, 2 * len(slices)))
    for start in range(0, len(differences), at_once):
        columns = [np.where(members, row, np.nan) for row in differences[start : start + at_once]]
        for inference in infer([Family(one, np.eye(len(slices))) for one in columns], procedure):
            yield list(_intervals(inference))


def _intervals(inference: Inference) -> Iterator[Interval | None]:
    for low, high in zip(inference.low.tolist(), inference.high.tolist(), strict=True):
        yield (low, high) if np.isfinite(low) and np.isfinite(high) else None


def _part(whole: ComparisonPart, values: Scores, row: Scores, one: QuerySlice, ci: Interval | None) -> SlicePart:
    """``values`` are the baseline's and the setting's, ``row`` the differences."""
    both = one.members & ~np.isnan(row)
    before, after = values[:, both]
    differences = row[both]
    return SlicePart(
        slicing=one.slicing,
        name=one.name,
        baseline=whole.baseline,
        setting=whole.setting,
        queries=int(one.members.sum()),
        n=len(differences),
        mean_baseline=float(before.mean()) if len(before) else None,
        mean=float(after.mean()) if len(after) else None,
        difference=float(differences.mean()) if len(differences) else None,
        ci=ci,
        wins=int(np.count_nonzero(differences > 0)),
        ties=int(np.count_nonzero(differences == 0)),
        losses=int(np.count_nonzero(differences < 0)),
        contradicts=_side(ci) * _side(whole.ci) < 0,
    )


def _side(ci: Interval | None) -> int:
    """1 for an interval above 0, -1 for one below, 0 for one with 0 in it, or none."""
    if ci is None:
        return 0
    return int(ci[0] > 0) - int(ci[1] < 0)


def _warning(whole: ComparisonPart, part: SlicePart) -> WarningPart:
    of_all, here = ("better", "worse") if _side(whole.ci) > 0 else ("worse", "better")
    low, high = part.ci or (np.nan, np.nan)
    return WarningPart(
        code=WarningCode.SLICE_CONTRADICTS,
        message=f"{part.setting} is {of_all} than {part.baseline} over all queries, and {here} over the {part.n:,} of "
        f"{part.slicing} {part.name}: {signed(part.difference)}, {signed(low)} to {signed(high)}.",
    )
