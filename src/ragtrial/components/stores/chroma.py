"""Chroma's index (HNSW), in a folder or on a server: what most prototypes ship with, and approximate."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

import numpy as np
from pydantic import Field

from ragtrial.components.secrets import Secret
from ragtrial.components.stores.base import STORES, Index, IndexUse, Space, Vectors, count_unreachable
from ragtrial.components.stores.chroma_server import chroma_server, disconnect
from ragtrial.components.stores.server import Engine, ServerStore
from ragtrial.errors import InputError, RagtrialError, StoreError, StoreServerError
from ragtrial.options import Options
from ragtrial.rankings import Floats, Rankings, unfilled

if TYPE_CHECKING:
    from chromadb.api.client import Client
    from chromadb.api.collection_configuration import CreateHNSWConfiguration
    from chromadb.api.models.Collection import Collection

USES_GRAPH = "Chroma searches its graph, whatever the size of a collection."

_COLLECTION = "chunks"
_ADD_BATCH = 5_000  # Chroma refuses more than 5,461 at once
_QUERY_BATCH = 256
_BYTES_OF_A_ROW = 500  # in its database and its log, about
_FEWEST_SYNCED = 2  # Chroma's lowest sync_threshold


class HnswOptions(Options):
    """How Chroma builds and searches its graph; all of it is part of the index's identity."""

    ef_construction: Annotated[int, Field(ge=1)] = 100
    """Candidates considered while building; more is slower to build and more exact."""

    max_neighbors: Annotated[int, Field(ge=2)] = 16
    """Links per vector; more takes memory and is more exact."""

    ef_search: Annotated[int, Field(ge=1)] = 100
    """Candidates considered while searching; more is slower and more exact. Never below the hits asked for: what a
    refiner wants deeper than this is searched for apart, so that no setting is searched more widely for another's
    sake."""


