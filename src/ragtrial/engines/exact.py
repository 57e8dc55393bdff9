"""Exact search: a blocked matrix product. The oracle, and the faster one below about 50,000 vectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from ragtrial.cache.arrays import read_array, write_array, write_rows
from ragtrial.cache.atomic import write_text
from ragtrial.engines.base import STORES, Index, IndexUse, Space, Store, Vectors, lengths_of
from ragtrial.engines.collection import PAGE, Collection, Found, Item
from ragtrial.engines.filters import ALL, Conditions
from ragtrial.errors import StoreError
from ragtrial.rankings import PADDING, Codes, Counts, Doubles, Floats, Rankings, unfilled

_QUERY_BLOCK = 4_096  # queries for which the vectors are read once
_TILE = 2**20  # approximate scores at a time: few enough for the processor's cache
_PAIRS = 2**19  # candidates kept from one tile to the next, about
_SPARE = 256  # candidates per query that cost less than raising the floor to be rid of them
_ROWS = 1_024  # vectors at a time in float64
_COLUMNS = 4_096  # of rows of more than 8,192 numbers, einsum's order of adding depends on the rows before
_HAMMING_ROWS = 16  # queries of bits at a time: with few enough units for the processor's cache
_ROUNDINGS = 8  # for the query, the lengths, the floor and the final float32; the sum has more, counted apart
_FLOAT32 = np.finfo(np.float32)

Quantization = Literal["int8", "binary"]
CodeRows = npt.NDArray[Any]
"""Codes of vectors: int8 (units, dimension), or uint8 (units, bytes), the first number in the highest bit."""

_CODES, _RANGES = "codes.npy", "ranges.npy"
_BLOCK = 2**20  # numbers at a time
_UNIT_LENGTH = 1e-5  # a vector whose length is so near to 1 is left as it is: scaling it would only round it again


@STORES.register("exact")
class ExactStore(Store):
    """Compares every query with every vector, or with every quantized one."""

    is_repeatable = True
    search_options = frozenset({"rescore"})
    advice_for_low_recall = "Set or raise store.rescore, or remove store.quantize."

    kind: Literal["exact"] = "exact"
    """Every query is compared with every vector: exact, and fast below about 50,000 vectors."""

    quantize: Quantization | None = None
    """Search vectors with one byte (int8) or one bit (binary) per number, made as sentence-transformers makes them,
    with ranges taken from all vectors (default: float32). Needs `space: cosine` or `ip`."""

    rescore: Annotated[int, Field(ge=1)] | None = None
    """Find this many times the requested hits, then rank them again with the float query and the quantized vectors
    (default: keep the order of the first search)."""

    @model_validator(mode="after")
    def _can_be_quantized(self) -> Self:
        if self.rescore is not None and self.quantize is None:
            raise ValueError("rescore ranks quantized vectors again; add quantize: int8 or binary, or remove rescore.")
        if self.quantize is not None and self.space == "l2":
            raise ValueError(f"quantize: {self.quantize} compares by products; set space: cosine or ip, or remove it.")
        return self

    def vector_bytes(self, dimension: int) -> int:
        return {None: 4 * dimension, "int8": dimension, "binary": -(-dimension // 8)}[self.quantize]

    @property
    def is_exact(self) -> bool:
        return self.quantize is None

    def width(self, depth: int) -> int | None:
        return None if self.rescore is None else depth * self.rescore

    def build(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        if self.quantize is None:
            advance(len(vectors.matrix))  # the embeddings are all there is to it
        else:
            Quantizer.of(self.quantize, self.space, vectors.matrix).write(vectors.matrix, folder, advance)

    def open(self, vectors: Vectors, folder: Path) -> Index:
        if self.quantize is None:
            return ExactIndex(vectors, self.space)
        ranges = read_array(folder / _RANGES) if self.quantize == "int8" else None
        quantizer = Quantizer(self.quantize, self.space, vectors.matrix.shape[1], ranges)
        codes = Vectors(read_array(folder / _CODES), vectors.order)
        inner = HammingIndex(codes) if self.quantize == "binary" else ExactIndex(codes, "ip")
        return QuantizedIndex(inner, quantizer, codes, self.rescore)


class ExactIndex(Index):
    """Every vector, compared with every query.

    Candidates come from a float32 product; their scores are then computed again in float64, row by row, so that they
    depend neither on block sizes nor on the position of a vector: equal vectors get equal scores. Equal scores (after
    rounding to float32) go by document id, ascending, then by position in the document.

    The matrix may be a memory map larger than the memory: it is read in blocks, once for a few thousand queries, and no
    more than the rows it needs to score given units.
    """

    def __init__(self, vectors: Vectors, space: Space) -> None:
        self._matrix = np.asarray(vectors.matrix)
        self._order = vectors.order
        self._space = space
        self._lengths = np.empty(len(self._matrix))
        self._measured = 0  # vectors from the first on whose lengths are known

    def search(self, queries: Floats, depth: int) -> Rankings:
        depth = min(depth, len(self._matrix))
        made = unfilled(len(queries), depth)
        size = max(1, min(_QUERY_BLOCK, _PAIRS // (2 * max(depth, 1))))
        for start in range(0, len(queries) if depth else 0, size):
            rows = slice(start, start + size)
            block = np.ascontiguousarray(queries[rows], dtype=np.float32)
            with np.errstate(over="ignore", invalid="ignore"):  # of numbers near the largest of a float32
                pairs = self._candidates(block, depth)
                places, made.scores[rows] = self._nearest(block, pairs, depth)
                made.codes[rows] = pairs.codes[places]
        return made

    def use(self) -> IndexUse:
        return IndexUse(is_used=True, evidence="Exact search compares all vectors.")

    def _candidates(self, queries: Floats, depth: int) -> _CandidatePairs:
        """Every pair that may be among the nearest ``depth`` of its query, by query."""
        asked = _lengths(queries)
        scaled = queries
        if self._space == "cosine":
            scaled = np.asarray(queries / _divisors(asked)[:, np.newaxis], dtype=np.float32)
        reached = np.full(len(queries), -np.inf)
        longest, shortest = 0.0, np.inf  # of the vectors so far, other than zeros
        pairs = _CandidatePairs(np.empty(0, dtype=np.int16), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32))
        parts, limit = [pairs], 0
        most = max(_PAIRS, 2 * depth * len(queries))
        widest = max(1, _TILE // len(queries))
        start, width = 0, min(widest, _SPARE)  # of the first few units all are candidates
        while start < len(self._matrix):
            block = slice(start, start + width)
            lengths = self._lengths_of(block)
            near = self._near(scaled, block)
            longest = max(longest, float(lengths.max(initial=0)))
            shortest = min(shortest, float(lengths.min(initial=np.inf, where=lengths > 0)))
            slack = self._slack(asked, longest, shortest)
            # Any of the nearest is at most two slacks below a score that ``depth`` units reach.
            floor = np.asarray(reached - 2 * slack, dtype=np.float32)
            places = np.flatnonzero(~(near < floor[:, np.newaxis]))  # in this form it keeps NaN
            rows, columns = np.divmod(places, near.shape[1])
            codes = (columns + start).astype(np.int32)
            parts.append(_CandidatePairs(rows.astype(np.int16), codes, near.ravel()[places]))
            start, width = start + width, min(2 * width, widest)
            if start < len(self._matrix) and sum(len(part.rows) for part in parts) <= limit:
                continue
            reached, pairs = _sieved(parts, depth, slack)
            if len(pairs.rows) > most:  # more ties than can be held: only the nearest so far go on
                pairs = pairs.at(self._nearest(queries, pairs, depth)[0].ravel())
            parts, limit = [pairs], len(pairs.rows) + len(queries) * max(depth, _SPARE)
        return pairs

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

    def _lengths_of(self, block: slice) -> Doubles:
        """The lengths of the block's vectors, which are computed when a search first comes by."""
        if block.stop > self._measured:
            self._lengths[block] = _lengths(self._matrix[block])
            self._measured = block.stop
        return self._lengths[block]

    def _slack(self, lengths: Doubles, longest: float, shortest: float) -> Doubles:
        """How far approximate scores may be off, for queries of these lengths; infinitely, where they may overflow.

        ``longest`` and ``shortest`` are lengths of the vectors compared so far.
        """
        # The error of a float32 product is at most dimension x epsilon, relative to the lengths of the vectors, plus
        # the loss of numbers that are too small for a float32.
        dimension = self._matrix.shape[1]
        lost = 4 * dimension * float(_FLOAT32.tiny)
        size = lengths * longest
        if self._space == "cosine":
            size = np.ones(len(lengths))
            lost /= shortest
        elif self._space == "l2":
            size = (lengths + longest) ** 2
        safe = np.maximum(size, longest) < float(_FLOAT32.max) / 8
        return np.where(safe, (dimension + _ROUNDINGS) * float(_FLOAT32.eps) * size + lost, np.inf)

    def _nearest(self, queries: Floats, pairs: _CandidatePairs, depth: int) -> tuple[Counts, Floats]:
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
        """The scores of units, from sums in float64; query i has the scores from ``bounds[i]`` to ``bounds[i + 1]``."""
        asked = queries.astype(np.float64)[:, np.newaxis]
        values, lengths = np.empty(len(codes)), np.empty(len(codes))
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
                    lengths[part] = np.sqrt(_dots(units, units))
        if self._space == "cosine":
            values /= _divisors(lengths * _lengths(queries).repeat(np.diff(bounds)))
        return values.astype(np.float32)


