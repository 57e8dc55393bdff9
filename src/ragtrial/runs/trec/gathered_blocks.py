"""What was found in the blocks of a run, put together: hits in the order of the qrels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ragtrial.rankings import Counts
from ragtrial.runs.compiled.found import MOST_UNKNOWN, Found, Seconds
from ragtrial.runs.qrels import RunHits

Scalar = TypeVar("Scalar", bound=np.generic)


_FIRST_LOOK = 1000


class Merger:
    """Takes what was found in blocks, in their order."""

    def __init__(self) -> None:
        self._found: list[Found] = []
        self._unknown: list[tuple[int, bytes]] = []
        self._stretches, self._next_look = 0, _FIRST_LOOK
        self.is_known_scattered = False

    @property
    def rows(self) -> int:
        return sum(found.rows for found in self._found)

    def add(self, found: Found, unknown: Sequence[tuple[int, bytes]]) -> None:
        """One block more; ``unknown`` has the line in the file of each of its first queries that nobody judged."""
        self._found.append(found)
        self._unknown = sorted([*self._unknown, *unknown])[:MOST_UNKNOWN]
        self._stretches += len(found.queries)
        if self._stretches > self._next_look:  # at each doubling: so no more than twice the queries are held
            self.is_known_scattered = self.is_scattered()
            self._next_look = 2 * self._stretches

    def is_scattered(self) -> bool:
        """Whether a query may have come twice, with others between. True is not certain, False is."""
        if not self._found:
            return False
        queries, keys = self._column("queries"), self._column("keys")
        known = queries >= 0
        return _repeats(queries[known]) or _repeats(keys[~known])

    def hits(self, count: int, reading: float = 0.0) -> RunHits:
        """The hits of ``count`` queries, none of which came twice; to read the file took ``reading`` seconds."""
        queries, hit_counts = self._column("queries"), self._column("hit_counts")
        known = queries >= 0
        rows = queries[known]
        per_query = np.zeros(count, dtype=np.int64)
        per_query[rows] = hit_counts[known]
        order = _order(queries, hit_counts)
        spent = [Seconds(read=reading), *(found.seconds for found in self._found)]
        return RunHits(
            starts=np.concatenate(([0], np.cumsum(per_query))).astype(np.int64),
            ranks=self._column("ranks")[order],
            judgments=self._column("judgments")[order],
            tie_first=self._column("tie_first")[order],
            tie_last=self._column("tie_last")[order],
            lengths=_spread(self._column("lengths")[known], rows, count),
            tied=_spread(self._column("tied")[known], rows, count),
            contradicted=_spread(self._column("contradicted")[known], rows, count),
            rows=self.rows,
            duplicates=sum(found.duplicates for found in self._found),
            unknown=int(np.count_nonzero(~known)),
            unknown_names=tuple(name.decode("utf-8", "surrogateescape") for _, name in self._unknown),
            seconds={name: sum(getattr(one, name) for one in spent) for name in Seconds._fields},
        )

    def _column(self, name: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(found, name) for found in self._found])


def _repeats(numbers: npt.NDArray[Any]) -> bool:
    if np.all(numbers[1:] > numbers[:-1]):
        return False
    ordered = np.sort(numbers)
    return bool(np.any(ordered[1:] == ordered[:-1]))


def _spread(values: npt.NDArray[Scalar], at: npt.NDArray[Any], count: int) -> npt.NDArray[Scalar]:
    spread = np.zeros(count, dtype=values.dtype)
    spread[at] = values
    return spread


def _order(queries: npt.NDArray[Any], hit_counts: npt.NDArray[Any]) -> slice | Counts:
    """Where the hits of each query, in the order of the qrels, stand among all."""
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
