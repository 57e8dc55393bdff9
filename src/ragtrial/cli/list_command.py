"""ragtrial list"""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from ragtrial import engines
from ragtrial.cli.options import RESULTS, argument, declare
from ragtrial.cli.terminal import Answer, Terminal
from ragtrial.comparison.number_text import mean_number
from ragtrial.components import interfaces
from ragtrial.components.chunkers import base as chunkers
from ragtrial.components.embedders import base as embedders
from ragtrial.components.executors import base as executors
from ragtrial.components.refiners import base as refiners
from ragtrial.errors import ReportError, listed
from ragtrial.evaluation import metrics
from ragtrial.report import find, model
from ragtrial.views.table import Table

_IMPORTANCE = {"labels": 1, "questions": 2, "experiment": 3, "settings": 4}
_Kind = Literal["retrievers", "refiners", "chunkers", "embedders", "executors", "stores", "collections", "metrics",
                "runs"]  # fmt: skip


@declare("list")
def command(terminal: Terminal, *, what: _Kind = argument("[WHAT]", default="runs"), results: Path = RESULTS) -> Answer:
    """List runs, retrievers, metrics and more.

    WHAT is runs (the default), retrievers, refiners, chunkers, embedders, executors, stores, collections or metrics.
    """
    if what == "runs":
        return _runs(terminal, results)
    if what == "metrics":
        rows = [(name, f"{metric.family}: {metric.formula}") for name, metric in metrics.METRICS.members()]
    else:
        families = {"stores": engines, "collections": engines, "chunkers": chunkers, "retrievers": interfaces,
                    "refiners": refiners, "embedders": embedders, "executors": executors}  # fmt: skip
        members = getattr(families[what], what.upper()).members()
        rows = [(name, (inspect.getdoc(member) or "").split("\n")[0]) for name, member in members]
    width = max((len(name) for name, _ in rows), default=0)
    lines = [f"{name.ljust(width)}  {text}" for name, text in rows]
    return Answer([{"name": name, "description": text} for name, text in rows], lines)


def _runs(terminal: Terminal, directory: Path) -> Answer:
    """The runs, newest first: settings, queries, labels, the best setting, and the run that was scored again."""
    rows: list[dict[str, Any]] = []
    cells: list[list[str]] = []
    damaged: list[str] = []
    for folder in reversed(find.list_reports(directory)):
        try:
            report = model.load_report(folder)
        except ReportError as error:  # a damaged report does not hide the others
            rows.append({"name": folder.name, "error": str(error)})
            damaged.append(f"{folder.name}  {error}")
            continue
        best, metric = report.ranked_settings()[0], report.primary_metric
        mean, judgments = best.scores[metric].mean, sum(len(query.relevant_docs) for query in report.queries)
        counts = {"settings": len(report.settings), "queries": len(report.queries), "judgments": judgments}
        named = {"name": report.run_id, "experiment": report.experiment, **counts}
        rows.append({**named, "best": best.name, "metric": metric, "score": mean, "parent": report.parent})
        result = f"{best.name} {metric} {mean_number(mean, len(report.queries))}"
        numbers = [f"{count:,}" for count in counts.values()]
        time = model.run_time(report.run_id)
        date = f"{time:%Y-%m-%d %H:%M}" if time else ""
        cells.append([report.run_id, date, report.experiment, *numbers, result, report.parent or ""])
    columns = ["run", "date (UTC)", "experiment", "settings", "questions", "labels", "top setting", "scored again from"]
    shown = len(columns) if any(row[-1] for row in cells) else -1
    table = Table.of(columns[:shown], [row[:shown] for row in cells], texts=(0, 1, 2, 6))
    weighed = [replace(column, importance=_IMPORTANCE.get(column.title)) for column in table.columns]
    table = replace(table, columns=weighed).fitted(terminal.width, "--json has all")
    empty = [] if rows else [f"no reports in {directory}; `ragtrial run CONFIG` makes one."]
    others = f"`ragtrial list WHAT` also lists {listed([kind for kind in get_args(_Kind) if kind != 'runs'], 9)}."
    return Answer(rows, [*empty, table, *damaged, others])
