"""ragtrial export"""

from __future__ import annotations

import contextlib
from typing import Literal

import click

from ragtrial.cli.options import argument, declare, option
from ragtrial.cli.terminal import Answer, Terminal
from ragtrial.errors import counted, listed
from ragtrial.runs import inputs
from ragtrial.runs.formats import guessing, writing

DUPLICATES = option("A document that occurs twice in a ranking: an error, or the first counts.", default="error")
_SCORES = {"own": "with the scores they have", "by rank": "with scores that say the order: some of theirs are equal"}


@declare("export")
def command(
    terminal: Terminal,
    *,
    source: str = argument("SOURCE", type=click.Path()),
    target: str = argument("TARGET", type=click.Path()),
    qrels: bool = option("SOURCE holds judgments (default: a run)."),
    baseline: bool = option("Write the scores of each question of a REPORT as CSV, for --baseline of later runs."),
    metrics: str | None = option("With --baseline: metrics, comma-separated; `all` writes every one.", "NAMES"),
    wanted: str | None = option("Which run, where SOURCE holds several: a setting of a report.", "NAME", flags="--run"),
    form: guessing.Form | None = option("The format of SOURCE, if it is not detected.", flags="--format"),
    duplicates: Literal["error", "first"] = DUPLICATES,
) -> Answer:
    """Write a run, or judgments, as trec_eval reads them; or a baseline to commit.

    SOURCE may be any file that `ragtrial score` reads: a report, results, labels (with --qrels). TARGET may end in .gz,
    or be `-` for standard output. trec_eval sorts rows by score in single precision, equal scores by id, descending.
    Rows keep their scores if that gives their order; otherwise they get scores that count down.
    """
    if (metrics is not None and not baseline) or (baseline and (qrels or form is not None)):
        raise click.UsageError("--baseline cannot be combined with --qrels and --format, and --metrics needs it.")
    with contextlib.redirect_stdout(terminal.out):
        if baseline:
            done = _write_baseline(source, target, wanted, metrics)
        elif qrels:
            judged = inputs.read_qrels(source, form=form)
            writing.write_trec_qrels(target, judged)
            done = f"{counted(len(judged.documents), 'judgment')} of {counted(len(judged), 'query', 'queries')}"
            if judged.judgments.groups is not None:
                done += "; qrels have no groups, so alternatives count one by one"
        else:
            run = inputs.chosen_run(source, wanted, duplicates, form)
            scores = writing.write_trec_run(target, run)
            done = f"{counted(len(run.documents), 'hit')} of {counted(len(run), 'query', 'queries')}, {_SCORES[scores]}"
    terminal.note(f"{target}: {done}")
    return Answer({"target": target})


def _write_baseline(source: str, target: str, setting: str | None, metrics: str | None) -> str:
    """Write a row for each question of ``setting``, or of all settings; what was written."""
    from ragtrial.report import model  # with pydantic, which runs do without
    from ragtrial.views import report_tables

    report = model.load_report(source, inputs.REPORTS)
    settings = [report.setting(setting)] if setting else report.settings
    names = list(report.metrics) if metrics == "all" else report_tables.usual_metrics(report)
    if metrics not in (None, "all"):
        names = report_tables.named_metrics(report, str(metrics))
    writing.write_table(target, report_tables.baseline_columns(report, settings, names), form="csv")
    count = counted(len(report.queries), "question")
    return f"scores of {count} by {listed(names)}, of {listed(own.name for own in settings)}"
