"""ragtrial run"""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path

from ragtrial import config as configs
from ragtrial import experiment as experiments
from ragtrial.cache import atomic, untrusted
from ragtrial.cli.gating import Checks, GateOptions, RunBaseline, checks_for_run
from ragtrial.cli.options import CONFIG, OVERRIDES, SETTINGS, declare, option
from ragtrial.cli.show_command import detail_blocks
from ragtrial.cli.terminal import Answer, Line, RunListener, Terminal
from ragtrial.comparison import comparing, comparison_input, comparison_parts
from ragtrial.comparison import gates as all_gates
from ragtrial.errors import ComparisonError, Fault, InputError, ReportError, RunError, counted
from ragtrial.pipeline import run as runs
from ragtrial.report import model
from ragtrial.search import search_result, searched
from ragtrial.views import comparison_tables, page, report_tables
from ragtrial.views.sections import search_view
from ragtrial.views.table import Table

_OPEN_FILES = 65_536


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
    baseline: str | None = option("Compare with this SETTING of the run, or REPORT:SETTING of an earlier run.", "NAME"),
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
    comparison = None if search else _compared(report, config)
    page_file = _write_page(report, checks.baseline if checks else None, terminal) if with_page else None
    if search:
        result = _search_blocks(terminal, report, search)
    else:
        result = _result_blocks(terminal, report, findings, comparison)
    blocks = [report_tables.header_line(report), "", *result, "", Line(f"report: {report.folder / 'report.json'}")]
    blocks.append(Line(f"page: {page_file or f'ragtrial report {_from_here(report.folder)} --open'}"))
    total, errors = checks.write(findings) if checks and findings else ([], [])
    compared = findings.comparison if findings else None
    content = {
        "report": str(report.folder / "report.json"),
        "run_id": report.run_id,
        "primary_metric": report.primary_metric,
        "settings": report_tables.scores_json(report),
        "conclusion": comparison and comparison.conclusion,
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
        [*(compared.warnings if compared and compared.procedure.baseline else ()), *report.warnings],
        errors=[*_failure_lines(report), *errors],
        code=findings.exit_code if findings else failed,
    )


def _compared(report: model.Report, config: str) -> comparison_parts.Comparison | None:
    """All settings by the primary metric; None where it counts for no query, or where there are very many."""
    if len(report.settings) > comparing.MOST_SETTINGS:
        return None
    with suppress(ComparisonError, ReportError):
        inputs = comparison_input.input_of([report], [report.primary_metric], all_pairs=True, may_be_one=True)
        return comparing.compare_settings(inputs, comparing.ComparisonOptions(config=config))
    return None


def _write_page(report: model.Report, baseline: RunBaseline | None, terminal: Terminal) -> Path | None:
    """Where the HTML page was written; None, after a word why, where there is nothing to show."""
    path = report.folder / "report.html"
    try:
        inputs = comparison_input.input_of([report], baseline=baseline.reference if baseline else None, may_be_one=True)
        atomic.write_bytes(path, page.page(inputs, comparing.options_of(inputs)))
    except (ComparisonError, ReportError) as error:
        terminal.note(f"no page was written: {error}")
        return None
    except OSError as error:
        raise RunError(Fault(str(path), message=f"cannot be written: {error.strerror or error}.")) from error
    return path


def _from_here(folder: Path) -> Path:
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


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


def _search_blocks(terminal: Terminal, report: model.Report, search: search_result.SearchResult) -> list[str | Table]:
    blocks = list(search_view.SEARCH.blocks(search, terminal.width, everything=False))
    winner = ["", Line(f"winner: {_from_here(report.folder) / searched.WINNER}")] if search.winner else []
    return [*blocks, *winner]


def _result_blocks(
    terminal: Terminal,
    report: model.Report,
    findings: all_gates.Findings | None,
    comparison: comparison_parts.Comparison | None,
) -> list[str | Table]:
    blocks: list[str | Table] = []
    ranked, compared = report.ranked_settings(), findings.comparison if findings else None
    if comparison:
        blocks += [*map(untrusted.visible, comparison.conclusion.sentences), ""]
    blocks.append(report_tables.score_table(report, terminal.width))
    blocks.append(report_tables.budget_table(report, report.settings, terminal.width))
    blocks += detail_blocks(report, ranked, costs=len(ranked) > 1)
    if compared and compared.procedure.baseline:
        rows, lines = comparing.close_comparisons(compared), comparison_tables.looked_into_lines(compared)
        blocks += ["", *comparison_tables.verdict_blocks(compared, rows, terminal.width, lines)]
    if comparison and comparison.comparisons:
        axes = " --axes" if report.config.get("sweep") else ""
        blocks += ["", Line(f"By how much: ragtrial compare {_from_here(report.folder)}{axes}")]
    return blocks


def _failure_lines(report: model.Report) -> list[str]:
    """The failures again, below other output."""
    if not report.failures:
        return []
    names = ", ".join(failure.name for failure in report.failures)
    settings = counted(len(report.settings) + len(report.failures), "setting")
    lines = ["", f"{len(report.failures)} of {settings} failed: {names}. The same command runs only these again."]
    return lines + [Line(f"error: setting {failure.name!r} failed: {failure.error}") for failure in report.failures]
