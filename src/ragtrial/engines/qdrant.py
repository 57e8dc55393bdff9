"""Qdrant, its engine in this process (Edge) or a server: indexes that are built, and collections that exist."""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from uuid import UUID

import numpy as np
from pydantic import Field, JsonValue

from ragtrial.engines.base import STORES, FlatIndex, IndexUse, Space, Vectors, failing_as, one_line
from ragtrial.engines.collection import COLLECTIONS, PAGE, Collection, Found, Item, NamedCollectionOptions
from ragtrial.engines.filters import Comparison, Conditions, parsed, translated
from ragtrial.engines.servers import Engine, Server, ServerUrl, SettlingStore, wait_for
from ragtrial.errors import InputError, StoreError, StoreServerError, listed
from ragtrial.options import Options, Secret
from ragtrial.rankings import Floats

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

_SPACES: Mapping[str, Space] = {"Cosine": "cosine", "Dot": "ip", "Euclid": "l2"}
_DISTANCES = {space: distance for distance, space in _SPACES.items()}
Quantization = Literal["scalar", "product", "binary"]
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


def _index_use(shape: tuple[int, ...], indexed: int, scan: int | None, threshold: int | None) -> IndexUse:
    """The use of a graph of vectors of the ``shape``, by the count of indexed vectors and the thresholds of Qdrant."""
    count, dimension = shape
    said = f"Qdrant counts {indexed:,} of {count:,} vectors as indexed"
    if indexed < count:
        why = f" (indexing_threshold: {threshold:,} kB)" if threshold else " (see indexing_threshold)"
        return IndexUse(is_used=False, evidence=f"{said}; it scans the others{why}.")
    scanned, kilobytes = scan or _USUAL_SCAN, count * dimension * 4 / 1024
    if kilobytes < scanned:
        below = f"less than full_scan_threshold ({scanned:,} kB)"
        return IndexUse(is_used=False, evidence=f"{said}, but scans {kilobytes:,.0f} kB of vectors, {below}.")
    return IndexUse(is_used=True, evidence=f"{said}.")


def _scores_of(points: Sequence[Any], space: str) -> Floats:
    """The scores of points, larger for nearer points. For l2, Qdrant scores by the distance."""
    scores = np.array([point.score for point in points], dtype=np.float32)
    return np.asarray(-np.square(scores)) if space == "l2" else scores


class QdrantLogin(Server):
    """The options for reaching a Qdrant server."""

    api_key: Secret | None = None
    """The server's API key, like `${QDRANT_API_KEY}`."""


def connect(login: QdrantLogin) -> QdrantClient:
    """A client of the server. It sends nothing yet."""
    from qdrant_client import QdrantClient

    key, timeout = login.api_key.get_secret_value() if login.api_key else None, max(1, int(login.timeout))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a key that is sent over http, as to a local server
        return QdrantClient(url=login.url, api_key=key, timeout=timeout, check_compatibility=False)


def _client_errors(address: str) -> AbstractContextManager[None]:
    """Turns the client's errors into ours, with the address."""
    from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

    def error_of(error: BaseException) -> StoreError:
        if isinstance(error, UnexpectedResponse):
            kind = StoreError if error.status_code in (400, 404, 422) else StoreServerError
            said = (error.content or b"").decode("utf-8", "replace")[:200]
            return kind(f"{address}: {error.status_code} {error.reason_phrase} {said}".rstrip())
        return StoreServerError(f"{address}: {one_line(error)[:200]}. Is the server there, and the url right?")

    kinds = (ApiException, ResponseHandlingException, OSError, ValueError)
    return failing_as(error_of, lambda error: isinstance(error, kinds))


