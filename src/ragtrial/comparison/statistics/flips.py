"""Randomisation: the signs of per-query differences, flipped at random, all of a query's together.

If two settings are equally good, each query's difference might as well have had the other sign (Fisher 1935). The
studentised differences of all flips, the largest of the family in each, say how large one can be by chance alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ragtrial.comparison.statistics.samples import (
    LEAST_DIFFERENCES,
    Family,
    Inference,
    Numbers,
    Procedure,
    Sample,
    claimed,
)
from ragtrial.evaluation.grading import Scores

__all__ = ["LEAST_DIFFERENCES", "Family", "Inference", "Procedure", "infer", "infer_stepping_down", "takes_all"]

_BLOCK_VALUES = 2_000_000
_CACHED_VALUES = 50_000
_HELD_VALUES = 8_000_000
"""So many sums of single comparisons are held at once, in every flip, where those of columns do not give them."""

_TOLERANCE = 1e-10
"""Two statistics, each in [0, 1], that differ by less are equal: their sums were rounded on different ways."""

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
    return [one.inference() for one in _flipped(families, procedure)]


def infer_stepping_down(families: Sequence[Family], procedure: Procedure) -> list[Inference]:
    """As ``infer``, but p_corrected and claims are those of step-down max-|t| (Westfall & Young 1993, section 2.6).

    From the largest statistic down, each is compared with the largest of its own and all smaller ones in each flip of
    the differences as they are. So p_corrected is never above that of ``infer``, and a difference may be shown whose
    interval, which stays that of ``infer``, has 0 in it.
    """
    return [one.inference_stepping_down() for one in _flipped(families, procedure)]


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


def _flipped(families: Sequence[Family], procedure: Procedure) -> list[_Flips]:
    """The families with the sums of their columns in every flip, all from one product of matrices.

    Without those that are too many to be held: their sums are made when they are looked at.
    """
    working = [_Flips(family, procedure) for family in families]
    held = [one for one in working if one.sample.tested.any() and not one.is_large]
    for one, sums in zip(held, _flipped_sums([one.columns for one in held], procedure) if held else (), strict=True):
        one.sums = sums
    return working


class _Flips:
    """One family: its differences, and their sums in every flip, which are set before ``inference`` is asked for."""

    def __init__(self, family: Family, procedure: Procedure) -> None:
        self._family, self._procedure = family, procedure
        self.sample = Sample(family)
        self.sums: Scores = np.empty(0)
        queries = family.columns.shape[1]
        self._exact = takes_all(queries, procedure)
        self._count = 2**queries if self._exact else procedure.flips
        self._tested = np.flatnonzero(self.sample.tested)
        self._places = np.arange(len(self._tested))
        """Of single comparisons, where among ``sums`` those of each are."""

    @cached_property
    def is_large(self) -> bool:
        """Whether there are too many sums to be held at once."""
        return not self._is_linear and 2 * len(self._tested) * self._count > _HELD_VALUES

    @property
    def columns(self) -> Scores:
        """What is multiplied with signs, shape (columns, queries): what is weighed, and where queries count."""
        if self._is_linear:
            known = ~np.isnan(self._family.columns)
            return np.vstack([np.where(known, self._family.columns, 0.0), known[:1]])
        return self._alone(self._tested)

    def _alone(self, comparisons: npt.NDArray[np.int64]) -> Scores:
        """The differences of comparisons, and where queries count for each."""
        return np.vstack([self.sample.values[comparisons], self.sample.known[comparisons]])

    @cached_property
    def _is_linear(self) -> bool:
        """Whether sums of columns give the sums of all comparisons, with enough digits."""
        if not self._family.rows_alike:
            return False
        largest = np.nanmax(np.abs(self._family.columns), axis=1)
        weighed = np.abs(self._family.weights[self.sample.tested]) @ largest
        return bool((weighed <= _LINEAR * self.sample.scale[self.sample.tested]).all())

    def inference(self) -> Inference:
        level, exact, sample = self._procedure.level, self._exact, self.sample
        if not sample.tested.any():
            return sample.inference(level)
        observed, flips = self.observed - _TOLERANCE, self._count
        reached, highest = self._reached(observed)
        p = shares(reached, flips, exact=exact)
        highest.sort(axis=1)
        limits = [_unbounded(critical_of(one, level, exact=exact) + _TOLERANCE) for one in highest]
        if len(observed) == 1:
            criticals = _eased(sample.studentised[sample.tested], *limits)
            return sample.inference(level, Numbers(p, p, criticals), is_exact=exact)
        above = [flips - np.searchsorted(one, observed) for one in highest]
        corrected = np.maximum(*(shares(one, flips, exact=exact) for one in above))
        return sample.inference(level, Numbers(p, corrected, np.full(len(p), max(limits))), is_exact=exact)

    def _reached(self, observed: Scores) -> tuple[npt.NDArray[np.int64], Scores]:
        """In how many flips each comparison reaches what was observed, and the largest of the family in each flip.

        The latter of the differences, and of those less their means; shape (2, flips). The statistic grows with the
        ratio, so that of comparisons over equally many queries only the largest ratio is made one.
        """
        reached = np.empty(len(observed), dtype=np.int64)
        highest = np.zeros((2, self._count))
        counts = self.sample.n[self.sample.tested]
        for n in np.unique(counts):
            most = np.zeros_like(highest)
            for rows in self._blocks(np.flatnonzero(counts == n)):
                plain, centred = self.ratios(rows)
                reached[rows] = np.count_nonzero(plain >= _ratio(observed[rows], n)[:, None], axis=1)
                np.maximum(most, [plain.max(axis=0), centred.max(axis=0)], out=most)
            np.maximum(highest, _bounded(most, n), out=highest)
        return reached, highest

    def inference_stepping_down(self) -> Inference:
        single = self.inference()
        if not self.sample.tested.any():
            return single
        observed, counts = self.observed, self.sample.n[self.sample.tested]
        order = np.argsort(observed, kind="stable")
        flips = self._count
        reached, highest = np.empty(len(order), dtype=np.int64), np.zeros((1, flips))
        for rows in self._blocks(order):
            strengths = _bounded(self.ratios(rows)[0], counts[rows, None])
            largest = np.maximum.accumulate(np.vstack([highest, strengths]), axis=0)
            reached[rows] = np.count_nonzero(largest[1:] >= observed[rows, None] - _TOLERANCE, axis=1)
            highest = largest[-1:]
        corrected = shares(reached, flips, exact=self._exact)
        corrected[order] = np.maximum.accumulate(corrected[order][::-1])[::-1]
        p_corrected = self.sample.spread(corrected)
        return replace(single, p_corrected=p_corrected, claims=claimed(p_corrected, single.mean, self._procedure.level))

    def _blocks(self, order: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
        """The comparisons that are tested, in ``order``, as many at once as a processor's cache holds."""
        size = max(1, _CACHED_VALUES // self._count)
        for chunk in self._chunks(order):
            for start in range(0, len(chunk), size):
                yield chunk[start : start + size]

    def _chunks(self, order: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
        """The same, as many at once as have their sums held, which are those of the chunk while that is looked at."""
        if not self.is_large:
            yield order
            return
        size = max(1, _HELD_VALUES // (2 * self._count))
        for start in range(0, len(order), size):
            chunk = order[start : start + size]
            (self.sums,) = _flipped_sums([self._alone(self._tested[chunk])], self._procedure)
            self._places[chunk] = np.arange(len(chunk))
            yield chunk

    @property
    def observed(self) -> Scores:
        """The statistics of the comparisons that are tested."""
        sample, tested = self.sample, self.sample.tested
        n = sample.n[tested]
        return _bounded(np.square(n * sample.scaled_mean[tested]) / (n * self._squares), n)

    @cached_property
    def _squares(self) -> Scores:
        """The sums of squares of the comparisons that are tested, which flips do not change."""
        return np.asarray(np.square(self.sample.values[self.sample.tested]).sum(axis=1))

    def ratios(self, rows: npt.NDArray[np.int64]) -> tuple[Scores, Scores]:
        """The squared sum of each flip over its largest value, in [0, 1]: of the differences, and less their means.

        Of ``rows`` among the comparisons that are tested; shape (rows, flips). By Cauchy's inequality the largest value
        is n times the sum of squares. Differences that are all equal have none that is left less their mean: 0.
        """
        sample, tested = self.sample, self._tested[rows]
        n = sample.n[tested]
        if self._is_linear:
            sums = self._weighed(tested) / sample.scale[tested, None]
            signs = self.sums[-1:]
        else:
            half, places = len(self.sums) // 2, self._places[rows]
            sums, signs = self.sums[places], self.sums[half + places]
        about = np.square(sample.scaled_deviation[tested]) * (n - 1.0)
        centred = sums - sample.scaled_mean[tested, None] * signs
        with np.errstate(divide="ignore"):
            within = np.where(about > 0, 1.0 / (n * about), 0.0)
        for made, factor in ((sums, 1.0 / (n * self._squares[rows])), (centred, within)):
            np.square(made, out=made)
            made *= factor[:, None]
        return sums, centred

    def _weighed(self, comparisons: npt.NDArray[np.int64]) -> Scores:
        """The sums of comparisons from those of columns, shape (comparisons, flips): of pairs, by one subtraction."""
        weights = self._family.weights[comparisons]
        if self._are_pairs:
            return np.asarray(self.sums[weights.argmax(axis=1)] - self.sums[weights.argmin(axis=1)])
        return np.asarray(weights @ self.sums[:-1])

    @cached_property
    def _are_pairs(self) -> bool:
        """Whether each comparison is one column less another."""
        weights = self._family.weights
        are_two = (np.count_nonzero(weights, axis=1) == 2) & (weights.max(axis=1) == 1) & (weights.min(axis=1) == -1)
        return bool(are_two.all())


def _bounded(ratios: Scores, n: npt.NDArray[np.int64] | np.int64) -> Scores:
    """t^2 / (1 + t^2) for the studentised mean t of ``n`` values; in [0, 1].

    With the ratio u = sum^2 / (n squares), t^2 is (n - 1) u / (1 - u). So nothing is subtracted that is nearly equal,
    and values that are all the same give 1, not a division by 0. Values that are all 0 give 0.
    """
    return np.minimum((n - 1) * ratios / ((n - 2) * ratios + 1.0), 1.0)


def _ratio(bounded: Scores, n: np.int64) -> Scores:
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


def _flipped_sums(parts: Sequence[Scores], procedure: Procedure) -> list[Scores]:
    """For each part, shape (columns, queries), the sums of its columns under each flip, shape (columns, flips)."""
    stacked = np.vstack(parts)
    sums = np.hstack([stacked @ signs.T for signs in _signs(stacked.shape[1], procedure)])
    return np.split(sums, np.cumsum([len(part) for part in parts])[:-1])


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
