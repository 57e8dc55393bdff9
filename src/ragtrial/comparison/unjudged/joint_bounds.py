"""The least and the most by which two rankings can differ, over all ways in which unjudged hits could be graded.

A document has one grade, in both rankings. Let a hit's edge be what it weighs in the second ranking less what it weighs
in the first. For most metrics the difference is a sum of gains times edges, over a denominator that hangs on how many
documents gain how much, whichever they are. So for given numbers of them the most is had where the highest edges have
the highest gains (the rearrangement inequality), and what is left is to find the best numbers: by trying all of them
where a document is relevant or not, for nDCG by dynamic programming. The least is the most with the rankings swapped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from ragtrial.comparison.unjudged.joint_ap import most_ap
from ragtrial.comparison.unjudged.joint_hits import NOWHERE, JointHits, blocks, places_in_row
from ragtrial.evaluation.bounds.base import gains
from ragtrial.evaluation.bounds.unjudged_hits import UNBOUNDED
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import Metric
from ragtrial.evaluation.metrics.base import ratio
from ragtrial.evaluation.metrics.graded import discount
from ragtrial.rankings import Bools, Counts
from ragtrial.runs.qrels import Grades

MOST_STEPS = 100
"""Of Dinkelbach's method, which takes four or five."""

_GEOMETRIC = "its mean over queries is geometric, and the difference of two such means is not a mean of differences."
_NOT_WORKED_OUT = "no way to its extremes is known here but to try all grades."
_CHUNKS = "a relevant passage that nobody labelled may lie anywhere in a chunk, and in several at once."


@dataclass(frozen=True, eq=False)
class Most:
    """The most that each query's difference can be, and whether that is reached by some grades, both (queries,).

    Where it is not exact, no grades bring more.
    """

    values: Scores
    is_exact: Bools


@dataclass(frozen=True, eq=False)
class DifferenceBounds:
    """The least and the most of each query's difference, (queries,); ``is_exact`` as in Most."""

    low: Scores
    high: Scores
    is_exact: Bools


def joint_bounds(metric: Metric, hits: JointHits) -> DifferenceBounds:
    """The range of the second ranking's score less the first's, over all grades of the unjudged hits of both.

    An unjudged document may stay unjudged or get any grade from 0 to the highest of all labels. The whole rankings
    count, below ``k`` too: there a document that turns out relevant raises R. Documents in neither ranking stay as
    they are. Raises ValueError where ``why_unbounded`` says why.
    """
    if (why := why_unbounded(metric)) is not None:
        raise ValueError(why)
    most, hits = MOST[metric.name], _at_threshold(metric, hits)
    high, low = most(metric, hits), most(metric, hits.swapped)
    return DifferenceBounds(-low.values, high.values, high.is_exact & low.is_exact)


def joint_bounds_of_chunks(metric: Metric, hits: JointHits, first: Scores, second: Scores) -> DifferenceBounds:
    """The same where chunks are ranked, of metrics that ask only which of the first k chunks are relevant.

    A chunk that overlaps no label may have a relevant passage of its own, or not. ``first`` and ``second`` are the
    scores as they are. Wider than it need be, since chunks may overlap. Raises ValueError as ``joint_bounds`` does.
    """
    if (why := why_unbounded_of_chunks(metric)) is not None:
        raise ValueError(why)
    if metric.name == "precision":
        high = second - first + _edges_above_0(metric, hits)
        low = second - first - _edges_above_0(metric, hits.swapped)
    else:
        high = _one_more(metric, hits, first, second)
        low = -_one_more(metric, hits.swapped, second, first)
    return DifferenceBounds(low, high, np.zeros(hits.queries, dtype=np.bool_))


def why_unbounded(metric: Metric) -> str | None:
    """Why nothing is known of the range of a metric's difference, in a sentence; None where it is known."""
    if metric.name not in MOST:
        return NOT_KNOWN.get(metric.name, _NOT_WORKED_OUT)
    if dict(metric.parameters).get("judged_only"):
        return "judged_only drops the unjudged hits; what they would score can be said of the metric without it."
    return None


