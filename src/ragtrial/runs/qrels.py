"""Judgments and runs as columns: ids packed as bytes, one row of entries per query."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ragtrial.rankings import Bools, Counts
from ragtrial.records import PromptQueries, highest_grades

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
class Groups:
    """Groups of judgments: alternatives, any one of which answers a part of the question.

    Member ``m`` is the judgment ``judgments[m]`` (int64, ascending) in the group ``numbers[m]`` (int64), where its
    grade is ``grades[m]`` (int32). Every judgment is in one group or several, every group has a member; query ``i``
    has the groups ``starts[i]:starts[i + 1]``, ``starts`` int64 (queries + 1,).
    """

    judgments: Counts
    numbers: Counts
    grades: Grades
    starts: Counts

    @classmethod
    def of(cls, labels: Iterable[Sequence[tuple[int, int, Hashable]]]) -> Groups | None:
        """From the labels of each query: (judgment, grade, group). None if every judgment is a group of its own.

        Judgments are numbered over all queries. A judgment that is twice in a group has the higher grade there.
        """
        members: dict[tuple[int, int], int] = {}
        starts = [0]
        for row in labels:
            numbers: dict[Hashable, int] = {}
            for judgment, grade, group in row:
                member = judgment, numbers.setdefault(group, starts[-1] + len(numbers))
                members[member] = max(grade, members.get(member, grade))
            starts.append(starts[-1] + len(numbers))
        if len(members) == starts[-1] == len({judgment for judgment, _ in members}):
            return None
        judgments, numbers_of, grades = np.array(sorted((*member, grade) for member, grade in members.items())).T
        return cls(judgments, numbers_of, grades.astype(np.int32), np.array(starts, dtype=np.int64))

    def highest(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The highest of the ``values`` of each group's members, shape (groups,)."""
        order = np.argsort(self.numbers, kind="stable")
        begins = np.searchsorted(self.numbers[order], np.arange(self.starts[-1]))
        return np.asarray(np.maximum.reduceat(values[order], begins))


@dataclass(frozen=True, eq=False)
class Judgments:
    """The grades of many queries, in the order of their labels.

    ``grades`` is int32; query ``i`` has ``grades[starts[i]:starts[i + 1]]``, ``starts`` int64 (queries + 1,).
    ``ordered``, shape (queries,), is True for queries whose labels are an order. ``groups`` is None if every judgment
    is a group of its own.
    """

    starts: Counts
    grades: Grades
    ordered: Bools
    groups: Groups | None = None

    def __len__(self) -> int:
        return len(self.ordered)

    @cached_property
    def rows(self) -> Counts:
        """The query of each judgment, shape (judgments,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def labels(self) -> Iterator[tuple[int, int, str | None]]:
        """Labels that give these judgments: (judgment, grade, group), without a group where it is of no consequence."""
        groups = self.groups
        if groups is None:
            yield from zip(range(len(self.grades)), self.grades.tolist(), repeat(None))
            return
        is_alone, is_in_one = (np.bincount(one)[one] == 1 for one in (groups.numbers, groups.judgments))
        columns = (groups.judgments, groups.grades, groups.numbers, is_alone & is_in_one)
        for judgment, grade, number, alone in zip(*(column.tolist() for column in columns), strict=True):
            yield judgment, grade, None if alone else str(number)

    @cached_property
    def of_groups(self) -> Judgments:
        """One judgment for each group, with the highest grade of its members; itself without groups."""
        groups = self.groups
        return self if groups is None else Judgments(groups.starts, groups.highest(groups.grades), self.ordered)

    def part(self, queries: slice) -> Judgments:
        """The judgments of the queries from ``queries.start`` to ``queries.stop``."""
        starts, groups = self.starts[queries.start : queries.stop + 1], self.groups
        if groups is not None:
            own = slice(*np.searchsorted(groups.judgments, starts[[0, -1]]))
            group_starts = groups.starts[queries.start : queries.stop + 1]
            judgments, numbers = groups.judgments[own] - starts[0], groups.numbers[own] - group_starts[0]
            groups = Groups(judgments, numbers, groups.grades[own], group_starts - group_starts[0])
        return Judgments(starts - starts[0], self.grades[starts[0] : starts[-1]], self.ordered[queries], groups)

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


Label = tuple[str, int, str | None]
"""A document, its grade, and the group that the label names."""


def judged_documents(labels: Sequence[Sequence[Label]], ordered: Sequence[bool]) -> tuple[list[str], Judgments]:
    """The judged documents of queries, each once at its first place, and their judgments; from each query's labels.

    A document has the highest of its grades. Labels of it that name no group are one group.
    """
    rows = [highest_grades((document, grade) for document, grade, _ in row) for row in labels]
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    grades = np.array([grade for row in rows for grade in row.values()], dtype=np.int32)
    judgments = Judgments(starts, grades, np.array(ordered, dtype=np.bool_))
    if any(group is not None for row in labels for _, _, group in row):
        numbered = []
        for start, documents, row in zip(starts.tolist(), rows, labels, strict=False):
            number = {document: start + place for place, document in enumerate(documents)}
            numbered.append([(number[document], grade, group or (document,)) for document, grade, group in row])
        judgments = replace(judgments, groups=Groups.of(numbered))
    return [document for row in rows for document in row], judgments


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
        given = list(rows)
        labels: list[list[Label]] = [[(document, grade, None) for document, grade in judged] for _, judged, _ in given]
        documents, judgments = judged_documents(labels, [is_ordered for *_, is_ordered in given])
        return cls(tuple(query for query, *_ in given), PackedIds.of(documents), judgments)


@dataclass(frozen=True, eq=False)
class Run:
    """The hits of one system, in memory: for each query rows of (document id, score or rank), in their original order.

    ``queries`` are distinct, in the order of their first rows; the rows of query ``i`` are ``starts[i]:starts[i + 1]``
    of ``documents`` and ``values``. ``values`` is float64: scores (larger is better), or ranks (smaller is better) if
    ``by_rank``; None if the rows are already in order. With ``of_chunks`` the rows were chunks, of which each document
    may have several. ``note`` is a sentence about what the source has and the run does not, for a warning.
    """

    name: str
    queries: tuple[str, ...]
    starts: Counts
    documents: PackedIds
    values: npt.NDArray[np.float64] | None
    by_rank: bool = False
    of_chunks: bool = False
    note: str = ""

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
    queries of the run, ``unknown_names`` has up to ten of them; ``some_documents`` has up to ten documents. ``note`` is
    that of the run.
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
    note: str = ""
