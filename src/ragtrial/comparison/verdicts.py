"""From numbers to words."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ragtrial.comparison.comparison_parts import Verdict
from ragtrial.comparison.statistics.means import highest_mean
from ragtrial.comparison.statistics.power import detectable_difference, level_of, queries_for
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Inference
from ragtrial.errors import counted

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
    if evidence.queries_needed is None or evidence.queries_needed <= evidence.n:
        return found
    return f"{found}, {evidence.queries_needed:,} one of {margin:g}"


def too_wide(margin: float, metric: str) -> str:
    """Why no difference in ``metric`` could be beyond ``margin``, in words; nothing where one could or nobody knows."""
    highest = highest_mean(metric)
    if highest is None or margin < highest:
        return ""
    near = f" Did you mean {margin / 100:g}?" if highest == 1 and margin < 100 else ""
    return f"{metric} lies between 0 and {highest:g}; a margin of {margin:g} says nothing.{near}"


def rounded(difference: float) -> str:
    """Three decimals, or two digits where those would not show it."""
    return f"{difference:.3f}" if difference >= 0.001 else f"{difference:.2g}"


def percent(share: float) -> str:
    """``share`` of 1 as a percentage with as many digits as it has: 95%, 99.5%."""
    return f"{100 * share:.6g}%"


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
