"""Randomisation: the signs of per-query differences, flipped at random, all of a query's together.

If two settings are equally good, each query's difference might as well have had the other sign (Fisher 1935). The
studentised differences of all flips, the largest of the family in each, say how large one can be by chance alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ragtrial.grading import Scores

_BLOCK_VALUES = 2_000_000
_TOLERANCE = 1e-10
"""Two statistics, each in [0, 1], that differ by less are equal: their sums were rounded on different ways."""

_ROUNDING = 1e-12
"""A difference that is a smaller part of what was subtracted is 0."""

_LINEAR = 1e3
"""Where columns are larger than their differences by more, sums of columns have too few digits for the differences."""

LEAST_DIFFERENCES = 10
"""Of fewer differences that are not 0 neither test nor interval is given."""


@dataclass(frozen=True)
class Procedure:
    """How sure one wants to be: ``level`` is the probability of any wrong claim in a family.

    All flips are taken, once each, where the queries have no more than ``flips`` of them. Raises ValueError where the
    level is not between 0 and 1, or so few flips could never show a difference at it.
    """

    level: float = 0.05
    flips: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"the level is {self.level}; it must be between 0 and 1, as 0.05 is.")
        if (self.flips + 1) * self.level < 1:
            least = math.ceil(1 / self.level - 1)
            raise ValueError(f"{self.flips:,} flips never show a difference at level {self.level:g}; take {least:,}.")


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
        """Shape (comparisons, queries); NaN where a query does not count for all columns of a comparison.

        What is left of equal values that were rounded on different ways is 0.
        """
        known = np.where(np.isnan(self.columns), 0.0, self.columns)
        made: Scores = self.weights @ known
        made[np.abs(made) <= np.abs(self.weights) @ np.abs(known) * _ROUNDING] = 0.0
        unknown = (self.weights != 0).astype(np.float64) @ np.isnan(self.columns)
        made[unknown > 0] = np.nan
        return made

    @property
    def rows_alike(self) -> bool:
        """Whether a query that counts for one column counts for all."""
        unknown = np.isnan(self.columns)
        return bool((unknown == unknown[:1]).all())


@dataclass(frozen=True, eq=False)
class Inference:
    """What the differences of a family allow to say. All arrays have the shape (comparisons,).

    ``mean`` is over ``n`` queries, of which ``differing`` have a difference that is not 0; ``deviation`` is the
    standard deviation of the differences; NaN where there are too few queries for it. ``p`` and ``p_corrected`` are in (0, 1];
    they, ``low`` and ``high`` are NaN for a comparison with fewer than LEAST_DIFFERENCES differences that are not 0,
    and where a procedure has no such number. ``claims`` is 1 where the difference is shown to be above 0, -1 where
    below, else 0. ``criticals`` is what a studentised difference must exceed to be shown. ``is_exact`` says that all
    flips were taken.
    """

    n: npt.NDArray[np.int64]
    differing: npt.NDArray[np.int64]
    mean: Scores
    deviation: Scores
    p: Scores
    p_corrected: Scores
    low: Scores
    high: Scores
    claims: npt.NDArray[np.int8]
    criticals: Scores
    is_exact: bool

    @property
    def error(self) -> Scores:
        """The standard error of ``mean``."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.deviation / np.sqrt(self.n))

    @property
    def critical(self) -> float:
        """The largest of ``criticals``; infinite where nothing is tested."""
        known = self.criticals[~np.isnan(self.criticals)]
        return float(known.max()) if len(known) else math.inf


