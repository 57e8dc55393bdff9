"""ragtrial compare"""

from __future__ import annotations

from typing import Any

import click

from ragtrial.cli import completion
from ragtrial.cli.gating import GateOptions, checks_for_comparison, gate_options
from ragtrial.cli.options import ComparisonInputs, contest_options
from ragtrial.cli.terminal import Terminal, common_options
from ragtrial.views.sections import all_views


class _WithViews(click.Command):
    """A command that has the options of all views."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        options: list[click.Parameter] = [
            click.Option([f"--{view.name}", view.name], is_flag=not view.metavar, metavar=view.metavar or None,
                         help=view.help)
            for view in all_views()
            if view.help
        ]  # fmt: skip
        *own, help_option = super().get_params(ctx)
        return [*own, *options, help_option]


@click.command("compare", cls=_WithViews)
@contest_options
@click.option("--across", is_flag=True, help="Compare settings of equal names over reports of different data sets.")
@click.option("--all-pairs", is_flag=True, help="Compare all pairs even when several reports are given.")
@completion.settings_option
@click.option(
    "--metrics",
    shell_complete=completion.metrics,
    metavar="NAMES",
    help="More metrics to show, comma-separated; `all` shows every one.",
)
@click.option(
    "--flips", type=click.IntRange(min=100), default=10_000, show_default=True, help="Random flips and resamples."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed for both.")
@click.option("--judge", type=click.Path(), metavar="FILE",
              help="A model's judgments (from `ragtrial judge`), which narrow the intervals.")  # fmt: skip
@click.option("--full", is_flag=True, help="Show all pairs, effects and queries, however many.")
@gate_options
@common_options
def command(
    terminal: Terminal,
    compared: ComparisonInputs,
    gates: GateOptions,
    settings: tuple[str, ...],
    metrics: str | None,
    flips: int,
    seed: int,
    judge: str | None,
    *,
    across: bool,
    all_pairs: bool,
    full: bool,
    **options: Any,
) -> int:
    """Say which settings of one or more reports are better, by how much, and how certain that is.

    A REPORT is a folder, a run id, or `latest`; REPORT:SETTING is one of its settings.
    """
    from ragtrial.comparison.comparing import with_judge
    from ragtrial.evaluation.metrics.spelling import spellings
    from ragtrial.options import expand_user
    from ragtrial.views.analysis import analyse
    from ragtrial.views.comparison_tables import comparison_blocks
    from ragtrial.views.report_tables import usual_metrics

    if compared.baseline is not None and all_pairs:
        raise click.UsageError("--baseline and --all-pairs say two things; give one of them.")
    views = [view for view in all_views() if options.get(view.name) not in (None, False)]
    if across:
        switches = {"all-pairs": all_pairs, "common": compared.common, "judge": judge, "metrics": metrics}
        given = [f"--{name}" for name, value in switches.items() if value] + [f"--{view.name}" for view in views]
        if given or gates != GateOptions():
            first = given[0] if given else "gates"
            raise click.UsageError(f"--across cannot be combined with {first}; remove one of them.")
        return _across(terminal, compared, settings)
    alone = [view for view in views if view.alone]
    if alone and len(views) > 1 and not terminal.as_json:
        raise click.UsageError(f"--{alone[0].name} shows {alone[0].alone} alone; add --json, or leave the others out.")
    named = None if metrics in (None, "all") else list(spellings(str(metrics)))
    contest = compared.contest(named, settings=settings, all_pairs=all_pairs, may_be_unlabelled=judge is not None)
    if judge is not None and metrics is None:
        contest = contest.limited_to(usual_metrics(contest.report))
    aim = compared.aim(contest, flips=flips, seed=seed)
    if judge is not None:
        aim = with_judge(contest, aim, expand_user(judge))
        contest = contest if aim.judge is None else aim.judge.inputs
    checks = checks_for_comparison(gates, contest, terminal)
    if metrics is None:
        contest = contest.limited_to(usual_metrics(contest.report))
    made = analyse(contest, aim, **options)
    findings = checks.of_comparison(contest, aim, made)
    if not alone:
        terminal.show(comparison_blocks(made, terminal.width, everything=full, every_metric=metrics is not None))
    for view in views:
        terminal.show(view.blocks(view.of(made), terminal.width, everything=full))
    terminal.warn(made.warnings if alone else made.all_warnings)
    checks.write(terminal, findings)
    whole = made.model_dump(mode="json", exclude={"comparisons"})
    terminal.say_json({**whole, "comparisons": made.comparisons, **findings.as_json()})
    return findings.exit_code


def _across(terminal: Terminal, compared: ComparisonInputs, settings: tuple[str, ...]) -> int:
    from ragtrial.comparison.across import compare_across
    from ragtrial.views.comparison_tables import across_blocks

    made = compare_across(
        compared.reports,
        baseline=compared.baseline,
        settings=settings or None,
        metric=compared.metric,
        margin=compared.margin,
        confidence=compared.confidence,
        directory=compared.results,
    )
    terminal.show(across_blocks(made, terminal.width))
    terminal.say_json(made.model_dump(mode="json"))
    return 0
