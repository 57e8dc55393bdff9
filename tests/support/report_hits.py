"""The hits of a report's settings, one by one."""

from dataclasses import dataclass
from itertools import count
from typing import Any

from ragtrial.report.model import Report


@dataclass(frozen=True)
class ReportHit:
    """A hit as the report's rankings have it."""

    rank: int
    doc: str
    chunk: str | None
    start: int | None
    end: int | None
    score: float | None
    grade: int | None
    tokens: int | None


def hits_of(report: Report, setting: str) -> dict[str, list[ReportHit]]:
    """All hits of a setting, by query."""
    found = {}
    for row in report.rankings(setting, [query.id for query in report.queries]):
        nothing = [None] * len(row["docs"])
        columns = [
            row.get(name, nothing) for name in ("docs", "chunks", "starts", "ends", "scores", "grades", "tokens")
        ]
        found[row["query"]] = [ReportHit(*hit) for hit in zip(count(1), *columns, strict=False)]
    return found


def numbers_of(report: Report) -> dict[str, dict[str, Any]]:
    """All that each setting found, without times and without the name of a build."""
    return {part.name: part.model_dump(exclude={"timings", "costs", "latency", "index"}) for part in report.settings}


def values_of(report: Report, setting: str, metric: str) -> dict[str, float | None]:
    """The values of a metric, by query."""
    values = report.setting(setting).per_query.evaluations[metric]
    return dict(zip((query.id for query in report.queries), values, strict=True))
