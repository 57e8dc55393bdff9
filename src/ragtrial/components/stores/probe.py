"""Finds out whether an index is used: a search that compares all vectors misses nothing, however narrow it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ragtrial.components.stores.base import Space, Vectors
from ragtrial.components.stores.exact import ExactIndex
from ragtrial.rankings import Floats, Rankings

PROBES = 200
SURE_FROM = 500
"""From this many vectors on, some probes of any graph miss the nearest vector: of 200 probes, graphs with 64 links
per vector missed 25 and more."""

_SAME = 1e-5
"""How far the scores of two equally near vectors may differ, relative to the score."""


def missed(nearest: Callable[[Floats], Rankings], vectors: Vectors, space: Space) -> int:
    """How many of PROBES searches by ``nearest`` miss the nearest vector.

    Each query is half-way between two stored vectors; ``nearest`` returns one hit, by a search as narrow as possible.
    """
    random = np.random.default_rng(0)
    one, other = random.integers(len(vectors), size=(2, PROBES))
    queries = np.asarray((vectors.matrix[one] + vectors.matrix[other]) / 2, dtype=np.float32)
    exact = ExactIndex(vectors, space)
    best = exact.search(queries, 1).scores[:, 0]
    found = exact.scores_of(queries, nearest(queries).codes)[:, 0]
    return int(np.count_nonzero(~(found >= best - _SAME * np.maximum(1, np.abs(best)))))  # no hit is NaN