class HammingIndex(ExactIndex):
    """Vectors of bits in bytes, uint8 (units, bytes), compared with queries of bits: scores are minus what differs."""

    def __init__(self, vectors: Vectors) -> None:
        super().__init__(vectors, "ip")
        width = self._matrix.shape[1]
        self._words = np.dtype(next(word for word in ("u8", "u4", "u2", "u1") if width % np.dtype(word).itemsize == 0))
        self._bits = np.ascontiguousarray(self._matrix).view(self._words) if self._matrix.size else self._matrix

    def _near(self, queries: Floats, block: slice) -> Floats:
        asked, units = self._asked(queries), np.ascontiguousarray(self._bits[block].T)
        near = np.empty((len(queries), units.shape[1]), dtype=np.float32)
        differing = np.empty((_HAMMING_ROWS, units.shape[1]), dtype=self._words)
        counted = np.empty(differing.shape, dtype=np.uint8)
        for start in range(0, len(asked), _HAMMING_ROWS):
            rows = asked[start : start + _HAMMING_ROWS]
            held, count = differing[: len(rows)], counted[: len(rows)]
            total = np.zeros(held.shape, dtype=np.int32)
            for column, word in zip(rows.T, units, strict=True):
                np.bitwise_xor(column[:, np.newaxis], word, out=held)
                total += np.bitwise_count(held, out=count)
            near[start : start + _HAMMING_ROWS] = -total
        return near

    def _lengths_of(self, block: slice) -> Doubles:
        return np.empty(0)  # scores depend on none

    def _slack(self, lengths: Doubles, longest: float, shortest: float) -> Doubles:
        return np.zeros(len(lengths))  # they are counts

    def _scores(self, queries: Floats, codes: Codes, bounds: list[int]) -> Floats:
        asked = self._asked(queries).repeat(np.diff(bounds), axis=0)
        values = np.empty(len(codes), dtype=np.float32)
        for start in range(0, len(codes), _ROWS):
            part = slice(start, start + _ROWS)
            values[part] = -np.bitwise_count(self._bits[codes[part]] ^ asked[part]).sum(axis=1, dtype=np.int32)
        return values

    def _asked(self, queries: Floats) -> npt.NDArray[Any]:
        return np.ascontiguousarray(queries.astype(np.uint8)).view(self._words)


