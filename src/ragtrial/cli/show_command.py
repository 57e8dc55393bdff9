"""ragtrial show"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import click

from ragtrial.cache.untrusted import visible
from ragtrial.cli.options import RESULTS, argument, declare, option
from ragtrial.cli.terminal import Answer, Line, Terminal
from ragtrial.comparison import commands, comparing, comparison_input, comparison_parts, report_inputs
from ragtrial.config import models
from ragtrial.errors import ComparisonError, ReportError
from ragtrial.report import model, schema
from ragtrial.runs.formats import writing
from ragtrial.scoring import query_details
from ragtrial.views import comparison_tables, report_tables as tables, texts
from ragtrial.views.table import Table


@declare("show")
def command(
    terminal: Terminal,
    *,
    report: str = argument("[REPORT]", default="latest"),
    results: str = RESULTS,
    setting: str | None = option("Only this setting.", "NAME"),
    metrics: str | None = option("Metrics to show, comma-separated; `all` shows every one.", "NAMES"),
    tag: str | None = option("Only the queries with this tag: means over them.", "NAME"),
    costs: bool = option("Show latency, embedding and indexing time, index size and context."),
    query: str | None = option("Show the hits of one query: ranks, scores, grades, texts.", "ID"),
    prompt: bool = option("With --query: the prompt template filled with the hits."),
    csv: bool = option("Print the scores as CSV, one row per setting."),
    per_query: bool = option("With --csv: one row per setting and query."),
) -> Answer:
    """Show a REPORT: a folder, a run id, or `latest`."""
    terminal.check_stdout({"--csv": "-" if csv else None})
    for is_wrong, why in (
        (prompt and query is None, "--prompt needs --query ID."),
        (per_query and not csv, "--per-query needs --csv."),
        (csv and (costs or query is not None), "--csv prints scores alone; leave out --query and --costs."),
        (tag is not None and (costs or query is not None),
         "--tag shows means over queries; leave out --query, and --costs, which are of all."),
    ):  # fmt: skip
        if is_wrong:
            raise click.UsageError(why)
    loaded = model.load_report(report, results)
    if tag is not None:
        loaded = query_details.of_tag(loaded, tag)
    chosen = [loaded.setting(setting)] if setting else loaded.ranked_settings()
    names = None if metrics in (None, "all") else tables.named_metrics(loaded, str(metrics))
    if csv or query is not None:  # else all warnings are shown
        terminal.warn([warning for warning in loaded.warnings if warning.code == "files-missing"])
    if csv:
        return _write_csv(terminal, loaded, chosen, names, per_query=per_query)
    if query is not None:
        return _query(terminal, loaded, chosen, query, prompt=prompt)
    comparison = None if metrics or setting or tag else compared_settings(loaded)
    scores: list[str | Table] = [tables.metric_table(loaded, chosen)]
    if metrics != "all":
        scores = score_blocks(loaded, comparison, terminal.width, chosen, names)
        scores.append(tables.context_table(chosen if costs else ()))
    details = detail_blocks(loaded, chosen, costs=chosen if costs else ())
    blocks = [tables.header_line(loaded, tag), "", *scores, *details]
    facts = [tables.fact_table(chosen[0])] if setting else []
    blocks += [*facts, "", tables.lowest_queries(loaded, chosen[0], terminal.width)]
    for failure in loaded.failures:
        blocks += ["", f"{failure.name} failed and has no scores: {failure.error}"]
    terminal.warn(all_warnings(loaded, comparison))
    return Answer(loaded, [*blocks, "", Line(f"report: {loaded.folder / 'report.json'}")])


def compared_settings(
    report: model.Report, config: str | None = None, labels: str = ""
) -> comparison_parts.Comparison | None:
    """All settings by the primary metric; None where it counts for no query, or where there are very many.

    ``labels`` is the file of the labels, if it is not the config's. Of the warnings those are left that may change a
    verdict.
    """
    if len(report.settings) > comparing.MOST_SETTINGS:
        return None
    with contextlib.suppress(ComparisonError, ReportError):
        inputs = comparison_input.input_of([report], [report.primary_metric], all_pairs=True, may_be_one=True)
        compared = comparing.compare_settings(inputs, comparing.ComparisonOptions(config=config, labels=labels))
        return compared.model_copy(update={"warnings": [own for own in compared.warnings if own.may_change_verdict]})
    return None


def all_warnings(report: model.Report, comparison: comparison_parts.Comparison | None) -> list[schema.WarningPart]:
    """The warnings of a comparison of the report's settings, then the warnings of the report, each once."""
    return list(dict.fromkeys([*(comparison.warnings if comparison else ()), *report.warnings]))


