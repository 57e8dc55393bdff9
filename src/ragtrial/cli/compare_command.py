"""ragtrial compare"""

from __future__ import annotations

import click

from ragtrial.cli.contest_options import AskedContest, contest_options
from ragtrial.cli.gating import GateOptions, gate_options
from ragtrial.cli.terminal import Terminal, common_options


@click.command("compare", short_help="Say which settings are better, by how much, how surely.")
@contest_options
@click.option("--all-pairs", is_flag=True, help="Compare all pairs, where several reports are given, too.")
@click.option("--setting", "settings", multiple=True, metavar="NAME", help="Only this setting; may be repeated.")
@click.option("--metrics", metavar="NAMES", help="Others to show, commas between; `all` takes every one.")
@click.option("--procedure", default="max-t", show_default=True, metavar="NAME",
              help="max-t, step-down, t-holm, bootstrap, wilcoxon or bh.")  # fmt: skip
@click.option("--flips", type=click.IntRange(min=100), default=10_000, show_default=True, help="Random flips of signs.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the flips.")
@click.option("--full", is_flag=True, help="Show all pairs, effects and queries, however many.")
@click.option("--slices", is_flag=True, help="The same by tag, number of answers, length, and words in common.")
@click.option("--axes", is_flag=True, help="What each parameter of a sweep does, and where two depend on each other.")
@click.option("--costs", is_flag=True, help="Quality against latency, context and index size.")
@click.option("--unjudged", is_flag=True, help="How far each difference could go if all hits were judged.")
@click.option("--queries", is_flag=True, help="Queries won and lost by the first row, and those that none can answer.")
@click.option("--query", metavar="ID", help="What the two settings of the first row found for one query, and why.")
@gate_options
@common_options
def command(
    terminal: Terminal,
    compared: AskedContest,
    asked: GateOptions,
    settings: tuple[str, ...],
    metrics: str | None,
    procedure: str,
    flips: int,
    seed: int,
    query: str | None,
    *,
    all_pairs: bool,
    full: bool,
    slices: bool,
    axes: bool,
    costs: bool,
    queries: bool,
    unjudged: bool,
) -> int:
    """Say which settings of one or more reports are better, by how much, and how sure one can be.

    A REPORT is a folder, a run id, or `latest`; REPORT:SETTING is one of its settings.
    """
    from ragtrial.cli import gating
    from ragtrial.cli.comparison_output import say_analysis
    from ragtrial.comparison.analysis import Wanted, analyse
    from ragtrial.evaluation.metrics.spelling import spellings
    from ragtrial.views.table import usual_metrics

    if compared.baseline is not None and all_pairs:
        raise click.UsageError("--baseline and --all-pairs say two things; give one of them.")
    beside = {"--slices": slices, "--axes": axes, "--costs": costs, "--queries": queries, "--unjudged": unjudged}
    unshown = [option for option, is_asked in beside.items() if is_asked]
    if query is not None and unshown and not terminal.as_json:
        raise click.UsageError(f"--query shows one query alone; leave it out for {', '.join(unshown)}, or add --json.")
    named = None if metrics in (None, "all") else list(spellings(str(metrics)))
    contest = compared.contest(named, settings=settings, all_pairs=all_pairs)
    checks = gating.checks_of_contest(asked, contest, terminal)
    if metrics is None:
        contest = contest.limited_to(usual_metrics(contest.contenders[0].report))
    aim = compared.aim(contest, name=procedure, flips=flips, seed=seed)
    wanted = Wanted(slices=slices, axes=axes, costs=costs, queries=queries, query=query, unjudged=unjudged)
    made = analyse(contest, aim, wanted)
    findings = gating.judged_contest(checks, gating.Compared(contest, aim, made))
    say_analysis(terminal, made, wanted, everything=full, every_metric=metrics is not None)
    gating.tell(terminal, checks, findings)
    terminal.say_json({**made.model_dump(mode="json"), **gating.as_json(findings)})
    return findings.exit_code
