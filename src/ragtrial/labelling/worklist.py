"""The worklist: the texts to label, in a blind order, and the file of the labels."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ragtrial.cache.atomic import write_text
from ragtrial.cache.untrusted import load_json
from ragtrial.dataset.json_places import fault_in, json_value
from ragtrial.dataset.locating import is_in
from ragtrial.dataset.texts import read_text
from ragtrial.errors import Fault, InputError, RunError
from ragtrial.labelling.answers import SessionAnswers, answers_file
from ragtrial.options import FieldPath as KeyPath, Options, dotted, validate
from ragtrial.records import FoundText, Judgment

_MARK = "ragtrial_worklist"
_PATHS = ("labels", "config", "report")
Drawn = Literal["stakes", "random", "drafted"]
_NO_DRAFT = {"__all__": {"draft"}}


class WorklistError(InputError):
    """A worklist that cannot be read or written."""


class Draft(Options):
    """A draft of a model: the question of the item, in a ``style``, and the words that answer it."""

    style: str
    quote: str | None
    """Verbatim words of the item's text; null for a question that the documents should not answer."""

    at: Annotated[int, Field(ge=0)] | None
    """Where in the item's text ``quote`` begins; null without one."""


class DraftCounts(Options):
    """How many ``replies`` a model gave, and how many of them make no draft, by the reason."""

    replies: int
    unparsable: int
    not_in_passage: int
    """The answer is not in the passage."""

    repeated: int
    """The labels, or an earlier draft, have the question."""

    copied: int
    """BM25 ranks the passage first, by words that the question copies from it."""

    @property
    def drafts(self) -> int:
        """How many are left."""
        return self.replies - self.unparsable - self.not_in_passage - self.repeated - self.copied


class DraftSource(Options):
    """The model and the prompt of drafted items."""

    model: str
    prompt: str
    """The first 16 hexadecimal digits of the SHA-256 of the prompt's template."""

    counts: DraftCounts


class TextToGrade(Options):
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
    """The text to read: from ``start`` to ``end``; for a whole document all found passages, gaps marked with [...]."""

    draft: Draft | None = None
    """The draft to review; null for a text to grade."""


class Worklist(Options):
    """The items to label, in this order, and the file of the labels."""

    ragtrial_worklist: Literal[1]
    """The version of the form."""

    labels: str
    """The file that labels are written into; in the file relative to the worklist's folder, here absolute."""

    kind: Literal["prompt_queries", "overlay"]
    """A prompt_queries.json, or an overlay of the qrels of a BEIR folder."""

    config: str | None
    """The config with the documents, as ``labels``; null where none was named or found."""

    form: Literal["document", "quote", "content"]
    """The object of a label: a document, a passage of it, or the passage alone (match: content)."""

    report: str | None = None
    """The report that it was made of, as ``labels``; null where that is not known."""

    drawn: Drawn = "stakes"
    """The choice of queries and texts: by the possible effect of a label, at random with all of their texts, or drafted
    by a model, for review."""

    source: DraftSource | None = None
    """The source of drafted items; null without drafts."""

    metric: str
    """The metric whose verdict the labels would move."""

    highest_grade: int
    """The highest grade of the present labels."""

    seed: int
    """By which the items were shuffled."""

    items: Annotated[list[TextToGrade], Field(min_length=1)]
    """At least one; no text is repeated for a query."""

    @property
    def is_drafted(self) -> bool:
        """True if its items are drafted questions, to be kept or dropped."""
        return self.drawn == "drafted"

    @property
    def fingerprint(self) -> str:
        """A hash that distinguishes the items of worklists."""
        rows = [[item.query, item.doc, item.start, item.end, item.text] for item in self.items]
        return hashlib.sha256(json.dumps([self.form, *rows]).encode()).hexdigest()[:16]


def speaks_of(label: Judgment, item: TextToGrade | FoundText, *, by_content: bool, by_document: bool) -> bool:
    """True if a label of the item's query judges the item; passages may differ in white space, case and signs.

    A passage judges every text that overlaps it, a label without one its whole document; if documents are scored
    (``by_document``), every label does. Under ``by_content`` the label is the passage.
    """
    if by_content:
        return is_in(label.doc, item.text or "")
    if label.doc != item.doc:
        return False
    if item.start is None or item.end is None or by_document:
        return True
    if label.spans:
        return any(span.start < item.end and item.start < span.end for span in label.spans)
    return label.quote is None or is_in(label.quote, item.text or "")


