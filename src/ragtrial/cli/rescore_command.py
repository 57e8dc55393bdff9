"""ragtrial rescore"""

from __future__ import annotations

from pathlib import Path

from ragtrial.cli.options import RESULTS, argument, declare, option
from ragtrial.cli.show_command import all_warnings, compared_settings, result_json, score_blocks
from ragtrial.cli.terminal import Answer, Line, Terminal
from ragtrial.report import model
from ragtrial.scoring import rescore
from ragtrial.views import report_tables


@declare("rescore")
def command(
    terminal: Terminal,
    *,
    report: str = argument("[REPORT]", default="latest"),
    labels: Path | None = option("A prompt_queries.json, qrels, a config, or a report with the labels.", "FILE"),
    metrics: str | None = option("Only these metrics, comma-separated; the first decides.", "NAMES"),
    overrides: tuple[str, ...] = option("Another rule: evaluators.relevance_threshold=2.", "KEY=VALUE", flags="--set"),
    config: Path | None = option("The config with the documents.", "CONFIG"),
    results: str = RESULTS,
    output: Path | None = option("The new report's folder.  [default: beside REPORT]", "FOLDER", flags="-o --output"),
) -> Answer:
    """Score stored rankings by other labels or metrics.

    Nothing is retrieved or embedded. The numbers equal a run with these labels and metrics; costs and latency are kept.
    The new report names its parent.
    """
    scored = rescore.rescore(
        model.load_report(report, results), labels, overrides=overrides, metrics=metrics, config_file=config,
        target=output, progress=terminal.progress(),
    )  # fmt: skip
    comparison = compared_settings(scored, labels=str(labels) if labels and labels.suffix == ".json" else "")
    tables = score_blocks(scored, comparison, terminal.width, scored.ranked_settings())
    blocks = [report_tables.header_line(scored), "", *tables, "", Line(f"report: {scored.folder / 'report.json'}")]
    content = {**result_json(scored, comparison), "parent": scored.parent}
    return Answer(content, blocks, all_warnings(scored, comparison))
