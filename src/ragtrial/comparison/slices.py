"""Differences within slices of the queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ragtrial.comparison.comparison_input import ComparisonInput, Pair
from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.number_text import signed, signed_interval
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Family, Procedure
from ragtrial.components.terms.analyzer import NO_STOP_WORDS, STOP_WORD_LANGUAGES, Analyzer, stemmers, stop_words_of
from ragtrial.errors import ReportError
from ragtrial.evaluation.grading import Scores
from ragtrial.rankings import Bools
from ragtrial.records import Direction
from ragtrial.report.model import TEXTS, Report
from ragtrial.report.schema import JudgmentPart, Part, QueryPart, WarningPart

SlicingName = Literal["tag", "relevant documents", "relevant passages", "query length", "word overlap"]

UNKNOWN = "unknown"
NO_TAG = "no tag"
COVERED = 0.9
"""The share of a labelled passage that any setting must have retrieved for its words to be known."""

MOST_SLICED = 20
"""Settings that are sliced at once: a table has no room for more."""

_ENGLISH = "english_plus"


@dataclass(frozen=True, eq=False)
class QuerySlice:
    """Some of the queries; ``members`` has the shape (queries,)."""

    slicing: SlicingName
    name: str
    members: Bools


class SlicePart(Part):
    """Two settings by the primary metric over a slice of the queries: ``setting`` less ``baseline``."""

    slicing: SlicingName
    name: str
    """The slice of the slicing: a tag, or the bounds of a count."""

    baseline: str
    setting: str
    queries: int
    """How many queries of the slice count for any setting."""

    n: int
    """How many of them count for both."""

    mean_baseline: float | None
    mean: float | None
    difference: float | None
    """Null over no queries, as the means are."""

    ci: tuple[float, float] | None
    """Simultaneous for all slices of this pair; null for a small slice, or one in which too few queries differ."""

    better: Direction = "higher"
    """Which values of the metric are better."""

    wins: int
    """Queries for which the setting has the better value."""

    ties: int
    losses: int
    contradicts: bool
    """True if ``ci`` and the interval over all queries exclude 0 on different sides."""


class SlicesPart(Part):
    """Where settings differ more, or the other way round."""

    metric: str
    least_differences: int
    """A slice in which fewer queries differ has no interval."""

    slicings: list[SlicingName]
    """The slicings that divide the queries. Tags may overlap, other slices do not."""

    comparisons: list[SlicePart]
    """For each pair its slices, slicing by slicing."""

    settings_left_out: int
    """How many settings have none, because there are more than are sliced at once."""

    warnings: list[WarningPart]
    """One for each slice that contradicts the whole."""


def compare_slices(inputs: ComparisonInput, comparisons: Sequence[ComparisonPart], procedure: Procedure) -> SlicesPart:
    """The differences by the primary metric within each slice of the queries.

    ``comparisons`` are the comparisons over all queries. If a setting is in several of them, as in all pairs, the
    comparisons with the best baseline are used. At most ``MOST_SLICED`` settings are sliced. The intervals of one pair
    are simultaneous over all slices. A slice in which fewer than ``LEAST_DIFFERENCES`` queries differ has no interval.
    Raises ReportError if the texts of a report are damaged.
    """
    wholes = [part for part in comparisons if part.metric == inputs.primary]
    if len({part.setting for part in wholes}) < len(wholes):
        sign = inputs.sign(inputs.primary)
        best = max(wholes, key=lambda part: sign * (part.mean_baseline or 0.0))
        wholes = [part for part in wholes if part.baseline == best.baseline]
    scores = inputs.scores(inputs.primary)
    slices = slices_of(inputs, np.asarray(~np.isnan(scores.values).all(axis=0)))
    sliced, left_out = wholes[:MOST_SLICED], len(wholes[MOST_SLICED:])
    pairs = [Pair(inputs.place(whole.baseline), inputs.place(whole.setting)) for whole in sliced]
    members, differences = np.array([query_slice.members for query_slice in slices]), scores.differences(pairs)
    families = [Family(np.where(members, row, np.nan)) for row in differences if slices]
    parts: list[SlicePart] = []
    warnings: list[WarningPart] = []
    for place, inference in enumerate(infer(families, procedure) if families else ()):
        whole, pair = sliced[place], pairs[place]
        for one, low, high in zip(slices, inference.low.tolist(), inference.high.tolist(), strict=True):
            ci = (low, high) if np.isfinite(low) and np.isfinite(high) else None
            part = _part(whole, scores.values[[pair.baseline, pair.setting]], differences[place], one, ci)
            parts.append(part)
            warnings += [_warning(whole, part)] if part.contradicts else []
    return SlicesPart(
        settings_left_out=left_out,
        metric=inputs.primary,
        least_differences=LEAST_DIFFERENCES,
        slicings=list(dict.fromkeys(one.slicing for one in slices)),
        comparisons=parts,
        warnings=warnings,
    )


def _part(
    whole: ComparisonPart, values: Scores, differences: Scores, one: QuerySlice, ci: tuple[float, float] | None
) -> SlicePart:
    """``values`` are the baseline's and the setting's."""
    both = one.members & ~np.isnan(differences)
    own = differences[both]
    before, after, difference = (float(row[both].mean()) if len(own) else None for row in (*values, differences))
    return SlicePart(
        slicing=one.slicing,
        name=one.name,
        baseline=whole.baseline,
        setting=whole.setting,
        queries=int(one.members.sum()),
        n=len(own),
        mean_baseline=before,
        mean=after,
        difference=difference,
        ci=ci,
        better=whole.better,
        wins=int(np.count_nonzero(own < 0 if whole.better == "lower" else own > 0)),
        ties=int(np.count_nonzero(own == 0)),
        losses=int(np.count_nonzero(own > 0 if whole.better == "lower" else own < 0)),
        contradicts=_side(ci) * _side(whole.ci) < 0,
    )


def _side(ci: tuple[float, float] | None) -> int:
    """1 for an interval above 0, -1 for one below, 0 for one with 0 in it, or none."""
    return 0 if ci is None else int(ci[0] > 0) - int(ci[1] < 0)


def _warning(whole: ComparisonPart, part: SlicePart) -> WarningPart:
    of_all, here = ("better", "worse") if _side(whole.gain_ci) > 0 else ("worse", "better")
    ends = signed_interval(part.ci, part.n, " to ")
    return WarningPart(
        code="slice-contradicts",
        message=f"{part.setting} is {of_all} than {part.baseline} over all queries, and {here} over the {part.n:,} of "
        f"{part.slicing} {part.name}: {signed(part.difference, part.n)}, {ends}.",
    )


def slices_of(inputs: ComparisonInput, counted: Bools) -> list[QuerySlice]:
    """The slices of the queries that are ``counted``, shape (queries,); other queries are in no slice.

    Queries are sliced by tag (a query may have several); by the number of relevant documents, or passages under unit:
    span; by the number of words, in thirds; and by the share of the query's distinct content words (stemmed, without
    stop words) that occur in its best labelled passage, in thirds. Passages are read from retrieved texts; a query
    without one is in the slice ``unknown``. Slices of no queries, or of all, are left out. Raises ReportError if a
    report's texts are damaged.
    """
    queries, report = inputs.queries, inputs.report
    spans = report.unit == "span"
    relevant = [_relevant(query, _threshold(report)) for query in queries]
    found = [len(labels if spans else {label.doc for label in labels}) for labels in relevant]
    lengths = np.array([len(query.text.split()) or np.nan for query in queries], dtype=np.float64)
    made = [
        *_by_tag(queries),
        *_by_bounds("relevant passages" if spans else "relevant documents", np.array(found), counted),
        *_by_thirds("query length", lengths, counted, _words),
        *_by_thirds("word overlap", _overlaps(inputs, relevant), counted, _percent),
    ]
    within = [QuerySlice(one.slicing, one.name, one.members & counted) for one in made]
    return [one for one in within if one.members.any() and (one.members != counted).any()]


def _threshold(report: Report) -> int:
    """The grade from which a document is relevant."""
    sections = (report.config.get(name) for name in ("evaluators", "score"))
    found = (section.get("relevance_threshold") for section in sections if isinstance(section, Mapping))
    return next((threshold for threshold in found if isinstance(threshold, int)), 1)


def _relevant(query: QueryPart, threshold: int) -> list[JudgmentPart]:
    return [judgment for judgment in query.relevant_docs if judgment.relevance >= threshold]


def _by_tag(queries: Sequence[QueryPart]) -> Iterator[QuerySlice]:
    tags = dict.fromkeys(tag for query in queries for tag in query.tags)
    for tag in tags:
        yield QuerySlice("tag", tag, np.array([tag in query.tags for query in queries], dtype=np.bool_))
    if tags:
        yield QuerySlice("tag", NO_TAG, np.array([not query.tags for query in queries], dtype=np.bool_))


def _by_bounds(slicing: SlicingName, relevant: Scores, counted: Bools) -> Iterator[QuerySlice]:
    """None, 1, 2 or 3, and 4 or more; these in two at their median where they are more than half."""
    bounds = [("0", 0, 0), ("1", 1, 1), ("2-3", 2, 3), ("4 and more", 4, np.inf)]
    many = relevant[counted & (relevant >= 4)]
    if 2 * len(many) > np.count_nonzero(counted) and many.min() < many.max():
        middle = min(int(np.quantile(many, 0.5, method="inverted_cdf")), int(many.max()) - 1)
        lower = (f"4-{middle}" if middle > 4 else "4", 4, middle)
        bounds[3:] = [lower, (f"{middle + 1} and more", middle + 1, np.inf)]
    for name, low, high in bounds:
        yield QuerySlice(slicing, name, (relevant >= low) & (relevant <= high))


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
    return f"{low:.0f} words" if low == high else f"{low:.0f}-{high:.0f} words"


def _percent(low: float, high: float) -> str:
    return f"{high:.0%}" if f"{low:.0%}" == f"{high:.0%}" else f"{low * 100:.0f}-{high:.0%}"


Pieces = Mapping[str, Sequence[tuple[int, int, str]]]
"""For each document the stretches of its text that are known: start, end, text; by start."""


def _overlaps(inputs: ComparisonInput, relevant: Sequence[Sequence[JudgmentPart]]) -> Scores:
    """The share of each query's content words that its labelled passage has, shape (queries,), NaN where unknown."""
    pieces = _pieces(inputs, {label.doc for labels in relevant for label in labels})
    shares = np.full(len(inputs.queries), np.nan)
    analyzer = _analyzer(inputs) if pieces else None
    for place, (query, labels) in enumerate(zip(inputs.queries, relevant, strict=True)):
        texts = _passages(labels, pieces)
        words = set(analyzer.terms(query.text)) if analyzer and texts else set()
        if analyzer and words:
            shares[place] = max(len(words & set(analyzer.terms(text))) for text in texts) / len(words)
    return shares


