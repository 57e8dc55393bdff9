"""Randomisation: the signs of per-query differences, flipped at random, all of a query's together.

If two settings are equally good, each query's difference might as well have had the other sign (Fisher 1935). The
studentised differences of all flips, the largest of the family in each, say how large one can be by chance alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ragtrial.grading import Scores

_BLOCK_VALUES = 2_000_000
_TOLERANCE = 1e-9
"""Two statistics that differ by less, relatively, are equal: their sums were rounded on different ways."""

LEAST_DIFFERENCES = 10
"""Of fewer differences that are not 0 neither test nor interval is given."""


@dataclass(frozen=True)
class Procedure:
    """How sure one wants to be: ``level`` is the probability of any wrong claim in a family.

    All flips are taken, once each, where the queries that differ have no more than ``flips`` of them.
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

    @cached_property
    def differences(self) -> Scores:
        """Shape (comparisons, queries); NaN where a query does not count for all columns of a comparison."""
        known = np.where(np.isnan(self.columns), 0.0, self.columns)
        made: Scores = self.weights @ known
        unknown = (self.weights != 0).astype(np.float64) @ np.isnan(self.columns)
        made[unknown > 0] = np.nan
        return made


@dataclass(frozen=True, eq=False)
class Inference:
    """What the differences of a family allow to say. All arrays have the shape (comparisons,).

    ``mean`` is over ``n`` queries, ``error`` its standard error, ``deviation`` the standard deviation of the
    differences; NaN where there are too few queries for it. ``p`` and ``p_corrected`` are in (0, 1]; they, ``low`` and
    ``high`` are NaN for a comparison with fewer than LEAST_DIFFERENCES differences that are not 0. ``critical`` is
    what a studentised difference must exceed for p_corrected to be at most the level. ``is_exact`` says that all flips
    were taken.
    """

    n: npt.NDArray[np.int64]
    mean: Scores
    deviation: Scores
    p: Scores
    p_corrected: Scores
    low: Scores
    high: Scores
    critical: float
    is_exact: bool

    @property
    def error(self) -> Scores:
        return np.asarray(self.deviation / np.sqrt(self.n))


def infer(families: Sequence[Family], procedure: Procedure) -> list[Inference]:
    """Tests and simultaneous intervals from one procedure, single-step max-|t| (Westfall & Young 1993, chapter 2).

    All families are over the same queries, whose signs are flipped together in all of them, so that what comparisons
    have in common is kept. p_corrected is the share of flips, the observed signs among them, in which the largest
    studentised difference of the family is at least the one observed; the interval is the mean, more or less
    ``critical`` standard errors. Flips are taken of the differences as they are, which is exact where nothing differs,
    and of those less their means, which has the dependence right where something does: the larger p and the wider
    interval of the two count. So p_corrected is at most the level exactly where the interval leaves out 0.
    """
    working = [_Working(family, procedure) for family in families]
    columns = [one.columns for one in working if one.tested.any()]
    if columns:
        sums = iter(_flipped_sums(columns, procedure))
        for one in working:
            if one.tested.any():
                one.sums = next(sums)
    return [one.outcome() for one in working]


def takes_all(queries: int, procedure: Procedure) -> bool:
    """Whether all flips of so many queries are taken."""
    return 1 << min(queries, 62) <= procedure.flips


