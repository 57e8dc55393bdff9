"""Small reports to compare: made by hand, value by value, and by real runs."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments import DOCUMENTS, QUERIES, write_experiment
from ragtrial.config.models import EvaluatorOptions
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.reporting import metric_part
from ragtrial.report.model import Report
from ragtrial.report.schema import DatasetPart, JudgmentPart, MeanPart, MetricPart, QueryColumns, QueryPart, SettingPart

Values = Mapping[str, Sequence[float | None]]
"""By the name of a setting, its values of the primary metric, a query after the other."""

RUN = "20260102T030405Z-0a0b0c"


def report_of(values: Values, metric: str = "ndcg@3", **changes: Any) -> Report:
    """A report of a run with queries q1, q2, ...; all else is as plain as can be."""
    count = max((len(one) for one in values.values()), default=0)
    judged = [JudgmentPart(doc="a.md", relevance=2), JudgmentPart(doc="b.md", relevance=1)]
    made: dict[str, Any] = {
        "schema_version": 2, "experiment": "kitchen", "run_id": RUN, "config": {}, "prompt": None,
        "dataset": DatasetPart(documents=9, empty_documents=0, queries=count, documents_fingerprint="d" * 32,
                               labels_fingerprint="l" * 32),
        "primary_metric": metric, "metrics": {metric: metric_of(metric)},
        "queries": [QueryPart(id=f"q{number}", text=f"question {number}", tags=[], relevant_docs=judged)
                    for number in range(1, count + 1)],
        "settings": [setting_of(name, metric, one) for name, one in values.items()],
        "failures": [], "warnings": [], "environment": {},
    }  # fmt: skip
    return Report(**{**made, **changes})


def with_metric(report: Report, metric: str, values: Values) -> Report:
    """The report with the values of another metric, too."""
    settings = [
        one.model_copy(update={
            "scores": {**one.scores, **two.scores},
            "per_query": one.per_query.model_copy(
                update={"evaluations": {**one.per_query.evaluations, **two.per_query.evaluations}}),
        })
        for one, two in zip(report.settings, report_of(values, metric).settings, strict=True)
    ]  # fmt: skip
    return report.model_copy(update={"settings": settings, "metrics": {**report.metrics, metric: metric_of(metric)}})


def metric_of(name: str, threshold: int = 1) -> MetricPart:
    return metric_part(parse_metric(name), EvaluatorOptions(relevance_threshold=threshold), {})


def setting_of(name: str, metric: str, values: Sequence[float | None], **more: Any) -> SettingPart:
    known = [value for value in values if value is not None]
    nothing = [False] * len(values)
    given: dict[str, Any] = {
        "fingerprint": name, "parameters": {}, "counts": {}, "index": {}, "health": None, "audit": None, "timings": {},
        "latency": None, "scores": {metric: MeanPart(mean=sum(known) / len(known) if known else None, n=len(known))},
    }  # fmt: skip
    columns = QueryColumns(
        evaluations={metric: list(values)}, short=nothing, skipped=nothing, collapsed=[0] * len(values)
    )
    return SettingPart(**{"name": name, "per_query": columns, **given, **more})


def changed_queries(report: Report, **changes: Mapping[str, Any]) -> Report:
    """The report with changes of the queries with these ids."""
    queries = [query.model_copy(update=dict(changes.get(query.id, {}))) for query in report.queries]
    return report.model_copy(update={"queries": queries})


def run_into(
    folder: Path,
    name: str,
    queries: Sequence[Mapping[str, Any]] = tuple(QUERIES),
    documents: Mapping[str, str] = DOCUMENTS,
    **changes: object,
) -> Path:
    """The report of a real run, as ``folder``/``name``; by default of the settings dense and bm25."""
    retrievers = {"dense": {"kind": "dense", "top_k": 3}, "bm25": {"kind": "bm25", "top_k": 3}}
    made = write_experiment(folder / f"experiment-{name}", documents, queries, **{"retrievers": retrievers, **changes})
    return Path(shutil.copytree(run_experiment(made.config()).folder, folder / name))
