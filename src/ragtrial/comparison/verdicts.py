"""From numbers to words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from ragtrial.comparison.comparison_parts import Verdict
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Inference
from ragtrial.errors import MetricError, counted
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import parse_metric

POWER = 0.8
"""How likely a difference should be found: 4 times out of 5."""

_MOST_QUERIES = 2**30

_NARROWEST = 0.5
"""What is reckoned of skewness makes a mean no more certain than this, of its standard error."""

_QUERIES_FOR_SKEWNESS = 100
"""With so many queries half of the observed skewness is believed: of fewer it is mostly chance."""


@dataclass(frozen=True)
class Evidence:
    """What is known of one difference; ``low`` and ``high`` are None where no interval is given.

    ``claim`` is 1 where the difference is shown to be above 0, -1 where below, else 0.
    """

    n: int
    differing: int
    low: float | None
    high: float | None
    detectable: float | None
    queries_needed: int | None
    claim: int = 0


def evidence_of(inference: Inference, margin: float) -> list[Evidence]:
    """What ``inference`` says of each comparison, and what more queries would."""
    n, deviation, criticals = inference.n, inference.deviation, inference.criticals
    # In the direction of what was seen, and as far as so many queries can tell it.
    skewness = inference.skewness * np.sign(inference.mean) * n / (n + _QUERIES_FOR_SKEWNESS)
    found = detectable_difference(deviation, n, criticals, skewness)
    needed = queries_for(margin, deviation, level_of(criticals, n), skewness)
    return [
        Evidence(
            n=int(n[row]),
            differing=int(inference.differing[row]),
            low=_finite(inference.low[row]),
            high=_finite(inference.high[row]),
            detectable=_finite(found[row]),
            queries_needed=None if math.isnan(needed[row]) else int(needed[row]),
            claim=int(inference.claims[row]),
        )
        for row in range(len(n))
    ]


def verdict_of(evidence: Evidence, margin: float) -> Verdict:
    """The first that holds: better, worse, no worse than the margin; and else that one cannot tell."""
    if evidence.n and not evidence.differing:
        return "identical"
    if evidence.differing < LEAST_DIFFERENCES:
        return "too few differences"
    within = evidence.low is not None and evidence.low > -margin
    if evidence.claim > 0:
        return "better"
    if evidence.claim < 0:
        return "worse within the margin" if within else "worse"
    return "no worse" if within else "cannot tell"


def sentence_of(verdict: Verdict, evidence: Evidence, margin: float) -> str:
    """The verdict for a reader, with what would settle it where it is open."""
    if evidence.n == 0:
        return "no query counts for both: nothing to compare"
    said = {
        "identical": f"identical for each of {counted(evidence.n, 'query', 'queries')}",
        "too few differences": f"cannot tell: only {evidence.differing} of {evidence.n:,} queries differ, fewer than "
        f"{LEAST_DIFFERENCES}; no interval is given",
        "better": "better",
        "worse": "worse",
        "worse within the margin": f"worse, but within the margin of {margin:g}",
        "no worse": f"no worse than the margin of {margin:g}",
        "cannot tell": f"cannot tell{_advice(evidence, margin)}",
    }
    return said[verdict]


def _advice(evidence: Evidence, margin: float) -> str:
    """What would be found with as many queries, and how many would find the margin, if that is more."""
    if evidence.detectable is None:
        return ""
    found = (
        f"; with {evidence.n:,} queries a difference of {rounded(evidence.detectable)} would be found 4 times out of 5"
    )
    if evidence.queries_needed is None or evidence.queries_needed <= evidence.n:
        return found
    return f"{found}, with {evidence.queries_needed:,} one of {margin:g}"


def too_wide(margin: float, metric: str) -> str:
    """Why no difference in ``metric`` could be beyond ``margin``, in words; nothing where one could or nobody knows."""
    try:
        definition = parse_metric(metric).definition
    except MetricError:  # of another version, or a plug-in
        return ""
    highest = None if definition.aggregate == "sum" else definition.highest
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


def level_of(critical: Scores, n: npt.NDArray[np.int64]) -> Scores:
    """The two-sided levels of t tests of ``n`` differences that have these critical values; NaN where there is none."""
    from scipy.special import stdtr

    return np.where((n > 1) & np.isfinite(critical), 2 * stdtr(np.maximum(n - 1, 1), -critical), np.nan)


def detectable_difference(
    deviation: Scores, n: npt.NDArray[np.int64], critical: Scores, skewness: Scores | float = 0.0
) -> Scores:
    """The differences found with probability POWER when ``n`` studentised differences must exceed ``critical``.

    It takes the deviation observed for the true one. The mean of normal differences over its standard error has a
    noncentral t distribution, that of some ten queries of another shape nearly; ``skewness`` g, above 0 where the long
    tail is on the side of the difference, moves it by -g / (2 sqrt(n)) and makes its variance 1 - g x difference /
    deviation times as large (the first terms of its expansion; Hall 1992, 2.6). NaN where the deviation is not known or
    0, or the skewness.
    """
    known = (n > 1) & (deviation > 0) & np.isfinite(critical)
    shifts = np.full(len(n), np.nan)
    shifts[known] = [
        _detectable_shift(int(one), float(most)) for one, most in zip(n[known], critical[known], strict=True)
    ]
    with np.errstate(invalid="ignore", divide="ignore"):
        spread, lean = shifts - critical, skewness / np.sqrt(n)
        # The shift x with x = critical + lean / 2 + spread * sqrt(1 - lean * x): the variance depends on the shift.
        least = critical + lean / 2
        root = np.sqrt(np.maximum(1 - least * lean + np.square(spread * lean) / 4, 0.0))
        shifts = least + spread * np.maximum(root - spread * lean / 2, _NARROWEST)
        return np.asarray(shifts * deviation / np.sqrt(n))


@cache
def _detectable_shift(n: int, critical: float) -> float:
    """In standard errors. Comparisons of a family have their critical value in common, mostly."""
    from scipy.special import nctdtrinc

    shift = float(nctdtrinc(n - 1, 1 - POWER, critical))
    return shift if math.isfinite(shift) else math.nan


def queries_for(difference: float, deviation: Scores, level: Scores, skewness: Scores | float = 0.0) -> Scores:
    """How many queries find ``difference`` with probability POWER, two-sided at ``level``; NaN where not known.

    As ``detectable_difference``; never fewer than LEAST_DIFFERENCES, without which nothing is tested. Of queries that
    are like those asked. NaN also above a billion.
    """
    from scipy.special import nctdtr, ndtri, stdtrit

    needed = np.full(len(deviation), np.nan)
    if not difference > 0:
        return needed
    skewness = np.broadcast_to(skewness, deviation.shape)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        effect = difference / deviation
        narrower = np.maximum(np.sqrt(np.maximum(1 - effect * skewness, 0.0)), _NARROWEST)
        # If the deviation were known: a few less than it takes.
        lean = np.minimum(skewness, 0.0) / np.sqrt(LEAST_DIFFERENCES)
        shift = np.maximum(narrower * ndtri(POWER) - ndtri(level / 2) + lean / 2, 0.0)
        fewest = np.square(shift / effect)
    known = (deviation > 0) & (level > 0) & (level < 1) & (fewest < _MOST_QUERIES)
    effect, level, skewness, narrower = effect[known], level[known], skewness[known], narrower[known]

    def has_power(n: Scores) -> npt.NDArray[np.bool_]:
        shift, critical = effect * np.sqrt(n), -stdtrit(n - 1, level / 2)
        reached = shift + (critical + skewness / (2 * np.sqrt(n)) - shift) / narrower
        missed = nctdtr(n - 1, shift, reached)
        # Far above the critical value the probability is too small for scipy, which then gives NaN.
        return np.asarray(np.where(np.isnan(missed), shift > reached, missed <= 1 - POWER))

    low = np.maximum(np.floor(fewest[known]), LEAST_DIFFERENCES) - 1
    high = low + 1
    while not (enough := has_power(high)).all():
        low, high = np.where(enough, low, high), np.where(enough, high, 3 * high - 2 * low)
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        enough = has_power(middle)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    needed[known] = high
    return needed


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
