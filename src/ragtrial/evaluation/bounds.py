"""The best possible score, and the range of a score over the orders of equal scores.

Ties: no order of equal scores is right, and tools choose different orders: by id, by position, or at random. The range
shows how much of a score that choice decides. The best score shows the room for improvement: a precision@10 of 0.2 may
be the maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ragtrial.evaluation.evaluators import scores_of
from ragtrial.evaluation.grading import GradedRankings, Scores, retrieving
from ragtrial.evaluation.metrics import Metric
from ragtrial.evaluation.metrics.base import Preference
from ragtrial.rankings import Bools
from ragtrial.runs.qrels import Judgments


@dataclass(frozen=True, eq=False)
class Bounds:
    """The least and the most that the score of each query can be, both of shape (queries,)."""

    low: Scores
    high: Scores


def attainable(
    metric: Metric, judgments: Judgments, threshold: int = 1, *, skips_negatives: bool = False, depth: int | None = None
) -> Scores:
    """The best score that any ranking can get for these judgments, shape (queries,).

    It is the score of an ideal ranking: all documents that help, best first, and nothing else. For ``unjudged`` and
    ``rbp_residual`` best is least. ``threshold`` is the grade from which a document is relevant where the metric names
    none; ``skips_negatives`` is as in GradedRankings. No ranking has more than ``depth`` hits, where that is given.
    """
    ideal = metric.definition.ideal or metric.definition.prefers or "relevant"
    everything = retrieving(judgments, np.arange(len(judgments.grades)), threshold, skips_negatives=skips_negatives)
    worth = _worth(metric, everything, ideal)
    order = np.lexsort((-worth, judgments.rows))
    best = retrieving(judgments, order[worth[order] > 0], threshold, skips_negatives=skips_negatives)
    return scores_of(metric, best if depth is None else best.cut(depth))


def tie_range(
    metric: Metric, graded: GradedRankings, then: Callable[[GradedRankings], GradedRankings] = lambda graded: graded
) -> Bounds | None:
    """The range of each query's score over all orders of its hits that keep higher scores above lower scores.

    ``graded`` is whole: if the ranking is cut to a depth, or unjudged hits are dropped, ``then`` does it, because the
    order of equal scores decides which hits remain. Both ends are scores of such orders, so the range is exact. Low
    equals high if there are no ties, or no scores. None for a metric without a known best order, and for labels in
    groups. Raises CutoffError as the metric does.
    """
    preference = metric.definition.prefers
    if preference is None or graded.judgments.groups is not None:
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
    if graded.judgments.groups is not None:  # equal grades may be in different groups
        unlike |= judged > 1
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
