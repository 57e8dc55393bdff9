"""Qdrant, its engine in this process (Edge) or a server: builds indexes."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, SecretStr

from ragtrial.engines.base import (
    STORES,
    Index,
    IndexUse,
    Vectors,
    count_unreachable,
    failing_as,
    is_exception,
    one_line,
    ranked,
)
from ragtrial.engines.batching import in_batches
from ragtrial.engines.servers import Engine, SettlingStore, wait_for
from ragtrial.errors import StoreError, StoreServerError
from ragtrial.options import Options, Secret
from ragtrial.rankings import Floats, Rankings

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

DISTANCES = {"cosine": "COSINE", "ip": "DOT", "l2": "EUCLID"}
"""Qdrant's names of the spaces."""

_QUERIES = 64
_USUAL_SCAN = 10_000
_USUAL_EF = 100
"""Qdrant's own ef_construct, which is also its ef of searches."""


class QdrantHnswIndex(Options):
    """A graph. Source: Qdrant's documentation, "Indexing"."""

    kind: Literal["hnsw"] = "hnsw"
    """Qdrant's graph."""

    m: Annotated[int, Field(ge=1, le=256)] = 16
    """Links per vector; a higher value takes more memory and is more exact."""

    ef_construction: Annotated[int, Field(ge=4)] = _USUAL_EF
    """Candidates considered while building (`ef_construct`); a higher value is slower and more exact."""

    ef_search: Annotated[int, Field(ge=1)] | None = None
    """Candidates considered while searching (`hnsw_ef`), never fewer than the requested hits (default:
    ef_construction)."""

    full_scan_threshold: Annotated[int, Field(ge=1)] | None = None
    """The size of a segment's vectors, in kilobytes, below which Qdrant scans it instead of searching its graph
    (default: Qdrant's own, 10,000)."""

    indexing_threshold: Annotated[int, Field(ge=1)] | None = None
    """The size of a segment's vectors, in kilobytes, below which Qdrant builds no graph (default: Qdrant's own)."""


class QdrantFlatIndex(Options):
    """No index."""

    kind: Literal["flat"] = "flat"
    """No graph: Qdrant compares every vector (`exact`)."""


class ScalarQuantization(Options):
    """One byte per number."""

    kind: Literal["scalar"] = "scalar"
    """int8: a quarter of the memory."""

    quantile: Annotated[float, Field(ge=0.5, le=1)] | None = None
    """The share of numbers that the range of a byte covers (default: all)."""


class ProductQuantization(Options):
    """Codes for parts of a vector."""

    kind: Literal["product"] = "product"
    """Product quantization."""

    compression: Literal["x4", "x8", "x16", "x32", "x64"] = "x16"
    """The factor by which vectors become smaller."""


class BinaryQuantization(Options):
    """One bit per number."""

    kind: Literal["binary"] = "binary"
    """One bit per number: a thirty-second of the memory."""


AnyQuantization = Annotated[ScalarQuantization | ProductQuantization | BinaryQuantization, Field(discriminator="kind")]


def use_of(
    index: QdrantHnswIndex | QdrantFlatIndex, count: int, indexed: int, dimension: int, threshold: int | None
) -> IndexUse:
    """The use of the graph of a collection with this ``index``."""
    if isinstance(index, QdrantFlatIndex):
        return IndexUse(is_used=True, evidence="There is no graph: Qdrant compares every vector, as chosen.")
    return index_use(count, indexed, dimension, index.full_scan_threshold, threshold)


def index_use(count: int, indexed: int, dimension: int, scan: int | None, threshold: int | None) -> IndexUse:
    """The use of a graph, according to the count of indexed vectors and the thresholds of Qdrant."""
    said = f"Qdrant counts {indexed:,} of {count:,} vectors as indexed"
    if indexed < count:
        why = f" (indexing_threshold: {threshold:,} kB)" if threshold else " (see indexing_threshold)"
        return IndexUse(is_used=False, evidence=f"{said}; it scans the others{why}.")
    scanned, kilobytes = scan or _USUAL_SCAN, count * dimension * 4 / 1024
    if kilobytes < scanned:
        below = f"less than full_scan_threshold ({scanned:,} kB)"
        return IndexUse(is_used=False, evidence=f"{said}, but scans {kilobytes:,.0f} kB of vectors, {below}.")
    return IndexUse(is_used=True, evidence=f"{said}.")


def rankings_of(
    search: Callable[[Floats, int], list[Any]], queries: Floats, depth: int, space: str, at_once: int = 1
) -> Rankings:
    """Rankings of scored points, ``at_once`` batches of queries at a time."""

    def nearest(batch: Floats, limit: int) -> Iterator[tuple[list[int], Floats]]:
        for points in search(batch, limit):
            yield [int(point.id) for point in points], scores_of(points, space)

    return ranked(nearest, queries, depth, _QUERIES, at_once)


