"""What the metrics of a report mean, in words that stand beside the numbers."""

from __future__ import annotations

from ragtrial.config.metric_choice import MetricChoice
from ragtrial.config.models import EvaluatorOptions
from ragtrial.evaluation.evaluators import NoRelevant
from ragtrial.evaluation.metrics import Metric
from ragtrial.evaluation.metrics.base import DEFINED_FOR
from ragtrial.records import Unit
from ragtrial.report.schema import MetricPart


def metric_parts(metrics: MetricChoice, options: EvaluatorOptions) -> dict[str, MetricPart]:
    """What each of the metrics means, by name."""
    rules = options.relevance_threshold, options.no_relevant, options.unit
    return {str(metric): metric_part(metric, *rules) for metric in metrics.metrics}


def metric_part(metric: Metric, threshold: int, no_relevant: NoRelevant, unit: Unit = "document") -> MetricPart:
    """What a metric means and over which queries its mean is, where grades count as relevant from ``threshold`` on."""
    definition = metric.definition
    needs = DEFINED_FOR[definition.needs].replace("document", "document" if unit == "document" else "passage")
    if no_relevant == "zero" and definition.needs != "order":
        needs = "all queries"
    known = f" (relevant: grade {threshold} and above)" if definition.needs in ("relevant", "order") else ""
    return MetricPart(
        formula=definition.formula_of(unit),
        family=definition.family,
        counted=needs + known,
        source=definition.source,
        better=definition.better,
    )
