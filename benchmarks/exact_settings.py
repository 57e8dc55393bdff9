"""Rankings of a store that compares all vectors, held against exact search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.engines import Vectors
from ragtrial.engines.base import Space
from ragtrial.engines.exact import ExactIndex
from ragtrial.rankings import PADDING, Floats, Rankings

TIED = 1e-6
"""Scores that differ by no more are tied: engines add up a few hundred products in float32, each in its own order."""


class Swap(NamedTuple):
    """A rank at which a ranking has another unit than exact search, and by how much their exact scores differ."""

    query: int
    rank: int
    """From 1."""
    expected: int
    found: int
    """PADDING if the ranking ended before."""
    gap: float

    @property
    def is_tie(self) -> bool:
        return self.gap <= TIED


def scores_of(queries: Floats, units: Floats, space: Space) -> npt.NDArray[np.float64]:
    """The scores of the units of each query, float64 (queries, depth)."""
    asked, rows = queries.astype(np.float64)[:, np.newaxis], units.astype(np.float64)
    if space == "l2":
        return np.asarray(-np.square(rows - asked).sum(axis=2))
    lengths = np.linalg.norm(rows, axis=2) * np.linalg.norm(asked, axis=2) if space == "cosine" else 1
    return np.asarray((rows * asked).sum(axis=2) / lengths)


def swaps(found: Rankings, vectors: Vectors, queries: Floats, space: Space) -> list[Swap]:
    """All ranks at which ``found`` differs from exact search of the same depth."""
    index = ExactIndex(vectors, space)
    exact = index.search(queries, found.depth)
    scores = scores_of(queries, vectors.matrix[found.codes], space)
    made = []
    for query, place in np.argwhere(found.codes != exact.codes).tolist():
        expected, unit = int(exact.codes[query, place]), int(found.codes[query, place])
        gap = float("inf") if unit == PADDING else abs(float(exact.scores[query, place]) - scores[query, place])
        made.append(Swap(query, place + 1, expected, unit, float(gap)))
    return made
