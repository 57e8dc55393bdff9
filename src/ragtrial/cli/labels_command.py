"""ragtrial labels"""

from __future__ import annotations

import contextlib
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragtrial.cli.terminal import Terminal, common_options, config_option
from ragtrial.dataset.documents import corpus_files
from ragtrial.dataset.texts import short
from ragtrial.errors import CorpusError, Fault, InputError, LabelsError, counted
from ragtrial.labelling.label_files import Change, Grade, current_user, label_store, query_of
from ragtrial.progress import stage
from ragtrial.records import UNANSWERABLE
from ragtrial.runs.streams import check_folder, written
from ragtrial.views.table import Table

if TYPE_CHECKING:
    from ragtrial.dataset.library import Library
    from ragtrial.labelling.edits import Prefer
    from ragtrial.labelling.importers.base import Empty, ReadLabels
    from ragtrial.labelling.importers.converting import Converted
    from ragtrial.labelling.label_files import LabelsText

_FORMATS = ("kirchhoff", "llamaindex", "squad", "chunking-evaluation", "rows")
_LISTED = 20
_MOST_DOCUMENTS = 5
_ACTIONS = (
    ("query", "query", "queries", "added"),
    ("remove query", "query", "queries", "removed"),
    ("add", "judgment", "judgments", "added"),
    ("change", "judgment", "judgments", "changed"),
    ("remove", "judgment", "judgments", "removed"),
)
_STANDARD_OUTPUT = "-"


@click.group("labels")
def command() -> None:
    """Labels: known good answers, as passages of documents.

    A label with its characters survives every change of chunk size: the passage is scored, not the chunk.
    """


_who_option = click.option("--who", metavar="NAME",
                           help="Who labels, for the history (default: the user of the machine).")  # fmt: skip


@command.command("list")
@config_option
@common_options
def list_labels(terminal: Terminal, config: str) -> int:
    """List the queries of CONFIG's labels: id, judgments, relevant judgments, tags, text."""
    from ragtrial.config import load_config
    from ragtrial.dataset.datasets import load_dataset

    loaded = load_config(config)
    labels, threshold = load_dataset(loaded.dataset).labels, loaded.evaluators.relevance_threshold
    rows: list[dict[str, Any]] = [
        {
            "id": one.id,
            "judgments": len(one.relevant_docs),
            "relevant": sum(label.relevance >= threshold for label in one.relevant_docs),
            "tags": list(one.tags),
            "text": one.text,
        }
        for one in labels.queries
    ]
    cells = [[row["id"], str(row["judgments"]), str(row["relevant"]), ", ".join(row["tags"]), short(row["text"], 60)]
             for row in rows]  # fmt: skip
    terminal.table(Table.of(["query", "judgments", "relevant", "tags", "text"], cells, texts=(0, 3, 4), prose=4))
    terminal.say_json({"exit_code": 0, "queries": rows})
    return 0


@command.command("add")
@config_option
@click.argument("text")
@click.option("--doc", required=True, metavar="ID", help="The document that answers (match: content: the passage).")
@click.option("--quote", metavar="TEXT", help="The passage of the document that answers, verbatim.")
@click.option("--relevance", type=int, default=1, show_default=True, metavar="GRADE", help="How well it answers.")
@click.option("--id", "name", metavar="ID", help="A new query's id (default: made of its words).")
@click.option("--tag", "tags", multiple=True, metavar="NAME", help="A tag of a new query.")
@_who_option
@common_options
def add_label(
    terminal: Terminal, config: str, text: str, doc: str, quote: str | None, relevance: int, name: str | None,
    tags: tuple[str, ...], who: str | None,
) -> int:  # fmt: skip
    """Add a judgment of the question TEXT to CONFIG's labels, and the question if it is new."""
    from ragtrial.labelling.edits import added

    return _change(terminal, config, who, lambda base: added(base, text, name, tags, Grade("", doc, relevance, quote)))


@command.command("remove")
@config_option
@click.argument("query")
@click.option("--doc", metavar="ID", help="Only its judgments of this document.")
@click.option("--quote", metavar="TEXT", help="Only that of this passage of the document.")
@_who_option
@common_options
def remove_labels(
    terminal: Terminal, config: str, query: str, doc: str | None, quote: str | None, who: str | None
) -> int:
    """Remove QUERY, or judgments of it, from CONFIG's labels; the history keeps a copy."""
    from ragtrial.labelling.edits import removed

    if quote is not None and doc is None:
        raise click.UsageError("--quote needs --doc.")
    return _change(terminal, config, who, lambda base: removed(base, query, doc, quote))