class Sample:
    """The differences of a family and what is known of them before anything is inferred.

    ``values`` has shape (comparisons, queries), 0 where a query does not count (``known`` says where it does), divided
    by ``scale``, a power of two for each comparison, so that no square of them is too large or too small for a float.
    ``tested`` says which comparisons have enough differences that are not 0.
    """

    def __init__(self, family: Family) -> None:
        differences = family.differences
        self.known = ~np.isnan(differences)
        values = np.where(self.known, differences, 0.0)
        largest = np.abs(values).max(axis=1, initial=0.0)
        self.scale: Scores = np.ldexp(1.0, np.frexp(largest)[1] - 1)
        self.scale[largest == 0] = 1.0
        self.values: Scores = values / self.scale[:, None]
        self.n: npt.NDArray[np.int64] = self.known.sum(axis=1, dtype=np.int64)
        with np.errstate(invalid="ignore", divide="ignore"):
            self.scaled_mean: Scores = self.values.sum(axis=1) / self.n
            about = np.where(self.known, self.values - self.scaled_mean[:, None], 0.0)
            self.scaled_deviation: Scores = np.sqrt(np.square(about).sum(axis=1) / (self.n - 1))
        self.scaled_deviation[self.scaled_deviation <= _ROUNDING] = 0.0
        self.differing = np.count_nonzero(self.values, axis=1).astype(np.int64)
        self.tested = self.differing >= LEAST_DIFFERENCES

    @property
    def mean(self) -> Scores:
        return np.asarray(self.scaled_mean * self.scale)

    @property
    def deviation(self) -> Scores:
        return np.asarray(self.scaled_deviation * self.scale)

    @property
    def error(self) -> Scores:
        """The standard error of ``mean``."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.deviation / np.sqrt(self.n))

    @property
    def studentised(self) -> Scores:
        """The means over their standard errors, without signs; infinite where all differences are equal and not 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.abs(np.asarray(self.scaled_mean / (self.scaled_deviation / np.sqrt(self.n))))

    def inference(
        self,
        level: float,
        *,
        p: Scores | None = None,
        p_corrected: Scores | None = None,
        criticals: Scores | None = None,
        is_exact: bool = False,
    ) -> Inference:
        """The mean more or less ``criticals`` standard errors; 0 is left out where p_corrected is at most the level.

        The two say so together, for ``criticals`` come from the same numbers as ``p_corrected``; an end that was
        rounded to the other side of 0 is put back. All arguments concern the comparisons that are tested.
        """
        tested = self.tested
        arrays = [self._spread(given) for given in (p, p_corrected, criticals)]
        width = np.full(len(self.n), np.nan)
        if criticals is not None:
            width[tested] = 0.0
            np.multiply(self.error, arrays[2], out=width, where=tested & (self.error > 0))
        low, high = self.mean - width, self.mean + width
        if p_corrected is not None and criticals is not None:
            shown = arrays[1] <= level
            low = np.where(shown & (self.mean > 0) & (low <= 0), np.nextafter(0.0, 1.0), low)
            high = np.where(shown & (self.mean < 0) & (high >= 0), np.nextafter(0.0, -1.0), high)
            hidden = tested & ~shown
            low, high = np.where(hidden, np.minimum(low, 0.0), low), np.where(hidden, np.maximum(high, 0.0), high)
        claims = (low > 0).astype(np.int8) - (high < 0).astype(np.int8)
        numbers = (arrays[0], arrays[1], low, high, claims, arrays[2])
        return Inference(self.n, self.differing, self.mean, self.deviation, *numbers, is_exact and bool(tested.any()))

    def _spread(self, given: Scores | None) -> Scores:
        """What is given of the comparisons that are tested, and NaN for the others."""
        spread = np.full(len(self.n), np.nan)
        if given is not None:
            spread[self.tested] = given
        return spread


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
    parts = [one.columns for one in working if one.sample.tested.any()]
    if parts:
        sums = iter(_flipped_sums(parts, procedure))
        for one in working:
            if one.sample.tested.any():
                one.sums = next(sums)
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
    allowed = math.floor(level * (len(largest) + extra) * (1 + _ROUNDING)) - extra
    return float(largest[-1 - allowed]) if 0 <= allowed < len(largest) else math.inf


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
        plain, centred = self.strengths()
        observed = self.observed - _TOLERANCE
        p = shares(np.count_nonzero(plain >= observed, axis=0), len(plain), exact=exact)
        largest = [np.sort(one.max(axis=1)) for one in (plain, centred)]
        limits = [_unbounded(critical_of(one, level, exact=exact) + _TOLERANCE) for one in largest]
        if plain.shape[1] == 1:
            criticals = _eased(sample.studentised[sample.tested], *limits)
            return sample.inference(level, p=p, p_corrected=p, criticals=criticals, is_exact=exact)
        reached = [len(one) - np.searchsorted(one, observed) for one in largest]
        corrected = np.maximum(*(shares(one, len(plain), exact=exact) for one in reached))
        criticals = np.full(plain.shape[1], max(limits))
        return sample.inference(level, p=p, p_corrected=corrected, criticals=criticals, is_exact=exact)

    @property
    def observed(self) -> Scores:
        """The statistics of the comparisons that are tested."""
        sample, tested = self.sample, self.sample.tested
        n = sample.n[tested]
        return _bounded(n * sample.scaled_mean[tested], np.square(sample.values[tested]).sum(axis=1), n)

    def strengths(self) -> tuple[Scores, Scores]:
        """The statistics of each flip: of the differences, and of those less their means.

        Shape (flips, comparisons that are tested).
        """
        sample, tested = self.sample, self.sample.tested
        n, squares = sample.n[tested], np.square(sample.values[tested]).sum(axis=1)
        if self._is_linear:
            sums = self.sums[:, :-1] @ (self._family.weights[tested] / sample.scale[tested, None]).T
            signs = self.sums[:, -1:]
        else:
            sums, signs = np.hsplit(self.sums, 2)
        about = np.square(sample.scaled_deviation[tested]) * (n - 1)
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
