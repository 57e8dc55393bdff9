"""The values that pass between the parts: frozen, and free of behaviour but for their own arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from reprlib import Repr
from types import MappingProxyType
from typing import Any, Literal, Self

MOST_GRADE = 1_000_000
"""Grades lie between minus this and this; beyond is a slip of the pen."""

Direction = Literal["higher", "lower"]
"""Which values of a metric are better."""

Unit = Literal["document", "span"]
"""The unit that is retrieved and scored: whole documents, or labelled passages in them."""

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
    text when the label was made (``dataset.texts.text_hash``); None if the label has no hash.
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
        """The question that a retriever is asked."""
        return Question(self.text, self.phrasings, self.where, self.where_document, self.id)


@dataclass(frozen=True, slots=True, repr=False)
class PromptQueries(Brief):
    """The labels: queries with judgments, and the prompt template that the retrieved texts will fill.

    ``prompt`` may hold the placeholders ``{query}`` and ``{contexts}``.
    """

    queries: tuple[Query, ...]
    prompt: str | None = None


DRAWN_AT_RANDOM, CHOSEN_BY_STAKES = "drawn-at-random", "chosen-by-stakes"
"""Tags of queries that say how they came to be judged, which a judge's worth depends on."""

DRAFTED, NOT_REVIEWED = "drafted", "not-reviewed"
"""Tags of queries that a model drafted from a passage, and of drafted queries that no person has reviewed."""

UNANSWERABLE = "unanswerable"
"""The tag of questions that the documents do not answer: they have no relevant documents, and that is meant."""


