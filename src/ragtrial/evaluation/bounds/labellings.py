"""The best and the worst labelling of unjudged hits for metrics that divide by what R allows: AP and nDCG.

A labelling makes some set of unjudged hits relevant. Let m be how many. For a given m the best set is the m highest of
them and the worst the m lowest, so one walk down and one walk up the ranking, taking in one hit at each step, meet the
best and the worst labelling for every m; the extremes over m are exact. Why:

- the denominator (R + m, or its cap; the ideal DCG of that many relevant documents) depends on m alone;
- nDCG: the numerator adds up discounts, which fall with the rank.
- AP: let one relevant document move from rank s up to an unjudged rank t < s, with x relevant hits above t and y
  between. It brought (x + y + 1) / s and brings (x + 1) / t. Each of the y hits, at a rank of at most s - 1, has one
  more relevant hit above it, which brings at least y / (s - 1) in all. The sum rises by at least
  (x + 1) (1 / t - 1 / s) + y (1 / (s - 1) - 1 / s) > 0. With a cutoff, hits below it bring nothing before or after, and
  the same holds of the rest. So the sum is largest when no such move up is left, and smallest when none down is.

Hits below k bring nothing and only raise the denominator: the best labelling has none of them. The walk up takes them
first; from there on both walks are over the first k hits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ragtrial.evaluation.grading import GradedRankings, Scores
from ragtrial.evaluation.metrics import Metric
from ragtrial.evaluation.metrics.structure import PrecisionSum, WeightedSum, ratio
from ragtrial.rankings import Bools, Counts

Floats2d = npt.NDArray[np.float64]

BLOCK = 2**18
"""How many places of rankings are looked at at once: a few MiB whatever the number of queries."""


@dataclass(frozen=True, eq=False)
class _QueryBlock:
    """Some queries and the first k places of their rankings, as rows and columns.

    ``unjudged`` says where a hit is that nobody judged, ``helpful`` where one is that brings something already, both
    (queries, places); ``beyond`` counts the unjudged hits below k of each query.
    """

    queries: Counts
    unjudged: npt.NDArray[np.bool_]
    helpful: npt.NDArray[np.bool_]
    beyond: Counts


def extremes(metric: Metric, graded: GradedRankings) -> tuple[Scores, Scores]:
    """The least and the most score of each query, (queries,), where unjudged hits may be relevant or not.

    For metrics whose structure is a PrecisionSum or a normalised WeightedSum, where all documents that gain, gain
    alike. Without the labelling in which none of them is relevant, which is the score itself; infinite where there is
    no other.
    """
    structure = metric.definition.structure
    if isinstance(structure, WeightedSum):
        gaining = metric.gain(graded.judgments.grades) > 0
        known, helpful = graded.is_judged, gaining[graded.indices]
        counts = np.bincount(graded.judgments.rows[gaining], minlength=len(graded))
        deepest = int((counts + graded.lengths).max(initial=0)) if metric.k is None else metric.k
        weights = structure.weight(metric, np.arange(1, deepest + 1))
        divisors = np.concatenate(([0.0], np.cumsum(weights)))
    else:
        known, helpful, counts = graded.is_judged | graded.relevant, graded.relevant, graded.relevant_counts
        capped = isinstance(structure, PrecisionSum) and structure.capped and metric.k is not None
        deepest = metric.k if capped and metric.k else int((counts + graded.lengths).max(initial=0))
        weights = 1 / np.arange(1.0, int(graded.lengths.max(initial=0)) + 1)
        divisors = np.arange(deepest + 1.0)
    least, most = np.full(len(graded), np.inf), np.full(len(graded), -np.inf)
    for block in _blocks(graded, known, helpful, metric.k):
        unjudged, beyond, now = block.unjudged, block.beyond, counts[block.queries]
        weight = weights[: unjudged.shape[1]]
        if isinstance(structure, WeightedSum):
            start = block.helpful @ weight
            down = up = np.broadcast_to(weight, unjudged.shape)
        else:
            above = np.cumsum(block.helpful, axis=1)
            start = (block.helpful * above) @ weight
            # A new relevant hit brings 1 / rank for itself and each relevant one above it, and 1 / its rank for each
            # below. On the walk up, all unjudged ones further down are relevant already.
            down = (above + np.cumsum(unjudged, axis=1)) * weight + _below(block.helpful * weight)
            up = (above + 1) * weight + _below((block.helpful | unjudged) * weight)
        taken = now[:, None] + np.cumsum(unjudged, axis=1)
        sums = start[:, None] + np.cumsum(down * unjudged, axis=1)
        most[block.queries] = _ratios(block, sums, divisors[np.minimum(taken, deepest)], -np.inf).max(axis=1)

        taken = (now + beyond)[:, None] + _cumsum_up(unjudged)
        sums = start[:, None] + _cumsum_up(up * unjudged)
        first = np.where(beyond > 0, ratio(start, divisors[np.minimum(now + beyond, deepest)]), np.inf)
        rest = _ratios(block, sums, divisors[np.minimum(taken, deepest)], np.inf).min(axis=1)
        least[block.queries] = np.minimum(first, rest)
    return least, np.minimum(most, 1)


def _below(terms: Floats2d) -> Floats2d:
    """The sum of all terms further down than each place."""
    through = np.cumsum(terms, axis=1)
    return through[:, -1:] - through


def _ratios(block: _QueryBlock, numerators: Floats2d, denominators: npt.NDArray[Any], otherwise: float) -> Floats2d:
    """The score after each step of a walk, at the place of the hit taken in; ``otherwise`` at other places."""
    result = np.full(numerators.shape, otherwise)
    np.divide(numerators, denominators, out=result, where=block.unjudged)
    return result


def _cumsum_up(terms: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The sum of each place and all further down."""
    return np.cumsum(terms[:, ::-1], axis=1)[:, ::-1]


def _blocks(graded: GradedRankings, known: Bools, helpful: Bools, k: int | None) -> Iterator[_QueryBlock]:
    """The queries that have unjudged hits, longest rankings first, so that rows of one block are alike in length."""
    shown = graded.retrieved(k)
    unjudged = shown - graded.count(known & graded.within(k))
    beyond = graded.lengths - graded.count(known) - unjudged
    queries = np.flatnonzero(unjudged + beyond)
    queries = queries[np.argsort(-shown[queries], kind="stable")]
    while len(queries):
        width = int(shown[queries[0]])
        chosen, queries = np.split(queries, [max(1, BLOCK // width)])
        hits, rows = _hits_of(graded, chosen)
        within = graded.ranks[hits] <= width
        hits, rows = hits[within], rows[within]
        columns = graded.ranks[hits] - 1
        open_places = np.arange(width) < shown[chosen][:, None]
        open_places[rows[known[hits]], columns[known[hits]]] = False
        helping = np.zeros(open_places.shape, dtype=np.bool_)
        helping[rows, columns] = helpful[hits]
        yield _QueryBlock(chosen, open_places, helping, beyond[chosen])


def _hits_of(graded: GradedRankings, queries: Counts) -> tuple[Counts, Counts]:
    """The judged hits of some queries, and for each its query's place among them."""
    counts = graded.starts[queries + 1] - graded.starts[queries]
    rows = np.repeat(np.arange(len(queries)), counts)
    ends = np.cumsum(counts)
    return np.arange(len(rows)) + (graded.starts[queries] - ends + counts)[rows], rows
