"""ragtrial report"""

from __future__ import annotations

from pathlib import Path

import click

from ragtrial.cli.terminal import Terminal, common_options


@click.command("report")
@click.argument("reports", nargs=-1, required=True, metavar="REPORT...")
@click.option("--results", type=click.Path(), default="results", show_default=True, help="Where reports are kept.")
@click.option("--baseline", metavar="NAME", help="SETTING or REPORT:SETTING that all others are compared with.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), default="report.html", show_default=True,
              help="The file to write.")  # fmt: skip
@common_options
def command(terminal: Terminal, reports: tuple[str, ...], results: str, baseline: str | None, output: str) -> int:
    """Write one HTML page about one or more reports: verdicts, plots, and every query with what was found."""
    from ragtrial.comparison.comparing import Aim, compare_settings
    from ragtrial.comparison.contest import contest_of
    from ragtrial.errors import Fault, InputError
    from ragtrial.report import load_report
    from ragtrial.storage.atomic import write_text
    from ragtrial.views.page import page
    from ragtrial.views.table import usual_metrics

    loaded = [load_report(reference, results) for reference in reports]
    others = [name for one in loaded for name in usual_metrics(one)]
    contest = contest_of(loaded, list(dict.fromkeys([loaded[0].primary_metric, *others])))
    comparison = compare_settings(contest, Aim(baseline))
    title = ", ".join(dict.fromkeys(one.experiment for one in loaded))
    text = page(contest, comparison, title)
    try:
        write_text(Path(output), text)
    except OSError as error:
        raise InputError(Fault(output, message=f"cannot be written: {error.strerror or error}.")) from error
    terminal.say(output)
    terminal.say_json({"exit_code": 0, "wrote": [output], "bytes": len(text.encode())})
    return 0
