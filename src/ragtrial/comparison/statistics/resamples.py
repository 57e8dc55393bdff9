"""Resamples: clusters drawn with replacement, the same for all comparisons, by the balanced bootstrap-t.

Sign flips make the distribution of a studentised difference symmetric, so they miss its skewness, and that a difference
often comes from a few questions. Resamples keep both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ragtrial.comparison.statistics.flips import critical_of, shares
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, DrawResult, Procedure, Sample, spread_of
from ragtrial.evaluation.clusters import Places
from ragtrial.evaluation.grading import Scores

_MANY = 40
"""With this many differences every resample has at least LEAST_DIFFERENCES of them."""

_DENSE = 0.2
"""If at least this share of the clusters differs, the skewness of the differences decides the critical value."""

_FEW = 50
"""With fewer queries the critical values of all dense comparisons are raised to the largest one."""

_MOST_RAISED = 2.0
"""No comparison's critical value is raised by a larger factor because of another one."""

_FEW_CLUSTERS = 22
"""With fewer clusters of several queries the critical values of differences without skewness are lowered."""

_MOST_LOWERED = 1.5
"""With LEAST_DIFFERENCES clusters they are lowered by this factor."""

_SKEWED = 0.7
"""If the squared skewness is larger by this than that of normal samples, no critical value is lowered."""

_BLOCK_VALUES = 2_000_000
"""The number of counts that are drawn at once."""

_MOST_DRAWS = 500
"""The most resamples that are drawn at once."""

_CACHED_VALUES = 100_000
"""The number of statistics that are computed at once: they fit a processor's cache."""

_KEPT_VALUES = 25_000_000
"""The number of statistics that are kept at once, to find the critical value of each comparison."""

_TOLERANCE = 1e-6
"""Two statistics that differ by less, relatively, are equal: they are kept as float32."""


def resampled(samples: Sequence[Sample], procedure: Procedure) -> list[DrawResult]:
    """The bounds of each family by resamples of clusters, the same for all comparisons and families.

    In each resample, the statistic of a comparison is |mean* - mean| / error* (symmetric bootstrap-t; Hall 1988). It
    counts only if the comparison would have been tested there: if at least LEAST_DIFFERENCES clusters differ, and not
    all alike. The critical value of a comparison by itself is multiplied by the critical value of the largest ratio of
    a statistic to it in each resample. So each interval misses equally often, and the sparsest comparison does not
    widen all (balanced simultaneous confidence sets; Beran 1988). A comparison whose differences are all equal has the
    critical value 0 here.

    A sample that by chance lacks the few large differences has little skewness, and a critical value that is too small.
    The comparisons of a family have much in common, so the second largest value of the dense ones (_DENSE) is the least
    of each of them, but never more than _MOST_RAISED times its own. The second largest, so that a single skewed one
    does not widen the others; of fewer than _FEW queries, which say least about skewness, the largest. In a family that
    is too large to be kept, it is the largest so far.

    Resamples of a few clusters have heavy tails, whether differences are skewed or not; see ``_lowered_by``.
    """
    families = [_Resamples(sample, procedure) for sample in samples]
    pieces = [(family, rows) for family in families for rows in family.blocks()]
    while pieces:
        size = 1 + np.count_nonzero(np.cumsum([len(rows) for _, rows in pieces[1:]]) * procedure.flips <= _KEPT_VALUES)
        group = [_Piece(family, rows, procedure) for family, rows in pieces[:size]]
        start = 0
        for counts in draws_of(group[0].clusters, procedure.flips, [procedure.seed, 1]):
            for piece in group:
                piece.add(counts, start)
            start += len(counts)
        for piece in group:
            piece.measure()
        for piece in group:
            piece.pass_on()
        pieces = pieces[size:]
    return [family.bounds() for family in families]


