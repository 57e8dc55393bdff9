"""Reports made by hand: settings with given scores of one metric, for tests of comparisons."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import contests
from ragtrial.comparison.comparison_input import ComparedSetting, ComparisonInput
from ragtrial.report.model import Report, write_folder
from ragtrial.report.schema import QueryPart, SettingPart

METRIC = "ndcg@10"

Values = Sequence[float | None] | npt.NDArray[np.float64]


def setting_of(name: str, values: Values, **more: Any) -> SettingPart:
    """A setting with a value of METRIC for each query q0, q1, ...; None or NaN where the query does not count."""
    known = [None if value is None or np.isnan(value) else float(value) for value in values]
    return contests.setting_of(name, METRIC, known, **{"scores": {}, **more})


def query_of(
    place: int, text: str = "", tags: Sequence[str] = (), relevant: Sequence[Mapping[str, Any]] = (),
    cluster: str | None = None,
) -> QueryPart:  # fmt: skip
    labels = [dict(one) for one in relevant]
    return QueryPart(id=f"q{place}", text=text, tags=list(tags), relevant_docs=labels, cluster=cluster)


def report_of(settings: Sequence[SettingPart], queries: Sequence[QueryPart] | None = None, **more: Any) -> Report:
    """A report of ``settings``; without ``queries`` these have neither texts nor labels."""
    count = len(settings[0].per_query.short) if settings else 0
    queries = [query_of(place) for place in range(count)] if queries is None else queries
    given = {"experiment": "hand-made", "run_id": "20260101T000000Z-000000", "unit": "document", **more}
    return contests.report_of({}, METRIC, settings=list(settings), queries=list(queries), **given)


def written(report: Report, folder: Path, texts: Sequence[Mapping[str, Any]]) -> Report:
    """The report with the texts beside it: rows of doc, start and text."""
    rows = [
        {"chunk": f"c{place}", "title": "", "end": row["start"] + len(row["text"]), **row}
        for place, row in enumerate(texts)
    ]
    return write_folder(report, folder, {}, rows, {})


def contest_over(*reports: Report) -> ComparisonInput:
    """All settings of ``reports``, whatever they are, by METRIC."""
    settings = []
    for report in reports:
        for one in report.settings:
            name = f"{report.run_id}:{one.name}" if len(reports) > 1 else one.name
            settings.append(ComparedSetting(name, report, one, report.run_id))
    return ComparisonInput(tuple(settings), tuple(reports[0].queries), (METRIC,))


def contest_between(
    scores: Mapping[str, Values], queries: Sequence[QueryPart] | None = None, **more: Any
) -> ComparisonInput:
    """Settings by name, in one report."""
    return contest_over(report_of([setting_of(name, values) for name, values in scores.items()], queries, **more))
