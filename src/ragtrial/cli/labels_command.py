"""ragtrial labels"""

from __future__ import annotations

import contextlib
import inspect
import math
import os
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ragtrial import config as configs
from ragtrial.cli.options import CONFIG_NAME, argument, config_file, declare, option
from ragtrial.cli.terminal import Answer, Line, Terminal
from ragtrial.dataset import datasets, documents, library, resolution, texts as dataset_texts
from ragtrial.errors import CorpusError, Fault, InputError, LabelsError, counted, listed
from ragtrial.labelling import label_files
from ragtrial.labelling.importers import base, converting
from ragtrial.pipeline import corpus as corpora
from ragtrial.progress import stage
from ragtrial.records import UNANSWERABLE
from ragtrial.runs import streams
from ragtrial.views.table import Table

_SIMILARITY = click.FloatRange(0, 1, min_open=True)
_FORMATS = click.Choice(list(base.IMPORTERS.names()))
_LISTED = 20
_MOST_DOCUMENTS = 5
_CONFIG = option("The config of the labels.", "CONFIG", default=CONFIG_NAME, type=click.Path(), callback=config_file)
EMPTY = option("Treat questions without an answer as not labelled yet, or as unanswerable.", default="unlabelled")


@click.group("labels")
def command() -> None:
    """List and convert labels.

    Labels are known good answers, as passages of documents. A label with its characters survives every change of chunk
    size: the passage is scored, not the chunk.
    """


@declare("list", command)
def list_labels(*, config: str = _CONFIG) -> Answer:
    """List the queries of CONFIG's labels: id, judgments, relevant judgments, tags, text."""
    experiment = configs.load_config(config)
    threshold = experiment.evaluators.relevance_threshold
    rows, cells = list[dict[str, Any]](), list[list[str]]()
    for query in datasets.load_dataset(experiment.dataset).labels.queries:
        grades = [judgment.relevance for judgment in query.relevant_docs]
        counts = {"judgments": len(grades), "relevant": sum(grade >= threshold for grade in grades)}
        rows.append({"id": query.id, **counts, "tags": list(query.tags), "text": query.text})
        shown = ", ".join(query.tags), dataset_texts.short(query.text, 60)
        cells.append([query.id, *map(str, counts.values()), *shown])
    table = Table.of(["query", "judgments", "relevant", "tags", "text"], cells, texts=(0, 3, 4), prose=4)
    return Answer({"queries": rows}, [table])


@declare("convert", command)
def convert_labels(
    terminal: Terminal,
    *,
    file: Path = argument("FILE"),
    corpus: str | None = option("The documents: a folder, or a corpus.jsonl.", "PATH"),
    config: str | None = option("The config whose documents they are, instead of --corpus.", "CONFIG"),
    output: str = option("The labels to write; - is standard output.", "PATH", flags="-o --output", required=True),
    form: str | None = option("The format of FILE, if it is not detected.", flags="--from", type=_FORMATS),
    fuzzy: float | None = option("Take text so similar to a lost passage (try 0.9).", "SCORE", type=_SIMILARITY),
    empty: base.Empty = EMPTY,
    skip_lost: bool = option("Leave out labels that are not found; otherwise nothing is written."),
    strict: bool = option("Write only if every label is found exactly where and as FILE says."),
    force: bool = option("Replace the output, except what people changed in it."),
) -> Answer:  # fmt: skip
    """Turn labels of another tool into passages of documents.

    FILE may be one of these, and is recognised by what it holds:
    """
    if (corpus is None) == (config is None):
        raise click.UsageError("give --corpus or --config: a label is a place in documents, so they are needed.")
    if fuzzy is not None and math.isnan(fuzzy):
        raise click.BadParameter("nan is no likeness; it must be above 0 and at most 1.", param_hint="'--fuzzy'")
    terminal.check_stdout({"-o": output})
    if output != "-":
        output = str(Path(output).expanduser())
        streams.check_folder(output)
        if Path(output).is_file() and not force:
            raise InputError(Fault(output, message="already exists; use --force to replace it."))
    labels = base.read_labels(file, form, empty)
    with documents_of(terminal, corpus, config) as texts:
        converted = converting.convert(labels, texts, fuzzy=fuzzy)
        _refuse_inexact(converted, labels, texts, skip_lost=skip_lost, strict=strict, fuzzy=fuzzy)
        if output != "-" and Path(output).resolve() != file.resolve():
            converted = _with_changes_since(terminal, converted, str(labels.content.file), Path(output))
        answer = write_converted(terminal, converted, labels, texts, output)
    blocks, page = [*answer.blocks], Path(output).with_name(resolution.LOST_ANSWERS)
    if not converted.lost and page.is_file() and file.name in page.read_text("utf-8"):
        page.unlink()
        blocks.append(Line(f"removed {page}: all answers are found"))
    if output != "-" and answer.content["without_answers"] < answer.content["queries"]:
        blocks += ["", Line(f"Next: {_next_command(corpus, config, output)}")]
    return replace(answer, blocks=blocks)


