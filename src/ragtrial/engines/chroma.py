"""Chroma, in a folder or on a server: builds indexes (HNSW), which are approximate."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast
from urllib.parse import quote, urlsplit

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
    one_line,
    ranked,
)
from ragtrial.engines.batching import in_batches
from ragtrial.engines.servers import Engine, ServerStore
from ragtrial.errors import InputError, StoreError, StoreServerError
from ragtrial.options import Options, Secret
from ragtrial.rankings import Floats, Rankings

if TYPE_CHECKING:
    from chromadb.api.client import Client
    from chromadb.api.collection_configuration import CreateHNSWConfiguration
    from chromadb.api.models.Collection import Collection as ChromaHandle

_PATIENCE = 10
"""The time limit for the first answer of a server, in seconds."""


def chroma_server(
    url: str, headers: Mapping[str, SecretStr], tenant: str, database: str, timeout: float, *, named_by: str
) -> Client:
    """A client of the server at ``url``, which has answered; ``named_by`` names the options of the address in messages.

    Raises InputError if no Chroma server answers, or if it refuses.
    """
    sent = {name: value.get_secret_value() for name, value in headers.items()}
    _look_for_server(url, sent, tenant, database, named_by)
    import chromadb
    from chromadb.config import Settings

    parts = urlsplit(url)
    is_safe = parts.scheme == "https"
    client: Any = chromadb.HttpClient(
        host=parts.hostname or "",
        port=parts.port or (443 if is_safe else 80),
        ssl=is_safe,
        headers=sent,
        settings=Settings.model_construct(anonymized_telemetry=False),
        tenant=tenant,
        database=database,
    )
    for session in sessions(client):
        session.timeout = timeout  # Chroma's client has no time limit
    return client  # type: ignore[no-any-return]  # Chroma promises only one of its interfaces


def disconnect(client: Client) -> None:
    """Close the client and its connections, which Chroma would leave open."""
    opened = sessions(client)
    client.close()
    for session in opened:
        session.close()


def sessions(client: Client) -> list[Any]:
    """The HTTP connections of a client, which Chroma does not make public; none for a folder."""
    servers: list[Any] = [client._server, getattr(client._admin_client, "_server", None)]  # noqa: SLF001
    return [server._session for server in servers if hasattr(server, "_session")]  # noqa: SLF001


def _look_for_server(url: str, headers: Mapping[str, str], tenant: str, database: str, named_by: str) -> None:
    """Request the heartbeat and the database: Chroma's client has no time limit here, and leaves sockets open."""
    import urllib.error
    import urllib.request
    from http.client import HTTPException

    start = f"Start it with `chroma run --path FOLDER --port {urlsplit(url).port or 8000}`, or correct {named_by}."
    place = f"tenants/{quote(tenant, safe='')}/databases/{quote(database, safe='')}"
    said = []
    for path in ("heartbeat", place):
        request = urllib.request.Request(f"{url}/api/v2/{path}", headers=dict(headers))  # noqa: S310 - http(s)
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:  # noqa: S310 - as above
                said.append(answer.read(10_000))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (401, 403):
                fault = f"the server at {url} refuses ({error.code} {error.reason}); set headers to its token."
                raise InputError(fault) from error
            break
        except (OSError, ValueError, HTTPException) as error:
            why = getattr(error, "reason", None) or str(error) or type(error).__name__
            raise InputError(f"no Chroma server answers at {url} ({why}). {start}") from error
    if not said or b"nanosecond heartbeat" not in said[0]:
        raise InputError(f"the server at {url} is not a Chroma server of version 1. {start}")
    if len(said) == 1:
        named = f"{database!r} of a tenant {tenant!r}"
        raise InputError(f"the Chroma server at {url} has no database {named}.")


USES_GRAPH = "Chroma searches its graph, whatever the size of a collection."

_COLLECTION = "chunks"
_QUERY_BATCH = 256
_FEWEST_SYNCED, _MOST_SYNCED = 2, 1_000  # Chroma's lowest sync_threshold, and its default


