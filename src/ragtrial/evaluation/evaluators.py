"""Services around the formulas: which metrics, over which queries. They own every mean and every count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ragtrial.evaluation.grading import GradedRankings, Scores
from ragtrial.evaluation.metrics import Metric
from ragtrial.evaluation.metrics.base import Family, Formulas
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
        """The mean over the queries that count, in double precision; None over no queries."""
        n = int(np.count_nonzero(self.counted))
        return Mean(float(self.values[self.counted].mean()) if n else None, n)

    def as_list(self) -> list[float | None]:
        """The value of each query, None where it does not count."""
        return [value if counts else None for value, counts in zip(self.values.tolist(), self.counted, strict=True)]

    def of(self, index: int) -> float | None:
        """The value of one query, None where it does not count."""
        return float(self.values[index]) if self.counted[index] else None


FORMULAS: Mapping[Family, type[Formulas]] = {
    "order_unaware": OrderUnawareMetrics,
    "order_aware": OrderAwareMetrics,
    "graded": GradedMetrics,
}


def evaluate(
    metrics: Iterable[Metric], graded: GradedRankings, no_relevant: NoRelevant = "skip"
) -> dict[str, Evaluation]:
    """The evaluations of metrics of any family, each once, by the metric's name.

    ``no_relevant`` handles queries for which a metric is not defined: ``skip`` leaves them out of its mean, ``zero``
    counts them with the value of the formula (0 for most metrics). Metrics that compare orders only count if the labels
    are an order, metrics of chunks if all chunks are known. Raises CutoffError if a k exceeds the depth of ``graded``,
    MetricError for a metric without a cutoff that needs one.
    """
    evaluations = {}
    for metric in metrics:
        seen, definition = metric.seen(graded), metric.definition
        values = metric.compute(FORMULAS[definition.family](seen))
        is_of_few = definition.needs in ("order", "forbidden") or not definition.is_known(seen)
        only_eligible = no_relevant == "skip" or is_of_few
        counted = metric.eligible(seen) if only_eligible else np.ones(len(seen), dtype=np.bool_)
        evaluations[str(metric)] = Evaluation(metric, values, counted)
    return evaluations


def scores_of(metric: Metric, graded: GradedRankings) -> Scores:
    """The scores of a metric of any family, one per query. Raises CutoffError, and MetricError as the metric does."""
    return metric.compute(FORMULAS[metric.definition.family](metric.seen(graded)))
