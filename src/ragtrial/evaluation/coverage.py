"""Which passages ranked chunks overlap, and how much of each they have together."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from ragtrial.dataset.spans import ChunkSpans, Meetings, Passages
from ragtrial.rankings import Codes


def cover(codes: Codes, chunks: ChunkSpans, passages: Passages) -> Meetings:
    """Each meeting of a ranked chunk with a passage of its query.

    ``codes`` is int32 (queries, depth): positions in ``chunks``, best first, rows filled up with -1. A chunk that only
    touches a passage does not meet it.
    """
    documents, begins, ends = chunks.documents.tolist(), chunks.starts.tolist(), chunks.ends.tolist()
    places = list(
        zip(passages.documents.tolist(), passages.begins.tolist(), passages.ends.tolist(), strict=True),
    )
    starts = passages.starts.tolist()
    counts, rows = [0], []
    for query, ranked in enumerate(codes.tolist()):
        first, last = starts[query], starts[query + 1]
        known: list[list[tuple[int, int]]] = [[] for _ in range(first, last)]
        totals = [0] * (last - first)
        for rank, code in enumerate(ranked if last > first else [], 1):
            if code < 0:
                break
            place = bisect_left(places, documents[code], first, last, key=lambda one: one[0])
            while place < last and places[place][0] == documents[code]:
                _, begin, end = places[place]
                begin, end = max(begin, begins[code]), min(end, ends[code])
                if begin < end:
                    gained = _lay(known[place - first], begin, end)
                    totals[place - first] += gained
                    rows.append((place, rank, gained, totals[place - first]))
                place += 1
        counts.append(len(rows))
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Meetings(
        np.array(counts, dtype=np.int64), columns[:, 0], columns[:, 1].astype(np.int32), columns[:, 2], columns[:, 3]
    )


def _lay(known: list[tuple[int, int]], begin: int, end: int) -> int:
    """Add characters to ``known`` stretches, which stay apart and ascending; how many of them are new."""
    new, kept = end - begin, []
    for low, high in known:
        if high < begin or low > end:
            kept.append((low, high))
        else:
            new -= max(0, min(high, end) - max(low, begin))
            begin, end = min(low, begin), max(high, end)
    known[:] = sorted([*kept, (begin, end)])
    return new
