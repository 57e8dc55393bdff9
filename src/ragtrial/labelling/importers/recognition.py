"""Which tool a file of labels is of, and what it says: one reader a tool, chosen by what the file holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ragtrial.dataset.texts import is_unicode
from ragtrial.errors import Fault, LabelsError
from ragtrial.labelling.importers.base import IMPORTERS, Importer
from ragtrial.labelling.importers.content import Content, read_content
from ragtrial.labelling.importers.foreign import ForeignLabels, ImportedQuestion
from ragtrial.records import UNANSWERABLE

Empty = Literal["unlabelled", "unanswerable"]


@dataclass(frozen=True)
class ReadLabels:
    """What a file says, and as what it was read."""

    form: str
    content: Content
    labels: ForeignLabels


def read_labels(path: Path, form: str | None = None, empty: Empty = "unlabelled") -> ReadLabels:
    """The labels of a file, of the tool ``form`` or of the one it looks like; questions without ids get q1, q2, ...

    ``empty`` is what questions without an answer are: not labelled yet, or unanswerable, which becomes their tag.

    Raises LabelsError with all faults: a file that cannot be read or is of no known form, missing and wrong values,
    double ids, no question at all.
    """
    content = read_content(path)
    chosen = IMPORTERS[form] if form is not None else _recognised(content)
    if chosen is None and isinstance(content.value, Mapping) and "\n" not in content.text.strip():
        one_row = Content(content.file, [content.value], lines=[1])  # JSON lines, of one line
        chosen = _recognised(one_row)
        content = one_row if chosen else content
    if chosen is None:
        if content.is_csv:
            needed = "it needs question and answer, or question alone"
            message = f"is {content.seen()}; {needed}. Rename them in the first line."
            raise LabelsError(Fault(str(path), 1, 0, message))
        tried = "; ".join(f"{one.name} ({one.recognised_by})" for one in _by_specificity())
        message = f"has labels of no known form: it is {content.seen()}. Tried: {tried}."
        raise LabelsError(Fault(str(path), message=message))
    labels = chosen.read(content)
    labels = replace(labels, questions=tuple(_named(labels.questions)))
    _check(content, labels)
    if empty == "unanswerable":
        labels = replace(labels, questions=tuple(map(_tagged, labels.questions)))
    return ReadLabels(chosen.name, content, labels)


def _tagged(question: ImportedQuestion) -> ImportedQuestion:
    if question.answers or UNANSWERABLE in question.tags:
        return question
    return replace(question, tags=(*question.tags, UNANSWERABLE))


def _recognised(content: Content) -> Importer | None:
    return next((one for one in _by_specificity() if one.can_read(content)), None)


def _by_specificity() -> list[Importer]:
    """In the order in which they are tried."""
    return sorted((one for _, one in IMPORTERS.members()), key=lambda one: one.is_general)


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
    if not labels.questions and isinstance(content.value, Mapping | list):
        content.fault((), "has no question.")
    content.check()
