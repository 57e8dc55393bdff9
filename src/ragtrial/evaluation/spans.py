"""Ranked chunks against labelled passages: labels as passages, and how much of them chunks cover."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ragtrial.dataset.library import Library
from ragtrial.dataset.spans import ChunkSpans, Meetings, Passages
from ragtrial.rankings import PADDING, Bools, Codes, Counts
from ragtrial.records import Query, ReportWarning, Span
from ragtrial.runs.qrels import Grades, Groups, Judgments

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CoveredText:
    """Relevant characters in rankings, each counted once even if several passages and chunks contain it.

    ``totals`` (int64, (queries,)) counts the relevant characters of each query; ``rows``, ``ranks`` and ``gained`` have
    the characters that a chunk adds to the chunks above it.
    """

    totals: Counts
    rows: Counts
    ranks: npt.NDArray[np.int32]
    gained: Counts

    def covered(self, k: int) -> Counts:
        """Relevant characters in the first ``k`` chunks of each query, shape (queries,)."""
        which = self.ranks <= k
        covered = np.bincount(self.rows[which], weights=self.gained[which], minlength=len(self.totals))
        return covered.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Overlaps:
    """Rankings of chunks and the passages that their queries' judgments speak of.

    ``codes`` is int32 (queries, depth): positions in ``chunks``, best first, rows filled up with ``PADDING``.
    A passage is found once the chunks so far have ``coverage`` of its
    characters, above 0 and at most 1. ``is_whole`` says whether ``chunks`` are all there are, so that it is known what
    else could have been retrieved.
    """

    codes: Codes
    chunks: ChunkSpans
    passages: Passages
    judgments: Judgments
    coverage: float
    is_whole: bool
    _texts: dict[tuple[int, int], CoveredText] = field(default_factory=dict, init=False)

    @property
    def grades(self) -> Grades:
        """The grade of each judgment, shape (judgments,)."""
        return self.judgments.grades

    @cached_property
    def meetings(self) -> Meetings:
        return cover(self.codes, self.chunks, self.passages)

    @cached_property
    def found(self) -> npt.NDArray[np.int32]:
        """The rank at which each passage is found, 0 where it is not, shape (passages,)."""
        met = self.meetings
        # As shares: 0.07 x 100 is above 7, but 7 / 100 is 0.07, as it is written.
        reached = np.flatnonzero(met.covered / self.passages.lengths[met.passages] >= self.coverage)[::-1]
        found = np.zeros(len(self.passages), dtype=np.int32)
        found[met.passages[reached]] = met.ranks[reached]  # from the last to the first: the first stays
        return found

    @cached_property
    def found_judgments(self) -> npt.NDArray[np.int32]:
        """The rank at which the first place of each judgment is found, 0 where none is, shape (judgments,)."""
        never = np.iinfo(np.int32).max
        ranks = np.full(len(self.grades), never, dtype=np.int32)
        np.minimum.at(ranks, self.passages.judgments, np.where(self.found > 0, self.found, never))
        return np.where(ranks == never, 0, ranks).astype(np.int32)

    @property
    def are_chunks(self) -> Bools:
        """True for each relevant passage that has exactly the characters of a chunk, shape (passages,)."""
        chunks, passages = self.chunks, self.passages
        far = 1 + max(int(chunks.starts.max(initial=0)), int(passages.begins.max(initial=0)))
        places = passages.documents.astype(np.int64) * far + passages.begins
        near = np.isin(chunks.documents.astype(np.int64) * far + chunks.starts, places)
        ends = {
            *zip(*(column[near].tolist() for column in (chunks.documents, chunks.starts, chunks.ends)), strict=True)
        }
        rows = zip(*(column.tolist() for column in (passages.documents, passages.begins, passages.ends)), strict=True)
        return np.array([row in ends for row in rows], dtype=np.bool_) & (self.grades[passages.judgments] > 0)

    def covered(self, k: int) -> Counts:
        """How much of each passage the first ``k`` chunks have together, in characters, shape (passages,)."""
        met = self.meetings
        which = met.ranks <= k
        covered = np.zeros(len(self.passages), dtype=np.int64)
        np.maximum.at(covered, met.passages[which], met.covered[which])
        return covered

    @cached_property
    def hits(self) -> tuple[Counts, npt.NDArray[np.int32], Grades]:
        """The query, rank and highest grade of each chunk that overlaps a passage of its query, each (hits,)."""
        met = self.meetings
        if not len(met):
            return met.rows, met.ranks, np.zeros(0, dtype=np.int32)
        grades = self.grades[self.passages.judgments[met.passages]]
        first = np.ones(len(met), dtype=np.bool_)
        first[1:] = (met.rows[1:] != met.rows[:-1]) | (met.ranks[1:] != met.ranks[:-1])
        starts = np.flatnonzero(first)
        return met.rows[starts], met.ranks[starts], np.maximum.reduceat(grades, starts)

    def counted_passages(self, k: int) -> Bools:
        """The position of each judgment whose characters count in the first ``k`` chunks, shape (passages,).

        Of several positions it is the first that is found there, or else the position that is covered most.
        """
        return self._first_passages(k, self.passages.judgments)

    def _first_passages(self, k: int, owners: Counts, wanted: Bools | None = None) -> Bools:
        """One of the ``wanted`` passages (default: all) for each owner, shape (passages,).

        They are chosen as ``counted_passages`` does. ``owners``, shape (passages,), has the judgment or the group of
        each passage.
        """
        wanted = np.ones(len(owners), dtype=np.bool_) if wanted is None else wanted
        last = np.where((self.found > 0) & (self.found <= k), self.found, np.iinfo(np.int32).max)
        missing = 1 - self.covered(k) / np.maximum(self.passages.lengths, 1)
        order = np.lexsort((missing, last, owners, ~wanted))
        ordered = owners[order]
        chosen = np.zeros(len(owners), dtype=np.bool_)
        chosen[order[np.append(True, ordered[1:] != ordered[:-1])[: len(order)]]] = True
        return chosen & wanted

    @cached_property
    def _alternatives(self) -> Counts:
        """The group of each passage, any place of which is an answer, shape (passages,)."""
        groups = self.judgments.groups
        return self.passages.judgments if groups is None else groups.numbers[self.passages.judgments]

    @cached_property
    def _are_single(self) -> bool:
        """True if every group has one position."""
        return bool((np.bincount(self._alternatives, minlength=1) <= 1).all())

    def text(self, threshold: int, k: int) -> CoveredText:
        """The relevant characters, from grade ``threshold`` on, in the first ``k`` chunks."""
        key = threshold, 0 if self._are_single else k
        if key not in self._texts:
            relevant = np.asarray(self.grades[self.passages.judgments] >= threshold)
            counted = relevant if self._are_single else self._first_passages(k, self._alternatives, relevant)
            passages = self.passages.chosen(counted).merged()
            met = cover(self.codes, self.chunks, passages)
            self._texts[key] = CoveredText(self._characters(passages), met.rows, met.ranks, met.gained)
        return self._texts[key]

    def _characters(self, passages: Passages) -> Counts:
        """The characters of ``passages`` that do not overlap, (queries,)."""
        totals = np.bincount(passages.rows, weights=passages.lengths, minlength=len(self.codes))
        return totals.astype(np.int64)

    @cached_property
    def retrieved(self) -> Counts:
        """Characters of the first 0, 1, ... chunks of each query, with repetitions, int64 (queries, depth + 1)."""
        lengths = np.append(self.chunks.lengths, 0)[self.codes]  # the padding is the last
        return np.concatenate([np.zeros((len(self.codes), 1), np.int64), np.cumsum(lengths, axis=1)], axis=1)

    def ceilings(self, threshold: int, *, touching: bool) -> Shares:
        """The share of relevant characters in all chunks that have any, each character once; (queries,).

        0 if no chunk has one. If a judgment has several positions, all are relevant, because the chunks do not
        determine which one will be found. Chunks must be ascending in document, start and end. With ``touching``,
        chunks that only touch a passage are included, and the divisor includes relevant characters that no chunk has.
        """
        chunks, near = self.chunks, int(touching)
        relevant = self.passages.chosen(self.grades[self.passages.judgments] >= threshold).merged()
        width = int(max(chunks.ends.max(initial=0), relevant.ends.max(initial=0))) + 2
        keys, wanted = chunks.documents.astype(np.int64) * width, relevant.documents.astype(np.int64) * width
        # From the first chunk that reaches into the passage to the one behind the last.
        first = np.searchsorted(keys + chunks.ends, wanted + relevant.begins - near, side="right")
        last = np.searchsorted(keys + chunks.starts, wanted + relevant.ends + near, side="left")
        counts = np.maximum(last - first, 0)
        codes = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
        rows = np.concatenate([np.repeat(relevant.rows, counts), relevant.rows])
        documents = np.concatenate([chunks.documents[codes], relevant.documents])
        begins = np.concatenate([chunks.starts[codes], relevant.begins])
        ends = np.concatenate([chunks.ends[codes], relevant.ends])

        def characters(which: slice) -> Counts:
            """The number of characters of the chunks, of the passages, or of both, each once, (queries,)."""
            columns = (one[which] for one in (rows, documents, begins, ends, np.zeros_like(rows)))
            return self._characters(Passages.from_places(len(self.codes), *columns).merged())

        sizes, together = characters(slice(len(codes))), characters(slice(None))
        hits = sizes + characters(slice(len(codes), None)) - together
        divided_by = together if touching else sizes
        return np.asarray(np.divide(hits, divided_by, out=np.zeros(len(hits)), where=divided_by > 0))

    def cut(self, depths: Counts) -> Overlaps:
        """The first chunks of every query, ``depths`` (int64, (queries,)) of them."""
        kept = np.arange(self.codes.shape[1]) < depths[:, None]
        return replace(self, codes=np.where(kept, self.codes, np.int32(PADDING)))


def cover(codes: Codes, chunks: ChunkSpans, passages: Passages) -> Meetings:
    """Each meeting of a ranked chunk with a passage of its query.

    ``codes`` is int32 (queries, depth): positions in ``chunks``, best first, rows filled up with -1. A chunk that only
    touches a passage does not meet it.
    """
    documents, begins, ends = chunks.documents.tolist(), chunks.starts.tolist(), chunks.ends.tolist()
    places = list(zip(passages.documents.tolist(), passages.begins.tolist(), passages.ends.tolist(), strict=True))
    starts = passages.starts.tolist()
    counts, rows = [0], []
    for query, ranked in enumerate(codes.tolist()):
        first, last = starts[query], starts[query + 1]
        known: list[list[tuple[int, int]]] = [[] for _ in range(first, last)]
        totals = [0] * (last - first)
        for rank, code in enumerate(ranked if last > first else [], 1):
            if code < 0:
                break
            place = bisect_left(places, documents[code], first, last, key=lambda one: one[0])
            while place < last and places[place][0] == documents[code]:
                _, begin, end = places[place]
                begin, end = max(begin, begins[code]), min(end, ends[code])
                if begin < end:
                    gained = _lay(known[place - first], begin, end)
                    totals[place - first] += gained
                    rows.append((place, rank, gained, totals[place - first]))
                place += 1
        counts.append(len(rows))
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Meetings(
        np.array(counts, dtype=np.int64), columns[:, 0], columns[:, 1].astype(np.int32), columns[:, 2], columns[:, 3]
    )


def _lay(known: list[tuple[int, int]], begin: int, end: int) -> int:
    """Add characters to ``known`` stretches, which stay apart and ascending; how many of them are new."""
    new, kept = end - begin, []
    for low, high in known:
        if high < begin or low > end:
            kept.append((low, high))
        else:
            new -= max(0, min(high, end) - max(low, begin))
            begin, end = min(low, begin), max(high, end)
    known[:] = sorted([*kept, (begin, end)])
    return new


@dataclass(frozen=True, eq=False)
class SpanLabels:
    """One judgment for each label, in the order of the labels, and the positions of its passage.

    A label without a passage refers to the whole document: its passage is the document without white space at its ends,
    which is in no chunk. ``whole`` counts such labels whose grade is above 0.
    """

    judgments: Judgments
    passages: Passages
    whole: int


def span_labels(queries: Sequence[Query], library: Library) -> SpanLabels:
    """The labels of ``queries``, which are looked up already: every document is in ``library``."""
    whole = judged_whole(queries, library)
    grades: list[int] = []
    rows: list[tuple[int, int, int, int, int]] = []
    counts = [0]
    for row, query in enumerate(queries):
        for label in query.relevant_docs:
            position, spans = library.positions[label.doc], label.spans or (whole[label.doc],)
            rows += [(row, position, span.start, span.end, len(grades)) for span in spans]
            grades.append(label.relevance)
        counts.append(len(grades))
    columns: Counts = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    ordered = np.array([query.ordered for query in queries], dtype=np.bool_)
    groups = None
    if any(label.group is not None for query in queries for label in query.relevant_docs):
        groups = Groups.of(
            [(label, one.relevance, one.group or (label,)) for label, one in enumerate(query.relevant_docs, start)]
            for start, query in zip(counts, queries, strict=False)
        )
    judgments = Judgments(np.array(counts, dtype=np.int64), np.array(grades, dtype=np.int32), ordered, groups)
    passages = Passages.from_places(len(queries), columns[0], columns[1].astype(np.int32), *columns[2:])
    without = sum(not label.spans and label.relevance > 0 for query in queries for label in query.relevant_docs)
    return SpanLabels(judgments, passages, without)


def judged_whole(queries: Sequence[Query], library: Library) -> dict[str, Span]:
    """The documents that ``queries`` judge without a passage, and the characters of each that count."""
    names = {label.doc for query in queries for label in query.relevant_docs if not label.spans}
    return {name: _text_of(library.text(library.positions[name])) for name in sorted(names)}


def _text_of(text: str) -> Span:
    """All of it but white space at its ends."""
    end = len(text.rstrip())
    return Span(min(len(text) - len(text.lstrip()), end), end)


def whole_warnings(labels: SpanLabels) -> list[ReportWarning]:
    """A warning if labels have no passage, which is seldom meant."""
    if not labels.whole:
        return []
    message = (
        f"labels of a grade above 0 without a quote: {labels.whole:,}. Under unit: span their passage is the whole "
        "document, of which the share span_coverage must be retrieved. Add quotes, or use unit: document."
    )
    return [ReportWarning.of_verdict("no-passage", message)]
