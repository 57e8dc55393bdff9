"""Ranked chunks against labelled passages: what was found where, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ragtrial.judgments import Bools, Grades
from ragtrial.matching.covering import cover
from ragtrial.rankings import PADDING, Codes, Counts
from ragtrial.spans import ChunkSpans, Meetings, Passages

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CoveredText:
    """Relevant characters in rankings, each counted once however many passages and chunks it is in.

    ``totals`` (int64, (queries,)) counts the relevant characters of each query; ``rows``, ``ranks`` and ``gained``
    have those that a chunk brings and none above it has.
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
    ``grades`` has the grade of each judgment. A passage is found once the chunks so far have ``coverage`` of its
    characters, above 0 and at most 1. ``is_whole`` says whether ``chunks`` are all there are, so that it is known what
    else could have been retrieved.
    """

    codes: Codes
    chunks: ChunkSpans
    passages: Passages
    grades: Grades
    coverage: float
    is_whole: bool

    @cached_property
    def meetings(self) -> Meetings:
        return cover(self.codes, self.chunks, self.passages)

    @cached_property
    def found(self) -> npt.NDArray[np.int32]:
        """The rank at which each passage is found, 0 where it is not, shape (passages,)."""
        met = self.meetings
        lengths = self.passages.lengths[met.passages]
        reached = np.flatnonzero(met.covered >= self.coverage * lengths)[::-1]
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

    @cached_property
    def covered(self) -> Counts:
        """How much of each passage all chunks of the ranking have together, in characters, shape (passages,)."""
        covered = np.zeros(len(self.passages), dtype=np.int64)
        np.maximum.at(covered, self.meetings.passages, self.meetings.covered)
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

    @cached_property
    def places(self) -> Bools:
        """The one place of each judgment whose characters count, shape (passages,).

        Where a judgment has several: the first that is found, or else the one of which most is covered.
        """
        last = np.where(self.found > 0, self.found, np.iinfo(np.int32).max)
        missing = 1 - self.covered / np.maximum(self.passages.lengths, 1)
        order = np.lexsort((missing, last, self.passages.judgments))
        ordered = self.passages.judgments[order]
        places = np.zeros(len(self.passages), dtype=np.bool_)
        places[order[np.append(True, ordered[1:] != ordered[:-1])[: len(order)]]] = True
        return places

    def relevant(self, threshold: int) -> Passages:
        """The characters that are relevant from ``threshold`` on, as passages that do not overlap."""
        return self.passages.chosen(self.places & (self.grades[self.passages.judgments] >= threshold)).merged()

    def text(self, threshold: int) -> CoveredText:
        """What the rankings have of the relevant characters."""
        if threshold not in self._texts:
            relevant = self.relevant(threshold)
            met = cover(self.codes, self.chunks, relevant)
            totals = np.bincount(relevant.rows, weights=relevant.lengths, minlength=len(self.codes)).astype(np.int64)
            self._texts[threshold] = CoveredText(totals, met.rows, met.ranks, met.gained)
        return self._texts[threshold]

    @cached_property
    def _texts(self) -> dict[int, CoveredText]:
        return {}

    @cached_property
    def retrieved(self) -> Counts:
        """Characters of the first 0, 1, ... chunks of each query, repeated ones too, int64 (queries, depth + 1)."""
        lengths = np.append(self.chunks.lengths, 0)[self.codes]  # the padding is the last
        return np.concatenate([np.zeros((len(self.codes), 1), np.int64), np.cumsum(lengths, axis=1)], axis=1)

    def ceilings(self, threshold: int, *, touching: bool = False) -> Shares:
        """The share of relevant characters in all chunks that have any, each character once; (queries,).

        0 where no chunk has one. Chunks must be ascending in document, start and end. With ``touching``, chunks that
        only touch a passage are among them, and relevant characters that no chunk has are divided by, too.
        """
        relevant, chunks = self.relevant(threshold), self.chunks
        width = int(max(chunks.ends.max(initial=0), relevant.ends.max(initial=0))) + 2
        keys, wanted = chunks.documents.astype(np.int64) * width, relevant.documents.astype(np.int64) * width
        # From the first chunk that reaches into the passage to the one behind the last.
        near = int(touching)
        first = np.searchsorted(keys + chunks.ends, wanted + relevant.begins - near, side="right")
        last = np.searchsorted(keys + chunks.starts, wanted + relevant.ends + near, side="left")
        some = first < last
        rows, begins, ends, first, last = (
            column[some] for column in (relevant.rows, relevant.begins, relevant.ends, first, last)
        )
        ending = np.searchsorted(keys + chunks.ends, (wanted + relevant.ends)[some], side="left")
        repeated = np.zeros(len(chunks), dtype=np.int64)  # characters of a chunk that the one before it has, too
        same = chunks.documents[1:] == chunks.documents[:-1]
        repeated[1:] = np.where(same, np.maximum(chunks.ends[:-1] - chunks.starts[1:], 0), 0)
        through = np.concatenate(([0], np.cumsum(chunks.lengths - repeated)))
        fresh = chunks.starts + repeated
        # What chunks have of a passage: all that they have before its end, less all before its beginning.
        before = through[first] + np.maximum(begins - fresh[first], 0)
        inside = ending < last  # or else the last of its chunks ends before it does
        upto = np.where(
            inside, through[ending] + np.maximum(ends - fresh[np.minimum(ending, last - 1)], 0), through[last]
        )
        hits = np.bincount(rows, weights=upto - before, minlength=len(self.codes))
        # Neighbouring passages may be in the same chunks: those that a passage of the query had already do not count.
        done = np.where(np.append(False, rows[1:] == rows[:-1])[: len(rows)], np.append(0, last[:-1])[: len(rows)], 0)
        first = np.maximum(first, done)
        new = first < last
        rows, first, last, done = rows[new], first[new], last[new], done[new]
        neighbours = (done > 0) & (chunks.documents[done - 1] == chunks.documents[first])
        overlap = np.where(neighbours, np.maximum(chunks.ends[done - 1] - chunks.starts[first], 0), 0)
        sizes = chunks.lengths[first] - overlap + through[last] - through[first + 1]
        touched = np.bincount(rows, weights=sizes, minlength=len(self.codes))
        if touching:
            touched += self.text(threshold).totals - hits
        return np.divide(hits, touched, out=np.zeros(len(hits)), where=touched > 0)

    def cut(self, depths: Counts) -> Overlaps:
        """The first chunks of every query, ``depths`` (int64, (queries,)) of them."""
        kept = np.arange(self.codes.shape[1]) < depths[:, None]
        return replace(self, codes=np.where(kept, self.codes, np.int32(PADDING)))

    def part(self, start: int, stop: int, judged: int, end: int) -> Overlaps:
        """Queries ``start`` to ``stop``, whose judgments are ``judged`` to ``end``."""
        passages = self.passages.part(start, stop, judged)
        return replace(self, codes=self.codes[start:stop], passages=passages, grades=self.grades[judged:end])