def why_unbounded_of_chunks(metric: Metric) -> str | None:
    """The same where passages are found in chunks."""
    return None if metric.name in ("precision", "hit_rate", "rr") else _CHUNKS


def as_judged(metric: Metric, hits: JointHits) -> Scores:
    """The second ranking's score less the first's as labels have it, (queries,), where the metric has bounds."""
    return MOST[metric.name](metric, _at_threshold(metric, hits.without_open)).values


def _at_threshold(metric: Metric, hits: JointHits) -> JointHits:
    """The hits by the metric's own threshold; nothing is open to it where no grade of the labels reaches that."""
    threshold = int(dict(metric.parameters).get("rel", hits.threshold))
    seen = replace(hits, threshold=threshold)
    graded = metric.definition.family == "graded"
    return seen if graded or seen.highest_grade >= threshold else seen.without_open


def _edges(k: int | None, hits: JointHits, weigh: Callable[[Counts], Scores]) -> Scores:
    """What each hit weighs in the second ranking less what in the first, (hits,); nothing below ``k``."""
    edges = np.zeros(len(hits.rows))
    for ranks, sign in ((hits.second, 1.0), (hits.first, -1.0)):
        within = ranks < NOWHERE if k is None else ranks <= k
        edges[within] += sign * weigh(ranks[within])
    return edges


def _exact(values: Scores) -> Most:
    return Most(values, np.ones(len(values), dtype=np.bool_))


def _most_sum(hits: JointHits, edges: Scores, worth: Scores, highest: float) -> Most:
    """Of metrics that only add up: all that has an edge gains as much as it can, all else nothing."""
    known = hits.total(worth * edges, ~hits.is_open)
    return _exact(known + hits.total(highest * np.maximum(edges, 0.0), hits.is_open))


def _precision(metric: Metric, hits: JointHits) -> Most:
    k = cast("int", metric.k)
    edges = _edges(k, hits, lambda ranks: np.full(len(ranks), 1 / k))
    return _most_sum(hits, edges, hits.relevant.astype(np.float64), 1.0)


def _rbp(metric: Metric, hits: JointHits) -> Most:
    p = float(dict(metric.parameters)["p"])
    edges = _edges(metric.k, hits, lambda ranks: np.asarray((1 - p) * p ** (ranks - 1.0), dtype=np.float64))
    return _most_sum(hits, edges, hits.relevant.astype(np.float64), 1.0)


def _dcg(metric: Metric, hits: JointHits) -> Most:
    highest = open_gains(metric, hits).max(initial=0.0)
    return _most_sum(hits, _edges(metric.k, hits, discount), gains(metric, hits.grades), float(highest))


def _edges_above_0(metric: Metric, hits: JointHits) -> Scores:
    """How much precision can rise by chunks that nobody judged."""
    k = cast("int", metric.k)
    edges = _edges(k, hits, lambda ranks: np.full(len(ranks), 1 / k))
    return hits.total(np.maximum(edges, 0.0), hits.is_open)


def _first_relevant(metric: Metric, hits: JointHits) -> Most:
    """Of metrics that ask for the first relevant hit alone."""
    known = [np.zeros(hits.queries), np.zeros(hits.queries)]
    for values, ranks in zip(known, (hits.first, hits.second), strict=True):
        np.maximum.at(values, hits.rows[hits.relevant], _worth_of_first(metric, ranks[hits.relevant]))
    return _exact(_one_more(metric, hits, known[0], known[1]))


def _one_more(metric: Metric, hits: JointHits, first: Scores, second: Scores) -> Scores:
    """The most that the difference can be: with one more relevant hit, which leaves the first ranking lowest, or none.

    More than one bring nothing more: only the highest of them counts in the second ranking.
    """
    rows = hits.rows[hits.is_open]
    in_first, in_second = (_worth_of_first(metric, ranks[hits.is_open]) for ranks in (hits.first, hits.second))
    made = np.maximum(second[rows], in_second) - np.maximum(first[rows], in_first)
    most: Scores = second - first
    np.maximum.at(most, rows, made)
    return most