@command.command("merge")
@config_option
@click.argument("files", type=click.Path(), nargs=-1, required=True, metavar="FILE...")
@click.option("--prefer", type=click.Choice(["mine", "theirs"]),
              help="Whose grade holds where they differ (default: nothing is written).")  # fmt: skip
@_who_option
@common_options
def merge_labels(
    terminal: Terminal, config: str, files: tuple[str, ...], prefer: Prefer | None, who: str | None
) -> int:
    """Merge the labels of FILEs into the labels of CONFIG. Questions with the same text are one query."""
    from ragtrial.labelling.edits import merged
    from ragtrial.options import expand_user

    return _change(terminal, config, who, lambda base: merged(base, [expand_user(one) for one in files], prefer))


def _change(terminal: Terminal, config: str, who: str | None, changes: Callable[[LabelsText], Sequence[Change]]) -> int:
    """Make ``changes`` in the labels of ``config``, and say which were made."""
    from ragtrial.config import load_config

    store = label_store(load_config(config), terminal.progress())
    done = store.write(changes(store.text), who or current_user())
    counts = Counter(one.action for one in done)
    said = [counted(counts[action], noun, several) + f" {verb}" for action, noun, several, verb in _ACTIONS
            if counts[action]]  # fmt: skip
    file, queries = str(store.text.file), counted(len(store.labels.queries), "query", "queries")
    terminal.say(f"{file}: {', '.join(said) or 'nothing to change'}; it has {queries}")
    rows = [{"query": query_of(one.change), "action": one.action, "before": one.before, "after": one.after}
            for one in done]  # fmt: skip
    terminal.say_json(
        {"exit_code": 0, "file": str(store.text.file), "queries": len(store.labels.queries), "changes": rows}
    )
    return 0


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
              help="For a passage that is not found, take the most similar text, from this similarity on "
                   "(up to 1; try 0.9).")  # fmt: skip
@click.option("--empty", type=click.Choice(["unlabelled", "unanswerable"]), default="unlabelled", show_default=True,
              help="Treat questions without an answer as not labelled yet, or as unanswerable.")  # fmt: skip
