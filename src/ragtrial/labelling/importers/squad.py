"""SQuAD, 1.1 and 2.0, and what is written like it: answers with their first character in a paragraph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ragtrial.labelling.importers.base import Importer, register
from ragtrial.labelling.importers.content import Content, ContentRow
from ragtrial.labelling.importers.foreign import ForeignLabels, ImportedAnswer, ImportedQuestion
from ragtrial.records import UNANSWERABLE


def can_read(content: Content) -> bool:
    if isinstance(content.value, Mapping):
        return isinstance(content.value.get("data"), list)
    return {"context", "answers"} <= content.keys


def read(content: Content) -> ForeignLabels:
    """The questions of ``{"data": [{"paragraphs": [{"context", "qas"}]}]}``, or of rows as the hub's copy has them.

    Of several answers to one question, which are alternatives, the one that most annotators gave is kept; of equally
    frequent ones the longest, then the first. A question without answers gets the tag
    unanswerable, as SQuAD 2.0 means it.
    """
    if isinstance(content.value, Mapping):
        return ForeignLabels(tuple(_articles(content)))
    rows = [ContentRow(content, (at,), value, "an object: a question") for at, value in enumerate(content.rows)]
    return ForeignLabels(tuple(_question(row, row.text("context"), list(_side_by_side(row))) for row in rows))


def _articles(content: Content) -> Iterator[ImportedQuestion]:
    file = ContentRow(content, (), content.value, "an object with `data`")
    for article in file.rows("data", what="an object: an article"):
        for paragraph in article.rows("paragraphs", what="an object: a paragraph"):
            context = paragraph.text("context")
            for row in paragraph.rows("qas", what="an object: a question"):
                impossible = row.values.get("is_impossible") is True
                given = [] if impossible else row.rows("answers", what="an object: an answer")
                yield _question(row, context, [_given(one) for one in given])


def _given(row: ContentRow) -> tuple[str, int | None]:
    if row.is_object and row.first(["answer_start"]) is None:
        row.content.fault(row.where, "must have answer_start: the first character of the answer in the context.")
    return row.text("text"), row.whole("answer_start")


def _side_by_side(row: ContentRow) -> Iterator[tuple[str, int | None]]:
    """The answers of a row: a list of texts beside a list of their first characters."""
    answers = ContentRow(row.content, (*row.where, "answers"), row.values.get("answers"), "an object of lists")
    texts, starts = answers.items("text"), answers.items("answer_start")
    if len(texts) != len(starts):
        row.content.fault(answers.where, f"has {len(texts)} texts and {len(starts)} first characters.")
    for (where, text), (beside, start) in zip(texts, starts, strict=False):
        if not isinstance(text, str) or not text.strip():
            row.content.fault(where, "must be a text that is not empty.")
        elif isinstance(start, bool) or not isinstance(start, int):
            row.content.fault(beside, "must be a whole number.")
        else:
            yield text, start


def _question(row: ContentRow, context: str, given: list[tuple[str, int | None]]) -> ImportedQuestion:
    question = ImportedQuestion(row.where, row.name("id"), row.text("question"))
    if not given:
        return replace(question, tags=(UNANSWERABLE,))
    counts = Counter(given)
    text, start = max(counts, key=lambda one: (counts[one], len(one[0])))
    note = f"the most frequent of {len(counts)} different answers" if len(counts) > 1 else ""
    answer = ImportedAnswer((*row.where, "answers"), text, start=start, context=context, note=note)
    return ImportedQuestion(question.where, question.id, question.text, (answer,))


register(Importer("squad", "an object with the list `data`, or rows with `context` and `answers`", can_read, read))
