"""ragtrial show"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragtrial.cli import completion
from ragtrial.cli.terminal import Terminal, common_options, results_option
from ragtrial.runs.streams import written

if TYPE_CHECKING:
    from ragtrial.report.model import Report
    from ragtrial.report.schema import SettingPart


@click.command("show")
@click.argument("report", shell_complete=completion.reports, default="latest")
@results_option
@click.option("--setting", shell_complete=completion.settings, metavar="NAME", help="Only this setting.")
@click.option(
    "--metrics",
    shell_complete=completion.metrics,
    metavar="NAMES",
    help="Metrics to show, comma-separated; `all` shows every one.",
)
@click.option("--tag", metavar="NAME", help="Only the queries with this tag: means over them.")
@click.option("--costs", is_flag=True, help="Show latency, embedding and indexing time, index size and context.")
@click.option("--query", metavar="ID", help="Show the hits of one query: ranks, scores, grades, texts.")
@click.option("--prompt", is_flag=True, help="With --query: the prompt template filled with the hits.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the scores as CSV, one row per setting.")
@click.option("--per-query", is_flag=True, help="With --csv: one row per setting and query.")
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
    tag: str | None,
    *,
    as_csv: bool,
    per_query: bool,
    costs: bool,
    prompt: bool,
) -> int:
    """Show a REPORT: a folder, a run id, or `latest`."""
    from ragtrial.report.model import load_report
    from ragtrial.scoring.query_details import of_tag
    from ragtrial.views import report_tables as tables

    for is_wrong, why in (
        (prompt and query is None, "--prompt needs --query ID."),
        (per_query and not as_csv, "--per-query needs --csv."),
        (as_csv and (terminal.as_json or costs or (query, as_expected) != (None, None)),
         "--csv prints scores alone; leave out --json, --query, --as-expected and --costs."),
        (as_expected is not None and (query is not None or tag is not None),
         "--as-expected writes the scores of settings; it cannot be with --query or --tag."),
        (as_expected == "-" and terminal.as_json,
         "--as-expected - and --json would both go to standard output; give one a file."),
        (tag is not None and (costs or query is not None),
         "--tag shows means over queries; leave out --query, and --costs, which are of all."),
    ):  # fmt: skip
        if is_wrong:
            raise click.UsageError(why)
    loaded = load_report(report, results)
    if tag is not None:
        loaded = of_tag(loaded, tag)
    chosen = [loaded.setting(setting)] if setting else loaded.ranked_settings()
    if as_csv or query is not None or as_expected is not None:  # else all warnings are shown
        terminal.warn([warning for warning in loaded.warnings if warning.code == "files-missing"])
    if as_csv:
        return _write_csv(terminal, loaded, chosen, metrics, per_query=per_query)
    if query is not None:
        return _say_query(terminal, loaded, chosen, query, prompt=prompt)
    if as_expected is not None:
        usual = tables.usual_metrics(loaded) if metrics is None else list(loaded.metrics)
        names = usual if metrics in (None, "all") else tables.named_metrics(loaded, metrics)
        return _write_expected(terminal, as_expected, loaded, chosen, names)
    _say_scores(terminal, loaded, chosen, metrics, tag, costs=costs)
    if setting:
        terminal.table(tables.fact_table(chosen[0]), before="\n")
    terminal.say("\n" + tables.lowest_queries(loaded, chosen[0], terminal.width))
    terminal.warn(loaded.warnings)
    for failure in loaded.failures:
        terminal.say(f"\n{failure.name} failed and has no scores: {failure.error}")
    terminal.say(f"\nreport: {loaded.folder / 'report.json'}")
    terminal.say_json(loaded.model_dump(mode="json"))
    return 0


def _write_csv(
    terminal: Terminal, report: Report, chosen: Sequence[SettingPart], metrics: str | None, *, per_query: bool
) -> int:
    from ragtrial.runs.formats.writing import write_table
    from ragtrial.views import report_tables as tables

    names = list(report.metrics) if metrics in (None, "all") else tables.named_metrics(report, str(metrics))
    settings = [one.name for one in chosen]
    rows = [row for row in report.rows(names, per_query=per_query) if row["setting"] in settings]
    columns = ["setting", *(["query"] if per_query else []), *names]
    with contextlib.redirect_stdout(terminal.out):
        write_table("-", {column: [row[column] for row in rows] for column in columns})
    return 0


def _say_query(terminal: Terminal, report: Report, chosen: Sequence[SettingPart], query: str, *, prompt: bool) -> int:
    from ragtrial.scoring.query_details import filled_prompt, load_query
    from ragtrial.views.texts import prompt_text, query_text

    rankings = load_query(report, chosen, query)
    if prompt:
        filled = [filled_prompt(report, ranking) for ranking in rankings]
        terminal.say("\n\n".join(map(prompt_text, filled)))
        terminal.say_json([vars(one) for one in filled])
    else:
        terminal.say(query_text(report, query, rankings, terminal.width))
        terminal.say_json([ranking.as_json() for ranking in rankings])
    return 0


def _say_scores(
    terminal: Terminal,
    report: Report,
    chosen: Sequence[SettingPart],
    metrics: str | None,
    tag: str | None,
    *,
    costs: bool,
) -> None:
    from ragtrial.config.models import MOST_TIMED
    from ragtrial.views import report_tables as tables

    names = None if metrics in (None, "all") else tables.named_metrics(report, str(metrics))
    terminal.tell(tables.header_line(report, tag) + "\n")
    if metrics == "all":
        terminal.table(tables.metric_table(report, chosen))
    else:
        terminal.table(tables.score_table(report, terminal.width, chosen, names))
        terminal.table(tables.budget_table(report, chosen, terminal.width), before="\n")
        terminal.table(tables.context_table(chosen), before="\n")
    if costs:
        terminal.table(tables.cost_table(chosen), before="\n")
        if len(report.settings) > MOST_TIMED and "latency" not in report.config:
            terminal.say(f"Latency of more than {MOST_TIMED} settings is measured only if asked for (`latency: true`).")
    terminal.table(tables.audit_table(report, chosen), before="\n")
    if note := tables.audit_note(chosen):
        terminal.tell(note)


def _write_expected(
    terminal: Terminal, target: str, report: Report, settings: Sequence[SettingPart], metrics: Sequence[str]
) -> int:
    """Tolerances that the file has for a score are kept."""
    from ragtrial.comparison.gates import expected_text, read_expected

    kept = read_expected(target) if target != "-" and Path(target).is_file() else []
    text = expected_text(report.run_id, settings, metrics, kept)
    with contextlib.redirect_stdout(terminal.out), written(target) as file:
        file.write(text.encode("utf-8"))
    if target != "-":
        terminal.say(f"wrote {target}")
        terminal.say_json({"exit_code": 0, "wrote": [target]})
    return 0
