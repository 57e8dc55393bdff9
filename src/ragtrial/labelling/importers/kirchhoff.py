"""Labels as prompt_queries.json has them, and as David Kirchhoff's framework wrote them: passages instead of ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragtrial.labelling.importers.base import Importer, register
from ragtrial.labelling.importers.content import Content, ContentRow
from ragtrial.labelling.importers.foreign import ForeignLabels, ImportedAnswer, ImportedQuestion
from ragtrial.options import shown


def can_read(content: Content) -> bool:
    return isinstance(content.value, Mapping) and isinstance(content.value.get("queries"), list)


def read(content: Content) -> ForeignLabels:
    """The questions of ``{"queries": [{"id", "text", "relevant_docs": [{"doc", "relevance"}]}]}``."""
    file = ContentRow(content, (), content.value, "an object with `queries`")
    questions = tuple(_question(row) for row in file.rows("queries", what="an object: a question"))
    return ForeignLabels(questions, file.text("prompt", needed=False) or None)


def _question(row: ContentRow) -> ImportedQuestion:
    answers = tuple(_answer(label) for label in row.rows("relevant_docs", what="an object: a known good answer"))
    ordered = row.values.get("ordered", False)
    if not isinstance(ordered, bool):
        row.content.fault((*row.where, "ordered"), "must be true or false.")
    phrasings = row.texts("phrasings")
    for place, phrasing in enumerate(phrasings):
        if not phrasing.strip():
            row.content.fault((*row.where, "phrasings", place), "is empty.")
    return ImportedQuestion(
        row.where, row.name("id"), row.text("text"), answers, row.texts("tags"), ordered is True, phrasings,
        _filter(row, "where"), _filter(row, "where_document"),
    )  # fmt: skip


def _filter(row: ContentRow, name: str) -> Mapping[str, Any] | None:
    value = row.values.get(name)
    if value is None:
        return None
    if not isinstance(value, Mapping) or not value:
        row.content.fault((*row.where, name), f"is {shown(value)}; it must be an object with at least one key.")
        return None
    return value


def _answer(row: ContentRow) -> ImportedAnswer:
    doc, quote, start = row.name("doc", needed=True), row.text("quote", needed=False), row.whole("start")
    for name in ("doc", "quote"):
        value = row.values.get(name)
        if isinstance(value, str) and not value.strip():
            row.content.fault((*row.where, name), "is empty.")
    end, text_hash = row.whole("end"), row.text("text_hash", needed=False)
    is_span = not quote and start is not None and end is not None
    if not quote and (start is None) != (end is None):
        there, lacking = ("start", "end") if end is None else ("end", "start")
        row.content.fault((*row.where, there), f"comes without {lacking}; without a quote both are needed.")
    elif not quote and start is not None and end is not None and not 0 <= start < end:
        row.content.fault((*row.where, "end"), f"is {end} and start is {start}; a passage ends behind its start.")
    return ImportedAnswer(
        row.where, quote, doc, row.grade(), start, end if is_span else None, text_hash if is_span else "",
        may_be_passage=not quote and not is_span,
    )  # fmt: skip


register(Importer("kirchhoff", "an object with the list `queries`", can_read, read))
