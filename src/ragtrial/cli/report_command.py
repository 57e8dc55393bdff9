"""ragtrial report"""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from ragtrial.cli.inputs import TableInputs
from ragtrial.cli.options import declare, option
from ragtrial.cli.terminal import Answer, Line, Terminal, save
from ragtrial.comparison import comparing, comparison_input, history
from ragtrial.errors import ComparisonError, Fault, InputError, ReportError, counted
from ragtrial.progress import stage
from ragtrial.report import find, model
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
    site: Path | None = option("A folder for the history of an EXPERIMENT, and a page of each of its runs.", "DIR"),
) -> Answer:
    """Write one HTML page about one or more reports.

    The page has verdicts, plots, and the hits of every query. With --site, name an experiment or its folder instead of
    reports (default: the experiment of the latest run).
    """
    if site is not None:
        others = plot, judge, output, compared.baseline, compared.common, compared.better, compared.reports[1:]
        if any(others):
            message = "--site takes one EXPERIMENT, --metric and --confidence; other options are about one page."
            raise click.UsageError(message)
        return _write_site(terminal, site, compared, opens=opens)
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
    if opens:
        _open(terminal, target)
    return Answer({"wrote": [str(target)], "bytes": len(content)}, [Line(target)])


def _open(terminal: Terminal, target: Path) -> None:
    if not webbrowser.open(target.resolve().as_uri()):
        terminal.note("There is no browser to open it with; set BROWSER, or open the file by hand.")


def _write_site(terminal: Terminal, site: Path, compared: TableInputs, *, opens: bool) -> Answer:
    """Write the history, and the page of each run that has none yet."""
    folder = find.find_experiment(compared.reports[0], Path(compared.results))
    reports, left_out = history.experiment_runs(folder)
    if not reports:
        raise ReportError(*left_out)
    part = history.history_of(reports, left_out, metric=compared.metric, confidence=compared.confidence)
    pages, wrote = {report.run_id: f"{report.run_id}.html" for report in reports}, list[str]()
    with stage(terminal.progress(), "pages", len(reports), "runs") as progress:
        for report in reports:
            target = site / pages[report.run_id]
            if not target.exists():
                try:
                    inputs = comparison_input.input_of([report], may_be_one=True, may_be_unlabelled=True)
                    save(target, page.page(inputs, comparing.options_of(inputs)))
                    wrote.append(str(target))
                except (ComparisonError, ReportError) as error:
                    terminal.note(f"{pages.pop(report.run_id)} is not written: {error}")
            progress.advance(1)
    index = site / "index.html"
    save(index, page.history_page(part, pages))
    others = [path.stem for path in site.glob("*.html") if model.run_time(path.stem) and path.stem not in pages]
    if others:
        terminal.note(
            f"{site} has {counted(len(others), 'page')} of runs that are not in the history, such as {min(others)}: "
            "steps that they showed are not in it either."
        )
    if opens:
        _open(terminal, index)
    return Answer({"wrote": [*wrote, str(index)], "history": part.model_dump(mode="json")},
                  [*part.sentences, Line(index)])  # fmt: skip
