"""FAISS indexes of quantized vectors, one byte or one bit per number, searched with quantized queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ragtrial.components.stores.base import Vectors, count_unreachable
from ragtrial.components.stores.faiss_search import ADD_BATCH, FILE, message_of, search_in_batches
from ragtrial.components.stores.quantization import CodeRows, Quantization, read_codes
from ragtrial.errors import StoreError
from ragtrial.rankings import Rankings

_USUAL_EF = 16


def write_index_of_codes(
    kind: Quantization, factory: str, ef_construction: int | None, folder: Path, dimension: int
) -> None:
    """Build the index of the codes in ``folder``: bits are compared by how many differ, bytes by their product."""
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
    for start in range(0, len(codes), ADD_BATCH):
        index.add(_as_input(kind, codes[start : start + ADD_BATCH]))
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
            raise StoreError(f"the index {path} cannot be read: {message_of(error)}.") from error
        if self._index.ntotal != len(codes):
            raise StoreError(f"the index {path} has {self._index.ntotal:,} of {len(codes):,} vectors.")
        if hasattr(self._index, "hnsw"):
            self._index.hnsw.efSearch = ef_search or _USUAL_EF

    def search(self, queries: CodeRows, depth: int) -> Rankings:
        """Scores are products of bytes, or minus the number of bits that differ."""
        kind = self._kind
        return search_in_batches(
            self._index, queries, depth, lambda rows: _as_input(kind, rows), gives_distances=kind == "binary"
        )

    def unreachable(self) -> int:
        return count_unreachable(self.search, self._codes)

    def close(self) -> None:
        del self._index


def _as_input(kind: Quantization, codes: CodeRows) -> Any:
    return np.ascontiguousarray(codes, dtype=np.uint8 if kind == "binary" else np.float32)