def _next_command(corpus: str | None, config: str | None, output: str) -> str:
    """The command that uses the labels in ``output``: it runs a config with them, or without one writes a config."""
    words = ["ragtrial", "run", *([config] if config and config != CONFIG_NAME else [])]
    with contextlib.suppress(InputError):
        queries = configs.load_config(config or CONFIG_NAME).dataset.queries
        if queries and Path(queries).resolve() == Path(output).resolve():
            return shlex.join(words)
    start = ["ragtrial", "init", "trial", "--corpus", str(corpus), "--labels", output]
    return shlex.join([*words, "--set", f"dataset.queries={output}"] if config else start)


def _with_changes_since(
    terminal: Terminal, converted: converting.Converted, source: str, output: Path
) -> converting.Converted:
    """The converted labels, with what people changed in ``output``, as its history says.

    Notes name the queries of these changes, and those with other labels that ``source`` does not have.
    """
    changed, former, kept, lost = label_files.changed_labels(output), dict[str, Any](), list[str](), list[str]()
    with contextlib.suppress(LabelsError):  # what is no file of labels is replaced
        former.update(label_files.LabelsText.read(output).rows)
    queries = {row["id"]: row for row in converted.rows["queries"]}
    named = {row["text"]: name for name, row in queries.items()}
    for name, row in former.items():
        new = queries.get(named.get(row["text"], ""), {**row, "relevant_docs": []})
        grades = [label_files.Grade.of(name, label) for label in row["relevant_docs"]]
        theirs = changed.get(row["text"])
        if theirs is not None and queries.get(new["id"], new)["text"] != row["text"]:
            message = f"query {name!r} was labelled, and has another text in {source}; nothing was written."
            raise LabelsError(Fault(str(output), message=f"{message} Give it the same text, or write another file."))
        if theirs is not None:
            own = [label for label in row["relevant_docs"] if any(grade.speaks_of(label) for grade in theirs)]
            more = [label for label in new["relevant_docs"] if not any(grade.speaks_of(label) for grade in theirs)]
            new = queries[new["id"]] = {**new, **row, "id": new["id"], "relevant_docs": [*more, *own]}
            kept.append(repr(name))
        if not all(any(map(grade.speaks_of, new["relevant_docs"])) for grade in grades):
            lost.append(repr(name))
    if kept:
        terminal.note(
            f"{output}: kept what people changed in {counted(len(kept), 'query', 'queries')}: {listed(kept)}."
        )
    if lost:
        terminal.note(f"{output}: left out labels that are not in {source}, of {listed(lost)}.")
    return replace(converted, rows={**converted.rows, "queries": [*queries.values()]})


def _formats() -> str:
    """A paragraph of help, with its own lines: each format, and how it is recognised."""
    rows = ((name, importer.recognised_by.replace("`", "")) for name, importer in base.IMPORTERS.members())
    lines = (textwrap.fill(f"{name:<21}{known}", 78, subsequent_indent=" " * 21) for name, known in rows)
    return "\b\n" + "\n".join(lines)


convert_labels.help = f"{inspect.cleandoc(convert_labels.help or '')}\n\n{_formats()}"


def write_converted(
    terminal: Terminal, converted: converting.Converted, labels: base.ReadLabels, texts: library.Library, output: str
) -> Answer:
    """Write converted labels as passages of the documents; the answer shows what became of each.

    If they go to standard output, the terminal prints to standard error from now on.
    """
    with contextlib.redirect_stdout(terminal.out), streams.written(output) as file:
        file.write(converting.as_json(converted).encode("utf-8"))
    if output == "-":
        terminal.out = sys.stderr
    queries = converted.rows["queries"]
    without = sum(not row["relevant_docs"] and UNANSWERABLE not in row.get("tags", ()) for row in queries)
    unused = sorted(labels.content.unused)
    content = {"format": labels.form, "output": output, "queries": len(queries), "without_answers": without}
    content |= {"counts": converted.counts, "repeated": converted.repeated, "unused": unused}
    content["labels"] = [converting.report_row(label, labels, texts) for label in converted.placed]
    for label in converted.inexact:
        if len({place.document for place in label.places}) > _MOST_DOCUMENTS:
            text = f"{dataset_texts.short(label.answer.passage, 50)!r} of query {label.query!r}"
            advice = "is in many documents; all count as correct. If it is not an answer, leave that cell empty."
            terminal.note(f"{text} {advice}")
    if recased := converted.names_in_other_case(texts):
        pairs = listed((f"{name!r} is {doc!r}" for name, doc in recased.items()), 3)
        terminal.note(f"{labels.content.file}: names of documents are in other case: {pairs}.")
    if unused:
        terminal.note(f"{labels.content.file}: not used: {listed(unused)}.")
    if without:
        terminal.note(resolution.unlabelled_sentence(len(queries), without))
    return Answer(content, _converted_blocks(terminal, converted, labels, texts, output), texts.notes)


