"""ragtrial init"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragtrial.cache.atomic import write_text
from ragtrial.cli.demo_command import sample_files
from ragtrial.cli.labels_command import documents_of, say_lost, write_converted
from ragtrial.cli.terminal import Terminal, common_options
from ragtrial.dataset.documents import corpus_files
from ragtrial.errors import CorpusError, Fault, InputError

if TYPE_CHECKING:
    from ragtrial.labelling.importers.base import Empty

_START = Path(__file__).parent / "start"
_LABELS = "prompt_queries.json"
_LISTED = 20
_DOCUMENTS = ("account", "payment", "returns", "setup", "shipping", "warranty")


@click.command("init")
@click.argument("folder", type=click.Path(file_okay=False), default=".")
@click.option("--example", type=click.Choice(["support"]), metavar="NAME",
              help="Write a larger example: support, with 118 documents and 62 questions.")  # fmt: skip
@click.option("--corpus", metavar="PATH", help="Start with your documents: a folder, or a corpus.jsonl.")
@click.option(
    "--labels",
    metavar="FILE",
    help="With --corpus: your questions and answers, in any format that `labels convert` reads.",
)
@click.option("--empty", type=click.Choice(["unlabelled", "unanswerable"]), default="unlabelled", show_default=True,
              help="Treat questions without an answer as not labelled yet, or as unanswerable.")  # fmt: skip
@common_options
def command(
    terminal: Terminal, folder: str, example: str | None, corpus: str | None, labels: str | None, empty: Empty
) -> int:
    """Write a config, ten labelled questions and six documents to start from into FOLDER. Nothing is overwritten.

    --corpus uses your documents, --labels your questions and answers.
    """
    from ragtrial.config.reference import config_schema

    if (corpus is None and labels is not None) or (corpus is not None and example is not None):
        message = "--example brings its own documents; leave out --corpus." if corpus else "--labels needs --corpus."
        raise click.UsageError(message)
    root = Path(folder)
    if corpus is not None:
        _check_corpus(Path(corpus).expanduser())
    files = {
        "experiment.yaml": (_START / "experiment.yaml").read_text("utf-8"),
        "experiment.schema.json": json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n",
        **({} if corpus else _support() if example else _small()),
    }
    there = [name for name in (*files, *([_LABELS] if labels else ())) if (root / name).exists()]
    if there:
        raise InputError(*(Fault(str(root / name), message="already exists; init never overwrites.") for name in there))
    converted = _own_labels(terminal, corpus or "", labels, root / _LABELS, empty) if labels else None
    if corpus is not None:
        files["experiment.yaml"] = _own_config(root, Path(corpus).expanduser(), converted)
    try:
        for name, text in files.items():
            write_text(root / name, text)
    except OSError as error:
        raise InputError(Fault(str(root), message=f"cannot be written: {error.strerror}.")) from error
    for name in files if len(files) < _LISTED else ("experiment.yaml", _LABELS):
        terminal.say(f"wrote {root / name}")
    if len(files) >= _LISTED:
        terminal.say(f"wrote {root / 'documents'}: {sum(name.startswith('documents/') for name in files)} documents")
    enter = "" if root.resolve() == Path.cwd() else f"cd {root} && "
    terminal.say(f"\nNow: {enter}{_next_command(terminal, corpus, labels, converted)}")
    wrote = [str(root / name) for name in (*files, *([_LABELS] if labels else ()))]
    terminal.say_json({"exit_code": 0, "wrote": wrote, **({"labels": converted} if converted else {})})
    return 0


def _next_command(
    terminal: Terminal, corpus: str | None, labels: str | None, converted: Mapping[str, Any] | None
) -> str:
    """The next command to type; for your own documents, printed after a word about the first run."""
    if corpus is None:
        return "ragtrial run"
    if converted and converted["without_answers"] < converted["queries"]:
        size = f"{converted['bytes'] / 1e6:,.1f} MB of text"
        terminal.tell(f"\nThe first run scores BM25 within seconds, then embeds {size} and says how long that takes.")
        return "ragtrial run"
    if converted:
        terminal.tell(
            f"\nNo question has a label, so no setting can be scored. Correct the answers in {labels}, or label:"
        )
    return 'ragtrial search experiment.yaml "a question" --label'


def _check_corpus(corpus: Path) -> None:
    """Raise CorpusError if there are no documents at ``corpus``."""
    if not corpus.exists():
        raise CorpusError(Fault(str(corpus), message="there is no such folder or file; --corpus names the documents."))
    corpus_files(corpus)


def _own_config(root: Path, corpus: Path, labels: Mapping[str, Any] | None) -> str:
    """The config in ``root`` for the documents at ``corpus``: named after the folder, scored by passages if there are.

    BM25 comes first, so that it has a score before anything is embedded.
    """
    text = (_START / "own_documents.yaml").read_text("utf-8")
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", root.resolve().name).lstrip("-_")[:100]
    seen = json.dumps(Path(os.path.relpath(corpus, root)).as_posix(), ensure_ascii=False)
    text = text.replace("experiment: first", f"experiment: {json.dumps(name or 'first')}")
    text = text.replace("corpus: documents ".ljust(33), f"corpus: {seen} ".ljust(33))
    if any("start" in place for label in (labels or {}).get("labels", ()) for place in label["places"]):
        text = text.replace("unit: document", "unit: span".ljust(14))
    return text


def _own_labels(terminal: Terminal, corpus: str, labels: str, output: Path, empty: Empty) -> dict[str, Any]:
    """Write the labels of the file ``labels``; labels that are not found are listed, with advice."""
    from ragtrial.labelling.importers.base import read_labels

    read = read_labels(Path(labels).expanduser(), None, empty)
    with documents_of(terminal, corpus, None) as library:
        output.parent.mkdir(parents=True, exist_ok=True)
        found, converted = write_converted(terminal, read, library, str(output), skip_lost=True)
        again = f"ragtrial labels convert {labels} --corpus {corpus} -o {output} --force --fuzzy 0.9 --skip-lost"
        say_lost(terminal, converted, read, library, f"To accept passages that are at least 90% alike: {again}")
        size = int(library.sizes.sum())
    terminal.say()
    return {**found, "bytes": size}


def _small() -> dict[str, str]:
    names = (_LABELS, *(f"documents/{name}.md" for name in _DOCUMENTS))
    return {name: (_START / name).read_text("utf-8") for name in names}


def _support() -> dict[str, str]:
    wanted = dict(sample_files())
    return {name: held.decode("utf-8") for name, held in wanted.items() if name.endswith((".md", ".json", ".txt"))}
