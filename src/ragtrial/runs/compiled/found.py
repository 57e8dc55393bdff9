"""What a look through one block of a run file gives: hits, flags and faults of its queries, as columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.rankings import Bools, Counts
from ragtrial.runs.qrels import Order

Bytes = npt.NDArray[np.uint8]
Ranks = npt.NDArray[np.int32]

Form = Literal["trec", "msmarco"]
Duplicates = Literal["error", "first"]

MOST_FAULTS = 20
"""So many faults of a file are listed, and the rest counted."""
MOST_UNKNOWN = 10
"""So many queries that nobody judged are named, and the rest counted."""


class Wrong(IntEnum):
    """What can be wrong with a line. The numbers are those of run.h."""

    COLUMNS = 1
    RANK = 2
    SCORE = 3
    NAN = 4
    DUPLICATE = 5
    RANK_TAKEN = 6
    GRADE = 7
    JUDGED_TWICE = 8


class LineFault(NamedTuple):
    """A line and what is wrong with it. ``line`` counts from 0, from the start of the block.

    ``other`` is the number of columns, or the earlier line of a pair; ``found`` the text that is wrong, or the
    document of a pair; ``query`` the line's query, empty where it is of no matter.
    """

    line: int
    wrong: Wrong
    other: int = 0
    found: bytes = b""
    query: bytes = b""

    def placed(self, line_of: Callable[[int], int]) -> LineFault:
        """The same with the lines of the file in place of those of the block."""
        other = line_of(self.other) if self.wrong in _PAIRS else self.other
        line = line_of(self.line)
        if self.wrong in _PAIRS:
            line, other = max(line, other), min(line, other)
        return self._replace(line=line, other=other)


_PAIRS = (Wrong.DUPLICATE, Wrong.RANK_TAKEN, Wrong.JUDGED_TWICE)


class Seconds(NamedTuple):
    """Seconds of work, summed over threads: reading and parsing, checking and ordering, joining with the qrels."""

    read: float = 0.0
    check: float = 0.0
    join: float = 0.0


@dataclass(frozen=True)
class Reading:
    """How the rows of a run are read and ordered."""

    form: Form
    order: Order
    duplicates: Duplicates
    lenient: bool = False


@dataclass(frozen=True, eq=False)
class Found:
    """The stretches of a block (rows of one query, one behind the other), in the order in which they stand.

    Of each stretch: ``queries`` (int32), its query in the qrels, or -1; ``keys`` (uint64), a hash of the query's id;
    ``first_lines``, ``lengths``, ``hit_counts`` (int64), ``tied``, ``contradicted``. Of each hit, stretch by stretch,
    best first: ``ranks``, ``judgments``, ``tie_first``, ``tie_last``, as in RunHits. ``unknown`` has the line and the
    id of the first few stretches whose query nobody judged. ``lines``, ``rows``, ``duplicates`` and ``fault_count``
    count over the block; ``faults`` are the first few.
    """

    lines: int
    rows: int
    duplicates: int
    queries: npt.NDArray[np.int32]
    keys: npt.NDArray[np.uint64]
    first_lines: Counts
    lengths: Counts
    hit_counts: Counts
    tied: Bools
    contradicted: Bools
    ranks: Ranks
    judgments: Counts
    tie_first: Ranks
    tie_last: Ranks
    unknown: tuple[tuple[int, bytes], ...]
    faults: tuple[LineFault, ...]
    fault_count: int
    seconds: Seconds


@dataclass(frozen=True, eq=False)
class Stretches:
    """Where stretches stand in a block: bytes ``begins`` to ``ends`` (int64), whole lines, from line ``lines`` on.

    ``shares`` (uint32) is a hash of the query's id (FNV-1a, 32 bits), by which a file is divided into parts.
    """

    begins: Counts
    ends: Counts
    lines: Counts
    shares: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.begins)
