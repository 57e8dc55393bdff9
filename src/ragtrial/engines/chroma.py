"""Chroma, in a folder or on a server: builds indexes (HNSW), and searches existing collections."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast
from urllib.parse import quote, urlsplit

import numpy as np
from pydantic import Field, SecretStr, model_validator

from ragtrial.engines.base import STORES, Index, IndexUse, Space, Vectors, count_unreachable, failing_as, one_line
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
)
from ragtrial.engines.filters import ALL, Conditions
from ragtrial.engines.servers import Engine, ServerStore
from ragtrial.errors import InputError, StoreError, StoreServerError
from ragtrial.options import Options, PathText, Secret
from ragtrial.rankings import Floats, Rankings, unfilled
from ragtrial.records import ReportWarning, WarningCode

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
    """How Chroma builds and searches its graph. Each of these needs an index of its own."""

    ef_construction: Annotated[int, Field(ge=1)] = 100
    """Candidates considered while building; a higher value is slower to build and more exact."""

    max_neighbors: Annotated[int, Field(ge=2)] = 16
    """Links per vector; a higher value takes more memory and is more exact."""

    ef_search: Annotated[int, Field(ge=1)] = 100
    """Candidates considered while searching, never fewer than the requested hits; a higher value is slower and more
    exact. A refiner that needs more hits than this gets a search of its own, so no setting is searched more widely
    because of another."""


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
    most_rows: ClassVar[int] = 5_000  # Chroma refuses more than 5,461 at once

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
            with _client(folder) as client:
                collection = self.filled(client, _COLLECTION, vectors, advance)
                if collection.count() != len(vectors):
                    raise StoreError(f"Chroma kept {collection.count()} of {len(vectors)} vectors in {folder}.")
            _remove_unfilled(folder)

    def open_here(self, vectors: Vectors, folder: Path) -> Index:
        def errors(error: BaseException) -> StoreError:
            return _damaged(folder, error)

        with failing_as(errors, is_chroma_error):
            client = _client(folder)
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
        depth = min(depth, len(self._vectors))
        made = unfilled(len(queries), depth)
        if not depth:
            return made

        def ask(rows: slice) -> None:
            batch = np.asarray(queries[rows], dtype=np.float32)
            found = self._collection.query(query_embeddings=batch, n_results=depth, include=["distances"])
            names, distances = found["ids"], found["distances"] or []
            lengths = np.fromiter(map(len, names), np.int64, len(names))
            is_hit, count = np.arange(depth) < lengths[:, None], int(lengths.sum())
            made.codes[rows][is_hit] = np.fromiter(map(int, chain.from_iterable(names)), np.int32, count)
            found_at = np.fromiter(chain.from_iterable(distances), np.float32, count)
            made.scores[rows][is_hit] = score_of(found_at, self._store.space)

        with failing_as(self._errors, is_chroma_error):
            in_batches(ask, len(queries), _QUERY_BATCH, self._store.at_once)
        return made

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
    """Whether the error may be Chroma's, whose errors have no common base; panics of its core are no Exceptions."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def score_of(distances: Floats, space: Space) -> Floats:
    return -distances if space == "l2" else 1 - distances


def _client(folder: Path) -> Client:
    """A client of one directory, which ignores the environment and the working directory's .env file."""
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


_DATABASE = "chroma.sqlite3"
_TRIES = 3

_ANSWER = 300
"""The time limit for a request to a server, in seconds; Chroma's own client has none."""

Stamp = tuple[tuple[str, int, int], ...]
"""Names, sizes and times of files: equal while nobody writes to them."""


def found(client: Client, options: ChromaCollectionOptions) -> ChromaHandle:
    """The collection that the options name. Raises InputError if the client has none of that name."""
    from chromadb.errors import NotFoundError

    try:
        return client.get_collection(options.name, embedding_function=None)
    except (NotFoundError, ValueError) as error:
        raise not_there(options, [one.name for one in client.list_collections()]) from error


