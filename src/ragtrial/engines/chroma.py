"""Chroma, in a folder or on a server: indexes (HNSW) that are built, and collections that exist."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast
from urllib.parse import quote, urlsplit

import numpy as np
from pydantic import Field

from ragtrial.engines import collection
from ragtrial.engines.base import STORES, IndexUse, Space, Vectors, failing_as, one_line
from ragtrial.engines.filters import ALL, Conditions
from ragtrial.engines.servers import Engine, Server, ServerStore
from ragtrial.errors import InputError, StoreError, StoreServerError
from ragtrial.options import Options, Secret
from ragtrial.rankings import Floats
from ragtrial.records import ReportWarning

if TYPE_CHECKING:
    from chromadb.api.client import Client
    from chromadb.api.models.Collection import Collection as ChromaHandle

_DATABASE = "chroma.sqlite3"

_PATIENCE = 10
"""The time limit for the first answer of a server, in seconds."""


def server_client(options: ChromaServerOptions) -> Client:
    """A client of the server, which has answered. Raises StoreServerError if no Chroma server does, or it refuses."""
    url, sent = str(options.url), {name: value.get_secret_value() for name, value in options.headers.items()}
    _look_for_server(url, sent, options.tenant, options.database)
    import chromadb
    from chromadb.config import Settings

    parts, settings = urlsplit(url), Settings.model_construct(anonymized_telemetry=False)
    is_safe = parts.scheme == "https"
    port = parts.port or (443 if is_safe else 80)
    place = {"tenant": options.tenant, "database": options.database}
    client: Any = chromadb.HttpClient(parts.hostname or "", port, is_safe, sent, settings, **place)
    for session in sessions(client):
        session.timeout = options.timeout  # Chroma's client has no time limit
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


def _look_for_server(url: str, headers: Mapping[str, str], tenant: str, database: str) -> None:
    """Request the heartbeat and the database: Chroma's client has no time limit here, and leaves sockets open."""
    import httpx

    start = f"Start it with `chroma run --path FOLDER --port {urlsplit(url).port or 8000}`, or correct url."
    place = f"tenants/{quote(tenant, safe='')}/databases/{quote(database, safe='')}"
    try:
        with httpx.Client(headers=headers, timeout=_PATIENCE, trust_env=False) as client:
            answers = [client.get(f"{url}/api/v2/{path}") for path in ("heartbeat", place)]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise StoreServerError(f"no Chroma server answers at {url} ({one_line(error)}). {start}") from error
    for answer in answers:
        if answer.status_code in (401, 403):
            said = f"{answer.status_code} {answer.reason_phrase}"
            raise StoreServerError(f"the server at {url} refuses ({said}); set headers to its token.")
    if b"nanosecond heartbeat" not in answers[0].content:
        raise StoreServerError(f"the server at {url} is not a Chroma server of version 1. {start}")
    if answers[1].is_error:
        raise StoreServerError(f"the Chroma server at {url} has no database {database!r} of a tenant {tenant!r}.")


USES_GRAPH = "Chroma searches its graph, whatever the size of a collection."

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


