"""Services around the formulas: which metrics, over which queries. They own every mean and every count."""

from ragtrial.evaluators.base import Evaluation, Evaluator, NoRelevant
from ragtrial.evaluators.graded import GradedEvaluator
from ragtrial.evaluators.order_aware import OrderAwareEvaluator
from ragtrial.evaluators.order_unaware import OrderUnawareEvaluator

EVALUATORS: tuple[type[Evaluator], ...] = (OrderUnawareEvaluator, OrderAwareEvaluator, GradedEvaluator)

__all__ = [
    "EVALUATORS",
    "Evaluation",
    "Evaluator",
    "GradedEvaluator",
    "NoRelevant",
    "OrderAwareEvaluator",
    "OrderUnawareEvaluator",
]
