"""Vectors for tests of search, and comparing everything in float64: what exact search must find."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from ragtrial.engines import Vectors
from ragtrial.engines.base import Space
from ragtrial.engines.exact import ExactStore
from ragtrial.rankings import Floats, Rankings


def vectors_of(matrix: npt.ArrayLike, order: Sequence[int] | None = None) -> Vectors:
    """Vectors whose ties go by ``order``, by position without one."""
    rows = np.asarray(matrix, dtype=np.float32)
    places = np.arange(len(rows)) if order is None else np.asarray(order)
    return Vectors(rows, places.astype(np.int64))


def like_embeddings(count: int, dimension: int, seed: int) -> Floats:
    """Unit vectors as models make them: near a few dozen topics, and between two of them."""
    random = np.random.default_rng(seed)
    topics = random.normal(size=(60, dimension))
    share = random.uniform(0, 1, size=(count, 1))
    mixed = share * topics[random.integers(60, size=count)] + (1 - share) * topics[random.integers(60, size=count)]
    mixed += 0.3 * random.normal(size=(count, dimension))
    return np.asarray(mixed / np.linalg.norm(mixed, axis=1, keepdims=True), dtype=np.float32)


def exactly(vectors: Vectors, queries: npt.ArrayLike, depth: int, space: Space) -> Rankings:
    return ExactStore(space=space).open(vectors, Path()).search(np.asarray(queries, dtype=np.float32), depth)


def all_scores(matrix: npt.NDArray[Any], queries: npt.NDArray[Any], space: Space) -> npt.NDArray[np.float64]:
    """The score of every pair in float64; a cosine with a vector of zeros is 0."""
    rows, columns = queries.astype(np.float64), matrix.astype(np.float64)
    if space == "l2":
        return np.asarray(-cdist(rows, columns, "sqeuclidean"))
    if space == "ip":
        return np.asarray(rows @ columns.T)
    zero = (rows == 0).all(axis=1, keepdims=True) | (columns == 0).all(axis=1, keepdims=True).T
    with np.errstate(invalid="ignore"):
        return np.where(zero, 0.0, 1 - cdist(rows, columns, "cosine"))


def nearest(vectors: Vectors, queries: npt.NDArray[Any], depth: int, space: Space) -> list[list[int]]:
    """Every unit compared with every query; equal scores, as the float32 they are reported as, by their order."""
    scores = all_scores(vectors.matrix, queries, space).astype(np.float32)
    return [
        sorted(range(len(row)), key=lambda unit: (-row[unit], vectors.order[unit]))[:depth] for row in scores.tolist()
    ]
