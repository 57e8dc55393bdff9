"""ragtrial list"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path

import click

from ragtrial.cli.terminal import Terminal, common_options

_KINDS = ("retrievers", "chunkers", "embedders", "stores", "metrics", "runs")


@click.command("list")
@click.argument("what", type=click.Choice(_KINDS), default="runs")
@click.option("--results", type=click.Path(), default="results", show_default=True, help="Where reports are kept.")
@common_options
def command(terminal: Terminal, what: str, results: str) -> int:
    """List the runs there are, or the kinds of retrievers, chunkers, ..., metrics that a config may name."""
    rows = _runs(Path(results)) if what == "runs" else _metrics() if what == "metrics" else _members(what)
    if not rows and what == "runs":
        terminal.say(f"no reports in {results}; `ragtrial run CONFIG` makes one.")
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        terminal.say(f"{name.ljust(width)}  {text}")
    terminal.say_json([{"name": name, "description": text} for name, text in rows])
    return 0


def _members(what: str) -> list[tuple[str, str]]:
    from ragtrial.chunkers import CHUNKERS
    from ragtrial.embedders import EMBEDDERS
    from ragtrial.retrievers import RETRIEVERS
    from ragtrial.stores import STORES

    families: dict[str, Iterable[tuple[str, type]]] = {
        "retrievers": RETRIEVERS.members(),
        "chunkers": CHUNKERS.members(),
        "embedders": EMBEDDERS.members(),
        "stores": STORES.members(),
    }
    return [(name, (inspect.getdoc(one) or "").split("\n")[0]) for name, one in families[what]]


def _metrics() -> list[tuple[str, str]]:
    from ragtrial.metrics import METRICS

    return [(name, f"{one.family}: {one.formula}") for name, one in METRICS.members()]


def _runs(directory: Path) -> list[tuple[str, str]]:
    from ragtrial.report import list_reports, load_report

    rows = []
    for folder in list_reports(directory):
        report = load_report(folder)
        best = report.ranked_settings()[0]
        mean = best.scores[report.primary_metric].mean
        score = "not defined" if mean is None else f"{mean:.4f}"
        text = f"{report.experiment}: {len(report.settings)} settings, {best.name} {report.primary_metric} {score}"
        rows.append((report.run_id, text))
    return rows
