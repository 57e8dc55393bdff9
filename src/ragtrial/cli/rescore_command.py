"""ragtrial rescore"""

from __future__ import annotations

import click

from ragtrial.cli import completion
from ragtrial.cli.terminal import Terminal, common_options, results_option


@click.command("rescore")
@click.argument("report", shell_complete=completion.reports, default="latest")
@click.option("--labels", type=click.Path(), metavar="FILE", help="A prompt_queries.json, qrels, or a config.")
@click.option(
    "--metrics",
    shell_complete=completion.metrics,
    metavar="NAMES",
    help="Only these metrics, comma-separated; the first decides.",
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE",
              help="Another rule: evaluators.relevance_threshold=2.")  # fmt: skip
@click.option("--config", metavar="CONFIG", help="The config with the documents.")
@results_option
@click.option("-o", "--output", metavar="FOLDER", help="The new report's folder.  [default: beside REPORT]")
@common_options
def command(
    terminal: Terminal,
    report: str,
    labels: str | None,
    metrics: str | None,
    overrides: tuple[str, ...],
    config: str | None,
    results: str,
    output: str | None,
) -> int:
    """Score the stored rankings of a REPORT by other labels or metrics.

    Nothing is retrieved or embedded. The numbers equal a run with these labels and metrics; costs and latency are kept.
    The new report names its parent.
    """
    from ragtrial.options import expand_user
    from ragtrial.report.model import load_report
    from ragtrial.scoring.rescore import rescore
    from ragtrial.views import report_tables as tables

    made = rescore(
        load_report(report, results),
        None if labels is None else expand_user(labels),
        overrides=overrides,
        metrics=metrics,
        config_file=None if config is None else expand_user(config),
        target=None if output is None else expand_user(output),
        progress=terminal.progress(),
    )
    terminal.tell(tables.header_line(made) + "\n")
    terminal.table(tables.score_table(made, terminal.width))
    terminal.table(tables.budget_table(made, made.settings, terminal.width), before="\n")
    terminal.warn(made.warnings)
    terminal.say(f"\nreport: {made.folder / 'report.json'}")
    terminal.say_json(
        {
            "exit_code": 0,
            "report": str(made.folder / "report.json"),
            "run_id": made.run_id,
            "parent": made.parent,
            "primary_metric": made.primary_metric,
            "settings": tables.scores_json(made),
            "warnings": [vars(warning) for warning in made.warnings],
        }
    )
    return 0
