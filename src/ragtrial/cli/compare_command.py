"""ragtrial compare"""

from __future__ import annotations

import click

from ragtrial.cli.terminal import Terminal, common_options


@click.command("compare")
@click.argument("reports", nargs=-1, required=True, metavar="REPORT...")
@click.option("--results", type=click.Path(), default="results", show_default=True, help="Where reports are kept.")
@click.option(
    "--baseline", metavar="NAME", help="SETTING, REPORT or REPORT:SETTING: what the others are compared with."
)
@click.option("--all-pairs", is_flag=True, help="Compare all pairs, where several reports are given, too.")
@click.option("--setting", "settings", multiple=True, metavar="NAME", help="Only this setting; may be repeated.")
@click.option("--metric", metavar="NAME", help="The metric that decides, in place of the report's primary one.")
@click.option("--metrics", metavar="NAMES", help="Others to show, commas between; `all` takes every one.")
@click.option("--margin", type=click.FloatRange(min=0), default=0.02, show_default=True,
              help="A difference that would not matter.")  # fmt: skip
@click.option("--confidence", type=click.FloatRange(0.5, 0.9999), default=0.95, show_default=True,
              help="That all intervals of a metric hold together.")  # fmt: skip
@click.option("--flips", type=click.IntRange(min=100), default=10_000, show_default=True, help="Random flips of signs.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the flips.")
@click.option("--common", is_flag=True, help="Compare the queries that have the same labels in all reports.")
@click.option("--full", is_flag=True, help="Show all pairs, however many.")
@common_options
def command(
    terminal: Terminal,
    reports: tuple[str, ...],
    results: str,
    baseline: str | None,
    settings: tuple[str, ...],
    metric: str | None,
    metrics: str | None,
    margin: float,
    confidence: float,
    flips: int,
    seed: int,
    *,
    all_pairs: bool,
    common: bool,
    full: bool,
) -> int:
    """Say which settings of one or more reports are better, by how much, and how sure one can be.

    A REPORT is a folder, a run id, or `latest`; REPORT:SETTING is one of its settings.
    """
    from ragtrial.comparison.comparing import Aim, compare_settings
    from ragtrial.comparison.contest import contest_of
    from ragtrial.comparison.flips import Procedure
    from ragtrial.records import Caution
    from ragtrial.views import comparison as view
    from ragtrial.views.table import usual_metrics

    named = None if metrics in (None, "all") else [name for name in str(metrics).split(",") if name.strip()]
    contest = contest_of(
        reports,
        named,
        primary=metric,
        settings=settings or None,
        baseline=baseline,
        all_pairs=all_pairs,
        common=common,
        directory=results,
    )
    if metrics is None:
        contest = contest.limited_to(usual_metrics(contest.contenders[0].report))
    aim = Aim(contest.baseline, margin, Procedure(1 - confidence, flips, seed))
    made = compare_settings(contest, aim)
    terminal.say(view.heading(made) + "\n")
    rows, left_out = view.shown(made, made.primary_metric, everything=full)
    table = view.verdict_table(made, rows)
    terminal.table(table, texts=(0, len(table[0]) - 1))
    terminal.say("\n" + "\n".join(line for line in (left_out, view.best_line(made), made.procedure.sentence) if line))
    terminal.table(view.descriptive_table(made, contest.metrics[1:], rows), after="\n")
    terminal.warn([Caution(warning.code, warning.message) for warning in made.warnings])
    terminal.say_json(made.model_dump(mode="json"))
    return 0
