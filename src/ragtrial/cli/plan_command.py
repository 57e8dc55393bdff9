"""ragtrial plan"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ragtrial.cli.terminal import Terminal, common_options, config_argument, override_option
from ragtrial.errors import counted
from ragtrial.progress import Listener

if TYPE_CHECKING:
    from ragtrial.config.sweep import SearchOptions
    from ragtrial.pipeline.run import Run


@click.command("plan")
@config_argument
@override_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="As if only the first N queries were run.")
@click.option("--audit", is_flag=True, help="As if `run --audit` were asked for.")
@click.option("--no-latency", is_flag=True, help="As if `run --no-latency` were asked for.")
@common_options
def command(
    terminal: Terminal, config: str, overrides: tuple[str, ...], limit: int | None, *, audit: bool, no_latency: bool
) -> int:
    """Show the plan of `run` for CONFIG: cached stages, stages to do, reasons, and an estimate of the time.

    Reads the documents, builds nothing, and neither loads nor fetches a model. -v names the settings of each stage.
    """
    from ragtrial.components.embedders.model_files import disable_downloads
    from ragtrial.config import load_config
    from ragtrial.pipeline.run import Run, RunOptions
    from ragtrial.views.dry_run_lines import plan_json, plan_lines, total_lines

    disable_downloads()

    experiment = load_config(config, [*overrides, "latency=false"] if no_latency else overrides)
    run = Run.of(experiment, RunOptions(limit=limit, audit=audit, listener=Listener(terminal.progress())))
    plan = run.dry_run()
    run.corpus.resources.workspace.digests.save()
    stages = counted(len(plan.stages), "stage")
    terminal.say(f"{plan.experiment}: {counted(len(plan.settings), 'setting')}, {stages} in {plan.workspace}\n")
    for line in [*plan_lines(plan, terminal.width, verbose=terminal.verbose), "", *total_lines(plan)]:
        terminal.say(line)
    if experiment.search:
        terminal.tell(f"\n{_search_line(experiment.search, run)}")
    warnings = run.setting_warnings
    terminal.warn(warnings)
    terminal.say_json({"exit_code": 0, **plan_json(plan), "warnings": [asdict(one) for one in warnings]})
    return 0


def _search_line(options: SearchOptions, run: Run) -> str:
    """The settings that a search adds to the settings of the config, and the difference that it can show."""
    from ragtrial.search.split import power_sentence, split_queries

    labels, seed = run.resolved.labels.queries, run.config.seed
    split = split_queries(labels, options, seed, run.dataset.labels_file)
    more = f"These are the settings of the config; the search ({options.method}) tries up to {options.settings} more."
    return f"{more} {power_sentence(split, options)}"
