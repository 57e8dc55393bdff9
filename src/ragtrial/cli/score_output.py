"""What `ragtrial score` prints and writes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragtrial.cli.terminal import Terminal
from ragtrial.evaluation.bounds import Bounds
from ragtrial.scoring.score_runs import RunScores, Scoring
from ragtrial.views import scores


def tell(terminal: Terminal, scoring: Scoring, folder: Path | None, *, per_query: bool) -> None:
    """The scores on stdout, as tables or as JSON; warnings and where the time went on stderr."""
    if not per_query or terminal.as_json:
        rows = scores.run_table(scoring)
        wide = sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True)) > terminal.width
        terminal.table(scores.metric_rows(scoring) if wide else rows)
        for run in scoring.runs:
            _ranges(terminal, run, run.bounds, "unjudged hits")
            for line in scores.reason_lines(run):
                terminal.say(line)
            _ranges(terminal, run, run.tie_ranges, "equal scores")
        if folder:
            terminal.say(f"\nreport: {folder / 'report.json'}")
    answer: dict[str, Any] = {"exit_code": 0, **scoring.as_json(per_query=per_query)}
    terminal.say_json({**answer, "report": str(folder)} if folder else answer)
    terminal.warn([caution for run in scoring.runs for caution in run.cautions])
    for run in scoring.runs:
        terminal.note(scores.time_line(run))


def _ranges(terminal: Terminal, run: RunScores, ranges: Mapping[str, Bounds | None], title: str) -> None:
    if ranges:
        terminal.table(scores.range_table(run, ranges, title), after="\n")


def check_files(*targets: str | None) -> None:
    """Raises InputError if a table cannot become one of ``targets``, before anything is scored."""
    from ragtrial.runs.formats.output import check_folder
    from ragtrial.runs.formats.score_tables import table_form

    for target in targets:
        if target and target != "-":
            table_form(target)
            check_folder(target)


def write_files(scoring: Scoring, per_query: str | None, table: str | None, terminal: Terminal) -> None:
    """The long table of every query's values, and the table of the means, to files by their endings."""
    from ragtrial.runs.formats.score_tables import write_table

    with contextlib.redirect_stdout(terminal.out):
        if per_query and not (per_query == "-" and terminal.as_json):
            write_table(per_query, scoring.long_table())
        if table:
            write_table(table, scoring.mean_table())
