"""ragtrial report"""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from ragtrial.cli.inputs import ComparisonInputs
from ragtrial.cli.options import declare, option
from ragtrial.cli.terminal import Answer, Line, Terminal, save
from ragtrial.errors import Fault, InputError, ReportError, counted
from ragtrial.report import model
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
    compared: ComparisonInputs,
    judge: Path | None = option("Judgments of a model, as `ragtrial compare` takes them.", "FILE"),
    plot: str | None = option("", "NAME", kind=_PlotOption),
    output: Path | None = option("The file: report.html, or NAME.svg or .png with --plot.", flags="-o --output"),
    verify: bool = option("Write nothing; compare each file of the reports with its checksum."),
    opens: bool = option("Open the file in a browser.", flags="--open"),
) -> Answer:
    """Write one HTML page about one or more reports.

    The page has verdicts, plots, and the hits of every query.
    """
    if verify:
        if (plot, output, opens) != (None, None, False):
            raise InputError("--verify writes nothing; leave out --plot, -o and --open.")
        return _verify(terminal, compared)
    target = output or Path(f"{plot}.svg" if plot else "report.html")
    if plot is not None:
        analysis.check_plot(plot, str(target))
    elif target.suffix.lower() not in (".html", ".htm"):
        message = "a page is written as .html; with --plot NAME, a plot as .svg or .png."
        raise InputError(Fault(str(target), message=message))
    inputs = compared.contest(may_be_one=plot is None, may_be_unlabelled=plot is None or judge is not None)
    inputs, aim = compared.aim(inputs, judge)
    if plot is None:
        content = page.page(inputs, aim)
    else:
        primary = inputs.limited_to([inputs.primary])
        comparison = analysis.analyse(primary, aim, **{analysis.view_of(plot).name: True})
        content = analysis.image(analysis.draw(plot, primary, comparison), str(target))
    if target.exists():
        terminal.note(f"{target} is overwritten.")
    save(target, content)
    terminal.warn(inputs.warnings)
    if opens and not webbrowser.open(target.resolve().as_uri()):
        terminal.note("There is no browser to open it with; set BROWSER, or open the file by hand.")
    return Answer({"wrote": [str(target)], "bytes": len(content)}, [Line(target)])


def _verify(terminal: Terminal, compared: ComparisonInputs) -> Answer:
    """Check the files of every report, and list sound reports. Raises ReportError with all faults."""
    sound: list[model.Report] = []
    faults: list[Fault] = []
    for reference in compared.reports:
        try:
            report = model.load_report(reference, compared.results)
            report.verify()
            sound.append(report)
        except ReportError as error:
            faults += error.faults
    lines = []
    for report in sound:
        files = counted(len(report.files) + 1, "file")
        state = f"{files} as written" if report.checksum else "no checksums; it was edited by hand"
        lines.append(Line(f"{report.folder}: {state}"))
    if faults:
        terminal.show(lines)
        raise ReportError(*faults)
    whole = [str(report.folder) for report in sound if report.checksum]
    return Answer({"whole": whole, "without_checksums": len(sound) - len(whole)}, lines)
