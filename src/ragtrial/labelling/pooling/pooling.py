"""Which unjudged hits to label first: those by which a verdict could change most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ragtrial.comparison.comparing import Aim, close_comparisons, compare_settings
from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.contest import Contest, Pair
from ragtrial.comparison.unjudged.joint_bounds import as_judged, joint_bounds, why_unbounded, why_unbounded_of_chunks
from ragtrial.comparison.unjudged.joint_hits import NOWHERE, JointHits, JudgedLists, is_pooled, threshold_of
from ragtrial.comparison.unjudged.sensitivity import hangs_on
from ragtrial.errors import ComparisonError, InputError, listed
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import Metric, parse_metric
from ragtrial.labelling.pooling.stakes import Stakes, chances, levels_of, most_left
from ragtrial.rankings import PADDING, Bools, Codes, Counts

_LEAST = 1e-12
"""A label that narrows a range by less narrows nothing but rounding."""

_CLOSE = 1e-9

_MANY, _PER_LABEL = 4_000, 50
"""Of more candidates only those are tried with every grade that narrow most if they are not relevant: that tells nearly
the same order, in a fraction of the time. So many for each label at least."""

USUAL_DEPTH = 10
"""How deep is pooled where a metric has no cutoff."""


@dataclass(frozen=True)
class PooledHit:
    """A hit by the place of its query among those of the contest, and by its code in JudgedLists."""

    row: int
    code: int


@dataclass(frozen=True)
class Settled:
    """What labels of the chosen hits would do to one comparison: how wide its range is, and becomes.

    ``baseline`` is None where there is one setting: the range is then of its mean score. ``at_most`` holds whatever
    the grades are, ``if_likeliest`` where each hit has the grade that hits of its rank have most often. ``labels`` is
    how many were chosen for it, ``is_settled`` says that its verdict holds whatever the grades are.
    """

    baseline: str | None
    setting: str
    width: float
    at_most: float
    if_likeliest: float
    labels: int
    is_settled: bool


@dataclass(frozen=True, eq=False)
class _Compared:
    """A comparison, as Settled names it, and what is at stake in it."""

    stakes: Stakes
    baseline: str | None
    setting: str
    is_settled: bool


@dataclass(frozen=True)
class Choice:
    """The hits to label, those that settle most first, and what they settle; ``unjudged`` were there to choose from."""

    hits: tuple[PooledHit, ...]
    settled: tuple[Settled, ...]
    unjudged: int


class Pool:
    """The first ``depth`` hits of all settings of a contest, and the comparisons that hang on them.

    Raises ReportError for rankings that cannot be read; InputError for a metric that has no range, and for a report
    whose rankings do not give its scores.
    """

    def __init__(self, contest: Contest, aim: Aim, depth: int | None = None) -> None:
        self.contest, self.aim = contest, aim
        self.metric: Metric = parse_metric(contest.primary)
        self.depth = depth or self.metric.k or USUAL_DEPTH
        self.lists = JudgedLists(contest)
        self._refuse_unbounded()
        self._scores = contest.scores(contest.primary).values

    @cached_property
    def pooled(self) -> Counts:
        """The keys of the hits, ascending, each once: the query's place times ``_width``, and the code."""
        keys = [np.empty(0, dtype=np.int64)]
        for place in range(len(self.contest.contenders)):
            codes = self.lists.codes(place)[:, : self.depth]
            rows, columns = np.nonzero(codes != PADDING)
            keys.append(rows * self._width + codes[rows, columns])
        return np.unique(np.concatenate(keys))

    def rank_alike(self) -> bool:
        """Whether all settings have the same hits at the same ranks, as far down as the metric looks."""
        first, *others = (self.lists.codes(place)[:, : self.metric.k] for place in range(len(self.contest.contenders)))
        most = max(one.shape[1] for one in (first, *others))
        return all(np.array_equal(_as_wide(first, most), _as_wide(other, most)) for other in others)

    @cached_property
    def _width(self) -> int:
        for place in range(len(self.contest.contenders)):
            self.lists.codes(place)
        return self.lists.width

    def choose(self, budget: int) -> Choice:
        """At most ``budget`` unjudged hits, by how much a label of each would narrow the range of a comparison.

        First those of the comparison that decides; where no label could narrow that any more, of the next one. After
        each choice its query is worked out again, as if the hit had the likeliest grade.
        """
        hits: list[PooledHit] = []
        likeliest: list[int] = []
        settled: list[Settled] = []
        for one in self._comparisons():
            if len(hits) >= budget:
                break
            stakes = one.stakes
            candidates = self.candidates(stakes)
            now = self._with_labels(stakes, hits, likeliest)
            new, grades, left = _greedy(now, candidates, self._finders(stakes), budget - len(hits))
            hits += [PooledHit(int(stakes.hits.rows[hit]), int(stakes.codes[hit])) for hit in new]
            likeliest += grades
            settled.append(
                Settled(
                    baseline=one.baseline,
                    setting=one.setting,
                    width=stakes.width,
                    at_most=_at_most(stakes, self._found(stakes, hits)),
                    if_likeliest=left.width,
                    labels=len(new),
                    is_settled=one.is_settled,
                )
            )
        return Choice(tuple(hits), tuple(settled), len(self.unjudged()))

    def judged(self) -> list[PooledHit]:
        """The pooled hits that are judged already, of queries that count."""
        return self._split(judged=True)

    def unjudged(self) -> list[PooledHit]:
        """The others."""
        return self._split(judged=False)

    def _split(self, *, judged: bool) -> list[PooledHit]:
        counts: Bools = np.asarray(~np.isnan(self._scores).all(axis=0))
        keys = self.pooled[counts[self.pooled // self._width]]
        kept = keys[np.flatnonzero(self.lists.is_judged(keys) == judged)].tolist()
        return [PooledHit(key // self._width, key % self._width) for key in kept]

    def stakes(self, pair: Pair | None) -> Stakes:
        """What hangs on the hits of a pair; of the one setting that there is without a pair."""
        first, second = (0, 0) if pair is None else (pair.baseline, pair.setting)
        self._width  # noqa: B018 - all rankings are read before hits are counted
        report = self.contest.contenders[second].report
        threshold = threshold_of(report, self.contest.primary)
        hits = self.lists.joint(first, second, threshold=threshold, pooled=is_pooled(report))
        scores = np.array([self._scores[first], self._scores[second]])
        if pair is None:
            hits = _alone(hits)
            scores[0] = np.where(np.isnan(scores[1]), np.nan, 0.0)
        counts = ~np.isnan(scores).any(axis=0)
        self._refuse_others(hits, scores)
        codes = self.lists.found(first, second)
        return Stakes(
            metric=self.metric,
            hits=hits,
            codes=codes,
            stretches=self.lists.stretches(codes),
            scores=np.where(counts, scores, 0.0),
            counts=counts,
            levels=levels_of(self.metric, hits),
            are_chunks=self.lists.unit == "span",
        )

    def _comparisons(self) -> Iterator[_Compared]:
        """What is at stake between settings, the comparison that decides first; those that are settled come last."""
        if len(self.contest.contenders) == 1:
            yield _Compared(self.stakes(None), None, self.contest.names[0], is_settled=False)
            return
        late = []
        for part in self._in_order():
            stakes = self.stakes(Pair(self.contest.place(part.baseline), self.contest.place(part.setting)))
            one = _Compared(stakes, part.baseline, part.setting, self._is_settled(stakes, part))
            if one.is_settled:
                late.append(one)
            else:
                yield one
        yield from late

    def _in_order(self) -> list[ComparisonPart]:
        """The best against the baseline, then others by their difference; of all pairs those with the best first."""
        rows = list(close_comparisons(compare_settings(self.contest, self.aim)))
        if self.aim.baseline is None:
            best = self.contest.names[int(np.nanargmax(_means(self._scores)))]
            rows.sort(key=lambda part: best not in (part.baseline, part.setting))
        return rows

    def _is_settled(self, stakes: Stakes, part: ComparisonPart) -> bool:
        """Whether the verdict holds whatever the unjudged hits are, or nothing hangs on them."""
        if not stakes.widths.any():
            return True
        if stakes.are_chunks:
            return False
        bounds = joint_bounds(self.metric, stakes.hits)
        low, high = (float(ends[stakes.counts].mean()) for ends in (bounds.low, bounds.high))
        return hangs_on(part.verdict, low, high, self.aim.margin) is False

    def _keys(self, stakes: Stakes) -> Counts:
        return stakes.hits.rows * self._width + stakes.codes

    def candidates(self, stakes: Stakes) -> Counts:
        """The hits of a comparison that may be chosen."""
        able = stakes.hits.is_open & stakes.counts[stakes.hits.rows]
        return np.flatnonzero(able & np.isin(self._keys(stakes), self.pooled))

    def _finders(self, stakes: Stakes) -> Counts:
        """How many settings have each hit of a comparison among their first, (hits,)."""
        keys, count = self._keys(stakes), np.zeros(len(stakes.hits.rows), dtype=np.int64)
        for place in range(len(self.contest.contenders)):
            codes = self.lists.codes(place)[:, : self.depth]
            rows, columns = np.nonzero(codes != PADDING)
            count += np.isin(keys, rows * self._width + codes[rows, columns])
        return count

    def _found(self, stakes: Stakes, hits: Sequence[PooledHit]) -> list[int]:
        """Where those of ``hits`` that are among those of a comparison stand in it."""
        keys = self._keys(stakes)
        wanted = np.array([one.row * self._width + one.code for one in hits], dtype=np.int64)
        at = np.minimum(np.searchsorted(keys, wanted), max(0, len(keys) - 1))
        return [int(place) for place, key in zip(at, wanted, strict=True) if len(keys) and keys[place] == key]

    def _with_labels(self, stakes: Stakes, hits: Sequence[PooledHit], grades: Sequence[int]) -> Stakes:
        for one, grade in zip(hits, grades, strict=True):
            for place in self._found(stakes, [one]):
                if stakes.hits.is_open[place]:
                    stakes = stakes.with_label(place, grade)
        return stakes

    def _refuse_unbounded(self) -> None:
        known = why_unbounded_of_chunks if self.lists.unit == "span" else why_unbounded
        why = known(self.metric)
        if why is not None:
            others = [name for name in self.contest.contenders[0].report.metrics if known(parse_metric(name)) is None]
            others.sort(key=lambda name: parse_metric(name).k != self.metric.k)
            instead = f"Pool by another metric: --metric {others[0]}" if others else "No other metric has one"
            raise InputError(
                f"what labels would settle of {self.metric} is not known: {why} {instead}"
                + (f" (or {listed(others[1:])})." if len(others) > 1 else ".")
            )

    def _refuse_others(self, hits: JointHits, scores: Scores) -> None:
        if self.lists.unit == "span":
            return
        apart = np.abs(as_judged(self.metric, hits) - (scores[1] - scores[0])) > _CLOSE
        if apart.any():
            raise ComparisonError(
                f"the rankings and labels that the report keeps do not give its scores ({int(apart.sum()):,} queries "
                "differ); it was changed, or scored in another way. Run it again."
            )


def _alone(hits: JointHits) -> JointHits:
    """The hits of one ranking beside an empty one: the difference is its score."""
    nowhere = np.full(len(hits.rows), NOWHERE, dtype=np.int64)
    return replace(hits, first=nowhere, lengths=np.array([np.zeros_like(hits.lengths[1]), hits.lengths[1]]))


def _as_wide(codes: Codes, columns: int) -> Codes:
    """Rankings with so many columns, the further ones empty."""
    return np.pad(codes, ((0, 0), (0, columns - codes.shape[1])), constant_values=PADDING)


def _means(scores: Scores) -> Scores:
    counted = ~np.isnan(scores)
    sums = np.where(counted, scores, 0.0).sum(axis=1)
    return np.where(counted.any(axis=1), sums / np.maximum(counted.sum(axis=1), 1), np.nan)


def _greedy(stakes: Stakes, candidates: Counts, finders: Counts, budget: int) -> tuple[list[int], list[int], Stakes]:
    """The hits that narrow most, one after another, the likeliest grade of each, and what is at stake then.

    Of hits that narrow alike that which more settings found, then the higher ranked.
    """
    candidates = candidates[stakes.hits.is_open[candidates] & (stakes.widths[stakes.hits.rows[candidates]] > _LEAST)]
    candidates = _screened(stakes, candidates, max(_MANY, _PER_LABEL * budget))
    chance = chances(stakes)
    values = _narrowings(stakes, candidates, chance)
    chosen: list[int] = []
    grades: list[int] = []
    ranks = stakes.best_ranks
    while len(chosen) < budget and len(candidates):
        best = int(np.lexsort((ranks[candidates], -finders[candidates], -values.round(12)))[0])
        if values[best] <= _LEAST:
            break
        hit = int(candidates[best])
        grade = int(stakes.levels[chance[hit].argmax()])
        stakes = stakes.with_label(hit, grade)
        chosen.append(hit)
        grades.append(grade)
        kept = stakes.hits.is_open[candidates]
        candidates, values = candidates[kept], values[kept]
        again = stakes.hits.rows[candidates] == stakes.hits.rows[hit]
        values[again] = _narrowings(stakes, candidates[again], chance)
    return chosen, grades, stakes


def _screened(stakes: Stakes, candidates: Counts, most: int) -> Counts:
    """At most ``most`` of the candidates, where there are many and more than two grades to try."""
    if len(candidates) <= most or len(stakes.levels) <= 2:
        return candidates
    left = stakes.tried(candidates, stakes.levels[:1])[:, 0]
    narrowed = stakes.widths[stakes.hits.rows[candidates]] - left
    return np.sort(candidates[np.argsort(-narrowed, kind="stable")[:most]])


def _narrowings(stakes: Stakes, candidates: Counts, chance: Scores) -> Scores:
    """How much a label of each hit may be expected to narrow its query's range."""
    left = (stakes.tried(candidates) * chance[candidates]).sum(axis=1)
    return np.asarray(stakes.widths[stakes.hits.rows[candidates]] - left)


def _at_most(stakes: Stakes, hits: Sequence[int]) -> float:
    """The most that the width can be once these hits are judged."""
    by_row: dict[int, list[int]] = {}
    for hit in hits:
        by_row.setdefault(int(stakes.hits.rows[hit]), []).append(hit)
    counted = int(stakes.counts.sum())
    less = sum(float(stakes.widths[row]) - most_left(stakes, own) for row, own in by_row.items() if stakes.counts[row])
    return stakes.width - less / counted if counted else 0.0