@click.option("--skip-lost", is_flag=True, help="Leave out labels that are not found; otherwise nothing is written.")
@click.option("--strict", is_flag=True, help="Write only if every label is found exactly where and as FILE says.")
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@common_options
def convert_labels(
    terminal: Terminal,
    file: str,
    corpus: str | None,
    config: str | None,
    output: str,
    form: str | None,
    fuzzy: float | None,
    empty: Empty,
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
      squad                SQuAD 1.1 or 2.0
      chunking-evaluation  questions_df.csv, or its rows in JSON
      rows                 JSON lines or CSV with a question and a passage (quote, passage, context, answer)
    """  # noqa: D301 - click wants the control character itself: it keeps the lines below it as they are
    from ragtrial.labelling.importers.base import read_labels
    from ragtrial.options import expand_user

    if (corpus is None) == (config is None):
        raise click.UsageError("give --corpus or --config: a label is a place in documents, so they are needed.")
    if fuzzy is not None and math.isnan(fuzzy):
        raise click.BadParameter("nan is no likeness; it must be above 0 and at most 1.", param_hint="'--fuzzy'")
    output = output if output == _STANDARD_OUTPUT else str(expand_user(output))
    _check_output(terminal, output, force=force)
    read = read_labels(expand_user(file), form, empty)
    with documents_of(terminal, corpus, config) as library:
        found, _ = write_converted(terminal, read, library, output, skip_lost=skip_lost, strict=strict, fuzzy=fuzzy)
    terminal.say_json({"exit_code": 0, **found})
    return 0


def write_converted(
    terminal: Terminal,
    read: ReadLabels,
    library: Library,
    output: str,
    *,
    skip_lost: bool,
    strict: bool = False,
    fuzzy: float | None = None,
) -> tuple[dict[str, Any], Converted]:
    """Write labels of another form as passages of the documents, and say what became of each; all of it as JSON, too.

    Raises LabelsError for labels that are nowhere, unless ``skip_lost``.
    """
    from ragtrial.labelling.importers.converting import as_json, convert, report_row

    converted = convert(read, library, fuzzy=fuzzy)
    _refuse_inexact(converted, read, library, skip_lost=skip_lost, strict=strict, fuzzy=fuzzy)
    _write(terminal, output, as_json(converted))
    _say(terminal, converted, read, library, output)
    answer = {
        "format": read.form,
        "output": output,
        "queries": len(converted.rows["queries"]),
        "without_answers": _without_answers(converted),
        "counts": converted.counts,
        "repeated": converted.repeated,
        "labels": [report_row(one, read, library) for one in converted.placed],
        "warnings": [asdict(note) for note in library.notes],
    }
    return answer, converted


def say_lost(terminal: Terminal, converted: Converted, read: ReadLabels, library: Library, help_: str) -> None:
    """Say on stderr which labels were not found, with the text nearest to each, and ``help_``; nothing if none was."""
    from ragtrial.labelling.importers.converting import lost_faults

    if not converted.lost:
        return
    faults = lost_faults(converted, read, library)
    terminal.note(f"{counted(len(faults), 'label')} left out, because the text is not in the documents:")
    for fault in faults if terminal.verbose else faults[:_LISTED]:
        terminal.note(f"  {fault}")
    if len(faults) > _LISTED and not terminal.verbose:
        terminal.note(f"  ... and {len(faults) - _LISTED:,} more (-v lists all)")
    terminal.note(help_)


def _refuse_inexact(
    converted: Converted, read: ReadLabels, library: Library, *, skip_lost: bool, strict: bool, fuzzy: float | None
) -> None:
    """Raises LabelsError for labels that are not found, and under ``strict`` for inexact matches."""
    from ragtrial.labelling.importers.converting import lost_faults

    if converted.lost and not skip_lost:
        ways = "--skip-lost leaves them out" + ("" if fuzzy else "; --fuzzy 0.9 takes the most similar passages")
        lost = f"{len(converted.lost):,} of {len(converted.placed):,} labels are lost; nothing was written. {ways}."
        raise LabelsError(*lost_faults(converted, read, library), Fault(str(read.content.file), message=lost))
    if strict and converted.inexact:
        raise LabelsError(*_inexact_faults(converted, read, library))


def _check_output(terminal: Terminal, output: str, *, force: bool) -> None:
    if output == _STANDARD_OUTPUT:
        if terminal.as_json:
            raise InputError("--json and -o - both write to standard output; leave one of them out.")
        return
    check_folder(output)
    if Path(output).is_file() and not force:
        raise InputError(Fault(output, message="already exists; use --force to replace it."))


def _write(terminal: Terminal, output: str, text: str) -> None:
    """Write the labels; if they go to standard output, the terminal prints to standard error from now on."""
    with contextlib.redirect_stdout(terminal.out), written(output) as file:
        file.write(text.encode("utf-8"))
    if output == _STANDARD_OUTPUT:
        terminal.out = sys.stderr


@contextlib.contextmanager
def documents_of(terminal: Terminal, corpus: str | None, config: str | None) -> Iterator[Library]:
    """The documents of a config through its workspace, or the documents of a folder in a temporary one."""
    from ragtrial.config import load_config
    from ragtrial.dataset.library import Library
    from ragtrial.options import expand_user
    from ragtrial.pipeline.corpus import Corpus

    if config is not None:
        loaded = load_config(config)
        yield Corpus(loaded, terminal.progress()).library
        return

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
    rows = converted.rows["queries"]
    return sum(not row["relevant_docs"] and UNANSWERABLE not in row.get("tags", ()) for row in rows)


def _say(terminal: Terminal, converted: Converted, read: ReadLabels, library: Library, output: str) -> None:
    from ragtrial.dataset.resolution import unlabelled_sentence
    from ragtrial.labelling.importers.converting import HOWS, describe_places

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
        score = f" {one.located.score:.3f}" if one.how == "fuzzy" else ""
        text = one.answer.passage or one.answer.doc
        places = "; ".join(filter(None, (describe_places(one, library), *one.notes)))
        listed.append([one.query, one.how + score, f"{short(text, 50)!r}", places])
    terminal.table(Table.of(["query", "how", "text", "where"], listed, texts=(0, 1, 2, 3)), before="\n")
    if len(inexact) > most:
        terminal.say(f"... and {len(inexact) - most:,} more (-v lists all)")
    terminal.say()
    for one in inexact:
        if len({place.document for place in one.places}) > _MOST_DOCUMENTS:
            found = (
                f"{short(one.answer.passage, 50)!r} of query {one.query!r} is in many documents; all count as correct"
            )
            terminal.note(f"{found}. If it is not an answer, leave that cell empty.")
    if converted.repeated:
        terminal.say(f"{counted(converted.repeated, 'label')} left out: they repeat an earlier label of the same query")
    place = "standard output" if output == _STANDARD_OUTPUT else output
    terminal.say(f"wrote {place}: {counted(len(queries), 'query', 'queries')} with {counted(rows, 'label')}")
    if missing := _without_answers(converted):
        terminal.note(unlabelled_sentence(len(queries), missing))
    terminal.warn(library.notes)