@STORES.register("qdrant")
class QdrantStore(QdrantLogin, SettlingStore):
    """Qdrant: Edge, its engine in this process, or a server by `url`."""

    connected_by = ("url", "api_key")
    search_options = frozenset({"index.ef_search", "rescore", "oversampling"})
    most_rows = 1_000

    advice_for_low_recall = (
        "Raise store.index.ef_search, m or ef_construction; with quantization set rescore and oversampling; or set "
        "store.index.kind: flat."
    )
    advice_for_unused = (
        "Lower store.index.indexing_threshold and full_scan_threshold to measure the graph all the same, or set "
        "store.index.kind: flat to say what is measured."
    )

    kind: Literal["qdrant"] = "qdrant"
    """Qdrant: embedded in this process (Qdrant Edge), or on the server at `url`."""

    index: Annotated[QdrantHnswIndex | FlatIndex, Field(discriminator="kind")] = QdrantHnswIndex()
    """The index of the collection."""

    quantization: Annotated[dict[Quantization, dict[str, JsonValue]], Field(min_length=1, max_length=1)] | None = None
    """Smaller vectors to search first, as Qdrant has them: `{scalar: {type: int8}}`, `{product: {compression: x16}}` or
    `{binary: {}}`."""

    rescore: bool | None = None
    """Score the hits of quantized vectors again with the whole vectors (default: Qdrant's own choice)."""

    oversampling: Annotated[float, Field(ge=1)] | None = None
    """The number of hits to score again, as a multiple of the requested hits."""

    def searched(self, package: Any) -> Any:
        """The parameters of a search, as ``package`` has them."""
        quantized = None
        if self.rescore is not None or self.oversampling is not None:
            quantized = package.QuantizationSearchParams(rescore=self.rescore, oversampling=self.oversampling)
        is_flat, ef = isinstance(self.index, FlatIndex), getattr(self.index, "ef_search", None)
        return package.SearchParams(hnsw_ef=ef, exact=is_flat, quantization=quantized)

    def width(self, depth: int) -> int | None:
        if isinstance(self.index, FlatIndex):
            return None if self.quantization is None else depth
        return max(self.index.ef_search or self.index.ef_construction, depth)

    @property
    def packages(self) -> Mapping[str, str]:  # type: ignore[override]  # which depends on where it is
        return {"qdrant-edge-py": "qdrant-edge"} if self.url is None else {"qdrant-client": "qdrant"}

    def engine(self, folder: Path | None = None) -> Engine:
        return QdrantServer(self) if self.url is not None or folder is None else QdrantEdge(self, folder)


class QdrantEngine(Engine):
    """A server or Edge."""

    store: QdrantStore

    def queries_at_once(self, depth: int) -> int:
        return _QUERIES

    @abstractmethod
    def points(self, name: str, queries: Floats, depth: int) -> Iterable[Sequence[Any]]:
        """The scored points nearest to each query."""

    @abstractmethod
    def indexed(self, name: str) -> tuple[int, int | None]:
        """How many vectors are in the graph, and the server's indexing_threshold."""

    def nearest(self, name: str, queries: Floats, depth: int) -> Iterator[tuple[list[int], Floats]]:
        for points in self.points(name, queries, depth):
            yield [int(point.id) for point in points], _scores_of(points, self.store.space)

    def use(self, name: str, vectors: Vectors) -> IndexUse:
        index = self.store.index
        if isinstance(index, FlatIndex):
            return IndexUse(is_used=True, evidence="There is no graph: Qdrant compares every vector, as chosen.")
        indexed, threshold = self.indexed(name)
        return _index_use(vectors.matrix.shape, indexed, index.full_scan_threshold, threshold)


