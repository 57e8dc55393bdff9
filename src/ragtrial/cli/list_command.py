"""ragtrial list"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from ragtrial.cli.terminal import Terminal, common_options, results_option
from ragtrial.errors import ReportError
from ragtrial.report.find import list_reports
from ragtrial.views.table import Table, mean_number

_IMPORTANCE = {"labels": 1, "queries": 2, "experiment": 3, "settings": 4}
_KINDS = (
    "retrievers",
    "refiners",
    "chunkers",
    "embedders",
    "executors",
    "stores",
    "collections",
    "metrics",
    "runs",
)


@click.command("list")
@click.argument("what", type=click.Choice(_KINDS), default="runs", metavar="[WHAT]")
@results_option
@common_options
def command(terminal: Terminal, what: str, results: str) -> int:
    """List the runs, or the names that a config may use.

    WHAT is runs (the default), retrievers, refiners, chunkers, embedders, executors, stores, collections or metrics.
    """
    if what == "runs":
        return _say_runs(terminal, Path(results))
    rows = _metrics() if what == "metrics" else _members(what)
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        terminal.tell(f"{name.ljust(width)}  {text}")
    terminal.say_json([{"name": name, "description": text} for name, text in rows])
    return 0


def _members(what: str) -> list[tuple[str, str]]:
    from ragtrial.components.chunkers.base import CHUNKERS
    from ragtrial.components.embedders import EMBEDDERS
    from ragtrial.components.executors import EXECUTORS
    from ragtrial.components.interfaces import RETRIEVERS
    from ragtrial.components.refiners import REFINERS
    from ragtrial.engines import COLLECTIONS, STORES

    families: dict[str, Iterable[tuple[str, type]]] = {
        "retrievers": RETRIEVERS.members(),
        "refiners": REFINERS.members(),
        "chunkers": CHUNKERS.members(),
        "embedders": EMBEDDERS.members(),
        "executors": EXECUTORS.members(),
        "stores": STORES.members(),
        "collections": COLLECTIONS.members(),
    }
    return [(name, (inspect.getdoc(one) or "").split("\n")[0]) for name, one in families[what]]


def _metrics() -> list[tuple[str, str]]:
    from ragtrial.evaluation.metrics import METRICS

    return [(name, f"{one.family}: {one.formula}") for name, one in METRICS.members()]


def _say_runs(terminal: Terminal, directory: Path) -> int:
    """Print the runs, newest first: settings, queries, labels, the best setting, and the run that was scored again."""
    from ragtrial.report.model import load_report

    rows: list[dict[str, Any]] = []
    for folder in reversed(list_reports(directory)):
        try:
            report = load_report(folder)
        except ReportError as error:  # a damaged report does not hide the others
            rows.append({"name": folder.name, "error": str(error)})
            continue
        best = report.ranked_settings()[0]
        rows.append(
            {
                "name": report.run_id,
                "experiment": report.experiment,
                "settings": len(report.settings),
                "queries": len(report.queries),
                "judgments": sum(len(query.relevant_docs) for query in report.queries),
                "best": best.name,
                "metric": report.primary_metric,
                "score": best.scores[report.primary_metric].mean,
                "parent": report.parent,
            }
        )
    if not rows:
        terminal.tell(f"no reports in {directory}; `ragtrial run CONFIG` makes one.")
    cells = [
        [row["name"], _date(row["name"]), row["experiment"], str(row["settings"]), str(row["queries"]),
         f"{row['judgments']:,}", f"{row['best']} {row['metric']} {mean_number(row['score'], row['queries'])}",
         row["parent"] or ""]
        for row in rows if "error" not in row
    ]  # fmt: skip
    columns = ["run", "date (UTC)", "experiment", "settings", "queries", "labels", "best", "scored again from"]
    shown = len(columns) if any(row.get("parent") for row in rows) else -1
    table = Table.of(columns[:shown], [row[:shown] for row in cells], texts=(0, 1, 2, 6))
    kept = [replace(one, importance=_IMPORTANCE.get(one.title)) for one in table.columns]
    terminal.table(replace(table, columns=kept).fitted(terminal.width, "--json has all"))
    for row in rows:
        if "error" in row:
            terminal.tell(f"{row['name']}  {row['error']}")
    terminal.say_json(rows)
    return 0


def _date(run_id: str) -> str:
    """``2026-11-23 14:02`` from the id of a run, which begins with its time."""
    with suppress(ValueError):
        return f"{datetime.strptime(run_id.partition('-')[0], '%Y%m%dT%H%M%SZ'):%Y-%m-%d %H:%M}"
    return ""
