"""The worklist: what is to be labelled, in which order, by somebody who does not see what found it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ragtrial.cache.atomic import write_text
from ragtrial.dataset.json_places import fault_in, json_value
from ragtrial.dataset.texts import is_unicode, normalised, read_text
from ragtrial.errors import Fault, InputError, RunError
from ragtrial.options import FieldPath as KeyPath
from ragtrial.options import Options, dotted, validate
from ragtrial.records import MOST_GRADE, Judgment

VERSION = 1
_MARK = "ragtrial_worklist"
_PATHS = ("labels", "config", "report")
_OTHERS = {
    "queries": "it looks like labels; `ragtrial pool REPORT` makes a worklist",
    "schema_version": "it looks like a report; `ragtrial pool` makes a worklist of it",
}


class WorklistError(InputError):
    """A worklist cannot be read, or not be written where it was to stand."""


class WorkItem(Options):
    """A text to be judged for a query. Nothing in it says what found it, or whether it is judged already."""

    query: str
    """The id of the query."""

    question: str
    """Its text."""

    doc: str
    """The id of the document."""

    title: str
    """The document's title, empty if it has none."""

    start: Annotated[int, Field(ge=0)] | None
    """Where ``text`` begins in the document's normalised text; null where the whole document is judged."""

    end: Annotated[int, Field(ge=0)] | None
    """The character behind its last; null as ``start`` is."""

    text: str
    """What is read: from ``start`` to ``end``; of a whole document what was found of it, gaps marked with [...]."""


class Worklist(Options):
    """What to label, in this order, and where the labels go."""

    ragtrial_worklist: int
    """The version of the form: 1."""

    labels: str
    """The file that labels are written into; in the file relative to the worklist's folder, here absolute."""

    kind: Literal["prompt_queries", "overlay"]
    """A prompt_queries.json, or qrels that are laid upon those of a BEIR folder."""

    config: str | None
    """The config with the documents, as ``labels``; null where none was named or found."""

    form: Literal["document", "quote", "content"]
    """What a label names: a document, a passage of it, or the passage alone (match: content)."""

    report: str | None = None
    """The report that it was made of, as ``labels``; null where that is not known."""

    metric: str
    """The metric whose verdict the labels would move."""

    highest_grade: int
    """Of the labels as they are."""

    seed: int
    """By which the items were shuffled."""

    items: list[WorkItem]
    """At least one; a text of a query stands once."""


def speaks_of(label: Judgment, item: WorkItem, *, by_content: bool, by_document: bool) -> bool:
    """Whether a label of the item's query judges the item; white space in passages need not be the same.

    A passage judges what overlaps it, a label without one all of its document; where documents are scored
    (``by_document``), so does any. Under ``by_content`` the label is the passage.
    """
    if by_content:
        return _has(item.text, label.doc)
    if label.doc != item.doc:
        return False
    if item.start is None or item.end is None or by_document:
        return True
    if label.spans:
        return any(span.start < item.end and item.start < span.end for span in label.spans)
    return label.quote is None or _has(item.text, label.quote)


def _has(text: str, passage: str) -> bool:
    return " ".join(normalised(passage).split()) in " ".join(text.split())


def read_worklist(path: str | Path) -> Worklist:
    """The worklist at ``path``. Raises WorklistError with every fault and its place."""
    file = Path(path)
    text = read_text(file, WorklistError)
    value = json_value(text, str(file), WorklistError, "a worklist")
    _refuse_others(value, file)
    fault_at = fault_in(text, str(file))
    read = validate(Worklist, value, WorklistError, fault_at)
    faults = [fault_at(where, message) for where, message in _faults(read)]
    if faults:
        raise WorklistError(*faults)
    folder = file.absolute().parent
    paths = {key: getattr(read, key) for key in _PATHS}
    return read.model_copy(update={key: path and os.path.normpath(folder / path) for key, path in paths.items()})