def draws_of(n: int, draws: int, seed: int | Sequence[int]) -> Iterator[Scores]:
    """How often each of ``n`` is drawn with replacement in ``n`` draws, in blocks of shape (some of ``draws``, n)."""
    random, rows = np.random.default_rng(seed), max(1, min(_MOST_DRAWS, _BLOCK_VALUES // n))
    step = max(1, _CACHED_VALUES // n)
    for start in range(0, draws, rows):
        counts = np.empty((min(rows, draws - start), n))
        for first in range(0, len(counts), step):
            part = counts[first : first + step]
            drawn = random.integers(0, n, part.shape) + np.arange(0, part.size, n)[:, None]
            part[:] = np.bincount(drawn.ravel(), minlength=part.size).reshape(part.shape)
        yield counts


class _Resamples:
    """One family: the critical values of its comparisons, their weights, and the largest ratio in each resample."""

    def __init__(self, sample: Sample, procedure: Procedure) -> None:
        self.sample, self.level = sample, procedure.level
        self._drawn = procedure.flips
        count = len(sample.n)
        self.own, self.weights, self.p = np.zeros((3, count))
        self._dense = sample.differing >= _DENSE * sample.n
        self.lowered_by = _lowered_by(sample)
        self.largest = np.full(procedure.flips, np.nan, dtype=np.float32)

    def blocks(self) -> Iterator[Places]:
        """The comparisons whose differences vary, as many at a time as memory may hold."""
        rows = np.flatnonzero(self.sample.tested & (self.sample.scaled_deviation > 0))
        queries = max(1, self.sample.family.columns.shape[1])
        size = max(1, min(_KEPT_VALUES // self._drawn, _BLOCK_VALUES // queries))
        return (rows[start : start + size] for start in range(0, len(rows), size))

    def weigh(self, rows: Places) -> Scores:
        """What statistics of the comparisons in ``rows`` are divided by: their critical values, some of them raised."""
        own, dense = self.own[rows], self._dense[rows]
        top = np.sort(self.own[self._dense])[-2:]
        least = np.where(self.sample.n[rows] < _FEW, top.max(initial=0.0), top.min(initial=np.inf))
        self.weights[rows] = np.where(dense, np.maximum(own, np.minimum(least, _MOST_RAISED * own)), own)
        return self.weights[rows]

    def bounds(self) -> DrawResult:
        tested = self.sample.tested
        weights, p = self.weights[tested] / self.lowered_by[tested], self.p[tested]
        ratios = np.sort(self.largest[~np.isnan(self.largest)].astype(np.float64))
        # Never below 1, the value of a single comparison: not all resamples count for each.
        limit = critical_of(ratios, self.level, exact=False)
        ratios /= limit if 0 < limit < 1 else 1.0
        factor = max(1.0, limit) * (1 + _TOLERANCE)
        with np.errstate(invalid="ignore", divide="ignore"):
            shared = _shares(self.sample.studentised[tested] / weights, ratios)
            corrected = np.where(weights > 0, np.maximum(p, shared), 0.0)
            criticals = np.where(weights > 0, weights * factor, 0.0)
        return DrawResult(p, corrected, criticals)


class _Piece:
    """Some comparisons of a family, and their statistics in all resamples."""

    def __init__(self, family: _Resamples, rows: Places, procedure: Procedure) -> None:
        self._family, self._rows = family, rows
        sample = family.sample
        sums, sizes = sample.units(rows)
        self.clusters = sums.shape[1]
        self._differing, self._differ = sample.differing[rows], sums != 0
        self._about, self._sizes = sums - sample.scaled_mean[rows, None] * sizes, sizes
        self._are_alone = bool((sizes <= 1).all())
        self._statistics = np.empty((len(rows), procedure.flips), dtype=np.float32)

    def add(self, counts: Scores, start: int) -> None:
        """Keep the statistics of some resamples, from how often each cluster is drawn, shape (resamples, clusters)."""
        drawn, columns = counts.T, slice(start, start + len(counts))
        step = max(1, _CACHED_VALUES // len(counts))
        for first in range(0, len(self._rows), step):
            rows = slice(first, first + step)
            self._statistics[rows, columns] = self._studentised(rows, drawn)

    def _studentised(self, rows: slice, drawn: Scores) -> Scores:
        """The statistics of the comparisons in ``rows``; NaN where one does not count."""
        about, sizes = self._about[rows], self._sizes[rows] if len(self._sizes) > 1 else self._sizes
        sums, squares, totals = about @ drawn, np.square(about) @ drawn, sizes @ drawn
        crossed, of_sizes, n = sums, totals, totals
        if not self._are_alone:
            crossed, of_sizes, n = (about * sizes) @ drawn, np.square(sizes) @ drawn, (sizes > 0) @ drawn
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = spread_of(sums, crossed, squares, totals, of_sizes, n)
            statistics = np.where(spread > 0, np.abs(sums) / np.sqrt(spread), np.nan)
        few = self._differing[rows] < _MANY
        if few.any():
            too_few = np.zeros(statistics.shape, dtype=np.bool_)
            too_few[few] = self._differ[rows][few].astype(np.float64) @ drawn < LEAST_DIFFERENCES
            statistics[too_few] = np.nan
        return statistics

    def measure(self) -> None:
        """Find the critical value of each comparison by itself."""
        family = self._family
        observed = (family.sample.studentised * family.lowered_by)[self._rows]
        sorted_values = np.sort(self._statistics, axis=1)
        for index, (row, values) in enumerate(zip(self._rows.tolist(), sorted_values, strict=True)):
            ascending = np.asarray(values[: np.count_nonzero(~np.isnan(values))], dtype=np.float64)
            family.own[row] = critical_of(ascending, family.level, exact=False)
            family.p[row] = _shares(observed[index], ascending)

    def pass_on(self) -> None:
        """Pass the ratios on to the family, once the critical values of all that are kept are known."""
        statistics, largest = self._statistics, self._family.largest
        statistics /= self._family.weigh(self._rows)[:, None]
        np.fmax(largest, np.fmax.reduce(statistics, axis=0), out=largest)


def _lowered_by(sample: Sample) -> Scores:
    """The factor, at least 1, by which the critical value of each comparison is lowered.

    Resamples are needed for skewness, of which a few clusters say little; their questions say more. So both count: the
    mean squared skewness of the family's clusters, or of its questions if that is larger, less that of normal samples.
    The factor falls to 1 as skewness grows, as the number of clusters nears _FEW_CLUSTERS, and as the share of the
    variance within clusters falls from half to 0: repeats of a question say no more than it. Source of the squared
    skewness of normal samples: Fisher 1930, Proceedings of the London Mathematical Society 30.
    """
    clusters = sample.n
    rows = sample.tested & (sample.scaled_deviation > 0)
    if sample.family.clusters is None or not (clusters[rows] < _FEW_CLUSTERS).any():
        return np.ones(len(clusters))
    queries = Sample(replace(sample.family, clusters=None))
    skewness = []
    for each in (sample, queries):
        n = each.n[rows].astype(np.float64)
        skewness.append(float(np.mean(np.square(each.skewness[rows]) - 6 * (n - 2) / ((n + 1) * (n + 3)))))
    few = np.clip((_FEW_CLUSTERS - clusters) / (_FEW_CLUSTERS - LEAST_DIFFERENCES), 0, 1)
    between, total = (each.scaled_between * np.square(each.scale) for each in (sample, queries))
    few *= np.clip(2 - 2 * between / np.where(total > 0, total, 1.0), 0, 1)
    return np.asarray(1 + (_MOST_LOWERED - 1) * few * (1 - np.clip(max(skewness) / _SKEWED, 0, 1)))


def _shares(observed: Scores, ascending: Scores) -> Scores:
    """The share of draws, the observed value among them, that reach it."""
    return shares(len(ascending) - np.searchsorted(ascending, observed * (1 - _TOLERANCE)), len(ascending), exact=False)
