"""Exact search: a blocked matrix product. The oracle, and the faster one below about 50,000 vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.components.stores.base import STORES, Space, Store, Vectors
from ragtrial.rankings import PADDING, Codes, Counts, Floats, Rankings, unfilled

_QUERY_BLOCK = 512
_TILE = 2**20  # approximate scores at a time: few enough for the processor's cache
_PAIRS = 2**19  # candidates kept from one tile to the next, about
_SPARE = 256  # candidates per query that cost less than raising the floor to be rid of them
_ROWS = 1_024  # vectors at a time in float64
_COLUMNS = 4_096  # of rows of more than 8,192 numbers, einsum's order of adding depends on the rows before
_ROUNDINGS = 8  # of a score besides those of its sum: of the query, the lengths, the floor, its final float32
_FLOAT32 = np.finfo(np.float32)

_Doubles = npt.NDArray[np.float64]


@STORES.register("exact")
class ExactStore(Store):
    """Compares every query with every vector."""

    kind: Literal["exact"] = "exact"
    """Every query is compared with every vector: exact, and fast below about 50,000 vectors."""

    @property
    def is_exact(self) -> bool:
        return True

    def build(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        advance(len(vectors.matrix))  # the embeddings are all there is to it

    def open(self, vectors: Vectors, folder: Path) -> ExactIndex:
        return ExactIndex(vectors, self.space)


class ExactIndex:
    """Every vector, compared with every query.

    Candidates come from a float32 product; their scores are then computed again in float64, row by row, so that they
    depend neither on block sizes nor on the position of a vector: equal vectors get equal scores. Equal scores (after
    rounding to float32) go by document id, ascending, then by position in the document.

    The matrix may be a memory map larger than the memory: it is read in blocks, once for a few hundred queries.
    """

    def __init__(self, vectors: Vectors, space: Space) -> None:
        self._matrix = np.asarray(vectors.matrix)
        self._order = vectors.order
        self._space = space
        self._lengths = _lengths(self._matrix)

    def search(self, queries: Floats, depth: int) -> Rankings:
        depth = min(depth, len(self._matrix))
        made = unfilled(len(queries), depth)
        if not depth:
            return made
        size = max(1, min(_QUERY_BLOCK, _PAIRS // (2 * depth)))
        for start in range(0, len(queries), size):
            block = np.ascontiguousarray(queries[start : start + size], dtype=np.float32)
            with np.errstate(over="ignore", invalid="ignore"):  # of numbers near the largest of a float32
                pairs = self._candidates(block, depth)
                places, made.scores[start : start + size] = self._nearest(block, pairs, depth)
                made.codes[start : start + size] = pairs.codes[places]
        return made

    def scores_of(self, queries: Floats, codes: Codes) -> Floats:
        """The scores of given units, shape of ``codes`` (queries, depth); NaN at the padding."""
        made = np.full(codes.shape, np.nan, dtype=np.float32)
        rows, columns = np.nonzero(codes != PADDING)
        bounds = np.searchsorted(rows, np.arange(len(codes) + 1)).tolist()
        made[rows, columns] = self._scores(queries, codes[rows, columns], bounds)
        return made

    def unreachable(self) -> int:
        return 0

    def close(self) -> None:
        pass

    def _candidates(self, queries: Floats, depth: int) -> _Pairs:
        """Every pair that may be among the nearest ``depth`` of its query."""
        lengths = _lengths(queries)
        scaled = queries
        if self._space == "cosine":
            scaled = np.asarray(queries / _divisors(lengths)[:, np.newaxis], dtype=np.float32)
        sieve = _Sieve(depth, self._slack(lengths))
        most = max(_PAIRS, 2 * depth * len(queries))
        size = max(1, _TILE // len(queries))
        for start in range(0, len(self._matrix), size):
            sieve.add(self._near(scaled, slice(start, start + size)), start)
            if sieve.held > most and len((pairs := sieve.pairs()).rows) > most:
                # More ties than can be held: only the nearest so far go on.
                places, _ = self._nearest(queries, pairs, depth)
                sieve.keep(pairs.at(places.ravel()))
        return sieve.pairs()

    def _near(self, queries: Floats, block: slice) -> Floats:
        """Approximate scores (queries, units of the block); of a distance, without the query's own square."""
        product: Floats = queries @ self._matrix[block].T
        lengths = self._lengths[block]
        if self._space == "cosine":
            product /= _divisors(lengths).astype(np.float32)
        elif self._space == "l2":
            product *= 2
            product -= np.square(lengths).astype(np.float32)
        return product

    def _slack(self, lengths: _Doubles) -> _Doubles:
        """How far approximate scores may be off, for queries of these lengths; infinitely, where they may overflow."""
        # The error of a float32 product is at most dimension x epsilon, relative to the lengths of the vectors; and
        # what is lost of numbers that are too small for a float32.
        dimension, longest = self._matrix.shape[1], self._lengths.max()
        lost = 4 * dimension * float(_FLOAT32.tiny)
        size = lengths * longest
        if self._space == "cosine":
            size = np.ones(len(lengths))
            lost /= self._lengths.min(initial=np.inf, where=self._lengths > 0)
        elif self._space == "l2":
            size = (lengths + longest) ** 2
        safe = np.maximum(size, longest) < float(_FLOAT32.max) / 8
        return np.where(safe, (dimension + _ROUNDINGS) * float(_FLOAT32.eps) * size + lost, np.inf)

    def _nearest(self, queries: Floats, pairs: _Pairs, depth: int) -> tuple[Counts, Floats]:
        """Where in ``pairs`` the nearest ``depth`` of each query are, and their scores; shape (queries, depth)."""
        places = np.empty((len(queries), depth), dtype=np.int64)
        bounds = np.searchsorted(pairs.rows, np.arange(len(queries) + 1, dtype=np.int16))
        scores = self._scores(queries, pairs.codes, bounds.tolist())
        step = max(1, _ROWS // depth)  # queries that are sorted together
        for start in range(0, len(queries), step):
            ends = bounds[start : start + step + 1]
            part = slice(ends[0], ends[-1])
            order = part.start + np.lexsort((self._order[pairs.codes[part]], -scores[part], pairs.rows[part]))
            ranks = np.arange(part.start, part.stop) - ends[:-1].repeat(np.diff(ends))
            places[start : start + step] = order[ranks < depth].reshape(-1, depth)
        return places, scores[places]

    def _scores(self, queries: Floats, codes: Codes, bounds: list[int]) -> Floats:
        """The scores of units, from sums in float64; those of query i are from ``bounds[i]`` to ``bounds[i + 1]``."""
        asked = queries.astype(np.float64)[:, np.newaxis]
        values = np.empty(len(codes))
        for query, first, last in zip(asked, bounds, bounds[1:], strict=False):
            for start in range(first, last, _ROWS):
                part = slice(start, min(start + _ROWS, last))
                units = self._matrix.take(codes[part], axis=0).astype(np.float64)
                if self._space == "l2":
                    units -= query
                    values[part] = -_dots(units, units)
                else:
                    values[part] = _dots(units, query)
        if self._space == "cosine":
            values /= _divisors(self._lengths[codes] * _lengths(queries).repeat(np.diff(bounds)))
        return values.astype(np.float32)


class _Pairs(NamedTuple):
    """Rows of queries, in order; codes of units; and about what they score."""

    rows: npt.NDArray[np.int16]
    codes: Codes
    near: Floats

    def at(self, places: npt.NDArray[Any]) -> _Pairs:
        return _Pairs(self.rows[places], self.codes[places], self.near[places])


class _Sieve:
    """Keeps the pairs that may be among the nearest ``depth`` of a query, by scores that are at most ``slack`` off."""

    def __init__(self, depth: int, slack: _Doubles) -> None:
        self._depth = depth
        self._slack = slack[:, np.newaxis]
        self._floor = np.full((len(slack), 1), -np.inf, dtype=np.float32)
        self._tops = np.empty((len(slack), 0), dtype=np.float32)
        self._parts: list[_Pairs] = []
        self.held = 0
        self._limit = 0

    def add(self, near: Floats, start: int) -> None:
        """Add a block of units from ``start`` on, by their scores (queries, units); the first is the widest."""
        # The largest score in each column, of all blocks: they belong to different units, most of the best among them.
        if start == 0:
            self._tops = near.copy()
        else:
            tops = self._tops[:, : near.shape[1]]
            np.maximum(tops, near, out=tops)
        if self.held >= self._limit:
            self._raise_floor()
            self._limit = self.held + len(near) * max(self._depth, _SPARE)
        places = np.flatnonzero(~(near < self._floor))  # so put, it keeps what is not a number
        rows, columns = np.divmod(places, near.shape[1])
        self._parts.append(_Pairs(rows.astype(np.int16), (columns + start).astype(np.int32), near.ravel()[places]))
        self.held += len(places)

    def pairs(self) -> _Pairs:
        """What is left."""
        self._raise_floor()
        floor = self._floor[:, 0]
        left = [part.at(np.flatnonzero(~(part.near < floor[part.rows]))) for part in self._parts]
        rows, codes, near = (np.concatenate(column) for column in zip(*left, strict=True))
        pairs = _Pairs(rows, codes, near).at(np.argsort(rows, kind="stable"))
        self.keep(pairs)
        return pairs

    def keep(self, pairs: _Pairs) -> None:
        """Go on with these alone."""
        self._parts = [pairs]
        self.held = len(pairs.rows)
        self._limit = 0

    def _raise_floor(self) -> None:
        """Any of the nearest is at most two slacks below a score that ``depth`` units reach."""
        place = self._tops.shape[1] - self._depth
        if place >= 0:
            reached = np.partition(self._tops, place, axis=1)[:, place : place + 1]
            self._floor = (reached - 2 * self._slack).astype(np.float32)


def _lengths(rows: Floats) -> _Doubles:
    lengths = np.empty(len(rows))
    for start in range(0, len(rows), _ROWS):
        part = rows[start : start + _ROWS].astype(np.float64)
        lengths[start : start + _ROWS] = np.sqrt(_dots(part, part))
    return lengths


def _dots(rows: _Doubles, others: _Doubles) -> _Doubles:
    """The product of each pair of rows: equal pairs have equal products, wherever they stand."""
    total = np.einsum("ij,ij->i", rows[:, :_COLUMNS], others[:, :_COLUMNS])
    for start in range(_COLUMNS, rows.shape[1], _COLUMNS):
        total += np.einsum("ij,ij->i", rows[:, start : start + _COLUMNS], others[:, start : start + _COLUMNS])
    return np.asarray(total)


def _divisors(lengths: _Doubles) -> _Doubles:
    """Lengths to divide by: a cosine with a vector of zeros is 0."""
    return np.where(lengths > 0, lengths, 1)
