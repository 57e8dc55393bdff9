"""The hits of two rankings of each query side by side: who found what at which rank, and what nobody judged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ragtrial.comparison.contest import ComparisonSet
from ragtrial.errors import Fault, ReportError
from ragtrial.evaluation.grading import Scores
from ragtrial.rankings import PADDING, Bools, Codes, Counts
from ragtrial.records import Unit, highest_grades
from ragtrial.report.model import Report, read_rows
from ragtrial.runs.qrels import Grades
from ragtrial.scoring.query_details import grade_of_chunk

Place = tuple[str, int, int]
"""A document, or a stretch of one: its characters from the first to the one behind the last."""

NOWHERE = 2**31 - 1
"""The rank of what was not retrieved: beyond all others."""

_THRESHOLD = re.compile(r"\(relevant: grade (-?\d+) and above\)")

BLOCK = 2**18
"""How many numbers one step works on at once, whatever the number of queries."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Who is judged how: one entry for each judged document of each query, shape (judgments,) each.

    ``keys``, ascending, say which query and which document it is, ``rows`` the query's place.
    """

    keys: Counts
    rows: Counts
    grades: Grades


@dataclass(frozen=True, eq=False)
class HitSpans:
    """Where hits are, (hits,) each: ``documents``, as numbers, from ``starts`` to ``ends``; of whole ones 0 to 1."""

    documents: Counts
    starts: Counts
    ends: Counts

    def at(self, hits: Counts) -> HitSpans:
        """The same of some of the hits."""
        return HitSpans(self.documents[hits], self.starts[hits], self.ends[hits])

    def meet(self, others: HitSpans) -> Bools:
        """Which of them share a character with that at the same place of ``others``."""
        same = self.documents == others.documents
        return np.asarray(same & (self.starts < others.ends) & (others.starts < self.ends))


@dataclass(frozen=True, eq=False)
class JointHits:
    """All that two rankings found for each of ``queries`` queries, each document of a query once; (hits,) each.

    ``rows`` ascend; ``codes`` say what the hits are, as JudgedLists has it. ``first`` and ``second`` are the ranks in
    the two, from 1 on, NOWHERE where it is in one alone. ``is_open`` marks what nobody judged; the grade of it is 0.
    ``lengths`` are those of the two rankings, (2, queries).
    """

    queries: int
    rows: Counts
    codes: Counts
    first: Counts
    second: Counts
    is_open: Bools
    grades: Grades
    lengths: Counts
    labels: Labels
    threshold: int

    @property
    def swapped(self) -> JointHits:
        """The same with the two rankings in each other's place."""
        return replace(self, first=self.second, second=self.first, lengths=self.lengths[::-1])

    @property
    def without_open(self) -> JointHits:
        """The judged hits alone."""
        kept = ~self.is_open
        columns = {
            name: getattr(self, name)[kept] for name in ("rows", "codes", "first", "second", "is_open", "grades")
        }
        return replace(self, **columns)

    @cached_property
    def relevant(self) -> Bools:
        """Which hits are known to be relevant."""
        return np.asarray((self.grades >= self.threshold) & ~self.is_open)

    @cached_property
    def relevant_counts(self) -> Counts:
        """R of each query: its relevant documents, retrieved or not, (queries,)."""
        return self.count(self.labels.rows, self.labels.grades >= self.threshold)

    @property
    def highest_grade(self) -> int:
        """Of all labels, at least 0."""
        return int(self.labels.grades.max(initial=0))

    def count(self, rows: Counts, which: Bools) -> Counts:
        """How many of each query's entries are meant by ``which``, (queries,)."""
        return np.bincount(rows[which], minlength=self.queries).astype(np.int64)

    def total(self, terms: Scores, which: Bools) -> Scores:
        """The sum of ``terms`` over each query's hits that are meant by ``which``, (queries,)."""
        return np.bincount(self.rows[which], weights=terms[which], minlength=self.queries).astype(np.float64)

    def within(self, ranks: Counts, k: int | None) -> Bools:
        """Which of these ranks are among the first ``k``; without a cutoff, which are ranks at all."""
        return np.asarray(ranks < NOWHERE if k is None else ranks <= k)

    def of(self, queries: Counts) -> Counts:
        """The places of the hits of some ``queries``, which ascend."""
        chosen = np.zeros(self.queries, dtype=np.bool_)
        chosen[queries] = True
        return np.flatnonzero(chosen[self.rows])


