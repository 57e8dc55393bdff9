"""From an interval to words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ragtrial.comparison.comparison_parts import Verdict
from ragtrial.comparison.flips import LEAST_DIFFERENCES

POWER = 0.8


@dataclass(frozen=True)
class Evidence:
    """What is known of one difference; ``low`` and ``high`` are None where no interval is given."""

    n: int
    differing: int
    low: float | None
    high: float | None
    detectable: float | None
    queries_needed: int | None


def verdict_of(evidence: Evidence, margin: float) -> Verdict:
    """The first that holds: better, worse, no worse than the margin; and else that one cannot tell."""
    if not evidence.differing:
        return "identical"
    if evidence.low is None or evidence.high is None:
        return "too few differences"
    if evidence.low > 0:
        return "better"
    if evidence.high < 0:
        return "worse within the margin" if evidence.low > -margin else "worse"
    return "no worse" if evidence.low > -margin else "cannot tell"


def sentence_of(verdict: Verdict, evidence: Evidence, margin: float) -> str:
    """The verdict for a reader, with what would settle it where it is open."""
    if evidence.n == 0:
        return "no query counts for both: nothing to compare"
    if verdict == "identical":
        return f"identical for each of {evidence.n:,} {'query' if evidence.n == 1 else 'queries'}"
    if verdict == "too few differences":
        if evidence.n == 1:
            return "one query is no test: label more"
        return (
            f"cannot tell: only {evidence.differing} of {evidence.n:,} queries differ, fewer than {LEAST_DIFFERENCES}; "
            "no interval is given"
        )
    said = {
        "better": "better",
        "worse": "worse",
        "worse within the margin": f"worse, but within the margin of {margin:g}",
        "no worse": f"no worse than the margin of {margin:g}",
    }
    if verdict in said:
        return said[verdict]
    found = "" if evidence.detectable is None else f"; at {evidence.n:,} queries {evidence.detectable:.3f} would show"
    needed = "" if evidence.queries_needed is None else f"; {evidence.queries_needed:,} would settle {margin:g}"
    return f"cannot tell{found}{needed}"


def detectable_difference(deviation: float, n: int, critical: float) -> float | None:
    """The difference that is found with probability POWER when ``n`` studentised differences must exceed ``critical``.

    None where the deviation is not known or 0.
    """
    if n < 2 or not deviation > 0 or not math.isfinite(critical):
        return None
    from scipy.special import nctdtrinc

    shift = float(nctdtrinc(n - 1, 1 - POWER, critical))
    return shift * deviation / math.sqrt(n) if math.isfinite(shift) else None


def queries_for(difference: float, deviation: float, level: float) -> int | None:
    """How many queries find ``difference`` with probability POWER, two-sided at ``level``; None where not known."""
    if not (deviation > 0 and difference > 0 and 0 < level < 1):
        return None
    from scipy.special import nctdtr, stdtrit

    def has_power(n: int) -> bool:
        shift = difference / deviation * math.sqrt(n)
        return not nctdtr(n - 1, shift, float(stdtrit(n - 1, 1 - level / 2))) > 1 - POWER

    high = 2
    while not has_power(high):
        high *= 2
        if high > 2**30:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if has_power(middle) else (middle, high)
    return high
