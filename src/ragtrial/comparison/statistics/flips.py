"""Randomisation: the signs of per-query differences, flipped at random, all of a query's together.

If two settings are equally good, each query's difference might as well have had the other sign (Fisher 1935). The
studentised differences of all flips, the largest of the family in each, say how large one can be by chance alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ragtrial.comparison.statistics.samples import Family, Inference, Procedure, Sample
from ragtrial.evaluation.grading import Scores

_BLOCK_VALUES = 2_000_000
"""So many signs are drawn at once."""

_CACHED_VALUES = 50_000
"""So many statistics of a family are computed at once, which a processor's cache holds."""

_LEAST_FLIPS = 64
"""A product of matrices of fewer flips than this is slow; it is taken of more comparisons than the cache holds."""

_TOLERANCE = 1e-10
"""Two statistics, each in [0, 1], that differ by less are equal: their sums were rounded in different ways."""

_LINEAR = 1e3
"""Where columns are larger than their differences by more, sums of columns have too few digits for the differences."""


def infer(families: Sequence[Family], procedure: Procedure) -> list[Inference]:
    """Tests and simultaneous intervals from one procedure, single-step max-|t| (Westfall & Young 1993, chapter 2).

    All families are over the same queries, whose signs are flipped together in all of them, so that what comparisons
    have in common is kept. ``p`` is the share of flips, the observed signs among them, in which the studentised
    difference is at least the one observed, p_corrected that in which the largest of the family is. The interval is the
    mean, more or less ``criticals`` standard errors; p_corrected is at most the level exactly where it leaves out 0.

    Flips of the differences as they are make a test that is exact where they are symmetric around 0; flips of those
    less their means have the spread and the dependence that the intervals need where something does differ. In a family
    of several the larger p_corrected and the larger critical value of the two count: of settings that differ strongly
    the former flips hardly differ from one another, which would make all intervals too narrow. One comparison has no
    others to depend on: the former make its test, and its critical value goes from theirs at a difference that is
    just shown towards that of the latter as the difference grows.
    """
    working = [_Flips(family, procedure) for family in families]
    tested = [one for one in working if len(one.observed)]
    if tested:
        queries, comparisons = families[0].columns.shape[1], max(len(one.observed) for one in tested)
        rows = min(_BLOCK_VALUES // queries, max(_LEAST_FLIPS, _CACHED_VALUES // comparisons))
        columns, ends = np.vstack([one.columns for one in tested]), np.cumsum([len(one.columns) for one in tested])
        for signs in _signs(queries, procedure, max(1, rows)):
            for one, sums in zip(tested, np.split(columns @ signs.T, ends[:-1]), strict=True):
                one.add(sums)
    return [one.inference() for one in working]


def takes_all(queries: int, procedure: Procedure) -> bool:
    """Whether all flips of so many queries are taken."""
    return 1 << min(queries, 62) <= procedure.flips


def shares(reached: npt.NDArray[np.int64], drawn: int, *, exact: bool) -> Scores:
    """The share of flips; the observed signs, which are one of all of them, are added to those that were drawn."""
    return np.maximum(reached, 1) / drawn if exact else (reached + 1) / (drawn + 1)


def critical_of(largest: Scores, level: float, *, exact: bool) -> float:
    """What must be exceeded so that the share of flips that reach it is at most the level. ``largest`` ascends."""
    extra = 0 if exact else 1
    allowed = math.floor(level * (len(largest) + extra) * (1 + _TOLERANCE)) - extra
    return float(largest[-1 - allowed]) if 0 <= allowed < len(largest) else math.inf


class _Flips:
    """One family: its differences, and how many of the flips that were added reach what was observed.

    A statistic is t^2 / (1 + t^2), see ``_bounded``. It grows with the squared sum of a flip over its largest value,
    which by Cauchy's inequality is n times the sum of squares; sums are compared by this ratio, in [0, 1].
    """

    def __init__(self, family: Family, procedure: Procedure) -> None:
        self.sample = sample = Sample(family)
        tested = sample.tested
        self._level = procedure.level
        queries = family.columns.shape[1]
        self._exact = takes_all(queries, procedure)
        self._n, self._mean = sample.n[tested], sample.scaled_mean[tested, None]
        about = np.square(sample.scaled_deviation[tested]) * (self._n - 1.0)
        with np.errstate(divide="ignore"):  # differences that are all equal have none that is left less their mean
            self._within = np.where(about > 0, 1.0 / (self._n * about), 0.0)[:, None]
        self._about_0 = 1.0 / (self._n * sample.squares[tested])
        self.observed = _bounded(np.square(self._n * self._mean[:, 0]) * self._about_0, self._n)
        """The statistics of the comparisons that are tested."""
        self._limits = _ratio(self.observed - _TOLERANCE, self._n)[:, None]
        self._reached = np.zeros(len(self.observed), dtype=np.int64)
        self._highest: list[Scores] = []
        """The largest statistics in each flip of the differences, and of those less their means; shape (2, flips)."""
        self._weights = None
        self._pairs: tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]] | None = None
        unknown = np.isnan(family.columns)
        is_same = bool((unknown == unknown[:1]).all())  # what counts for one column counts for all
        if is_same and self._has_digits(family):
            self._weights = family.weights[tested]
            self._pairs = _pairs(self._weights)
            values, known = np.where(unknown, 0.0, family.columns), ~unknown[:1]
        else:
            values = sample.values(tested)
            known = ~np.isnan(values)
            values[~known] = 0.0
            known = known[:1] if is_same else known
        self._summed = len(values)
        self.columns: Scores = np.vstack([values, known])
        """What is multiplied with signs, shape (columns, queries): what is weighed, and where queries count."""

    def _has_digits(self, family: Family) -> bool:
        """Whether the sums of all comparisons can be made of those of columns, of which there are fewer."""
        largest = np.nanmax(np.abs(family.columns), axis=1, initial=0.0)
        weighed = np.abs(family.weights[self.sample.tested]) @ largest
        return bool((weighed <= _LINEAR * self.sample.scale[self.sample.tested]).all())

    def add(self, product: Scores) -> None:
        """Count some more flips: the product of ``columns`` with their signs, shape (columns, flips)."""
        sums, signs = product[: self._summed], product[self._summed :]
        if self._weights is not None:
            pairs = self._pairs
            sums = self._weights @ sums if pairs is None else sums[pairs[0]] - sums[pairs[1]]
            sums /= self.sample.scale[self.sample.tested, None]
        centred = sums - self._mean * signs
        for made, factor in ((sums, self._about_0[:, None]), (centred, self._within)):
            np.square(made, out=made)
            made *= factor
        self._reached += np.count_nonzero(sums >= self._limits, axis=1)
        self._highest.append(np.array([self._largest(sums), self._largest(centred)]))

    def _largest(self, ratios: Scores) -> Scores:
        """The largest statistic of each flip; over equally many queries it is that of the largest ratio."""
        if (self._n == self._n[0]).all():
            return _bounded(ratios.max(axis=0), self._n[0])
        return np.asarray(_bounded(ratios, self._n[:, None]).max(axis=0))

    def inference(self) -> Inference:
        level, exact, sample = self._level, self._exact, self.sample
        if not len(self.observed):
            return sample.inference(level)
        highest = np.sort(np.hstack(self._highest), axis=1)
        flips = highest.shape[1]
        p = shares(self._reached, flips, exact=exact)
        limits = [_unbounded(critical_of(one, level, exact=exact) + _TOLERANCE) for one in highest]
        if len(p) == 1:
            criticals = _eased(sample.studentised[sample.tested], *limits)
            return sample.inference(level, p, p, criticals)
        above = [flips - np.searchsorted(one, self.observed - _TOLERANCE) for one in highest]
        corrected = np.maximum(*(shares(one, flips, exact=exact) for one in above))
        return sample.inference(level, p, corrected, np.full(len(p), max(limits)))


