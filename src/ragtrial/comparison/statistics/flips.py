"""Randomisation: the signs of the differences of clusters, flipped at random, in all comparisons together.

If two settings are equally good, each cluster's difference might as well have had the other sign (Fisher 1935). The
studentised differences of all flips, the largest of the family in each, show how large one can be by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ragtrial.comparison.statistics.samples import DrawResult, Procedure, Sample, spread_of
from ragtrial.evaluation.clusters import Places, sums_by
from ragtrial.evaluation.grading import Scores

_BLOCK_VALUES = 2_000_000
"""The number of signs that are drawn at once."""

_CACHED_VALUES = 50_000
"""The number of statistics of a family that are computed at once: they fit a processor's cache."""

_LEAST_FLIPS = 256
"""A product of matrices of fewer flips than this is slow."""

_TOLERANCE = 1e-10
"""Two statistics, each in [0, 1], that differ by less are equal: their sums were rounded in different ways."""

_ALL = slice(None)

_LINEAR = 1e3
"""Where columns are larger than their differences by more, sums of columns have too few digits for the differences."""


def flipped(samples: Sequence[Sample], procedure: Procedure) -> list[DrawResult]:
    """The bounds of each family by sign flips, single-step max-|t| (Westfall & Young 1993, chapter 2).

    All families have the same clusters. Their signs are flipped together in all families, which keeps the dependence
    between comparisons. ``p`` is the share of flips, including the observed signs, in which the studentised difference
    is at least as large; for p_corrected the largest difference of the family counts.

    Flips of the raw differences give a test that is exact if they are symmetric around 0. Flips of the centred
    differences have the spread and the dependence that intervals need if settings differ. In a family of several
    comparisons the larger p_corrected and the larger critical value of the two count: if settings differ strongly,
    flips of raw differences hardly vary, and would make all intervals too narrow. A single comparison depends on no
    others: raw flips make its test, and its critical value moves from theirs, at a difference that is just shown,
    towards that of centred flips as the difference grows.
    """
    working = [_Flips(sample, procedure) for sample in samples]
    tested = [flips for flips in working if len(flips.observed)]
    if tested:
        clusters, comparisons = tested[0].columns.shape[1], max(len(flips.observed) for flips in tested)
        rows = min(_BLOCK_VALUES // clusters, max(_LEAST_FLIPS, _CACHED_VALUES // comparisons))
        blocks = [flips.columns for flips in tested]
        columns, ends = np.vstack(blocks), np.cumsum([len(block) for block in blocks])
        for signs in _signs(clusters, procedure, max(1, rows)):
            for flips, sums in zip(tested, np.split(columns @ signs.T, ends[:-1]), strict=True):
                flips.add(sums)
    return [flips.bounds() for flips in working]


def takes_all(clusters: int, procedure: Procedure) -> bool:
    """True if every flip of this number of clusters is taken."""
    return 1 << min(clusters, 62) <= procedure.flips


def shares(reached: Places, drawn: int, *, exact: bool) -> Scores:
    """The share of flips. If flips are drawn, the observed signs are added to them."""
    return np.maximum(reached, 1) / drawn if exact else (reached + 1) / (drawn + 1)


def critical_of(largest: Scores, level: float, *, exact: bool) -> float:
    """The value that must be exceeded so that the share of draws that reach it is at most the level.

    ``largest`` ascends.
    """
    extra = 0 if exact else 1
    allowed = math.floor(level * (len(largest) + extra) * (1 + _TOLERANCE)) - extra
    return float(largest[-1 - allowed]) if 0 <= allowed < len(largest) else math.inf


class _Flips:
    """One family: its differences, and how many of the added flips reach them.

    A statistic is t^2 / (1 + t^2), in [0, 1]: the squared sum of a flip over itself plus its squared standard error.
    This never divides by 0, and equal values give 1.
    """

    def __init__(self, sample: Sample, procedure: Procedure) -> None:
        tested, family = sample.tested, sample.family
        values, sizes = sample.units(tested)
        self.sample, self._level = sample, procedure.level
        self._exact = takes_all(sizes.shape[1], procedure)
        # One number for each comparison, shape (comparisons, 1).
        self._n = sample.n[tested, None].astype(np.float64)
        self._mean, self._scale = sample.scaled_mean[tested, None], sample.scale[tested, None]
        self._totals, self._sizes = _sums(sizes), _sums(np.square(sizes))
        self._squares, varies = _sums(np.square(values)), sample.scaled_deviation[tested, None] > 0
        self._centred = np.where(varies, _sums(np.square(values - self._mean * sizes)), 0.0)
        self.observed = self._statistics(_ALL, _sums(values), _sums(values * sizes), self._squares)[:, 0]
        """The statistics of the comparisons that are tested."""
        # The columns that are multiplied with signs. Clusters of one query need no products with their sizes.
        columns = self._pair_columns()
        self._pairs = None if columns is None or family.pairs is None else family.pairs[tested]
        blocks = [values if columns is None else columns, sizes]
        if (sizes > 1).any():
            blocks += [blocks[0] * sizes, np.square(sizes)]
        self._ends = np.cumsum([len(block) for block in blocks])[:-1]
        self.columns: Scores = np.vstack(blocks)
        """Columns to multiply with signs, shape (columns, clusters): values and numbers of queries."""
        self._reached = np.zeros(len(self.observed), dtype=np.int64)
        self._highest: list[Scores] = []
        """The largest statistics in each flip of the raw differences, and of the centred differences; shape (2,
        flips)."""

    def _pair_columns(self) -> Scores | None:
        """The columns whose pairs are subtracted; None if they lack the digits, or queries count for only some of them.

        There are fewer columns than pairs, so subtracting their sums takes a small part of the time.
        """
        family, tested = self.sample.family, self.sample.tested
        unknown = np.isnan(family.columns)
        if family.pairs is None or not (unknown == unknown[:1]).all():
            return None
        columns = sums_by(family.clusters, np.where(unknown, 0.0, family.columns))
        largest = np.abs(columns).max(axis=1, initial=0.0)[family.pairs[tested]].sum(axis=1)
        return columns if (largest <= _LINEAR * self._scale[:, 0]).all() else None

    def add(self, product: Scores) -> None:
        """Count some more flips: the product of ``columns`` with their signs, shape (columns, flips)."""
        values, sizes, *weighed = np.split(product, self._ends)
        crossed, squares = weighed or (None, sizes)
        flips, count = product.shape[1], len(self.observed)
        highest = np.zeros((2, flips))
        step = max(1, _CACHED_VALUES // flips)
        for start in range(0, count, step):
            rows = slice(start, start + step)
            sums = self._of_comparisons(values, rows)
            products = sums if crossed is None else self._of_comparisons(crossed, rows)
            mean, own = self._mean[rows], rows if len(sizes) > 1 else _ALL
            plain = self._statistics(rows, sums, products, self._squares[rows])
            self._reached[rows] += np.count_nonzero(plain >= self.observed[rows, None] - _TOLERANCE, axis=1)
            sums, products = sums - mean * sizes[own], products - mean * squares[own]
            centred = self._statistics(rows, sums, products, self._centred[rows])
            np.maximum(highest, [plain.max(axis=0), centred.max(axis=0)], out=highest)
        self._highest.append(highest)

    def _of_comparisons(self, values: Scores, rows: slice) -> Scores:
        """The sums of the comparisons in ``rows``, computed from the sums of columns if those were multiplied."""
        if self._pairs is None:
            return values[rows]
        pairs = self._pairs[rows]
        return np.asarray((values[pairs[:, 0]] - values[pairs[:, 1]]) / self._scale[rows])

    def _statistics(self, rows: slice, sums: Scores, crossed: Scores, squares: Scores) -> Scores:
        """The statistics of the comparisons in ``rows``, whose sums of squares are ``squares``."""
        own = rows if len(self._totals) > 1 else _ALL
        spread = spread_of(sums, crossed, squares, self._totals[own], self._sizes[own], self._n[rows])
        statistics = np.square(sums)
        statistics *= squares > 0  # differences that are all equal leave nothing less their mean
        spread += statistics
        return np.divide(statistics, spread, out=statistics, where=statistics > 0)

    def bounds(self) -> DrawResult:
        level, exact, sample = self._level, self._exact, self.sample
        if not len(self.observed):
            return DrawResult(*np.zeros((3, 0)))
        highest = np.sort(np.hstack(self._highest), axis=1)
        flips = highest.shape[1]
        p = shares(self._reached, flips, exact=exact)
        limits = [_unbounded(critical_of(ascending, level, exact=exact) + _TOLERANCE) for ascending in highest]
        if len(p) == 1:
            return DrawResult(p, p, _eased(sample.studentised[sample.tested], *limits))
        above = [flips - np.searchsorted(ascending, self.observed - _TOLERANCE) for ascending in highest]
        corrected = np.maximum(*(shares(ascending, flips, exact=exact) for ascending in above))
        return DrawResult(p, corrected, np.full(len(p), max(limits)))


def _sums(values: Scores) -> Scores:
    return np.asarray(values.sum(axis=1, keepdims=True))


def _unbounded(bounded: float) -> float:
    """|t|, from t^2 / (1 + t^2)."""
    return math.sqrt(bounded / (1.0 - bounded)) if bounded < 1 else math.inf


def _eased(studentised: Scores, plain: float, centred: float) -> Scores:
    """The critical value of a single comparison, from ``plain`` towards ``centred`` as differences grow.

    It is the critical value of the largest mean m between 0 and the observed mean that the data reject. The critical
    value of m is interpolated: ``plain`` at 0, because flips of the differences are flips minus m there, and
    ``centred`` at the mean.
    """
    beyond = (studentised > plain) & np.isfinite(studentised) & math.isfinite(centred)
    eased = np.full(len(studentised), plain)
    np.divide(studentised * centred, studentised + (centred - plain), out=eased, where=beyond)
    return eased


def _signs(clusters: int, procedure: Procedure, rows: int) -> Iterator[Scores]:
    """Signs, -1 or 1, in blocks of shape (at most ``rows`` flips, clusters): all, or as many as are to be drawn."""
    if takes_all(clusters, procedure):
        for start in range(0, 2**clusters, rows):
            numbers = np.arange(start, min(start + rows, 2**clusters))
            yield np.asarray(1.0 - 2.0 * ((numbers[:, None] >> np.arange(clusters)) & 1))
        return
    random, words = np.random.default_rng(procedure.seed), -(-clusters // 64)
    for start in range(0, procedure.flips, rows):
        size = min(rows, procedure.flips - start), words
        drawn = random.integers(0, 2**64, size=size, dtype=np.uint64)
        bits = np.unpackbits(drawn.astype("<u8").view(np.uint8), axis=1, count=clusters).view(np.int8)
        yield (1 - 2 * bits).astype(np.float64)
