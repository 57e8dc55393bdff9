"""Kinds of queries: by tag, by how much is relevant, by length, by how many of their words the passages share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ragtrial.comparison.contest import ComparisonSet
from ragtrial.components.terms.analyzer import Analyzer
from ragtrial.components.terms.stop_words import NO_STOP_WORDS, STOP_WORD_LANGUAGES, stop_words_of
from ragtrial.errors import ReportError
from ragtrial.evaluation.grading import Scores
from ragtrial.rankings import Bools
from ragtrial.records import highest_grades
from ragtrial.report.model import Report, read_lines
from ragtrial.report.schema import JudgmentPart, QueryPart

SlicingName = Literal["tag", "relevant documents", "relevant passages", "query length", "word overlap"]

UNKNOWN = "unknown"
NO_TAG = "no tag"
COVERED = 0.9
"""Of a labelled passage so much must have been retrieved, by any setting, for its words to be known."""

_ENGLISH = "english_plus"


@dataclass(frozen=True, eq=False)
class QuerySlice:
    """Some of the queries; ``members`` has the shape (queries,)."""

    slicing: SlicingName
    name: str
    members: Bools


def slices_of(contest: ComparisonSet, counted: Bools) -> list[QuerySlice]:
    """The slices of the queries that are ``counted``, shape (queries,); others are in none.

    By tag, of which a query may have several; by the number of relevant documents (of passages under unit: span); by
    the number of words, in thirds; by the share of the query's distinct content words (stemmed, without stop words)
    that its labelled passage has, in thirds: of several passages that which shares most. Passages are read from the
    texts that were retrieved; where none of a query was, its slice is ``unknown``. A slice of no queries or of all is
    left out. Raises ReportError if a report's texts are damaged.
    """
    queries = contest.queries
    report = contest.contenders[0].report
    threshold, unit = _threshold(report), report.unit
    relevant = np.array([_relevant(query, threshold, spans=unit == "span") for query in queries], dtype=np.float64)
    lengths = np.array([len(query.text.split()) or np.nan for query in queries], dtype=np.float64)
    made = [
        *_by_tag(queries),
        *_by_bounds("relevant passages" if unit == "span" else "relevant documents", relevant, counted),
        *_by_thirds("query length", lengths, counted, _words),
        *_by_thirds("word overlap", _overlaps(contest, threshold), counted, _percent),
    ]
    within = [QuerySlice(one.slicing, one.name, one.members & counted) for one in made]
    return [one for one in within if one.members.any() and (one.members != counted).any()]


def _threshold(report: Report) -> int:
    """The grade from which a document is relevant."""
    for section in (report.config.get("evaluators"), report.config.get("score")):
        if isinstance(section, Mapping) and isinstance(section.get("relevance_threshold"), int):
            return int(section["relevance_threshold"])
    return 1


def _relevant(query: QueryPart, threshold: int, *, spans: bool) -> int:
    if spans:
        return sum(one.relevance >= threshold for one in query.relevant_docs)
    grades = highest_grades((one.doc, one.relevance) for one in query.relevant_docs)
    return sum(grade >= threshold for grade in grades.values())


def _by_tag(queries: Sequence[QueryPart]) -> Iterator[QuerySlice]:
    tags = dict.fromkeys(tag for query in queries for tag in query.tags)
    for tag in tags:
        yield QuerySlice("tag", tag, np.array([tag in query.tags for query in queries], dtype=np.bool_))
    if tags:
        yield QuerySlice("tag", NO_TAG, np.array([not query.tags for query in queries], dtype=np.bool_))


def _by_bounds(slicing: SlicingName, relevant: Scores, counted: Bools) -> Iterator[QuerySlice]:
    """None, 1, 2 or 3, and 4 or more; these in two at their median where they are more than half."""
    yield QuerySlice(slicing, "0", relevant == 0)
    yield QuerySlice(slicing, "1", relevant == 1)
    yield QuerySlice(slicing, "2-3", (relevant >= 2) & (relevant <= 3))
    many = relevant[counted & (relevant >= 4)]
    if 2 * len(many) > np.count_nonzero(counted) and many.min() < many.max():
        middle = min(int(np.quantile(many, 0.5, method="inverted_cdf")), int(many.max()) - 1)
        yield QuerySlice(slicing, f"4-{middle}" if middle > 4 else "4", (relevant >= 4) & (relevant <= middle))
        yield QuerySlice(slicing, f"{middle + 1} and more", relevant > middle)
    else:
        yield QuerySlice(slicing, "4 and more", relevant >= 4)


def _by_thirds(
    slicing: SlicingName, values: Scores, counted: Bools, shown: Callable[[float, float], str]
) -> Iterator[QuerySlice]:
    """Three slices about as large, equal values in one; fewer where values repeat. NaN is unknown."""
    known = counted & ~np.isnan(values)
    if known.any():
        bounds = np.unique(np.quantile(values[known], [1 / 3, 2 / 3], method="inverted_cdf"))
        thirds = np.searchsorted(bounds, values)
        for third in range(len(bounds) + 1):
            members = known & (thirds == third)
            if members.any():
                yield QuerySlice(slicing, shown(values[members].min(), values[members].max()), members)
    yield QuerySlice(slicing, UNKNOWN, np.isnan(values))


def _words(low: float, high: float) -> str:
    bounds = f"{low:.0f}" if low == high else f"{low:.0f}-{high:.0f}"
    return f"{bounds} {'word' if bounds == '1' else 'words'}"


def _percent(low: float, high: float) -> str:
    return f"{high:.0%}" if f"{low:.0%}" == f"{high:.0%}" else f"{low * 100:.0f}-{high:.0%}"


Pieces = Mapping[str, Sequence[tuple[int, int, str]]]
"""For each document the stretches of its text that are known: start, end, text; by start."""


def _overlaps(contest: ComparisonSet, threshold: int) -> Scores:
    """The share of each query's content words that its labelled passage has, shape (queries,), NaN where unknown."""
    relevant = {
        query.id: [one for one in query.relevant_docs if one.relevance >= threshold] for query in contest.queries
    }
    pieces = _pieces(contest, {one.doc for labels in relevant.values() for one in labels})
    shares = np.full(len(contest.queries), np.nan)
    if not pieces:
        return shares
    analyzer = _analyzer(contest)
    for place, query in enumerate(contest.queries):
        words = set(analyzer.terms(query.text))
        texts = _passages(relevant[query.id], pieces)
        if words and texts:
            shares[place] = max(len(words & set(analyzer.terms(text))) for text in texts) / len(words)
    return shares


