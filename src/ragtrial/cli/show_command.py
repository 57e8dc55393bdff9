"""ragtrial show"""

from __future__ import annotations

import click

from ragtrial.cli.terminal import Terminal, common_options


@click.command("show")
@click.argument("report", default="latest")
@click.option("--results", type=click.Path(), default="results", show_default=True, help="Where reports are kept.")
@click.option("--setting", metavar="NAME", help="Only this setting.")
@click.option("--metrics", metavar="NAMES", help="Metrics to show, commas between; `all` shows every one.")
@click.option("--tag", metavar="NAME", help="Only the queries with this tag: means over them.")
@click.option("--costs", is_flag=True, help="What each setting takes: latency, embedding, index, context.")
@click.option("--query", metavar="ID", help="What was found for one query: ranks, scores, grades, texts.")
@click.option("--prompt", is_flag=True, help="With --query: the prompt template filled with what was found.")
@common_options
def command(
    terminal: Terminal,
    report: str,
    results: str,
    setting: str | None,
    metrics: str | None,
    query: str | None,
    tag: str | None,
    *,
    costs: bool,
    prompt: bool,
) -> int:
    """Show a REPORT: a folder, a run id, or `latest`."""
    from ragtrial.drilldown import filled_prompt, load_query
    from ragtrial.records import Caution
    from ragtrial.report import load_report, of_tag
    from ragtrial.views import table
    from ragtrial.views.query import prompt_text, query_text

    if prompt and query is None:
        raise click.UsageError("--prompt needs --query ID.")
    if tag is not None and (costs or query is not None):
        raise click.UsageError("--tag shows means over queries; leave out --query, and --costs, which are of all.")
    loaded = load_report(report, results)
    if tag is not None:
        loaded = of_tag(loaded, tag)
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
    terminal.say(table.header_line(loaded, tag) + "\n")
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
