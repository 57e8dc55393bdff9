"""Rankings as columns: for each query a row of unit codes, best first, and their scores.

A code is the position of a unit (a chunk or a document) in a list kept elsewhere; here they are only numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Counts = npt.NDArray[np.int64]

PADDING = -1
"""The code where a row has ended."""


@dataclass(frozen=True, eq=False)
class Rankings:
    """Ranked units of many queries.

    ``codes`` is int32 (queries, depth), rows padded at the end with ``PADDING``; ``scores`` is float32 of the same
    shape, NaN at the padding, larger is better. The order of a row is the ranking; scores are never used to sort.
    """

    codes: Codes
    scores: Floats

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.shape != self.scores.shape:
            raise ValueError(f"codes {self.codes.shape} and scores {self.scores.shape} must share a 2-d shape")

    @property
    def depth(self) -> int:
        return int(self.codes.shape[1])

    @property
    def lengths(self) -> Counts:
        """Units ranked per query, shape (queries,)."""
        return np.asarray((self.codes != PADDING).sum(axis=1, dtype=np.int64))

    def cut(self, depth: int) -> Rankings:
        """The first ``depth`` units of every query."""
        return Rankings(self.codes[:, :depth], self.scores[:, :depth])

    def __len__(self) -> int:
        return int(self.codes.shape[0])


def unfilled(queries: int, depth: int) -> Rankings:
    """Rankings that are all padding: arrays of the right shape and type, to be written into."""
    shape = (queries, depth)
    return Rankings(np.full(shape, PADDING, dtype=np.int32), np.full(shape, np.nan, dtype=np.float32))


@dataclass(frozen=True, eq=False)
class Collapsed:
    """Rankings in which every owner stands once, at the rank of its first unit.

    ``units`` has the code of that unit, shape as ``rankings``; ``dropped`` counts the later ones per query.
    """

    rankings: Rankings
    units: Codes
    dropped: Counts

    def cut(self, depth: int) -> Collapsed:
        """The first ``depth`` owners of every query; ``dropped`` stays what it was."""
        return Collapsed(self.rankings.cut(depth), self.units[:, :depth], self.dropped)


def collapse(rankings: Rankings, owner: Codes) -> Collapsed:
    """Replace each unit by its owner (a chunk by its document); the first unit of an owner wins.

    ``owner`` maps a unit's code to its owner's, shape (units,). Use ``np.arange`` to drop plain duplicates.
    """
    rows, columns = np.nonzero(rankings.codes != PADDING)
    units = rankings.codes[rows, columns]
    owners = owner[units]
    width = int(owner.max()) + 1 if len(owner) else 1
    _, first = np.unique(rows * width + owners, return_index=True)
    first.sort()
    kept_rows = rows[first]
    kept_per_row = np.bincount(kept_rows, minlength=len(rankings))
    starts = np.concatenate(([0], np.cumsum(kept_per_row)[:-1]))
    kept_columns = np.arange(len(first)) - starts[kept_rows]
    made = unfilled(len(rankings), int(kept_per_row.max(initial=0)))
    kept_units = made.codes.copy()
    made.codes[kept_rows, kept_columns] = owners[first]
    made.scores[kept_rows, kept_columns] = rankings.scores[rows, columns][first]
    kept_units[kept_rows, kept_columns] = units[first]
    return Collapsed(made, kept_units, rankings.lengths - kept_per_row)


def from_rows(rows: Sequence[Sequence[int]], scores: Sequence[Sequence[float]] | None = None) -> Rankings:
    """Rankings from one sequence of codes per query (best first), and of scores where they are known."""
    made = unfilled(len(rows), max((len(row) for row in rows), default=0))
    for index, row in enumerate(rows):
        made.codes[index, : len(row)] = row
        if scores is not None:
            if len(scores[index]) != len(row):
                raise ValueError(f"row {index} has {len(row)} codes and {len(scores[index])} scores")
            made.scores[index, : len(row)] = scores[index]
    return made
