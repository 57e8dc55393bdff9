"""ragtrial compare"""

from __future__ import annotations

from pathlib import Path

import click

from ragtrial.cli.gating import GateOptions, checks_for_comparison
from ragtrial.cli.inputs import TableInputs
from ragtrial.cli.options import SETTINGS, declare, option
from ragtrial.cli.terminal import Answer, Terminal
from ragtrial.comparison import across as over_reports
from ragtrial.evaluation.metrics import spelling
from ragtrial.views import analysis, comparison_tables, report_tables, sections


class _WithViews(click.Command):
    """A command that has the options of all views."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        options: list[click.Parameter] = [
            click.Option([f"--{view.name}", view.name], is_flag=True, help=view.help)
            for view in sections.all_views()
            if view.help
        ]
        *own, help_option = super().get_params(ctx)
        return [*own, *options, help_option]


@declare("compare", kind=_WithViews)
def command(
    terminal: Terminal,
    *,
    compared: TableInputs,
    across: bool = option("Compare settings of equal names over reports of different data sets."),
    all_pairs: bool = option("Show all pairs, and compare them in several reports, too."),
    settings: tuple[str, ...] = SETTINGS,
    metrics: str | None = option("More metrics to show, comma-separated; `all` shows every one.", "NAMES"),
    flips: int = option("Random flips and resamples.", default=10_000, at_least=100),
    seed: int = option("Random seed for both.", default=0, at_least=0),
    judge: Path | None = option("A model's judgments (from `ragtrial judge`), which narrow the intervals.", "FILE"),
    full: bool = option("Show all pairs, effects and queries, however many."),
    gates: GateOptions,
    **options: bool,
) -> Answer:
    """Say which settings are better, by how much, and how certain that is.

    A REPORT is a folder, a run id, or `latest`; REPORT:SETTING is one of its settings. It may also be a table of scores
    per question, or results of another tool: CSV, JSON, Parquet; - is standard input.
    """
    if compared.baseline is not None and all_pairs:
        raise click.UsageError("--baseline and --all-pairs say two things; give one of them.")
    views = [view for view in sections.all_views() if options.get(view.name)]
    if across:
        switches = {"--all-pairs": all_pairs, "--common": compared.common, "--judge": judge, "--metrics": metrics}
        switches |= {**dict.fromkeys((f"--{view.name}" for view in views), True), "gates": not gates.is_empty}
        for name in (name for name, value in switches.items() if value):
            raise click.UsageError(f"--across cannot be combined with {name}; remove one of them.")
        over_data_sets = over_reports.compare_across(
            compared.reports, baseline=compared.baseline, settings=settings or None, metric=compared.metric,
            margin=compared.margin, confidence=compared.confidence, directory=compared.results, better=compared.better,
        )  # fmt: skip
        return Answer(over_data_sets, comparison_tables.across_blocks(over_data_sets, terminal.width))
    named = None if metrics in (None, "all") else list(spelling.spellings(str(metrics)))
    inputs = compared.inputs(named, settings=settings, all_pairs=all_pairs, may_be_unlabelled=judge is not None)
    if judge is not None and metrics is None:
        inputs = inputs.limited_to(report_tables.usual_metrics(inputs.report))
    inputs, chosen = compared.with_options(inputs, judge, flips=flips, seed=seed)
    checks = checks_for_comparison(gates, inputs, terminal)
    if metrics is None:
        inputs = inputs.limited_to(report_tables.usual_metrics(inputs.report))
    comparison = analysis.analyse(inputs, chosen, **options)
    findings = checks.of_comparison(inputs, chosen, comparison)
    blocks = {view: view.blocks(view.of(comparison), terminal.width, everything=full) for view in views}
    for view in (view for view in views if view.is_first):
        terminal.show([*blocks.pop(view), ""], before="")
    every, pairs = metrics is not None, full or all_pairs
    terminal.show(comparison_tables.comparison_blocks(comparison, terminal.width, everything=pairs, every_metric=every))
    for later in blocks.values():
        terminal.show(later)
    total, errors = checks.write(findings)
    whole = comparison.model_dump(mode="json", exclude={"comparisons"})
    content = {**whole, "comparisons": comparison.comparisons, **findings.as_json()}
    terminal.warn(comparison.all_warnings)
    return Answer(content, total, errors=errors, code=findings.exit_code)
