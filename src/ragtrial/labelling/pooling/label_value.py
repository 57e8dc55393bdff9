"""How much the unjudged hits of a comparison leave open, query by query, and how much of it a label would settle.

The range of a query's difference is that of ``joint_bounds``, over all grades of what nobody judged. A
label can only narrow it, whatever the grade: it leaves fewer ways of grading. How much is found by judging the hit
with each grade in turn, in as many made-up queries, whose ranges are then worked out all at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ragtrial.comparison.unjudged.joint_bounds import joint_bounds, joint_bounds_of_chunks
from ragtrial.comparison.unjudged.joint_hits import HitSpans, JointHits, Labels
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import Metric
from ragtrial.evaluation.metrics.structure import FirstHit, HitCount
from ragtrial.rankings import Bools, Counts
from ragtrial.runs.qrels import Grades

BLOCK = 2**19
"""How many hits of made-up queries are looked at in one step."""

MOST_GRADES = 4
"""Of more grades above 0 so many are tried."""

_BUCKETS = np.array([1, 2, 3, 5, 10, 20])
"""The last rank of each stretch of a ranking over which relevant hits are counted together; then all that is below."""


@dataclass(frozen=True, eq=False)
class LabelValue:
    """A comparison of two rankings of each query, or of one with an empty one, and where its hits are, ``spans``.

    ``scores`` are those of the two rankings, (2, queries), as they are,
    which counts for chunks alone. ``counts`` says which queries are in the mean, (queries,); the others have nothing
    to settle. ``levels`` are the grades that are tried. ``known_widths`` are ``widths`` where these are known already.
    """

    metric: Metric
    hits: JointHits
    spans: HitSpans
    scores: Scores
    counts: Bools
    levels: Grades
    are_chunks: bool
    known_widths: Scores | None = None

    @cached_property
    def widths(self) -> Scores:
        """How far the ends of each query's difference are apart, (queries,)."""
        if self.known_widths is not None:
            return self.known_widths
        if self.are_chunks:
            bounds = joint_bounds_of_chunks(self.metric, self.hits, self.scores[0], self.scores[1])
        else:
            bounds = joint_bounds(self.metric, self.hits)
        wide = np.maximum(bounds.high - bounds.low, 0.0)
        return np.where(self.counts, wide, 0.0)

    @cached_property
    def first_hits(self) -> Counts:
        """Where the hits of each query begin, (queries + 1,)."""
        return np.searchsorted(self.hits.rows, np.arange(self.hits.queries + 1))

    @cached_property
    def _first_labels(self) -> Counts:
        return np.searchsorted(self.hits.labels.rows, np.arange(self.hits.queries + 1))

    @property
    def best_ranks(self) -> Counts:
        """The higher of its two ranks, (hits,)."""
        return np.minimum(self.hits.first, self.hits.second)

    @property
    def width(self) -> float:
        """How far the ends of the mean difference are apart."""
        counted = int(self.counts.sum())
        return float(self.widths.sum()) / counted if counted else 0.0

    def judged(self, hits: Counts, grades: Grades) -> LabelValue:
        """A query for each of ``hits``: that of the hit, with the hit judged so, (trials,) both.

        Chunks that it overlaps are judged with it, as they are once a passage of it is labelled.
        """
        rows = self.hits.rows[hits]
        trials, at = _spread(self.first_hits, rows)
        chosen = hits[trials]
        closed = self.hits.is_open[at] & (self.spans.at(at).meet(self.spans.at(chosen)) | (at == chosen))
        labels, own = _spread(self._first_labels, rows)
        known = np.unique(self.hits.labels.grades)
        count = len(hits)
        owners = np.concatenate([labels, np.arange(count), np.full(len(known), count)])
        order = np.argsort(owners, kind="stable")
        given = np.concatenate([self.hits.labels.grades[own], grades, known]).astype(np.int32)
        made = replace(
            self.hits,
            queries=count + 1,  # the last one has no hits: it keeps the grades that there are
            rows=trials,
            codes=self.hits.codes[at],
            first=self.hits.first[at],
            second=self.hits.second[at],
            is_open=self.hits.is_open[at] & ~closed,
            grades=np.where(closed, grades[trials], self.hits.grades[at]).astype(np.int32),
            lengths=np.hstack([self.hits.lengths[:, rows], np.zeros((2, 1), dtype=np.int64)]),
            labels=Labels(np.arange(len(order)), owners[order], given[order]),
        )
        scores = np.zeros((2, count + 1))
        scores[:, :count] = self.scores[:, rows]
        if self.are_chunks:
            scores = self._rescored(made, scores, grades, closed, at == chosen)
        counts = np.append(self.counts[rows], [False])
        return replace(
            self,
            hits=made,
            spans=self.spans.at(at),
            scores=scores,
            counts=counts,
            known_widths=None,
        )

    def _rescored(self, hits: JointHits, scores: Scores, grades: Grades, closed: Bools, chosen: Bools) -> Scores:
        """The scores of two rankings of chunks when those that were ``closed`` are relevant, if they are."""
        scores, structure = scores.copy(), self.metric.definition.structure
        relevant = np.append(grades >= hits.threshold, [False])[hits.rows]
        for own, ranks, lengths in zip(scores, (hits.first, hits.second), hits.lengths, strict=True):
            within = relevant & hits.within(ranks, self.metric.k)
            if isinstance(structure, HitCount):
                more = hits.count(hits.rows, within & closed)
                own += structure.value(self.metric, more, hits.relevant_counts, lengths)
            elif isinstance(structure, FirstHit):
                found = within & chosen
                np.maximum.at(own, hits.rows[found], structure.value(ranks[found]))
        return scores

    def tried(self, hits: Counts, levels: Grades | None = None) -> Scores:
        """The width of each hit's query when the hit is judged with each of ``levels``, (hits, levels)."""
        levels = self.levels if levels is None else levels
        found = np.empty((len(hits), len(levels)))
        sizes = np.diff(self.first_hits)[self.hits.rows[hits]] * len(levels)
        for chosen in _blocks(sizes):
            made = self.judged(np.repeat(hits[chosen], len(levels)), np.tile(levels, len(chosen)))
            found[chosen] = made.widths[:-1].reshape(len(chosen), len(levels))
        return np.minimum(found, self.widths[self.hits.rows[hits], None])  # inexact ranges may seem to grow

    def with_label(self, hit: int, grade: int) -> LabelValue:
        """The same comparison with one hit judged, and what it overlaps."""
        one = self.judged(np.array([hit]), np.array([grade], dtype=np.int32))
        row = int(self.hits.rows[hit])
        mine = slice(int(self.first_hits[row]), int(self.first_hits[row + 1]))
        is_open, grades, scores = self.hits.is_open.copy(), self.hits.grades.copy(), self.scores.copy()
        is_open[mine], grades[mine], scores[:, row] = one.hits.is_open, one.hits.grades, one.scores[:, 0]
        labels, behind = self.hits.labels, int(self._first_labels[row + 1])
        rows = np.insert(labels.rows, behind, row)
        labels = Labels(np.arange(len(rows)), rows, np.insert(labels.grades, behind, grade).astype(np.int32))
        widths = self.widths.copy()
        widths[row] = min(widths[row], one.widths[0])  # those of the other queries stay as they are
        hits = replace(self.hits, is_open=is_open, grades=grades, labels=labels)
        return replace(self, hits=hits, scores=scores, known_widths=widths)


