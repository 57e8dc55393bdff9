"""The values that pass between the parts: frozen, and free of behaviour but for their own arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

MOST_GRADE = 1_000_000
"""Grades lie between minus this and this; beyond is a slip of the pen."""

Unit = Literal["document", "span"]
"""What is found and scored: whole documents, or labelled passages in them."""

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Document:
    """A file of a folder, or a row of a corpus file, its text normalised (line ends, NFC).

    ``title`` is a field of its own: it is indexed with every chunk, but spans concern ``text`` alone. ``pages`` has
    the character of ``text`` at which each page starts, ascending from 0; empty for a document without pages.
    """

    id: str
    text: str
    title: str = ""
    pages: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Characters ``start`` (included) to ``end`` (excluded) of a document's normalised text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Judgment:
    """How relevant a document is to a query: what a label says.

    ``relevance`` is the grade; 0 and below mean judged and not relevant. ``spans`` are the places of the
    label's quote (or, under ``match: content``, of its passage) in the document, each of them the answer; empty when
    it has none. Of a label with ``start`` and ``end`` they are that one place. ``text_hash`` is that of the document's
    normalised text when the label was made (``dataset.texts.text_hash``); None where the label does not say it.
    """

    doc: str
    relevance: int = 1
    quote: str | None = None
    spans: tuple[Span, ...] = ()
    text_hash: str | None = None


def highest_grades(labels: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The grade of each document, in the order in which they first come: the highest, where labels give it several."""
    grades: dict[str, int] = {}
    for document, grade in labels:
        grades[document] = max(grade, grades.get(document, grade))
    return grades


@dataclass(frozen=True, slots=True)
class Question:
    """What a retriever is asked.

    ``id`` is that of the labelled query, "" without one. ``phrasings`` are other wordings of ``text``. ``where`` and
    ``where_document`` are filters on the metadata and the text of what is found, as Chroma writes them; None where
    there are none.
    """

    text: str
    phrasings: tuple[str, ...] = ()
    where: Mapping[str, Any] | None = None
    where_document: Mapping[str, Any] | None = None
    id: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """A question with its known good answers.

    ``ordered`` says that the order of ``relevant_docs`` is the order in which they should be found. The rest is of
    the ``Question`` that is asked.
    """

    id: str
    text: str
    relevant_docs: tuple[Judgment, ...] = ()
    tags: tuple[str, ...] = ()
    ordered: bool = False
    phrasings: tuple[str, ...] = ()
    where: Mapping[str, Any] | None = None
    where_document: Mapping[str, Any] | None = None

    @property
    def question(self) -> Question:
        """What a retriever is asked."""
        return Question(self.text, self.phrasings, self.where, self.where_document, self.id)


@dataclass(frozen=True, slots=True)
class PromptQueries:
    """The labels: queries with judgments, and the prompt template that the retrieved texts will fill.

    ``prompt`` may hold the placeholders ``{query}`` and ``{contexts}``.
    """

    queries: tuple[Query, ...]
    prompt: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class ReportWarning:
    """Something that does not stop a run but that its reader should know. ``code`` is stable, for programs."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Hit:
    """One retrieved unit: a document, and the chunk of it that was found (None where there are no chunks)."""

    doc: str
    score: float | None = None
    chunk: str | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a setting returned for one query, best first, and what the evaluators said of it.

    A value in ``evaluations`` is None where the metric is not defined for the query (no relevant documents).
    """

    id: str
    hits: tuple[Hit, ...] = ()
    query: str = ""
    evaluations: Mapping[str, float | None] = field(default_factory=lambda: _EMPTY)


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of a metric over the ``n`` queries for which it is defined; None over none."""

    mean: float | None
    n: int


@dataclass(frozen=True, slots=True)
class ExperimentResults:
    """The results of one setting for every query, with or without evaluations."""

    name: str
    results: tuple[QueryResult, ...]
    parameters: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    evaluations: Mapping[str, Mean] = field(default_factory=lambda: _EMPTY)


@dataclass(frozen=True)
class FoundText:
    """A hit with its text. ``grade`` is None where the document, or the chunk, is not judged.

    ``start``, ``end`` and ``text`` are None in a run that was made elsewhere: its texts are not known, nor, where it
    has ranks alone, the ``score``. ``pages`` are the first and the last page of the text, counted from 1; None where
    the document has no pages.
    """

    rank: int
    doc: str
    title: str
    start: int | None
    end: int | None
    score: float | None
    text: str | None
    grade: int | None = None
    pages: tuple[int, int] | None = None