def result_json(report: model.Report, comparison: comparison_parts.Comparison | None) -> dict[str, Any]:
    """The result of a report that was just written, for programs."""
    about: dict[str, Any] = {"report": str(report.folder / "report.json"), "run_id": report.run_id}
    about |= {"primary_metric": report.primary_metric, "settings": tables.scores_json(report)}
    return about | ({"conclusion": comparison.conclusion} if comparison else {})


def score_blocks(
    report: model.Report, comparison: comparison_parts.Comparison | None, width: int,
    settings: Sequence[schema.SettingPart], metrics: Sequence[str] | None = None, config: str | None = None,
) -> list[str | Table]:  # fmt: skip
    """The conclusion, and the scores of ``settings`` with their verdicts, within a budget, too.

    One line if no question counts.
    """
    if not report.scored_queries().scored:
        label = commands.Commands(config=config or report_inputs.config_of(report)).label_question()
        return [f"No question has a label that counts, so there are no scores. Label an answer: {label}"]
    conclusion = [*comparison.conclusion.sentences, ""] if comparison else []
    verdicts = comparison_tables.verdict_cells(comparison) if comparison else {}
    scores = tables.score_table(report, width, settings, metrics, verdicts)
    return [*map(visible, conclusion), scores, tables.budget_table(report, settings, width)]


def detail_blocks(
    report: model.Report, settings: Sequence[schema.SettingPart], *, costs: Sequence[schema.SettingPart]
) -> list[str | Table]:
    """The costs of the settings ``costs``; of ``settings``, unanswerable questions and the losses of their indexes."""
    blocks: list[str | Table] = []
    if costs:
        blocks.append(tables.cost_table(costs))
        if len(report.settings) > models.MOST_TIMED and "latency" not in report.config:
            most = f"Latency of more than {models.MOST_TIMED} settings is measured only if asked for (`latency: true`)."
            blocks.append(most)
    return [*blocks, *tables.separation_tables(report, settings), tables.audit_table(report, settings)]


def _write_csv(
    terminal: Terminal, report: model.Report, chosen: Sequence[schema.SettingPart],
    metrics: Sequence[str] | None, *, per_query: bool,
) -> Answer:  # fmt: skip
    settings = [part.name for part in chosen]
    names = metrics or [report.primary_metric, *report.metrics]  # `compare` decides by the first
    rows = [row for row in report.rows(names, per_query=per_query) if row["setting"] in settings]
    columns = ["setting", *(["query"] if per_query else []), *names]
    with contextlib.redirect_stdout(terminal.out):
        writing.write_table("-", {column: [row[column] for row in rows] for column in columns})
    return Answer()


def _query(
    terminal: Terminal, report: model.Report, chosen: Sequence[schema.SettingPart], query: str, *, prompt: bool
) -> Answer:
    rankings = query_details.load_query(report, chosen, query)
    if prompt:
        filled = [query_details.filled_prompt(report, ranking) for ranking in rankings]
        return Answer([vars(text) for text in filled], ["\n\n".join(map(texts.prompt_text, filled))])
    text = texts.query_text(report, query, rankings, terminal.width)
    return Answer([ranking.as_json() for ranking in rankings], [text])
