"""Rankings joined with judgments: the one place where ids become numbers. From here on scoring is arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.errors import CutoffError
from ragtrial.rankings import PADDING, Counts, Rankings
from ragtrial.records import Query

Grades = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

UNJUDGED = np.int32(-(2**31))
"""The grade of a retrieved document that has no judgment, and of the padding."""


@dataclass(frozen=True, eq=False)
class GradedRankings:
    """Graded hits of many queries, best first, and what each query's judgments would allow.

    ``grades`` is int32 (queries, depth): the grade of each hit, ``UNJUDGED`` where it has none or the row has ended.
    ``positions`` is int32 of the same shape: the place of a relevant hit among the query's relevant documents in the
    order of the labels, -1 for other hits. ``lengths`` counts the hits. ``judged`` has every judged grade of a query,
    descending, shape (queries,) of arrays. ``ordered`` says whose labels are an order. ``depth`` is the top_k that was
    asked for; a row may be shorter. A document is relevant from grade ``threshold`` on.
    """

    grades: Grades
    positions: npt.NDArray[np.int32]
    lengths: Counts
    judged: tuple[Grades, ...]
    ordered: Bools
    depth: int
    threshold: int

    def __len__(self) -> int:
        return len(self.judged)

    def top(self, k: int) -> Grades:
        """The grades of the first ``k`` hits, shape (queries, at most k). Raises CutoffError beyond ``depth``."""
        if k < 1:
            raise CutoffError(f"k is {k}; it must be at least 1.")
        if k > self.depth:
            raise CutoffError(
                f"k is {k}, but only the first {self.depth} hits were kept (top_k); raise top_k or lower k."
            )
        return self.grades[:, :k]

    def relevant(self, k: int) -> Bools:
        """Which of the first ``k`` hits are relevant, shape (queries, at most k)."""
        return self.top(k) >= self.threshold

    @cached_property
    def relevant_counts(self) -> Counts:
        """Relevant documents of each query (R), retrieved or not, shape (queries,)."""
        return np.array([np.count_nonzero(grades >= self.threshold) for grades in self.judged], dtype=np.int64)

    @cached_property
    def best_grades(self) -> Counts:
        """The highest judged grade of each query, 0 without one above 0, shape (queries,)."""
        return np.array([max(int(grades.max(initial=0)), 0) for grades in self.judged], dtype=np.int64)


def grade(
    rankings: Rankings, documents: Sequence[str], queries: Sequence[Query], depth: int, threshold: int = 1
) -> GradedRankings:
    """The grades of ranked documents.

    ``rankings`` has one row per query of ``queries`` and codes that are positions in ``documents``; each document at
    most once per row. A document that several labels of one query name has the highest of their grades. Only the
    first ``depth`` hits are kept. Raises ValueError when rows and queries differ in number.
    """
    if len(rankings) != len(queries):
        raise ValueError(f"{len(rankings)} rankings for {len(queries)} queries")
    rankings = rankings.cut(depth)
    labels = [_grades_by_document(query) for query in queries]
    wanted = {name for row in labels for name in row}
    code_of = {name: code for code, name in enumerate(documents) if name in wanted}
    columns_of = _judgment_columns(labels, code_of, len(documents), threshold)
    hit_grades = np.full(rankings.codes.shape, UNJUDGED, dtype=np.int32)
    hit_positions = np.full(rankings.codes.shape, -1, dtype=np.int32)
    rows, columns = np.nonzero(rankings.codes != PADDING)
    if len(columns_of.keys) and len(rows):
        hits = rows * np.int64(len(documents)) + rankings.codes[rows, columns]
        found = np.minimum(np.searchsorted(columns_of.keys, hits), len(columns_of.keys) - 1)
        judged = columns_of.keys[found] == hits
        hit_grades[rows[judged], columns[judged]] = columns_of.grades[found[judged]]
        hit_positions[rows[judged], columns[judged]] = columns_of.positions[found[judged]]
    return GradedRankings(
        grades=hit_grades,
        positions=hit_positions,
        lengths=rankings.lengths,
        judged=tuple(np.sort(np.fromiter(row.values(), dtype=np.int32, count=len(row)))[::-1] for row in labels),
        ordered=np.array([query.ordered for query in queries], dtype=np.bool_),
        depth=depth,
        threshold=threshold,
    )


def _grades_by_document(query: Query) -> dict[str, int]:
    """The grade of each judged document, in the order of the labels."""
    grades: dict[str, int] = {}
    for judgment in query.relevant_docs:
        grades[judgment.doc] = max(judgment.relevance, grades.get(judgment.doc, judgment.relevance))
    return grades


class _JudgmentColumns(NamedTuple):
    """Judgments sorted by key (query x documents + code): the grade, and the place among the relevant or -1."""

    keys: Counts
    grades: Grades
    positions: npt.NDArray[np.int32]


def _judgment_columns(
    labels: list[dict[str, int]], code_of: dict[str, int], documents: int, threshold: int
) -> _JudgmentColumns:
    keys, grades, positions = [], [], []
    for index, row in enumerate(labels):
        place = 0
        for name, value in row.items():
            relevant = value >= threshold
            if name in code_of:
                keys.append(index * documents + code_of[name])
                grades.append(value)
                positions.append(place if relevant else -1)
            place += relevant
    order = np.argsort(np.array(keys, dtype=np.int64))
    return _JudgmentColumns(
        np.array(keys, dtype=np.int64)[order],
        np.array(grades, dtype=np.int32)[order],
        np.array(positions, dtype=np.int32)[order],
    )
