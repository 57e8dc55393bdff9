"""A Qdrant server, by its HTTP interface."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import SecretStr

from ragtrial.components.stores.base import Index, IndexUse, Vectors, count_unreachable
from ragtrial.components.stores.batches import in_batches
from ragtrial.components.stores.qdrant_options import (
    DISTANCES,
    BinaryQuantization,
    ProductQuantization,
    QdrantFlatIndex,
    QdrantHnswIndex,
    QdrantOptions,
    ScalarQuantization,
    member_of,
    rankings_of,
    use_of,
)
from ragtrial.components.stores.server import wait_for
from ragtrial.errors import StoreError, StoreServerError
from ragtrial.rankings import Floats, Rankings

if TYPE_CHECKING:
    from qdrant_client import QdrantClient


def connect(url: str, api_key: SecretStr | None, timeout: float) -> QdrantClient:
    """A client of the server. It sends nothing yet."""
    from qdrant_client import QdrantClient

    key = api_key.get_secret_value() if api_key else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a key that is sent over http, as to a local server
        return QdrantClient(url=url, api_key=key, timeout=max(1, int(timeout)), check_compatibility=False)


@contextmanager
def client_errors(address: str) -> Iterator[None]:
    """Turns the client's errors into ours, with the address."""
    from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

    try:
        yield
    except UnexpectedResponse as error:
        kind = StoreError if error.status_code in (400, 404, 422) else StoreServerError
        said = (error.content or b"").decode("utf-8", "replace")[:200]
        raise kind(f"{address}: {error.status_code} {error.reason_phrase} {said}".rstrip()) from error
    except (ApiException, ResponseHandlingException, OSError, ValueError) as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise StoreServerError(f"{address}: {said}. Is the server there, and the url right?") from error


class QdrantServer:
    """A server, by its HTTP interface."""

    def __init__(self, store: QdrantOptions) -> None:
        self.store = store
        with self.failing():
            self.client = connect(str(store.url), store.api_key, store.timeout)

    def version(self) -> str:
        with self.failing():
            return str(self.client.info().version)

    def fill(self, name: str, vectors: Vectors, advance: Callable[[int], None]) -> Mapping[str, Any]:
        from qdrant_client import models

        store, index, count, dimension = self.store, self.store.index, *vectors.matrix.shape
        graph = models.HnswConfigDiff(m=0)  # no graph
        optimizers = models.OptimizersConfigDiff()
        if isinstance(index, QdrantHnswIndex):
            graph = models.HnswConfigDiff(
                m=index.m, ef_construct=index.ef_construction, full_scan_threshold=index.full_scan_threshold
            )
            optimizers = models.OptimizersConfigDiff(indexing_threshold=index.indexing_threshold)
        distance = member_of(models.Distance, DISTANCES[store.space])

        def send(rows: slice) -> None:
            ids: list[Any] = list(range(rows.start, rows.stop))
            batch = np.asarray(vectors.matrix[rows], dtype=np.float32)
            self.client.upsert(name, points=models.Batch(ids=ids, vectors=batch.tolist()), wait=True)

        with self.failing():
            self.client.create_collection(
                name,
                vectors_config=models.VectorParams(size=dimension, distance=distance),
                hnsw_config=graph,
                optimizers_config=optimizers,
                quantization_config=_quantization(store.quantization),
            )
            in_batches(send, count, store.rows_at_once(dimension), store.at_once, advance)
        wait_for(lambda: self._is_settled(name, count), store.settle_within, f"the index of {name} at {store.address}")
        return self._effective(name)

    def _is_settled(self, name: str, count: int) -> bool:
        """Whether the optimizers are done. A green status alone does not mean that there is a graph."""
        with self.failing():
            info = self.client.get_collection(name)
        if str(info.status).rpartition(".")[2].lower() != "green":
            return False
        threshold = info.config.optimizer_config.indexing_threshold or 0
        kilobytes = count * self._dimension(info) * 4 / 1024 / max(1, info.segments_count or 1)
        must_have = isinstance(self.store.index, QdrantHnswIndex) and 0 < threshold < kilobytes
        return not must_have or (info.indexed_vectors_count or 0) >= count

    def _dimension(self, info: Any) -> int:
        return int(info.config.params.vectors.size)

    def _effective(self, name: str) -> dict[str, Any]:
        with self.failing():
            config = self.client.get_collection(name).config
        hnsw, optimizer = config.hnsw_config, config.optimizer_config
        return {
            "m": hnsw.m,
            "ef_construct": hnsw.ef_construct,
            "full_scan_threshold": hnsw.full_scan_threshold,
            "indexing_threshold": optimizer.indexing_threshold,
        }

    def count(self, name: str) -> int | None:
        with self.failing():
            return self.client.count(name, exact=True).count if self.client.collection_exists(name) else None

    def rows(self, name: str, codes: list[int]) -> Floats:
        with self.failing():
            ids: list[Any] = list(codes)
            found = {int(one.id): one.vector for one in self.client.retrieve(name, ids, with_vectors=True)}
        return np.array([found[code] for code in codes if code in found], dtype=np.float32)

    def size(self, name: str) -> int | None:
        return None  # Qdrant reports no size of a collection

    def drop(self, name: str) -> None:
        with self.failing():
            self.client.delete_collection(name)

    def open(self, name: str, vectors: Vectors) -> Index:
        return _ServerIndex(self, name, vectors)

    def ping(self) -> None:
        with self.failing():
            self.client.info()

    def close(self) -> None:
        self.client.close()

    def failing(self) -> AbstractContextManager[None]:
        return client_errors(self.store.address)


