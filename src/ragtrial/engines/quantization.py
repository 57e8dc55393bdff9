"""Quantized vectors, one byte or one bit per number: options of any store, the codes, and searching them.

Codes, ranges and re-ranking follow sentence-transformers (``quantize_embeddings``, ``semantic_search_usearch``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from ragtrial.cache.arrays import read_array, write_array, write_rows
from ragtrial.engines.base import IndexUse, Space, Store, Vectors, lengths_of
from ragtrial.rankings import PADDING, Floats, Rankings, unfilled

Quantization = Literal["int8", "binary"]
CodeRows = npt.NDArray[Any]
"""Codes of vectors: int8 (units, dimension), or uint8 (units, bytes), the first number in the highest bit."""

_CODES, _RANGES = "codes.npy", "ranges.npy"
_BLOCK = 2**20  # numbers at a time
_UNIT_LENGTH = 1e-5  # a vector whose length is so near to 1 is left as it is: scaling it would only round it again


class QuantizedStore(Store):
    """A store that can keep vectors with one byte or one bit per number."""

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
        return self.compares_by_products()

    def compares_by_products(self) -> Self:
        """Itself. Raises ValueError for quantized vectors that would be compared by distance."""
        if self.quantize is not None and self.space == "l2":
            raise ValueError(f"quantize: {self.quantize} compares by products; set space: cosine or ip, or remove it.")
        return self

    def identity(self) -> dict[str, Any]:
        unset = {name for name in ("quantize", "rescore") if getattr(self, name) is None}
        return {name: value for name, value in super().identity().items() if name not in unset}

    def vector_bytes(self, dimension: int) -> int:
        if self.quantize is None:
            return super().vector_bytes(dimension)
        return dimension if self.quantize == "int8" else -(-dimension // 8)


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
        made = cls(kind, space, matrix.shape[1])
        if kind == "binary":
            return made
        ranges = np.zeros((2, matrix.shape[1]), dtype=np.float32)
        for number, rows in enumerate(_blocks(matrix)):
            scaled = made.scaled(rows)
            low, high = scaled.min(axis=0), scaled.max(axis=0)
            ranges = np.stack([np.minimum(ranges[0], low), np.maximum(ranges[1], high)] if number else [low, high])
        return cls(kind, space, matrix.shape[1], ranges)

    @classmethod
    def read(cls, kind: Quantization, space: Space, dimension: int, folder: Path) -> Quantizer:
        """The quantizer that wrote ``folder``."""
        return cls(kind, space, dimension, read_array(folder / _RANGES) if kind == "int8" else None)

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
        return (
            np.asarray(vectors / np.where(off, lengths, 1)[:, np.newaxis], dtype=np.float32) if off.any() else vectors
        )

    def codes(self, vectors: Floats) -> CodeRows:
        """The codes of rows that were ``scaled``."""
        if self.ranges is None:
            return np.packbits(vectors > 0, axis=-1)
        steps = np.clip(np.floor((vectors - self.ranges[0]) / self._steps), 0, 255)
        return np.asarray(steps - 128, dtype=np.int8)

    def decoded(self, codes: CodeRows) -> npt.NDArray[np.float64]:
        """The numbers that codes represent, float64 (rows, dimension): the start of each step, or 0 and 1."""
        if self.ranges is None:
            return np.unpackbits(codes, axis=-1, count=self.dimension).astype(np.float64)
        return np.asarray((codes.astype(np.float64) + 128) * self._steps + self.ranges[0])

    @property
    def _steps(self) -> Floats:
        low, high = self.ranges if self.ranges is not None else np.zeros((2, 1), dtype=np.float32)
        steps = (high - low) / np.float32(255)
        return np.where(steps == 0, np.float32(1), steps)


class CodeIndex(Protocol):
    """An index of codes, searched with codes."""

    def search(self, queries: Any, depth: int) -> Rankings: ...

    def unreachable(self) -> int: ...

    def close(self) -> None: ...


class QuantizedIndex:
    """An index of codes, searched with float queries.

    Scores are products of int8 codes, or minus the number of bits that differ; with ``rescore`` the product of the
    float query with the numbers that the codes represent. Equal scores go by the order of ``codes``.
    """

    def __init__(self, inner: CodeIndex, quantizer: Quantizer, codes: Vectors, rescore: int | None) -> None:
        self._inner, self._quantizer, self._rescore = inner, quantizer, rescore
        self._codes, self._order = codes.matrix, codes.order

    def search(self, queries: Floats, depth: int) -> Rankings:
        queries = self._quantizer.scaled(np.asarray(queries, dtype=np.float32))
        codes = self._quantizer.codes(queries)
        if self._rescore is None:
            return self._inner.search(codes, depth)
        return self._rescored(queries, self._inner.search(codes, depth * self._rescore), depth)

    def unreachable(self) -> int:
        return self._inner.unreachable()

    def use(self) -> IndexUse:
        return IndexUse(is_used=True, evidence=f"The codes ({self._quantizer.kind}) are searched.")

    def close(self) -> None:
        self._inner.close()

    def _rescored(self, queries: Floats, found: Rankings, depth: int) -> Rankings:
        made = unfilled(len(queries), min(depth, found.depth))
        for row, query in enumerate(queries.astype(np.float64)[:, np.newaxis]):
            units = found.codes[row][found.codes[row] != PADDING]
            values = np.einsum("ij,ij->i", self._quantizer.decoded(self._codes[units]), query).astype(np.float32)
            best = np.lexsort((self._order[units], -values))[:depth]
            made.codes[row, : len(best)], made.scores[row, : len(best)] = units[best], values[best]
        return made


def read_codes(folder: Path) -> CodeRows:
    """The codes that ``Quantizer.write`` wrote into ``folder``, mapped from their file."""
    return read_array(folder / _CODES)


def _blocks(matrix: Floats) -> Iterator[Floats]:
    rows = max(1, _BLOCK // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), rows):
        yield np.asarray(matrix[start : start + rows])
