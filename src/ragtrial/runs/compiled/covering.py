"""The call that finds where ranked chunks and passages meet. It releases the interpreter's lock while it runs."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.dataset.spans import ChunkSpans, Passages
from ragtrial.rankings import Codes, Counts
from ragtrial.runs.compiled.binding import CCoverage, CMeetings
from ragtrial.runs.compiled.calls import address_of, load_library

_FIRST_ROOM = 4
"""Meetings of a passage that there is room for at first."""


class CoverageHits(NamedTuple):
    """The meetings of some queries: how many each has, and the columns of them all."""

    counts: Counts
    passages: Counts
    gained: Counts
    covered: Counts
    ranks: npt.NDArray[np.int32]


class Covering:
    """Ranked chunks and passages, as the library takes them."""

    def __init__(self, codes: Codes, chunks: ChunkSpans, passages: Passages) -> None:
        self._starts = passages.starts
        columns = [
            (codes, np.int32), (chunks.documents, np.int32), (chunks.starts, np.int64), (chunks.ends, np.int64),
            (passages.starts, np.int64), (passages.documents, np.int32), (passages.begins, np.int64),
            (passages.ends, np.int64),
        ]  # fmt: skip
        self._held = [np.ascontiguousarray(column, dtype=dtype) for column, dtype in columns]
        self._given = CCoverage(*map(address_of, self._held), codes.shape[1])

    def meetings(self, first: int, last: int) -> CoverageHits:
        """Those of queries ``first`` to ``last``. Raises MemoryError."""
        room = _FIRST_ROOM * int(self._starts[last] - self._starts[first])
        counts = np.zeros(last - first, dtype=np.int64)
        while True:
            passages, gained, covered = (np.empty(room, dtype=np.int64) for _ in range(3))
            found = CoverageHits(counts, passages, gained, covered, np.empty(room, dtype=np.int32))
            out = CMeetings(
                address_of(found.passages),
                address_of(found.gained),
                address_of(found.covered),
                address_of(found.ranks),
                room,
            )
            total = load_library().rt_cover(
                ctypes.byref(self._given), ctypes.byref(out), first, last, address_of(counts)
            )
            if total < 0:
                raise MemoryError("no memory for the meetings of chunks and passages")
            if total <= room:
                return CoverageHits(counts, passages[:total], gained[:total], covered[:total], found.ranks[:total])
            room = total
