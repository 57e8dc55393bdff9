"""What all ranges share: the two ends, the scores themselves, and what a gain is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragtrial.evaluation.evaluators import EVALUATORS
from ragtrial.evaluation.grading import GradedRankings, Scores
from ragtrial.evaluation.metrics import Metric
from ragtrial.evaluation.metrics.base import gains_of
from ragtrial.runs.qrels import Grades

FORMULAS: dict[str, Any] = {evaluator.family: evaluator.metrics_class for evaluator in EVALUATORS}
"""The class with the formulas of each family."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """The least and the most that the score of each query can be, both of shape (queries,)."""

    low: Scores
    high: Scores


def values(metric: Metric, graded: GradedRankings) -> Scores:
    """The scores of a metric, one per query, whatever its family. Raises CutoffError."""
    scores: Scores = metric.compute(FORMULAS[metric.definition.family](metric.seen(graded)))
    return scores


def with_threshold(metric: Metric, graded: GradedRankings) -> GradedRankings:
    """The rankings with the metric's own threshold, where it has one."""
    return graded.at_threshold(int(dict(metric.parameters).get("rel", graded.threshold)))


def gains(metric: Metric, grades: Grades) -> Scores:
    """What documents of these grades gain by the metric."""
    return gains_of(grades, dict(metric.gains), exponential=dict(metric.parameters).get("gain") == "exp")
