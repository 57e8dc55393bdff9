"""The least and the most by which two rankings can differ, over all ways in which unjudged hits could be graded.

A document has one grade, in both rankings. Let a hit's edge be what it weighs in the second ranking less what it weighs
in the first. For most metrics the difference is a sum of gains times edges, over a denominator that depends on how many
documents gain how much, whichever they are. So for given numbers of them the most is had where the highest edges have
the highest gains (the rearrangement inequality), and what is left is to find the best numbers: by trying all of them
where a document is relevant or not, for nDCG by dynamic programming. The least is the most with the rankings swapped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ragtrial.comparison.unjudged.joint_ap import most_ap
from ragtrial.comparison.unjudged.joint_hits import JointHits, blocks, places_in_row
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import Metric
from ragtrial.evaluation.metrics.structure import FirstHit, HitCount, PrecisionSum, WeightedSum, ratio
from ragtrial.rankings import Bools, Counts
from ragtrial.runs.qrels import Grades

MOST_STEPS = 100
"""Of Dinkelbach's method, which takes four or five."""


@dataclass(frozen=True, eq=False)
class DifferenceBounds:
    """The least and the most of each query's difference, (queries,).

    ``is_exact`` says whether some grades reach both ends; if not, no grades lead beyond them.
    """

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
    hits = _at_threshold(metric, hits)
    is_exact = np.ones(hits.queries, dtype=np.bool_)
    if isinstance(metric.definition.structure, PrecisionSum):
        capped = metric.definition.structure.capped
        high, is_exact = most_ap(hits, metric.k, is_capped=capped)
        low, _ = most_ap(hits.swapped, metric.k, is_capped=capped)
    else:
        high, low = _most(metric, hits), _most(metric, hits.swapped)
    return DifferenceBounds(-low, high, is_exact)


def joint_bounds_of_chunks(metric: Metric, hits: JointHits, first: Scores, second: Scores) -> DifferenceBounds:
    """The same where chunks are ranked, of metrics that ask only which of the first k chunks are relevant.

    A chunk that overlaps no label may have a relevant passage of its own, or not. ``first`` and ``second`` are the
    scores as they are. Wider than it need be, since chunks may overlap. Raises ValueError as ``joint_bounds`` does.
    """
    if (why := why_unbounded_of_chunks(metric)) is not None:
        raise ValueError(why)
    high = _most_of_chunks(metric, hits, first, second)
    low = -_most_of_chunks(metric, hits.swapped, second, first)
    return DifferenceBounds(low, high, np.zeros(hits.queries, dtype=np.bool_))


def why_unbounded(metric: Metric) -> str | None:
    """Why nothing is known of the range of a metric's difference, in a sentence; None where it is known."""
    definition = metric.definition
    if definition.structure is None:
        return definition.unbounded or "no way to its extremes is known here but to try all grades."
    if definition.aggregate == "geometric":
        return "its mean over queries is geometric, and the difference of two such means is not a mean of differences."
    if dict(metric.parameters).get("judged_only"):
        return "judged_only drops the unjudged hits; what they would score can be said of the metric without it."
    return None


def why_unbounded_of_chunks(metric: Metric) -> str | None:
    """The same where passages are found in chunks."""
    structure = metric.definition.structure
    if isinstance(structure, FirstHit) or (isinstance(structure, HitCount) and structure.of_chunks):
        return None
    return "a relevant passage that nobody labelled may lie anywhere in a chunk, and in several at once."


def as_judged(metric: Metric, hits: JointHits) -> Scores:
    """The second ranking's score less the first's as labels have it, (queries,), where the metric has bounds."""
    return joint_bounds(metric, hits.without_open).high


def _at_threshold(metric: Metric, hits: JointHits) -> JointHits:
    """The hits by the metric's own threshold; nothing is open to it where no grade of the labels reaches that."""
    seen = replace(hits, threshold=metric.threshold(hits.threshold))
    graded = metric.definition.family == "graded"
    return seen if graded or seen.highest_grade >= seen.threshold else seen.without_open


def _most(metric: Metric, hits: JointHits) -> Scores:
    """The most that each query's difference can be, (queries,), where the metric is no sum of precisions."""
    structure = metric.definition.structure
    if isinstance(structure, HitCount):
        return _most_counted(metric, structure, hits)
    if isinstance(structure, FirstHit):
        known = np.zeros((2, hits.queries))
        for values, ranks in zip(known, (hits.first, hits.second), strict=True):
            found = hits.relevant & hits.within(ranks, metric.k)
            np.maximum.at(values, hits.rows[found], structure.value(ranks[found]))
        return _with_one_more(metric, structure, hits, known[0], known[1])
    if not isinstance(structure, WeightedSum):
        raise TypeError(f"{metric} has no such structure")
    edges = np.zeros(len(hits.rows))
    for ranks, sign in ((hits.second, 1.0), (hits.first, -1.0)):
        within = hits.within(ranks, metric.k)
        edges[within] += sign * structure.weight(metric, ranks[within])
    if structure.normalised:
        return _most_normalised(metric, structure, hits, edges)
    # All that has an edge gains as much as it can, all else nothing.
    gains, highest = hits.relevant.astype(np.float64), 1.0
    if metric.definition.family == "graded":
        gains, highest = metric.gain(hits.grades), float(open_gains(metric, hits).max(initial=0.0))
    known_sum = hits.total(gains * edges, ~hits.is_open)
    return np.asarray(known_sum + hits.total(highest * np.maximum(edges, 0.0), hits.is_open))


