"""ragtrial show"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragtrial.cli.terminal import Terminal, common_options

if TYPE_CHECKING:
    from ragtrial.report import Report
    from ragtrial.report_parts import SettingPart


@click.command("show")
@click.argument("report", default="latest")
@click.option("--results", type=click.Path(), default="results", show_default=True, help="Where reports are kept.")
@click.option("--setting", metavar="NAME", help="Only this setting.")
@click.option("--metrics", metavar="NAMES", help="Metrics to show, commas between; `all` shows every one.")
@click.option("--costs", is_flag=True, help="What each setting takes: latency, embedding, index, context.")
@click.option("--query", metavar="ID", help="What was found for one query: ranks, scores, grades, texts.")
@click.option("--prompt", is_flag=True, help="With --query: the prompt template filled with what was found.")
@click.option(
    "--as-expected", metavar="FILE", help="Write the scores as FILE that `run --expected` checks; - prints it."
)
@common_options
def command(
    terminal: Terminal,
    report: str,
    results: str,
    setting: str | None,
    metrics: str | None,
    query: str | None,
    as_expected: str | None,
    *,
    costs: bool,
    prompt: bool,
) -> int:
    """Show a REPORT: a folder, a run id, or `latest`."""
    from ragtrial.drilldown import filled_prompt, load_query
    from ragtrial.records import Caution
    from ragtrial.report import load_report
    from ragtrial.views import table
    from ragtrial.views.query import prompt_text, query_text

    if prompt and query is None:
        raise click.UsageError("--prompt needs --query ID.")
    if as_expected is not None and query is not None:
        raise click.UsageError("--as-expected writes the scores of settings; it cannot be with --query.")
    if as_expected == "-" and terminal.as_json:
        raise click.UsageError("--as-expected - and --json would both go to standard output; give one a file.")
    loaded = load_report(report, results)
    chosen = [loaded.setting(setting)] if setting else loaded.ranked_settings()
    if query is not None:
        rankings = load_query(loaded, chosen, query)
        if prompt:
            filled = [filled_prompt(loaded, ranking) for ranking in rankings]
            terminal.say("\n\n".join(map(prompt_text, filled)))
            terminal.say_json([vars(one) for one in filled])
        else:
            terminal.say(query_text(loaded, query, rankings, terminal.width))
            terminal.say_json([ranking.as_json() for ranking in rankings])
        return 0
    names = table.named_metrics(loaded, metrics) if metrics not in (None, "all") else None
    if as_expected is not None:
        every = list(loaded.metrics) if metrics == "all" else table.usual_metrics(loaded)
        return _write_expected(terminal, as_expected, loaded, chosen, names or every)
    terminal.say(table.header_line(loaded) + "\n")
    if metrics == "all":
        terminal.table(table.metric_table(loaded, chosen))
    else:
        terminal.table(table.score_table(loaded, terminal.width, chosen, names))
        terminal.table(table.budget_table(loaded, chosen, terminal.width), after="\n")
        terminal.table(table.context_table(chosen), after="\n")
    if costs:
        terminal.table(table.cost_table(chosen), after="\n")
    terminal.table(table.audit_table(loaded, chosen), after="\n")
    if setting:
        terminal.table(table.fact_table(chosen[0]), after="\n")
    terminal.say("\n" + table.lowest_queries(loaded, chosen[0], terminal.width))
    terminal.warn([Caution(warning.code, warning.message) for warning in loaded.warnings])
    terminal.say(f"\nreport: {loaded.folder / 'report.json'}")
    terminal.say_json(loaded.model_dump(mode="json"))
    return 0


def _write_expected(
    terminal: Terminal, target: str, report: Report, settings: Sequence[SettingPart], metrics: Sequence[str]
) -> int:
    """Tolerances that the file has for a score are kept."""
    from ragtrial.config.expected_file import read_expected
    from ragtrial.formats.output import opened
    from ragtrial.views.expected import expected_text

    kept = read_expected(target) if target != "-" and Path(target).is_file() else []
    text = expected_text(report.run_id, settings, metrics, kept)
    with contextlib.redirect_stdout(terminal.out), opened(target) as file:
        file.write(text.encode("utf-8"))
    if target != "-":
        terminal.say(f"wrote {target}")
        terminal.say_json({"exit_code": 0, "wrote": [target]})
    return 0
