"""The values that pass between the parts: frozen, and free of behaviour but for their own arithmetic."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import Repr
from types import MappingProxyType
from typing import Any, Literal, TypeVar

MOST_GRADE = 1_000_000
"""Grades lie between minus this and this; beyond is a slip of the pen."""

Direction = Literal["higher", "lower"]
"""Which values of a metric are better."""

Unit = Literal["document", "span"]
"""The unit that is retrieved and scored: whole documents, or labelled passages in them."""

Key = TypeVar("Key", bound=Hashable)

_EMPTY: Mapping[str, Any] = MappingProxyType({})

_SHORT = Repr()
_SHORT.maxstring, _SHORT.maxother = 60, 30


def brief(value: object, names: Iterable[str]) -> str:
    """``Name(id='q1', hits=<10>)``: the fields ``names`` on one line, collections counted, long texts cut."""

    def shown(one: object) -> str:
        return (
            f"<{len(one):,}>" if isinstance(one, Sequence | Mapping) and not isinstance(one, str) else _SHORT.repr(one)
        )

    return f"{type(value).__name__}({', '.join(f'{name}={shown(getattr(value, name))}' for name in names)})"


class Brief:
    """A dataclass with a short ``repr``, which does not fill the page of a notebook."""

    __slots__ = ()
    __match_args__: tuple[str, ...]

    def __repr__(self) -> str:
        return brief(self, self.__match_args__)


@dataclass(frozen=True, slots=True)
class Document:
    """A file of a folder, or a row of a corpus file, with normalised text (line ends, NFC).

    ``title`` is a separate field: it is indexed with every chunk, but spans concern ``text`` alone. ``pages`` has the
    character of ``text`` at which each page starts, ascending from 0; empty for a document without pages.
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
    """The relevance of a document to a query, from a label.

    ``relevance`` is the grade; 0 and below mean judged and not relevant. ``spans`` are the positions of the label's
    quote (or, under ``match: content``, of its passage) in the document, each of which is an answer; empty without one.
    A label with ``start`` and ``end`` has this one position. ``text_hash`` is the hash of the document's normalised
    text when the label was made (``dataset.texts.text_hash``); None if the label has no hash. Judgments of a query with
    one ``group`` are alternatives; None is a group of its own.
    """

    doc: str
    relevance: int = 1
    quote: str | None = None
    spans: tuple[Span, ...] = ()
    text_hash: str | None = None
    group: str | None = None


def highest_grades(labels: Iterable[tuple[Key, int]]) -> dict[Key, int]:
    """The grade of each document, in the order in which they first come: the highest, where labels give it several."""
    grades: dict[Key, int] = {}
    for document, grade in labels:
        grades[document] = max(grade, grades.get(document, grade))
    return grades


@dataclass(frozen=True, slots=True)
class Written:
    """The text that a chat model wrote for a question. ``by`` is a hash of the model and its prompt.

    Tokens are as billed; None if the endpoint does not report them.
    """

    by: str
    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """The question that a retriever is asked.

    ``id`` is the id of the labelled query, "" without one. ``phrasings`` are other wordings of ``text``. ``where`` and
    ``where_document`` are filters on the metadata and the text of hits, as Chroma writes them; None without any.
    ``written`` are texts that chat models wrote for it. ``own_document`` is the id of the document that is the question
    itself, which does not count as found; "" if there is none.
    """

    text: str
    phrasings: tuple[str, ...] = ()
    where: Mapping[str, Any] | None = None
    where_document: Mapping[str, Any] | None = None
    id: str = ""
    written: tuple[Written, ...] = ()
    own_document: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Query(Brief):
    """A question with its known good answers.

    ``ordered`` says that the order of ``relevant_docs`` is the order in which they should be found. Queries with the
    same ``cluster`` belong together. The rest is of the ``Question`` that is asked.
    """

    id: str
    text: str
    relevant_docs: tuple[Judgment, ...] = ()
    tags: tuple[str, ...] = ()
    ordered: bool = False
    phrasings: tuple[str, ...] = ()
    where: Mapping[str, Any] | None = None
    where_document: Mapping[str, Any] | None = None
    cluster: str | None = None

    @property
    def question(self) -> Question:
        """The question that a retriever is asked."""
        return Question(self.text, self.phrasings, self.where, self.where_document, self.id)


@dataclass(frozen=True, slots=True, repr=False)
class PromptQueries(Brief):
    """The labels: queries with judgments, and the prompt template that the retrieved texts will fill.

    ``prompt`` may hold the placeholders ``{query}`` and ``{contexts}``.
    """

    queries: tuple[Query, ...]
    prompt: str | None = None

    @property
    def have_alternatives(self) -> bool:
        """True if labels of any query have one group: alternatives, any one of which is an answer."""
        groups = ([one.group for one in query.relevant_docs if one.group is not None] for query in self.queries)
        return any(len(set(named)) < len(named) for named in groups)


DRAWN_AT_RANDOM, CHOSEN_BY_STAKES = "drawn-at-random", "chosen-by-stakes"
"""Tags of queries that say how they came to be judged, which a judge's worth depends on."""

DRAFTED, NOT_REVIEWED = "drafted", "not-reviewed"
"""Tags of queries that a model drafted from a passage, and of drafted queries that no person has reviewed."""

UNANSWERABLE = "unanswerable"
"""The tag of questions that the documents do not answer: they have no relevant documents, and that is meant."""


@dataclass(frozen=True, slots=True, order=True)
class ReportWarning:
    """Something that does not stop a run but that its reader should know.

    ``code`` is stable, for programs; docs/warnings.md has all codes. Those that may change a verdict are shown first.
    """

    code: str
    message: str
    may_change_verdict: bool = False

    @classmethod
    def of_verdict(cls, code: str, message: str) -> ReportWarning:
        """A warning that may change a verdict."""
        return cls(code, message, may_change_verdict=True)


@dataclass(frozen=True, slots=True)
class Hit:
    """One retrieved unit: a document, and the chunk of it that was found (None where there are no chunks)."""

    doc: str
    score: float | None = None
    chunk: str | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class QueryResult(Brief):
    """The hits of a setting for one query, best first, and their evaluations.

    A value in ``evaluations`` is None if the metric is not defined for the query (no relevant documents).
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


@dataclass(frozen=True, slots=True, repr=False)
class ExperimentResults(Brief):
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
    the document has no pages. ``headings`` are those of the text and the nearest above, each with where it begins.
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
    headings: tuple[tuple[int, str], ...] = ()


def heading_above(headings: Iterable[tuple[int, str]], position: int, title: str) -> str:
    """The words of the last of ``headings`` that begins up to ``position``; empty for the title, and without one."""
    above = [words for start, words in headings if start <= position]
    return above[-1] if above and above[-1] != title else ""
