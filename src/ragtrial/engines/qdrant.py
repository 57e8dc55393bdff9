"""Qdrant, its engine in this process (Edge) or a server: builds indexes, and searches existing collections."""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from uuid import UUID

import numpy as np
from pydantic import Field, SecretStr

from ragtrial.engines.base import (
    STORES,
    Index,
    IndexUse,
    Space,
    Vectors,
    count_unreachable,
    failing_as,
    is_exception,
    one_line,
)
from ragtrial.engines.batching import in_batches
from ragtrial.engines.collection import (
    COLLECTIONS,
    PAGE,
    Collection,
    Fact,
    Found,
    Item,
    NamedCollectionOptions,
    not_there,
    opening,
)
from ragtrial.engines.filters import ALL, Comparison, Conditions, parsed, translated
from ragtrial.engines.servers import Engine, ServerUrl, SettlingStore, wait_for
from ragtrial.errors import InputError, StoreError, StoreServerError, listed
from ragtrial.options import Options, Secret
from ragtrial.rankings import Floats, Rankings, unfilled

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

DISTANCES = {"cosine": "COSINE", "ip": "DOT", "l2": "EUCLID"}
"""Qdrant's names of the spaces."""

_QUERY_BATCH = 64
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


class QdrantOptions(SettlingStore):
    """The options of Qdrant, embedded or on a server."""

    connected_by: ClassVar[tuple[str, ...]] = ("url", "api_key")
    unhashed: ClassVar[frozenset[str]] = SettlingStore.unhashed | {"api_key"}
    search_options: ClassVar[frozenset[str]] = frozenset({"index.ef_search", "rescore", "oversampling"})
    most_rows: ClassVar[int] = 1_000

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

    def width(self, depth: int) -> int | None:
        if isinstance(self.index, QdrantFlatIndex):
            return None if self.quantization is None else depth
        return max(self.index.ef_search or self.index.ef_construction, depth)


def use_of(
    index: QdrantHnswIndex | QdrantFlatIndex, count: int, indexed: int, dimension: int, threshold: int | None
) -> IndexUse:
    """Whether searches of a collection with this ``index`` go through its graph."""
    if isinstance(index, QdrantFlatIndex):
        return IndexUse(is_used=True, evidence="There is no graph: Qdrant compares every vector, as chosen.")
    return index_use(count, indexed, dimension, index.full_scan_threshold, threshold)


def index_use(count: int, indexed: int, dimension: int, scan: int | None, threshold: int | None) -> IndexUse:
    """Whether searches go through the graph, according to the vectors that Qdrant has indexed and its thresholds."""
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
    """Rankings of scored points, ``at_once`` batches of queries at a time. For l2, Qdrant scores by the distance."""
    made = unfilled(len(queries), depth)

    def ask(rows: slice) -> None:
        batch = np.asarray(queries[rows], dtype=np.float32)
        for row, points in enumerate(search(batch, depth), rows.start):
            made.codes[row, : len(points)] = [int(point.id) for point in points]
            scores = np.array([point.score for point in points], dtype=np.float32)
            made.scores[row, : len(points)] = -np.square(scores) if space == "l2" else scores

    in_batches(ask, len(queries) if depth else 0, _QUERY_BATCH, at_once)
    return made


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


_QUERIES = 64
_SPACES: Mapping[str, Space] = {"Cosine": "cosine", "Dot": "ip", "Euclid": "l2"}


