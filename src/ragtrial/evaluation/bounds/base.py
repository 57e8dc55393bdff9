"""What all ranges share: the two ends, and which hits make a score higher."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ragtrial.evaluation.grading import GradedRankings, Scores
from ragtrial.evaluation.metrics import Metric
from ragtrial.evaluation.metrics.base import Preference


@dataclass(frozen=True, eq=False)
class Bounds:
    """The least and the most that the score of each query can be, both of shape (queries,)."""

    low: Scores
    high: Scores


def preferred(metric: Metric, graded: GradedRankings, preference: Preference) -> Scores:
    """How much each judged hit is preferred, shape (hits,), where a hit that nobody judged has 0.

    Some metrics of relevance divide by the judged hits, or count those above a relevant one: to them a judged hit
    that is not relevant is worse than an unjudged one. To the others both are the same.
    """
    if preference == "gain":
        return metric.gain(graded.grades)
    judged = graded.is_judged.astype(np.float64)
    if preference == "relevant":
        return np.where(graded.at_threshold(metric.threshold(graded.threshold)).relevant, 1.0, -judged)
    return judged if preference == "judged" else -judged