def blocks(widths: Counts) -> Iterator[Counts]:
    """The queries, ascending within each block; those of like width together, so that a block is BLOCK numbers."""
    order = np.argsort(-widths, kind="stable")
    while len(order):
        chosen, order = np.split(order, [max(1, BLOCK // (int(widths[order[0]]) + 1))])
        yield np.sort(chosen)


def places_in_row(rows: Counts) -> Counts:
    """For each entry how many of its row stand before it; ``rows`` ascend."""
    return np.arange(len(rows)) - np.searchsorted(rows, rows)


class JudgedLists:
    """The rankings of a contest's settings, each read once, and the labels they are judged by.

    Under unit: document hits are documents, under unit: span chunks of them.
    """

    def __init__(self, contest: ComparisonSet) -> None:
        self._contest = contest
        self.unit: Unit = contest.contenders[0].report.unit
        self._codes: dict[str | Place, int] = {}
        self._names: list[str | Place] = []
        self._known: dict[int, Codes] = {}
        self._graded_chunks: dict[tuple[int, int], int | None] = {}
        self._ids = [query.id for query in contest.queries]

    def codes(self, place: int) -> Codes:
        """What the contender at ``place`` found, int32 (queries, depth). Raises ReportError if it cannot be read."""
        if place not in self._known:
            self._known[place] = self._read(place)
        return self._known[place]

    def finds(self, place: int, k: int | None, threshold: int) -> Bools:
        """Whether the contender at ``place`` has a relevant hit among its first ``k``, (queries,). As ``codes``."""
        codes = self.codes(place)[:, :k]
        width = self.width
        keys, _ = _keys(codes, width)
        labels = self._labels(width, keys)
        found = np.intersect1d(keys, labels.keys[labels.grades >= threshold]) // width
        return np.bincount(found, minlength=len(codes)) > 0

    def joint(self, first: int, second: int, *, threshold: int, pooled: bool = False) -> JointHits:
        """The hits of two contenders, by their places. ``pooled`` is as in GradedRankings. Raises ReportError."""
        codes, width = [self.codes(first), self.codes(second)], self.width
        keys, ranks = zip(*(_keys(one, width) for one in codes), strict=True)
        both = np.union1d(*keys)
        placed = []
        for own, rank in zip(keys, ranks, strict=True):
            column = np.full(len(both), NOWHERE, dtype=np.int64)
            column[np.searchsorted(both, own)] = rank
            placed.append(column)
        labels = self._labels(width, both)
        at = np.minimum(np.searchsorted(labels.keys, both), max(0, len(labels.keys) - 1))
        found = labels.keys[at] == both if len(labels.keys) else np.zeros(len(both), dtype=np.bool_)
        grades = np.where(found, labels.grades[at] if len(labels.grades) else 0, 0).astype(np.int32)
        is_open = ~found | (pooled & (grades < 0))
        return JointHits(
            queries=len(self._ids),
            rows=both // width,
            codes=both % width,
            first=placed[0],
            second=placed[1],
            is_open=is_open,
            grades=np.where(is_open, 0, grades).astype(np.int32),
            lengths=np.array([(one != PADDING).sum(axis=1) for one in codes], dtype=np.int64),
            labels=labels,
            threshold=threshold,
        )

    @property
    def width(self) -> int:
        """How many units have a code by now: those of the rankings that were read, and labelled documents."""
        if self.unit == "document":
            self._of_documents  # noqa: B018 - labelled documents have codes, too, before these are counted
        return max(1, len(self._codes))

    def is_judged(self, keys: Counts) -> Bools:
        """Which hits have a label, by their query's place times ``width``, and their code; ``keys`` ascend."""
        return np.isin(keys, self._labels(self.width, keys).keys)

    def unit_of(self, code: int) -> str | Place:
        """What has the code."""
        return self._names[code]

    def spans(self, codes: Counts) -> HitSpans:
        """Where each of the units is that have these codes."""
        if self.unit == "document":
            return HitSpans(codes, np.zeros_like(codes), np.ones_like(codes))
        units = [unit for unit in (self._names[code] for code in codes.tolist()) if not isinstance(unit, str)]
        numbers: dict[str, int] = {}
        rows = [(numbers.setdefault(doc, len(numbers)), start, end) for doc, start, end in units]
        table: Counts = np.array(rows, dtype=np.int64).reshape(-1, 3)
        return HitSpans(table[:, 0], table[:, 1], table[:, 2])

    def _read(self, place: int) -> Codes:
        contender = self._contest.contenders[place]
        path = contender.report.folder / "rankings" / f"{contender.setting.name}.jsonl.gz"
        rows = read_rows(path, "query", self._ids)
        try:
            found = [self._coded(rows[name]) for name in self._ids]
        except (LookupError, TypeError) as error:
            raise ReportError(Fault(str(path), message="is damaged: it lacks what report.json names.")) from error
        codes = np.full((len(found), max(map(len, found), default=0)), PADDING, dtype=np.int32)
        for row, one in enumerate(found):
            codes[row, : len(one)] = one
        return codes

    def _coded(self, row: dict[str, list[str]]) -> list[int]:
        """The codes of a row's hits; of one that stands there twice the first."""
        units: Sequence[str | Place] = row["docs"]
        if self.unit == "span":
            units = [(doc, int(start), int(end)) for doc, start, end in
                     zip(row["docs"], row["starts"], row["ends"], strict=True)]  # fmt: skip
        return [self._code(unit) for unit in dict.fromkeys(units)]

    def _code(self, unit: str | Place) -> int:
        code = self._codes.get(unit)
        if code is None:
            code = self._codes[unit] = len(self._names)
            self._names.append(unit)
        return code

    def _labels(self, width: int, found: Counts) -> Labels:
        """The labels of all queries; of chunks, those that overlap a labelled passage."""
        rows, codes, grades = self._of_documents if self.unit == "document" else self._of_chunks(width, found)
        return Labels(rows * width + codes, rows, grades)

    @cached_property
    def _of_documents(self) -> tuple[Counts, Counts, Grades]:
        entries = [
            (row, self._code(doc), grade)
            for row, query in enumerate(self._contest.queries)
            for doc, grade in highest_grades((one.doc, one.relevance) for one in query.relevant_docs).items()
        ]
        return _columns(sorted(entries))

    def _of_chunks(self, width: int, found: Counts) -> tuple[Counts, Counts, Grades]:
        entries = []
        for row, code in zip((found // width).tolist(), (found % width).tolist(), strict=True):
            if (row, code) not in self._graded_chunks:
                unit = self._names[code]
                query = self._contest.queries[row]
                self._graded_chunks[row, code] = None if isinstance(unit, str) else grade_of_chunk(query, *unit)
            grade = self._graded_chunks[row, code]
            if grade is not None:
                entries.append((row, code, grade))
        return _columns(entries)


def _keys(codes: Codes, width: int) -> tuple[Counts, Counts]:
    """The key of each hit, which tells its query and what it is, and its rank."""
    rows, columns = np.nonzero(codes != PADDING)
    return rows * width + codes[rows, columns], columns + 1


def _columns(entries: Sequence[tuple[int, int, int]]) -> tuple[Counts, Counts, Grades]:
    table: Counts = np.array(entries, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2].astype(np.int32)


def threshold_of(report: Report, metric: str) -> int:
    """The grade from which a document was relevant as the report was made; 1 where it says nothing of that."""
    parts = [report.metrics[metric]] if metric in report.metrics else []
    found = (_THRESHOLD.search(part.counted) for part in [*parts, *report.metrics.values()])
    return next((int(match[1]) for match in found if match), 1)


def is_pooled(report: Report) -> bool:
    """Whether grades below 0 say that nobody judged, as they do to trec_eval."""
    scored = report.config.get("score")
    return isinstance(scored, dict) and bool(scored.get("trec_compat"))
