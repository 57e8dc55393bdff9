"""ragtrial init"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ragtrial.cli.labels_command import EMPTY, check_corpus, documents_of, write_converted
from ragtrial.cli.options import CONFIG_NAME, argument, declare, option
from ragtrial.cli.terminal import Answer, Line, Terminal, save
from ragtrial.config.translation import translated
from ragtrial.dataset.resolution import LOST_ANSWERS
from ragtrial.errors import Fault, InputError, counted
from ragtrial.labelling.importers import base, converting

_START = Path(__file__).parent / "start"
_LABELS = "prompt_queries.json"
_LOST_PAGE = """# Answers that were not found

These answers, or the documents that they name, were not found, so they are no labels yet. Correct them where they are
written, then run in this folder:

    {again}

This writes prompt_queries.json again, with what people changed in it since. With `--fuzzy 0.9` it also takes text that
is at least 90% alike.

{page}"""

_MOST_WHOLE = 0.05
"""Documents are scored if a larger share of the labels above grade 0 names whole documents."""


@declare("init")
def command(
    terminal: Terminal,
    *,
    folder: Path = argument("[FOLDER]", default=".", type=click.Path(file_okay=False, path_type=Path)),
    corpus: str | None = option("Start with your documents: a folder, or a corpus.jsonl.", "PATH"),
    labels: str | None = option("With --corpus: your questions, in any format of `labels convert`.", "FILE"),
    empty: base.Empty = EMPTY,
    other: Path | None = option("Start from the config.yaml of rag-experiments.", "FILE", flags="--from"),
) -> Answer:
    """Write a config, labels and documents to start from.

    FOLDER gets ten labelled questions and six documents. Nothing is overwritten.
    --corpus uses your documents, --labels your questions and answers.
    """
    if other is not None and (corpus or labels):
        raise click.UsageError("--from names documents and labels itself; leave out --corpus and --labels.")
    if corpus is None and labels is not None:
        raise click.UsageError("--labels needs --corpus.")
    root = None if corpus is None else check_corpus(corpus, folder)
    start = translated(other, folder) if other else (_START / CONFIG_NAME).read_text("utf-8")
    small = [] if corpus or other else [_START / _LABELS, *sorted(_START.glob("documents/*.md"))]
    files = {CONFIG_NAME: start, **{path.relative_to(_START).as_posix(): path.read_text("utf-8") for path in small}}
    names, lost_file = [*files, *([_LABELS] if labels else ())], folder / LOST_ANSWERS
    if there := [folder / name for name in (*names, LOST_ANSWERS) if (folder / name).exists()]:
        again = f" {lost_file} says how to read corrected answers." if lost_file in there else ""
        way_out = f"already exists; init never overwrites. Name another folder.{again}"
        raise InputError(*(Fault(str(file), message=way_out) for file in there))
    converted = _own_labels(terminal, corpus or "", labels, folder, empty) if labels else {}
    lost = converted.get("counts", {}).get("lost", 0)
    documents = converted.get("whole_documents", 0)
    by_document = documents > _MOST_WHOLE * (documents + converted.get("passages", 0))
    if root is not None:
        files[CONFIG_NAME] = _own_config(folder, root, by_document=by_document)
    for name, text in files.items():
        save(folder / name, text)
    lines = [Line(f"wrote {folder / name}") for name in files]
    if by_document and converted["passages"]:
        lines.append(Line(f"{counted(documents, 'label')} without a passage: documents are scored (evaluators.unit)."))
    if lost:
        names.append(LOST_ANSWERS)
        were = "answer was" if lost == 1 else "answers were"
        lines.append(Line(f"wrote {lost_file}: {lost:,} {were} not found; it says how to correct each"))
    enter = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    *advice, following = _next_steps(corpus, labels, converted)
    content = {"wrote": [str(folder / name) for name in names], **({"labels": converted} if converted else {})}
    return Answer(content, [*lines, *advice, "", Line(f"Now: {enter}{following}")])


def _next_steps(corpus: str | None, labels: str | None, converted: Mapping[str, Any]) -> list[str]:
    """The command to type next; for your own documents, after a word about the first run."""
    if corpus is None:
        return ["ragtrial run"]
    if converted and converted["without_answers"] < converted["queries"]:
        size = f"{converted['bytes'] / 1e6:,.1f} MB of text"
        first = f"The first run scores BM25 within seconds, then embeds {size} and says how long that takes."
        return ["", first, "ragtrial run"]
    advice = f"No question has a label, so no setting can be scored. Correct the answers in {labels}, or label:"
    return [*(["", advice] if converted else []), f'ragtrial search {CONFIG_NAME} "a question" --label']


def _own_config(root: Path, corpus: Path, *, by_document: bool) -> str:
    """The config in ``root`` for the documents at ``corpus``: named after the folder.

    It scores passages, unless many labels lack them: what these ask for would be a whole document, which no hit has.
    """
    text = (_START / CONFIG_NAME).read_text("utf-8")
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", root.resolve().name).lstrip("-_")[:100]
    seen = json.dumps(Path(os.path.relpath(corpus, root)).as_posix(), ensure_ascii=False)
    text = text.replace("experiment: first", f"experiment: {json.dumps(name or 'first')}")
    text = text.replace("corpus: documents ".ljust(33), f"corpus: {seen} ".ljust(33))
    if not by_document:
        text = text.replace("unit: document", "unit: span".ljust(14))
    return text


def _own_labels(terminal: Terminal, corpus: str, file: str, folder: Path, empty: base.Empty) -> dict[str, Any]:
    """Write the labels of ``file`` into ``folder``; answers that are not found go into a file beside them."""
    labels = base.read_labels(Path(file).expanduser(), None, empty)
    with documents_of(terminal, corpus, None) as texts:
        folder.mkdir(parents=True, exist_ok=True)
        converted = converting.convert(labels, texts)
        answer = write_converted(terminal, converted, labels, texts, str(folder / _LABELS))
        terminal.show([*answer.blocks], before="")
        terminal.warn(answer.warnings or ())
        if converted.lost:
            again = ["ragtrial", "labels", "convert", os.path.relpath(Path(file).expanduser(), folder), "--config",
                     CONFIG_NAME, "-o", _LABELS, "--force", "--skip-lost", "--empty", empty]  # fmt: skip
            page = converting.lost_page(converted, labels, texts)
            save(folder / LOST_ANSWERS, _LOST_PAGE.format(page=page, again=shlex.join(again)))
        terminal.say()
        found = [label for label in converted.placed if label.answer.relevance > 0 and label.how != "lost"]
        whole = sum(label.document is not None for label in found)
        counts = {"whole_documents": whole, "passages": len(found) - whole}
        return {**answer.content, **counts, "bytes": int(texts.sizes.sum())}
