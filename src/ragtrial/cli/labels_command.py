"""ragtrial labels"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragtrial.cli.terminal import Terminal, common_options
from ragtrial.errors import CorpusError, Fault, InputError, LabelsError, counted

if TYPE_CHECKING:
    from ragtrial.dataset.library import Library
    from ragtrial.labelling.importers.converting import Converted
    from ragtrial.labelling.importers.recognition import ReadLabels

_FORMATS = ("kirchhoff", "llamaindex", "squad", "chunking-evaluation", "haystack", "rows")
_LISTED = 20
_STANDARD_OUTPUT = "-"


@click.group("labels", short_help="Convert labels of other tools.")
def command() -> None:
    """Labels: known good answers, as passages of documents.

    A label with its characters survives every change of chunk size: what is scored is the passage, not the chunk.
    """


@command.command("convert")
@click.argument("file", type=click.Path())
@click.option("--corpus", metavar="PATH", help="The documents: a folder, or a corpus.jsonl.")
@click.option("--config", metavar="CONFIG", help="The config whose documents they are, instead of --corpus.")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="PATH",
    help="The labels to write: a prompt_queries.json; - is standard output.",
)
@click.option("--from", "form", type=click.Choice(_FORMATS), help="The format of FILE, if it is not detected.")
@click.option("--fuzzy", type=click.FloatRange(0, 1, min_open=True), metavar="SCORE",
              help="Take the place most like a lost passage, from this likeness on (up to 1; try 0.9).")  # fmt: skip
@click.option("--skip-lost", is_flag=True, help="Leave out labels that are nowhere; otherwise nothing is written.")
@click.option("--strict", is_flag=True, help="Write only if every label stands exactly where and as FILE says.")
@click.option("--force", is_flag=True, help="Replace the output if it is there.")
@common_options
def convert_labels(
    terminal: Terminal,
    file: str,
    corpus: str | None,
    config: str | None,
    output: str,
    form: str | None,
    fuzzy: float | None,
    *,
    skip_lost: bool,
    strict: bool,
    force: bool,
) -> int:
    """Turn labels of another tool into passages of documents.

    \b
    FILE may be, and is recognised by what it holds:
      kirchhoff            {"queries": [{"id", "text", "relevant_docs": [{"doc": a passage or an id}]}]}
      llamaindex           EmbeddingQAFinetuneDataset or LabelledRagDataset
      haystack             questions with ground truth documents, in rows or as an evaluation's inputs
      squad                SQuAD 1.1 or 2.0
      chunking-evaluation  questions_df.csv, or its rows in JSON
      rows                 JSON lines or CSV with a question and a passage (quote, passage, context, answer)
    """  # noqa: D301 - click wants the control character itself: it keeps the lines below it as they are
    from ragtrial.labelling.importers.converting import as_json, convert, report_row
    from ragtrial.labelling.importers.recognition import read_labels
    from ragtrial.options import expand_user

    if (corpus is None) == (config is None):
        raise click.UsageError("give --corpus or --config: a label is a place in documents, so they are needed.")
    if fuzzy is not None and math.isnan(fuzzy):
        raise click.BadParameter("nan is no likeness; it must be above 0 and at most 1.", param_hint="'--fuzzy'")
    output = output if output == _STANDARD_OUTPUT else str(expand_user(output))
    _check_output(terminal, output, force=force)
    read = read_labels(expand_user(file), form)
    with _documents(terminal, corpus, config) as library:
        converted = convert(read, library, fuzzy=fuzzy)
        _refuse_inexact(converted, read, library, skip_lost=skip_lost, strict=strict, fuzzy=fuzzy)
        _write(terminal, output, as_json(converted))
        _say(terminal, converted, read, library, output)
        if terminal.as_json:
            terminal.say_json(
                {
                    "exit_code": 0,
                    "format": read.form,
                    "output": output,
                    "queries": len(converted.rows["queries"]),
                    "without_answers": _without_answers(converted),
                    "counts": converted.counts,
                    "repeated": converted.repeated,
                    "labels": [report_row(one, read, library) for one in converted.placed],
                    "warnings": [asdict(note) for note in library.notes],
                }
            )
    return 0


def _refuse_inexact(
    converted: Converted, read: ReadLabels, library: Library, *, skip_lost: bool, strict: bool, fuzzy: float | None
) -> None:
    """Raises LabelsError for labels that are nowhere, and under ``strict`` for those that are not exactly there."""
    from ragtrial.labelling.importers.converting import lost_faults

    if converted.lost and not skip_lost:
        ways = "--skip-lost leaves them out" + ("" if fuzzy else "; --fuzzy 0.9 takes places that are like them")
        lost = f"{len(converted.lost):,} of {len(converted.placed):,} labels are lost; nothing was written. {ways}."
        raise LabelsError(*lost_faults(converted, read, library), Fault(str(read.content.file), message=lost))
    if strict and converted.inexact:
        raise LabelsError(*_inexact_faults(converted, read, library))


def _check_output(terminal: Terminal, output: str, *, force: bool) -> None:
    from ragtrial.runs.formats.output import check_folder

    if output == _STANDARD_OUTPUT:
        if terminal.as_json:
            raise InputError("--json and -o - both write to standard output; leave one of them out.")
        return
    check_folder(output)
    if Path(output).is_file() and not force:
        raise InputError(Fault(output, message="is there already; --force replaces it."))


def _write(terminal: Terminal, output: str, text: str) -> None:
    """Write the labels; on standard output they are alone, and what is said of them goes to stderr."""
    from ragtrial.runs.formats.output import opened

    with contextlib.redirect_stdout(terminal.out), opened(output) as file:
        file.write(text.encode("utf-8"))
    if output == _STANDARD_OUTPUT:
        terminal.out = sys.stderr


@contextlib.contextmanager
def _documents(terminal: Terminal, corpus: str | None, config: str | None) -> Iterator[Library]:
    """The documents of a config through its workspace, those of a folder for once."""
    if config is not None:
        from ragtrial.config import load_config
        from ragtrial.pipeline.corpus import Corpus

        loaded = load_config(config)
        yield Corpus(loaded, terminal.progress()).library
        return
    import tempfile

    from ragtrial.dataset.documents import corpus_files
    from ragtrial.dataset.library import Library
    from ragtrial.options import expand_user
    from ragtrial.progress import stage

    root = expand_user(corpus or "")
    if not root.exists():
        raise CorpusError(Fault(str(root), message="there is no such folder or file; --corpus names the documents."))
    corpus_files(root)
    with tempfile.TemporaryDirectory(prefix="ragtrial-") as folder:
        with stage(terminal.progress(), "documents"):
            Library.write(root, Path(folder))
        yield Library(Path(folder))


def _inexact_faults(converted: Converted, read: ReadLabels, library: Library) -> Iterator[Fault]:
    from ragtrial.labelling.importers.converting import describe_places

    for one in converted.inexact:
        places = "; ".join(filter(None, (describe_places(one, library), *one.notes)))
        yield read.content.fault_at(one.answer.where, f"a label of query {one.query!r} is {one.how}: {places}.")


def _without_answers(converted: Converted) -> int:
    return sum(not query["relevant_docs"] for query in converted.rows["queries"])


def _say(terminal: Terminal, converted: Converted, read: ReadLabels, library: Library, output: str) -> None:
    from ragtrial.dataset.passages import short
    from ragtrial.labelling.importers.converting import describe_places
    from ragtrial.labelling.importers.placement import HOWS
    from ragtrial.views.table import Table

    queries = converted.rows["queries"]
    rows = sum(len(query["relevant_docs"]) for query in queries)
    terminal.say(f"{read.content.file} ({read.form}): {counted(len(converted.placed), 'label')}")
    terminal.say()
    table = [[how, f"{count:,}", HOWS[how]] for how, count in converted.counts.items()]
    terminal.table(Table.of(["how", "labels", ""], table, texts=(0, 2)))
    inexact = converted.inexact
    most = len(inexact) if terminal.verbose else _LISTED
    listed = []
    for one in inexact[:most]:
        score = f" {one.score:.3f}" if one.how == "fuzzy" else ""
        text = one.answer.passage or one.answer.doc
        places = "; ".join(filter(None, (describe_places(one, library), *one.notes)))
        listed.append([one.query, one.how + score, f"{short(text, 50)!r}", places])
    terminal.table(Table.of(["query", "how", "text", "where"], listed, texts=(0, 1, 2, 3)), before="\n")
    if len(inexact) > most:
        terminal.say(f"... and {len(inexact) - most:,} more (-v lists all)")
    terminal.say()
    if converted.repeated:
        terminal.say(
            f"{counted(converted.repeated, 'label')} left out: an equal one of the same query stands before it"
        )
    without = f", {_without_answers(converted):,} of them without answers" if _without_answers(converted) else ""
    place = "standard output" if output == _STANDARD_OUTPUT else output
    terminal.say(f"wrote {place}: {counted(len(queries), 'query', 'queries')} with {counted(rows, 'label')}{without}")
    terminal.warn(library.notes)
