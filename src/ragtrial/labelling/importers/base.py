"""Importers of labels: the registry, the labels that each returns, and the choice of the importer for a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ragtrial.dataset.texts import is_unicode
from ragtrial.errors import Fault, LabelsError
from ragtrial.labelling.importers.content import Content, read_content
from ragtrial.options import FieldPath
from ragtrial.records import UNANSWERABLE
from ragtrial.registry import Registry

Empty = Literal["unlabelled", "unanswerable"]


@dataclass(frozen=True, slots=True)
class ImportedAnswer:
    """One known good answer, not located yet.

    ``passage`` is its text; without it the label is the document ``doc``, or its characters ``start`` to ``end`` if the
    text has the hash ``text_hash``. ``doc`` is the file's name for the document, or empty. ``doc_is_known`` says that
    this name is a claim; otherwise it only narrows the search. With ``may_be_passage``, ``doc`` is a name or a passage.
    ``start`` is the first character of the passage in the document or in ``context``, the paragraph around the
    passage. ``note`` explains a choice of the importer.
    """

    where: FieldPath
    passage: str = ""
    doc: str = ""
    relevance: int = 1
    start: int | None = None
    end: int | None = None
    text_hash: str = ""
    context: str = ""
    doc_is_known: bool = True
    may_be_passage: bool = False
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


@dataclass(frozen=True, slots=True)
class ForeignLabels:
    """All questions of a file."""

    questions: tuple[ImportedQuestion, ...]
    prompt: str | None = None


@dataclass(frozen=True)
class Importer:
    """The reader of one format. ``recognised_by`` describes for messages which files ``can_read`` accepts.

    An importer that ``is_general`` is tried after all others, since files of other tools may have its columns.
    """

    name: str
    recognised_by: str
    can_read: Callable[[Content], bool]
    read: Callable[[Content], ForeignLabels]
    is_general: bool = False


IMPORTERS: Registry[Importer] = Registry("form of labels", "ragtrial.labelling.importers")
"""The importers by the name of their format, each in a module of this folder."""


def register(importer: Importer) -> None:
    IMPORTERS.register(importer.name)(importer)


@dataclass(frozen=True)
class ReadLabels:
    """The labels of a file, and the format in which they were read."""

    form: str
    content: Content
    labels: ForeignLabels


def read_labels(path: Path, form: str | None = None, empty: Empty = "unlabelled") -> ReadLabels:
    """The labels of a file in the format ``form``, or in the recognised format; missing ids become q1, q2, ...

    ``empty`` says whether questions without an answer are not labelled yet, or get the tag unanswerable.

    Raises LabelsError with all faults: an unreadable file or unknown format, missing and wrong values, double ids, no
    question at all.
    """
    content = read_content(path)
    importer = IMPORTERS[form] if form is not None else _recognised(content)
    if importer is None and isinstance(content.value, Mapping) and "\n" not in content.text.strip():
        one_row = Content(content.file, [content.value], lines=[1])  # JSON lines, with one line
        importer = _recognised(one_row)
        content = one_row if importer else content
    if importer is None:
        raise LabelsError(_unknown_form(content))
    labels = importer.read(content)
    labels = replace(labels, questions=tuple(_named(labels.questions)))
    _check(content, labels)
    if empty == "unanswerable":
        labels = replace(labels, questions=tuple(map(_tagged, labels.questions)))
    return ReadLabels(importer.name, content, labels)


def _recognised(content: Content) -> Importer | None:
    return next((importer for importer in _by_specificity() if importer.can_read(content)), None)


def _by_specificity() -> list[Importer]:
    """The importers in the order in which they are tried."""
    return sorted((importer for _, importer in IMPORTERS.members()), key=lambda importer: importer.is_general)


def _unknown_form(content: Content) -> Fault:
    if content.is_csv:
        needed = "it needs question and answer, or question alone"
        return Fault(content.file, 1, 0, f"is {content.seen()}; {needed}. Rename them in the first line.")
    tried = "; ".join(f"{importer.name} ({importer.recognised_by})" for importer in _by_specificity())
    return Fault(content.file, message=f"has labels of no known form: it is {content.seen()}. Tried: {tried}.")


def _tagged(question: ImportedQuestion) -> ImportedQuestion:
    if question.answers or UNANSWERABLE in question.tags:
        return question
    return replace(question, tags=(*question.tags, UNANSWERABLE))


def _named(questions: tuple[ImportedQuestion, ...]) -> list[ImportedQuestion]:
    taken = {question.id for question in questions}
    named = []
    for number, question in enumerate(questions, 1):
        name = question.id or f"q{number}"
        while not question.id and name in taken:
            name += "-2"
        named.append(question if question.id else replace(question, id=name))
        taken.add(name)
    return named


def _check(content: Content, labels: ForeignLabels) -> None:
    first: dict[str, ImportedQuestion] = {}
    for question in labels.questions:
        known = first.setdefault(question.id, question)
        if known is not question:
            there = content.fault_at(known.where, "")
            taken = f"line {there.line}" if content.lines else content.called(known.where)
            content.fault(question.where, f"has the id {question.id!r}, which {taken} has already.")
        if not is_unicode(question.id):
            content.fault(question.where, f"has the id {question.id!r}, with half of a surrogate pair.")
    if not labels.questions and content.is_valid:
        content.fault((), "has no question.")
    content.check()
