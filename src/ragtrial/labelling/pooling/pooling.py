"""Which unjudged hits to label first: those by which a verdict could change most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ragtrial.comparison.comparing import ComparisonOptions, close_comparisons, compare_settings
from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.contest import ComparisonSet, Pair
from ragtrial.comparison.unjudged.joint_bounds import as_judged, joint_bounds, why_unbounded, why_unbounded_of_chunks
from ragtrial.comparison.unjudged.joint_hits import NOWHERE, JointHits, JudgedLists, is_pooled, threshold_of
from ragtrial.comparison.unjudged.sensitivity import depends_on_unjudged
from ragtrial.errors import ComparisonError, InputError, listed
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import Metric, parse_metric
from ragtrial.labelling.pooling.label_value import LabelValue, chances, levels_of, most_left
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
class SettledVerdict:
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


@dataclass(frozen=True)
class Choice:
    """The hits to label, those that settle most first, and what they settle; ``unjudged`` were there to choose from."""

    hits: tuple[PooledHit, ...]
    settled: tuple[SettledVerdict, ...]
    unjudged: int


class Pool:
    """The first ``depth`` hits of all settings of a contest, and the comparisons that depend on them.

    Raises ReportError for rankings that cannot be read; InputError for a metric that has no range, and for a report
    whose rankings do not give its scores.
    """

    def __init__(self, contest: ComparisonSet, aim: ComparisonOptions, depth: int | None = None) -> None:
        self.contest, self.aim = contest, aim
        self.metric: Metric = parse_metric(contest.primary)
        self.depth = depth or self.metric.k or USUAL_DEPTH
        self.lists = JudgedLists(contest)
        self._refuse_unbounded()
        self._scores = contest.scores(contest.primary).values

    @cached_property
    def pooled(self) -> Counts:
        """The keys of the hits, ascending, each once: the query's place times ``_width``, and the code."""
        return np.unique(np.concatenate(self._first_keys()))

    def _first_keys(self) -> list[Counts]:
        """For each setting the keys of its hits among the first ``depth``."""
        keys = []
        for place in range(len(self.contest.contenders)):
            codes = self.lists.codes(place)[:, : self.depth]
            rows, columns = np.nonzero(codes != PADDING)
            keys.append(rows * self._width + codes[rows, columns])
        return keys

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
        settled: list[SettledVerdict] = []
        for verdict, value in self._comparisons():
            if len(hits) >= budget:
                break
            now = self._with_labels(value, hits, likeliest)
            new, grades, left = _greedy(now, self.candidates(value), self._finders(value), budget - len(hits))
            hits += [PooledHit(int(value.hits.rows[hit]), int(value.hits.codes[hit])) for hit in new]
            likeliest += grades
            at_most = _at_most(value, self._found(value, hits))
            settled.append(replace(verdict, at_most=at_most, if_likeliest=left.width, labels=len(new)))
        return Choice(tuple(hits), tuple(settled), len(self.hits(judged=False)))

    def hits(self, *, judged: bool) -> list[PooledHit]:
        """The pooled hits of queries that count: those that are judged already, or the others."""
        counts: Bools = np.asarray(~np.isnan(self._scores).all(axis=0))
        keys = self.pooled[counts[self.pooled // self._width]]
        kept = keys[np.flatnonzero(self.lists.is_judged(keys) == judged)].tolist()
        return [PooledHit(key // self._width, key % self._width) for key in kept]

    def label_value(self, pair: Pair | None) -> LabelValue:
        """What labels of the hits of a pair are worth; of the one setting that there is without a pair."""
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
        return LabelValue(
            metric=self.metric,
            hits=hits,
            spans=self.lists.spans(hits.codes),
            scores=np.where(counts, scores, 0.0),
            counts=counts,
            levels=levels_of(self.metric, hits),
            are_chunks=self.lists.unit == "span",
        )

    def _comparisons(self) -> Iterator[tuple[SettledVerdict, LabelValue]]:
        """The comparisons as they are, that which decides first; those that are settled come last."""
        if len(self.contest.contenders) == 1:
            value = self.label_value(None)
            yield _without_labels(None, self.contest.names[0], value, is_settled=False), value
            return
        late = []
        for part in self._in_order():
            value = self.label_value(Pair(self.contest.place(part.baseline), self.contest.place(part.setting)))
            is_settled = self._is_settled(value, part)
            one = _without_labels(part.baseline, part.setting, value, is_settled=is_settled), value
            if is_settled:
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

    def _is_settled(self, value: LabelValue, part: ComparisonPart) -> bool:
        """Whether the verdict holds whatever the unjudged hits are, or nothing depends on them."""
        if not value.widths.any():
            return True
        if value.are_chunks:
            return False
        bounds = joint_bounds(self.metric, value.hits)
        low, high = (float(ends[value.counts].mean()) for ends in (bounds.low, bounds.high))
        return depends_on_unjudged(part.verdict, low, high, self.aim.margin) is False

    def _keys(self, value: LabelValue) -> Counts:
        return value.hits.rows * self._width + value.hits.codes

    def candidates(self, value: LabelValue) -> Counts:
        """The hits of a comparison that may be chosen."""
        able = value.hits.is_open & value.counts[value.hits.rows]
        return np.flatnonzero(able & np.isin(self._keys(value), self.pooled))

    def _finders(self, value: LabelValue) -> Counts:
        """How many settings have each hit of a comparison among their first, (hits,)."""
        keys = self._keys(value)
        return np.asarray(np.sum([np.isin(keys, one) for one in self._first_keys()], axis=0), dtype=np.int64)

    def _found(self, value: LabelValue, hits: Sequence[PooledHit]) -> list[int]:
        """Where those of ``hits`` that are among those of a comparison stand in it."""
        places = {key: place for place, key in enumerate(self._keys(value).tolist())}
        keys = (one.row * self._width + one.code for one in hits)
        return [places[key] for key in keys if key in places]

    def _with_labels(self, value: LabelValue, hits: Sequence[PooledHit], grades: Sequence[int]) -> LabelValue:
        for one, grade in zip(hits, grades, strict=True):
            for place in self._found(value, [one]):
                if value.hits.is_open[place]:
                    value = value.with_label(place, grade)
        return value

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


def _without_labels(baseline: str | None, setting: str, value: LabelValue, *, is_settled: bool) -> SettledVerdict:
    return SettledVerdict(baseline, setting, value.width, value.width, value.width, labels=0, is_settled=is_settled)


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


def _greedy(
    value: LabelValue, candidates: Counts, finders: Counts, budget: int
) -> tuple[list[int], list[int], LabelValue]:
    """The hits that narrow most, one after another, the likeliest grade of each, and the comparison then.

    Of hits that narrow alike that which more settings found, then the higher ranked.
    """
    candidates = candidates[value.hits.is_open[candidates] & (value.widths[value.hits.rows[candidates]] > _LEAST)]
    candidates = _screened(value, candidates, max(_MANY, _PER_LABEL * budget))
    chance = chances(value)
    values = _narrowings(value, candidates, chance)
    chosen: list[int] = []
    grades: list[int] = []
    ranks = value.best_ranks
    while len(chosen) < budget and len(candidates):
        best = int(np.lexsort((ranks[candidates], -finders[candidates], -values.round(12)))[0])
        if values[best] <= _LEAST:
            break
        hit = int(candidates[best])
        grade = int(value.levels[chance[hit].argmax()])
        value = value.with_label(hit, grade)
        chosen.append(hit)
        grades.append(grade)
        kept = value.hits.is_open[candidates]
        candidates, values = candidates[kept], values[kept]
        again = value.hits.rows[candidates] == value.hits.rows[hit]
        values[again] = _narrowings(value, candidates[again], chance)
    return chosen, grades, value


def _screened(value: LabelValue, candidates: Counts, most: int) -> Counts:
    """At most ``most`` of the candidates, where there are many and more than two grades to try."""
    if len(candidates) <= most or len(value.levels) <= 2:
        return candidates
    left = value.tried(candidates, value.levels[:1])[:, 0]
    narrowed = value.widths[value.hits.rows[candidates]] - left
    return np.sort(candidates[np.argsort(-narrowed, kind="stable")[:most]])


def _narrowings(value: LabelValue, candidates: Counts, chance: Scores) -> Scores:
    """How much a label of each hit may be expected to narrow its query's range."""
    left = (value.tried(candidates) * chance[candidates]).sum(axis=1)
    return np.asarray(value.widths[value.hits.rows[candidates]] - left)


def _at_most(value: LabelValue, hits: Sequence[int]) -> float:
    """The most that the width can be once these hits are judged."""
    by_row: dict[int, list[int]] = {}
    for hit in hits:
        by_row.setdefault(int(value.hits.rows[hit]), []).append(hit)
    counted = int(value.counts.sum())
    less = sum(float(value.widths[row]) - most_left(value, own) for row, own in by_row.items() if value.counts[row])
    return value.width - less / counted if counted else 0.0
