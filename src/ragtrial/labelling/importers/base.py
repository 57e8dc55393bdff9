"""Importers of labels: the file that another tool wrote, the models to read it, and the registry of the formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ragtrial.dataset.foreign_files import Content, FileForm, cell_value, read_content, recognised, tried
from ragtrial.dataset.json_places import id_of
from ragtrial.dataset.labels import Filled
from ragtrial.dataset.qrels_text import whole_number
from ragtrial.dataset.texts import is_unicode
from ragtrial.errors import Fault, LabelsError
from ragtrial.options import FieldPath
from ragtrial.records import MOST_GRADE, UNANSWERABLE
from ragtrial.registry import Registry

Empty = Literal["unlabelled", "unanswerable"]


def _name(value: object) -> object:
    """An id, which may be a number; a blank one counts as missing."""
    name = id_of(value)
    return value if name is None else name if name.strip() else ""


def _whole(value: object) -> object:
    """A whole number, written as 1.0 or as the digits of a cell, as an integer."""
    number = whole_number(str(value)) if isinstance(value, str | float) else None
    return value if number is None else number


Text = Filled
Name = Annotated[str, BeforeValidator(_name)]
Number = Annotated[int, BeforeValidator(_whole)]
Grade = Annotated[Number, Field(ge=-MOST_GRADE, le=MOST_GRADE)]
InCell = BeforeValidator(cell_value)


@dataclass(frozen=True, slots=True)
class ImportedAnswer:
    """One known good answer, not located yet.

    ``passage`` is its text; without it the label is the document ``doc``, or its characters ``start`` to ``end`` if the
    text has the hash ``text_hash``. ``doc`` is the file's name for the document, or empty; without ``doc_is_known`` it
    only helps to choose among places. With ``may_be_passage``, ``doc`` is a name or a passage. With ``in_other_words``,
    a passage that is not found means the document ``doc``. ``start`` is the first character of the passage in the
    document or in ``context``, the paragraph around the passage. Answers to a question with one ``group`` are
    alternatives. ``note`` explains a choice of the importer.
    """

    where: FieldPath
    passage: str = ""
    doc: str = ""
    relevance: int = 1
    start: int | None = None
    end: int | None = None
    text_hash: str = ""
    context: str = ""
    may_be_passage: bool = False
    in_other_words: bool = False
    doc_is_known: bool = True
    group: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ImportedQuestion:
    """A question and its answers; ``more`` are further keys of prompt_queries.json, such as ``phrasings``."""

    where: FieldPath
    id: str
    text: str
    answers: tuple[ImportedAnswer, ...] = ()
    tags: tuple[str, ...] = ()
    more: Mapping[str, Any] | None = None


Reader = Callable[[Content], list[ImportedQuestion]]


Importer = FileForm[Reader]
IMPORTERS: Registry[Importer] = Registry("form of labels", "ragtrial.labelling.importers")
"""The importers by the name of their format, in the modules of this folder."""


def importer(
    name: str, recognised_by: str, can_read: Callable[[Content], bool], *, is_general: bool = False
) -> Callable[[Reader], Reader]:
    """A decorator that registers the reader of a format as an ``Importer``."""

    def add(read: Reader) -> Reader:
        IMPORTERS.register(name)(Importer(name, recognised_by, can_read, read, is_general))
        return read

    return add


@dataclass(frozen=True)
class ReadLabels:
    """The labels of a file, and the format in which they were read."""

    form: str
    content: Content
    questions: list[ImportedQuestion]


def read_labels(path: Path, form: str | None = None, empty: Empty = "unlabelled") -> ReadLabels:
    """The labels of a file in the format ``form``, or in the recognised format; missing ids become q1, q2, ...

    ``empty`` says whether questions without an answer are not labelled yet, or get the tag unanswerable.

    Raises LabelsError with all faults: an unreadable file or unknown format, missing and wrong values, double ids, no
    question at all.
    """
    content = read_content(path, LabelsError)
    importer = IMPORTERS[form] if form is not None else recognised(IMPORTERS, content)
    if importer is None and (within := content.within) and (importer := recognised(IMPORTERS, within)):
        content = within
    if importer is None and isinstance(content.value, Mapping) and "\n" not in content.text.strip():
        one_row = Content(content.file, [content.value], LabelsError, lines=[1])  # JSON lines, with one line
        importer = recognised(IMPORTERS, one_row)
        content = one_row if importer else content
    if importer is None:
        raise LabelsError(_unknown_form(content))
    questions = list(_completed(importer.read(content), empty))
    _check(content, questions)
    return ReadLabels(importer.name, content, questions)


def _unknown_form(content: Content) -> Fault:
    if content.form == "CSV":
        needed = "it needs question and answer, or question alone"
        return Fault(content.file, 1, 0, f"is {content.seen()}; {needed}. Rename them in the first line.")
    message = f"has labels of no known form: it is {content.seen()}. Tried: {tried(IMPORTERS)}."
    return Fault(content.file, message=message)


def _completed(questions: Sequence[ImportedQuestion], empty: Empty) -> Iterator[ImportedQuestion]:
    """The questions with an id, and those without an answer with the tag unanswerable if they are to have it."""
    taken = {question.id for question in questions}
    for number, question in enumerate(questions, 1):
        name = question.id or f"q{number}"
        while not question.id and name in taken:
            name += "-2"
        taken.add(name)
        is_tagged = empty == "unanswerable" and not question.answers and UNANSWERABLE not in question.tags
        yield replace(question, id=name, tags=(*question.tags, UNANSWERABLE) if is_tagged else question.tags)


def _check(content: Content, questions: Sequence[ImportedQuestion]) -> None:
    first: dict[str, ImportedQuestion] = {}
    for question in questions:
        known = first.setdefault(question.id, question)
        if known is not question:
            there = content.fault_at(known.where, "")
            taken = f"line {there.line}" if content.lines else content.called(known.where)
            content.fault(question.where, f"has the id {question.id!r}, which {taken} has already.")
        if not is_unicode(question.id):
            content.fault(question.where, f"has the id {question.id!r}, with half of a surrogate pair.")
    if not questions and not content.faults:
        content.fault((), "has no question.")
    content.check()
