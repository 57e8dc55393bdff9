"""Precision, recall and their kin: what was found, not where."""

from __future__ import annotations

from ragtrial.evaluators.base import Evaluator
from ragtrial.metrics.order_unaware import OrderUnawareMetrics


class OrderUnawareEvaluator(Evaluator):
    """The service around ``OrderUnawareMetrics``."""

    family = "order_unaware"
    metrics_class = OrderUnawareMetrics