class WarningCode(StrEnum):
    """The subject of a warning: stable, for programs. ``about`` describes it in a sentence."""

    about: str

    def __new__(cls, code: str, about: str) -> Self:
        made = str.__new__(cls, code)
        made._value_ = code
        made.about = about
        return made

    AUDIT_OF_PARENT = "audit-of-parent", "The comparison with exact search is that of the parent report's labels."
    BM25_LANGUAGES = "bm25-languages", "The stemmer and the stop words of BM25 are of two languages."
    BM25_UNKNOWN_WORDS = "bm25-unknown-words", "BM25 finds nothing for questions whose words are in no chunk."
    BUDGET_NOT_FULL = "budget-not-full", "Some rankings end before the token budget is full."
    BUDGET_NOT_KNOWN = "budget-not-known", "The report does not say how large its hits are: no score within the budget."
    CHUNKS_NOT_KNOWN = "chunks-not-known", "Metrics that need all chunks of a setting are left out; they are not known."
    COLLECTION_NOT_CHECKED = "collection-not-checked", "An existing collection's vectors were not checked."
    COMMON_QUERIES = "common-queries", "Only the queries that all reports have in common are compared."
    CONDITIONS_WITHOUT_ITEMS = "conditions-without-items", "No item of the collection meets the conditions of a query."
    DOCUMENTS_UNKNOWN = "documents-unknown", "A report does not say which documents it covers; they are not compared."
    DRAFTED_QUESTIONS = (
        "drafted-questions",
        "A model drafted questions from passages, which favours lexical retrievers.",
    )
    DROPPED_OPTIONS = "dropped-options", "Another kind was chosen for a section, and lacks some of its options."
    DUPLICATE_HITS = "duplicate-hits", "A ranking has the same hit more than once; the first counts."
    DUPLICATE_TEXTS = "duplicate-texts", "Several chunks have the same text."
    DUPLICATES_DROPPED = "duplicates-dropped", "Rows of a run were dropped: their document is ranked higher already."
    EMPTY_DOCUMENTS = "empty-documents", "Documents without text cannot be found."
    EMPTY_PAGES = "empty-pages", "Pages of PDF documents have no text; they may be scans."
    EQUAL_SETTINGS = "equal-settings", "Settings of the config are the same; they are run and shown once."
    FEW_CANDIDATES = "few-candidates", "A refiner looks at fewer hits than are scored."
    FEW_PEOPLE = "few-people", "People judged too few questions to know a judge's errors well."
    FEW_QUERIES_MATCH = "few-queries-match", "Fewer than half of the queries of a run and its qrels match."
    FEWER_HITS = "fewer-hits", "An index returned fewer hits than were asked for, although there are more."
    FILES_MISSING = "files-missing", "Files of a report are gone; what needs them is left out or is an error."
    FILTERS_NOT_HEEDED = "filters-not-heeded", "Queries have filters that a setting ignores."
    FEW_JUDGED = "few-judged", "Under unit: span, less than half of the hits are judged; the others count as wrong."
    FIRST_SKIPPED = "first-skipped", "The first questions of a custom retriever could not be answered."
    FUSED_BY_DOCUMENT = "fused-by-document", "Parts of a fusion have different chunks: one hit per document is left."
    GRAPH_NOT_KEPT = "graph-not-kept", "Chroma builds the graph of a small collection again whenever it opens it."
    HELD_OUT = "held-out", "A comparison leaves out the queries by which a search chose its settings."
    INDEX_LOSS = "index-loss", "The index moves the primary metric by more than its standard error, or 0.005."
    INDEX_NOT_USED = "index-not-used", "The engine scans all vectors instead of searching its index."
    JUDGE_ALONE = "judge-alone", "A judge's grades alone are no verdict; people judged no question."
    JUDGE_IN_PIPELINE = "judge-in-pipeline", "The judging model is also used by a setting that it judges."
    JUDGED_IN_PART = "judged-in-part", "People judged only some texts of questions that were drawn at random."
    L2_LENGTHS = "l2-lengths", "An l2 collection has vectors of different lengths."
    LABEL_MOVED = "label-moved", "A quote is not at the offsets of its label any more."
    LATENCY_LOADED = "latency-loaded", "Latencies were measured while other programs used the processors."
    LATENCY_MACHINES = "latency-machines", "Latencies were measured on different machines."
    LIMIT = "limit", "Only the first queries were run."
    MANY_PAIRS = "many-pairs", "All pairs of many settings are compared on few questions: name a baseline."
    METRICS_LEFT_OUT = "metrics-left-out", "Metrics that some reports lack, or that have no mean, are not compared."
    MODEL_NOT_HERE = "model-not-here", "A model could not be loaded, so something was not checked."
    NO_DOCUMENTS_MATCH = "no-documents-match", "No document of a run is in the qrels of its query."
    NO_LABELS_LEFT = "no-labels-left", "Queries of the report have no labels any more."
    NO_PARENT = "no-parent", "Hits are in no chunk of the parent's chunker and were dropped."
    NO_PARTNER = "no-partner", "A setting has no setting to be compared with."
    NO_PASSAGE = "no-passage", "A label has no passage, so under unit: span its whole document counts."
    NO_PHRASINGS = "no-phrasings", "A refiner of kind expand has nothing but the query to ask."
    NO_PREFIX = "no-prefix", "Chunks have no row in the file of prefixes."
    NO_RELEVANT = "no-relevant", "Questions have no answer yet: they are searched, not scored."
    NO_REPLY = "no-reply", "A chat model wrote nothing for some queries."
    NOT_DRAWN_AT_RANDOM = (
        "not-drawn-at-random",
        "Questions with people's labels were not drawn at random, or the labels do not say so.",
    )
    NOT_RANKED = "not-ranked", "Queries have labels, but no ranking in the report."
    NOT_REACHED = "not-reached", "A sweep's axis changes nothing for some settings."
    NOTHING_FOUND = "nothing-found", "A setting found nothing for any query."
    OTHER_DOCUMENTS = "other-documents", "The reports are of different documents."
    OTHER_PRIMARY_METRIC = "other-primary-metric", "The reports have different primary metrics."
    OVERLAY = "overlay", "Labels of an overlay were added to those of the data set."
    OVERLAY_MISSING = "overlay-missing", "The overlay that the config names does not exist yet."
    OWN_DOCUMENTS = "own-documents", "Documents that are the question itself were dropped from its ranking."
    OWN_LIMIT = "own-limit", "A custom retriever seems to have a limit of its own: it returns too few hits."
    OWN_PARENTS = "own-parents", "Every hit is its own parent, so the refiner changes nothing."
    PAIRS_REFUSED = "pairs-refused", "A reranker behind an endpoint refused pairs of a question and a text."
    PAIRS_WITHOUT_TEXT = "pairs-without-text", "Candidates have no text that a reranker could read."
    PASSAGE_TWICE = "passage-twice", "A labelled passage is in several places of the documents."
    PASSED_OVER = "passed-over", "Files of the corpus are of kinds that are not read."
    PHRASINGS_NOT_ASKED = "phrasings-not-asked", "Queries have phrasings that no setting asks."
    PREFIXES_LEFT_ASIDE = "prefixes-left-aside", "Chunks are shown without their prefixes, which cannot be read."
    PROMPTS_NOT_USED = "prompts-not-used", "A model declares prompts, and none that is put before texts of a side."
    QUERIES_LEFT_OUT = "queries-left-out", "Queries without a value are left out of comparisons."
    QUERIES_NOT_IN_RUN = "queries-not-in-run", "Queries are missing in a run file; they score 0."
    QUERIES_NOT_JUDGED = "queries-not-judged", "Queries of a run have no judgments and are left out."
    QUERIES_NOT_RETRIEVED = "queries-not-retrieved", "Judged queries are missing in a run; they score 0."
    QUOTE_TWICE = "quote-twice", "The quote of a label is found in several places."
    RANKS_CONTRADICT_SCORES = "ranks-contradict-scores", "The ranks of a run contradict its scores; the scores count."
    REDUCED_PRECISION = "reduced-precision", "Vectors are far from those that the model makes in float32."
    REPAIRED = "repaired", "A damaged stage of the workspace was made again."
    RISING_SCORES = "rising-scores", "The scores of a custom retriever rise with the rank."
    SAME_LABEL = "same-label", "A query judges the same document twice, with one grade."
    SETTING_FAILED = "setting-failed", "A setting of the report failed and is not compared."
    SHORT = "short", "Rankings have fewer hits than top_k."
    SKEWED_DIFFERENCES = "skewed-differences", "Differences are too skewed for so few queries to support a claim."
    SKIPPED = "skipped", "Queries could not be answered and are in no mean of the setting."
    SKIPPED_FILES = "skipped-files", "Files of the corpus could not be read and are left out."
    SLICE_CONTRADICTS = "slice-contradicts", "The difference in a slice contradicts that over all queries."
    SMALL_PARENTS = "small-parents", "Hits are larger than the chunks that are returned for them."
    TAG_CONTRADICTS = "tag-contradicts", "A query with the tag `unanswerable` has relevant documents."
    TEXT_CHANGED = "text-changed", "A document was changed since a label was made."
    TEXT_OF_QUERY = "text-of-query", "The text of some queries has changed since they were ranked."
    TIES = "ties", "The order of equal scores may change values."
    TOO_LONG = "too-long", "Texts are longer than the model reads."
    TRUNCATED_PAIRS = "truncated-pairs", "Pairs of a question and a text are longer than the reranker reads."
    UNCOVERED_TEXT = "uncovered-text", "Text of the documents is in no chunk and cannot be found."
    UNKNOWN_DOCUMENTS = "unknown-documents", "Judged documents are not in the corpus."
    UNKNOWN_NEIGHBOURS = "unknown-neighbours", "Text beside hits is in no chunk of the part, so less is returned."
    UNNORMALISED = "unnormalised", "The vectors differ in length and the space is sensitive to that."
    UNREACHABLE = "unreachable", "Some vectors in the index can never be returned by a search."
    WRONG_SPACE = "wrong-space", "The model was trained for another space than the store compares in."
    ZERO_VECTORS = "zero-vectors", "Chunks have a vector of zeros, which is near to nothing."


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
    matches: tuple[tuple[str, float], ...] = ()
    """The largest parts of the score, if the retriever knows them: shared terms, or tokens that match."""

    terms: tuple[tuple[str, float], ...] = ()
    """The terms that weigh most in the text, for a sparse model."""
