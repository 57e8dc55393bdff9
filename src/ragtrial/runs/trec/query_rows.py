"""One query in plain Python: its rows in order, without duplicates, joined with its judgments.

The compiled code does the same (rank.c), and is what is used where it is installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter
from typing import NamedTuple

from ragtrial.runs.compiled.found import Duplicates, LineFault, Wrong
from ragtrial.runs.qrels import Order


class Row(NamedTuple):
    """One row of a run. Without scores ``score`` is 0; ``rank`` is None where it is no number or there is none."""

    document: bytes
    line: int
    score: float
    rank: float | None


class Hit(NamedTuple):
    """A judged document in a ranking."""

    rank: int
    judgment: int
    tie_first: int
    tie_last: int


@dataclass(frozen=True)
class Rules:
    """How rows are ordered and checked. Without scores no two are tied, and nothing contradicts anything."""

    order: Order
    duplicates: Duplicates
    has_scores: bool
    unique_ranks: bool


@dataclass(frozen=True)
class Ranked:
    """A query's judged hits, best first; its ``length`` without the ``duplicates`` that were dropped."""

    hits: list[Hit]
    length: int
    tied: bool
    contradicted: bool
    duplicates: int
    faults: list[LineFault]


_score, _rank, _document = attrgetter("score"), attrgetter("rank"), attrgetter("document")


def ranked(query: bytes, rows: Sequence[Row], judged: Mapping[bytes, int], rules: Rules) -> Ranked:
    """The rows of one query, which are given in the order of their lines, against its judgments."""
    kept, pairs = _once_each(_ordered(rows, rules))
    faults = []
    if rules.duplicates == "error":
        faults += [
            LineFault(max(one.line, other.line), Wrong.DUPLICATE, min(one.line, other.line), one.document, query)
            for one, other in pairs
        ]
    if rules.unique_ranks:
        faults += _taken_ranks(query, kept)
    tied = contradicted = False
    if rules.has_scores:
        by_score = kept if rules.order in ("score", "trec") else sorted(sorted(kept, key=_line), key=_negated)
        tied = any(one.score == other.score for one, other in pairwise(by_score))
        contradicted = _contradicted(by_score)
    return Ranked(_hits(kept, judged, rules), len(kept), tied, contradicted, len(pairs), faults)


def _line(row: Row) -> int:
    return row.line


def _negated(row: Row) -> float:
    return -row.score


def _ordered(rows: Sequence[Row], rules: Rules) -> Sequence[Row]:
    if rules.order == "rank":
        return sorted(rows, key=_rank)
    if rules.order == "file" or not rules.has_scores:
        return rows
    if rules.order == "trec":
        rows = sorted(rows, key=_document, reverse=True)
    return sorted(rows, key=_negated)


def _once_each(rows: Sequence[Row]) -> tuple[list[Row], list[tuple[Row, Row]]]:
    """The first row of each document, and each later one with the first."""
    first: dict[bytes, Row] = {}
    pairs = [(first[row.document], row) for row in rows if first.setdefault(row.document, row) is not row]
    return list(first.values()), pairs


def _taken_ranks(query: bytes, rows: Sequence[Row]) -> list[LineFault]:
    by_rank = sorted(rows, key=lambda row: (row.rank, row.line))
    return [
        LineFault(later.line, Wrong.RANK_TAKEN, earlier.line, str(later.rank).encode(), query)
        for earlier, later in pairwise(by_rank)
        if earlier.rank == later.rank
    ]


def _contradicted(by_score: Sequence[Row]) -> bool:
    """Whether a row with a lower score has a smaller rank number than one with a higher score."""
    highest: float | None = None
    for _, group in groupby(by_score, key=_score):
        ranks = [row.rank for row in group if row.rank is not None]
        if ranks and highest is not None and min(ranks) < highest:
            return True
        highest = max([*ranks, *([] if highest is None else [highest])], default=None)
    return False


def _hits(rows: Sequence[Row], judged: Mapping[bytes, int], rules: Rules) -> list[Hit]:
    if not rules.has_scores or rules.order in ("rank", "file"):
        return [Hit(at, judged[row.document], at, at) for at, row in enumerate(rows, 1) if row.document in judged]
    hits, start = [], 1
    for _, group in groupby(rows, key=_score):
        members = list(group)
        last = start + len(members) - 1
        hits += [
            Hit(at, judged[row.document], start, last)
            for at, row in enumerate(members, start)
            if row.document in judged
        ]
        start = last + 1
    return hits
