"""The best score that the judgments allow: a precision@10 of 0.2 may be all there is to get."""

from __future__ import annotations

import numpy as np

from ragtrial.evaluation.bounds.base import preferred
from ragtrial.evaluation.evaluators import scores_of
from ragtrial.evaluation.grading import GradedRankings, Scores
from ragtrial.evaluation.metrics import Metric
from ragtrial.runs.qrels import Judgments


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
    if ideal is None or metric.definition.aggregate == "sum":  # a count is neither good nor bad
        return None
    lengths = np.diff(judgments.starts)
    places = np.arange(len(judgments.grades)) - np.repeat(judgments.starts[:-1], lengths)
    everything = GradedRankings(
        judgments,
        judgments.starts,
        ranks=(places + 1).astype(np.int32),
        indices=np.arange(len(judgments.grades)),
        lengths=lengths,
        depth=None,
        threshold=threshold,
        pooled=pooled,
    )
    best = _best(everything, preferred(metric, everything, ideal))
    return scores_of(metric, best if depth is None else best.cut(depth))


def _best(everything: GradedRankings, worth: Scores) -> GradedRankings:
    """Of all judged documents those worth more than nothing, best first."""
    order = np.lexsort((-worth, everything.rows))
    order = order[worth[order] > 0]
    counts = np.bincount(everything.rows[order], minlength=len(everything))
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    ranks = (np.arange(len(order)) - np.repeat(starts[:-1], counts) + 1).astype(np.int32)
    return GradedRankings(
        everything.judgments,
        starts,
        ranks,
        indices=order,
        lengths=counts.astype(np.int64),
        depth=None,
        threshold=everything.threshold,
        pooled=everything.pooled,
    )
