"""Exact search: a blocked matrix product. The oracle, and the faster one below about 50,000 vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from ragtrial.rankings import Counts, Floats, Rankings, unfilled
from ragtrial.stores.base import STORES, Index, Space, Store, Vectors

_QUERY_BLOCK = 128
_UNIT_BLOCK = 65_536
_EPSILON = float(np.finfo(np.float32).eps)
_ROUNDINGS = 8  # of a score besides those of the sum: its division by a length, its final float32


@STORES.register("exact")
class ExactStore(Store):
    """Compares every query with every vector."""

    kind: Literal["exact"] = "exact"
    """Every query is compared with every vector: exact, and fast below about 50,000 vectors."""

    @property
    def is_exact(self) -> bool:
        return True

    def build(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        advance(len(vectors))  # the embeddings are all there is to it

    def open(self, vectors: Vectors, folder: Path) -> Index:
        return ExactIndex(vectors, self.space)


class ExactIndex:
    """Every vector, compared with every query.

    Candidates come from a float32 product; their scores are then computed again in float64, row by row, so that they
    depend neither on block sizes nor on the position of a vector: equal vectors get equal scores. Equal scores (after
    rounding to float32) go by document id, ascending, then by position in the document.
    """

    def __init__(self, vectors: Vectors, space: Space) -> None:
        self._vectors = vectors
        self._space = space
        starts = range(0, len(vectors), _UNIT_BLOCK)
        self._lengths = [np.linalg.norm(vectors.matrix[start : start + _UNIT_BLOCK], axis=1) for start in starts]

    def search(self, queries: Floats, depth: int) -> Rankings:
        units = len(self._vectors)
        depth = min(depth, units)
        made = unfilled(len(queries), depth)
        if not depth:
            return made
        for start in range(0, len(queries), _QUERY_BLOCK):
            block = np.ascontiguousarray(queries[start : start + _QUERY_BLOCK], dtype=np.float32)
            rows, found = self._candidates(block, depth)
            values = self._scores(block, rows, found)
            order = np.lexsort((self._vectors.order[found], -values, rows))
            rows, found, values = rows[order], found[order], values[order]
            first = np.searchsorted(rows, np.arange(len(block)))
            columns = np.arange(len(rows)) - first[rows]
            kept = columns < depth
            made.codes[start + rows[kept], columns[kept]] = found[kept]
            made.scores[start + rows[kept], columns[kept]] = values[kept]
        return made

    def unreachable(self) -> int:
        return 0

    def close(self) -> None:
        pass

    def _candidates(self, queries: Floats, depth: int) -> tuple[Counts, Counts]:
        """Row and code of every unit that may be among the nearest ``depth`` of its query, in one flat list."""
        # The score that surely belongs to the nearest ``depth``, seen so far.
        floor = np.full(len(queries), -np.inf, dtype=np.float32)
        parts: list[tuple[Counts, Counts]] = []
        for number, lengths in enumerate(self._lengths):
            start = number * _UNIT_BLOCK
            near, slack = self._near(queries, self._vectors.matrix[start : start + _UNIT_BLOCK], lengths)
            if near.shape[1] >= depth:
                cut = near.shape[1] - depth
                floor = np.maximum(floor, np.partition(near, cut, axis=1)[:, cut] - slack)
            rows, columns = np.nonzero(near >= (floor - slack)[:, np.newaxis])
            parts.append((rows, columns + start))
        rows = np.concatenate([part[0] for part in parts])
        return rows, np.concatenate([part[1] for part in parts])

    def _near(self, queries: Floats, block: Floats, lengths: Floats) -> tuple[Floats, Floats]:
        """Approximate scores (queries, units of the block), and how far they may be off for each query."""
        # The error of a float32 product is at most dimension x epsilon, relative to the lengths of the vectors.
        rounding = (block.shape[1] + _ROUNDINGS) * _EPSILON
        query_lengths = np.linalg.norm(queries, axis=1)
        product = queries @ block.T
        if self._space == "cosine":
            product /= np.where(lengths > 0, lengths, 1)
            return product, rounding * query_lengths
        longest = lengths.max(initial=0)
        if self._space == "l2":
            product *= 2
            product -= lengths**2
            return product, rounding * (query_lengths + longest) ** 2
        return product, rounding * query_lengths * longest

    def _scores(self, queries: Floats, rows: Counts, codes: Counts) -> Floats:
        scores = np.empty(len(rows), dtype=np.float32)
        step = 65_536
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            scores[part] = _exact_scores(
                queries[rows[part]].astype(np.float64),
                self._vectors.matrix[codes[part]].astype(np.float64),
                self._space,
            )
        return scores


def _exact_scores(
    queries: npt.NDArray[np.float64], units: npt.NDArray[np.float64], space: Space
) -> npt.NDArray[np.float64]:
    """The score of each pair of rows in float64; a cosine with a vector of zeros is 0."""
    if space == "l2":
        difference = queries - units
        return np.asarray(-np.einsum("ij,ij->i", difference, difference))
    product: npt.NDArray[np.float64] = np.einsum("ij,ij->i", queries, units)
    if space == "ip":
        return product
    lengths = np.sqrt(np.einsum("ij,ij->i", queries, queries) * np.einsum("ij,ij->i", units, units))
    return product / np.where(lengths > 0, lengths, 1)
