"""ragtrial export"""

from __future__ import annotations

import contextlib

import click

from ragtrial.cli.terminal import Terminal, common_options

_SCORES = {"own": "with the scores they have", "by rank": "with scores that say the order: some of theirs are equal"}
_FORMS = ("trec", "msmarco", "beir", "csv", "json", "jsonl", "parquet", "labels", "report", "rankings", "results")


@click.command("export")
@click.argument("source", type=click.Path())
@click.argument("target", type=click.Path())
@click.option("--qrels", is_flag=True, help="SOURCE holds judgments (default: a run).")
@click.option("--run", "wanted", metavar="NAME", help="Which run, where SOURCE holds several: a setting of a report.")
@click.option("--format", "form", type=click.Choice(_FORMS), help="The format of SOURCE, if it is not detected.")
@click.option("--duplicates", type=click.Choice(["error", "first"]), default="error", show_default=True,
              help="A document that occurs twice in a ranking: an error, or the first counts.")  # fmt: skip
@common_options
def command(
    terminal: Terminal, source: str, target: str, wanted: str | None, form: str | None, duplicates: str, *, qrels: bool
) -> int:
    """Write a run, or judgments, as trec_eval reads them.

    SOURCE may be any file that `ragtrial score` reads: a report, results, labels (with --qrels). TARGET may end in .gz,
    or be `-` for standard output. trec_eval sorts rows by score in single precision, equal scores by id, descending.
    Rows keep their scores if that gives their order; otherwise they get scores that count down.
    """
    from ragtrial.runs.formats.writing import write_trec_qrels, write_trec_run
    from ragtrial.runs.inputs import chosen_run, read_qrels

    answer: dict[str, str | int] = {"exit_code": 0, "target": target}
    with contextlib.redirect_stdout(terminal.out):
        if qrels:
            judged = read_qrels(source, form=form)  # type: ignore[arg-type]  # click checks
            write_trec_qrels(target, judged)
            done = f"{len(judged.documents):,} judgments of {len(judged):,} queries"
        else:
            run = chosen_run(source, wanted, duplicates, form)  # type: ignore[arg-type]  # click checks
            scores = write_trec_run(target, run)
            done = f"{len(run.documents):,} hits of {len(run):,} queries, {_SCORES[scores]}"
    terminal.note(f"{target}: {done}")
    terminal.say_json(answer)
    return 0
