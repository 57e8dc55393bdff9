"""Reciprocal rank, average precision and their kin: where it was found."""

from __future__ import annotations

from ragtrial.evaluators.base import Evaluator
from ragtrial.metrics.order_aware import OrderAwareMetrics


class OrderAwareEvaluator(Evaluator):
    """The service around ``OrderAwareMetrics``."""

    family = "order_aware"
    metrics_class = OrderAwareMetrics
