"""Milvus, Milvus Lite in a folder or a server: builds indexes of all kinds."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import math
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

import numpy as np
from pydantic import Field, model_validator

from ragtrial.cache.atomic import write_text
from ragtrial.engines.base import STORES, Index, IndexUse, Vectors, count_unreachable, failing_as, ranked
from ragtrial.engines.batching import in_batches
from ragtrial.engines.exact import PROBES, SURE_FROM, missed
from ragtrial.engines.milvus_index import MilvusGraph, MilvusIndexKind, MilvusIndexOptions, MilvusOther, Parameters
from ragtrial.engines.servers import Engine, SettlingStore, wait_for
from ragtrial.errors import InputError, StoreError, StoreServerError
from ragtrial.options import Options, Secret
from ragtrial.rankings import Floats, Rankings

if TYPE_CHECKING:
    from pymilvus import MilvusClient

_PATIENCE = 10
"""The time limit for the first answer of a server, in seconds."""

_PORT = 19_530
_REFUSALS = ("UNAUTHENTICATED", "PERMISSION_DENIED")
_LOCK = threading.Lock()
_IN_USE: Counter[str] = Counter()
"""The number of clients of each Milvus Lite folder in this process; they share its server."""


def server_client(url: str, token: str, database: str, timeout: float, named_by: str = "store.url") -> MilvusClient:
    """A client of the server at ``url``, the option ``named_by``, which has answered. Raises StoreServerError."""
    parts = urlsplit(url)
    start = f"Start it, or correct {named_by} (Milvus listens at port {_PORT})."
    try:
        # Milvus's own client would wait for its whole time limit if nothing listens there.
        socket.create_connection((parts.hostname or "", parts.port or _PORT), min(_PATIENCE, timeout)).close()
    except OSError as error:
        raise StoreServerError(f"no Milvus server answers at {url} ({error.strerror or error}). {start}") from error
    with failing_as(lambda error: _refused(url, error, start)):
        at = url if parts.port else f"{url}:{_PORT}"
        made = _client_class()(at, token=token, db_name=database, timeout=min(_PATIENCE, timeout), dedicated=True)
    try:
        with failing_as(
            lambda error: StoreServerError(f"Milvus at {url}, database {database!r}: {message_of(error)}.")
        ):
            made.list_collections(timeout=timeout)  # fails, too, if there is no such database
    except BaseException:
        made.close()
        raise
    return made


def folder_client(path: Path) -> tuple[MilvusClient, Callable[[], None]]:
    """A client of Milvus Lite in ``path``, which ends in .db, and a function that closes it. Raises StoreError."""
    from milvus_lite.server_manager import server_manager_instance

    place = str(path.absolute())
    with _LOCK, failing_as(lambda error: StoreError(f"Milvus Lite cannot open {path}: {message_of(error)}.")):
        client = _client_class()(place, dedicated=True)
        _IN_USE[place] += 1

    def close() -> None:
        with _LOCK:
            client.close()
            _IN_USE[place] -= 1
            if not _IN_USE[place]:
                del _IN_USE[place]
                server_manager_instance.release_server(place)

    return client, close


def message_of(error: BaseException) -> str:
    """The message of an error: Milvus's own, or the details of a gRPC error."""
    details = getattr(error, "details", None)
    text = getattr(error, "message", "") or (details() if callable(details) else "") or str(error)
    return " ".join(str(text).split()).rstrip(".") or type(error).__name__


def is_unimplemented(error: Exception) -> bool:
    """True if the server does not implement the request."""
    return _status_of(error) == "UNIMPLEMENTED"


def _status_of(error: BaseException) -> str:
    """The name of the gRPC status; empty for an error without one."""
    code: Any = getattr(error, "code", None)
    return str(getattr(code(), "name", "")) if callable(code) else ""


def _refused(url: str, error: BaseException, start: str) -> StoreServerError:
    # For a wrong password pymilvus reports that the server may be unavailable; the error behind it says more.
    causes = [error, error.__cause__ or error.__context__]
    refusals = [one for one in causes if one is not None and _status_of(one) in _REFUSALS]
    if refusals:
        return StoreServerError(
            f"Milvus at {url} refuses ({message_of(refusals[0])}); set token, or user and password."
        )
    return StoreServerError(f"the server at {url} does not answer as Milvus does ({message_of(error)}). {start}")


