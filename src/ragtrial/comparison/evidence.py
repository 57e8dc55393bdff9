"""The evidence about a difference: its verdict in words, and the reasons to be careful with it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ragtrial.comparison.comparison_parts import Caution, ComparisonPart, Verdict
from ragtrial.comparison.number_text import rounded
from ragtrial.comparison.statistics.estimates import highest_mean
from ragtrial.comparison.statistics.power import detectable_difference, level_of, queries_for
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Inference, queries_for_skewness
from ragtrial.errors import counted, listed
from ragtrial.records import ReportWarning, WarningCode

MOST_LABELLED = 300
MOST_TIMES = 10
"""The most questions that a person labels: so many more, and so many times those there are."""

_QUERIES_FOR_SKEWNESS = 100
"""With so many queries half of the observed skewness is believed: of fewer it is mostly chance."""


@dataclass(frozen=True)
class Evidence:
    """What is known of one difference, in the direction of the metric: above 0 the setting is better.

    ``low`` and ``high`` are None where no interval is given. ``claim`` is 1 where the setting is shown to be better, -1
    where worse, else 0.
    """

    n: int
    differing: int
    low: float | None
    high: float | None
    detectable: float | None
    queries_needed: int | None
    claim: int = 0
    queries_to_settle: int | None = None


def evidence_of(inference: Inference, margin: float, sign: int = 1) -> list[Evidence]:
    """What ``inference`` says of each comparison, and what more queries would; ``sign`` is -1 where lower is better."""
    n, deviation, criticals = inference.n, inference.deviation, inference.criticals
    # In the direction of what was seen, and as far as so many queries can tell it.
    skewness = inference.skewness * np.sign(inference.mean) * n / (n + _QUERIES_FOR_SKEWNESS)
    found = detectable_difference(deviation, n, criticals, skewness)
    needed = queries_for(margin, deviation, level_of(criticals, n), skewness)
    settling = queries_for(np.abs(inference.mean), deviation, level_of(criticals, n), skewness)
    low, high = (inference.low, inference.high) if sign > 0 else (-inference.high, -inference.low)
    return [
        Evidence(
            n=int(n[row]),
            differing=int(inference.differing[row]),
            low=_finite(low[row]),
            high=_finite(high[row]),
            detectable=_finite(found[row]),
            queries_needed=None if math.isnan(needed[row]) else int(needed[row]),
            queries_to_settle=None if math.isnan(settling[row]) else int(settling[row]),
            claim=sign * int(inference.claims[row]),
        )
        for row in range(len(n))
    ]


def verdict_of(evidence: Evidence, margin: float) -> Verdict:
    """The first that holds: identical, too few differences, better, worse, no worse; else inconclusive."""
    if evidence.n and not evidence.differing:
        return "identical"
    if evidence.differing < LEAST_DIFFERENCES:
        return "too few differences"
    within = evidence.low is not None and evidence.low > -margin
    if evidence.claim > 0:
        return "better"
    if evidence.claim < 0:
        return "worse within the margin" if within else "worse"
    return "no worse" if within else "inconclusive"


def sentence_of(verdict: Verdict, evidence: Evidence, margin: float) -> str:
    """The verdict for a reader, with what would settle it where it is open."""
    if evidence.n == 0:
        return "no question counts for both: nothing to compare"
    said = {
        "identical": f"identical on {counted(evidence.n, 'question')}",
        "too few differences": f"only {evidence.differing} of {evidence.n:,} questions differ, fewer than "
        f"{LEAST_DIFFERENCES}; no interval is given",
        "better": "better",
        "worse": "worse",
        "worse within the margin": f"worse, but within the margin of {margin:g}",
        "no worse": f"no worse than the margin of {margin:g}",
        "inconclusive": f"inconclusive{_advice(evidence, margin)}",
    }
    return said[verdict]


def _advice(evidence: Evidence, margin: float) -> str:
    """What would be found with as many queries, and how many would find the margin, if that is more."""
    if evidence.detectable is None:
        return ""
    found = f"; {evidence.n:,} questions detect a difference of {rounded(evidence.detectable)} with 80% power"
    if evidence.queries_needed is None or not could_be_labelled(evidence.queries_needed - evidence.n, evidence.n):
        return found
    return f"{found}, {evidence.queries_needed:,} one of {margin:g}"


def could_be_labelled(more: int, n: int) -> bool:
    """Whether a person could label so many questions more than the ``n`` there are."""
    return 0 < more <= min(MOST_LABELLED, MOST_TIMES * n)


def too_wide(margin: float, metric: str) -> str:
    """Why no difference in ``metric`` could be beyond ``margin``, in words; nothing where one could or nobody knows."""
    highest = highest_mean(metric)
    if highest is None or margin < highest:
        return ""
    near = f" Did you mean {margin / 100:g}?" if highest == 1 and margin < 100 else ""
    return f"{metric} lies between 0 and {highest:g}; a margin of {margin:g} says nothing.{near}"


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


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