def _converted_blocks(
    terminal: Terminal, converted: converting.Converted, labels: base.ReadLabels, texts: library.Library, output: str
) -> list[str | Table]:
    counts = [[how, f"{count:,}", converting.HOWS[how]] for how, count in converted.counts.items()]
    inexact = converted.inexact
    most = len(inexact) if terminal.verbose else _LISTED
    rows = []
    for label in inexact[:most]:
        how = label.how + (f" {label.located.score:.3f}" if label.how == "fuzzy" else "")
        text = dataset_texts.short(label.answer.passage or label.answer.doc, 50)
        rows.append([label.query, how, repr(text), _places(label, texts)])
    blocks: list[str | Table] = [
        Line(f"{labels.content.file} ({labels.form}): {counted(len(converted.placed), 'label')}"),
        "",
        Table.of(["how", "labels", ""], counts, texts=(0, 2)),
        Table.of(["query", "how", "text", "where"], rows, texts=(0, 1, 2, 3)),
    ]
    if len(inexact) > most:
        blocks.append(f"... and {len(inexact) - most:,} more (-v lists all)")
    blocks.append("")
    if converted.repeated:
        left_out = f"{counted(converted.repeated, 'label')} left out: they repeat an earlier label of the same query"
        blocks.append(left_out)
    queries = converted.rows["queries"]
    written = counted(sum(len(query["relevant_docs"]) for query in queries), "label")
    place = "standard output" if output == "-" else output
    return [*blocks, Line(f"wrote {place}: {counted(len(queries), 'question')} with {written}")]


def _places(label: converting.PlacedLabel, texts: library.Library) -> str:
    return "; ".join(filter(None, (converting.describe_places(label, texts), *label.notes)))


def _refuse_inexact(
    converted: converting.Converted, labels: base.ReadLabels, texts: library.Library,
    *, skip_lost: bool, strict: bool, fuzzy: float | None,
) -> None:  # fmt: skip
    """Raises LabelsError for labels that are not found, and under ``strict`` for inexact matches."""
    if converted.lost and not skip_lost:
        ways = "--skip-lost leaves them out" + ("" if fuzzy else "; --fuzzy 0.9 takes the most similar passages")
        lost = f"labels lost: {len(converted.lost):,} of {len(converted.placed):,}; nothing was written. {ways}."
        faults = converting.lost_faults(converted, labels, texts)
        raise LabelsError(*faults, Fault(str(labels.content.file), message=lost))
    if strict and converted.inexact:
        faults = []
        for label in converted.inexact:
            message = f"a label of query {label.query!r} is {label.how}: {_places(label, texts)}."
            faults.append(labels.content.fault_at(label.answer.where, message))
        raise LabelsError(*faults)


@contextlib.contextmanager
def documents_of(terminal: Terminal, corpus: str | None, config: str | None) -> Iterator[library.Library]:
    """The documents of a config through its workspace, or the documents of a folder in a temporary one."""
    if config is not None:
        yield corpora.Corpus(configs.load_config(config), terminal.progress()).library
        return
    root = check_corpus(corpus or "")
    with tempfile.TemporaryDirectory(prefix="ragtrial-") as folder:
        with stage(terminal.progress(), "documents"):
            library.Library.write(root, Path(folder))
        yield library.Library(Path(folder))


def check_corpus(corpus: str, folder: Path = Path()) -> Path:
    """The folder or the file of documents.

    Raises CorpusError if there are none, with the path that was probably meant: as it is from the new ``folder``, or
    the same name here.
    """
    root = Path(corpus).expanduser()
    if not root.exists():
        meant = next((path for path in (folder / root, Path(root.name)) if path.exists()), None)
        hint = f" Did you mean {os.path.relpath(meant)!r}?" if meant else dataset_texts.near_names(root)
        raise CorpusError(Fault(str(root), message=f"there is no such folder or file, seen from {Path.cwd()}.{hint}"))
    documents.corpus_files(root)
    return root
