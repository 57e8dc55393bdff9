"""What scanning a block of a run gives: hits, flags and faults of its queries, as columns; and scans put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.dataset.faults import MOST_FAULTS
from ragtrial.runs.qrels import Duplicates, Order, RunHits

Bytes = npt.NDArray[np.uint8]
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


_PAIRS = (LineError.DUPLICATE, LineError.RANK_TAKEN)


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

    def below(self, lines: int) -> LineFault:
        """The same in a file that has so many lines before the block."""
        other = self.other + lines if self.error in _PAIRS else self.other
        return self._replace(line=self.line + lines, other=other)


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


class MergedScans:
    """Scans of blocks, put together in their order: hits in the order of the qrels, faults by line."""

    def __init__(self, scans: Iterable[BlockScan]) -> None:
        self._scans: list[BlockScan] = []
        self.faults: list[LineFault] = []
        lines = 0
        for scan in scans:
            self._scans.append(scan)
            self.faults = sorted([*self.faults, *(fault.below(lines) for fault in scan.faults)])[:MOST_FAULTS]
            lines += scan.lines
        self.fault_count = sum(scan.fault_count for scan in self._scans)
        self.rows = sum(scan.rows for scan in self._scans)

    def is_scattered(self) -> bool:
        """Whether a query may have come twice, with others between. True is not certain, False is."""
        queries, keys = self._column("queries"), self._column("keys")
        known = queries >= 0
        return _repeats(queries[known]) or _repeats(keys[~known])

    def hits(self, count: int) -> RunHits:
        """The hits of ``count`` queries, none of which came twice."""
        queries, hit_counts = self._column("queries"), self._column("hit_counts")
        known = queries >= 0
        order = np.argsort(np.repeat(queries, hit_counts), kind="stable")
        unknown = [name.decode("utf-8", "surrogateescape") for scan in self._scans for _, name in scan.unknown]

        def of_queries(name: str) -> npt.NDArray[Any]:
            column = self._column(name)
            spread = np.zeros(count, dtype=column.dtype)
            spread[queries[known]] = column[known]
            return spread

        return RunHits(
            starts=np.concatenate(([0], np.cumsum(of_queries("hit_counts")))).astype(np.int64),
            **{name: np.concatenate([scan.hits[name] for scan in self._scans])[order] for name in HIT_COLUMNS},
            **{name: of_queries(name) for name in ("lengths", "tied", "contradicted")},
            rows=self.rows,
            duplicates=sum(scan.duplicates for scan in self._scans),
            unknown=int(np.count_nonzero(~known)),
            unknown_names=tuple(unknown[:MOST_UNKNOWN]),
            seconds={name: sum(getattr(scan.seconds, name) for scan in self._scans) for name in Seconds._fields},
        )

    def _column(self, name: str) -> npt.NDArray[Any]:
        empty = np.empty(0, dtype=SEGMENT_COLUMNS[name])
        return np.concatenate([empty, *(scan.segments[name] for scan in self._scans)])


def _repeats(numbers: npt.NDArray[Any]) -> bool:
    return len(np.unique(numbers)) < len(numbers)
