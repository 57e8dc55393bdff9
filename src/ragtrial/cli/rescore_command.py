"""ragtrial rescore"""

from __future__ import annotations

from pathlib import Path

from ragtrial.cli.options import RESULTS, argument, declare, option
from ragtrial.cli.terminal import Answer, Line, Terminal
from ragtrial.report import model
from ragtrial.scoring import rescore
from ragtrial.views import report_tables
from ragtrial.views.table import Table


@declare("rescore")
def command(
    terminal: Terminal,
    *,
    report: str = argument("[REPORT]", default="latest"),
    labels: Path | None = option("A prompt_queries.json, qrels, or a config.", "FILE"),
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
    content = {"report": str(scored.folder / "report.json"), "run_id": scored.run_id, "parent": scored.parent}
    settings = {"primary_metric": scored.primary_metric, "settings": report_tables.scores_json(scored)}
    tables: list[str | Table] = [report_tables.score_table(scored, terminal.width),
              report_tables.budget_table(scored, scored.settings, terminal.width)]  # fmt: skip
    blocks = [report_tables.header_line(scored), "", *tables, "", Line(f"report: {content['report']}")]
    return Answer({**content, **settings}, blocks, scored.warnings)
