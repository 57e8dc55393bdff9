"""The larger text around a chunk: the chunk of another chunking that holds it, or the chunk with its neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ragtrial.dataset.chunks import Chunks
from ragtrial.rankings import PADDING, Bools, Counts


def holding(parents: Chunks, units: Chunks, codes: Counts) -> Counts:
    """The one of ``parents`` that holds most characters of each of ``codes``; of equal ones the first.

    ``PADDING`` where none holds any. A unit without characters is held by its document's first. ``parents`` are in the
    order of their documents, and ascending in start and in end within each, as chunkers make them.
    """
    best, most = np.full(len(codes), PADDING, dtype=np.int64), np.zeros(len(codes), dtype=np.int64)
    if not len(parents):
        return best
    document, start, end = units.document[codes].astype(np.int64), units.start[codes], units.end[codes]
    # Places of all documents on one line, each document on a stretch of its own.
    width = 1 + max(int(parents.end.max()), int(end.max(initial=0)))
    row, parent_row = document * width, parents.document.astype(np.int64) * width
    first = np.searchsorted(parent_row + parents.end, row + start, side="right")
    last = np.searchsorted(parent_row + parents.start, row + end, side="left")
    for step in range(int((last - first).max(initial=0))):
        place = np.minimum(first + step, len(parents) - 1)
        held = np.minimum(end, parents.end[place]) - np.maximum(start, parents.start[place])
        is_better = (first + step < last) & (held > most)
        best[is_better], most[is_better] = place[is_better], held[is_better]
    of_document = np.minimum(np.searchsorted(parents.document, document), len(parents) - 1)
    is_empty = (start == end) & (parents.document[of_document] == document)
    best[is_empty] = of_document[is_empty]
    return best


@dataclass(frozen=True, eq=False)
class Stretches:
    """Characters ``start`` to ``end`` (int64) around units; ``is_short`` marks those that ended at a gap."""

    start: Counts
    end: Counts
    is_short: Bools


def neighbourhoods(units: Chunks, codes: Counts, count: int) -> Stretches:
    """Each of ``codes`` with the ``count`` units before and after it in the same document, as one stretch.

    Which are beside one another is told by their places. At a gap, characters other than white space that are in no
    unit, a stretch ends: what stands there is not known.
    """
    near = np.flatnonzero(np.isin(units.document, units.document[codes]))
    near = near[np.lexsort((near, units.end[near], units.start[near], units.document[near]))]
    place_of = np.full(len(units), PADDING, dtype=np.int64)
    place_of[near] = np.arange(len(near))
    place = place_of[codes]
    is_same, is_gap = _edges(units, near)
    of_document, of_run = _Runs.of(is_same), _Runs.of(is_same & ~is_gap)
    low, high = of_run.around(place, count)
    wanted_low, wanted_high = of_document.around(place, count)
    end = units.end[near]
    furthest = end[low]
    for step in range(1, int((high - low).max(initial=0)) + 1):
        furthest = np.maximum(furthest, end[np.minimum(low + step, high)])
    return Stretches(units.start[near][low], furthest, (low > wanted_low) | (high < wanted_high))


@dataclass(frozen=True, eq=False)
class _Runs:
    """The first and the last of the run that each of some units in a row is in, shape (units,)."""

    first: Counts
    last: Counts

    @classmethod
    def of(cls, goes_on: Bools) -> _Runs:
        """``goes_on`` says of each but the last whether the next is in the same run."""
        begins = np.flatnonzero(np.concatenate(([True], ~goes_on)))
        ends = np.append(begins[1:], len(goes_on) + 1) - 1
        return cls(np.repeat(begins, ends - begins + 1), np.repeat(ends, ends - begins + 1))

    def around(self, place: Counts, count: int) -> tuple[Counts, Counts]:
        """From ``count`` before ``place`` to ``count`` after it, within the run."""
        return np.maximum(place - count, self.first[place]), np.minimum(place + count, self.last[place])


def _edges(units: Chunks, order: Counts) -> tuple[Bools, Bools]:
    """For each unit of ``order`` but the last: whether the next is of its document, and whether a gap is before it."""
    document, start, end = units.document[order].astype(np.int64), units.start[order], units.end[order]
    row = document * (1 + int(end.max(initial=0)))
    reached = np.maximum.accumulate(row + end) - row  # the furthest end so far in the same document
    is_same = document[1:] == document[:-1]
    is_gap = is_same & (start[1:] > reached[:-1])
    for place in np.flatnonzero(is_gap).tolist():
        between = units.library.text(int(document[place]))[reached[place] : start[place + 1]]
        is_gap[place] = bool(between.strip())
    return is_same, is_gap