def _client_class() -> Any:
    """The client of pymilvus, which reads a .env file when it is imported, and prints each error that it raises."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    known = set(os.environ)
    from pymilvus import MilvusClient

    for name in set(os.environ) - known:
        del os.environ[name]
    for name in ("pymilvus", "milvus_lite"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return MilvusClient


MOST_HITS = 16_384
"""The most hits that a server returns."""

_ID, _VECTOR = "id", "vector"
_LITE = "milvus_lite"  # its version begins with this
_METRICS = {"cosine": "COSINE", "ip": "IP", "l2": "L2"}
_QUERY_BATCH = 256
_HITS_AT_ONCE = 500_000


class MilvusEngine:
    """A connection to Milvus; ``folder`` has the files of Milvus Lite. The primary keys are the numbers of the rows."""

    def __init__(
        self, store: MilvusStore, client: MilvusClient, close: Callable[[], None], folder: Path | None = None
    ) -> None:
        self.store = store
        self.client = client
        self.close = close
        self._folder = folder
        self._seconds = math.ceil(store.timeout)  # some calls of pymilvus ignore a time limit that is no int

    def version(self) -> str:
        with self.failing():
            return str(self.client.get_server_version(timeout=self._seconds))

    def fill(self, name: str, vectors: Vectors, advance: Callable[[int], None]) -> Mapping[str, Any]:
        # The order matters: rows that are not flushed, or flushed after the index, are searched without it.
        with self.failing():
            self._insert(name, vectors, advance)
            self.client.flush(name, timeout=math.ceil(self.store.settle_within))
            self._merge_segments(name)
            self._build_index(name)
            self._load(name)
            self._wait_for(lambda: self._is_settled(name, len(vectors)), f"loading the collection {name}")
            return self._options_in_effect(name)

    def count(self, name: str) -> int | None:
        with self.failing():
            if not self.client.has_collection(name, timeout=self._seconds):
                return None
            self._load(name)
            return self._count(name)

    def rows(self, name: str, codes: list[int]) -> Floats:
        with self.failing():
            found = self.client.get(name, ids=codes, output_fields=[_VECTOR], timeout=self._seconds)
            rows = {int(one[_ID]): one[_VECTOR] for one in found}
            return np.array([rows[code] for code in codes if code in rows], dtype=np.float32)

    def size(self, name: str) -> int | None:
        with self.failing():
            return sum(int(one.mem_size) for one in self._segments(name) or ()) or None

    def drop(self, name: str) -> None:
        with self.failing():
            if self.client.has_collection(name, timeout=self._seconds):
                self.client.drop_collection(name, timeout=self._seconds)

    def open(self, name: str, vectors: Vectors) -> Index:
        return MilvusIndex(self, name, vectors)

    def ping(self) -> None:
        self.version()

    def scanned(self, name: str) -> int | None:
        """The number of rows that are searched without an index; None if Milvus does not show it."""
        with self.failing():
            if self._folder is not None:
                stems = {file.stem for file in self._folder.rglob("data/*.parquet")}
                return None if stems - {file.name.partition(".")[0] for file in self._folder.rglob("indexes/*")} else 0
            segments = self._segments(name)
            return None if segments is None else max(0, self._count(name) - rows_with_index(segments))

    def failing(self) -> AbstractContextManager[None]:
        """Turns Milvus's errors into ours, with the place."""
        return failing_as(self._error)

    @property
    def _place(self) -> str:
        return self.store.address if self._folder is None else f"Milvus Lite in {self._folder}"

    def _error(self, error: BaseException) -> StoreError:
        return (StoreError if self._folder is not None else StoreServerError)(f"{self._place}: {message_of(error)}.")

    def _wait_for(self, is_done: Callable[[], bool], what: str) -> None:
        wait_for(is_done, self.store.settle_within, f"{self._place}: {what}")

    # --- the steps of a build

    def _insert(self, name: str, vectors: Vectors, advance: Callable[[int], None]) -> None:
        from pymilvus import DataType

        dimension = vectors.matrix.shape[1]
        schema = self.client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(_ID, DataType.INT64, is_primary=True)
        schema.add_field(_VECTOR, DataType.FLOAT_VECTOR, dim=dimension)
        self.client.create_collection(name, schema=schema, consistency_level="Strong", timeout=self._seconds)

        def send(rows: slice) -> None:
            batch = np.asarray(vectors.matrix[rows], dtype=np.float32)
            sent = [{_ID: code, _VECTOR: row} for code, row in enumerate(batch, rows.start)]
            self.client.insert(name, sent, timeout=self._seconds)

        # Inserts that meet in Milvus Lite, which may be the server, fail while it writes its files.
        at_once = 1 if self.version().startswith(_LITE) else self.store.at_once
        in_batches(send, len(vectors), self.store.rows_at_once(dimension), at_once, advance)

    def _merge_segments(self, name: str) -> None:
        """Merge small segments now: Milvus would merge them later, and then return other hits."""
        if self._folder is not None:
            return
        segments = segments_of(lambda: self.client.list_persistent_segments(name, timeout=self._seconds))
        if segments is not None and len(segments) > 1:
            job = self.client.compact(name, timeout=self._seconds)
            self._wait_for(lambda: self.client.get_compaction_state(job) == "Completed", f"merging segments of {name}")

    def _build_index(self, name: str) -> None:
        index, metric = self.store.index, _METRICS[self.store.space]
        parameters = self.client.prepare_index_params()
        # Nested, because pymilvus would send each parameter under its own name, and Milvus Lite would ignore them all.
        nested = {"params": dict(index.built())}
        parameters.add_index(_VECTOR, index_type=index.engine_name, metric_type=metric, params=nested)
        self.client.create_index(name, parameters, sync=False, timeout=self._seconds)
        self._wait_for(lambda: self._is_built(name), f"the index of {name}")

    def _is_built(self, name: str) -> bool:
        found = self._described(name)
        if found.get("state") == "Failed":
            raise StoreError(f"{self._place} cannot build the index of {name}: {found}.")
        return found.get("state") == "Finished" and not found.get("pending_index_rows")

    def _load(self, name: str) -> None:
        self.client.load_collection(name, timeout=math.ceil(self.store.settle_within))

    def _is_settled(self, name: str, count: int) -> bool:
        """True if all rows are searched, in segments that no longer change."""
        if self._count(name) != count:
            return False
        segments = self._segments(name)
        if segments is None:
            # Milvus Lite merges segments in the background, and a merged one has no index at first. Releasing the
            # collection stops that, and loading it builds missing indexes before it returns.
            self.client.release_collection(name, timeout=self._seconds)
            self._load(name)
            return True
        loaded = sum({one.segment_id: int(one.num_rows) for one in segments}.values())
        return loaded == count and not any(one.state.name == "Growing" for one in segments)

    def _described(self, name: str) -> Mapping[str, Any]:
        return self.client.describe_index(name, _VECTOR, timeout=self._seconds) or {}

    def _options_in_effect(self, name: str) -> Mapping[str, Any]:
        """The options of the index, as Milvus reports them. Raises StoreError if they are not as requested."""
        found = dict(self._described(name))
        nested = found.get("params") or {}
        found |= json.loads(nested) if isinstance(nested, str) else nested
        asked = self.store.index.built()
        built = {one: found.get(one) for one in asked}
        ignored = {name: value for name, value in asked.items() if str(built[name]) != str(value)}
        if ignored and not isinstance(self.store.index, MilvusOther):
            raise StoreError(f"{self._place} built the index with {built} instead of {dict(asked)}.")
        effective = {"index_type": found.get("index_type"), "metric_type": found.get("metric_type"), **asked}
        return {**effective, "ignored": ignored} if ignored else effective

    def _count(self, name: str) -> int:
        found = self.client.query(
            name, filter="", output_fields=["count(*)"], consistency_level="Strong", timeout=self._seconds
        )
        return int(found[0]["count(*)"])

    def _segments(self, name: str) -> list[Any] | None:
        """The loaded segments; None if Milvus does not list them."""
        if self._folder is not None:
            return None
        return segments_of(lambda: self.client.list_loaded_segments(name, timeout=self._seconds))


