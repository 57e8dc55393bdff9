"""Qdrant: its engine in this process (Edge), or a server."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ragtrial.components.stores.base import STORES, Index, IndexUse, Vectors, count_unreachable
from ragtrial.components.stores.batches import in_batches
from ragtrial.components.stores.engine_errors import failing_as, is_exception, one_line
from ragtrial.components.stores.qdrant_options import (
    DISTANCES,
    ProductQuantization,
    QdrantFlatIndex,
    QdrantHnswIndex,
    QdrantOptions,
    ScalarQuantization,
    member_of,
    rankings_of,
    use_of,
)
from ragtrial.components.stores.qdrant_server import QdrantServer
from ragtrial.components.stores.server import Engine
from ragtrial.errors import StoreError
from ragtrial.rankings import Floats, Rankings

_SHARD = "shard"


@STORES.register("qdrant")
class QdrantStore(QdrantOptions):
    """Qdrant: Edge, its engine in this process, or a server by `url`."""

    advice_for_low_recall: ClassVar[str] = (
        "Raise store.index.ef_search, m or ef_construction; with quantization set rescore and oversampling; or set "
        "store.index.kind: flat."
    )
    advice_for_unreachable: ClassVar[str] = "Raise store.index.m or ef_construction, or set store.index.kind: flat."
    advice_for_unused: ClassVar[str] = (
        "Lower store.index.indexing_threshold and full_scan_threshold to measure the graph all the same, or set "
        "store.index.kind: flat to say what is measured."
    )

    kind: Literal["qdrant"] = "qdrant"
    """Qdrant: embedded in this process (Qdrant Edge), or on the server at `url`."""

    @property
    def packages(self) -> Mapping[str, str]:  # type: ignore[override]  # which depends on where it is
        return {"qdrant-edge-py": "qdrant-edge"} if self.url is None else {"qdrant-client": "qdrant"}

    def engine(self) -> Engine:
        return QdrantServer(self)

    def build_here(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        import qdrant_edge as edge

        with _edge_errors(folder):
            shard = edge.EdgeShard.create(str(folder / _SHARD), self._edge_config(vectors.matrix.shape[1]))
            try:

                def add(rows: slice) -> None:
                    batch = np.asarray(vectors.matrix[rows], dtype=np.float32)
                    points = [edge.Point(code, vector.tolist(), {}) for code, vector in enumerate(batch, rows.start)]
                    shard.update(edge.UpdateOperation.upsert_points(points))

                in_batches(add, len(vectors), self.rows_at_once(vectors.matrix.shape[1]), self.at_once, advance)
                shard.optimize()  # builds the graph before it returns
                shard.flush()
            finally:
                shard.close()

    def open_here(self, vectors: Vectors, folder: Path) -> Index:
        return _EdgeIndex(self, vectors, folder)

    def _edge_config(self, dimension: int) -> Any:
        import qdrant_edge as edge

        index, graph, threshold = self.index, None, None
        if isinstance(index, QdrantHnswIndex):
            scan = 10_000 if index.full_scan_threshold is None else index.full_scan_threshold
            graph = edge.HnswIndexConfig(m=index.m, ef_construct=index.ef_construction, full_scan_threshold=scan)
            threshold = index.indexing_threshold
        return edge.EdgeConfig(
            vectors={
                "": edge.EdgeVectorParams(size=dimension, distance=member_of(edge.Distance, DISTANCES[self.space]))
            },
            hnsw_config=graph,
            quantization_config=self._edge_quantization(),
            optimizers=edge.EdgeOptimizersConfig(indexing_threshold=threshold, default_segment_number=1),
        )

    def _edge_quantization(self) -> Any:
        import qdrant_edge as edge

        chosen = self.quantization
        if isinstance(chosen, ScalarQuantization):
            return edge.ScalarQuantizationConfig(type=edge.ScalarType.Int8, quantile=chosen.quantile)
        if isinstance(chosen, ProductQuantization):
            return edge.ProductQuantizationConfig(
                compression=getattr(edge.CompressionRatio, chosen.compression.upper())
            )
        return edge.BinaryQuantizationConfig() if chosen is not None else None


class _EdgeIndex:
    """A copy of a shard, open for search; opening a shard changes its files."""

    def __init__(self, store: QdrantStore, vectors: Vectors, folder: Path) -> None:
        import qdrant_edge as edge

        self._store = store
        self._vectors = vectors
        self._folder = folder
        self._copy = tempfile.TemporaryDirectory(prefix="ragtrial-qdrant-", ignore_cleanup_errors=True)
        try:
            with _edge_errors(folder):
                copy = shutil.copytree(folder / _SHARD, Path(self._copy.name) / _SHARD)
                self._shard = edge.EdgeShard.load(str(copy))
                count = self._shard.count(edge.CountRequest(exact=True))
            if count != len(vectors):
                raise StoreError(f"the Qdrant index in {folder} has {count:,} of {len(vectors):,} vectors.")
        except BaseException:
            self._copy.cleanup()
            raise

    def search(self, queries: Floats, depth: int) -> Rankings:
        import qdrant_edge as edge

        index, quantized = self._store.index, None
        if self._store.rescore is not None or self._store.oversampling is not None:
            rescore, more = self._store.rescore, self._store.oversampling
            quantized = edge.QuantizationSearchParams(rescore=rescore, oversampling=more)
        is_flat = isinstance(index, QdrantFlatIndex)
        params = edge.SearchParams(
            hnsw_ef=None if isinstance(index, QdrantFlatIndex) else index.ef_search,
            exact=is_flat,
            quantization=quantized,
        )

        def found(batch: Floats, limit: int) -> list[Any]:
            asked = [
                edge.QueryRequest(limit=limit, query=edge.Query.Nearest(query.tolist()), params=params)
                for query in batch
            ]
            with _edge_errors(self._folder):
                return list(self._shard.query_batch(edge.QueryBatchRequest(asked)))

        return rankings_of(found, queries, min(depth, len(self._vectors)), self._store.space)

    def unreachable(self) -> int:
        return count_unreachable(self.search, self._vectors.matrix)

    def use(self) -> IndexUse:
        indexed = self._shard.info().indexed_vectors_count
        return use_of(self._store.index, len(self._vectors), indexed, self._vectors.matrix.shape[1], None)

    def close(self) -> None:
        self._shard.close()
        self._copy.cleanup()


def _edge_errors(folder: Path) -> AbstractContextManager[None]:
    """Turns the exceptions of Edge, which have no common base, into ours; a lack of memory is not its own."""
    return failing_as(
        lambda error: StoreError(f"the Qdrant index in {folder}: {one_line(error)}"),
        lambda error: is_exception(error) and not isinstance(error, MemoryError),
    )