@STORES.register("chroma")
class ChromaStore(ServerStore):
    """A Chroma collection: one directory per index, or on a server."""

    advice_for_low_recall: ClassVar[str] = "Raise store.hnsw.ef_search or max_neighbors, or set store.kind: exact."
    advice_for_unreachable: ClassVar[str] = (
        "Raise store.hnsw.max_neighbors or ef_construction, or set store.kind: exact."
    )
    advice_for_few_hits: ClassVar[str] = "Raise store.hnsw.ef_search, or set store.kind: exact."

    connected_by: ClassVar[tuple[str, ...]] = ("url", "headers", "tenant", "database")
    unhashed: ClassVar[frozenset[str]] = ServerStore.unhashed | {"headers"}
    packages: ClassVar[Mapping[str, str]] = {"chromadb": ""}

    kind: Literal["chroma"] = "chroma"
    """Chroma's approximate search (HNSW), as most prototypes ship it: in a folder, or on the server at `url`."""

    hnsw: HnswOptions = HnswOptions()
    """How the graph is built and searched."""

    headers: dict[str, Secret] = Field(default={})
    """Headers to send with every request to the server, like `{Authorization: "Bearer ${TOKEN}"}`."""

    tenant: str = "default_tenant"
    """The tenant on the server."""

    database: str = "default_database"
    """The database on the server."""

    def width(self, depth: int) -> int:
        return max(self.hnsw.ef_search, depth)

    def bytes_of(self, vectors: int, dimension: int) -> int:
        return vectors * (3 * 4 * dimension + _BYTES_OF_A_ROW)

    def engine(self) -> Engine:
        return _ChromaServer(self)

    def build_here(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        try:
            (folder / "chroma.sqlite3").touch()  # with the user's umask, which SQLite heeds only in part
            with _client(folder) as client:
                collection = self.filled(client, _COLLECTION, vectors, advance)
                if collection.count() != len(vectors):
                    raise StoreError(f"Chroma kept {collection.count()} of {len(vectors)} vectors in {folder}.")
            _remove_unfilled(folder)
        except StoreError:
            raise
        except BaseException as error:
            if not is_chroma_error(error):
                raise
            need = f"It needs about {3 * vectors.matrix.nbytes / 1e6:,.0f} MB of disk and as much memory"
            message = f"Chroma could not build the index in {folder}: {error}. {need}; store.kind: exact needs neither."
            raise StoreError(message) from error

    def open_here(self, vectors: Vectors, folder: Path) -> Index:
        def errors(error: BaseException) -> StoreError:
            return _damaged(folder, error)

        with _failing_as(errors):
            client = _client(folder)
        try:
            with _failing_as(errors):
                collection = client.get_collection(_COLLECTION, embedding_function=None)
                count = collection.count()
            if count != len(vectors):
                raise _damaged(folder, f"it has {count} of {len(vectors)} vectors")
        except BaseException:
            client.close()
            raise
        return ChromaIndex(self, vectors, collection, errors, client.close)

    def filled(self, client: Client, name: str, vectors: Vectors, advance: Callable[[int], None]) -> Collection:
        """A new collection of all vectors, each under its number."""
        # Set when the collection is made: changing ef_search on a loaded one has no effect in this process.
        options = {"space": self.space, **self.hnsw.model_dump(), **_synced(len(vectors))}
        hnsw = cast("CreateHNSWConfiguration", options)
        collection = client.create_collection(name, configuration={"hnsw": hnsw}, embedding_function=None)
        for start, end in pairwise(_batches(len(vectors))):
            batch = np.asarray(vectors.matrix[start:end])
            collection.add(ids=[str(code) for code in range(start, end)], embeddings=batch)
            advance(end - start)
        return collection


class ChromaIndex:
    """A built collection, open until ``close``. A directory may be open in one process alone."""

    def __init__(
        self,
        store: ChromaStore,
        vectors: Vectors,
        collection: Collection,
        errors: Callable[[BaseException], StoreError],
        close: Callable[[], None],
    ) -> None:
        self._store = store
        self._vectors = vectors
        self._collection = collection
        self._errors = errors
        self._close = close

    def search(self, queries: Floats, depth: int) -> Rankings:
        depth = min(depth, len(self._vectors))
        made = unfilled(len(queries), depth)
        if not depth:
            return made
        for start in range(0, len(queries), _QUERY_BATCH):
            batch = np.asarray(queries[start : start + _QUERY_BATCH], dtype=np.float32)
            with _failing_as(self._errors):
                found = self._collection.query(query_embeddings=batch, n_results=depth, include=["distances"])
            names, distances = found["ids"], found["distances"] or []
            lengths = np.fromiter(map(len, names), np.int64, len(names))
            is_hit, count = np.arange(depth) < lengths[:, None], int(lengths.sum())
            rows = slice(start, start + len(names))
            made.codes[rows][is_hit] = np.fromiter(map(int, chain.from_iterable(names)), np.int32, count)
            found_at = np.fromiter(chain.from_iterable(distances), np.float32, count)
            made.scores[rows][is_hit] = score_of(found_at, self._store.space)
        return made

    def unreachable(self) -> int:
        return count_unreachable(self.search, self._vectors.matrix)

    def use(self) -> IndexUse:
        return IndexUse(is_used=True, evidence=USES_GRAPH)

    def close(self) -> None:
        self._close()


class _ChromaServer:
    """A server of Chroma's, whose collections are called as they are told."""

    def __init__(self, store: ChromaStore) -> None:
        self._store = store
        try:
            with self._failing():
                self._client = chroma_server(
                    str(store.url), store.headers, store.tenant, store.database, store.timeout, named_by="store.url"
                )
        except InputError as error:
            raise StoreServerError(*error.faults) from error

    def version(self) -> str:
        with self._failing():
            return self._client.get_version()

    def fill(self, name: str, vectors: Vectors, advance: Callable[[int], None]) -> Mapping[str, Any]:
        with self._failing():
            collection = self._store.filled(self._client, name, vectors, advance)
            return dict(collection.configuration_json.get("hnsw") or {})

    def count(self, name: str) -> int | None:
        with self._failing():
            found = self._found(name)
            return None if found is None else found.count()

    def rows(self, name: str, codes: list[int]) -> Floats:
        names = [str(code) for code in codes]
        with self._failing():
            collection = self._client.get_collection(name, embedding_function=None)
            found = collection.get(ids=names, include=["embeddings"])
        rows = dict(zip(found["ids"], np.asarray(found["embeddings"], dtype=np.float32), strict=True))
        return np.array([rows[one] for one in names if one in rows], dtype=np.float32)

    def size(self, name: str) -> int | None:
        return None  # Chroma reports none

    def drop(self, name: str) -> None:
        with self._failing():
            if self._found(name) is not None:
                self._client.delete_collection(name)

    def open(self, name: str, vectors: Vectors) -> Index:
        with self._failing():
            collection = self._client.get_collection(name, embedding_function=None)
        return ChromaIndex(self._store, vectors, collection, self._error, self.close)

    def ping(self) -> None:
        with self._failing():
            self._client.heartbeat()

    def close(self) -> None:
        disconnect(self._client)

    def _found(self, name: str) -> Collection | None:
        from chromadb.errors import NotFoundError

        try:
            return self._client.get_collection(name, embedding_function=None)
        except NotFoundError:
            return None

    def _error(self, error: BaseException) -> StoreError:
        return StoreServerError(f"{self._store.address}: {' '.join(str(error).split()) or type(error).__name__}")

    def _failing(self) -> AbstractContextManager[None]:
        return _failing_as(self._error)


@contextmanager
def _failing_as(made: Callable[[BaseException], StoreError]) -> Iterator[None]:
    """Whatever Chroma raises becomes the error that ``made`` makes of it."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, RagtrialError) or not is_chroma_error(error):
            raise
        raise made(error) from error


def _batches(count: int) -> list[int]:
    """Where batches of equal size start, and the end of the last."""
    parts = -(-count // _ADD_BATCH)
    return [count * part // parts for part in range(parts + 1)] if parts else []


def _synced(count: int) -> dict[str, int]:
    """Options under which the last batch is written into the graph at once.

    Chroma leaves fewer than 1,000 new vectors in its log, and adds them to the graph anew each time it is opened:
    each time another graph.
    """
    threshold = max(_FEWEST_SYNCED, min(1_000, count))
    return {"sync_threshold": threshold, "batch_size": min(100, threshold)}


def _remove_unfilled(folder: Path) -> None:
    """Remove the files of a graph that holds nothing: Chroma makes them anew, with other bytes, at every opening."""
    for header in folder.glob("*/header.bin"):
        if not (header.parent / "index_metadata.pickle").exists():
            shutil.rmtree(header.parent)


def _damaged(folder: Path, why: object) -> StoreError:
    return StoreError(
        f"the Chroma index in {folder} cannot be read ({why}). `ragtrial cache verify` removes what is damaged; if "
        "memory was short, free some, or set store.kind: exact."
    )


def is_chroma_error(error: BaseException) -> bool:
    """Whether Chroma failed: its own errors share no base with its Rust core's, whose panics are no Exceptions."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def score_of(distances: Floats, space: Space) -> Floats:
    return -distances if space == "l2" else 1 - distances


def _client(folder: Path) -> Client:
    """A client of one directory, deaf to what the environment and the .env file of the working directory say."""
    import chromadb
    from chromadb.api.shared_system_client import SharedSystemClient
    from chromadb.config import Settings

    settings = Settings.model_construct(anonymized_telemetry=False)
    try:
        return cast("Client", chromadb.PersistentClient(path=str(folder), settings=settings))
    except Exception:
        # Chroma keeps a client that failed to start, and would hand it out when the path is opened again.
        SharedSystemClient._identifier_to_system.pop(str(folder), None)  # noqa: SLF001
        raise