def _pieces(contest: ComparisonSet, documents: set[str]) -> Pieces:
    """What is known of the text of ``documents``, from reports over the same documents as the first one's."""
    reports: dict[int, Report] = {id(contender.report): contender.report for contender in contest.contenders}
    found: dict[str, set[tuple[int, int, str]]] = {}
    searched = next((report.dataset.documents_fingerprint for report in reports.values()), None)
    for report in reports.values():
        if report.dataset.documents_fingerprint == searched:
            for row in _text_rows(report):
                start, end, text = row["start"], row["end"], row["text"]
                if row["doc"] in documents and start < end == start + len(text):
                    found.setdefault(row["doc"], set()).add((start, end, text))
    return {document: sorted(pieces) for document, pieces in found.items()}


def _text_rows(report: Report) -> Iterator[dict[str, Any]]:
    """The texts beside a report; none where it was never written, or is kept without them."""
    try:
        path = report.folder / "texts.jsonl.gz"
    except ReportError:
        return
    if path.is_file():
        yield from read_lines(path)


def _passages(labels: Sequence[JudgmentPart], pieces: Pieces) -> list[str]:
    """The texts of labelled passages that are known; where no label has one, what is known of the documents."""
    if not any(one.spans for one in labels):
        return [" ".join(text for _, _, text in pieces[one.doc]) for one in labels if one.doc in pieces]
    texts = []
    for one in labels:
        for span in one.spans:
            text, covered = _between(pieces.get(one.doc, ()), span.start, span.end)
            if covered >= COVERED * (span.end - span.start):
                texts.append(text)
    return texts


def _between(pieces: Sequence[tuple[int, int, str]], start: int, end: int) -> tuple[str, int]:
    """What is known of a stretch of a document, gaps as spaces, and how many of its characters are."""
    parts, covered, place = [], 0, start
    for first, last, text in pieces:
        after, before = max(first, place), min(last, end)
        if after < before:
            parts += [" "] * (after > place) + [text[after - first : before - first]]
            covered, place = covered + before - after, before
    return "".join(parts), covered


def _analyzer(contest: ComparisonSet) -> Analyzer:
    """As BM25 has it, if it is among the settings; English otherwise. Stop words are the longer list of English."""
    for contender in contest.contenders:
        for retriever in _retrievers(contender.setting.parameters):
            if retriever.get("kind") == "bm25":
                language = str(retriever.get("stop_words"))
                if language == "english" or language not in (NO_STOP_WORDS, *STOP_WORD_LANGUAGES):
                    language = _ENGLISH
                return Analyzer(str(retriever.get("stemmer", "english")), stop_words_of(language))
    return Analyzer("english", stop_words_of(_ENGLISH))


def _retrievers(parameters: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield parameters.get("retriever") or {}
    for part in (parameters.get("parts") or {}).values():
        yield from _retrievers(part)
