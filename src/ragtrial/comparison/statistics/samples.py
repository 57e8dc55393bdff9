"""Families of differences, and the inference about them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ragtrial.evaluation.clusters import Places, sums_by
from ragtrial.evaluation.grading import Scores

Rows = slice | npt.NDArray[np.bool_] | Places
_ALL = slice(None)

_BLOCK_VALUES = 8_000_000
"""The number of differences computed at once: all pairs of settings may exceed the memory."""

_ROUNDING = 1e-12
"""A difference that is a smaller part of the subtracted values is 0."""

MOST_STATISTICS = 50_000_000
"""The most statistics of draws of a family: many comparisons have fewer draws."""

LEAST_DRAWS = 1_000
"""However many comparisons there are."""

_SUM_OF_SHARES = 2.612376
"""The sum of number^-1.5 over all numbers from 1, rounded up."""

_DRAWS_REACHING = 5
"""The number of draws that are expected to reach a critical value, at least."""

LEAST_DIFFERENCES = 10
"""With fewer nonzero differences there is neither test nor interval."""


def unrounded(differences: Scores, subtracted: Scores) -> Scores:
    """``differences``, 0 if only rounding keeps one from it; ``subtracted`` is the size of the subtracted values."""
    return np.where(np.abs(differences) <= subtracted * _ROUNDING, 0.0, differences)


def queries_for_skewness(skewness: float) -> int:
    """The number of queries with which a 95% interval of a mean is wrong in at most 6% of cases, at this skewness.

    Source: Cochran 1977, section 2.15.
    """
    return math.ceil(25 * skewness**2)


@dataclass(frozen=True)
class Procedure:
    """How ``infer`` tests families of comparisons: ``level`` is the probability of any wrong claim in one of them.

    The correction for several comparisons is part of ``infer``: the largest statistic of each draw (max-t). ``flips``
    is the number of random sign flips, and of resamples. If the queries allow no more flips, each is taken once.
    """

    level: float = 0.05
    flips: int = 10_000
    seed: int = 0

    def with_bonferroni(self, comparisons: int) -> Procedure:
        """The procedure for each of several comparisons, corrected for their number (Bonferroni)."""
        return replace(self, level=self.level / max(comparisons, 1))

    def with_alpha_spending(self, number: int) -> Procedure:
        """The procedure of a comparison by its ``number``, from 1, in a sequence of any length.

        The levels add up to ``level``, so that any wrong claim in the whole sequence has at most this probability. They
        fall with the power 1.5 of the number, and draws are many enough for them. Source: alpha spending (Lan & DeMets
        1983) with Bonferroni's bound.
        """
        level = self.level / (_SUM_OF_SHARES * number**1.5)
        return replace(self, level=level, flips=max(self.flips, math.ceil(_DRAWS_REACHING / level)))

    def limited_to(self, comparisons: int) -> Procedure:
        """A procedure with fewer draws if all draws of this many comparisons would take minutes."""
        return replace(self, flips=min(self.flips, max(LEAST_DRAWS, MOST_STATISTICS // max(comparisons, 1))))


@dataclass(frozen=True, eq=False)
class Family:
    """A family of comparisons: they are tested together, and the error rate holds for all of them at once.

    ``columns`` has shape (columns, queries), NaN if a query does not count. ``pairs``, shape (comparisons, 2), holds
    the column of each setting and of its baseline, which is subtracted; None: the columns are the differences. Queries
    with the same number in ``clusters``, shape (queries,), belong together; None: each query is a cluster.
    """

    columns: Scores
    pairs: Places | None = None
    clusters: Places | None = None

    def __len__(self) -> int:
        """The number of comparisons."""
        return len(self.columns if self.pairs is None else self.pairs)

    def differences(self, rows: Rows = _ALL) -> Scores:
        """The differences of the comparisons in ``rows``, shape (comparisons, queries).

        NaN if a query does not count for both. A difference that is only rounding is 0.
        """
        if self.pairs is None:
            return self.columns[rows]
        after, before = (self.columns[columns] for columns in self.pairs[rows].T)
        return unrounded(after - before, np.abs(after) + np.abs(before))

    def units(self, rows: Rows = _ALL) -> tuple[Scores, Scores]:
        """The sums of the differences of each cluster, and the numbers of queries that count for them.

        Both have the shape (comparisons, clusters).
        """
        differences = self.differences(rows)
        unknown = np.isnan(differences)
        values = np.where(unknown, 0.0, differences)
        sums = sums_by(self.clusters, values)
        if self.clusters is not None:
            sums = unrounded(sums, sums_by(self.clusters, np.abs(values)))
        return sums, sums_by(self.clusters, (~unknown).astype(np.float64))

    def blocks(self) -> Iterator[slice]:
        """The comparisons, as many at a time as their differences may take memory."""
        size = max(1, _BLOCK_VALUES // max(1, self.columns.shape[1]))
        return (slice(start, start + size) for start in range(0, max(1, len(self)), size))


def contrasts(columns: Scores, weights: Scores) -> Scores:
    """Weighted sums of ``columns``, shape (columns, queries), by ``weights``, shape (contrasts, columns).

    NaN where a query does not count for all columns of a contrast; 0 where only rounding keeps it from 0.
    """
    unknown = np.isnan(columns)
    known = np.where(unknown, 0.0, columns)
    sums = unrounded(weights @ known, np.abs(weights) @ np.abs(known))
    if unknown.any():
        sums[(weights != 0).astype(np.float64) @ unknown > 0] = np.nan
    return sums


@dataclass(frozen=True, eq=False)
class Inference:
    """The inference about the differences of a family. All arrays have the shape (comparisons,).

    ``mean`` is over the queries of ``n`` clusters (a query is a cluster by default); ``differing`` have a
    nonzero difference. ``deviation`` is the standard deviation of the differences, or sqrt(n) standard errors of the
    mean; NaN if there are too few clusters. ``skewness`` is their third central moment over the cubed deviation (with
    n), 0 if the deviation is 0. ``p`` and ``p_corrected`` are in [0, 1], and above 0 if they are shares of draws. They,
    ``low`` and ``high`` are NaN for a comparison with fewer than LEAST_DIFFERENCES nonzero differences, and if a
    procedure does not compute them. ``claims`` is 1 if the difference is shown to be above 0, -1 if below, else 0.
    ``criticals`` is the value that each studentised difference must exceed to be shown; power depends on it.
    """

    n: npt.NDArray[np.int64]
    differing: npt.NDArray[np.int64]
    mean: Scores
    deviation: Scores
    skewness: Scores
    p: Scores
    p_corrected: Scores
    low: Scores
    high: Scores
    claims: npt.NDArray[np.int8]
    criticals: Scores


@dataclass(frozen=True, eq=False)
class DrawResult:
    """The numbers by one kind of draws for the tested comparisons of a family, in arrays of shape (comparisons,)."""

    p: Scores
    p_corrected: Scores
    criticals: Scores


def spread_of(sums: Scores, crossed: Scores, squares: Scores, totals: Scores, sizes: Scores, n: Scores) -> Scores:
    """The squared standard error of ``sums`` of ``n`` clusters, about their mean; 0 if it is only rounding.

    ``squares`` are the sums of squares, ``crossed`` the sums of products with the numbers of queries, ``totals`` and
    ``sizes`` the sums of these numbers and of their squares. Arguments broadcast. Source: the ratio estimator of
    Cochran 1977, section 9A; with the factor n / (n - 1) it is CR1 (Liang & Zeger 1986).
    """
    means = sums / totals
    spread = np.asarray(means * sizes)  # in place from here: squares - means * (2 * crossed - means * sizes)
    spread -= 2.0 * crossed
    spread *= means
    spread += squares
    spread[spread <= _ROUNDING * squares] = 0.0
    spread *= n / (n - 1.0)
    return spread


def _moments(sums: Scores, sizes: Scores) -> tuple[npt.NDArray[Any], ...]:
    """The columns of a ``Sample``, from the sums and the numbers of queries of clusters."""
    scale = np.ldexp(1.0, np.frexp(np.abs(sums).max(axis=1, initial=0.0))[1] - 1)
    scale[~sums.any(axis=1)] = 1.0
    values = sums / scale[:, None]
    n, totals = np.count_nonzero(sizes, axis=1).astype(np.int64), sizes.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = values.sum(axis=1) / totals
        about = values - mean[:, None] * sizes
        squares = np.square(about)
        between = (squares / np.maximum(sizes, 1)).sum(axis=1)
        spread = squares.sum(axis=1)
        deviation = np.sqrt(spread / (n - 1)) * (n / totals)
        squares *= about
        skewness = squares.sum(axis=1) * np.sqrt(n) / spread**1.5
    differing = np.count_nonzero(values, axis=1).astype(np.int64)
    return n, differing, scale, mean, deviation, skewness, between


class Sample:
    """The moments of the differences of a family, before any inference; arrays of shape (comparisons,).

    Values are the differences divided by ``scale``, a power of two for each comparison, so that no square is too large
    or too small for a float. ``tested`` marks the comparisons with enough nonzero differences. ``scaled_between`` is
    the sum of squares between clusters: the squared residual of each over its number of queries.
    """

    def __init__(self, family: Family) -> None:
        self.family = family
        parts = [_moments(*family.units(rows)) for rows in family.blocks()]
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        self.n: Places = columns[0]
        self.differing: Places = columns[1]
        self.scale: Scores = columns[2]
        self.scaled_mean: Scores = columns[3]
        self.scaled_deviation: Scores = columns[4]
        self.skewness: Scores = columns[5]
        self.scaled_between: Scores = columns[6]
        self.scaled_deviation[self.scaled_deviation <= _ROUNDING] = 0.0
        self.skewness[self.scaled_deviation == 0] = 0.0
        self.tested = self.differing >= LEAST_DIFFERENCES

    def units(self, rows: Rows = _ALL) -> tuple[Scores, Scores]:
        """For the comparisons in ``rows``: sums of values and numbers of queries by cluster.

        Both have the shape (comparisons, clusters); the numbers are one row if they are the same for all comparisons.
        """
        sums, sizes = self.family.units(rows)
        sums /= self.scale[rows, None]
        return sums, sizes[:1] if (sizes == sizes[:1]).all() else sizes

    @property
    def studentised(self) -> Scores:
        """The means over their standard errors, without signs; infinite where all differences are equal and not 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.abs(np.asarray(self.scaled_mean / (self.scaled_deviation / np.sqrt(self.n))))

    def inference(
        self, level: float, p: Scores | None = None, p_corrected: Scores | None = None, criticals: Scores | None = None
    ) -> Inference:
        """The inference from numbers of the tested comparisons; None for a number that a procedure does not compute.

        The interval is the mean, plus or minus ``criticals`` standard errors. An end that rounding put on another side
        of 0 than p_corrected is moved back, and makes the claim.
        """
        p, corrected, criticals = (self.for_every_comparison(numbers) for numbers in (p, p_corrected, criticals))
        mean, deviation = self.scaled_mean * self.scale, self.scaled_deviation * self.scale
        with np.errstate(invalid="ignore", divide="ignore"):
            error = deviation / np.sqrt(self.n)
        width = np.where((self.scaled_deviation == 0) & ~np.isnan(criticals), 0.0, error * criticals)
        low, high = mean - width, mean + width
        if p_corrected is not None:
            shown = corrected <= level
            low = np.where(shown & (mean > 0) & (low <= 0), np.nextafter(0.0, 1.0), low)
            high = np.where(shown & (mean < 0) & (high >= 0), np.nextafter(0.0, -1.0), high)
            hidden = self.tested & ~shown
            low, high = np.where(hidden, np.minimum(low, 0.0), low), np.where(hidden, np.maximum(high, 0.0), high)
        claims = (low > 0).astype(np.int8) - (high < 0).astype(np.int8)
        numbers = (mean, deviation, self.skewness, p, corrected, low, high, claims, criticals)
        return Inference(self.n, self.differing, *numbers)

    def for_every_comparison(self, given: Scores | None) -> Scores:
        """The numbers of the tested comparisons, NaN for the others."""
        spread = np.full(len(self.n), np.nan)
        if given is not None:
            spread[self.tested] = given
        return spread