def stamp_of(folder: Path) -> Stamp:
    """The stamp of the files that Chroma needs from ``folder``. Raises InputError if Chroma did not write it."""
    if not (folder / _DATABASE).is_file():
        near = sorted(path.parent for path in folder.glob(f"*/{_DATABASE}"))
        hint = f" There is one in {near[0]}." if near else ""
        raise InputError(f"{folder} is not a folder of Chroma: there is no {_DATABASE} in it.{hint}")
    files = [path for pattern in (f"{_DATABASE}*", "*/*.bin", "*/*.pickle") for path in folder.glob(pattern)]
    stats = ((path, path.stat()) for path in sorted(files) if path.exists())
    return tuple((str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns) for path, stat in stats)


def copied(folder: Path, stack: ExitStack) -> Path:
    """A copy of the files that Chroma needs from ``folder``, which ``stack`` removes; ``folder`` is not written to.

    The copy rolls back a transaction that a killed program left unfinished. Raises InputError if ``folder`` is not
    Chroma's or is being written to, and StoreError if it cannot be copied.
    """
    try:
        made = tempfile.TemporaryDirectory(prefix="ragtrial-chroma-", ignore_cleanup_errors=True)
        target = Path(stack.enter_context(made))
        for _ in range(_TRIES):
            before = stamp_of(folder)
            for path in target.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            for name, *_ in before:
                (target / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(folder / name, target / name)
            if stamp_of(folder) == before:
                return target
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be copied to {tempfile.gettempdir()}, where it is searched: {error}. Set TMPDIR to a "
            f"place with more room, or serve the folder (`chroma run --path {folder}`) and set host instead of path."
        ) from error
    raise InputError(
        f"{folder} is being written to, so it cannot be copied. Stop the program that writes, or serve the "
        f"folder (`chroma run --path {folder}`) and set host instead of path."
    )


def connect(options: ChromaCollectionOptions, folder: Path | None) -> Client:
    """A client of the server or of a copy, which ignores the environment and the working directory's .env file."""
    if folder is None:
        place = (options.url, options.headers, options.tenant, options.database)
        return chroma_server(*place, _ANSWER, named_by="host, port and ssl")
    import chromadb
    from chromadb.config import Settings

    settings = Settings.model_construct(anonymized_telemetry=False)
    where: Any = {"tenant": options.tenant, "database": options.database}
    client: Any = chromadb.PersistentClient(path=str(folder), settings=settings, **where)
    return client  # type: ignore[no-any-return]  # Chroma promises only one of its interfaces