class _ServerIndex:
    """A collection, open for search."""

    def __init__(self, server: QdrantServer, name: str, vectors: Vectors) -> None:
        self._server = server
        self._name = name
        self._vectors = vectors

    def search(self, queries: Floats, depth: int) -> Rankings:
        from qdrant_client import models

        store = self._server.store
        quantized = None
        if store.rescore is not None or store.oversampling is not None:
            quantized = models.QuantizationSearchParams(rescore=store.rescore, oversampling=store.oversampling)
        is_flat = isinstance(store.index, QdrantFlatIndex)
        ef = None if isinstance(store.index, QdrantFlatIndex) else store.index.ef_search
        params = models.SearchParams(hnsw_ef=ef, exact=is_flat, quantization=quantized)

        def found(batch: Floats, limit: int) -> list[Any]:
            asked = [models.QueryRequest(query=query.tolist(), limit=limit, params=params) for query in batch]
            with self._server.failing():
                return [one.points for one in self._server.client.query_batch_points(self._name, asked)]

        return rankings_of(found, queries, min(depth, len(self._vectors)), store.space, store.at_once)

    def unreachable(self) -> int:
        return count_unreachable(self.search, self._vectors.matrix)

    def use(self) -> IndexUse:
        with self._server.failing():
            info = self._server.client.get_collection(self._name)
        threshold = info.config.optimizer_config.indexing_threshold
        dimension = self._vectors.matrix.shape[1]
        indexed = info.indexed_vectors_count or 0
        return use_of(self._server.store.index, len(self._vectors), indexed, dimension, threshold)

    def close(self) -> None:
        self._server.close()


def _quantization(chosen: Any) -> Any:
    from qdrant_client import models

    if isinstance(chosen, ScalarQuantization):
        config = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=chosen.quantile)
        return models.ScalarQuantization(scalar=config)
    if isinstance(chosen, ProductQuantization):
        ratio = member_of(models.CompressionRatio, chosen.compression.upper())
        return models.ProductQuantization(product=models.ProductQuantizationConfig(compression=ratio))
    if isinstance(chosen, BinaryQuantization):
        return models.BinaryQuantization(binary=models.BinaryQuantizationConfig())
    return None