def scores_of(points: Sequence[Any], space: str) -> Floats:
    """The scores of points, larger for nearer points. For l2, Qdrant scores by the distance."""
    scores = np.array([point.score for point in points], dtype=np.float32)
    return np.asarray(-np.square(scores)) if space == "l2" else scores


def member_of(family: Any, name: str) -> Any:
    """The member of an enumeration, whose names the packages spell differently."""
    return next(getattr(family, one) for one in dir(family) if one.upper() == name)


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

    def __init__(self, store: QdrantStore) -> None:
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
        quantization = None
        if store.quantization is not None:
            kind = store.quantization.kind
            quantization = getattr(models, f"{kind.title()}Quantization")(**{kind: store.codes(models)})

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
                quantization_config=quantization,
            )
            in_batches(send, count, store.rows_at_once(dimension), store.at_once, advance)
        wait_for(lambda: self._is_settled(name, count), store.settle_within, f"the index of {name} at {store.address}")
        return self._effective(name)

    def _is_settled(self, name: str, count: int) -> bool:
        """True if the optimizers are done. A green status alone does not mean that there is a graph."""
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
        params = store.searched(models)

        def points(batch: Floats, limit: int) -> list[Any]:
            requests = [models.QueryRequest(query=query.tolist(), limit=limit, params=params) for query in batch]
            with self._server.failing():
                return [row.points for row in self._server.client.query_batch_points(self._name, requests)]

        return rankings_of(points, queries, min(depth, len(self._vectors)), store.space, store.at_once)

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


_SHARD = "shard"


@STORES.register("qdrant")
class QdrantStore(SettlingStore):
    """Qdrant: Edge, its engine in this process, or a server by `url`."""

    connected_by: ClassVar[tuple[str, ...]] = ("url", "api_key")
    unhashed: ClassVar[frozenset[str]] = SettlingStore.unhashed | {"api_key"}
    search_options: ClassVar[frozenset[str]] = frozenset({"index.ef_search", "rescore", "oversampling"})
    most_rows: ClassVar[int] = 1_000

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

    api_key: Secret | None = None
    """The server's API key, like `${QDRANT_API_KEY}`."""

    index: Annotated[QdrantHnswIndex | QdrantFlatIndex, Field(discriminator="kind")] = QdrantHnswIndex()
    """The index of the collection."""

    quantization: AnyQuantization | None = None
    """Smaller vectors to search first."""

    rescore: bool | None = None
    """Score the hits of quantized vectors again with the whole vectors (default: Qdrant's own choice)."""

    oversampling: Annotated[float, Field(ge=1)] | None = None
    """The number of hits to score again, as a multiple of the requested hits."""

    def codes(self, package: Any) -> Any:
        """The options of the quantization, as ``package`` has them: qdrant_edge, or the models of qdrant_client."""
        chosen = self.quantization
        if isinstance(chosen, ScalarQuantization):
            return package.ScalarQuantizationConfig(
                type=member_of(package.ScalarType, "INT8"), quantile=chosen.quantile
            )
        if isinstance(chosen, ProductQuantization):
            ratio = member_of(package.CompressionRatio, chosen.compression.upper())
            return package.ProductQuantizationConfig(compression=ratio)
        return None if chosen is None else package.BinaryQuantizationConfig()

    def searched(self, package: Any) -> Any:
        """The parameters of a search, as ``package`` has them."""
        quantized = None
        if self.rescore is not None or self.oversampling is not None:
            quantized = package.QuantizationSearchParams(rescore=self.rescore, oversampling=self.oversampling)
        is_flat, ef = isinstance(self.index, QdrantFlatIndex), getattr(self.index, "ef_search", None)
        return package.SearchParams(hnsw_ef=ef, exact=is_flat, quantization=quantized)

    def width(self, depth: int) -> int | None:
        if isinstance(self.index, QdrantFlatIndex):
            return None if self.quantization is None else depth
        return max(self.index.ef_search or self.index.ef_construction, depth)

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
            quantization_config=self.codes(edge),
            optimizers=edge.EdgeOptimizersConfig(indexing_threshold=threshold, default_segment_number=1),
        )


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

        params = self._store.searched(edge)

        def points(batch: Floats, limit: int) -> list[Any]:
            requests = [
                edge.QueryRequest(limit=limit, query=edge.Query.Nearest(query.tolist()), params=params)
                for query in batch
            ]
            with _edge_errors(self._folder):
                return list(self._shard.query_batch(edge.QueryBatchRequest(requests)))

        return rankings_of(points, queries, min(depth, len(self._vectors)), self._store.space)

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
