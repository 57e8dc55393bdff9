"""ragtrial run"""

from __future__ import annotations

import gc
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ragtrial import config as configs, experiment as experiments
from ragtrial.cache import atomic
from ragtrial.cli.gating import Checks, GateOptions, RunBaseline, checks_for_run
from ragtrial.cli.options import CONFIG, OVERRIDES, SETTINGS, declare, option
from ragtrial.cli.show_command import all_warnings, compared_settings, detail_blocks, result_json, score_blocks
from ragtrial.cli.terminal import Answer, Line, RunListener, Terminal
from ragtrial.comparison import comparing, comparison_input, comparison_parts
from ragtrial.comparison.gates import Findings
from ragtrial.errors import ComparisonError, Fault, InputError, ReportError, RunError, counted
from ragtrial.options import from_here
from ragtrial.pipeline import run as runs
from ragtrial.report import model
from ragtrial.search import searched
from ragtrial.views import page, report_tables
from ragtrial.views.sections import search_view
from ragtrial.views.table import Table

_OPEN_FILES = 65_536
_MOST_ROWS = 10


@declare("run")
def command(
    terminal: Terminal,
    *,
    config: str = CONFIG,
    overrides: tuple[str, ...] = OVERRIDES,
    settings: tuple[str, ...] = SETTINGS,
    limit: int | None = option("Run only the first N queries.", "N", at_least=1),
    audit: bool = option("Also compare large indexes (100,000 vectors or more) with exact search."),
    no_latency: bool = option("Do not measure how long single queries take."),
    fail_fast: bool = option("Stop at the first setting that fails."),
    strict: bool = option("Treat warnings about labels and documents as errors."),
    baseline: str | None = option(
        "A SETTING of the run to compare with, a REPORT:SETTING, or a file of scores.", "NAME"
    ),
    report: bool = option("Also write the HTML page: report.html, next to report.json."),
    gates: GateOptions,
) -> Answer:
    """Run the experiment of CONFIG and write its report.

    Finished work is kept: run the same command again to resume.
    """
    _allow_open_files()
    experiment = configs.load_config(config, [*overrides, "latency=false"] if no_latency else overrides)
    if experiment.search and (baseline is not None or not gates.is_empty):
        raise InputError(
            "gates and --baseline are for settings that are chosen before a run; this config has a search. Say its "
            "baseline in search.baseline, or run the winner's config with gates."
        )
    checks = checks_for_run(experiment, gates, baseline, limit, terminal, config)
    gc.freeze()  # what modules have made stays: Python need not look for cycles in it
    options = runs.RunOptions(
        settings=settings or None, limit=limit, strict=strict, audit=audit, fail_fast=fail_fast,
        listener=RunListener(terminal.progress(), terminal.note),
    )  # fmt: skip
    return _answer(terminal, experiments.run_experiment(experiment, options), checks, config, with_page=report)


def _answer(terminal: Terminal, report: model.Report, checks: Checks | None, config: str, *, with_page: bool) -> Answer:
    findings = checks.of_run(report) if checks else None
    search = searched.load_result(report)
    compared, baseline = findings.comparison if findings else None, checks.baseline if checks else None
    comparison = compared if baseline and compared else None if search else compared_settings(report, config)
    page_file = _write_page(report, baseline, findings, terminal, config) if with_page else None
    width = terminal.width
    result = _search_blocks(width, report, search) if search else _result_blocks(width, report, comparison, config)
    where = _where(report, page_file, baseline, is_compared=bool(comparison and comparison.comparisons))
    blocks = [report_tables.header_line(report), "", *result, "", *where]
    total, errors = checks.write(findings) if checks and findings else ([], [])
    content = {
        **result_json(report, comparison),
        "failures": report.failures,
        **(findings.as_json() if findings else {}),
        "comparison": compared,
        "page": str(page_file) if page_file else None,
        "search": search,
    }
    failed = 4 if report.failures or (search and search.failed) else 0
    return Answer(
        {key: value for key, value in content.items() if value is not None},
        [*blocks, *total],
        all_warnings(report, comparison),
        errors=[*_failure_lines(report), *errors],
        code=findings.exit_code if findings else failed,
    )


def _write_page(
    report: model.Report, baseline: RunBaseline | None, findings: Findings | None, terminal: Terminal, config: str
) -> Path | None:
    """Where the HTML page was written; None, after a word why, where there is nothing to show."""
    path = report.folder / "report.html"
    try:
        inputs = comparison_input.input_of([report], baseline=baseline.reference if baseline else None, may_be_one=True)
        options = replace(comparing.options_of(inputs), config=config)
        atomic.write_bytes(path, page.page(inputs, options, findings))
    except (ComparisonError, ReportError) as error:
        terminal.note(f"no page was written: {error}")
        return None
    except OSError as error:
        raise RunError(Fault(str(path), message=f"cannot be written: {error.strerror or error}.")) from error
    return path


def _allow_open_files() -> None:
    """As many as the system lets: a sweep over hundreds of chunkings of many documents maps thousands of files."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):  # then it stays as it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _search_blocks(width: int, report: model.Report, search: searched.SearchResult) -> list[str | Table]:
    blocks = list(search_view.SEARCH.blocks(search, width, everything=False))
    winner = ["", Line(f"winner: {from_here(report.folder / searched.WINNER)}")] if search.winner else []
    return [*blocks, *winner]


def _result_blocks(
    width: int, report: model.Report, comparison: comparison_parts.Comparison | None, config: str
) -> list[str | Table]:
    ranked = report.ranked_settings()
    shown = ranked[:_MOST_ROWS]
    blocks = score_blocks(report, comparison, width, shown, None, config)
    if len(report.settings) > len(shown):
        every = report_tables.show_command(report)
        blocks.append(f"The first {len(shown)} of {len(report.settings):,} settings; `{every}` has all.\n")
    return [*blocks, *detail_blocks(report, ranked, costs=shown if len(shown) > 1 else ())]


def _where(
    report: model.Report, page_file: Path | None, baseline: RunBaseline | None, *, is_compared: bool
) -> Iterator[Line]:
    """Where the details and the report are; commands find the newest report in results/ without its name."""
    folder = Path(from_here(report.folder))
    named = "" if folder.parents[1] == Path("results") else f" {folder}"
    if is_compared:
        axes = " --axes" if report.config.get("sweep") else ""
        against = f" --baseline {shlex.quote(baseline.reference)}" if baseline else ""
        yield Line(f"Details  ragtrial compare{named}{against}{axes}")
    yield Line(f"Report   {folder}   ({page_file.name if page_file else f'ragtrial report{named} --open'})")


def _failure_lines(report: model.Report) -> list[str]:
    """The failures again, below other output."""
    if not report.failures:
        return []
    names = ", ".join(failure.name for failure in report.failures)
    settings = counted(len(report.settings) + len(report.failures), "setting")
    lines = ["", f"{len(report.failures)} of {settings} failed: {names}. The same command runs only these again."]
    return lines + [Line(f"error: setting {failure.name!r} failed: {failure.error}") for failure in report.failures]