def _pieces(inputs: ComparisonInput, documents: set[str]) -> Pieces:
    """The known text of ``documents``, from reports over the same documents as the first report."""
    reports = {id(setting.report): setting.report for setting in inputs.settings}
    searched = inputs.report.dataset.documents_fingerprint
    found: dict[str, set[tuple[int, int, str]]] = {}
    for report in reports.values():
        if report.dataset.documents_fingerprint == searched:
            for row in _text_rows(report):
                start, end, text = row["start"], row["end"], row["text"]
                if row["doc"] in documents and start < end == start + len(text):
                    found.setdefault(row["doc"], set()).add((start, end, text))
    return {document: sorted(pieces) for document, pieces in found.items()}


def _text_rows(report: Report) -> Iterator[dict[str, Any]]:
    """The texts in the folder of a report; none if it was never written, or has no texts."""
    try:
        _ = report.folder
    except ReportError:
        return
    if report.file(TEXTS).is_file():
        yield from report.all_texts()


def _passages(labels: Sequence[JudgmentPart], pieces: Pieces) -> list[str]:
    """The known texts of labelled passages. Without any labelled passage, the known text of the documents."""
    if not any(one.spans for one in labels):
        return [" ".join(text for _, _, text in pieces[label.doc]) for label in labels if label.doc in pieces]
    texts = []
    for one in labels:
        for span in one.spans:
            text, covered = _between(pieces.get(one.doc, ()), span.start, span.end)
            if covered >= COVERED * (span.end - span.start):
                texts.append(text)
    return texts


