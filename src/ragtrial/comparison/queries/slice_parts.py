"""What a comparison says of kinds of queries; a part of what ``ragtrial compare --json`` prints."""

from __future__ import annotations

from typing import Literal

from ragtrial.report.schema import Part, WarningPart

SlicingName = Literal["tag", "relevant documents", "relevant passages", "query length", "word overlap"]


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