def read_worklist(path: str | Path) -> Worklist:
    """The worklist at ``path``. Raises WorklistError with every fault and its place."""
    file = Path(path)
    text = read_text(file, WorklistError)
    value = json_value(text, str(file), WorklistError, "a worklist")
    if not isinstance(value, dict) or value.get(_MARK) != 1:
        message = "is not a worklist of version 1; `ragtrial pool REPORT` or `ragtrial questions CONFIG` makes one."
        raise WorklistError(Fault(str(file), message=message))
    fault_at = fault_in(text, str(file))
    read = validate(Worklist, value, WorklistError, fault_at)
    faults = [fault_at(where, message) for where, message in _faults(read.items)]
    if any((item.draft is not None) != read.is_drafted for item in read.items):
        faults.append(fault_at(("drawn",), "drawn must be drafted where items have a draft, and only there."))
    WorklistError.raise_any(faults)
    folder = file.absolute().parent
    paths = {key: getattr(read, key) for key in _PATHS}
    return read.model_copy(update={key: path and os.path.normpath(folder / path) for key, path in paths.items()})


def write_worklist(worklist: Worklist, path: str | Path, *, force: bool = False) -> None:
    """Write ``worklist`` to ``path``, whole or not at all; its paths, if they are absolute, relative to its folder.

    The answers to another worklist in that file are deleted with it. Raises WorklistError if there is a file already
    that is not finished and ``force`` does not say to replace it, RunError if it cannot be written.
    """
    file = Path(path)
    check_new(file, force=force)
    former = _worklist_in(file)
    folder = file.absolute().parent
    rows = worklist.model_dump(
        mode="json", exclude=None if worklist.is_drafted else {"source": True, "items": _NO_DRAFT}
    )
    for key in _PATHS:
        if rows[key] and Path(rows[key]).is_absolute():
            rows[key] = Path(os.path.relpath(rows[key], folder)).as_posix()
    try:
        write_text(file, json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
        if former is not None and former.fingerprint != worklist.fingerprint:
            answers_file(file).unlink(missing_ok=True)
    except OSError as error:
        raise RunError(Fault(str(file), message=f"cannot be written: {error.strerror or error}.")) from error


def check_new(file: Path, *, force: bool = False) -> None:
    """Raise WorklistError if ``file`` cannot be written, since it is a folder, or there and not to be replaced.

    A worklist is replaced if all of its answers are saved, or if ``force`` says so.
    """
    if file.is_dir():
        raise WorklistError(Fault(str(file), message="is a folder; name a file."))
    if file.exists() and not force and not _is_finished(file):
        message = "is there already; it may hold work that is not done. Name another file, or replace it: --force."
        raise WorklistError(Fault(str(file), message=message))
    if file.exists() and not _is_worklist(file):
        raise WorklistError(Fault(str(file), message="is not a worklist and is not replaced; name another file."))


def _is_finished(file: Path) -> bool:
    """True if all items of the worklist are answered and saved, and nobody has it open."""
    worklist, kept = _worklist_in(file), answers_file(file)
    if worklist is None or not kept.is_file() or kept.is_symlink():
        return False
    with suppress(InputError), closing(SessionAnswers(kept, worklist.fingerprint, len(worklist.items))) as answers:
        return answers.is_finished
    return False


def _worklist_in(file: Path) -> Worklist | None:
    with suppress(WorklistError):
        return read_worklist(file)
    return None


def _is_worklist(file: Path) -> bool:
    try:
        value = load_json(file.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(value, dict) and _MARK in value


def _faults(items: Sequence[TextToGrade]) -> Iterator[tuple[KeyPath, str]]:
    first: dict[tuple[object, ...], int] = {}
    for index, item in enumerate(items):
        where: KeyPath = ("items", index)
        if (item.start is None) != (item.end is None) or (item.start or 0) > (item.end or 0):
            yield where, f"{dotted(where)} has start {item.start} and end {item.end}; end must follow start."
        draft = item.draft
        if draft is not None and draft.quote is not None and not item.text.startswith(draft.quote, draft.at or 0):
            yield (*where, "draft"), f"{dotted(where)}.draft.quote is not in its text at {draft.at}."
        same = first.setdefault((item.query, item.doc, item.start, item.end), index)
        if same != index:
            yield where, f"{dotted(where)} is the same as items[{same}]."
