"""Estimates with an interval each (a mean, an effect over data sets, the agreement of two raters), and power.

Power: the difference that a number of queries can show, and the number of queries that shows a difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import metric_called

_ROUNDING = 1e-12


def mean_of(values: Scores) -> float | None:
    """The mean of the known values; None if there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def finite(number: float) -> float | None:
    """The number, None if it is infinite or unknown."""
    return float(number) if math.isfinite(number) else None


def side_of(interval: tuple[float, float] | None) -> int:
    """1 for an interval above 0, -1 for one below, 0 for one with 0 in it, or none."""
    return 0 if interval is None else int(interval[0] > 0) - int(interval[1] < 0)


def mean_interval(values: Scores, level: float, metric: str) -> tuple[float, float] | None:
    """The interval of the true mean of ``metric``, from a sample ``values`` of shape (queries,).

    None for fewer than two values, or if all values are equal.
    """
    n = len(values)
    deviation = float(values.std()) if n > 1 else 0.0
    if deviation <= _ROUNDING * float(np.abs(values).max(initial=0.0)):
        return None
    skewness = float(((values - values.mean()) ** 3).mean()) / deviation**3
    return within(interval_of(float(values.mean()), deviation / math.sqrt(n - 1), skewness, n, level), metric)


def interval_of(mean: float, error: float, skewness: float, n: int, level: float) -> tuple[float, float]:
    """The interval of a mean of ``n`` values with this standard error.

    It is Student's, with one end moved outwards by the skewness of the values: a mean of scores most of which are 1 is
    more often far above the true one than far below. The other end stays, since a sample that lacks the few low scores
    has no skewness either. Source: Hall 1983, the one-term inversion of the Edgeworth expansion of the studentised
    mean.
    """
    from scipy.special import stdtrit

    critical = float(stdtrit(n - 1, 1 - level / 2))
    moved = skewness * (2 * critical**2 + 1) / (6 * math.sqrt(n))
    return mean + error * (min(moved, 0.0) - critical), mean + error * (max(moved, 0.0) + critical)


def within(interval: tuple[float, float], metric: str) -> tuple[float, float]:
    """The part of ``interval`` that a mean of ``metric`` can lie in."""
    lowest, highest = mean_limits(metric)
    return max(interval[0], lowest), interval[1] if highest is None else min(interval[1], highest)


def mean_limits(metric: str) -> tuple[float, float | None]:
    """The lowest and the highest mean that ``metric`` can have; None if there is no highest, or if it is unknown."""
    definition = metric_called(metric).definition
    return definition.lowest, definition.highest


@dataclass(frozen=True)
class CombinedEffect:
    """The mean effect with its interval, and ``spread``, the standard deviation of true effects between data sets."""

    mean: float
    low: float
    high: float
    spread: float


def combined_effect(effects: Scores, variances: Scores, level: float) -> CombinedEffect:
    """The mean of at least two independent ``effects``, each with the sampling variance of its estimate, above 0.

    The variance between data sets is estimated by DerSimonian & Laird 1986, and the interval by Hartung & Knapp 2001:
    Student's t with one degree of freedom less than data sets. The interval is never narrower than known variances
    would make it (Röver, Knapp & Friede 2015); otherwise it would be far too narrow for two or three effects that
    happen to agree.
    """
    from scipy.special import stdtrit

    freedom = len(effects) - 1
    weights = 1 / variances
    fixed = float(weights @ effects / weights.sum())
    excess = float(weights @ np.square(effects - fixed)) - freedom
    between = max(0.0, excess / float(weights.sum() - np.square(weights).sum() / weights.sum()))
    weights = 1 / (variances + between)
    mean = float(weights @ effects / weights.sum())
    scatter = max(1.0, float(weights @ np.square(effects - mean)) / freedom)
    half = float(stdtrit(freedom, 1 - level / 2)) * math.sqrt(scatter / float(weights.sum()))
    return CombinedEffect(mean, mean - half, mean + half, math.sqrt(between))


Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Kappa:
    """Cohen's kappa, in [-1, 1], 0 where raters agree as by chance, and its interval, not cut to that range."""

    value: float
    low: float
    high: float


def confusion(pairs: Sequence[tuple[int, int]], grades: Sequence[int]) -> Counts:
    """The count of each pair of grades, the first rater's in rows, the second's in columns; shape (grades, grades)."""
    index_of = {grade: index for index, grade in enumerate(grades)}
    table = np.zeros((len(grades), len(grades)), dtype=np.int64)
    for first, second in pairs:
        table[index_of[first], index_of[second]] += 1
    return table


def weighted_kappa(table: Counts, grades: Sequence[int], confidence: float = 0.95) -> Kappa | None:
    """Kappa of ``confusion`` of ``grades``, disagreements weighted by the square of the distance of the grades.

    None where one of the two gave everything the same grade. Sources: Cohen 1968, Psychological Bulletin 70; for the
    variance Fleiss, Cohen & Everitt 1969, Psychological Bulletin 72.
    """
    from scipy.special import ndtri

    n = int(table.sum())
    if min(np.count_nonzero(table.sum(axis=0)), np.count_nonzero(table.sum(axis=1))) < 2:
        return None
    shares, values = table / n, np.asarray(grades, dtype=np.float64)
    weights = 1 - np.square((values[:, None] - values) / (values.max() - values.min()))
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    observed, expected = float((weights * shares).sum()), float(rows @ weights @ columns)
    kappa = (observed - expected) / (1 - expected)
    apart = weights - ((weights @ columns)[:, None] + rows @ weights) * (1 - kappa)
    variance = float((shares * np.square(apart)).sum()) - (kappa - expected * (1 - kappa)) ** 2
    error = math.sqrt(max(variance, 0.0) / n) / (1 - expected)
    width = float(ndtri((1 + confidence) / 2)) * error
    return Kappa(kappa, kappa - width, kappa + width)


POWER = 0.8
"""How likely a difference should be found: 4 times out of 5."""

_MOST_QUERIES = 2**30

_NARROWEST = 0.5
"""The skewness makes a mean at most this much more certain, as a share of its standard error."""


def level_of(critical: Scores, n: Counts) -> Scores:
    """The two-sided levels of t tests of ``n`` differences that have these critical values; NaN where there is none."""
    from scipy.special import stdtr

    return np.where((n > 1) & np.isfinite(critical), 2 * stdtr(np.maximum(n - 1, 1), -critical), np.nan)


def detectable_difference(deviation: Scores, n: Counts, critical: Scores, skewness: Scores | float = 0.0) -> Scores:
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