class QdrantServer(QdrantEngine):
    """A server, by its HTTP interface."""

    def __init__(self, store: QdrantStore) -> None:
        super().__init__(store)
        self.client = connect(store)

    def failing(self) -> AbstractContextManager[None]:
        return _client_errors(self.place)

    def version(self) -> str:
        return str(self.client.info().version)

    def create(self, name: str, count: int, dimension: int) -> None:
        from qdrant_client import models

        store, index = self.store, self.store.index
        graph, optimizers, quantization = models.HnswConfigDiff(m=0), models.OptimizersConfigDiff(), None  # no graph
        if isinstance(index, QdrantHnswIndex):
            graph = models.HnswConfigDiff(
                m=index.m, ef_construct=index.ef_construction, full_scan_threshold=index.full_scan_threshold
            )
            optimizers = models.OptimizersConfigDiff(indexing_threshold=index.indexing_threshold)
        if store.quantization is not None:
            (kind,) = store.quantization
            quantization = getattr(models, f"{kind.title()}Quantization").model_validate(store.quantization)
        vectors = models.VectorParams(size=dimension, distance=models.Distance(_DISTANCES[store.space]))
        configs: dict[str, Any] = {"hnsw_config": graph, "optimizers_config": optimizers}
        self.client.create_collection(name, vectors, quantization_config=quantization, **configs)

    def insert(self, name: str, start: int, batch: Floats) -> None:
        from qdrant_client import models

        ids: list[Any] = list(range(start, start + len(batch)))
        self.client.upsert(name, points=models.Batch(ids=ids, vectors=batch.tolist()), wait=True)

    def finish(self, name: str, count: int, dimension: int) -> Mapping[str, Any]:
        what = f"the index of {name} at {self}"
        wait_for(lambda: self._is_settled(name, count, dimension), self.store.settle_within, what)
        config = self.client.get_collection(name).config
        graph = config.hnsw_config.model_dump(include={"m", "ef_construct", "full_scan_threshold"})
        return {**graph, "indexing_threshold": config.optimizer_config.indexing_threshold}

    def _is_settled(self, name: str, count: int, dimension: int) -> bool:
        """True if the optimizers are done. A green status alone does not mean that there is a graph."""
        info = self.client.get_collection(name)
        if str(info.status).rpartition(".")[2].lower() != "green":
            return False
        indexed, threshold = self.indexed(name)
        kilobytes = count * dimension * 4 / 1024 / max(1, info.segments_count or 1)
        must_have = isinstance(self.store.index, QdrantHnswIndex) and 0 < (threshold or 0) < kilobytes
        return not must_have or indexed >= count

    def count(self, name: str) -> int | None:
        return self.client.count(name, exact=True).count if self.client.collection_exists(name) else None

    def stored(self, name: str, codes: list[int]) -> Mapping[int, Any]:
        ids: list[Any] = list(codes)
        return {int(point.id): point.vector for point in self.client.retrieve(name, ids, with_vectors=True)}

    def drop(self, name: str) -> None:
        self.client.delete_collection(name)

    def points(self, name: str, queries: Floats, depth: int) -> Iterable[Sequence[Any]]:
        from qdrant_client import models

        params = self.store.searched(models)
        requests = [models.QueryRequest(query=query.tolist(), limit=depth, params=params) for query in queries]
        return [answer.points for answer in self.client.query_batch_points(name, requests)]

    def indexed(self, name: str) -> tuple[int, int | None]:
        info = self.client.get_collection(name)
        return info.indexed_vectors_count or 0, info.config.optimizer_config.indexing_threshold

    def close(self) -> None:
        self.client.close()


