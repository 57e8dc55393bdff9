"""Labels as prompt_queries.json has them, and as David Kirchhoff's framework wrote them: passages in place of ids."""

from __future__ import annotations

from collections.abc import Mapping

from ragtrial.labelling.content import Content, Row
from ragtrial.labelling.foreign import Answer, ForeignLabels, Question


def looks_right(content: Content) -> bool:
    return isinstance(content.value, Mapping) and isinstance(content.value.get("queries"), list)


def read(content: Content) -> ForeignLabels:
    """The questions of ``{"queries": [{"id", "text", "relevant_docs": [{"doc", "relevance"}]}]}``."""
    file = Row(content, (), content.value, "an object with `queries`")
    questions = tuple(_question(row) for row in file.rows("queries", what="an object: a question"))
    return ForeignLabels(questions, file.text("prompt", needed=False) or None)


def _question(row: Row) -> Question:
    answers = tuple(_answer(label) for label in row.rows("relevant_docs", what="an object: a known good answer"))
    ordered = row.values.get("ordered", False)
    if not isinstance(ordered, bool):
        row.content.fault((*row.where, "ordered"), "must be true or false.")
    return Question(row.where, row.name("id"), row.text("text"), answers, row.texts("tags"), ordered is True)


def _answer(row: Row) -> Answer:
    doc, quote, start = row.name("doc", needed=True), row.text("quote", needed=False), row.whole("start")
    if row.first(["doc"]) and not doc.strip():
        row.content.fault((*row.where, "doc"), "is empty.")
    if row.first(["quote"]) and not quote.strip():
        row.content.fault((*row.where, "quote"), "is empty.")
    return Answer(row.where, quote, doc, row.grade(), start, may_be_passage=not quote)