def segments_of(ask: Callable[[], list[Any]]) -> list[Any] | None:
    """The segments that ``ask`` returns; None from Milvus Lite, whose server does not implement the call."""
    try:
        return list(ask())
    except Exception as error:
        if is_unimplemented(error):
            return None
        raise


def use_of_loaded(count: int, without_index: int) -> IndexUse:
    """The use of an index of ``count`` rows; ``without_index`` of them were loaded without it."""
    if not without_index:
        return IndexUse(is_used=True, evidence=f"Milvus has loaded all {count:,} vectors with their index.")
    part = "all" if without_index == count else f"{without_index:,} of"
    evidence = f"Milvus has loaded {part} {count:,} vectors without an index, whatever describe_index says."
    return IndexUse(is_used=without_index < count, evidence=evidence)


def rows_with_index(segments: Iterable[Any]) -> int:
    """The number of rows in loaded segments that have an index; replicas of a segment count once."""
    return sum({one.segment_id: int(one.num_rows) for one in segments if one.index_id}.values())


class MilvusIndex:
    """A loaded collection, open for search."""

    def __init__(self, engine: MilvusEngine, name: str, vectors: Vectors) -> None:
        self._engine = engine
        self._name = name
        self._vectors = vectors
        self._index: MilvusIndexOptions = engine.store.index

    def search(self, queries: Floats, depth: int) -> Rankings:
        return self._found(queries, depth, self._index.searched)

    def unreachable(self) -> int:
        return count_unreachable(
            lambda queries, depth: self._found(queries, depth, self._index.widest), self._vectors.matrix
        )

    def use(self) -> IndexUse:
        count = len(self._vectors)
        if self._index.kind == "flat" or not count:
            return IndexUse(is_used=True, evidence="The index is FLAT, which compares all vectors, as chosen.")
        wrong = missed(self._narrowly, self._vectors, self._engine.store.space)
        scanned = self._engine.scanned(self._name)
        if scanned:
            return use_of_loaded(count, scanned)
        if wrong:
            how = f"{wrong} of {PROBES} searches of the narrowest width missed the nearest vector"
            return IndexUse(is_used=True, evidence=f"{how}, which comparing all vectors does not.")
        if scanned == 0:
            return use_of_loaded(count, scanned)
        none = f"None of {PROBES} searches of the narrowest width missed the nearest vector"
        is_sure = count >= SURE_FROM and not isinstance(self._index, MilvusOther)
        return IndexUse(
            is_used=False if is_sure else None,
            evidence=f"{none}: all vectors are compared."
            if is_sure
            else f"{none}; among so few vectors that says nothing.",
        )

    def close(self) -> None:
        self._engine.close()

    def _narrowly(self, queries: Floats) -> Rankings:
        return self._found(queries, 1, lambda _: self._index.narrowest())

    def _found(self, queries: Floats, depth: int, parameters: Callable[[int], Parameters]) -> Rankings:
        depth, engine = min(depth, len(self._vectors), MOST_HITS), self._engine

        def nearest(batch: Floats, limit: int) -> Iterator[tuple[list[int], Floats]]:
            rows: Any = engine.client.search(
                self._name,
                data=list(batch),
                limit=limit,
                output_fields=[_ID],
                search_params={"params": dict(parameters(limit))},
                consistency_level="Strong",
                timeout=engine.store.timeout,
            )
            for hits in rows:
                scores = np.asarray(hits.distances, dtype=np.float32)
                yield hits.ids, -scores if engine.store.space == "l2" else scores

        most = _HITS_AT_ONCE // max(1, depth * engine.store.at_once)
        with engine.failing():
            return ranked(nearest, queries, depth, max(1, min(_QUERY_BATCH, most)), engine.store.at_once)


