"""Rows that anybody can write: a question, the passage that answers it, and where it stands if that is known."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from ragtrial.labelling.importers.base import Importer, register
from ragtrial.labelling.importers.content import Content, ContentRow, cell_value
from ragtrial.labelling.importers.foreign import ForeignLabels, ImportedAnswer, ImportedQuestion
from ragtrial.records import UNANSWERABLE

_QUESTIONS = ("question", "query", "user_input", "prompt")
_PASSAGES = ("quote", "passage", "context", "answer", "expected", "ground_truth", "reference")
"""The first that is there is the passage: beside a context, an answer is often in other words."""
_MANY = "reference_contexts"
_DOCUMENTS = ("doc", "document", "file")
_BESIDE = {"id", "query_id", "tags", "answerable", "unanswerable"}
"""Columns that may stand beside questions alone; others may be answers that are called otherwise."""
_NUMBERED = re.compile(rf"(?:{'|'.join(_PASSAGES)})[ _-]?\d+")
_YES, _NO = {"yes", "true", "1", "1.0", "y", "x"}, {"no", "false", "0", "0.0", "n"}


def can_read(content: Content) -> bool:
    keys = content.keys
    return not keys.isdisjoint(_QUESTIONS) and (_has_answers(keys) or keys <= {*_QUESTIONS, *_BESIDE})


def _has_answers(keys: Collection[str]) -> bool:
    return any(key in (*_PASSAGES, _MANY, *_DOCUMENTS) or _NUMBERED.fullmatch(key) for key in keys)


def read(content: Content) -> ForeignLabels:
    """The questions; rows that ask the same (equal id and text, or without ids equal text) are one question.

    A row whose answer is left empty, or a question alone, has no answer yet; a column ``answerable`` or
    ``unanswerable`` says that the documents have none.
    """
    questions: dict[tuple[str, str], ImportedQuestion] = {}
    for position, value in enumerate(content.rows):
        row = ContentRow(content, (position,), value, "an object: a question and a passage")
        question = ImportedQuestion(
            row.where, row.name("id", "query_id"), row.text(*_QUESTIONS), _answers(row), _tags(row)
        )
        known = questions.setdefault((question.id, question.text), question)
        if known is not question:
            tags = tuple(dict.fromkeys((*known.tags, *question.tags)))
            answers = (*known.answers, *question.answers)
            questions[question.id, question.text] = replace(known, answers=answers, tags=tags)
    if not isinstance(content.value, list):
        content.fault((), "must be a list of rows, JSON lines or CSV.")
    return ForeignLabels(tuple(questions.values()))


def _answers(row: ContentRow) -> tuple[ImportedAnswer, ...]:
    doc = row.name(*_DOCUMENTS)
    if row.first([_MANY]) and not row.first(_PASSAGES[:3]) and not row.is_blank([_MANY]):
        answers = []
        for where, text in row.items(_MANY):
            if isinstance(text, str) and text.strip():
                answers.append(ImportedAnswer(where, text, doc, row.grade()))
            else:
                row.content.fault(where, "must be a text that is not empty.")
        return tuple(answers)
    if _is_unanswerable(row):
        return ()
    passages, grade, start = _passages(row), row.grade(), row.whole("start")
    if passages:
        start = start if len(passages) == 1 else None
        return tuple(ImportedAnswer(row.where, passage, doc, grade, start) for passage in passages)
    if not doc and row.is_object and not _has_answers(set(row.values)) and _has_answers(row.content.keys):
        row.text(*_PASSAGES)  # other rows have what this one lacks
    return (ImportedAnswer(row.where, "", doc, grade),) if doc else ()


def _passages(row: ContentRow) -> list[str]:
    """The passages of a row: of the first column that has one, a list in it one by one, and of numbered columns."""
    name = row.first([name for name in _PASSAGES if not row.is_blank([name])])
    numbered = [name for name in row.values if _NUMBERED.fullmatch(name) and not row.is_blank([name])]
    passages: list[str] = []
    for column in filter(None, (name, *numbered)):
        cell = row.values[column]
        several = cell_value(cell) if row.content.is_csv and isinstance(cell, str) and cell[:1] == "[" else cell
        if isinstance(several, list):
            passages += [one for one in several if isinstance(one, str) and one.strip()]
        else:
            passages.append(row.text(column))
    return passages


def _is_unanswerable(row: ContentRow) -> bool:
    answerable, unanswerable = (
        str(row.values.get(name, "")).strip().lower() for name in ("answerable", "unanswerable")
    )
    return answerable in _NO or unanswerable in _YES


def _tags(row: ContentRow) -> tuple[str, ...]:
    given = row.values.get("tags")
    tags = tuple(filter(None, re.split(r"[\s,;]+", given))) if isinstance(given, str) else row.texts("tags")
    return (*tags, UNANSWERABLE) if _is_unanswerable(row) and UNANSWERABLE not in tags else tags


register(
    Importer(
        "rows",
        "rows with `question` or `query`, and `quote`, `passage`, `context`, `answer` or `doc`; or questions alone",
        can_read,
        read,
        is_general=True,
    )
)
