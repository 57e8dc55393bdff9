"""Indexes of FAISS over codes of one byte or one bit a number, which are compared as codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ragtrial.components.stores.base import Vectors, count_unreachable
from ragtrial.components.stores.quantization import CodeRows, Quantization, read_codes
from ragtrial.errors import StoreError
from ragtrial.rankings import Rankings, unfilled

FILE = "index.faiss"

_ADD_BATCH = 10_000
_QUERY_BATCH = 256
_USUAL_EF = 16


def write_index_of_codes(
    kind: Quantization, factory: str, ef_construction: int | None, folder: Path, dimension: int
) -> None:
    """Build the index of the codes in ``folder``: binary ones by the bits that differ, bytes by their product."""
    import faiss

    links = None if factory == "Flat" else int(factory.removeprefix("HNSW"))
    index: Any
    if kind == "binary":
        bits = 8 * -(-dimension // 8)
        index = faiss.IndexBinaryFlat(bits) if links is None else faiss.IndexBinaryHNSW(bits, links)
    else:
        direct: Any
        direct, product = faiss.ScalarQuantizer.QT_8bit_direct_signed, faiss.METRIC_INNER_PRODUCT
        if links is None:
            index = faiss.IndexScalarQuantizer(dimension, direct, product)
        else:
            index = faiss.IndexHNSWSQ(dimension, direct, links, product)
        index.is_trained = True  # the codes are the numbers themselves
    if links is not None and ef_construction is not None:
        index.hnsw.efConstruction = ef_construction
    codes = read_codes(folder)
    for start in range(0, len(codes), _ADD_BATCH):
        index.add(_as_faiss_takes_them(kind, codes[start : start + _ADD_BATCH]))
    write = faiss.write_index_binary if kind == "binary" else faiss.write_index
    write(index, str(folder / FILE))


class FaissCodes:
    """An index of codes, searched by codes."""

    def __init__(self, kind: Quantization, ef_search: int | None, codes: Vectors, folder: Path) -> None:
        import faiss

        self._kind: Quantization = kind
        self._codes = codes.matrix
        path = str(folder / FILE)
        try:
            self._index: Any = faiss.read_index_binary(path) if kind == "binary" else faiss.read_index(path)
        except RuntimeError as error:
            raise StoreError(f"the index {path} cannot be read: {error}") from error
        if self._index.ntotal != len(codes):
            raise StoreError(f"the index {path} has {self._index.ntotal:,} of {len(codes):,} vectors.")
        if hasattr(self._index, "hnsw"):
            self._index.hnsw.efSearch = ef_search or _USUAL_EF

    def search(self, queries: CodeRows, depth: int) -> Rankings:
        """Scores are products of bytes, or minus the number of bits that differ."""
        depth = min(depth, len(self._codes))
        made = unfilled(len(queries), depth)
        for start in range(0, len(queries) if depth else 0, _QUERY_BATCH):
            rows = slice(start, start + _QUERY_BATCH)
            scores, codes = self._index.search(_as_faiss_takes_them(self._kind, queries[rows]), depth)
            is_hit = codes >= 0
            made.codes[rows][is_hit] = codes[is_hit]
            made.scores[rows][is_hit] = (-scores if self._kind == "binary" else scores)[is_hit]
        return made

    def unreachable(self) -> int:
        return count_unreachable(self.search, self._codes)

    def close(self) -> None:
        del self._index


def _as_faiss_takes_them(kind: Quantization, codes: CodeRows) -> Any:
    return np.ascontiguousarray(codes, dtype=np.uint8 if kind == "binary" else np.float32)
