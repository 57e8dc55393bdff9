"""What is compared, and what may come of it: families of differences, and what a procedure infers of each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ragtrial.evaluation.grading import Scores

Rows = slice | npt.NDArray[np.bool_] | npt.NDArray[np.int64]
_ALL = slice(None)

_BLOCK_VALUES = 8_000_000
"""So many differences are looked at at once: those of all pairs of settings may be more than memory holds."""

_ROUNDING = 1e-12
"""A difference that is a smaller part of what was subtracted is 0."""

LEAST_DIFFERENCES = 10
"""Of fewer differences that are not 0 neither test nor interval is given."""


def unrounded(differences: Scores, subtracted: Scores) -> Scores:
    """``differences``, 0 where only rounding keeps one from it; ``subtracted`` is the size of what each is made of."""
    return np.where(np.abs(differences) <= subtracted * _ROUNDING, 0.0, differences)


def queries_for_skewness(skewness: float) -> int:
    """With so many queries a 95% interval of the mean of so skewed differences is wrong in 6% of cases at most.

    Source: Cochran 1977, section 2.15.
    """
    return math.ceil(25 * skewness**2)


@dataclass(frozen=True)
class Procedure:
    """How sure one wants to be: ``level`` is the probability of any wrong claim in a family.

    All flips are taken, once each, where the queries have no more than ``flips`` of them.
    """

    level: float = 0.05
    flips: int = 10_000
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Family:
    """Comparisons that are made together: weighted sums of ``columns``, query by query.

    ``columns`` has shape (columns, queries), NaN where a query does not count, ``weights`` shape (comparisons,
    columns): of a pair 1 for the setting and -1 for the baseline.
    """

    columns: Scores
    weights: Scores

    def differences(self, rows: Rows = _ALL) -> Scores:
        """Of the comparisons in ``rows``, shape (comparisons, queries).

        NaN where a query does not count for all columns of a comparison. What is left of equal values that were rounded
        on different ways is 0.
        """
        weights = self.weights[rows]
        made = unrounded(weights @ self._known, np.abs(weights) @ np.abs(self._known))
        if self._unknown.any():
            made[(weights != 0).astype(np.float64) @ self._unknown > 0] = np.nan
        return made

    def blocks(self) -> Iterator[slice]:
        """The comparisons, as many at a time as their differences may take memory."""
        size = max(1, _BLOCK_VALUES // max(1, self.columns.shape[1]))
        return (slice(start, start + size) for start in range(0, max(1, len(self.weights)), size))

    @cached_property
    def _unknown(self) -> npt.NDArray[np.bool_]:
        return np.isnan(self.columns)

    @cached_property
    def _known(self) -> Scores:
        return np.where(self._unknown, 0.0, self.columns)


@dataclass(frozen=True, eq=False)
class Inference:
    """What the differences of a family allow to say. All arrays have the shape (comparisons,).

    ``mean`` is over ``n`` queries, of which ``differing`` have a difference that is not 0; ``deviation`` is the
    standard deviation of the differences; NaN where there are too few queries for it; ``skewness`` is their third
    central moment over the third power of the deviation (with n), 0 where that is 0. ``p`` and ``p_corrected`` are in
    [0, 1], and above 0 where they are shares of flips. They, ``low`` and ``high`` are NaN for a comparison with fewer
    than LEAST_DIFFERENCES differences that are not 0, and where a procedure has no such number. ``claims`` is 1 where
    the difference is shown to be above 0, -1 where below, else 0. ``criticals`` is what a studentised difference must
    exceed to be shown, by which power is reckoned.
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


def _moments(differences: Scores) -> tuple[npt.NDArray[Any], ...]:
    """Of each row the columns of a ``Sample``."""
    known = ~np.isnan(differences)
    values = np.where(known, differences, 0.0)
    largest = np.abs(values).max(axis=1, initial=0.0)
    scale = np.ldexp(1.0, np.frexp(largest)[1] - 1)
    scale[largest == 0] = 1.0
    values /= scale[:, None]
    n = known.sum(axis=1, dtype=np.int64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = values.sum(axis=1) / n
        about = np.where(known, values - mean[:, None], 0.0)
        squares = np.square(about)
        sums = squares.sum(axis=1)
        deviation = np.sqrt(sums / (n - 1))
        squares *= about
        skewness = squares.sum(axis=1) * np.sqrt(n) / sums**1.5
    differing = np.count_nonzero(values, axis=1).astype(np.int64)
    return n, differing, scale, np.square(values).sum(axis=1), mean, deviation, skewness


class Sample:
    """What is known of the differences of a family before anything is inferred; arrays of shape (comparisons,).

    Values are the differences divided by ``scale``, a power of two for each comparison, so that no square of them is
    too large or too small for a float. ``squares`` is the sum of their squares. ``tested`` says which comparisons have
    enough differences that are not 0.
    """

    def __init__(self, family: Family) -> None:
        self.family = family
        parts = [_moments(family.differences(rows)) for rows in family.blocks()]
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        self.n: npt.NDArray[np.int64] = columns[0]
        self.differing: npt.NDArray[np.int64] = columns[1]
        self.scale: Scores = columns[2]
        self.squares: Scores = columns[3]
        self.scaled_mean: Scores = columns[4]
        self.scaled_deviation: Scores = columns[5]
        self.skewness: Scores = columns[6]
        self.scaled_deviation[self.scaled_deviation <= _ROUNDING] = 0.0
        self.skewness[self.scaled_deviation == 0] = 0.0
        self.tested = self.differing >= LEAST_DIFFERENCES

    def values(self, rows: Rows = _ALL) -> Scores:
        """The values of the comparisons in ``rows``, shape (comparisons, queries); NaN where a query does not count."""
        return self.family.differences(rows) / self.scale[rows, None]

    @property
    def studentised(self) -> Scores:
        """The means over their standard errors, without signs; infinite where all differences are equal and not 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.abs(np.asarray(self.scaled_mean / (self.scaled_deviation / np.sqrt(self.n))))

    def inference(
        self,
        level: float,
        p: Scores | None = None,
        p_corrected: Scores | None = None,
        criticals: Scores | None = None,
    ) -> Inference:
        """What the numbers of the comparisons that are tested allow to say; None where a procedure has no such number.

        The interval is the mean, more or less ``criticals`` standard errors. Its end that was rounded to the other side
        of 0 than p_corrected says is put back, and makes the claim.
        """
        p, corrected, criticals = (self.spread(one) for one in (p, p_corrected, criticals))
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
        found = (mean, deviation, self.skewness, p, corrected, low, high, claims, criticals)
        return Inference(self.n, self.differing, *found)

    def spread(self, given: Scores | None) -> Scores:
        """What is given of the comparisons that are tested, and NaN for the others."""
        spread = np.full(len(self.n), np.nan)
        if given is not None:
            spread[self.tested] = given
        return spread