class _Working:
    """One family: its differences, and their sums in every flip."""

    def __init__(self, family: Family, procedure: Procedure) -> None:
        self._family, self._procedure = family, procedure
        differences = family.differences
        self._known = ~np.isnan(differences)
        self._zeros = np.where(self._known, differences, 0.0)
        self.n = self._known.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            self.mean = self._zeros.sum(axis=1) / self.n
            squared = np.square(np.where(self._known, differences - self.mean[:, None], 0.0)).sum(axis=1)
            self.deviation = np.sqrt(squared / (self.n - 1))
        self.deviation[self.deviation <= np.abs(self._zeros).max(axis=1, initial=0.0) * _TOLERANCE] = 0.0
        self.tested = np.count_nonzero(self._zeros, axis=1) >= LEAST_DIFFERENCES
        self.sums: Scores = np.empty(0)
        self._is_exact = takes_all(differences.shape[1], procedure)

    @property
    def columns(self) -> Scores:
        """What is multiplied with signs, shape (columns, queries): what is weighed, and where queries count."""
        if self._is_whole:
            return np.vstack([self._family.columns, np.ones(self._family.columns.shape[1])])
        return np.vstack([self._zeros[self.tested], self._known[self.tested]])

    @property
    def _is_whole(self) -> bool:
        """Whether all queries count in all columns: then sums of columns are enough for all comparisons."""
        return not np.isnan(self._family.columns).any()

    def outcome(self) -> Inference:
        p, corrected, low, high = (np.full(len(self.n), np.nan) for _ in range(4))
        critical, tested = np.inf, self.tested
        if tested.any():
            p[tested], corrected[tested], critical = self._judged()
            error = self.deviation[tested] / np.sqrt(self.n[tested])
            width = np.zeros_like(error)
            np.multiply(error, critical, out=width, where=error > 0)
            low[tested], high[tested] = self.mean[tested] - width, self.mean[tested] + width
        exact = self._is_exact and bool(tested.any())
        return Inference(self.n, self.mean, self.deviation, p, corrected, low, high, critical, exact)

    def _judged(self) -> tuple[Scores, Scores, float]:
        """p, p_corrected, and the critical value, of the comparisons that are tested."""
        n, mean = self.n[self.tested], self.mean[self.tested]
        squares = np.square(self._zeros[self.tested]).sum(axis=1)
        sums, signs = self._flipped()
        observed = np.abs(_studentised(n * mean, squares, n)) * (1 - _TOLERANCE)
        p, corrected, critical = np.zeros(len(n)), np.zeros(len(n)), 0.0
        for flipped_sums, their_squares in (
            (sums, squares),
            (sums - signs * mean, np.square(self.deviation[self.tested]) * (n - 1)),
        ):
            chance = np.abs(_studentised(flipped_sums, their_squares, n))
            largest = np.sort(chance.max(axis=1))
            p = np.maximum(p, self._share(np.count_nonzero(chance >= observed, axis=0)))
            corrected = np.maximum(corrected, self._share(len(largest) - np.searchsorted(largest, observed)))
            critical = max(critical, self._critical(largest))
        return p, corrected, critical

    def _flipped(self) -> tuple[Scores, Scores]:
        """Of the comparisons that are tested the sums of the flipped differences, and of the signs of their queries."""
        if self._is_whole:
            return self.sums[:, :-1] @ self._family.weights[self.tested].T, self.sums[:, -1:]
        half = self.sums.shape[1] // 2
        return self.sums[:, :half], self.sums[:, half:]

    def _share(self, reached: npt.NDArray[np.int64]) -> Scores:
        """The share of flips; the observed signs, which are one of all of them, are added to those that were drawn."""
        if self._is_exact:
            return np.maximum(reached, 1) / len(self.sums)
        return (reached + 1) / (len(self.sums) + 1)

    def _critical(self, largest: Scores) -> float:
        """What must be exceeded so that the share of flips that reach it is at most the level."""
        drawn = len(largest) + (0 if self._is_exact else 1)
        allowed = int(self._procedure.level * drawn + _TOLERANCE) - (0 if self._is_exact else 1)
        return float(largest[-1 - allowed]) if 0 <= allowed < len(largest) else np.inf


def _studentised(sums: Scores, squares: Scores, n: npt.NDArray[np.int64]) -> Scores:
    """Means over their standard errors, from the sums and the sums of squares of ``n`` values; infinite without any."""
    variances = (squares - np.square(sums) / n) * (n / (n - 1))
    variances[variances <= np.broadcast_to(squares, variances.shape) * _TOLERANCE] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        made = sums / np.sqrt(variances)
    return np.where(np.square(sums) <= squares * n * _TOLERANCE**2, 0.0, made)


def _flipped_sums(parts: Sequence[Scores], procedure: Procedure) -> list[Scores]:
    """For each part, shape (columns, queries), the sums of its columns under each flip, shape (flips, columns)."""
    stacked = np.vstack(parts).T
    blocks = [signs @ stacked for signs in _signs(len(stacked), procedure)]
    sums = np.vstack(blocks)
    return np.split(sums, np.cumsum([len(part) for part in parts])[:-1], axis=1)


def _signs(queries: int, procedure: Procedure) -> Iterator[Scores]:
    """Signs, -1 or 1, in blocks of shape (some flips, queries): all of them, or as many as are to be drawn."""
    if takes_all(queries, procedure):
        numbers = np.arange(2**queries)
        yield np.asarray(1.0 - 2.0 * ((numbers[:, None] >> np.arange(queries)) & 1))
        return
    random, words = np.random.default_rng(procedure.seed), -(-queries // 64)
    rows = max(1, _BLOCK_VALUES // queries)
    for start in range(0, procedure.flips, rows):
        size = (min(rows, procedure.flips - start), words)
        drawn = random.integers(0, 2**64, size=size, dtype=np.uint64)
        bits = np.unpackbits(drawn.astype("<u8").view(np.uint8), axis=1, count=queries)
        signs: Scores = np.asarray(bits * -2.0 + 1.0)
        yield signs
