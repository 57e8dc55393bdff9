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

from ragtrial.comparison.samples import (
    LEAST_DIFFERENCES,
    Family,
    Inference,
    Numbers,
    Procedure,
    Sample,
    claimed,
)
from ragtrial.grading import Scores

__all__ = ["LEAST_DIFFERENCES", "Family", "Inference", "Procedure", "infer", "infer_stepping_down", "takes_all"]

_BLOCK_VALUES = 2_000_000
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
    """The families with the sums of their columns in every flip, all from one product of matrices."""
    working = [_Flips(family, procedure) for family in families]
    parts = [one.columns for one in working if one.sample.tested.any()]
    if parts:
        sums = iter(_flipped_sums(parts, procedure))
        for one in working:
            if one.sample.tested.any():
                one.sums = next(sums)
    return working


class _Flips:
    """One family: its differences, and their sums in every flip, which are set before ``inference`` is asked for."""

    def __init__(self, family: Family, procedure: Procedure) -> None:
        self._family, self._procedure = family, procedure
        self.sample = Sample(family)
        self.sums: Scores = np.empty(0)
        self._exact = takes_all(family.columns.shape[1], procedure)

    @property
    def columns(self) -> Scores:
        """What is multiplied with signs, shape (columns, queries): what is weighed, and where queries count."""
        if self._is_linear:
            known = ~np.isnan(self._family.columns)
            return np.vstack([np.where(known, self._family.columns, 0.0), known[:1]])
        return np.vstack([self.sample.values[self.sample.tested], self.sample.known[self.sample.tested]])

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
        observed, flips = self.observed - _TOLERANCE, len(self.sums)
        reached = np.empty(len(observed), dtype=np.int64)
        highest = np.zeros((2, flips))
        for rows in self._blocks(np.arange(len(observed))):
            strengths = self.strengths(rows)
            reached[rows] = np.count_nonzero(strengths[0] >= observed[rows], axis=0)
            for most, one in zip(highest, strengths, strict=True):
                np.maximum(most, one.max(axis=1), out=most)
        p = shares(reached, flips, exact=exact)
        highest.sort(axis=1)
        limits = [_unbounded(critical_of(one, level, exact=exact) + _TOLERANCE) for one in highest]
        if len(observed) == 1:
            criticals = _eased(sample.studentised[sample.tested], *limits)
            return sample.inference(level, Numbers(p, p, criticals), is_exact=exact)
        above = [flips - np.searchsorted(one, observed) for one in highest]
        corrected = np.maximum(*(shares(one, flips, exact=exact) for one in above))
        return sample.inference(level, Numbers(p, corrected, np.full(len(p), max(limits))), is_exact=exact)

    def inference_stepping_down(self) -> Inference:
        single = self.inference()
        if not self.sample.tested.any():
            return single
        observed = self.observed
        order = np.argsort(observed, kind="stable")
        reached, highest = np.empty(len(order), dtype=np.int64), np.zeros((len(self.sums), 1))
        for rows in self._blocks(order):
            largest = np.maximum.accumulate(np.hstack([highest, self.strengths(rows)[0]]), axis=1)
            reached[rows] = np.count_nonzero(largest[:, 1:] >= observed[rows] - _TOLERANCE, axis=0)
            highest = largest[:, -1:]
        corrected = shares(reached, len(self.sums), exact=self._exact)
        corrected[order] = np.maximum.accumulate(corrected[order][::-1])[::-1]
        p_corrected = self.sample.spread(corrected)
        return replace(single, p_corrected=p_corrected, claims=claimed(p_corrected, single.mean, self._procedure.level))

    def _blocks(self, order: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
        """The comparisons that are tested, in ``order``, as many at once as are worked on without much memory."""
        size = max(1, _BLOCK_VALUES // len(self.sums))
        for start in range(0, len(order), size):
            yield order[start : start + size]

    @property
    def observed(self) -> Scores:
        """The statistics of the comparisons that are tested."""
        sample, tested = self.sample, self.sample.tested
        n = sample.n[tested]
        return _bounded(n * sample.scaled_mean[tested], np.square(sample.values[tested]).sum(axis=1), n)

    def strengths(self, rows: npt.NDArray[np.int64]) -> tuple[Scores, Scores]:
        """The statistics of each flip: of the differences, and of those less their means.

        Of ``rows`` among the comparisons that are tested; shape (flips, rows).
        """
        sample, tested = self.sample, np.flatnonzero(self.sample.tested)[rows]
        n = sample.n[tested]
        squares: Scores = np.square(sample.values[tested]).sum(axis=1)
        if self._is_linear:
            sums = self.sums[:, :-1] @ (self._family.weights[tested] / sample.scale[tested, None]).T
            signs = self.sums[:, -1:]
        else:
            half = self.sums.shape[1] // 2
            sums, signs = self.sums[:, rows], self.sums[:, half + rows]
        about: Scores = np.square(sample.scaled_deviation[tested]) * (n - 1.0)
        return _bounded(sums, squares, n), _bounded(sums - signs * sample.scaled_mean[tested], about, n)


def _bounded(sums: Scores, squares: Scores, n: npt.NDArray[np.int64]) -> Scores:
    """t^2 / (1 + t^2) for the studentised mean t of ``n`` values, from their sums and sums of squares; in [0, 1].

    With u = sum^2 / (n squares), t^2 is (n - 1) u / (1 - u). So nothing is subtracted that is nearly equal, and values
    that are all the same give 1, not a division by 0. Values that are all 0 give 0.
    """
    with np.errstate(divide="ignore"):
        part = np.square(sums)
        part *= np.where(squares > 0, (n - 1) / (n * squares), 0.0)
    return np.minimum(part / (part * ((n - 2) / (n - 1)) + 1.0), 1.0)


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