def write_worklist(worklist: Worklist, path: str | Path, *, force: bool = False) -> None:
    """Write ``worklist`` to ``path``, whole or not at all; its paths, if they are absolute, relative to its folder.

    Raises WorklistError if there is a file already and ``force`` does not say to replace it, RunError if it cannot
    be written.
    """
    file = Path(path)
    check_new(file, force=force)
    folder = file.absolute().parent
    rows = worklist.model_dump(mode="json")
    rows.update({key: rows[key] and _relative(rows[key], folder) for key in _PATHS})
    try:
        write_text(file, json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
    except OSError as error:
        raise RunError(Fault(str(file), message=f"cannot be written: {error.strerror or error}.")) from error


def check_new(file: Path, *, force: bool = False) -> None:
    """Raise WorklistError if ``file`` cannot be written, since it is a folder, or there and not to be replaced."""
    if file.is_dir():
        raise WorklistError(Fault(str(file), message="is a folder; name a file."))
    if file.exists() and not force:
        message = "is there already; it may hold work that is not done. Name another file, or replace it: --force."
        raise WorklistError(Fault(str(file), message=message))
    if file.exists() and not _is_worklist(file):
        raise WorklistError(Fault(str(file), message="is no worklist, and is not replaced by one; name another file."))


def _is_worklist(file: Path) -> bool:
    try:
        value = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(value, dict) and _MARK in value


def _refuse_others(value: object, file: Path) -> None:
    if not isinstance(value, dict) or _MARK not in value:
        like = next((said for key, said in _OTHERS.items() if isinstance(value, dict) and key in value), None)
        said = like or f"one is an object with the key {_MARK!r}; `ragtrial pool REPORT` makes it"
        raise WorklistError(Fault(str(file), message=f"is no worklist: {said}."))
    version = value[_MARK]
    if isinstance(version, int) and not isinstance(version, bool) and version != VERSION:
        what = "Update ragtrial" if version > VERSION else "Make it again with `ragtrial pool`"
        message = f"is a worklist of version {version}; this ragtrial reads version {VERSION}. {what}."
        raise WorklistError(Fault(str(file), message=message))


def _faults(read: Worklist) -> Iterator[tuple[KeyPath, str]]:
    if not read.labels.strip():
        yield ("labels",), "labels is empty; it names the file that labels are written into."
    if read.config is not None and not read.config.strip():
        yield ("config",), "config is empty; write null where there is none."
    if abs(read.highest_grade) > MOST_GRADE:
        yield ("highest_grade",), f"highest_grade is {read.highest_grade}, beyond {MOST_GRADE:,}; is it one?"
    if not read.items:
        yield ("items",), "there is no item; nothing is left to label."
    first: dict[tuple[object, ...], int] = {}
    asked: dict[str, str] = {}
    for index, item in enumerate(read.items):
        where: KeyPath = ("items", index)
        yield from _item_faults(item, where)
        if asked.setdefault(item.query, item.question) != item.question:
            yield (*where, "question"), f"{dotted((*where, 'question'))} is another than before for {item.query!r}."
        what = (item.query, item.doc, item.start, item.end)
        if what in first:
            yield where, f"{dotted(where)} is the same as items[{first[what]}]."
        first.setdefault(what, index)


def _item_faults(item: WorkItem, where: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    for key, name in (("query", item.query), ("doc", item.doc)):
        if not name.strip():
            yield (*where, key), f"{dotted((*where, key))} is empty."
        if not is_unicode(name):
            yield (*where, key), f"{dotted((*where, key))} has half of a surrogate pair."
    if (item.start is None) != (item.end is None):
        there = "start" if item.end is None else "end"
        yield (*where, there), f"{dotted((*where, there))} stands alone; give start and end, or null for both."
    elif item.start is not None and item.end is not None and item.start > item.end:
        yield (*where, "end"), f"{dotted((*where, 'end'))} is {item.end}, before start, {item.start}."


def _relative(path: str, folder: Path) -> str:
    """``path`` from ``folder``; as it is where it is relative, or on another drive."""
    if not Path(path).is_absolute():
        return path
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:
        return path
