"""A report over some of its queries: their scores, and the means over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ragtrial.errors import ReportError, did_you_mean
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.evaluation.metrics.base import summary
from ragtrial.report.model import Report
from ragtrial.report.schema import MeanPart, SettingPart


def of_tag(report: Report, tag: str) -> Report:
    """The report of the queries with ``tag`` alone: their scores, and the means over them.

    What was measured over all queries is left out: context, budget, audit, latency and costs. Raises ReportError for
    a tag that no query has.
    """
    chosen = [place for place, query in enumerate(report.queries) if tag in query.tags]
    if not chosen:
        known = sorted({name for query in report.queries for name in query.tags})
        there = f"They have: {', '.join(known)}." if known else "None has a tag."
        raise ReportError(f"no query of run {report.run_id} has the tag {tag!r}.{did_you_mean(tag, known)} {there}")
    settings = []
    for setting in report.settings:
        left_out: dict[str, Any] = {"context": [], "budget": None, "audit": None, "latency": None, "costs": None}
        settings.append(over_queries(setting, chosen).model_copy(update=left_out))
    asked = [report.queries[place] for place in chosen]
    dataset = report.dataset.model_copy(update={"queries": len(asked)})
    return report.model_copy(update={"queries": asked, "settings": settings, "dataset": dataset})


def over_queries(setting: SettingPart, places: Sequence[int]) -> SettingPart:
    """The setting with its scores of the queries at these places alone, in this order, and the means over them."""
    if list(places) == list(range(len(setting.per_query.short))):
        return setting
    chosen = setting.per_query.at(places)
    scores = {name: _mean(name, values) for name, values in chosen.evaluations.items() if name in setting.scores}
    return setting.model_copy(update={"per_query": chosen, "scores": scores})


def _mean(metric: str, values: list[float | None]) -> MeanPart:
    counted = [value for value in values if value is not None]
    made = summary(np.array(counted), parse_metric(metric).definition.aggregate) if counted else None
    return MeanPart(mean=made, n=len(counted))