class QdrantEdge(QdrantEngine):
    """A shard in a folder. It is searched in a copy, because opening a shard changes its files."""

    def __init__(self, store: QdrantStore, folder: Path) -> None:
        super().__init__(store, folder)
        self._resources = ExitStack()
        self._path = folder / "shard"
        self._shard: Any = None

    def failing(self) -> AbstractContextManager[None]:
        """Turns the exceptions of Edge, which have no common base, into ours; a lack of memory is not its own."""
        return failing_as(
            lambda error: StoreError(f"{self} of Qdrant: {one_line(error)}"),
            lambda error: isinstance(error, Exception) and not isinstance(error, MemoryError),
        )

    def create(self, name: str, count: int, dimension: int) -> None:
        import qdrant_edge as edge

        index, graph, threshold = self.store.index, None, None
        if isinstance(index, QdrantHnswIndex):
            scan = index.full_scan_threshold or _USUAL_SCAN
            graph = edge.HnswIndexConfig(m=index.m, ef_construct=index.ef_construction, full_scan_threshold=scan)
            threshold = index.indexing_threshold
        distance = getattr(edge.Distance, _DISTANCES[self.store.space])
        config = edge.EdgeConfig(
            vectors={"": edge.EdgeVectorParams(size=dimension, distance=distance)},
            hnsw_config=graph,
            quantization_config=self._quantization(),
            optimizers=edge.EdgeOptimizersConfig(indexing_threshold=threshold, default_segment_number=1),
        )
        self._open(edge.EdgeShard.create(str(self._path), config))

    def _quantization(self) -> Any:
        """The options of the quantization in Edge's classes, in which words are members of enumerations."""
        import qdrant_edge as edge

        if self.store.quantization is None:
            return None
        ((kind, options),) = self.store.quantization.items()
        words = {"type": edge.ScalarType, "compression": edge.CompressionRatio}
        members = {key: getattr(words[key], str(options[key]).title()) for key in words.keys() & options}
        return getattr(edge, f"{kind.title()}QuantizationConfig")(**{**options, **members})

    def _open(self, shard: Any) -> None:
        self._shard = shard
        self._resources.callback(shard.close)

    def insert(self, name: str, start: int, batch: Floats) -> None:
        import qdrant_edge as edge

        points = [edge.Point(code, vector.tolist(), {}) for code, vector in enumerate(batch, start)]
        self._shard.update(edge.UpdateOperation.upsert_points(points))

    def finish(self, name: str, count: int, dimension: int) -> Mapping[str, Any]:
        self._shard.optimize()  # builds the graph before it returns
        self._shard.flush()
        return {}

    def count(self, name: str) -> int | None:
        import qdrant_edge as edge

        if self._shard is None:
            copies = tempfile.TemporaryDirectory(prefix="ragtrial-qdrant-", ignore_cleanup_errors=True)
            copy = Path(self._resources.enter_context(copies)) / "shard"
            self._open(edge.EdgeShard.load(str(shutil.copytree(self._path, copy))))
        return int(self._shard.count(edge.CountRequest(exact=True)))

    def points(self, name: str, queries: Floats, depth: int) -> Iterable[Sequence[Any]]:
        import qdrant_edge as edge

        params = self.store.searched(edge)
        nearest = map(edge.Query.Nearest, queries.tolist())
        requests = [edge.QueryRequest(limit=depth, query=query, params=params) for query in nearest]
        return list(self._shard.query_batch(edge.QueryBatchRequest(requests)))

    def indexed(self, name: str) -> tuple[int, int | None]:
        return int(self._shard.info().indexed_vectors_count), None

    def close(self) -> None:
        self._resources.close()


@COLLECTIONS.register("qdrant")
class QdrantCollectionOptions(QdrantLogin, NamedCollectionOptions):
    """A collection of a Qdrant server."""

    engine = "Qdrant"
    filter_type: ClassVar[type[str | dict[str, Any]] | None] = dict
    advice_for_low_recall = "Raise ef, or build the graph with larger m and ef_construct."
    advice_for_few_hits = "Raise ef, or index the fields of the filter in Qdrant."
    advice_for_unused = "The scores are those of exact search."
    search_options = frozenset({"ef", "exact"})
    packages: ClassVar[Mapping[str, str]] = {"qdrant-client": "qdrant"}

    kind: Literal["qdrant"]
    """A collection on a Qdrant server."""

    url: ServerUrl
    """The URL of the server, like `http://localhost:6333`."""

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

    def connect(self, stack: ExitStack) -> QdrantCollection:
        with _client_errors(f"Qdrant at {self.url}"):
            client = connect(self)
            stack.callback(client.close)
            if not client.collection_exists(self.name):
                raise self.missing([collection.name for collection in client.get_collections().collections])
            return QdrantCollection(self, client)


