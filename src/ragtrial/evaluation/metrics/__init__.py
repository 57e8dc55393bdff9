"""Pure formulas: GradedRankings in, one float64 per query out. One file per family; each metric registers itself."""

import sys

from ragtrial.evaluation.metrics.base import METRICS, Definition, Metric, UnknownMetric
from ragtrial.evaluation.metrics.spelling import metric_called, parse_metric, parse_metrics
from ragtrial.registry import import_members

import_members(sys.modules[__name__])

__all__ = ["METRICS", "Definition", "Metric", "UnknownMetric", "metric_called", "parse_metric", "parse_metrics"]