class _CandidatePairs(NamedTuple):
    """Rows of queries, in order; codes of units; and their approximate scores."""

    rows: npt.NDArray[np.int16]
    codes: Codes
    near: Floats

    def at(self, places: npt.NDArray[Any]) -> _CandidatePairs:
        return _CandidatePairs(self.rows[places], self.codes[places], self.near[places])


def _sieved(parts: Sequence[_CandidatePairs], depth: int, slack: Doubles) -> tuple[Doubles, _CandidatePairs]:
    """The score that ``depth`` units reach, and the pairs that may count; scores are at most ``slack`` off.

    The scores have the shape (queries,), -inf where there are fewer; the pairs are in the order of the queries.
    """
    pairs = _CandidatePairs(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    pairs = pairs.at(np.argsort(pairs.rows, kind="stable"))
    reached = np.full(len(slack), -np.inf)
    bounds = np.searchsorted(pairs.rows, np.arange(len(slack) + 1, dtype=np.int16)).tolist()
    for query, (first, last) in enumerate(pairwise(bounds)):
        if last - first >= depth:
            reached[query] = np.partition(pairs.near[first:last], -depth)[-depth]
    floor = np.asarray(reached - 2 * slack, dtype=np.float32)
    return reached, pairs.at(np.flatnonzero(~(pairs.near < floor[pairs.rows])))


def _lengths(rows: Floats) -> Doubles:
    lengths = np.empty(len(rows))
    for start in range(0, len(rows), _ROWS):
        part = rows[start : start + _ROWS].astype(np.float64)
        lengths[start : start + _ROWS] = np.sqrt(_dots(part, part))
    return lengths


def _dots(rows: Doubles, others: Doubles) -> Doubles:
    """The product of each pair of rows: equal pairs have equal products in any row."""
    total = np.einsum("ij,ij->i", rows[:, :_COLUMNS], others[:, :_COLUMNS])
    for start in range(_COLUMNS, rows.shape[1], _COLUMNS):
        total += np.einsum("ij,ij->i", rows[:, start : start + _COLUMNS], others[:, start : start + _COLUMNS])
    return np.asarray(total)


def _divisors(lengths: Doubles) -> Doubles:
    """Lengths to divide by: a cosine with a vector of zeros is 0."""
    return np.where(lengths > 0, lengths, 1)


@dataclass(frozen=True, eq=False)
class Quantizer:
    """Turns float vectors into codes, and codes back into the numbers they represent.

    ``ranges`` are the lowest and the highest value of each number, float32 (2, dimension); None for binary.
    """

    kind: Quantization
    space: Space
    dimension: int
    ranges: Floats | None = None

    @classmethod
    def of(cls, kind: Quantization, space: Space, matrix: Floats) -> Quantizer:
        """With ranges of all rows of ``matrix``, read in blocks."""
        quantizer = cls(kind, space, matrix.shape[1])
        if kind == "binary":
            return quantizer
        zeros = np.zeros(matrix.shape[1], dtype=np.float32)
        blocks = map(quantizer.scaled, _blocks(matrix))
        lows, highs = zip(*([(rows.min(axis=0), rows.max(axis=0)) for rows in blocks] or [(zeros, zeros)]), strict=True)
        return replace(quantizer, ranges=np.stack([np.min(lows, axis=0), np.max(highs, axis=0)]))

    def write(self, matrix: Floats, folder: Path, advance: Callable[[int], None]) -> None:
        """Write the codes of all rows, and the ranges, into ``folder``."""
        if self.ranges is not None:
            write_array(folder / _RANGES, self.ranges)

        def blocks() -> Iterator[CodeRows]:
            for rows in _blocks(matrix):
                yield self.codes(self.scaled(rows))
                advance(len(rows))

        width, dtype = (self.dimension, np.int8) if self.kind == "int8" else (-(-self.dimension // 8), np.uint8)
        write_rows(folder / _CODES, blocks(), (len(matrix), width), dtype)

    def scaled(self, vectors: Floats) -> Floats:
        """``vectors`` scaled to length 1 if the space is cosine; otherwise as they are."""
        if self.space != "cosine":
            return vectors
        lengths = lengths_of(vectors)
        off = (np.abs(lengths - 1) > _UNIT_LENGTH) & (lengths > 0)
        divisors = np.where(off, lengths, 1)[:, np.newaxis]
        return np.asarray(vectors / divisors, dtype=np.float32) if off.any() else vectors

    def codes(self, vectors: Floats) -> CodeRows:
        """The codes of rows that were ``scaled``."""
        if self.ranges is None:
            return np.packbits(vectors > 0, axis=-1)
        steps = np.clip(np.floor((vectors - self.ranges[0]) / self._steps), 0, 255)
        return np.asarray(steps - 128, dtype=np.int8)

    def decoded(self, codes: CodeRows) -> Doubles:
        """The numbers that codes represent, float64 (rows, dimension): the start of each step, or 0 and 1."""
        if self.ranges is None:
            return np.unpackbits(codes, axis=-1, count=self.dimension).astype(np.float64)
        return np.asarray((codes.astype(np.float64) + 128) * self._steps + self.ranges[0])

    @property
    def _steps(self) -> Floats:
        low, high = self.ranges if self.ranges is not None else np.zeros((2, 1), dtype=np.float32)
        steps = (high - low) / np.float32(255)
        return np.where(steps == 0, np.float32(1), steps)


class QuantizedIndex(Index):
    """An index of codes, searched with float queries.

    Scores are products of int8 codes, or minus the number of bits that differ; with ``rescore`` the product of the
    float query with the numbers that the codes represent. Equal scores go by the order of ``codes``.
    """

    def __init__(self, inner: Index, quantizer: Quantizer, codes: Vectors, rescore: int | None) -> None:
        self._inner, self._quantizer, self._rescore = inner, quantizer, rescore
        self._codes, self._order = codes.matrix, codes.order

    def search(self, queries: Floats, depth: int) -> Rankings:
        queries = self._quantizer.scaled(np.asarray(queries, dtype=np.float32))
        codes = self._quantizer.codes(queries)
        if self._rescore is None:
            return self._inner.search(codes, depth)
        return self._rescored(queries, self._inner.search(codes, depth * self._rescore), depth)

    def use(self) -> IndexUse:
        return IndexUse(is_used=True, evidence=f"The codes ({self._quantizer.kind}) are searched.")

    def _rescored(self, queries: Floats, found: Rankings, depth: int) -> Rankings:
        made = unfilled(len(queries), min(depth, found.depth))
        for row, query in enumerate(queries.astype(np.float64)[:, np.newaxis]):
            units = found.codes[row][found.codes[row] != PADDING]
            values = np.einsum("ij,ij->i", self._quantizer.decoded(self._codes[units]), query).astype(np.float32)
            best = np.lexsort((self._order[units], -values))[:depth]
            made.codes[row, : len(best)], made.scores[row, : len(best)] = units[best], values[best]
        return made


def _blocks(matrix: Floats) -> Iterator[Floats]:
    rows = max(1, _BLOCK // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), rows):
        yield np.asarray(matrix[start : start + rows])


class ExactSearch:
    """Searches the stored vectors of the items that meet the conditions; equal scores go by id, ascending."""

    def __init__(self, held: Collection, ids: Sequence[str], matrix: Floats) -> None:
        self._held = held
        self._ids = ids
        self._matrix = matrix
        self._rows = {name: row for row, name in enumerate(ids)}
        self._order = np.argsort(sorted(range(len(ids)), key=ids.__getitem__)).astype(np.int64)

    @staticmethod
    def write(held: Collection, folder: Path, advance: Callable[[int], None]) -> None:
        """Read all vectors of the collection, once, into ``folder``. Raises StoreError if it changes meanwhile."""
        ids: list[str] = []

        def blocks() -> Iterator[Floats]:
            for page in held.pages():
                items, vectors = held.get([item.id for item in page])
                ids.extend(item.id for item in items)
                if len(ids) > held.count:
                    break
                yield vectors
                advance(len(items))
            if len(ids) != held.count or len(set(ids)) != len(ids):
                raise StoreError(f"{held} changed while its {held.count:,} vectors were read; run it again.")

        write_rows(folder / "vectors.npy", blocks(), (held.count, held.dimension))
        write_text(folder / "ids.json", json.dumps(ids))

    @classmethod
    def read(cls, held: Collection, folder: Path) -> Self:
        """The search over the vectors that ``write`` put into ``folder``."""
        return cls(held, json.loads((folder / "ids.json").read_text()), read_array(folder / "vectors.npy"))

    def width(self, depth: int) -> None:
        """As ``Collection.width``: no number of candidates changes the hits."""

    def nearest(self, vectors: Floats, depth: int, conditions: Conditions = ALL) -> list[Found]:
        """As ``Collection.nearest``, but exact."""
        rows = None
        if conditions != ALL:
            passing = [item.id for page in self._held.pages(conditions) for item in page]
            try:
                rows = np.array([self._rows[name] for name in passing], dtype=np.int64)
            except KeyError as error:
                message = f"{self._held} has a new item {error}, which it did not have before; run it again."
                raise StoreError(message) from error
        chosen = Vectors(self._matrix, self._order) if rows is None else Vectors(self._matrix[rows], self._order[rows])
        if not len(chosen) or not len(vectors):
            return [Found([], np.empty(0, dtype=np.float32)) for _ in vectors]
        found = ExactIndex(chosen, self._held.space).search(vectors, depth)
        codes = found.codes if rows is None else np.where(found.codes == PADDING, PADDING, rows[found.codes])
        items = self._items(codes)
        hits = (row[row != PADDING].tolist() for row in codes)
        pairs = zip(hits, found.scores, strict=True)
        return [Found([items[self._ids[code]] for code in row], scores[: len(row)]) for row, scores in pairs]

    def _items(self, codes: Codes) -> dict[str, Item]:
        """The items of the rows in ``codes``, by id."""
        names = [self._ids[row] for row in np.unique(codes[codes != PADDING]).tolist()]
        pages = (self._held.get(names[start : start + PAGE])[0] for start in range(0, len(names), PAGE))
        return {item.id: item for page in pages for item in page}