class ChromaServerOptions(Server):
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

    advice_for_low_recall = "Raise store.hnsw.ef_search or max_neighbors, or set store.kind: exact."
    advice_for_few_hits = "Raise store.hnsw.ef_search, or set store.kind: exact."

    connected_by = ("url", "headers", "tenant", "database")
    packages: ClassVar[Mapping[str, str]] = {"chromadb": ""}
    most_rows = 5_000  # Chroma refuses more than 5,461 at once

    kind: Literal["chroma"] = "chroma"
    """Chroma's approximate search (HNSW), as most prototypes ship it: in a folder, or on the server at `url`."""

    hnsw: HnswOptions = HnswOptions()
    """How the graph is built and searched."""

    def width(self, depth: int) -> int:
        return max(self.hnsw.ef_search, depth)

    def rows_at_once(self, dimension: int) -> int:
        fewest = self.most_rows if self.url is None else _MOST_SYNCED  # or it would write the graph more often
        return max(fewest, super().rows_at_once(dimension))

    def engine(self, folder: Path | None = None) -> Engine:
        return ChromaEngine(self, folder if self.url is None else None)

    def build(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        if self.url is None:
            (folder / _DATABASE).touch()  # with the user's umask, which SQLite follows only in part
        super().build(vectors, folder, advance)
        for header in folder.glob("*/header.bin"):
            # Chroma rewrites an empty graph, with other bytes, whenever it opens the folder.
            if not (header.parent / "index_metadata.pickle").exists():
                shutil.rmtree(header.parent)


class ChromaEngine(Engine):
    """A connection to a Chroma server, or to a folder, which only one process may open."""

    store: ChromaStore

    def __init__(self, store: ChromaStore, folder: Path | None) -> None:
        super().__init__(store, folder)
        with self.failing():
            self.client = folder_client(folder) if folder is not None else server_client(store)

    def failing(self) -> AbstractContextManager[None]:
        return failing_as(self._error, is_chroma_error)

    def version(self) -> str:
        return self.client.get_version()

    def create(self, name: str, count: int, dimension: int) -> None:
        # All are set on creation: changing ef_search of a loaded collection has no effect in this process.
        # Chroma is to write the last batch into the graph at once. By default it leaves fewer than 1,000 new vectors
        # in its log, and adds them to the graph each time it opens the collection, to a different graph each time.
        rows_at_once = self.store.rows_at_once(dimension)
        fewest = count // -(-count // rows_at_once) if count else 0  # vectors in a batch
        threshold = max(_FEWEST_SYNCED, min(_MOST_SYNCED, fewest))
        synced = {"sync_threshold": threshold, "batch_size": min(100, threshold)}
        options: Any = {"space": self.store.space, **self.store.hnsw.model_dump(), **synced}
        self.collection = self.client.create_collection(name, configuration={"hnsw": options}, embedding_function=None)

    def insert(self, name: str, start: int, batch: Floats) -> None:
        self.collection.add(ids=[str(code) for code in range(start, start + len(batch))], embeddings=batch)

    def finish(self, name: str, count: int, dimension: int) -> Mapping[str, Any]:
        return {} if self.folder is not None else self._handle(name).configuration_json.get("hnsw") or {}

    def count(self, name: str) -> int | None:
        from chromadb.errors import NotFoundError

        try:
            return self._handle(name).count()
        except NotFoundError:
            return None

    def stored(self, name: str, codes: list[int]) -> Mapping[int, Any]:
        found = self._handle(name).get(ids=[str(code) for code in codes], include=["embeddings"])
        return dict(zip(map(int, found["ids"]), np.asarray(found["embeddings"]), strict=True))

    def drop(self, name: str) -> None:
        if self.count(name) is not None:
            self.client.delete_collection(name)

    def prepare(self, name: str) -> None:
        self.collection = self._handle(name)

    def nearest(self, name: str, queries: Floats, depth: int) -> Iterator[tuple[list[int], Floats]]:
        rows = self.collection.query(query_embeddings=queries, n_results=depth, include=["distances"])
        for names, distances in zip(rows["ids"], rows["distances"] or [], strict=True):
            yield [int(name) for name in names], score_of(np.asarray(distances, np.float32), self.store.space)

    def use(self, name: str, vectors: Vectors) -> IndexUse:
        return IndexUse(is_used=True, evidence=USES_GRAPH)

    def close(self) -> None:
        disconnect(self.client)

    def _handle(self, name: str) -> ChromaHandle:
        return self.client.get_collection(name, embedding_function=None)

    def _error(self, error: BaseException) -> StoreError:
        if self.folder is None:
            return StoreServerError(f"{self}: {one_line(error)}")
        return StoreError(
            f"Chroma cannot build or read {self} ({one_line(error)}). `ragtrial cache verify` removes what is damaged; "
            "if disk or memory was short, free some, or set store.kind: exact."
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


@collection.COLLECTIONS.register("chroma")
class ChromaCollectionOptions(ChromaServerOptions, collection.FolderCollectionOptions):
    """A Chroma collection: in a folder (`path`), or on a server (`url`)."""

    engine = "Chroma"
    own_operators = ("$contains", "$not_contains")
    searches_texts = True
    advice_for_low_recall = (
        "Raise ef_search of the collection (hnsw), or build it with more max_neighbors or ef_construction."
    )
    server_options = ("headers", "timeout")
    serving = " (`chroma run --path FOLDER`)"
    packages: ClassVar[Mapping[str, str]] = {"chromadb": ""}

    kind: Literal["chroma"] = "chroma"
    """A Chroma collection, in a folder or on a server."""

    def files_in(self, folder: Path) -> Iterable[Path]:
        if not (folder / _DATABASE).is_file():
            near = sorted(path.parent for path in folder.glob(f"*/{_DATABASE}"))
            hint = f" There is one in {near[0]}." if near else ""
            raise InputError(f"{folder} is not a folder of Chroma: there is no {_DATABASE} in it.{hint}")
        patterns = (f"{_DATABASE}*", "*/*.bin", "*/*.pickle")
        return chain.from_iterable(map(folder.glob, patterns))

    def connect(self, stack: ExitStack) -> ChromaCollection:
        """The collection in a copy of a folder: Chroma 1.5.9 writes to chroma.sqlite3 whenever a folder is opened.

        It upgrades the tables of older versions, and writes the graph anew at its first query while fewer than
        sync_threshold vectors were added. In a copy it rolls back a transaction that a killed program left unfinished.
        """
        from chromadb.errors import NotFoundError

        place = f"Chroma at {self.address} cannot be opened (tenant {self.tenant!r}, database {self.database!r})"
        copy = self.copied(self.path, stack) if self.path is not None else None
        with failing_as(lambda error: InputError(f"{place}: {one_line(error)}"), is_chroma_error):
            if copy is None:
                client = server_client(self)
            else:
                client = folder_client(copy, tenant=self.tenant, database=self.database)
            stack.callback(disconnect, client)
            try:
                return ChromaCollection(self, client.get_collection(self.name, embedding_function=None))
            except (NotFoundError, ValueError) as error:
                raise self.missing([existing.name for existing in client.list_collections()]) from error

    def warnings(self, setting: str, facts: Mapping[str, collection.Fact]) -> Iterator[ReportWarning]:
        if facts.get("keeps_graph") is False:
            yield ReportWarning(
                "graph-not-kept",
                f"{setting}: with so few items ({facts['items']:,}) Chroma keeps no graph on disk (sync_threshold): "
                "it builds a new one each time it opens the collection, with slightly different hits. The scores are "
                "those of one such graph.",
            )


class ChromaCollection(collection.Collection):
    """A collection, open for reading."""

    def __init__(self, options: ChromaCollectionOptions, handle: ChromaHandle) -> None:
        super().__init__(options)
        self.handle = handle
        configuration = handle.configuration_json
        self.id = str(handle.id)
        graph: Mapping[str, Any] = configuration.get("hnsw") or configuration.get("spann") or {}
        self.space, self.ef = graph.get("space", "l2"), int(graph.get("ef_search", 0))
        self.index_inputs = {"graph": dict(graph)}
        self.made_with = model_of(configuration.get("embedding_function"))
        self.count = handle.count()
        # Below sync_threshold Chroma keeps no graph on disk, and builds a new graph for each opened collection.
        self.facts = {"keeps_graph": self.count >= int(graph.get("sync_threshold", 0))}
        vectors = handle.get(limit=1, include=["embeddings"])["embeddings"]
        self.dimension = 0 if vectors is None or not len(vectors) else len(vectors[0])

    def failing(self) -> AbstractContextManager[None]:
        return failing_as(lambda error: StoreError(f"{self} cannot be read: {one_line(error)}"), is_chroma_error)

    def read(self, conditions: Conditions) -> Iterator[list[collection.Item]]:
        for offset in range(0, self.count, collection.PAGE):
            found = self._get(conditions, ["metadatas", "documents"], limit=collection.PAGE, offset=offset)
            if not found["ids"]:
                return
            yield _items(found["ids"], found["metadatas"], found["documents"])

    def fetch(self, ids: Sequence[str]) -> tuple[list[collection.Item], Any]:
        found = self._get(ALL, ["metadatas", "documents", "embeddings"], ids=list(ids))
        return _items(found["ids"], found["metadatas"], found["documents"]), found["embeddings"]

    def use(self) -> IndexUse:
        return IndexUse(is_used=True, evidence=USES_GRAPH)

    def rejection(self, error: StoreError) -> str | None:
        from chromadb.errors import InvalidArgumentError

        if not isinstance(error.__cause__, (ValueError, TypeError, InvalidArgumentError)):
            return None
        return " ".join(str(error.__cause__).removesuffix(" in query.").split())

    def search(self, queries: Floats, depth: int, conditions: Conditions) -> Iterator[collection.Found]:
        where: Any = {"where": conditions.where, "where_document": conditions.where_document}
        hits: Any = self.handle.query(
            query_embeddings=queries, n_results=depth, include=["distances", "metadatas", "documents"], **where
        )
        rows = zip(hits["ids"], hits["metadatas"], hits["documents"], hits["distances"], strict=True)
        for ids, metadatas, texts, distances in rows:
            scores = score_of(np.asarray(distances, np.float32), self.space)
            yield collection.Found(_items(ids, metadatas, texts), scores)

    def _get(self, conditions: Conditions, include: Any, **asked: Any) -> Any:
        where: Any = {"where": conditions.where, "where_document": conditions.where_document}
        return self.handle.get(include=include, **where, **asked)


def _items(ids: Sequence[str], metadatas: Any, texts: Any) -> list[collection.Item]:
    rows = zip(ids, metadatas, texts, strict=True)
    return [collection.Item(name, metadata or {}, text) for name, metadata, text in rows]


def model_of(function: Any) -> str:
    """The model that made the vectors, as the collection says; empty if it says nothing."""
    if not isinstance(function, Mapping) or function.get("type") != "known":
        return ""
    options = function.get("config") or {}
    model = options.get("model_name") or options.get("model")
    return f"{function.get('name')} ({model})" if model else str(function.get("name"))