@COLLECTIONS.register("qdrant")
class QdrantCollectionOptions(NamedCollectionOptions):
    """A collection of a Qdrant server."""

    engine: ClassVar[str] = "Qdrant"
    filter_type: ClassVar[type[str | dict[str, Any]] | None] = dict
    advice_for_low_recall: ClassVar[str] = "Raise ef, or build the graph with larger m and ef_construct."
    advice_for_few_hits: ClassVar[str] = "Raise ef, or index the fields of the filter in Qdrant."
    advice_for_unused: ClassVar[str] = "The scores are those of exact search."
    search_options: ClassVar[frozenset[str]] = frozenset({"ef", "exact"})
    unhashed: ClassVar[frozenset[str]] = frozenset({"check", "api_key", "timeout"})
    packages: ClassVar[Mapping[str, str]] = {"qdrant-client": "qdrant"}

    kind: Literal["qdrant"] = "qdrant"
    """A collection on a Qdrant server."""

    url: ServerUrl
    """The URL of the server, like `http://localhost:6333`."""

    api_key: Secret | None = None
    """The server's API key, like `${QDRANT_API_KEY}`."""

    id: str | None = None
    """The payload key with an item's id (default: the point's own id)."""

    text: str = "text"
    """The payload key with an item's text."""

    vector: str | None = None
    """The name of the vector, if the collection has several."""

    ef: Annotated[int, Field(ge=1)] | None = None
    """`hnsw_ef` for searches (default: Qdrant's own)."""

    exact: bool = False
    """Compare all vectors instead of searching the graph."""

    timeout: Annotated[float, Field(gt=0)] = 60.0
    """The time limit for a request, in seconds."""

    @property
    def address(self) -> str:
        return self.url

    def open(self) -> QdrantCollection:
        with opening(self.kind) as stack, client_errors(f"Qdrant at {self.url}"):
            client = connect(self.url, self.api_key, self.timeout)
            stack.callback(client.close)
            if not client.collection_exists(self.name):
                raise not_there(self, [one.name for one in client.get_collections().collections])
            return QdrantCollection(self, client, stack.pop_all())