def levels_of(metric: Metric, hits: JointHits) -> Grades:
    """The grades that a hit is tried with, ascending: 0, or what is not relevant, first.

    Where a metric asks only whether a hit is relevant, one that is, if labels have any; else theirs, of many some.
    """
    threshold = metric.threshold(hits.threshold)
    least = min(0, threshold - 1)
    if metric.definition.family != "graded":
        highest = [hits.highest_grade] if hits.highest_grade >= threshold else []
        return np.array([least, *highest], dtype=np.int32)
    above: Grades = np.unique(hits.labels.grades[hits.labels.grades > 0])
    if len(above) > MOST_GRADES:
        above = above[np.linspace(0, len(above) - 1, MOST_GRADES).round().astype(np.int64)]
    return np.concatenate([[0], above]).astype(np.int32)


def chances(value: LabelValue) -> Scores:
    """How often hits have each of the levels, at ranks like that of each hit, (hits, levels); rows sum to 1.

    Counted over all hits of the comparison: one that nobody judged stands with those that have the lowest, since most
    of what no one labels is not relevant.
    """
    hits, levels = value.hits, value.levels
    level = np.searchsorted(levels, hits.grades, side="right") - 1
    level = np.where(hits.is_open, 0, np.clip(level, 0, len(levels) - 1))
    bucket = np.searchsorted(_BUCKETS, value.best_ranks)
    counts = np.zeros((len(_BUCKETS) + 1, len(levels)))
    np.add.at(counts, (bucket, level), 1.0)
    counts[:, 0] += 1.0
    shares: Scores = counts / counts.sum(axis=1, keepdims=True)
    return shares[bucket]


def most_left(value: LabelValue, chosen: Sequence[int], most_ways: int = 256) -> float:
    """The most that the width of one query can be once all ``chosen`` hits of it are judged, whatever their grades.

    All grades are tried for the first of them, as long as there are no more than ``most_ways``; no label widens.
    """
    row = int(value.hits.rows[chosen[0]])
    made, ways, widest = value, 1, float(value.widths[row])
    for place, hit in enumerate(chosen):
        if ways * len(value.levels) > most_ways:
            break
        at = made.first_hits[:ways] + (hit - value.first_hits[row]) if place else np.array([hit])
        made = made.judged(np.repeat(at, len(value.levels)), np.tile(value.levels, len(at)))
        ways *= len(value.levels)
        widest = min(widest, float(made.widths[:-1].max()))
    return widest


def _spread(firsts: Counts, rows: Counts) -> tuple[Counts, Counts]:
    """For ``rows``, whose entries begin at ``firsts``: which of the rows each entry is for, and where it stands."""
    counts = firsts[rows + 1] - firsts[rows]
    owners = np.repeat(np.arange(len(rows)), counts)
    return owners, np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts) + firsts[rows][owners]


def _blocks(sizes: Counts) -> Iterator[Counts]:
    """The places of ``sizes``, in their order, cut where the sizes would add up to more than BLOCK."""
    if len(sizes):
        yield from np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(np.cumsum(sizes) // BLOCK)) + 1)
