"""ragtrial rescore"""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path

from ragtrial.cli.options import RESULTS, argument, declare, option
from ragtrial.cli.terminal import Answer, Line, Terminal
from ragtrial.comparison import report_inputs
from ragtrial.errors import ReportError
from ragtrial.report import find, model
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
    blocks += _comparison_with_another_run(scored)
    return Answer({**content, **settings}, blocks, scored.warnings)


def _comparison_with_another_run(scored: model.Report) -> list[str | Table]:
    """The command that compares the rescored run with the newest other run beside it, the earlier run first.

    Empty if there is no other run, or if its labels differ, or it lacks the metric.
    """
    for folder in reversed(find.list_runs(scored.folder.absolute().parent)):
        with suppress(ReportError):
            first, last = sorted([scored, model.load_report(folder)], key=lambda report: report.original_run)
            if first.original_run != last.original_run:
                both = shlex.join([*report_inputs.references_to(first), *report_inputs.references_to(last)])
                metric, have_both = scored.primary_metric, scored.primary_metric in first.metrics.keys() & last.metrics
                is_same = have_both and not report_inputs.why_incomparable(first, last, metric)
                return [Line(f"Next: ragtrial compare {both}")] if is_same else []
    return []
