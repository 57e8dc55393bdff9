"""Labels in the format of prompt_queries.json, which David Kirchhoff's framework wrote with passages instead of ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragtrial.dataset.labels import LabelRow, QueryRow, row_faults
from ragtrial.dataset.texts import normalised
from ragtrial.labelling.importers.base import (
    Content,
    Foreign,
    ForeignLabels,
    ImportedAnswer,
    ImportedQuestion,
    Importer,
    Name,
    register,
)
from ragtrial.options import FieldPath


class _Label(LabelRow, Foreign):
    pass


class _Query(QueryRow, Foreign):
    id: Name = ""
    relevant_docs: list[_Label]  # type: ignore[assignment]


class _File(Foreign):
    prompt: str | None = None
    queries: list[_Query]


def can_read(content: Content) -> bool:
    return isinstance(content.value, Mapping) and isinstance(content.value.get("queries"), list)


def read(content: Content) -> ForeignLabels:
    """The questions of ``{"queries": [{"id", "text", "relevant_docs": [{"doc", "relevance"}]}]}``."""
    file = content.read(_File, content.value)
    if file is None:
        return ForeignLabels(())
    for number, query in enumerate(file.queries):
        for path, message in row_faults(query):
            where: FieldPath = ("queries", number, *path)
            content.fault(where, f"{message}.")
    return ForeignLabels(tuple(_question(("queries", number), query) for number, query in enumerate(file.queries)),
                         file.prompt)  # fmt: skip


def _question(where: FieldPath, query: _Query) -> ImportedQuestion:
    answers = tuple(
        _answer((*where, "relevant_docs", number), label) for number, label in enumerate(query.relevant_docs)
    )
    more: dict[str, Any] = {
        "ordered": query.ordered,
        "phrasings": list(map(normalised, query.phrasings)),
        "where": query.where,
        "where_document": query.where_document,
    }
    return ImportedQuestion(where, query.id, query.text, answers, tuple(query.tags), more)


def _answer(where: FieldPath, label: LabelRow) -> ImportedAnswer:
    doc, quote = str(label.doc), label.quote or ""
    if quote:
        return ImportedAnswer(where, quote, doc, label.relevance, label.start)
    return ImportedAnswer(
        where, "", doc, label.relevance, label.start, label.end, label.text_hash or "",
        may_be_passage=label.start is None,
    )  # fmt: skip


register(Importer("kirchhoff", "an object with the list `queries`", can_read, read))
