"""ragtrial list"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path

import click

from ragtrial.cli.terminal import Terminal, common_options, results_option
from ragtrial.errors import ReportError
from ragtrial.records import WarningCode

_KINDS = ("retrievers", "refiners", "chunkers", "embedders", "stores", "metrics", "warnings", "runs")


@click.command("list", short_help="List runs, retrievers, metrics, or what else there is.")
@click.argument("what", type=click.Choice(_KINDS), default="runs", metavar="[WHAT]")
@results_option
@common_options
def command(terminal: Terminal, what: str, results: str) -> int:
    """List the runs there are, or what a config may name.

    WHAT is runs (the default), retrievers, refiners, chunkers, embedders, stores, metrics or warnings.
    """
    listed = {"runs": lambda: _runs(Path(results)), "metrics": _metrics, "warnings": _warnings}
    rows = listed[what]() if what in listed else _members(what)
    if not rows and what == "runs":
        terminal.say(f"no reports in {results}; `ragtrial run CONFIG` makes one.")
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        terminal.say(f"{name.ljust(width)}  {text}")
    terminal.say_json([{"name": name, "description": text} for name, text in rows])
    return 0


def _members(what: str) -> list[tuple[str, str]]:
    from ragtrial.components.chunkers import CHUNKERS
    from ragtrial.components.embedders import EMBEDDERS
    from ragtrial.components.refiners import REFINERS
    from ragtrial.components.retrievers import RETRIEVERS
    from ragtrial.components.stores import STORES

    families: dict[str, Iterable[tuple[str, type]]] = {
        "retrievers": RETRIEVERS.members(),
        "refiners": REFINERS.members(),
        "chunkers": CHUNKERS.members(),
        "embedders": EMBEDDERS.members(),
        "stores": STORES.members(),
    }
    return [(name, (inspect.getdoc(one) or "").split("\n")[0]) for name, one in families[what]]


def _metrics() -> list[tuple[str, str]]:
    from ragtrial.evaluation.metrics import METRICS

    return [(name, f"{one.family}: {one.formula}") for name, one in METRICS.members()]


def _warnings() -> list[tuple[str, str]]:
    return [(code.value, code.about) for code in WarningCode]


def _runs(directory: Path) -> list[tuple[str, str]]:
    from ragtrial.report.find import list_reports
    from ragtrial.report.model import load_report
    from ragtrial.views.report_tables import summary_line

    rows = []
    for folder in list_reports(directory):
        try:
            rows.append((folder.name, summary_line(load_report(folder))))
        except ReportError as error:  # one that is damaged does not hide the others
            rows.append((folder.name, str(error)))
    return rows
