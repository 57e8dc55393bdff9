"""The most by which the average precision of two rankings can differ, over all ways of judging their unjudged hits.

A relevant hit makes all relevant hits below it count for more, so that the sum of a ranking is quadratic in what is
relevant, and of the difference of two no order of hits is the best. Where few hits are open all 2^u choices are tried.
Where there are more, the sums are taken apart: for each number m of documents that turn out relevant, the most that m
of them bring in the second ranking less the least that m of them bring in the first. No choice brings more than that;
perhaps none brings as much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ragtrial.comparison.unjudged.joint_hits import BLOCK, NOWHERE, JointHits, blocks, places_in_row
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics.structure import ratio
from ragtrial.rankings import Bools, Counts

MOST_TRIED = 12
"""Of more open hits among the first k not all choices are tried."""


@dataclass(frozen=True, eq=False)
class _Sums:
    """One ranking's sum of precisions, as it is and with more relevant hits.

    ``known`` is the sum as it is, (queries,). For each hit: ``ranks``, NOWHERE where it brings nothing, and ``alone``,
    what it brings if it turns out relevant and no other does.
    """

    known: Scores
    ranks: Counts
    alone: Scores


def most_ap(hits: JointHits, k: int | None, *, is_capped: bool) -> tuple[Scores, Bools]:
    """The most of the second ranking's AP less the first's, and whether some judgments reach it, both (queries,).

    ``is_capped``: divided by min(k, R) in place of R.
    """
    sums = [_sums(hits, ranks, k) for ranks in (hits.first, hits.second)]
    active = hits.is_open & ((sums[0].ranks < NOWHERE) | (sums[1].ranks < NOWHERE))
    counts, idle = hits.count(hits.rows, active), hits.count(hits.rows, hits.is_open & ~active)
    cap = k if is_capped and k is not None else NOWHERE
    most, is_exact = np.empty(hits.queries), counts <= MOST_TRIED
    for count in np.unique(counts[is_exact]).tolist():
        queries = np.flatnonzero(counts == count)
        for rows in np.array_split(queries, -(-len(queries) * 2**count // BLOCK)):
            most[rows] = _tried(hits, sums, active, rows, count, idle[rows], cap)
    many = np.flatnonzero(~is_exact)
    for chosen in blocks((counts + idle)[many]):
        most[many[chosen]] = _apart(hits, sums, active, many[chosen], idle, cap)
    return most, is_exact


def _sums(hits: JointHits, ranks: Counts, k: int | None) -> _Sums:
    ranks = np.where(ranks <= (NOWHERE if k is None else k), ranks, NOWHERE)
    order = np.lexsort((ranks, hits.rows))
    rows, relevant = hits.rows[order], (hits.relevant & (ranks < NOWHERE))[order]
    shares = np.where(ranks[order] < NOWHERE, 1.0 / ranks[order], 0.0)
    above, below = np.empty(len(order)), np.empty(len(order))
    before: Counts = np.cumsum(relevant) - relevant
    starts = np.searchsorted(rows, rows)
    above[order] = before - (before[starts] if len(starts) else 0)
    brought = np.bincount(rows, weights=relevant * shares, minlength=hits.queries)
    through = np.cumsum(relevant * shares)
    base = np.concatenate(([0.0], through))[starts]
    below[order] = brought[rows] - (through - base)
    own = np.where(ranks < NOWHERE, 1.0 / ranks, 0.0)
    known = hits.total((above + 1) * own, hits.relevant & (ranks < NOWHERE))
    alone = np.where(ranks < NOWHERE, (above + 1) * own + below, 0.0)
    return _Sums(known, ranks, alone)


def _tried(
    hits: JointHits, sums: list[_Sums], active: Bools, rows: Counts, count: int, idle: Counts, cap: int
) -> Scores:
    """The most of queries that all have ``count`` active hits, by trying every choice of them."""
    chosen = hits.of(rows)
    chosen = chosen[active[chosen]].reshape(len(rows), count)
    edges = sums[1].alone[chosen] - sums[0].alone[chosen]
    values = (sums[1].known - sums[0].known)[rows, None]
    numbers = np.zeros(1, dtype=np.int64)
    for new in range(count):
        together = np.zeros((len(rows), 1))  # what the new hit and those chosen before bring by standing together
        for old in range(new):
            pair = np.zeros(len(rows))
            for one, sign in zip(sums, (-1.0, 1.0), strict=True):
                lower = np.maximum(one.ranks[chosen[:, new]], one.ranks[chosen[:, old]])
                pair += sign * np.where(lower < NOWHERE, 1.0 / lower, 0.0)
            together = np.hstack([together, together + pair[:, None]])
        values = np.hstack([values, values + edges[:, new : new + 1] + together])
        numbers = np.concatenate([numbers, numbers + 1])
    relevant = hits.relevant_counts[rows, None] + numbers
    # Idle documents only raise R, which is of use below 0.
    fewest, all_of_them = np.minimum(relevant, cap), np.minimum(relevant + idle[:, None], cap)
    return np.asarray(np.maximum(ratio(values, fewest), ratio(values, all_of_them)).max(axis=1))


def _apart(hits: JointHits, sums: list[_Sums], active: Bools, rows: Counts, idle: Counts, cap: int) -> Scores:
    """What the difference cannot exceed, for each of some queries."""
    chosen = hits.of(rows)
    chosen = chosen[active[chosen]]
    counts = np.bincount(np.searchsorted(rows, hits.rows[chosen]), minlength=len(rows))
    free = idle[rows]
    width = int((counts + free).max(initial=0))
    more = np.arange(width + 1)
    second = _walked(hits, sums[1], rows, chosen, upwards=False)
    first = _walked(hits, sums[0], rows, chosen, upwards=True)
    highest = np.take_along_axis(second, np.minimum(more, second.shape[1] - 1)[None, :].repeat(len(rows), 0), axis=1)
    # In the first ranking those that it does not have come first: they bring nothing there.
    in_first = np.bincount(
        np.searchsorted(rows, hits.rows[chosen[sums[0].ranks[chosen] < NOWHERE]]), minlength=len(rows)
    )
    unseen = (counts + free - in_first)[:, None]
    lowest = np.take_along_axis(first, np.clip(more - unseen, 0, first.shape[1] - 1), axis=1)
    values = highest - lowest
    made = ratio(values, np.minimum(hits.relevant_counts[rows, None] + more, cap))
    return np.asarray(np.where(more <= (counts + free)[:, None], made, -np.inf).max(axis=1))


def _walked(hits: JointHits, own: _Sums, rows: Counts, chosen: Counts, *, upwards: bool) -> Scores:
    """The sum of a ranking with 0, 1, 2, ... of its open hits relevant, the highest ones first, or the lowest.

    Shape (rows, most open hits + 1); where a query has fewer, the last of its sums again. The highest are the most
    that so many of them bring, the lowest the least: see ``ranges.labellings``.
    """
    chosen = chosen[own.ranks[chosen] < NOWHERE]
    chosen = chosen[np.lexsort((own.ranks[chosen] * (-1 if upwards else 1), hits.rows[chosen]))]
    places, row = places_in_row(hits.rows[chosen]), np.searchsorted(rows, hits.rows[chosen])
    width = int(places.max(initial=-1)) + 1
    table, shares = np.zeros((len(rows), width + 1)), np.zeros((len(rows), width + 1))
    shares[row, places + 1] = 1.0 / own.ranks[chosen]
    # A new hit counts for those chosen before it, too: at its own rank those above, at their ranks itself if below.
    before = shares.cumsum(axis=1) - shares if upwards else shares * (np.arange(width + 1) - 1)
    table[row, places + 1] = own.alone[chosen] + before[row, places + 1]
    return own.known[rows, None] + np.cumsum(table, axis=1)
