"""Judgments and runs as columns: ids packed as bytes, one row of entries per query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from ragtrial.rankings import Bools, Counts
from ragtrial.records import PromptQueries

Grades = npt.NDArray[np.int32]

Order = Literal["score", "trec", "rank", "file"]
"""The order of a run: by score, descending, equal scores in the order of the file; the same with equal scores by
document id, descending in byte order, as trec_eval does; by the rank column, ascending; or the order of the file.
"""
Duplicates = Literal["error", "first"]
"""The treatment of a second row of a document for one query: an error, or dropped."""


@dataclass(frozen=True, eq=False)
class PackedIds:
    """Ids packed one behind the other: id ``i`` is ``text[ends[i - 1]:ends[i]]``, UTF-8.

    ``text`` is uint8, ``ends`` int64 (names,). Bytes that are no UTF-8 survive as surrogates.
    """

    text: npt.NDArray[np.uint8]
    ends: Counts

    @classmethod
    def of(cls, names: Iterable[str]) -> PackedIds:
        names = list(names)
        joined = "".join(names)
        if joined.isascii():  # as many bytes as characters: many names are encoded at once
            lengths = np.fromiter(map(len, names), dtype=np.int64, count=len(names))
            return cls(np.frombuffer(joined.encode(), dtype=np.uint8), np.cumsum(lengths, dtype=np.int64))
        encoded = [name.encode("utf-8", "surrogateescape") for name in names]
        lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), np.cumsum(lengths, dtype=np.int64))

    @property
    def starts(self) -> Counts:
        """The place of the first byte of each id, int64 (names,)."""
        return np.append(0, self.ends)[: len(self)].astype(np.int64)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> str:
        start = int(self.ends[index - 1]) if index else 0
        return self.text[start : int(self.ends[index])].tobytes().decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        whole, start = self.text.tobytes(), 0
        for end in self.ends.tolist():
            yield whole[start:end].decode("utf-8", "surrogateescape")
            start = end


@dataclass(frozen=True, eq=False)
class Judgments:
    """The grades of many queries, in the order of their labels.

    ``grades`` is int32; query ``i`` has ``grades[starts[i]:starts[i + 1]]``, ``starts`` int64 (queries + 1,).
    ``ordered``, shape (queries,), is True for queries whose labels are an order.
    """

    starts: Counts
    grades: Grades
    ordered: Bools

    def __len__(self) -> int:
        return len(self.ordered)

    @cached_property
    def rows(self) -> Counts:
        """The query of each judgment, shape (judgments,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    @cached_property
    def descending(self) -> Grades:
        """The grades of each query, highest first; rows start where ``starts`` says."""
        keys = self.rows * np.int64(2**33) - self.grades
        return (np.int64(2**33) * self.rows - np.sort(keys)).astype(np.int32)

    @cached_property
    def best(self) -> Counts:
        """The highest grade of each query, 0 without one above 0, shape (queries,)."""
        best = np.zeros(len(self), dtype=np.int64)
        some = np.diff(self.starts) > 0
        best[some] = self.descending[self.starts[:-1][some]]
        return np.maximum(best, 0)

    def relevant_counts(self, threshold: int) -> Counts:
        """Relevant documents of each query (R), those with a grade of at least ``threshold``, shape (queries,)."""
        return np.bincount(self.rows[self.grades >= threshold], minlength=len(self)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Qrels:
    """The judgments of each query: rows of (document id, grade), each document once.

    ``queries`` are distinct, in the order of their first rows; the document of judgment ``j`` is ``documents[j]``, its
    grade ``judgments.grades[j]``. ``labels`` are the source, if there is one: results without ids find their queries
    there by text. ``repeated`` counts rows that were dropped because they equal earlier rows.
    """

    queries: tuple[str, ...]
    documents: PackedIds
    judgments: Judgments
    labels: PromptQueries | None = None
    repeated: int = 0

    def __len__(self) -> int:
        return len(self.queries)

    @classmethod
    def of(cls, rows: Iterable[tuple[str, Sequence[tuple[str, int]], bool]]) -> Qrels:
        """From one row per query: its id, its (document, grade) pairs, and whether they are an order."""
        queries, documents, grades, lengths, ordered = [], [], [], [], []
        for query, judged, is_ordered in rows:
            queries.append(query)
            documents += [document for document, _ in judged]
            grades += [grade for _, grade in judged]
            lengths.append(len(judged))
            ordered.append(is_ordered)
        starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64)
        judgments = Judgments(starts, np.array(grades, dtype=np.int32), np.array(ordered, dtype=np.bool_))
        return cls(tuple(queries), PackedIds.of(documents), judgments)


@dataclass(frozen=True, eq=False)
class Run:
    """The hits of one system, in memory: for each query rows of (document id, score or rank), in their original order.

    ``queries`` are distinct, in the order of their first rows; the rows of query ``i`` are ``starts[i]:starts[i + 1]``
    of ``documents`` and ``values``. ``values`` is float64: scores (larger is better), or ranks (smaller is better) if
    ``by_rank``; None if the rows are already in order. With ``of_chunks`` the rows were chunks, of which each document
    may have several.
    """

    name: str
    queries: tuple[str, ...]
    starts: Counts
    documents: PackedIds
    values: npt.NDArray[np.float64] | None
    by_rank: bool = False
    of_chunks: bool = False

    def __len__(self) -> int:
        return len(self.queries)


@dataclass(frozen=True, eq=False)
class RunHits:
    """A run joined with qrels: its judged hits, query by query in the order of the qrels, best first.

    The hits of query ``i`` are ``starts[i]:starts[i + 1]``, ``starts`` int64 (queries + 1,). For each hit ``ranks``
    (int32) has its place in the ranking from 1 on, ``judgments`` (int64) the index of its judgment in the qrels, and
    ``tie_first`` and ``tie_last`` (int32) the first and the last rank with its score. ``lengths`` (int64) counts the
    documents retrieved for each query of the qrels, judged or not, without duplicates. ``tied`` is True for a query
    with two equal scores, ``contradicted`` if its rank column contradicts the order of its scores. ``rows`` counts the
    lines read, ``duplicates`` those dropped because the document has a higher place. ``unknown`` counts unjudged
    queries of the run, ``unknown_names`` has up to ten of them; ``some_documents`` has up to ten documents.
    """

    starts: Counts
    ranks: npt.NDArray[np.int32]
    judgments: Counts
    tie_first: npt.NDArray[np.int32]
    tie_last: npt.NDArray[np.int32]
    lengths: Counts
    tied: Bools
    contradicted: Bools
    rows: int
    duplicates: int
    unknown: int
    unknown_names: tuple[str, ...]
    some_documents: tuple[str, ...] = ()
