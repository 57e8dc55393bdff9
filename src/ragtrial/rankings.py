"""Rankings as columns: for each query a row of unit codes, best first, and their scores.

A code is the position of a unit (a chunk or a document) in a list kept elsewhere; here they are only numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Counts = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]

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


def starts_of(rows: Counts, queries: int) -> Counts:
    """Where the rows of each query start if they are grouped by query, and where the last end, (queries + 1,).

    ``rows`` has the query of each row, in any order.
    """
    return np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=queries)))).astype(np.int64)


def distinct(codes: Codes) -> Codes:
    """The units among ``codes``, each once, ascending."""
    units = codes[codes != PADDING]
    return np.flatnonzero(np.bincount(units)).astype(np.int32)


def unfilled(queries: int, depth: int) -> Rankings:
    """Rankings that are all padding: arrays of the right shape and type, to be written into."""
    shape = (queries, depth)
    return Rankings(np.full(shape, PADDING, dtype=np.int32), np.full(shape, np.nan, dtype=np.float32))


@dataclass(frozen=True, eq=False)
class Collapsed:
    """Rankings with every owner once, at the rank of its first unit.

    ``units`` has the code of that unit, shape as ``rankings``; ``ranks`` has its original rank, counted from 1,
    int64 of that shape, 0 at the padding; ``dropped`` counts the later units per query.
    """

    rankings: Rankings
    units: Codes
    ranks: Counts
    dropped: Counts

    def cut(self, depth: int) -> Collapsed:
        """The first ``depth`` owners of every query; ``dropped`` is unchanged."""
        return Collapsed(self.rankings.cut(depth), self.units[:, :depth], self.ranks[:, :depth], self.dropped)

    def of(self, rows: npt.NDArray[np.bool_]) -> Collapsed:
        """The rows that ``rows``, shape (queries,), marks."""
        rankings = Rankings(self.rankings.codes[rows], self.rankings.scores[rows])
        return Collapsed(rankings, self.units[rows], self.ranks[rows], self.dropped[rows])

    def then(self, later: Collapsed, read: int) -> Collapsed:
        """The same, and behind it what only ``later`` has, for which the first ``read`` hits were read before."""
        codes = np.hstack([self.rankings.codes, later.rankings.codes])
        scores = np.hstack([self.rankings.scores, later.rankings.scores])
        units = np.hstack([self.units, later.units])
        ranks = np.hstack([self.ranks, np.where(later.ranks > 0, np.maximum(later.ranks, read), 0)])
        once = collapse(Rankings(codes, scores), np.arange(int(codes.max(initial=0)) + 1, dtype=np.int32))
        columns, is_filled = np.maximum(once.ranks - 1, 0), once.ranks > 0
        kept_units = np.where(is_filled, np.take_along_axis(units, columns, axis=1), PADDING).astype(np.int32)
        kept_ranks = np.where(is_filled, np.take_along_axis(ranks, columns, axis=1), 0)
        return Collapsed(once.rankings, kept_units, kept_ranks, later.dropped)


def deeper(depth: int, width: Callable[[int], int | None]) -> int:
    """The number of hits to request if ``depth`` were too few: twice as many.

    ``width`` is the width of a search for a number of hits. Searches that are no wider are exhausted first, so that the
    width does not depend on the first depth.
    """
    wide = width(depth)
    return 2 * depth if wide is None or wide <= depth else min(2 * depth, wide)


def collapse(rankings: Rankings, owner: Codes) -> Collapsed:
    """Replace each unit by its owner (a chunk by its document); the first unit of an owner wins.

    ``owner`` maps a unit's code to its owner's, shape (units,). Use ``np.arange`` to drop plain duplicates. Padding
    between units is removed, too.
    """
    codes = rankings.codes
    is_unit = codes != PADDING
    owners = np.where(is_unit, owner[codes], PADDING) if len(owner) else codes
    if not _any_twice(owners) and bool((is_unit[:, :-1] >= is_unit[:, 1:]).all()):  # each stays where it is
        ranks = np.where(is_unit, np.arange(1, codes.shape[1] + 1), 0)
        one_each = Collapsed(Rankings(owners, rankings.scores), codes, ranks, np.zeros(len(rankings), dtype=np.int64))
        return one_each.cut(int(rankings.lengths.max(initial=0)))
    rows, columns = np.nonzero(_is_first(owners) & is_unit)
    kept_per_row = np.bincount(rows, minlength=len(rankings))
    starts = np.cumsum(kept_per_row) - kept_per_row
    kept_columns = np.arange(len(rows)) - starts[rows]
    made = unfilled(len(rankings), int(kept_per_row.max(initial=0)))
    units, ranks = made.codes.copy(), np.zeros(made.codes.shape, dtype=np.int64)
    made.codes[rows, kept_columns] = owners[rows, columns]
    made.scores[rows, kept_columns] = rankings.scores[rows, columns]
    units[rows, kept_columns] = codes[rows, columns]
    ranks[rows, kept_columns] = columns + 1
    return Collapsed(made, units, ranks, is_unit.sum(axis=1, dtype=np.int64) - kept_per_row)


def _any_twice(codes: Codes) -> bool:
    """True if a code, other than the padding, occurs twice in a row."""
    ordered = np.sort(codes, axis=1)
    return bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != PADDING)).any())


def _is_first(codes: Codes) -> npt.NDArray[np.bool_]:
    """A mask of the codes that are the first of their kind in the row, in the shape of ``codes``."""
    order = np.argsort(codes, axis=1, kind="stable")  # rows are short: quicker than sorting all of it at once
    ascending = np.take_along_axis(codes, order, axis=1)
    is_first = np.ones(codes.shape, dtype=np.bool_)
    np.put_along_axis(is_first, order[:, 1:], ascending[:, 1:] != ascending[:, :-1], axis=1)
    return is_first


def from_rows(rows: Sequence[Sequence[int]], scores: Sequence[Sequence[float]] | None = None) -> Rankings:
    """Rankings from one sequence of codes per query (best first), and of scores where they are known."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    made = unfilled(len(rows), int(lengths.max(initial=0)))
    is_filled = np.arange(made.depth) < lengths[:, None]
    made.codes[is_filled] = list(chain.from_iterable(rows))
    if scores is not None:
        for index, (row, known) in enumerate(zip(rows, scores, strict=True)):
            if len(known) != len(row):
                raise ValueError(f"row {index} has {len(row)} codes and {len(known)} scores")
        made.scores[is_filled] = list(chain.from_iterable(scores))
    return made
