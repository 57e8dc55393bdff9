"""ragtrial plan"""

from __future__ import annotations

from ragtrial import config as configs
from ragtrial.cli.options import CONFIG, OVERRIDES, declare, option
from ragtrial.cli.terminal import Answer, Terminal
from ragtrial.components.embedders import model_files
from ragtrial.errors import counted
from ragtrial.pipeline import run as runs
from ragtrial.progress import Listener
from ragtrial.search import search_run
from ragtrial.views import dry_run_lines


@declare("plan")
def command(
    terminal: Terminal,
    *,
    config: str = CONFIG,
    overrides: tuple[str, ...] = OVERRIDES,
    limit: int | None = option("As if only the first N queries were run.", "N", at_least=1),
    audit: bool = option("As if `run --audit` were asked for."),
    no_latency: bool = option("As if `run --no-latency` were asked for."),
) -> Answer:
    """Say what `run` would do, why, and how long it would take.

    Shows cached stages, stages to do, and reasons. Reads the documents, builds nothing, and neither loads nor fetches a
    model. -v names the settings of each stage.
    """
    model_files.disable_downloads()
    experiment = configs.load_config(config, [*overrides, "latency=false"] if no_latency else overrides)
    run = runs.Run.of(experiment, runs.RunOptions(limit=limit, audit=audit, listener=Listener(terminal.progress())))
    plan = run.dry_run()
    run.corpus.resources.workspace.digests.save()
    stages = counted(len(plan.stages), "stage")
    lines = [f"{plan.experiment}: {counted(len(plan.settings), 'setting')}, {stages} in {plan.workspace}", ""]
    lines += dry_run_lines.plan_lines(plan, terminal.width, verbose=terminal.verbose)
    lines += ["", *dry_run_lines.total_lines(plan)]
    if search := experiment.search:
        more = f"These are the settings of the config; the search ({search.method}) tries up to {search.settings} more."
        lines += ["", f"{more} {search_run.power_sentence(search_run.split_of(run, search), search)}"]
    return Answer(dry_run_lines.plan_json(plan), lines, run.setting_warnings)
