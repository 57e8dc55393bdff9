"""What a score could be if hits of equal score stood in another order.

Of equal scores no order is right, and tools choose different ones: by id, as they came, by chance. The range says
how much of a score that choice decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ragtrial.evaluation.bounds.base import Bounds, preferred
from ragtrial.evaluation.evaluators import scores_of
from ragtrial.evaluation.grading import GradedRankings, Scores
from ragtrial.evaluation.metrics import Metric
from ragtrial.rankings import Bools


def _as_it_is(graded: GradedRankings) -> GradedRankings:
    return graded


def tie_range(
    metric: Metric, graded: GradedRankings, then: Callable[[GradedRankings], GradedRankings] = _as_it_is
) -> Bounds | None:
    """The range of each query's score over all orders of its hits that leave higher scores above lower ones.

    ``graded`` is whole: where the ranking is cut to a depth, or hits that nobody judged are dropped, ``then`` does
    it, because the order of equal scores decides which hits remain. Both ends are scores of such orders: the range is
    exact. Low equals high where there are no ties, or no scores. None for a metric of which no order is known to be
    best. Raises CutoffError as the metric does.
    """
    preference = metric.definition.prefers
    if preference is None:
        return None
    worth = preferred(metric, graded, preference)
    high = scores_of(metric, then(_best_first(graded, worth)))
    low = scores_of(metric, then(_best_first(graded, -worth)))
    return Bounds(low, high)


def ties_that_matter(graded: GradedRankings) -> Bools:
    """Which queries have equal scores of hits that are not judged alike, shape (queries,).

    Without such a tie no order of equal scores changes any metric that looks at judgments alone; ``rbo`` looks at
    the place in the labels as well, and can tell two relevant hits of one grade. ``graded`` is whole: of ties that
    were cut through, what was cut off counts as not judged.
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


def _best_first(graded: GradedRankings, worth: Scores) -> GradedRankings:
    """The same with each group of equal scores in the order of preference; hits that nobody judged have 0."""
    ties = graded.ties
    if ties is None or (ties[:, 0] == ties[:, 1]).all():
        return graded
    order = np.lexsort((-worth, ties[:, 0], graded.rows))
    # Sorting moves hits only within their groups, so the n-th hit still belongs to the group of the n-th.
    begins = graded.group_starts(ties[:, 0])
    sizes = np.diff(np.append(begins, len(ties)))
    place = np.arange(len(ties)) - np.repeat(begins, sizes)
    above = worth[order] > 0
    # Those that are better than unjudged hits stand from the top of the group on, the others up to its end.
    ranks = np.where(above, ties[:, 0] + place, ties[:, 1] - (np.repeat(sizes, sizes) - 1 - place))
    return replace(graded, ranks=ranks.astype(np.int32), indices=graded.indices[order])
