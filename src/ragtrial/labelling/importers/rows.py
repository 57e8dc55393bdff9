"""Rows that anyone can write: a question, the passage that answers it, and its place if that is known."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field

from ragtrial.errors import listed
from ragtrial.labelling.importers.base import (
    Content,
    Foreign,
    ForeignLabels,
    Grade,
    ImportedAnswer,
    ImportedQuestion,
    Importer,
    InCell,
    Name,
    Number,
    Text,
    cell_value,
    register,
)
from ragtrial.options import FieldPath, shown
from ragtrial.records import UNANSWERABLE

_QUESTIONS = ("question", "query", "user_input", "prompt")
_PASSAGES = ("quote", "passage", "context", "answer", "expected", "ground_truth", "reference")
"""The first column with a text has the passage: next to a context, an answer is often in other words."""
_MANY = "reference_contexts"
_DOCUMENTS = ("doc", "document", "file")
_BESIDE = {"id", "query_id", "tags", "answerable", "unanswerable"}
"""Known columns next to questions alone; other columns may be answers with an unknown name."""
_NUMBERED = re.compile(rf"(?:{'|'.join(_PASSAGES)})[ _-]?\d+")
_YES, _NO = {"yes", "true", "1", "1.0", "y", "x"}, {"no", "false", "0", "0.0", "n"}


def _tags(value: object) -> object:
    return list(filter(None, re.split(r"[\s,;]+", value))) if isinstance(value, str) else value


class _Row(Foreign):
    """The columns of a row; those with passages are in ``model_extra``."""

    model_config = ConfigDict(extra="allow")

    id: Name = Field("", validation_alias=AliasChoices("id", "query_id"))
    question: Text = Field(validation_alias=AliasChoices(*_QUESTIONS))
    doc: Name = Field("", validation_alias=AliasChoices(*_DOCUMENTS))
    relevance: Grade = 1
    start: Number | None = None
    tags: Annotated[list[str], BeforeValidator(_tags)] = Field(default=[])
    contexts: Annotated[list[Text], InCell] = Field([], validation_alias=_MANY)
    answerable: Any = ""
    unanswerable: Any = ""

    @property
    def is_unanswerable(self) -> bool:
        return str(self.answerable).strip().lower() in _NO or str(self.unanswerable).strip().lower() in _YES

    @property
    def all_tags(self) -> tuple[str, ...]:
        """The tags, and the tag unanswerable if a column requires it."""
        is_new = self.is_unanswerable and UNANSWERABLE not in self.tags
        return (*self.tags, UNANSWERABLE) if is_new else tuple(self.tags)


def can_read(content: Content) -> bool:
    keys = content.keys
    return not keys.isdisjoint(_QUESTIONS) and (_has_answers(keys) or keys <= {*_QUESTIONS, *_BESIDE})


def _has_answers(keys: Collection[str]) -> bool:
    return any(key in (*_PASSAGES, _MANY, *_DOCUMENTS) or _NUMBERED.fullmatch(key) for key in keys)


def read(content: Content) -> ForeignLabels:
    """The questions; rows that ask the same (equal id and text, or without ids equal text) are one question.

    A row with an empty answer, or a question alone, has no answer yet; a column ``answerable`` or ``unanswerable`` says
    that the documents have none.
    """
    questions: dict[tuple[str, str], ImportedQuestion] = {}
    for where, row in content.read_rows(_Row):
        question = ImportedQuestion(where, row.id, row.question, _answers(content, where, row), row.all_tags)
        known = questions.setdefault((question.id, question.text), question)
        if known is not question:
            tags = tuple(dict.fromkeys((*known.tags, *question.tags)))
            answers = (*known.answers, *question.answers)
            questions[question.id, question.text] = replace(known, answers=answers, tags=tags)
    return ForeignLabels(tuple(questions.values()))


def _answers(content: Content, where: FieldPath, row: _Row) -> tuple[ImportedAnswer, ...]:
    columns: Mapping[str, object] = row.model_extra or {}
    if row.contexts and not any(name in columns for name in _PASSAGES[:3]):
        return tuple(ImportedAnswer((*where, _MANY, place), text, row.doc, row.relevance)
                     for place, text in enumerate(row.contexts))  # fmt: skip
    if row.is_unanswerable:
        return ()
    passages = _passages(content, where, columns)
    if passages:
        start = row.start if len(passages) == 1 else None
        return tuple(ImportedAnswer(where, passage, row.doc, row.relevance, start) for passage in passages)
    if not row.doc:
        _refuse_other_columns(content, where)
    return (ImportedAnswer(where, "", row.doc, row.relevance),) if row.doc else ()


def _refuse_other_columns(content: Content, where: FieldPath) -> None:
    """Note a row that lacks the answers of other rows."""
    keys = content.rows[int(where[0])]
    if isinstance(keys, Mapping) and not _has_answers(keys) and _has_answers(content.keys):
        content.fault(where, f"must have one of {', '.join(_PASSAGES)}; it has {listed(keys)}.")


def _passages(content: Content, where: FieldPath, columns: Mapping[str, object]) -> list[str]:
    """The passages of a row: in its first column that has one, in a list there, and in numbered columns."""
    filled = [name for name, value in columns.items() if not isinstance(value, str) or value.strip()]
    first = [name for name in _PASSAGES if name in filled][:1]
    passages: list[str] = []
    for name in [*first, *filter(_NUMBERED.fullmatch, filled)]:
        value = cell_value(columns[name]) if content.is_csv else columns[name]
        if isinstance(value, str):
            passages.append(value)
        elif isinstance(value, list):
            passages += [text for text in value if isinstance(text, str) and text.strip()]
        else:
            content.fault((*where, name), f"is {shown(value)}; it must be a text.")
    return passages


register(
    Importer(
        "rows",
        "rows with `question` or `query`, and `quote`, `passage`, `context`, `answer` or `doc`; or questions alone",
        can_read,
        read,
        is_general=True,
    )
)
