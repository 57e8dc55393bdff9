"""ragtrial score"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragtrial.cli import completion
from ragtrial.cli.terminal import Terminal, common_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ragtrial.scoring.score_runs import Scoring

_QRELS_FORMS = ("trec", "beir", "json", "jsonl", "parquet", "labels", "report")
_RUN_FORMS = ("trec", "msmarco", "csv", "json", "jsonl", "parquet", "report", "rankings", "results")


def _refuse_z_scores(_context: click.Context, _option: click.Parameter, given: str | None) -> None:
    if given is not None:
        raise click.UsageError(
            "z-scores are not computed: they need the mean and the deviation of many systems for each query, which "
            "nobody has for their own documents. Compare runs with -o REPORT and `ragtrial compare`."
        )


@click.command("score")
@click.argument("files", nargs=-1, required=True, metavar="QRELS RUN...")
@click.option(
    "--metrics",
    shell_complete=completion.metrics,
    metavar="NAMES",
    help="Metrics, comma-separated: ndcg@10,ap,P_10.  [default: a usual few]",
)
@click.option("--labels", type=click.Path(), help="Judgments are in this file; all of the others are runs.")
@click.option("--relevance-threshold", type=int, default=1, show_default=True, help="Grade that counts as relevant.")
@click.option("--no-relevant", type=click.Choice(["skip", "zero"]),
              help="Queries for which a metric is not defined: leave out, or count.  [default: skip]")  # fmt: skip
@click.option("--depth", type=int, help="Cut every ranking at this rank first.")
@click.option("--judged-only", is_flag=True, help="Drop hits that nobody judged first.")
@click.option("--duplicates", type=click.Choice(["error", "first"]), default="error", show_default=True,
              help="A document that occurs twice in a ranking: an error, or the first counts.")  # fmt: skip
@click.option("--trec-compat", is_flag=True, help="Order, ties, topics and negative grades as trec_eval has them.")
@click.option("-Z", "-z", "--zscores", is_flag=False, flag_value="", hidden=True, expose_value=False,
              callback=_refuse_z_scores)  # fmt: skip
@click.option("--bounds", is_flag=True, help="Show what unjudged documents could change.")
@click.option("--ties", is_flag=True, help="Show what the order of equal scores could change.")
@click.option("--per-query", metavar="FILE", help="Write every query's values: .csv .jsonl .json .parquet .md, or -.")
@click.option("--table", "table_file", metavar="FILE", help="Write the means: .csv .jsonl .json .parquet .md.")
@click.option("-o", "--output", metavar="REPORT", help="Make a report of it, a new folder that `show` reads.")
@click.option("--qrels-format", type=click.Choice(_QRELS_FORMS), help="The format of the qrels, if it is not detected.")
@click.option(
    "--format", "run_format", type=click.Choice(_RUN_FORMS), help="The format of the runs, if it is not detected."
)
@click.option("--qrels-columns", metavar="NAMES", help="Columns of a table: query=qid,document=docno,grade=label.")
@click.option("--columns", metavar="NAMES", help="Columns of the runs: query=qid,document=docno,score=sim (or rank=).")
@common_options
def command(terminal: Terminal, files: tuple[str, ...], **options: Any) -> int:
    """Score runs by qrels.

    QRELS and RUNs may be TREC or MS MARCO files, BEIR tsv, JSON, JSONL or Parquet, plain or .gz, `-` for standard
    input; labels (prompt_queries.json) and reports, too. `ragtrial explain METRIC` says what a metric is.
    """
    from ragtrial.evaluation.metrics import parse_metrics
    from ragtrial.runs.formats.writing import write_table
    from ragtrial.runs.inputs import RunInput
    from ragtrial.scoring.score_runs import STANDARD_METRICS, Protocol, score_given

    qrels, runs = (options["labels"], files) if options["labels"] else (files[0], files[1:])
    _check_options([qrels, *runs], options)
    options["no_relevant"] = options["no_relevant"] or "skip"
    metrics = options["metrics"]
    protocol = Protocol(
        tuple(parse_metrics(STANDARD_METRICS if metrics is None else metrics, trec=options["trec_compat"])),
        **{name: options[name] for name in ("relevance_threshold", "no_relevant", "depth", "judged_only", "duplicates",
                                            "trec_compat", "bounds", "ties")},
    )  # fmt: skip
    given = RunInput(
        qrels,
        runs,
        qrels_form=options["qrels_format"],
        run_form=options["run_format"],
        qrels_columns=_columns("--qrels-columns", options["qrels_columns"], "grade"),
        run_columns=_columns("--columns", options["columns"], "score"),
    )
    per_query, table_file = options["per_query"], options["table_file"]
    for target in filter(None, (per_query, table_file)):
        _check_file(target)
    if options["output"]:
        from ragtrial.scoring.as_report import check_target

        check_target(Path(options["output"]), given)
    scoring = score_given(given, protocol)
    with contextlib.redirect_stdout(terminal.out):
        if per_query and not (per_query == "-" and terminal.as_json):
            write_table(per_query, scoring.long_table())
        if table_file:
            write_table(table_file, scoring.mean_table())
    folder = None
    if options["output"]:
        from ragtrial.scoring.as_report import write_score_report

        folder = write_score_report(scoring, given, options["output"]).folder
    _say(terminal, scoring, folder, per_query=per_query == "-")
    return 0


def _check_options(files: Sequence[str], options: Mapping[str, Any]) -> None:
    if len(files) < 2:
        raise click.UsageError("there is no RUN behind QRELS; with --labels FILE all files are runs.")
    if files.count("-") > 1:
        raise click.UsageError("standard input can be read once; only one file may be `-`.")
    if options["trec_compat"] and options["no_relevant"] == "skip":
        raise click.UsageError("--trec-compat counts every query; it cannot be with --no-relevant skip.")
    if "-" in (options["table_file"], options["output"]):
        raise click.UsageError("--table and --output are files; --json prints the scores for programs.")


def _check_file(target: str) -> None:
    """Raises InputError if a table cannot become ``target``."""
    from ragtrial.runs.formats.writing import table_form
    from ragtrial.runs.streams import check_folder

    if target != "-":
        table_form(target)
        check_folder(target)


def _say(terminal: Terminal, scoring: Scoring, folder: Path | None, *, per_query: bool) -> None:
    """The scores on stdout, as tables or as JSON; warnings and where the time went on stderr."""
    from ragtrial.views import run_tables as tables

    if not per_query or terminal.as_json:
        terminal.table(tables.run_table(scoring, terminal.width))
        for run in scoring.runs:
            terminal.table(tables.range_table(run, run.bounds, "unjudged hits"), before="\n")
            for line in tables.reason_lines(run):
                terminal.say(line)
            terminal.table(tables.range_table(run, run.tie_ranges, "equal scores"), before="\n")
        if folder:
            terminal.say(f"\nreport: {folder / 'report.json'}")
    answer: dict[str, Any] = {"exit_code": 0, **scoring.as_json(per_query=per_query)}
    terminal.say_json({**answer, "report": str(folder)} if folder else answer)
    terminal.warn([warning for run in scoring.runs for warning in run.warnings])
    for run in scoring.runs:
        terminal.note(tables.time_line(run))


def _columns(option: str, text: str | None, value: str) -> dict[str, str] | None:
    """``{"query": "qid"}`` from ``query=qid``."""
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(role and mark and name for role, mark, name in pairs):
        raise click.UsageError(f"{option} is {text!r}; write it like query=NAME,document=NAME,{value}=NAME.")
    return {role.strip(): name.strip() for role, _, name in pairs}