_DATABASE = "milvus.db"
_COLLECTION = "chunks"
_BUILT = "built.json"
"""The file that records what Milvus Lite built in a folder."""

_FIRST_WITH_EF = (3, 2, 2)
"""The first version of Milvus Lite that uses ef; earlier versions search every graph with their default."""


class MilvusLogin(Options):
    """The options for logging in to a Milvus server."""

    token: Secret | None = None
    """The server's token, written as `${NAME}`: an API key, or `user:password`."""

    user: str | None = None
    """The user on the server; needs `password`."""

    password: Secret | None = None
    """The user's password, written as `${NAME}`."""

    database: str = "default"
    """The database on the server."""

    @model_validator(mode="after")
    def _is_one_login(self) -> Self:
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password go together; give both, or token alone.")
        if self.token is not None and self.user is not None:
            raise ValueError("token and user exclude each other; remove one.")
        return self

    def sent_token(self) -> str:
        """The token, or user and password joined; empty without either."""
        secret = self.token or self.password
        text = "" if secret is None else secret.get_secret_value()
        return text if self.user is None else f"{self.user}:{text}"


@STORES.register("milvus")
class MilvusStore(MilvusLogin, SettlingStore):
    """A Milvus collection: in a folder (Milvus Lite), or on a server."""

    connected_by: ClassVar[tuple[str, ...]] = ("url", "token", "user", "password", "database")
    waits_here: ClassVar[bool] = True
    unhashed: ClassVar[frozenset[str]] = SettlingStore.unhashed | {"token", "user", "password"}
    search_options: ClassVar[frozenset[str]] = frozenset({"index.ef_search", "index.probes", "index.search"})

    advice_for_low_recall: ClassVar[str] = (
        "Raise store.index.ef_search or probes, m or ef_construction, or set store.index.kind: flat."
    )
    advice_for_unreachable: ClassVar[str] = (
        "Raise store.index.m or ef_construction, or set store.index.kind: ivf_flat or flat."
    )
    advice_for_unused: ClassVar[str] = (
        "Milvus builds no index for segments of fewer than 1,024 rows: measure as many chunks as there are in "
        "production, or set store.index.kind: flat, which is what is measured."
    )
    advice_for_few_hits: ClassVar[str] = (
        f"Raise store.index.probes; a server never returns more than {MOST_HITS:,} hits."
    )

    kind: Literal["milvus"] = "milvus"
    """Milvus: in a folder with Milvus Lite, or on the server at `url`."""

    index: MilvusIndexKind = Field(default=MilvusGraph())
    """The index of the collection."""

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        if self.url is not None and urlsplit(self.url).scheme not in ("http", "https"):
            raise ValueError(f"url is {self.url!r}; it must begin with http:// or https://.")
        return self

    def width(self, depth: int) -> int | None:
        return self.index.width(depth)

    @property
    def packages(self) -> Mapping[str, str]:  # type: ignore[override]  # which depends on where it is
        return dict.fromkeys(["pymilvus", "milvus-lite"] if self.url is None else ["pymilvus"], "milvus")

    def check(self) -> None:
        super().check()
        if self.url is not None:
            return
        found = importlib.metadata.version("milvus-lite")
        numbers = tuple(int(part) for part in found.split(".")[:3] if part.isdigit())
        if numbers < _FIRST_WITH_EF:
            raise InputError(
                f"Milvus Lite {found} ignores ef_search: pip install 'milvus-lite>=3.2.2', or set store.url."
            )

    def engine(self) -> Engine:
        client = server_client(str(self.url), self.sent_token(), self.database, self.timeout)
        return MilvusEngine(self, client, client.close)

    def build_here(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        engine = self._engine_in(folder)
        try:
            options = engine.fill(_COLLECTION, vectors, advance)
            known = {"version": engine.version(), "options": dict(options)}
        finally:
            engine.close()
        write_text(folder / _BUILT, json.dumps(known))

    def open_here(self, vectors: Vectors, folder: Path) -> Index:
        engine = self._engine_in(folder)
        try:
            count = engine.count(_COLLECTION)
            if count != len(vectors):
                raise StoreError(f"the Milvus Lite index in {folder} has {count or 0:,} of {len(vectors):,} vectors.")
            return engine.open(_COLLECTION, vectors)
        except BaseException:
            engine.close()
            raise

    def facts(self, folder: Path) -> dict[str, Any]:
        known: Mapping[str, Any] = json.loads((folder / _BUILT).read_text()) if self.url is None else {}
        return {**super().facts(folder), **known}

    def _engine_in(self, folder: Path) -> MilvusEngine:
        client, close = folder_client(folder / _DATABASE)
        return MilvusEngine(self, client, close, folder)
