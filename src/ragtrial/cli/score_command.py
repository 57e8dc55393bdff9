"""ragtrial score"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from ragtrial.cli.export_command import DUPLICATES
from ragtrial.cli.options import argument, declare, option
from ragtrial.cli.terminal import Answer, Line, Terminal
from ragtrial.evaluation import metrics as known_metrics
from ragtrial.runs import inputs, streams
from ragtrial.runs.formats import guessing, writing
from ragtrial.scoring import score_runs
from ragtrial.views import run_tables
from ragtrial.views.table import Table

_FORMS = {kind: click.Choice(forms) for kind, forms in guessing.FORMS_OF.items()}


@dataclass(frozen=True)
class _Rules:
    """The rules of a protocol, but for its metrics."""

    relevance_threshold: int = option("Grade that counts as relevant.", default=1)
    no_relevant: Literal["skip", "zero"] | None = option("Queries without relevant documents (default: skip).")
    depth: int | None = option("Cut every ranking at this rank first.")
    judged_only: bool = option("Drop hits that nobody judged first.")
    duplicates: Literal["error", "first"] = DUPLICATES
    trec_compat: bool = option("Order, ties, topics and negative grades as trec_eval has them.")
    ties: bool = option("Show what the order of equal scores could change.")
    clusters: Literal["document"] | None = option(
        "With --output: `compare` takes questions that share relevant documents as one cluster."
    )

    def protocol(self, metrics: str | None) -> score_runs.Protocol:
        """With the metrics that were named, or the usual ones. Raises MetricError for other names."""
        names = score_runs.STANDARD_METRICS if metrics is None else metrics
        parsed = tuple(known_metrics.parse_metrics(names, trec=self.trec_compat))
        return score_runs.Protocol(parsed, **{**vars(self), "no_relevant": self.no_relevant or "skip"})


@declare("score")
def command(
    terminal: Terminal,
    *,
    files: tuple[str, ...] = argument("QRELS RUN...", required=True),
    metrics: str | None = option("Metrics, comma-separated: ndcg@10,ap,P_10.  [default: a usual few]", "NAMES"),
    labels: str | None = option("Judgments are in this file; all of the others are runs.", "FILE"),
    rules: _Rules,
    per_query: str | None = option("Write every query's values: .csv .jsonl .md, or -.", "FILE"),
    output: str | None = option("Make a report of it, a new folder that `show` reads.", "REPORT", flags="-o --output"),
    qrels_format: guessing.Form | None = option("The qrels' format, if it is not detected.", type=_FORMS["qrels"]),
    run_format: guessing.Form | None = option(
        "The format of the runs, if it is not detected.", flags="--format", type=_FORMS["run"]
    ),
    qrels_columns: str | None = option("Columns of a table: query=qid,document=docno,grade=label.", "NAMES"),
    columns: str | None = option("Columns of the runs: query=qid,document=docno,score=sim (or rank=).", "NAMES"),
) -> Answer:
    """Score runs by qrels.

    QRELS and RUNs may be TREC or MS MARCO files, BEIR tsv, JSON, JSONL or Parquet, plain or .gz, `-` for standard
    input; labels (prompt_queries.json) and reports, too. RUNs may be OpenTelemetry or OpenInference spans of
    retrievers, and predictions of MTEB. `ragtrial explain METRIC` says what a metric is.
    """
    qrels, runs = (labels, files) if labels else (files[0], files[1:])
    for is_wrong, why in (
        (not runs, "there is no RUN behind QRELS; with --labels FILE all files are runs."),
        ([qrels, *runs].count("-") > 1, "standard input can be read once; only one file may be `-`."),
        (rules.trec_compat and rules.no_relevant == "skip",
         "--trec-compat counts every query; it cannot be with --no-relevant skip."),
        (rules.clusters and not output, "--clusters is for comparisons of a report; add --output REPORT."),
        (output == "-", "--output is a folder; --json prints the scores for programs."),
    ):  # fmt: skip
        if is_wrong:
            raise click.UsageError(why)
    protocol = rules.protocol(metrics)
    given = inputs.RunInput(
        qrels, runs, qrels_form=qrels_format, run_form=run_format,
        qrels_columns=_columns("--qrels-columns", qrels_columns, "grade"),
        run_columns=_columns("--columns", columns, "score"),
    )  # fmt: skip
    if per_query not in (None, "-"):
        writing.table_form(per_query)
        streams.check_folder(per_query)
    if output:
        from ragtrial.scoring import as_report  # scores do without pydantic, which this needs

        as_report.check_target(Path(output), given)
    scoring = score_runs.score_given(given, protocol)
    if per_query and not (per_query == "-" and terminal.as_json):
        with contextlib.redirect_stdout(terminal.out):
            writing.write_table(per_query, scoring.long_table())
    folder = as_report.write_score_report(scoring, output).folder if output else None
    blocks = [] if per_query == "-" else _blocks(terminal, scoring)
    if folder and blocks:
        blocks += ["", Line(f"report: {folder / 'report.json'}")]
    for run in scoring.runs:
        terminal.note(run_tables.time_line(run))
    content = scoring.as_json(per_query=per_query == "-")
    content |= {"report": str(folder)} if folder else {}
    return Answer(content, blocks, [warning for run in scoring.runs for warning in run.warnings])


def _blocks(terminal: Terminal, scoring: score_runs.Scoring) -> list[str | Table]:
    return [run_tables.run_table(scoring, terminal.width), *map(run_tables.tie_table, scoring.runs)]


def _columns(name: str, text: str | None, value: str) -> Mapping[str, str] | None:
    """``{"query": "qid"}`` from ``query=qid``."""
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(role and mark and column for role, mark, column in pairs):
        raise click.UsageError(f"{name} is {text!r}; write it like query=NAME,document=NAME,{value}=NAME.")
    return {role.strip(): column.strip() for role, _, column in pairs}