def _worth_of_first(metric: Metric, ranks: Counts) -> Scores:
    """The score of a ranking whose first relevant hit has this rank."""
    within = ranks < NOWHERE if metric.k is None else ranks <= metric.k
    return np.where(within, 1.0 if metric.name == "hit_rate" else 1.0 / ranks, 0.0)


def _counted(metric: Metric, hits: JointHits) -> Most:
    """Of metrics of how many hits are relevant, and R: for each number of new relevant documents the best choice.

    First those that the second ranking alone has, then those of both and of neither, at last those of the first alone.
    """
    k = NOWHERE - 1 if metric.k is None else metric.k
    in_first, in_second = hits.first <= k, hits.second <= k
    found = [hits.count(hits.rows, hits.relevant & one) for one in (in_first, in_second)]
    groups = [in_second & ~in_first, in_second & in_first, ~in_second & ~in_first, in_first & ~in_second]
    sizes = np.array([hits.count(hits.rows, hits.is_open & one) for one in groups])
    most = np.empty(hits.queries)
    for rows in blocks(sizes.sum(axis=0)):
        only, both, neither, other = sizes[:, rows, None]
        more = np.arange(int(sizes[:, rows].sum(axis=0).max(initial=0)) + 1)
        relevant = hits.relevant_counts[rows, None] + more
        second = found[1][rows, None] + np.minimum(more, only + both)
        first = found[0][rows, None] + np.clip(more - only, 0, both) + np.maximum(more - only - both - neither, 0)
        lengths = hits.lengths[:, rows, None]
        made = _share(metric, second, relevant, lengths[1]) - _share(metric, first, relevant, lengths[0])
        most[rows] = np.where(more <= only + both + neither + other, made, -np.inf).max(axis=1)
    return _exact(most)


def _share(metric: Metric, found: Counts, relevant: Counts, length: Counts) -> Scores:
    """The score of rankings with so many relevant hits, of queries with so many relevant documents."""
    k = metric.k or 0
    match metric.name:
        case "recall" | "set_recall":
            return ratio(found, relevant)
        case "capped_recall":
            return ratio(found, np.minimum(relevant, k))
        case "set_precision":
            return ratio(found, np.broadcast_to(length, found.shape))
        case "f1":
            return ratio(2 * found, relevant + k)
    beta = dict(metric.parameters).get("beta", metric.definition.parameters["beta"].default)
    weight = cast("float", beta) ** 2
    return ratio((1 + weight) * found, np.where(found > 0, length + weight * relevant, 0))


def _ap(metric: Metric, hits: JointHits) -> Most:
    return Most(*most_ap(hits, metric.k, is_capped=metric.name == "capped_ap"))


def open_gains(metric: Metric, hits: JointHits) -> Scores:
    """The gains that an unjudged document is tried with, above 0, ascending: those of the labels, and the highest.

    What lies between two of them cannot bring more: a document may as well gain the next one up or down, since the
    denominator counts how many documents gain as much as a label does.
    """
    highest, given = hits.highest_grade, [grade for grade, _ in metric.gains if grade <= hits.highest_grade]
    usual = highest
    while usual in given:
        usual -= 1
    tried: Grades = np.array([*given, highest, max(usual, 0), *np.unique(hits.labels.grades).tolist()], dtype=np.int32)
    found = np.unique(gains(metric, tried))
    return found[found > 0]