@COLLECTIONS.register("chroma")
class ChromaCollectionOptions(NamedCollectionOptions):
    """A Chroma collection: in a folder (`path`), or on a server (`host`)."""

    engine: ClassVar[str] = "Chroma"
    own_operators: ClassVar[tuple[str, ...]] = ("$contains", "$not_contains")
    searches_texts: ClassVar[bool] = True
    advice_for_low_recall: ClassVar[str] = (
        "Raise ef_search of the collection (hnsw), or build it with more max_neighbors or ef_construction."
    )
    unhashed: ClassVar[frozenset[str]] = frozenset({"kind", "headers", "check", "ssl"})
    packages: ClassVar[Mapping[str, str]] = {"chromadb": ""}

    kind: Literal["chroma"] = "chroma"
    """A Chroma collection, in a folder or on a server."""

    path: PathText | None = None
    """The folder of an embedded Chroma database. ragtrial searches a copy, because opening a folder changes its
    files."""

    host: str | None = None
    """The host of a Chroma server, without `http://`."""

    port: Annotated[int, Field(ge=1, le=65_535)] = 8000
    """The server's port."""

    ssl: bool = False
    """Whether the server uses https."""

    headers: dict[str, Secret] = Field(default={})
    """Headers to send with every request, like `{Authorization: "Bearer ${TOKEN}"}`; never written to a report or
    fingerprint."""

    tenant: str = "default_tenant"
    """Chroma's tenant."""

    database: str = "default_database"
    """Chroma's database."""

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        if (self.path is None) == (self.host is None):
            raise ValueError("it must have either path (a folder) or host (a server).")
        of_server = [name for name in ("port", "ssl", "headers") if name in self.model_fields_set]
        if self.path is not None and of_server:
            raise ValueError(f"only a server has {' and '.join(of_server)}; remove it, or set host instead of path.")
        if self.host is not None and ("/" in self.host or not self.host.strip()):
            raise ValueError(f"host is {self.host!r}; it must be a name or an address alone, like localhost (see ssl).")
        return self

    @property
    def address(self) -> str:
        return self.path if self.path is not None else self.url

    @property
    def url(self) -> str:
        """The URL of the server."""
        host = f"[{self.host}]" if self.host and ":" in self.host else self.host
        return f"{'https' if self.ssl else 'http'}://{host}:{self.port}"

    def stamp(self) -> object:
        return stamp_of(Path(self.path)) if self.path is not None else None

    def open(self) -> ChromaCollection:
        """The collection; its client is closed, and its copy removed, when nothing uses it any more."""
        with ExitStack() as stack:
            folder = copied(Path(self.path), stack) if self.path is not None else None
            place = f"Chroma at {self.address} cannot be opened (tenant {self.tenant!r}, database {self.database!r})"
            with failing_as(lambda error: InputError(f"{place}: {one_line(error)}"), is_chroma_error):
                client = connect(self, folder)
                stack.callback(disconnect, client)
                handle = found(client, self)
                return ChromaCollection(self, handle, stack.pop_all())

    def warnings(self, setting: str, facts: Mapping[str, Fact]) -> Iterator[ReportWarning]:
        if facts.get("keeps_graph") is False:
            yield ReportWarning(
                WarningCode.GRAPH_NOT_KEPT,
                f"{setting}: with so few items ({facts['items']:,}) Chroma keeps no graph on disk (sync_threshold): "
                "it builds a new one each time it opens the collection, with slightly different hits. The scores are "
                "those of one such graph.",
            )


_QUERIES = 256
_HITS = 20_000
"""Hits to request at once, with their texts: a few megabytes."""
_SAMPLE_DRAWS = 20
_NOTHING: Mapping[str, Any] = {"ids": [], "metadatas": [], "documents": [], "embeddings": []}


