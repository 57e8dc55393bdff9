"""What the commands print that show a report's scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragtrial.cli.terminal import Terminal

if TYPE_CHECKING:
    from ragtrial.report.model import Report
    from ragtrial.report.schema import SettingPart


def say_scores(
    terminal: Terminal,
    report: Report,
    settings: Sequence[SettingPart] | None = None,
    metrics: Sequence[str] | None = None,
) -> None:
    """The table of scores, and which of the usual ones the terminal has no room for."""
    from ragtrial.views.table import fitted_scores

    rows, lacking = fitted_scores(report, terminal.width, settings, metrics)
    terminal.table(rows)
    for line in lacking:
        terminal.say(line)
