"""The difference that a number of queries can show, and the number of queries that shows a difference."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES
from ragtrial.evaluation.grading import Scores

POWER = 0.8
"""How likely a difference should be found: 4 times out of 5."""

_MOST_QUERIES = 2**30

_NARROWEST = 0.5
"""The skewness makes a mean at most this much more certain, as a share of its standard error."""


def level_of(critical: Scores, n: npt.NDArray[np.int64]) -> Scores:
    """The two-sided levels of t tests of ``n`` differences that have these critical values; NaN where there is none."""
    from scipy.special import stdtr

    return np.where((n > 1) & np.isfinite(critical), 2 * stdtr(np.maximum(n - 1, 1), -critical), np.nan)


def detectable_difference(
    deviation: Scores, n: npt.NDArray[np.int64], critical: Scores, skewness: Scores | float = 0.0
) -> Scores:
    """The differences detected with probability POWER if ``n`` studentised differences must exceed ``critical``.

    The observed deviation is used for the true one. The mean of normal differences over its standard error has a
    noncentral t distribution, which is nearly right for ten or more queries of another shape. ``skewness`` g, above 0
    if the long tail is on the side of the difference, shifts it by -g / (2 sqrt(n)) and multiplies its variance by 1 -
    g x difference / deviation (the first terms of its expansion; Hall 1992, 2.6). NaN if the deviation is 0, or it or
    the skewness is unknown.
    """
    from scipy.special import nctdtrinc

    known = (n > 1) & (deviation > 0) & np.isfinite(critical)
    shifts = np.full(len(n), np.nan)
    shifts[known] = nctdtrinc(n[known] - 1, 1 - POWER, critical[known])
    shifts[~np.isfinite(shifts)] = np.nan
    with np.errstate(invalid="ignore", divide="ignore"):
        spread, lean = shifts - critical, skewness / np.sqrt(n)
        # The shift x with x = critical + lean / 2 + spread * sqrt(1 - lean * x): the variance depends on the shift.
        least = critical + lean / 2
        root = np.sqrt(np.maximum(1 - least * lean + np.square(spread * lean) / 4, 0.0))
        shifts = least + spread * np.maximum(root - spread * lean / 2, _NARROWEST)
        return np.asarray(shifts * deviation / np.sqrt(n))


def queries_for(difference: Scores | float, deviation: Scores, level: Scores, skewness: Scores | float = 0.0) -> Scores:
    """How many queries detect ``difference`` with probability POWER, two-sided at ``level``; NaN if that is unknown.

    Computed as in ``detectable_difference``, for queries like the observed queries; at least LEAST_DIFFERENCES, because
    fewer are not tested. NaN also above a billion.
    """
    from scipy.special import nctdtr, ndtri, stdtrit

    needed = np.full(len(deviation), np.nan)
    skewness, difference = np.broadcast_to(skewness, deviation.shape), np.broadcast_to(difference, deviation.shape)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        effect = difference / deviation
        narrower = np.maximum(np.sqrt(np.maximum(1 - effect * skewness, 0.0)), _NARROWEST)
        # If the deviation were known: a few less than it takes.
        lean = np.minimum(skewness, 0.0) / np.sqrt(LEAST_DIFFERENCES)
        shift = np.maximum(narrower * ndtri(POWER) - ndtri(level / 2) + lean / 2, 0.0)
        fewest = np.square(shift / effect)
    known = (difference > 0) & (deviation > 0) & (level > 0) & (level < 1) & (fewest < _MOST_QUERIES)
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