class ChromaCollection(Collection):
    """A collection, open for reading; ``count`` and ``content`` are those of their first use."""

    def __init__(self, options: ChromaCollectionOptions, found: ChromaHandle, resources: ExitStack) -> None:
        super().__init__(options, resources)
        self._opened = found
        configuration = found.configuration_json
        self.id = str(found.id)
        self.graph: Mapping[str, Any] = configuration.get("hnsw") or configuration.get("spann") or {}
        self.space: Space = self.graph.get("space", "l2")
        self.made_with = _name_of(configuration.get("embedding_function"))

    @cached_property
    def count(self) -> int:
        return int(self._ask(self._opened.count))

    @cached_property
    def dimension(self) -> int:
        vectors = self._get(limit=1, include=["embeddings"])["embeddings"]
        return 0 if vectors is None or not len(vectors) else len(vectors[0])

    @property
    def keeps_graph(self) -> bool:
        """Whether Chroma keeps the graph on the disk; if not, it builds a new one each time it opens the collection."""
        return self.count >= int(self.graph.get("sync_threshold", 0))

    def width(self, depth: int) -> int:
        return max(int(self.graph.get("ef_search", 0)), depth)

    def inputs(self) -> Mapping[str, Any]:
        return {**super().inputs(), "graph": dict(self.graph)}

    def facts(self) -> Mapping[str, Fact]:
        return {"keeps_graph": self.keeps_graph}

    def pages(self, conditions: Conditions = ALL) -> Iterator[list[Item]]:
        for offset in range(0, self.count, PAGE):
            found = self._get(conditions, limit=PAGE, offset=offset, include=["metadatas", "documents"])
            if not found["ids"]:
                return
            yield _items(found["ids"], found["metadatas"], found["documents"])

    def get(self, ids: Sequence[str]) -> tuple[list[Item], Floats]:
        found = self._get(ids=list(ids), include=["metadatas", "documents", "embeddings"]) if ids else _NOTHING
        vectors = np.asarray(found["embeddings"], dtype=np.float32).reshape(len(found["ids"]), self.dimension)
        return _items(found["ids"], found["metadatas"], found["documents"]), vectors

    def use(self) -> IndexUse:
        return IndexUse(is_used=True, evidence=USES_GRAPH)

    def ask_for(self, conditions: Conditions) -> None:
        from chromadb.errors import InvalidArgumentError

        try:
            self._get(conditions, limit=1, include=[])
        except StoreError as error:
            if not isinstance(error.__cause__, (ValueError, TypeError, InvalidArgumentError)):
                raise
            raise ValueError(" ".join(str(error.__cause__).removesuffix(" in get.").split())) from error

    def sample(self, size: int, conditions: Conditions = ALL) -> tuple[list[str], Floats]:
        """Drawn with a fixed seed from all items, without reading them all."""
        total = self.count if conditions == ALL else len(self._get(conditions, include=[])["ids"])
        texts: list[str] = []
        vectors: list[Floats] = []
        for place in random.Random(0).sample(range(total), min(total, _SAMPLE_DRAWS)):  # noqa: S311 - no secret
            if len(texts) == size:
                break
            found = self._get(conditions, limit=1, offset=place, include=["documents", "embeddings"])
            text = found["documents"][0] if found["documents"] else None
            if text and text.strip():
                texts.append(text)
                vectors.append(found["embeddings"][0])
        return texts, np.array(vectors, dtype=np.float32).reshape(len(texts), self.dimension)

    def nearest(self, vectors: Floats, depth: int, conditions: Conditions = ALL) -> list[Found]:
        made: list[Found] = []
        depth = max(1, min(depth, self.count))
        step = max(1, min(_QUERIES, _HITS // depth))
        for start in range(0, len(vectors), step):
            found = self._ask(
                self._opened.query,
                query_embeddings=np.asarray(vectors[start : start + step], dtype=np.float32),
                n_results=depth,
                include=["distances", "metadatas", "documents"],
                where=conditions.where,
                where_document=conditions.where_document,
            )
            rows = zip(found["ids"], found["metadatas"], found["documents"], found["distances"], strict=True)
            for ids, metadatas, texts, distances in rows:
                scores = score_of(np.asarray(distances, dtype=np.float32), self.space)
                if not np.isfinite(scores).all():
                    raise StoreError(f"{self} gives distances that are not finite numbers ({self.space}).")
                made.append(Found(_items(ids, metadatas, texts), scores))
        return made

    def _get(self, conditions: Conditions = ALL, **asked: Any) -> Any:
        where: Any = {"where": conditions.where, "where_document": conditions.where_document}
        return self._ask(self._opened.get, **where, **asked)

    def _ask(self, call: Callable[..., Any], **asked: Any) -> Any:
        with failing_as(lambda error: StoreError(f"{self} cannot be read: {one_line(error)}"), is_chroma_error):
            return call(**asked)


def _items(ids: Sequence[str], metadatas: Any, texts: Any) -> list[Item]:
    return [Item(name, metadata or {}, text) for name, metadata, text in zip(ids, metadatas, texts, strict=True)]


def _name_of(function: Any) -> str:
    """The model that made the vectors, as the collection says; empty if it says nothing."""
    if not isinstance(function, Mapping) or function.get("type") != "known":
        return ""
    options = function.get("config") or {}
    model = options.get("model_name") or options.get("model")
    return f"{function.get('name')} ({model})" if model else str(function.get("name"))
