"""ragtrial report"""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragtrial.cache.atomic import write_bytes
from ragtrial.cli.options import ComparisonInputs, contest_options
from ragtrial.cli.terminal import Terminal, common_options
from ragtrial.errors import Fault, InputError, ReportError, counted
from ragtrial.views.sections import plot_names

if TYPE_CHECKING:
    from ragtrial.comparison.comparing import ComparisonOptions
    from ragtrial.comparison.comparison_input import ComparisonInput
    from ragtrial.report.model import Report


class _PlotOption(click.Option):
    """An option whose help names the plots of all views."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        self.help = f"One plot instead of the page, for papers and slides: {', '.join(plot_names())}."
        return super().get_help_record(ctx)


@click.command("report")
@contest_options
@click.option(
    "--judge", type=click.Path(), metavar="FILE", help="Judgments of a model, as `ragtrial compare` takes them."
)
@click.option("--plot", cls=_PlotOption, metavar="NAME")
@click.option("-o", "--output", type=click.Path(dir_okay=False),
              help="The file to write, or to overwrite: report.html, or with --plot NAME.svg (or .png).")  # fmt: skip
@click.option("--verify", is_flag=True, help="Write nothing; compare each file of the reports with its checksum.")
@click.option("--open", "opens", is_flag=True, help="Open the file in a browser.")
@common_options
def command(
    terminal: Terminal,
    compared: ComparisonInputs,
    judge: str | None,
    plot: str | None,
    output: str | None,
    *,
    verify: bool,
    opens: bool,
) -> int:
    """Write one HTML page about one or more reports: verdicts, plots, and the hits of every query."""
    from ragtrial.comparison.comparing import with_judge
    from ragtrial.options import expand_user
    from ragtrial.views.analysis import check_plot
    from ragtrial.views.page import page

    if verify:
        if (plot, output, opens) != (None, None, False):
            raise InputError("--verify writes nothing; leave out --plot, -o and --open.")
        return _verify(terminal, compared)
    target = output or (f"{plot}.svg" if plot else "report.html")
    if plot is not None:
        check_plot(plot, target)
    if plot is None and Path(target).suffix.lower() not in (".html", ".htm"):
        raise InputError(Fault(target, message="a page is written as .html; with --plot NAME, a plot as .svg or .png."))
    contest = compared.contest(may_be_one=plot is None, may_be_unlabelled=judge is not None)
    aim = compared.aim(contest)
    if judge is not None:
        aim = with_judge(contest, aim, expand_user(judge))
        contest = contest if aim.judge is None else aim.judge.inputs
    content = page(contest, aim) if plot is None else _plot(contest, aim, plot, target)
    if Path(target).exists():
        terminal.note(f"{target} is overwritten.")
    try:
        write_bytes(Path(target), content)
    except OSError as error:
        raise InputError(Fault(target, message=f"cannot be written: {error.strerror or error}.")) from error
    terminal.say(target)
    terminal.warn(contest.warnings)
    if opens and not webbrowser.open(Path(target).resolve().as_uri()):
        terminal.note("There is no browser to open it with; set BROWSER, or open the file by hand.")
    terminal.say_json({"exit_code": 0, "wrote": [target], "bytes": len(content)})
    return 0


def _verify(terminal: Terminal, compared: ComparisonInputs) -> int:
    """Check the files of every report. Raises ReportError with all faults."""
    from ragtrial.report.model import load_report

    sound: list[Report] = []
    faults: list[Fault] = []
    for reference in compared.reports:
        try:
            report = load_report(reference, compared.results)
            report.verify()
            sound.append(report)
        except ReportError as error:
            faults += error.faults
    for report in sound:
        what = counted(len(report.files) + 1, "file")
        said = f"{what} as written" if report.checksum else "no checksums; it was edited by hand"
        terminal.say(f"{report.folder}: {said}")
    if faults:
        raise ReportError(*faults)
    whole = [str(report.folder) for report in sound if report.checksum]
    terminal.say_json({"exit_code": 0, "whole": whole, "without_checksums": len(sound) - len(whole)})
    return 0


def _plot(contest: ComparisonInput, aim: ComparisonOptions, name: str, target: str) -> bytes:
    from ragtrial.views.analysis import analyse, draw, image, view_of

    contest = contest.limited_to([contest.primary])
    return image(draw(name, contest, analyse(contest, aim, **{view_of(name).name: True})), target)
