"""Rows that anybody can write: a question, the passage that answers it, and where it stands if that is known."""

from __future__ import annotations

from dataclasses import replace

from ragtrial.labelling.importers.base import Importer, register
from ragtrial.labelling.importers.content import Content, ContentRow
from ragtrial.labelling.importers.foreign import ForeignLabels, ImportedAnswer, ImportedQuestion

_QUESTIONS = ("question", "query", "user_input", "prompt")
_PASSAGES = ("quote", "passage", "context", "answer", "expected", "ground_truth")
"""The first that is there is the passage: beside a context, an answer is often in other words."""
_MANY = "reference_contexts"
_DOCUMENTS = ("doc", "document", "file")


def can_read(content: Content) -> bool:
    return not content.keys.isdisjoint(_QUESTIONS) and not content.keys.isdisjoint((*_PASSAGES, _MANY, *_DOCUMENTS))


def read(content: Content) -> ForeignLabels:
    """The questions; rows that ask the same (equal id and text, or without ids equal text) are one question.

    A row whose answer is left empty is a question that the documents do not answer.
    """
    questions: dict[tuple[str, str], ImportedQuestion] = {}
    for position, value in enumerate(content.rows):
        row = ContentRow(content, (position,), value, "an object: a question and a passage")
        question = ImportedQuestion(
            row.where, row.name("id", "query_id"), row.text(*_QUESTIONS), _answers(row), _tags(row)
        )
        known = questions.setdefault((question.id, question.text), question)
        if known is not question:
            questions[question.id, question.text] = replace(known, answers=(*known.answers, *question.answers))
    if not isinstance(content.value, list):
        content.fault((), "must be a list of rows, JSON lines or CSV.")
    return ForeignLabels(tuple(questions.values()))


def _answers(row: ContentRow) -> tuple[ImportedAnswer, ...]:
    doc = row.name(*_DOCUMENTS)
    if row.first([_MANY]) and not row.first(_PASSAGES[:3]):
        answers = []
        for where, text in row.items(_MANY):
            if isinstance(text, str) and text.strip():
                answers.append(ImportedAnswer(where, text, doc, row.grade()))
            else:
                row.content.fault(where, "must be a text that is not empty.")
        return tuple(answers)
    if not doc and row.is_blank(_PASSAGES):
        return ()
    passage = row.text(*_PASSAGES, needed=not doc)
    return (ImportedAnswer(row.where, passage, doc, row.grade(), row.whole("start")),)


def _tags(row: ContentRow) -> tuple[str, ...]:
    tags = row.values.get("tags")
    return tuple(tags.split()) if isinstance(tags, str) else row.texts("tags")


register(
    Importer(
        "rows",
        "rows with `question` or `query`, and `quote`, `passage`, `context`, `answer` or `doc`",
        can_read,
        read,
        is_general=True,
    )
)
