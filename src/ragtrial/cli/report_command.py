"""ragtrial report"""

from __future__ import annotations

from pathlib import Path

import click

from ragtrial.cli.contest_options import contest_options
from ragtrial.cli.terminal import Terminal, common_options


@click.command("report")
@contest_options
@click.option("-o", "--output", type=click.Path(dir_okay=False), default="report.html", show_default=True,
              help="The file to write.")  # fmt: skip
@common_options
def command(
    terminal: Terminal,
    reports: tuple[str, ...],
    results: str,
    baseline: str | None,
    metric: str | None,
    margin: float,
    confidence: float,
    output: str,
    *,
    common: bool,
) -> int:
    """Write one HTML page about one or more reports: verdicts, plots, and every query with what was found."""
    from ragtrial.comparison.analysis import Wanted, analyse
    from ragtrial.comparison.comparing import Aim
    from ragtrial.comparison.contest import contest_of
    from ragtrial.comparison.request import checked_procedure
    from ragtrial.comparison.samples import Procedure
    from ragtrial.errors import Fault, InputError
    from ragtrial.storage.atomic import write_text
    from ragtrial.views.page import page
    from ragtrial.views.table import usual_metrics

    drawn = Procedure()
    procedure = checked_procedure(margin, confidence, drawn.flips, drawn.seed)
    contest = contest_of(reports, primary=metric, baseline=baseline, common=common, directory=results)
    contest = contest.limited_to(usual_metrics(contest.contenders[0].report)).with_hits()
    wanted = Wanted(slices=True, axes=True, costs=True, queries=True)
    made = analyse(contest, Aim(contest.baseline, margin, procedure), wanted)
    title = ", ".join(dict.fromkeys(contender.report.experiment for contender in contest.contenders))
    text = page(contest, made, title)
    try:
        write_text(Path(output), text)
    except OSError as error:
        raise InputError(Fault(output, message=f"cannot be written: {error.strerror or error}.")) from error
    terminal.say(output)
    terminal.say_json({"exit_code": 0, "wrote": [output], "bytes": len(text.encode())})
    return 0