def _most_of_chunks(metric: Metric, hits: JointHits, first: Scores, second: Scores) -> Scores:
    structure = metric.definition.structure
    if isinstance(structure, FirstHit):
        return _with_one_more(metric, structure, hits, first, second)
    if not isinstance(structure, HitCount):
        raise TypeError(f"{metric} does not count chunks")
    only_second = hits.within(hits.second, metric.k) & ~hits.within(hits.first, metric.k)
    more = hits.count(hits.rows, hits.is_open & only_second)
    return np.asarray(second - first + structure.value(metric, more, hits.relevant_counts, hits.lengths[1]))


def _with_one_more(metric: Metric, structure: FirstHit, hits: JointHits, first: Scores, second: Scores) -> Scores:
    """The most that the difference can be: with one more relevant hit, which leaves the first ranking lowest, or none.

    More than one bring nothing more: only the highest of them counts in the second ranking.
    """
    rows = hits.rows[hits.is_open]
    with_it = [
        np.maximum(now[rows], np.where(hits.within(ranks, metric.k), structure.value(ranks), 0.0)[hits.is_open])
        for now, ranks in ((first, hits.first), (second, hits.second))
    ]
    most: Scores = second - first
    np.maximum.at(most, rows, with_it[1] - with_it[0])
    return most


def _most_counted(metric: Metric, structure: HitCount, hits: JointHits) -> Scores:
    """For each number of new relevant documents the best choice of them.

    First those that the second ranking alone has, then those of both and of neither, at last those of the first alone.
    """
    in_first, in_second = (hits.within(ranks, metric.k) for ranks in (hits.first, hits.second))
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
        lengths = np.broadcast_to(hits.lengths[:, rows, None], (2, *relevant.shape))
        made = structure.value(metric, second, relevant, lengths[1])
        made = made - structure.value(metric, first, relevant, lengths[0])
        most[rows] = np.where(more <= only + both + neither + other, made, -np.inf).max(axis=1)
    return most


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
    found = np.unique(metric.gain(tried))
    return found[found > 0]


def _most_normalised(metric: Metric, structure: WeightedSum, hits: JointHits, edges: Scores) -> Scores:
    """The most of (gains times edges) / ideal, by Dinkelbach's method (1967): see ``_improved``."""
    levels = open_gains(metric, hits)
    if not len(levels):
        return np.zeros(hits.queries)
    steps = np.diff(levels, prepend=0.0)
    gained = metric.gain(hits.labels.grades)
    reaching = np.array([hits.count(hits.labels.rows, gained >= level) for level in levels])
    known = hits.total(metric.gain(hits.grades) * edges, ~hits.is_open)
    counts = hits.count(hits.rows, hits.is_open)
    deepest = int((reaching[0] + counts).max(initial=0))
    ideal = np.concatenate(([0.0], np.cumsum(structure.weight(metric, np.arange(1, deepest + 1)))))
    ideal = ideal[np.minimum(np.arange(deepest + 1), deepest if metric.k is None else metric.k)]
    most = np.empty(hits.queries)
    for rows in blocks(counts):
        highest_sums = _highest_sums(hits, rows, edges, int(counts[rows].max(initial=0)))
        places = np.arange(highest_sums.shape[1])
        # A gain is a stack of steps. If x more documents reach a level, its step brings so much times itself.
        numerators = steps[:, None, None] * highest_sums
        denominators = steps[:, None, None] * ideal[np.minimum(reaching[:, rows, None] + places, deepest)]
        best = ratio(known[rows], (steps[:, None] * ideal[reaching[:, rows]]).sum(axis=0))
        for _ in range(MOST_STEPS):
            better = _improved(best, known[rows], numerators, denominators, places <= counts[rows, None])
            if not (better > best).any():
                break
            best = np.maximum(better, best)
        most[rows] = best
    return most


def _highest_sums(hits: JointHits, rows: Counts, edges: Scores, most: int) -> Scores:
    """For each of the queries the sums of its 0, 1, 2, ... highest edges of open hits, (rows, most + 1)."""
    chosen = hits.of(rows)
    chosen = chosen[hits.is_open[chosen]]
    chosen = chosen[np.lexsort((-edges[chosen], hits.rows[chosen]))]
    table = np.zeros((len(rows), most + 1))
    own = hits.rows[chosen]
    table[np.searchsorted(rows, own), places_in_row(own) + 1] = edges[chosen]
    return np.cumsum(table, axis=1)


def _improved(best: Scores, known: Scores, numerators: Scores, denominators: Scores, is_there: Bools) -> Scores:
    """A difference that some grades reach, and that is more than ``best`` unless ``best`` is the most, (rows,).

    ``numerators`` and ``denominators``, (levels, rows, counts), are what each level brings if so many more documents
    reach it; ``is_there`` says which counts a query has. PassageQuery are the counts that maximise numerator - best x
    denominator, where no level is reached by more than the level below it: the best count of each level with the levels
    above it, for each number that bounds them.
    """
    numerator, denominator = np.zeros(is_there.shape), np.zeros(is_there.shape)
    for level in range(len(numerators) - 1, -1, -1):
        numerator, denominator = numerator + numerators[level], denominator + denominators[level]
        gained = numerator - best[:, None] * denominator
        if not level:
            gained = np.where(is_there, gained, -np.inf)
        # For each place of a row, where the highest value so far is, the first of equal ones.
        highest = np.maximum.accumulate(gained, axis=1)
        is_new = np.ones(gained.shape, dtype=np.bool_)
        is_new[:, 1:] = highest[:, 1:] > highest[:, :-1]
        at = np.maximum.accumulate(np.where(is_new, np.arange(gained.shape[1]), 0), axis=1)
        numerator, denominator = (np.take_along_axis(one, at, axis=1) for one in (numerator, denominator))
    return ratio(known + numerator[:, -1], denominator[:, -1])
