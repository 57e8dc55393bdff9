"""ragtrial run"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragtrial.cache.atomic import write_bytes
from ragtrial.cache.untrusted import visible
from ragtrial.cli import completion
from ragtrial.cli.gating import GateOptions, RunBaseline, checks_for_run, gate_options
from ragtrial.cli.terminal import Terminal, common_options, config_argument, override_option, write
from ragtrial.errors import ComparisonError, Fault, InputError, ReportError, RunError, counted
from ragtrial.progress import Listener
from ragtrial.views.sections.search_view import SEARCH

if TYPE_CHECKING:
    from ragtrial.comparison.comparison_parts import Comparison
    from ragtrial.comparison.gates import Findings
    from ragtrial.report.model import Report
    from ragtrial.search.extrapolation import ExtrapolationPart
    from ragtrial.search.search_result import SearchResult

_OPEN_FILES = 65_536


class _RunListener(Listener):
    """Shows progress, notices and failures on stderr."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(terminal.progress())
        self._terminal = terminal

    def notice(self, message: str) -> None:
        self._terminal.note(message)

    def failed(self, setting: str, reason: str) -> None:
        self._terminal.note(f"error: setting {setting!r} failed: {reason}")


@click.command("run")
@config_argument
@override_option
@completion.settings_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Run only the first N queries.")
@click.option("--audit", is_flag=True, help="Also compare large indexes (100,000 vectors or more) with exact search.")
@click.option("--no-latency", is_flag=True, help="Do not measure how long single queries take.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, metavar="N", help="Run up to N stages in parallel.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first setting that fails.")
@click.option("--strict", is_flag=True, help="Treat warnings about labels and documents as errors.")
@click.option(
    "--baseline", metavar="NAME", help="Compare with this SETTING of the run, or REPORT:SETTING of an earlier run."
)
@click.option("--extrapolate", type=click.IntRange(min=1), metavar="N",
              help="Also run on parts of the documents, and estimate the scores with N documents.")  # fmt: skip
@click.option("--report", "with_page", is_flag=True, help="Also write the HTML page: report.html, next to report.json.")
@gate_options
@common_options
def command(
    terminal: Terminal,
    config: str,
    overrides: tuple[str, ...],
    settings: tuple[str, ...],
    limit: int | None,
    jobs: int,
    baseline: str | None,
    extrapolate: int | None,
    gates: GateOptions,
    *,
    audit: bool,
    no_latency: bool,
    fail_fast: bool,
    strict: bool,
    with_page: bool,
) -> int:
    """Run the experiment of CONFIG and write its report.

    Finished work is kept: run the same command again to resume.
    """
    from ragtrial.config import load_config
    from ragtrial.experiment import run_experiment
    from ragtrial.pipeline.run import RunOptions

    _allow_open_files()
    experiment = load_config(config, [*overrides, "latency=false"] if no_latency else overrides)
    if experiment.search and (baseline is not None or gates != GateOptions()):
        raise InputError(
            "gates and --baseline are for settings that are chosen before a run; this config has a search. Say its "
            "baseline in search.baseline, or run the winner's config with gates."
        )
    checks = checks_for_run(experiment, gates, baseline, limit, terminal, config)
    gc.freeze()  # what modules have made stays: Python need not look for cycles in it
    options = RunOptions(
        settings=settings or None,
        limit=limit,
        strict=strict,
        audit=audit,
        jobs=jobs,
        fail_fast=fail_fast,
        extrapolate=extrapolate,
        listener=_RunListener(terminal),
    )
    report = run_experiment(experiment, options)
    found = _found(report)
    findings = checks.of_run(report) if checks else None
    comparison = None if found else _compared(report, config)
    page = _page(report, checks.baseline if checks else None, terminal) if with_page else None
    _say(terminal, report, findings, comparison, found)
    grown = _extrapolated(report, terminal) if extrapolate else None
    terminal.say(f"page: {page or f'ragtrial report {_from_here(report.folder)} --open'}")
    if checks and findings:
        checks.write(terminal, findings)
    told = {**_as_json(report, findings, comparison, found), **({"page": str(page)} if page else {})}
    told |= {"search": found.model_dump(mode="json")} if found else {}
    terminal.say_json(told | ({"extrapolation": grown.model_dump(mode="json")} if grown else {}))
    return _exit_code(report, findings, found)


def _found(report: Report) -> SearchResult | None:
    """The result of a search; None if the config has no search."""
    from ragtrial.search.searched import load_result

    if report.search is None:
        return None

    return load_result(report)


def _extrapolated(report: Report, terminal: Terminal) -> ExtrapolationPart | None:
    """Print the estimated scores with more documents."""
    from ragtrial.search.extrapolation import load_extrapolation
    from ragtrial.views.report_tables import extrapolation_table

    grown = load_extrapolation(report)
    if grown:
        terminal.show(["", *grown.sentences, "", extrapolation_table(grown), ""])
    return grown


def _compared(report: Report, config: str) -> Comparison | None:
    """All settings by the primary metric; None where it counts for no query, or where there are very many."""
    from ragtrial.comparison.comparing import MOST_SETTINGS, ComparisonOptions, compare_settings
    from ragtrial.comparison.comparison_input import input_of

    if len(report.settings) > MOST_SETTINGS:
        return None
    with suppress(ComparisonError, ReportError):
        inputs = input_of([report], [report.primary_metric], all_pairs=True, may_be_one=True)
        return compare_settings(inputs, ComparisonOptions(config=config))
    return None


def _page(report: Report, baseline: RunBaseline | None, terminal: Terminal) -> Path | None:
    """Where the HTML page was written; None, after a word why, where there is nothing to show."""
    from ragtrial.comparison.comparing import options_of
    from ragtrial.comparison.comparison_input import input_of
    from ragtrial.views.page import page

    path = report.folder / "report.html"
    try:
        contest = input_of([report], baseline=baseline.reference if baseline else None, may_be_one=True)
        write_bytes(path, page(contest, options_of(contest)))
    except (ComparisonError, ReportError) as error:
        terminal.note(f"no page was written: {error}")
        return None
    except OSError as error:
        raise RunError(Fault(str(path), message=f"cannot be written: {error.strerror or error}.")) from error
    return path


def _from_here(folder: Path) -> Path:
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


def _exit_code(report: Report, findings: Findings | None, found: SearchResult | None) -> int:
    return findings.exit_code if findings else 4 if report.failures or (found and found.failed) else 0


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


def _say_search(terminal: Terminal, report: Report, found: SearchResult) -> None:
    from ragtrial.search.searched import WINNER

    terminal.show(SEARCH.blocks(found, terminal.width, everything=False))
    if found.winner:
        terminal.say(f"\nwinner: {_from_here(report.folder) / WINNER}")


def _say(
    terminal: Terminal,
    report: Report,
    findings: Findings | None,
    comparison: Comparison | None,
    found: SearchResult | None,
) -> None:
    from ragtrial.comparison.comparing import close_comparisons
    from ragtrial.views import report_tables as tables
    from ragtrial.views.comparison_tables import looked_into_lines, verdict_blocks

    terminal.tell(tables.header_line(report) + "\n")
    if found:
        _say_search(terminal, report, found)
        terminal.warn(report.warnings)
        _say_failures(report)
        terminal.say(f"\nreport: {report.folder / 'report.json'}")
        return
    if comparison:
        terminal.show([*map(visible, comparison.conclusion.sentences), ""])
    terminal.table(tables.score_table(report, terminal.width))
    terminal.table(tables.budget_table(report, report.settings, terminal.width), before="\n")
    if len(report.settings) > 1:
        terminal.table(tables.cost_table(report.ranked_settings()), before="\n")
    terminal.table(tables.audit_table(report, report.ranked_settings()), before="\n")
    if note := tables.audit_note(report.ranked_settings()):
        terminal.tell(note)
    compared = findings.comparison if findings else None
    if compared and compared.procedure.baseline:
        rows, lines = close_comparisons(compared), looked_into_lines(compared)
        terminal.say()
        terminal.show(verdict_blocks(compared, rows, terminal.width, lines))
        terminal.warn(compared.warnings)
    if comparison and comparison.comparisons:
        axes = " --axes" if report.config.get("sweep") else ""
        terminal.say(f"\nBy how much: ragtrial compare {_from_here(report.folder)}{axes}")
    terminal.warn(report.warnings)
    _say_failures(report)
    terminal.say(f"\nreport: {report.folder / 'report.json'}")


def _say_failures(report: Report) -> None:
    """Print failures again at the end, below other output."""
    if not report.failures:
        return
    names = ", ".join(failure.name for failure in report.failures)
    run = counted(len(report.settings) + len(report.failures), "setting")
    write(f"\n{len(report.failures)} of {run} failed: {names}. The same command runs only these again.", sys.stderr)
    for failure in report.failures:
        write(f"error: setting {failure.name!r} failed: {failure.error}", sys.stderr)


def _as_json(
    report: Report, findings: Findings | None, comparison: Comparison | None, found: SearchResult | None
) -> dict[str, Any]:
    from ragtrial.views import report_tables as tables

    return {
        "exit_code": _exit_code(report, findings, found),
        "report": str(report.folder / "report.json"),
        "run_id": report.run_id,
        "primary_metric": report.primary_metric,
        "settings": tables.scores_json(report),
        **({"conclusion": comparison.conclusion.model_dump(mode="json")} if comparison else {}),
        "failures": [vars(failure) for failure in report.failures],
        "warnings": [vars(warning) for warning in report.warnings],
        **(findings.as_json() if findings else {}),
        **({"comparison": findings.comparison.model_dump(mode="json")} if findings and findings.comparison else {}),
    }
