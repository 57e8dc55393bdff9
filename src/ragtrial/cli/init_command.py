"""ragtrial init"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from ragtrial.cli.terminal import Terminal, common_options
from ragtrial.errors import CorpusError, Fault, InputError

_START = Path(__file__).parent / "start"
_LABELS = "prompt_queries.json"
_LISTED = 20
_DOCUMENTS = ("account", "payment", "returns", "setup", "shipping", "warranty")


@click.command("init", short_help="Write a config, labels and documents to start from.")
@click.argument("folder", type=click.Path(file_okay=False), default=".")
@click.option("--example", type=click.Choice(["support"]), metavar="NAME",
              help="Write a larger example: support, with 118 documents and 62 questions.")  # fmt: skip
@click.option("--corpus", metavar="PATH", help="Start with your documents: a folder, or a corpus.jsonl.")
@click.option("--labels", metavar="FILE", help="With --corpus: your questions and answers, as `labels convert` reads.")
@common_options
def command(terminal: Terminal, folder: str, example: str | None, corpus: str | None, labels: str | None) -> int:
    """Write a config, ten labelled questions and six documents to start from into FOLDER. Nothing is overwritten.

    --corpus uses your documents, --labels your questions and answers.
    """
    from ragtrial.cache.atomic import write_text
    from ragtrial.config.json_schema import config_schema

    if (corpus is None and labels is not None) or (corpus is not None and example is not None):
        message = "--example brings its own documents; leave out --corpus." if corpus else "--labels needs --corpus."
        raise click.UsageError(message)
    root, config = Path(folder), (_START / "experiment.yaml").read_text("utf-8")
    if corpus is not None:
        config = _with_corpus(config, root, Path(corpus).expanduser())
    files = {
        "experiment.yaml": config,
        "experiment.schema.json": json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n",
        **({} if corpus else _support() if example else _small()),
    }
    there = [name for name in (*files, *([_LABELS] if labels else ())) if (root / name).exists()]
    if there:
        raise InputError(*(Fault(str(root / name), message="already exists; init never overwrites.") for name in there))
    converted = _own_labels(terminal, corpus or "", labels, root / _LABELS) if labels else None
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
    label = 'ragtrial search experiment.yaml "a question" --label'
    terminal.say(f"\nNow: {enter}{label if corpus and not labels else 'ragtrial run'}")
    wrote = [str(root / name) for name in (*files, *([_LABELS] if labels else ()))]
    terminal.say_json({"exit_code": 0, "wrote": wrote, **({"labels": converted} if converted else {})})
    return 0


def _with_corpus(config: str, root: Path, corpus: Path) -> str:
    """The config with the documents at ``corpus``, named as seen from ``root``. Raises CorpusError without any."""
    from ragtrial.dataset.documents import corpus_files

    if not corpus.exists():
        raise CorpusError(Fault(str(corpus), message="there is no such folder or file; --corpus names the documents."))
    corpus_files(corpus)
    seen = Path(os.path.relpath(corpus, root)).as_posix()
    before, _, after = config.partition("corpus: documents ")
    return f"{before}corpus: {json.dumps(seen, ensure_ascii=False)} {after.lstrip()}"


def _own_labels(terminal: Terminal, corpus: str, labels: str, output: Path) -> dict[str, Any]:
    """Write the labels of ``labels``; those that are not found are listed, with what helps."""
    from ragtrial.cli.labels_command import documents_of, say_lost, write_converted
    from ragtrial.labelling.importers.recognition import read_labels

    read = read_labels(Path(labels).expanduser(), None)
    with documents_of(terminal, corpus, None) as library:
        output.parent.mkdir(parents=True, exist_ok=True)
        found = write_converted(terminal, read, library, str(output), skip_lost=True)
        again = f"ragtrial labels convert {labels} --corpus {corpus} -o {output} --force --fuzzy 0.8 --skip-lost"
        say_lost(terminal, read, library, f"To take the most similar passages: {again}")
    terminal.say()
    return found


def _small() -> dict[str, str]:
    names = (_LABELS, *(f"documents/{name}.md" for name in _DOCUMENTS))
    return {name: (_START / name).read_text("utf-8") for name in names}


def _support() -> dict[str, str]:
    from ragtrial.cli.sample_files import sample_files

    wanted = dict(sample_files())
    return {name: held.decode("utf-8") for name, held in wanted.items() if name.endswith((".md", ".json", ".txt"))}
