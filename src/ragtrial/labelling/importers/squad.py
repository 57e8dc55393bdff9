"""SQuAD 1.1 and 2.0, and data sets in its format: answers with their first character in a paragraph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from ragtrial.labelling.importers.base import (
    Content,
    Foreign,
    ForeignLabels,
    ImportedAnswer,
    ImportedQuestion,
    Importer,
    InCell,
    Name,
    Number,
    Text,
    register,
)
from ragtrial.options import FieldPath
from ragtrial.records import UNANSWERABLE


class _Answer(Foreign):
    text: Text
    answer_start: Number


class _Question(Foreign):
    id: Name = ""
    question: Text
    answers: list[_Answer] = Field(default=[])
    is_impossible: bool = False


class _Paragraph(Foreign):
    context: Text
    qas: list[_Question]


class _Article(Foreign):
    paragraphs: list[_Paragraph]


class _File(Foreign):
    data: list[_Article]


class _Lists(Foreign):
    text: list[Text]
    answer_start: list[Number]

    @model_validator(mode="after")
    def _are_parallel(self) -> Self:
        if len(self.text) != len(self.answer_start):
            raise ValueError(f"it has {len(self.text)} texts and {len(self.answer_start)} first characters.")
        return self


class _Row(Foreign):
    id: Name = ""
    question: Text
    context: Text
    answers: Annotated[_Lists, InCell]


def can_read(content: Content) -> bool:
    if isinstance(content.value, Mapping):
        return isinstance(content.value.get("data"), list)
    return {"context", "answers"} <= content.keys


def read(content: Content) -> ForeignLabels:
    """The questions of ``{"data": [{"paragraphs": [{"context", "qas"}]}]}``, or of rows as the hub's copy has them.

    The answers to a question are alternatives: the most frequent is kept, then the longest, then the first. A question
    without answers gets the tag unanswerable, as SQuAD 2.0 means it.
    """
    if not isinstance(content.value, Mapping):
        return ForeignLabels(tuple(
            _question(where, row, row.context, list(zip(row.answers.text, row.answers.answer_start, strict=True)))
            for where, row in content.read_rows(_Row)
        ))  # fmt: skip
    file = content.read(_File, content.value)
    return ForeignLabels(tuple(
        _question(("data", article, "paragraphs", place, "qas", number), question, paragraph.context,
                  [] if question.is_impossible else [(one.text, one.answer_start) for one in question.answers])
        for article, of_article in enumerate(file.data if file else ())
        for place, paragraph in enumerate(of_article.paragraphs)
        for number, question in enumerate(paragraph.qas)
    ))  # fmt: skip


def _question(
    where: FieldPath, row: _Question | _Row, context: str, given: Sequence[tuple[str, int]]
) -> ImportedQuestion:
    if not given:
        return ImportedQuestion(where, row.id, row.question, tags=(UNANSWERABLE,))
    counts = Counter(given)
    text, start = max(counts, key=lambda answer: (counts[answer], len(answer[0])))
    note = f"the most frequent of {len(counts)} different answers" if len(counts) > 1 else ""
    answer = ImportedAnswer((*where, "answers"), text, start=start, context=context, note=note)
    return ImportedQuestion(where, row.id, row.question, (answer,))


register(Importer("squad", "an object with the list `data`, or rows with `context` and `answers`", can_read, read))
