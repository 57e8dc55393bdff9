"""The range of a score: over ties, over judgments of unjudged hits, and up to the best possible ranking.

Ties: no order of equal scores is right, and tools choose different orders: by id, by position, or at random. The range
shows how much of a score that choice decides. The best score shows the room for improvement: a precision@10 of 0.2 may
be the maximum.

Unjudged hits: scores take an unjudged hit for not relevant. Here each may be relevant or not, independently of the
others: this gives the exact minimum and maximum over the 2^u labellings of a ranking with u unjudged hits, without
trying them.

Only hits count: documents that were not retrieved stay unjudged. The whole ranking counts, also below ``k``, because a
relevant document there raises R and lowers a quotient. So for ``rbp`` the distance from low to high is the part of its
residual that judging the hits could settle; the rest of Moffat & Zobel's residual, below the last rank, is in
``rbp_residual``.

Metrics that divide by a function of R, AP and nDCG: let m hits be relevant. For a given m the best set is the m highest
of them and the worst the m lowest. So one walk down and one walk up the ranking, adding one hit at each step, meet the
best and the worst labelling for every m; the extremes over m are exact. Reasons:

- the denominator (R + m, or its cap; the ideal DCG of that many relevant documents) depends on m only;
- nDCG: the numerator adds up discounts, which fall with the rank.
- AP: let one relevant document move from rank s up to an unjudged rank t < s, with x relevant hits above t and y
  between. Its contribution changes from (x + y + 1) / s to (x + 1) / t. Each of the y hits, at a rank of at most s - 1,
  has one more relevant hit above it, which adds at least y / (s - 1) in total. The sum rises by at least (x + 1) (1 / t
  - 1 / s) + y (1 / (s - 1) - 1 / s) > 0. With a cutoff, hits below it add nothing before or after, and the same holds
  for the rest. So the sum is largest when no such move up is left, and smallest when no move down is left.

Hits below k add nothing and only raise the denominator: the best labelling has none of them. The walk up takes them
first; from there on both walks are over the first k hits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ragtrial.evaluation.evaluators import scores_of
from ragtrial.evaluation.grading import GradedRankings, Scores, retrieving
from ragtrial.evaluation.metrics import Metric
from ragtrial.evaluation.metrics.base import FirstHit, HitCount, PrecisionSum, Preference, WeightedSum, ratio
from ragtrial.rankings import Bools
from ragtrial.runs.qrels import Judgments


@dataclass(frozen=True, eq=False)
class Bounds:
    """The least and the most that the score of each query can be, both of shape (queries,)."""

    low: Scores
    high: Scores


def attainable(
    metric: Metric, judgments: Judgments, threshold: int = 1, *, pooled: bool = False, depth: int | None = None
) -> Scores | None:
    """The best score that any ranking can get for these judgments, shape (queries,).

    It is the score of an ideal ranking: all documents that help, best first, and nothing else. For ``unjudged`` and
    ``rbp_residual`` best is least. None for a metric without a best value, or with none that is known. ``threshold``
    is the grade from which a document is relevant where the metric names none; ``pooled`` is as in GradedRankings. No
    ranking has more than ``depth`` hits, where that is given.
    """
    ideal = metric.definition.ideal or metric.definition.prefers
    if ideal is None:
        return None
    everything = retrieving(judgments, np.arange(len(judgments.grades)), threshold, pooled=pooled)
    worth = _worth(metric, everything, ideal)
    order = np.lexsort((-worth, judgments.rows))
    best = retrieving(judgments, order[worth[order] > 0], threshold, pooled=pooled)
    return scores_of(metric, best if depth is None else best.cut(depth))


def tie_range(
    metric: Metric, graded: GradedRankings, then: Callable[[GradedRankings], GradedRankings] = lambda graded: graded
) -> Bounds | None:
    """The range of each query's score over all orders of its hits that keep higher scores above lower scores.

    ``graded`` is whole: if the ranking is cut to a depth, or unjudged hits are dropped, ``then`` does it, because the
    order of equal scores decides which hits remain. Both ends are scores of such orders, so the range is exact. Low
    equals high if there are no ties, or no scores. None for a metric without a known best order. Raises CutoffError as
    the metric does.
    """
    preference = metric.definition.prefers
    if preference is None:
        return None
    worth = _worth(metric, graded, preference)
    low, high = (scores_of(metric, then(_best_first(graded, one))) for one in (-worth, worth))
    return Bounds(low, high)


def ties_that_matter(graded: GradedRankings) -> Bools:
    """Queries with equal scores of hits that are not judged alike, shape (queries,).

    Without such a tie no order of equal scores changes any metric that depends on judgments only. ``rbo`` depends on
    the position in the labels as well, and can distinguish two relevant hits of one grade. ``graded`` is whole: if ties
    were cut through, hits beyond the cut count as not judged.
    """
    matter = np.zeros(len(graded), dtype=np.bool_)
    if graded.ties is None or not len(graded.ties):
        return matter
    begins = graded.group_starts(graded.ties[:, 0])
    first, last = graded.ties[begins].T.astype(np.int64)
    judged = np.diff(np.append(begins, len(graded.ties)))
    unlike = np.minimum.reduceat(graded.grades, begins) != np.maximum.reduceat(graded.grades, begins)
    matter[graded.rows[begins][unlike | (judged < last - first + 1)]] = True
    return matter


def _worth(metric: Metric, graded: GradedRankings, preference: Preference) -> Scores:
    """The preference for each judged hit, shape (hits,); an unjudged hit has 0.

    Some metrics of relevance divide by the judged hits, or count the judged hits above a relevant hit: for them a
    judged hit that is not relevant is worse than an unjudged hit. For the others both are the same.
    """
    if preference == "gain":
        return metric.gain(graded.grades)
    judged = graded.is_judged.astype(np.float64)
    if preference == "relevant":
        return np.where(graded.at_threshold(metric.threshold(graded.threshold)).relevant, 1.0, -judged)
    return judged if preference == "judged" else -judged


def _best_first(graded: GradedRankings, worth: Scores) -> GradedRankings:
    """A copy with each group of equal scores in the order of preference; unjudged hits have 0."""
    ties = graded.ties
    if ties is None or (ties[:, 0] == ties[:, 1]).all():
        return graded
    order = np.lexsort((-worth, ties[:, 0], graded.rows))
    # Sorting moves hits only within their groups, so the n-th hit still belongs to the group of the n-th.
    begins = graded.group_starts(ties[:, 0])
    sizes = np.diff(np.append(begins, len(ties)))
    place = np.arange(len(ties)) - np.repeat(begins, sizes)
    above = worth[order] > 0
    # Hits preferred to unjudged hits fill the group from its top, the others from its end.
    ranks = np.where(above, ties[:, 0] + place, ties[:, 1] - (np.repeat(sizes, sizes) - 1 - place))
    return replace(graded, ranks=ranks.astype(np.int32), indices=graded.indices[order])


def bounds(metric: Metric, graded: GradedRankings) -> Bounds | None:
    """The range of each query's score over all labellings of its unjudged hits; None where ``why_unbounded`` says why.

    A document that turns out relevant has the grade ``threshold`` (for ``ndcg`` the one gain that labels have). Both
    ends are scores of labellings, and the score itself lies between; where every hit is judged all three are equal.
    A query with no relevant document has a range, too, from 0 on: that it is left out of means is the caller's to
    keep to. Raises CutoffError as the metric does.
    """
    if why_unbounded(metric, graded) is not None:
        return None
    metric.check_cut()
    graded = graded.at_threshold(metric.threshold(graded.threshold))
    score = scores_of(metric, graded)
    some = graded.lengths > graded.count(graded.is_judged)
    low, high = _ends(metric, graded)
    return Bounds(np.where(some, np.minimum(low, score), score), np.where(some, np.maximum(high, score), score))


def why_unbounded(metric: Metric, graded: GradedRankings) -> str | None:
    """Why a metric has no bounds, in a sentence; None where it has."""
    definition, structure = metric.definition, metric.definition.structure
    if structure is None or definition.unbounded:
        return definition.unbounded or f"no bounds of {metric.name} under unjudged hits are known."
    if dict(metric.parameters).get("judged_only"):
        return "judged_only drops the unjudged hits; what they would score can be said of the metric without it."
    if isinstance(structure, WeightedSum) and definition.family == "graded":
        gained = metric.gain(graded.judgments.grades)
        if not structure.normalised or len(np.unique(gained[gained > 0])) > 1:
            return "the labels have more than one gain, and which of them an unjudged hit would get is not known."
    return None


def _ends(metric: Metric, graded: GradedRankings) -> tuple[Scores | float, Scores]:
    """The least and the most where some unjudged hits are relevant; the least is infinite if none ever lowers it.

    Looked at only where there are unjudged hits.
    """
    structure, k = metric.definition.structure, metric.k
    known = graded.is_judged | graded.relevant  # fixed in every labelling
    shown = graded.retrieved(k)
    if isinstance(structure, HitCount):
        # (found + a) / (R + a + b) rises with a, the new hits in the first k, since found <= R, and falls with b.
        open_above = shown - graded.count(known & graded.within(k))
        found, relevant = graded.count(graded.relevant & graded.within(k)), graded.relevant_counts
        open_below = graded.lengths - graded.count(known) - open_above
        low = structure.value(metric, found, relevant + open_below)
        return low, structure.value(metric, found + open_above, relevant + open_above)
    if isinstance(structure, FirstHit):
        # The first unjudged hit is where the ranks of the others cease to be 1, 2, 3, ...
        first = graded.count(known & (graded.ranks == graded.so_far(known))) + 1
        return np.inf, np.where(first <= shown, structure.value(first), 0.0)
    if isinstance(structure, WeightedSum) and not structure.normalised:
        # At most the weight of all hits, minus the weight of hits judged not relevant.
        weights = structure.weight(metric, np.arange(1, int(shown.max(initial=0)) + 1))
        failed = known & ~graded.relevant & graded.within(k)
        least = graded.total(structure.weight(metric, graded.ranks), failed)
        return np.inf, np.minimum(np.concatenate(([0.0], np.cumsum(weights)))[shown] - least, 1.0)
    return _extremes(metric, graded)


def _extremes(metric: Metric, graded: GradedRankings) -> tuple[Scores, Scores]:
    """The least and the most of AP and nDCG, where all documents that gain, gain alike; by the two walks."""
    structure, judgments, shown = metric.definition.structure, graded.judgments, graded.retrieved(metric.k)
    known, helpful, counts = graded.is_judged | graded.relevant, graded.relevant, graded.relevant_counts
    cap = metric.k
    if isinstance(structure, WeightedSum):
        gaining = metric.gain(judgments.grades) > 0
        known, helpful = graded.is_judged, gaining[graded.indices]
        counts = np.bincount(judgments.rows[gaining], minlength=len(graded))
    elif not (isinstance(structure, PrecisionSum) and structure.capped):
        cap = None
    deepest = int((counts + graded.lengths).max(initial=0))
    ranks = np.arange(1, deepest + 1)
    weights, ideals = 1 / ranks, np.arange(deepest + 1.0)
    if isinstance(structure, WeightedSum):
        weights = structure.weight(metric, ranks)
        ideals = np.concatenate(([0.0], np.cumsum(weights)))
    ideals = ideals[np.minimum(np.arange(deepest + 1), deepest if cap is None else cap)]
    least, most = np.full(len(graded), np.inf), np.full(len(graded), -np.inf)
    for query in np.flatnonzero(graded.lengths > graded.count(known)).tolist():
        hits, width = slice(*graded.starts[query : query + 2]), int(shown[query])
        places, inside = graded.ranks[hits] - 1, graded.ranks[hits] <= width
        is_open, helps = np.ones(width, dtype=np.bool_), np.zeros(width)
        is_open[places[known[hits] & inside]] = False
        helps[places[helpful[hits] & inside]] = 1.0
        down, up, start = _brought(helps, is_open, weights[:width], of_precision=isinstance(structure, PrecisionSum))
        reached = counts[query] + np.arange(len(down) + 1)
        below = int(graded.lengths[query] - known[hits].sum()) - len(down)
        most[query] = ratio(start + np.cumsum([0.0, *down]), ideals[reached]).max()
        least[query] = ratio(start + np.cumsum([0.0, *up]), ideals[reached + below]).min()
    return least, np.minimum(most, 1)


def _brought(helps: Scores, is_open: Bools, weights: Scores, *, of_precision: bool) -> tuple[Scores, Scores, float]:
    """The gain of each open hit on the walk down and on the walk up, in their orders, and the initial value."""
    if not of_precision:
        return weights[is_open], weights[is_open][::-1], float(helps @ weights)

    # A new relevant hit adds 1 / rank for itself and each relevant hit above it, and 1 / its rank for each below.
    # On the walk up, all open hits further down are relevant already.
    def below(terms: Scores) -> Scores:
        through = np.cumsum(terms)
        return np.asarray(through[-1:] - through)

    above = np.cumsum(helps)
    down = (above + np.cumsum(is_open)) * weights + below(helps * weights)
    up = (above + 1) * weights + below((helps + is_open) * weights)
    return down[is_open], up[is_open][::-1], float((helps * above) @ weights)