class QdrantCollection(Collection):
    """A collection, open for reading."""

    options: QdrantCollectionOptions

    def __init__(self, options: QdrantCollectionOptions, client: QdrantClient, resources: ExitStack) -> None:
        super().__init__(options, resources)
        self._client = client
        self.id = ""
        info = client.get_collection(options.name)
        vectors: Any = info.config.params.vectors
        if isinstance(vectors, Mapping):
            if options.vector not in vectors:
                raise InputError(f"{self} has several vectors: set `vector` to one of {listed(vectors)}.")
            vectors = vectors[options.vector]
        elif options.vector is not None:
            raise InputError(f"{self} has one vector without a name; remove `vector`.")
        self._size = int(vectors.size)
        distance = str(getattr(vectors.distance, "value", vectors.distance))
        if distance not in _SPACES:
            raise InputError(f"{self} compares by {distance}; it must be one of {listed(_SPACES)}.")
        self.space = _SPACES[distance]
        self._graph = info.config.hnsw_config

    @cached_property
    def count(self) -> int:
        with self._failing():
            return int(self._client.count(self.options.name, exact=True).count)

    @property
    def dimension(self) -> int:
        return self._size

    def inputs(self) -> Mapping[str, Any]:
        return {**super().inputs(), "graph": [self._graph.m, self._graph.ef_construct]}

    def facts(self) -> Mapping[str, Fact]:
        with self._failing():
            return {"server": f"Qdrant {self._client.info().version}", "m": self._graph.m}

    def width(self, depth: int) -> int | None:
        return None if self.options.exact else max(self.options.ef or int(self._graph.ef_construct or 0), depth)

    def pages(self, conditions: Conditions = ALL) -> Iterator[list[Item]]:
        for points in self._scrolled(self._filter(conditions)):
            yield [self._item(point) for point in points]

    def _scrolled(self, chosen: Any, vectors: bool | list[str] = False) -> Iterator[list[Any]]:  # noqa: FBT001, FBT002 - Qdrant's
        """The points that pass a filter, page by page; no page is empty."""
        offset: Any = None
        while True:
            with self._failing():
                points, offset = self._client.scroll(
                    self.options.name, scroll_filter=chosen, limit=PAGE, offset=offset, with_payload=True,
                    with_vectors=vectors,
                )  # fmt: skip
            if points:
                yield points
            if offset is None:
                return

    def get(self, ids: Sequence[str]) -> tuple[list[Item], Floats]:
        wanted: Any = self.options.vector is None or [self.options.vector]
        with self._failing():
            if self.options.id is None:
                points: list[Any] = list(self._client.retrieve(
                    self.options.name, [one for name in ids if (one := _point_id(name)) is not None],
                    with_payload=True, with_vectors=wanted,
                ))  # fmt: skip
            else:
                points = list(chain.from_iterable(self._scrolled(self._with_ids(ids), wanted))) if ids else []
        rows = [one.vector[self.options.vector] if isinstance(one.vector, Mapping) else one.vector for one in points]
        return [self._item(one) for one in points], np.array(rows, dtype=np.float32).reshape(len(rows), self._size)

    def nearest(self, vectors: Floats, depth: int, conditions: Conditions = ALL) -> list[Found]:
        from qdrant_client import models

        params = models.SearchParams(hnsw_ef=self.options.ef, exact=self.options.exact)
        chosen, made = self._filter(conditions), list[Found]()
        for start in range(0, len(vectors), _QUERIES):
            asked = [
                models.QueryRequest(
                    query=vector.astype(float).tolist(), limit=max(1, depth), filter=chosen, params=params,
                    using=self.options.vector, with_payload=True,
                )
                for vector in vectors[start : start + _QUERIES]
            ]  # fmt: skip
            with self._failing():
                answers = self._client.query_batch_points(self.options.name, asked)
            for answer in answers:
                scores = np.array([point.score for point in answer.points], dtype=np.float32)
                found = -np.square(scores) if self.space == "l2" else scores
                made.append(Found([self._item(point) for point in answer.points], np.asarray(found)))
        return made

    def use(self) -> IndexUse:
        if self.options.exact:
            return IndexUse(is_used=True, evidence="Qdrant compares all vectors, as chosen (exact).")
        with self._failing():
            info = self._client.get_collection(self.options.name)
        scan, threshold = info.config.hnsw_config.full_scan_threshold, info.config.optimizer_config.indexing_threshold
        return index_use(self.count, info.indexed_vectors_count or 0, self._size, scan, threshold)

    def ask_for(self, conditions: Conditions) -> None:
        try:
            super().ask_for(conditions)
        except (StoreError, ValueError) as error:
            raise ValueError(str(error)) from error

    def _item(self, point: Any) -> Item:
        payload = dict(point.payload or {})
        text = payload.pop(self.options.text, None)
        name = str(point.id) if self.options.id is None else str(payload.pop(self.options.id, point.id))
        return Item(name, payload, None if text is None else str(text))

    def _with_ids(self, ids: Sequence[str]) -> Any:
        from qdrant_client import models

        match = models.MatchAny(any=list(ids))
        return models.Filter(must=[models.FieldCondition(key=str(self.options.id), match=match)])

    def _filter(self, conditions: Conditions) -> Any:
        """The conditions as a filter of Qdrant: https://qdrant.tech/documentation/concepts/filtering/."""
        from qdrant_client import models

        must: list[Any] = []
        if conditions.where is not None:
            must.append(translated(parsed(conditions.where), _comparison, _joined))
        if conditions.filter is not None:
            must.append(models.Filter.model_validate_json(json.dumps(conditions.filter)))
        return models.Filter(must=must) if must else None

    def _failing(self) -> Any:
        return client_errors(f"Qdrant at {self.options.url}")


def _comparison(one: Comparison) -> Any:
    from qdrant_client import models

    key = one.field
    if one.operator in ("$gt", "$gte", "$lt", "$lte"):
        bounds: dict[str, Any] = {one.operator.removeprefix("$"): one.value}
        return models.Filter(must=[models.FieldCondition(key=key, range=models.Range(**bounds))])
    equal: list[Any] = []
    for value in one.values:
        if isinstance(value, bool | str):
            equal.append(models.FieldCondition(key=key, match=models.MatchValue(value=value)))
        else:  # Qdrant matches only whole numbers; any number is in a range from itself to itself
            equal.append(models.FieldCondition(key=key, range=models.Range(gte=value, lte=value)))
    is_not = one.operator in ("$ne", "$nin")
    return models.Filter(must_not=equal) if is_not else models.Filter(should=equal)


def _joined(every: bool, parts: Sequence[Any]) -> Any:  # noqa: FBT001 - as `translated` calls it
    from qdrant_client import models

    return models.Filter(must=list(parts)) if every else models.Filter(should=list(parts))


def _point_id(name: str) -> int | str | None:
    """The id of a point, a whole number or a UUID; None for any other text."""
    if name.isdecimal():
        return int(name)
    try:
        return str(UUID(name))
    except ValueError:
        return None
