"""Where intervals are still rougher than others, as ``benchmarks/simulations.py`` shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragtrial.comparison.comparison_parts import Caution, ComparisonPart
from ragtrial.comparison.statistics.samples import queries_for_skewness
from ragtrial.errors import listed
from ragtrial.records import ReportWarning, WarningCode

FEW_DIFFERENCES = 15
"""If no more questions differ, only about half of the resamples have enough of them."""

MANY_PAIRS = 50
FEW_QUERIES = 60
"""So many comparisons of all pairs over no more questions than these have wide intervals, which hold less often."""

_MOST_NAMED = 3


def caution_of(n: int, differing: int, skewness: float) -> Caution | None:
    """The reason to be careful with an interval from ``n`` questions, of which ``differing`` have a difference."""
    if n < queries_for_skewness(skewness):
        return "skewed"
    return "few differences" if differing <= FEW_DIFFERENCES else None


def cautions_of(parts: Sequence[ComparisonPart], baseline: str | None) -> Iterator[ReportWarning]:
    """Warnings about comparisons by the primary metric: skewed claims, and all pairs of many settings.

    ``baseline`` is None where all pairs are compared.
    """
    claims = [part for part in parts if part.ci is not None and not part.ci[0] <= 0 <= part.ci[1]]
    skewed = [part for part in claims if part.caution == "skewed"]
    if skewed:
        skewed.sort(key=lambda part: -abs(part.skewness or 0.0))
        yield ReportWarning(
            WarningCode.SKEWED_DIFFERENCES,
            "a few queries make most of the difference, so these verdicts are less certain than stated: "
            f"{listed(map(_skewness, skewed), _MOST_NAMED)}. Look at these queries (--queries), or add questions.",
        )
    queries = max((part.n for part in parts), default=0)
    if baseline is None and len(parts) >= MANY_PAIRS and queries <= FEW_QUERIES:
        settings = len({name for part in parts for name in (part.baseline, part.setting)})
        yield ReportWarning(
            WarningCode.MANY_PAIRS,
            f"intervals of all {len(parts):,} pairs are wide with {queries} questions, and all of them may hold in "
            "fewer than 95% of cases. Compare with a baseline (--baseline NAME): "
            f"{settings - 1} intervals, not {len(parts):,}.",
        )


def _skewness(part: ComparisonPart) -> str:
    skewness = part.skewness or 0.0
    counts = f"(skewness {skewness:+.1f}: {part.n:,} queries, {queries_for_skewness(skewness):,} needed)"
    return f"{part.setting} against {part.baseline} {counts}"