def _between(pieces: Sequence[tuple[int, int, str]], start: int, end: int) -> tuple[str, int]:
    """The known text of a stretch of a document, gaps as spaces, and the number of known characters."""
    parts, covered, place = [], 0, start
    for first, last, text in pieces:
        after, before = max(first, place), min(last, end)
        if after < before:
            parts += [" "] * (after > place) + [text[after - first : before - first]]
            covered, place = covered + before - after, before
    return "".join(parts), covered


def _analyzer(inputs: ComparisonInput) -> Analyzer:
    """As BM25 has it, if it is among the settings; English otherwise. Stop words are the longer list of English."""
    retrievers = (one for setting in inputs.settings for one in _retrievers(setting.part.parameters))
    bm25 = next((retriever for retriever in retrievers if retriever.get("kind") == "bm25"), {})
    language = str(bm25.get("stop_words"))
    if language == "english" or language not in (NO_STOP_WORDS, *STOP_WORD_LANGUAGES):
        language = _ENGLISH
    stemmer = str(bm25.get("stemmer", "english"))
    return Analyzer(stemmer if stemmer in stemmers() else "english", stop_words_of(language))


def _retrievers(parameters: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield parameters.get("retriever") or {}
    for part in (parameters.get("parts") or {}).values():
        yield from _retrievers(part)
