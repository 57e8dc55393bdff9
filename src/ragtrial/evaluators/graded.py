"""DCG, nDCG and the share of judged hits: how good what was found is."""

from __future__ import annotations

from ragtrial.evaluators.base import Evaluator
from ragtrial.metrics.graded import GradedMetrics


class GradedEvaluator(Evaluator):
    """The service around ``GradedMetrics``."""

    family = "graded"
    metrics_class = GradedMetrics
