"""ragtrial report"""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from ragtrial.cli.inputs import TableInputs
from ragtrial.cli.options import declare, option
from ragtrial.cli.terminal import Answer, Line, Terminal, save
from ragtrial.errors import Fault, InputError
from ragtrial.views import analysis, page, sections


class _PlotOption(click.Option):
    """An option whose help names the plots of all views."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        self.help = f"One plot instead of the page, for papers and slides: {', '.join(sections.plot_names())}."
        return super().get_help_record(ctx)


@declare("report")
def command(
    terminal: Terminal,
    *,
    compared: TableInputs,
    judge: Path | None = option("Judgments of a model, as `ragtrial compare` takes them.", "FILE"),
    plot: str | None = option("", "NAME", kind=_PlotOption),
    output: Path | None = option("The file: report.html, or NAME.svg or .png with --plot.", flags="-o --output"),
    opens: bool = option("Open the file in a browser.", flags="--open"),
) -> Answer:
    """Write one HTML page about one or more reports.

    The page has verdicts, plots, and the hits of every query.
    """
    target = output or Path(f"{plot}.svg" if plot else "report.html")
    if plot is not None:
        analysis.check_plot(plot, str(target))
    elif target.suffix.lower() not in (".html", ".htm"):
        message = "a page is written as .html; with --plot NAME, a plot as .svg or .png."
        raise InputError(Fault(str(target), message=message))
    inputs = compared.inputs(may_be_one=plot is None, may_be_unlabelled=plot is None or judge is not None)
    inputs, chosen = compared.with_options(inputs, judge)
    if plot is None:
        content = page.page(inputs, chosen)
    else:
        primary = inputs.limited_to([inputs.primary])
        comparison = analysis.analyse(primary, chosen, **{analysis.view_of(plot).name: True})
        content = analysis.image(analysis.draw(plot, primary, comparison), str(target))
    if target.exists():
        terminal.note(f"{target} is overwritten.")
    save(target, content)
    terminal.warn(inputs.warnings)
    if opens and not webbrowser.open(target.resolve().as_uri()):
        terminal.note("There is no browser to open it with; set BROWSER, or open the file by hand.")
    return Answer({"wrote": [str(target)], "bytes": len(content)}, [Line(target)])