class HnswOptions(Options):
    """Options of the graph. Each value needs a separate index."""

    ef_construction: Annotated[int, Field(ge=1)] = 100
    """Candidates considered while building; a higher value is slower to build and more exact."""

    max_neighbors: Annotated[int, Field(ge=2)] = 16
    """Links per vector; a higher value takes more memory and is more exact."""

    ef_search: Annotated[int, Field(ge=1)] = 100
    """Candidates considered while searching, never fewer than the requested hits; a higher value is slower and more
    exact. A refiner that needs more hits gets a separate search, so no setting is searched more widely
    because of another."""


class ChromaServerOptions(Options):
    """The options for reaching a Chroma server."""

    headers: dict[str, Secret] = Field(default={})
    """Headers to send with every request to a server, like `{Authorization: "Bearer ${TOKEN}"}`; never written to a
    report or fingerprint."""

    tenant: str = "default_tenant"
    """Chroma's tenant."""

    database: str = "default_database"
    """Chroma's database."""


@STORES.register("chroma")
class ChromaStore(ChromaServerOptions, ServerStore):
    """A Chroma collection: one directory per index, or on a server."""

    advice_for_low_recall: ClassVar[str] = "Raise store.hnsw.ef_search or max_neighbors, or set store.kind: exact."
    advice_for_unreachable: ClassVar[str] = (
        "Raise store.hnsw.max_neighbors or ef_construction, or set store.kind: exact."
    )
    advice_for_few_hits: ClassVar[str] = "Raise store.hnsw.ef_search, or set store.kind: exact."

    connected_by: ClassVar[tuple[str, ...]] = ("url", "headers", "tenant", "database")
    unhashed: ClassVar[frozenset[str]] = ServerStore.unhashed | {"headers"}
    packages: ClassVar[Mapping[str, str]] = {"chromadb": ""}
    most_rows: ClassVar[int] = 5_000  # Chroma refuses more than 5,461 at once

    kind: Literal["chroma"] = "chroma"
    """Chroma's approximate search (HNSW), as most prototypes ship it: in a folder, or on the server at `url`."""

    hnsw: HnswOptions = HnswOptions()
    """How the graph is built and searched."""

    def width(self, depth: int) -> int:
        return max(self.hnsw.ef_search, depth)

    def rows_at_once(self, dimension: int) -> int:
        fewest = self.most_rows if self.url is None else _MOST_SYNCED  # or it would write the graph more often
        return max(fewest, super().rows_at_once(dimension))

    def engine(self) -> Engine:
        return _ChromaServer(self)

    def build_here(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        need = f"It needs about {3 * vectors.matrix.nbytes / 1e6:,.0f} MB of disk and as much memory"

        def unbuilt(error: BaseException) -> StoreError:
            what = f"Chroma could not build the index in {folder}: {error}"
            return StoreError(f"{what}. {need}; store.kind: exact needs neither.")

        with failing_as(unbuilt, is_chroma_error):
            (folder / "chroma.sqlite3").touch()  # with the user's umask, which SQLite follows only in part
            with folder_client(folder) as client:
                collection = self.filled(client, _COLLECTION, vectors, advance)
                if collection.count() != len(vectors):
                    raise StoreError(f"Chroma kept {collection.count()} of {len(vectors)} vectors in {folder}.")
            _remove_unfilled(folder)

    def open_here(self, vectors: Vectors, folder: Path) -> Index:
        def errors(error: BaseException) -> StoreError:
            return _damaged(folder, error)

        with failing_as(errors, is_chroma_error):
            client = folder_client(folder)
        try:
            with failing_as(errors, is_chroma_error):
                collection = client.get_collection(_COLLECTION, embedding_function=None)
                count = collection.count()
            if count != len(vectors):
                raise _damaged(folder, f"it has {count} of {len(vectors)} vectors")
        except BaseException:
            client.close()
            raise
        return ChromaIndex(self, vectors, collection, errors, client.close)

    def filled(self, client: Client, name: str, vectors: Vectors, advance: Callable[[int], None]) -> ChromaHandle:
        """A new collection of all vectors, each under its number."""
        # All are set on creation: changing ef_search of a loaded collection has no effect in this process.
        count, rows_at_once = len(vectors), self.rows_at_once(vectors.matrix.shape[1])
        fewest = count // -(-count // rows_at_once) if count else 0  # vectors in a batch
        options = {"space": self.space, **self.hnsw.model_dump(), **_synced(fewest)}
        hnsw = cast("CreateHNSWConfiguration", options)
        collection = client.create_collection(name, configuration={"hnsw": hnsw}, embedding_function=None)

        def send(rows: slice) -> None:
            batch = np.asarray(vectors.matrix[rows])
            collection.add(ids=[str(code) for code in range(rows.start, rows.stop)], embeddings=batch)

        in_batches(send, count, rows_at_once, self.at_once, advance)
        return collection


class ChromaIndex:
    """A built collection, open for search until ``close``. Only one process may open a directory."""

    def __init__(
        self,
        store: ChromaStore,
        vectors: Vectors,
        collection: ChromaHandle,
        errors: Callable[[BaseException], StoreError],
        close: Callable[[], None],
    ) -> None:
        self._store = store
        self._vectors = vectors
        self._collection = collection
        self._errors = errors
        self._close = close

    def search(self, queries: Floats, depth: int) -> Rankings:
        def nearest(batch: Floats, limit: int) -> Iterator[tuple[list[int], Floats]]:
            rows = self._collection.query(query_embeddings=batch, n_results=limit, include=["distances"])
            for names, distances in zip(rows["ids"], rows["distances"] or [], strict=True):
                yield [int(name) for name in names], score_of(np.asarray(distances, np.float32), self._store.space)

        with failing_as(self._errors, is_chroma_error):
            return ranked(nearest, queries, min(depth, len(self._vectors)), _QUERY_BATCH, self._store.at_once)

    def unreachable(self) -> int:
        return count_unreachable(self.search, self._vectors.matrix)

    def use(self) -> IndexUse:
        return IndexUse(is_used=True, evidence=USES_GRAPH)

    def close(self) -> None:
        self._close()


class _ChromaServer:
    """A connection to a Chroma server."""

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

    def _found(self, name: str) -> ChromaHandle | None:
        from chromadb.errors import NotFoundError

        try:
            return self._client.get_collection(name, embedding_function=None)
        except NotFoundError:
            return None

    def _error(self, error: BaseException) -> StoreError:
        return StoreServerError(f"{self._store.address}: {one_line(error)}")

    def _failing(self) -> AbstractContextManager[None]:
        return failing_as(self._error, is_chroma_error)


def _synced(fewest: int) -> dict[str, int]:
    """Options with which Chroma writes the last batch into the graph at once.

    By default it leaves fewer than 1,000 new vectors in its log, and adds them to the graph each time the collection
    is opened, which makes a different graph each time.
    """
    threshold = max(_FEWEST_SYNCED, min(_MOST_SYNCED, fewest))
    return {"sync_threshold": threshold, "batch_size": min(100, threshold)}


def _remove_unfilled(folder: Path) -> None:
    """Remove the files of an empty graph: Chroma rewrites them, with other bytes, whenever it opens the folder."""
    for header in folder.glob("*/header.bin"):
        if not (header.parent / "index_metadata.pickle").exists():
            shutil.rmtree(header.parent)


def _damaged(folder: Path, why: object) -> StoreError:
    return StoreError(
        f"the Chroma index in {folder} cannot be read ({why}). `ragtrial cache verify` removes what is damaged; if "
        "memory was short, free some, or set store.kind: exact."
    )


def is_chroma_error(error: BaseException) -> bool:
    """True if the error may be Chroma's. Its errors have no common base; panics of its core are no Exceptions."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def score_of(distances: Floats, space: Space) -> Floats:
    return -distances if space == "l2" else 1 - distances


def folder_client(folder: Path, **place: str) -> Client:
    """A client of one directory, which ignores the environment and the working directory's .env file."""
    import chromadb
    from chromadb.api.shared_system_client import SharedSystemClient
    from chromadb.config import Settings

    settings = Settings.model_construct(anonymized_telemetry=False)
    try:
        return cast("Client", chromadb.PersistentClient(path=str(folder), settings=settings, **place))
    except Exception:
        # Chroma keeps a client that failed to start, and would hand it out when the path is opened again.
        SharedSystemClient._identifier_to_system.pop(str(folder), None)  # noqa: SLF001
        raise
