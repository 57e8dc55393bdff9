"""What scanning a block of a run gives: hits, flags and faults of its queries, as columns; and scans put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.rankings import Counts
from ragtrial.runs.faults import MOST_FAULTS
from ragtrial.runs.qrels import Duplicates, Order, RunHits

Bytes = npt.NDArray[np.uint8]
Ranks = npt.NDArray[np.int32]
Columns = Mapping[str, npt.NDArray[Any]]
Form = Literal["trec", "msmarco"]

MOST_UNKNOWN = 10
"""So many queries that nobody judged are named, and the rest counted."""

SEGMENT_COLUMNS: Mapping[str, npt.DTypeLike] = {
    "queries": np.int32, "keys": np.uint64, "lengths": np.int64, "hit_counts": np.int64, "tied": np.bool_,
    "contradicted": np.bool_,
}  # fmt: skip
"""Of each segment: its query in the qrels, or -1; a hash of the query's id; counts and flags as in RunHits."""
HIT_COLUMNS: Mapping[str, npt.DTypeLike] = {
    "judgments": np.int64, "ranks": np.int32, "tie_first": np.int32, "tie_last": np.int32
}  # fmt: skip
"""Of each hit, as in RunHits."""


class LineError(IntEnum):
    """What can be wrong with a line. The numbers are those of run.h."""

    COLUMNS = 1
    RANK = 2
    SCORE = 3
    NAN = 4
    DUPLICATE = 5
    RANK_TAKEN = 6
    GRADE = 7
    JUDGED_TWICE = 8


_PAIRS = (LineError.DUPLICATE, LineError.RANK_TAKEN, LineError.JUDGED_TWICE)


class LineFault(NamedTuple):
    """A line and what is wrong with it. ``line`` counts from 0, from the start of the block.

    ``other`` is the number of columns, or the earlier line of a pair; ``found`` the text that is wrong, or the
    document of a pair; ``query`` the line's query, empty where it does not matter.
    """

    line: int
    error: LineError
    other: int = 0
    found: bytes = b""
    query: bytes = b""

    def placed(self, line_of: Callable[[int], int]) -> LineFault:
        """The same with the lines of the file instead of those of the block."""
        if self.error not in _PAIRS:
            return self._replace(line=line_of(self.line))
        earlier, later = sorted((line_of(self.line), line_of(self.other)))
        return self._replace(line=later, other=earlier)


@dataclass(frozen=True)
class Rules:
    """How the rows of a run are read, ordered and checked.

    Without scores no two rows are tied, and nothing contradicts anything. With unique ranks, no two rows of a query
    may have the same.
    """

    order: Order
    duplicates: Duplicates
    has_scores: bool = True
    unique_ranks: bool = False
    form: Form = "trec"
    lenient: bool = False

    @classmethod
    def of_file(cls, form: Form, order: Order, duplicates: Duplicates, *, lenient: bool = False) -> Rules:
        return cls(order, duplicates, form == "trec", form != "trec", form, lenient)


class Seconds(NamedTuple):
    """Seconds of work, summed over threads: reading and parsing, checking and ordering, joining with the qrels."""

    read: float = 0.0
    check: float = 0.0
    join: float = 0.0


@dataclass(frozen=True, eq=False)
class BlockScan:
    """The segments of a block (consecutive rows of one query) in their order, and their hits, best first.

    ``unknown`` has the line and the id of the first few segments whose query nobody judged. ``lines``, ``rows``,
    ``duplicates`` and ``fault_count`` count over the block; ``faults`` are the first few.
    """

    lines: int
    rows: int
    duplicates: int
    segments: Columns
    hits: Columns
    unknown: tuple[tuple[int, bytes], ...]
    faults: tuple[LineFault, ...]
    fault_count: int
    seconds: Seconds


_FIRST_CHECK = 1000


class MergedScans:
    """Scans of blocks, put together in their order: hits in the order of the qrels, faults by line."""

    def __init__(self) -> None:
        self._scans: list[BlockScan] = []
        self._unknown: list[tuple[int, bytes]] = []
        self._segments, self._next_check = 0, _FIRST_CHECK
        self.faults: list[LineFault] = []
        self.lines = self.rows = self.fault_count = 0
        self.is_known_scattered = False

    def add(self, scan: BlockScan, line_of: Callable[[int], int] = int) -> None:
        """One block more, and where in the file its lines are."""
        self._scans.append(scan)
        unknown = [(line_of(line), name) for line, name in scan.unknown]
        self._unknown = sorted([*self._unknown, *unknown])[:MOST_UNKNOWN]
        self.faults = sorted([*self.faults, *(fault.placed(line_of) for fault in scan.faults)])[:MOST_FAULTS]
        self.lines, self.rows = self.lines + scan.lines, self.rows + scan.rows
        self.fault_count += scan.fault_count
        self._segments += len(scan.segments["queries"])
        if self._segments > self._next_check:  # at each doubling: so no more than twice the queries are held
            self.is_known_scattered = self.is_scattered()
            self._next_check = 2 * self._segments

    def is_scattered(self) -> bool:
        """Whether a query may have come twice, with others between. True is not certain, False is."""
        if not self._scans:
            return False
        queries, keys = self._segment_column("queries"), self._segment_column("keys")
        known = queries >= 0
        return _repeats(queries[known]) or _repeats(keys[~known])

    def hits(self, count: int, reading: float = 0.0) -> RunHits:
        """The hits of ``count`` queries, none of which came twice; to read the file took ``reading`` seconds."""
        queries, hit_counts = self._segment_column("queries"), self._segment_column("hit_counts")
        known = queries >= 0
        order = _order(queries, hit_counts)

        def of_queries(name: str) -> npt.NDArray[Any]:
            column = self._segment_column(name)
            spread = np.zeros(count, dtype=column.dtype)
            spread[queries[known]] = column[known]
            return spread

        seconds = [Seconds(read=reading), *(scan.seconds for scan in self._scans)]
        return RunHits(
            starts=np.concatenate(([0], np.cumsum(of_queries("hit_counts")))).astype(np.int64),
            **{name: np.concatenate([scan.hits[name] for scan in self._scans])[order] for name in HIT_COLUMNS},
            **{name: of_queries(name) for name in ("lengths", "tied", "contradicted")},
            rows=self.rows,
            duplicates=sum(scan.duplicates for scan in self._scans),
            unknown=int(np.count_nonzero(~known)),
            unknown_names=tuple(name.decode("utf-8", "surrogateescape") for _, name in self._unknown),
            seconds={name: sum(getattr(one, name) for one in seconds) for name in Seconds._fields},
        )

    def _segment_column(self, name: str) -> npt.NDArray[Any]:
        return np.concatenate([scan.segments[name] for scan in self._scans])


def _repeats(numbers: npt.NDArray[Any]) -> bool:
    if np.all(numbers[1:] > numbers[:-1]):
        return False
    ordered = np.sort(numbers)
    return bool(np.any(ordered[1:] == ordered[:-1]))


def _order(queries: npt.NDArray[Any], hit_counts: npt.NDArray[Any]) -> slice | Counts:
    """Where the hits of each query, in the order of the qrels, are among all."""
    having = np.flatnonzero(hit_counts)
    numbers = queries[having]
    if np.all(numbers[1:] > numbers[:-1]):
        return slice(None)
    counts = hit_counts[having].astype(np.int64)
    starts = np.cumsum(counts) - counts
    by_query = np.argsort(numbers, kind="stable")
    counts, starts = counts[by_query], starts[by_query]
    begins = np.cumsum(counts) - counts
    return np.repeat(starts - begins, counts) + np.arange(counts.sum())