class QdrantCollection(Collection):
    """A collection, open for reading."""

    options: QdrantCollectionOptions
    queries_at_once = _QUERIES

    def __init__(self, options: QdrantCollectionOptions, client: QdrantClient) -> None:
        super().__init__(options)
        self._client = client
        info = client.get_collection(options.name)
        vectors: Any = info.config.params.vectors
        if isinstance(vectors, Mapping):
            if options.vector not in vectors:
                raise InputError(f"{self} has several vectors: set `vector` to one of {listed(vectors)}.")
            vectors = vectors[options.vector]
        elif options.vector is not None:
            raise InputError(f"{self} has one vector without a name; remove `vector`.")
        distance = str(getattr(vectors.distance, "value", vectors.distance))
        if distance not in _SPACES:
            raise InputError(f"{self} compares by {distance}; it must be one of {listed(_SPACES)}.")
        self.space, self.dimension = _SPACES[distance], int(vectors.size)
        graph = info.config.hnsw_config
        self.ef = None if options.exact else options.ef or int(graph.ef_construct or 0)
        self.index_inputs = {"graph": [graph.m, graph.ef_construct]}
        self.facts = {"server": f"Qdrant {client.info().version}", "m": graph.m}
        self.count = int(client.count(options.name, exact=True).count)

    def failing(self) -> AbstractContextManager[None]:
        return _client_errors(f"Qdrant at {self.options.url}")

    def read(self, conditions: Conditions) -> Iterator[list[Item]]:
        for points in self._scrolled(self._filter(conditions)):
            yield [self._item(point) for point in points]

    def _scrolled(self, chosen: Any, vectors: bool | list[str] = False) -> Iterator[list[Any]]:  # noqa: FBT001, FBT002 - Qdrant's
        """The points that pass a filter, page by page."""
        offset: Any = None
        while True:
            points, offset = self._client.scroll(
                self.options.name, scroll_filter=chosen, limit=PAGE, offset=offset, with_vectors=vectors
            )
            yield points
            if offset is None:
                return

    def fetch(self, ids: Sequence[str]) -> tuple[list[Item], list[Any]]:
        from qdrant_client import models

        options = self.options
        wanted: Any = options.vector is None or [options.vector]
        if options.id is None:
            known: list[Any] = [point for point in map(_point_id, ids) if point is not None]
            points: list[Any] = list(self._client.retrieve(options.name, known, with_vectors=wanted))
        else:
            named = models.FieldCondition(key=options.id, match=models.MatchAny(any=list(ids)))
            points = list(chain.from_iterable(self._scrolled(models.Filter(must=[named]), wanted)))
        rows = [point.vector if options.vector is None else point.vector[options.vector] for point in points]
        return [self._item(point) for point in points], rows

    def search(self, queries: Floats, depth: int, conditions: Conditions) -> Iterator[Found]:
        from qdrant_client import models

        params = models.SearchParams(hnsw_ef=self.options.ef, exact=self.options.exact)
        chosen, using = self._filter(conditions), self.options.vector
        requests = [
            models.QueryRequest(
                query=query.tolist(), limit=depth, filter=chosen, params=params, using=using, with_payload=True
            )
            for query in queries
        ]
        for answer in self._client.query_batch_points(self.options.name, requests):
            yield Found([self._item(point) for point in answer.points], _scores_of(answer.points, self.space))

    def use(self) -> IndexUse:
        if self.options.exact:
            return IndexUse(is_used=True, evidence="Qdrant compares all vectors, as chosen (exact).")
        with self.failing():
            info = self._client.get_collection(self.options.name)
        scan, threshold = info.config.hnsw_config.full_scan_threshold, info.config.optimizer_config.indexing_threshold
        return _index_use((self.count, self.dimension), info.indexed_vectors_count or 0, scan, threshold)

    def _item(self, point: Any) -> Item:
        payload = dict(point.payload or {})
        text = payload.pop(self.options.text, None)
        name = str(point.id) if self.options.id is None else str(payload.pop(self.options.id, point.id))
        return Item(name, payload, None if text is None else str(text))

    def _filter(self, conditions: Conditions) -> Any:
        """The conditions as a filter of Qdrant: https://qdrant.tech/documentation/concepts/filtering/."""
        from qdrant_client import models

        must: list[Any] = []
        if conditions.where is not None:
            must.append(translated(parsed(conditions.where), _comparison, _joined))
        if conditions.filter is not None:
            must.append(models.Filter.model_validate_json(json.dumps(conditions.filter)))
        return models.Filter(must=must) if must else None


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