def _ndcg(metric: Metric, hits: JointHits) -> Most:
    """The most of (gains times edges) / ideal, by Dinkelbach's method (1967): see ``_best_counts``."""
    levels = open_gains(metric, hits)
    if not len(levels):
        return _exact(np.zeros(hits.queries))
    steps = np.diff(levels, prepend=0.0)
    gained = gains(metric, hits.labels.grades)
    reaching = np.array([hits.count(hits.labels.rows, gained >= level) for level in levels])
    edges = _edges(metric.k, hits, discount)
    known = hits.total(gains(metric, hits.grades) * edges, ~hits.is_open)
    counts = hits.count(hits.rows, hits.is_open)
    deepest = int((reaching[0] + counts).max(initial=0))
    ideal = np.concatenate(([0.0], np.cumsum(discount(np.arange(1, deepest + 1)))))
    ideal = ideal[np.minimum(np.arange(deepest + 1), deepest if metric.k is None else metric.k)]
    most = np.empty(hits.queries)
    for rows in blocks(counts):
        summed = _highest_summed(hits, rows, edges, int(counts[rows].max(initial=0)))
        is_there = np.arange(summed.shape[1]) <= counts[rows, None]
        places = np.minimum(reaching[:, rows, None] + np.arange(summed.shape[1]), deepest)
        terms = _Terms(known[rows], summed, ideal[places], steps, is_there)
        best = ratio(known[rows], (steps[:, None] * ideal[reaching[:, rows]]).sum(axis=0))
        for _ in range(MOST_STEPS):
            better = terms.improved(best)
            if not (better > best).any():
                break
            best = np.maximum(better, best)
        most[rows] = best
    return _exact(most)


def _highest_summed(hits: JointHits, rows: Counts, edges: Scores, most: int) -> Scores:
    """For each of the queries the sums of its 0, 1, 2, ... highest edges of open hits, (rows, most + 1)."""
    chosen = hits.of(rows)
    chosen = chosen[hits.is_open[chosen]]
    chosen = chosen[np.lexsort((-edges[chosen], hits.rows[chosen]))]
    table = np.zeros((len(rows), most + 1))
    own = hits.rows[chosen]
    table[np.searchsorted(rows, own), places_in_row(own) + 1] = edges[chosen]
    return np.cumsum(table, axis=1)


@dataclass(frozen=True, eq=False)
class _Terms:
    """Of some queries all that the difference is made of.

    Gains are stacks of ``steps``, (levels,), from the lowest gain up. If x documents more gain at least a level, then
    its step brings ``summed[:, x]`` times itself to the numerator and ``ideals[level, :, x]`` times itself to the
    denominator; ``known`` is what is judged. x may be at most where ``is_there``.
    """

    known: Scores
    summed: Scores
    ideals: Scores
    steps: Scores
    is_there: Bools

    def improved(self, best: Scores) -> Scores:
        """A difference that some grades reach, and that is more than ``best`` unless ``best`` is the most.

        The numbers of documents that maximise numerator - best x denominator, where no level is gained by more than
        the level below it: the best of each level with the levels above it, for each number that bounds them.
        """
        shape = self.summed.shape
        numerators, denominators = np.zeros(shape), np.zeros(shape)
        for level in range(len(self.steps) - 1, -1, -1):
            numerators = numerators + self.steps[level] * self.summed
            denominators = denominators + self.steps[level] * self.ideals[level]
            gained = numerators - best[:, None] * denominators
            if not level:
                gained = np.where(self.is_there, gained, -np.inf)
            at = _places_of_highest(gained)
            numerators = np.take_along_axis(numerators, at, axis=1)
            denominators = np.take_along_axis(denominators, at, axis=1)
        return ratio(self.known + numerators[:, -1], denominators[:, -1])


def _places_of_highest(values: Scores) -> Counts:
    """For each place of a row where the highest value so far stands, the first of equal ones."""
    highest = np.maximum.accumulate(values, axis=1)
    is_new = np.ones(values.shape, dtype=np.bool_)
    is_new[:, 1:] = highest[:, 1:] > highest[:, :-1]
    return np.maximum.accumulate(np.where(is_new, np.arange(values.shape[1]), 0), axis=1)


MOST: Mapping[str, Callable[[Metric, JointHits], Most]] = {
    "precision": _precision,
    "rbp": _rbp,
    "dcg": _dcg,
    "ndcg": _ndcg,
    "hit_rate": _first_relevant,
    "rr": _first_relevant,
    **dict.fromkeys(("recall", "set_recall", "capped_recall", "set_precision", "f1", "set_f"), _counted),
    **dict.fromkeys(("ap", "capped_ap"), _ap),
}
"""By metric: the most that the second ranking's score can be above the first's."""

NOT_KNOWN: Mapping[str, str] = {**UNBOUNDED, "gm_ap": _GEOMETRIC, "err": _NOT_WORKED_OUT}
"""Why other metrics have no bounds."""
