"""Services around the formulas: which metrics, over which queries. They own every mean and every count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ragtrial.errors import MetricError
from ragtrial.evaluation.grading import GradedRankings, Scores
from ragtrial.evaluation.metrics import Metric
from ragtrial.evaluation.metrics.base import Family, summary
from ragtrial.evaluation.metrics.graded import GradedMetrics
from ragtrial.evaluation.metrics.order_aware import OrderAwareMetrics
from ragtrial.evaluation.metrics.order_unaware import OrderUnawareMetrics
from ragtrial.rankings import Bools
from ragtrial.records import Mean

NoRelevant = Literal["skip", "zero"]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One metric's values, shape (queries,), and for which queries they count."""

    metric: Metric
    values: Scores
    counted: Bools

    @property
    def mean(self) -> Mean:
        """The mean over the queries that count; for some metrics the sum, or the geometric mean.

        Computed in double precision; None over no queries.
        """
        n = int(np.count_nonzero(self.counted))
        return Mean(summary(self.values[self.counted], self.metric.definition.aggregate) if n else None, n)

    def as_list(self) -> list[float | None]:
        """The value of each query, None where it does not count."""
        if self.counted.all():
            return [*self.values.tolist()]
        return [value if counts else None for value, counts in zip(self.values.tolist(), self.counted, strict=True)]

    def of(self, index: int) -> float | None:
        """The value of one query, None where it does not count."""
        return float(self.values[index]) if self.counted[index] else None


class Evaluator:
    """Runs the metrics of one family.

    ``no_relevant`` handles queries for which a metric is not defined: ``skip`` leaves them out of its mean, ``zero``
    counts them with the value of the formula (0 for most metrics). Metrics that compare orders only count if the labels
    are an order, metrics of chunks if all chunks are known.

    Raises MetricError for a metric of another family or without a cutoff.
    """

    family: ClassVar[Family]
    metrics_class: ClassVar[type]

    def __init__(self, metrics: Sequence[Metric], no_relevant: NoRelevant = "skip") -> None:
        for metric in metrics:
            if metric.definition.family != self.family:
                raise MetricError(f"{metric} is {metric.definition.family}; list it there, not under {self.family}.")
            metric.check_cut()
        self.metrics = tuple(dict.fromkeys(metrics))
        self.no_relevant = no_relevant

    def evaluate(self, graded: GradedRankings) -> dict[str, Evaluation]:
        """The evaluations by the metric's name. Raises CutoffError if a k exceeds the depth of ``graded``."""
        made = {}
        for metric in self.metrics:
            seen = metric.seen(graded)
            values = metric.compute(self.metrics_class(seen))
            made[str(metric)] = Evaluation(metric, values, self._counted(metric, seen))
        return made

    def _counted(self, metric: Metric, graded: GradedRankings) -> Bools:
        definition = metric.definition
        if self.no_relevant == "skip" or definition.needs == "order" or not definition.is_known(graded):
            return metric.eligible(graded)
        return np.ones(len(graded), dtype=np.bool_)


class OrderUnawareEvaluator(Evaluator):
    """The service around ``OrderUnawareMetrics``, which ignore ranks."""

    family = "order_unaware"
    metrics_class = OrderUnawareMetrics


class OrderAwareEvaluator(Evaluator):
    """The service around ``OrderAwareMetrics``: where it was found."""

    family = "order_aware"
    metrics_class = OrderAwareMetrics


class GradedEvaluator(Evaluator):
    """The service around ``GradedMetrics``, which use grades."""

    family = "graded"
    metrics_class = GradedMetrics


EVALUATORS: tuple[type[Evaluator], ...] = (OrderUnawareEvaluator, OrderAwareEvaluator, GradedEvaluator)


def scores_of(metric: Metric, graded: GradedRankings) -> Scores:
    """The scores of a metric of any family, one per query. Raises CutoffError, and MetricError as the metric does."""
    formulas = next(one.metrics_class for one in EVALUATORS if one.family == metric.definition.family)
    return metric.compute(formulas(metric.seen(graded)))
