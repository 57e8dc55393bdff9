"""From numbers to words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ragtrial.comparison.comparison_parts import Verdict
from ragtrial.comparison.samples import LEAST_DIFFERENCES, Inference

POWER = 0.8
"""How likely a difference should be found: 4 times out of 5."""


@dataclass(frozen=True)
class Evidence:
    """What is known of one difference; ``low`` and ``high`` are None where no interval is given.

    ``claim`` is 1 where the difference is shown to be above 0, -1 where below, else 0; None: as the interval says.
    """

    n: int
    differing: int
    low: float | None
    high: float | None
    detectable: float | None
    queries_needed: int | None
    claim: int | None = None

    @property
    def claimed(self) -> int:
        if self.claim is not None:
            return self.claim
        if self.low is None or self.high is None:
            return 0
        return (self.low > 0) - (self.high < 0)


def evidence_of(inference: Inference, row: int, margin: float) -> Evidence:
    """What ``inference`` says of the comparison in ``row``, and what more queries would."""
    n, deviation, critical = int(inference.n[row]), float(inference.deviation[row]), float(inference.criticals[row])
    low, high = (float(end) if math.isfinite(end) else None for end in (inference.low[row], inference.high[row]))
    return Evidence(
        n=n,
        differing=int(inference.differing[row]),
        low=low,
        high=high,
        detectable=detectable_difference(deviation, n, critical),
        queries_needed=queries_for(margin, deviation, level_of(critical, n)),
        claim=int(inference.claims[row]),
    )


def verdict_of(evidence: Evidence, margin: float) -> Verdict:
    """The first that holds: better, worse, no worse than the margin; and else that one cannot tell."""
    if evidence.n and not evidence.differing:
        return "identical"
    if evidence.differing < LEAST_DIFFERENCES:
        return "too few differences"
    within = evidence.low is not None and evidence.low > -margin
    if evidence.claimed > 0:
        return "better"
    if evidence.claimed < 0:
        return "worse within the margin" if within else "worse"
    return "no worse" if within else "cannot tell"


def sentence_of(verdict: Verdict, evidence: Evidence, margin: float) -> str:
    """The verdict for a reader, with what would settle it where it is open."""
    if evidence.n == 0:
        return "no query counts for both: nothing to compare"
    if verdict == "identical":
        return f"identical for each of {evidence.n:,} {'query' if evidence.n == 1 else 'queries'}"
    if verdict == "too few differences":
        if evidence.n == 1:
            return "one query is no test: label more"
        differ = "queries differs" if evidence.differing == 1 else "queries differ"
        return (
            f"cannot tell: only {evidence.differing} of {evidence.n:,} {differ}, fewer than {LEAST_DIFFERENCES}; "
            "no interval is given"
        )
    said = {
        "better": "better",
        "worse": "worse",
        "worse within the margin": f"worse, but within the margin of {margin:g}",
        "no worse": f"no worse than the margin of {margin:g}",
    }
    return said[verdict] if verdict in said else f"cannot tell{_advice(evidence, margin)}"


def _advice(evidence: Evidence, margin: float) -> str:
    """What would be found with as many queries, and how many would find the margin, if that is more."""
    if evidence.detectable is None:
        return ""
    found = f"; with {evidence.n:,} queries a difference of {rounded(evidence.detectable)} would be found 4 times of 5"
    if evidence.queries_needed is None or evidence.queries_needed <= evidence.n:
        return found
    return f"{found}, with {evidence.queries_needed:,} one of {margin:g}"


def rounded(difference: float) -> str:
    """Three decimals, or two digits where those would not show it."""
    return f"{difference:.3f}" if difference >= 0.001 else f"{difference:.2g}"


def percent(share: float) -> str:
    """``share`` of 1 as a percentage with as many digits as it has: 95%, 99.5%."""
    return f"{100 * share:.6g}%"


def level_of(critical: float, n: int) -> float:
    """The two-sided level of a t test of ``n`` differences that has this critical value; NaN where there is none."""
    if n < 2 or not math.isfinite(critical):
        return math.nan
    from scipy.special import stdtr

    return 2 * float(stdtr(n - 1, -critical))


def detectable_difference(deviation: float, n: int, critical: float) -> float | None:
    """The difference that is found with probability POWER when ``n`` studentised differences must exceed ``critical``.

    It takes the deviation observed for the true one, and differences for normal, whose mean then has a noncentral t
    distribution; that of some ten queries is near enough to it. None where the deviation is not known or 0.
    """
    if n < 2 or not deviation > 0 or not math.isfinite(critical):
        return None
    from scipy.special import nctdtrinc

    shift = float(nctdtrinc(n - 1, 1 - POWER, critical))
    return shift * deviation / math.sqrt(n) if math.isfinite(shift) else None


def queries_for(difference: float, deviation: float, level: float) -> int | None:
    """How many queries find ``difference`` with probability POWER, two-sided at ``level``; None where not known.

    As ``detectable_difference``; never fewer than LEAST_DIFFERENCES, without which nothing is tested. Of queries that
    are like those asked. None also above a billion.
    """
    if not (deviation > 0 and difference > 0 and 0 < level < 1):
        return None
    from scipy.special import nctdtr, stdtrit

    def has_power(n: int) -> bool:
        shift, critical = difference / deviation * math.sqrt(n), -float(stdtrit(n - 1, level / 2))
        missed = float(nctdtr(n - 1, shift, critical))
        # Far above the critical value the probability is too small for scipy, which then gives NaN.
        return shift > critical if math.isnan(missed) else missed <= 1 - POWER

    high = LEAST_DIFFERENCES
    if has_power(high):
        return high
    while not has_power(high):
        high *= 2
        if high > 2**30:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if has_power(middle) else (middle, high)
    return high
