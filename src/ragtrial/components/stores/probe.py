"""Whether an index is searched, seen from outside: comparing all vectors misses nothing, however narrow the search."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ragtrial.components.stores.base import Space, Vectors
from ragtrial.components.stores.exact import ExactIndex
from ragtrial.rankings import Floats, Rankings

PROBES = 200
SURE_FROM = 500
"""Vectors from which on some of the probes miss what is nearest in any graph: of 200 probes, graphs with 64 links
a vector missed 25 and more."""

_SAME = 1e-5
"""How much worse than the nearest vector one may be that is as near, relative to its score."""


def missed(nearest: Callable[[Floats], Rankings], vectors: Vectors, space: Space) -> int:
    """How often, of PROBES times, ``nearest`` gives something else than the vector that is nearest.

    It is asked for one hit each of vectors half-way between two stored ones, by a search as narrow as there is.
    """
    random = np.random.default_rng(0)
    one, other = random.integers(len(vectors), size=(2, PROBES))
    queries = np.asarray((vectors.matrix[one] + vectors.matrix[other]) / 2, dtype=np.float32)
    exact = ExactIndex(vectors, space)
    best = exact.search(queries, 1).scores[:, 0]
    found = exact.scores_of(queries, nearest(queries).codes)[:, 0]
    return int(np.count_nonzero(~(found >= best - _SAME * np.maximum(1, np.abs(best)))))  # no hit is NaN