def _pairs(weights: Scores) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]] | None:
    """The columns with the weights 1 and -1, where every comparison is of two; None otherwise.

    Two rows are subtracted in a small part of the time of a product, for which BLAS also wakes its threads.
    """
    if not weights.size:
        return None
    plus, minus = weights.argmax(axis=1), weights.argmin(axis=1)
    rows = np.arange(len(weights))
    are_pairs = (weights[rows, plus] == 1) & (weights[rows, minus] == -1) & (np.count_nonzero(weights, axis=1) == 2)
    return (plus, minus) if are_pairs.all() else None


def _bounded(ratios: Scores, n: npt.NDArray[np.int64] | np.int64) -> Scores:
    """t^2 / (1 + t^2) for the studentised mean t of ``n`` values; in [0, 1].

    With the ratio u = sum^2 / (n squares), t^2 is (n - 1) u / (1 - u). So nothing is subtracted that is nearly equal,
    and values that are all the same give 1, not a division by 0. Values that are all 0 give 0.
    """
    return np.minimum((n - 1) * ratios / ((n - 2) * ratios + 1.0), 1.0)


def _ratio(bounded: Scores, n: npt.NDArray[np.int64]) -> Scores:
    """What ``_bounded`` makes it of."""
    return bounded / ((n - 1) - (n - 2) * bounded)


def _unbounded(bounded: float) -> float:
    """|t|, from t^2 / (1 + t^2)."""
    return math.sqrt(bounded / (1.0 - bounded)) if bounded < 1 else math.inf


def _eased(studentised: Scores, plain: float, centred: float) -> Scores:
    """A critical value that is ``plain`` for what it does not let show, and nears ``centred`` with growing differences.

    That of the value m between 0 and the mean that is just not refused, where the critical value of m is in proportion
    between the two: from ``plain`` at 0, for flips of the differences are flips less m, to ``centred`` at the mean.
    """
    beyond = (studentised > plain) & np.isfinite(studentised) & math.isfinite(centred)
    eased = np.full(len(studentised), plain)
    np.divide(studentised * centred, studentised + (centred - plain), out=eased, where=beyond)
    return eased


def _signs(queries: int, procedure: Procedure, rows: int) -> Iterator[Scores]:
    """Signs, -1 or 1, in blocks of shape (at most ``rows`` flips, queries): all, or as many as are to be drawn."""
    if takes_all(queries, procedure):
        for start in range(0, 2**queries, rows):
            numbers = np.arange(start, min(start + rows, 2**queries))
            yield np.asarray(1.0 - 2.0 * ((numbers[:, None] >> np.arange(queries)) & 1))
        return
    random, words = np.random.default_rng(procedure.seed), -(-queries // 64)
    for start in range(0, procedure.flips, rows):
        size = min(rows, procedure.flips - start), words
        drawn = random.integers(0, 2**64, size=size, dtype=np.uint64)
        bits = np.unpackbits(drawn.astype("<u8").view(np.uint8), axis=1, count=queries)
        yield np.asarray(1.0 - 2.0 * bits)
