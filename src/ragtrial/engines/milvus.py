"""Milvus, Milvus Lite in a folder or a server: builds indexes of all kinds."""

from __future__ import annotations

import json
import logging
import math
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

import numpy as np
from pydantic import Field, JsonValue

from ragtrial.engines.base import STORES, FlatIndex, IndexUse, OtherIndex, Space, Vectors, failing_as
from ragtrial.engines.servers import Engine, Server, SettlingStore, wait_for
from ragtrial.errors import StoreError, StoreServerError
from ragtrial.options import Options, Secret
from ragtrial.rankings import Floats

if TYPE_CHECKING:
    from pymilvus import MilvusClient

_PATIENCE = 10
"""The time limit for the first answer of a server, in seconds."""

_PORT = 19_530
_REFUSALS = ("UNAUTHENTICATED", "PERMISSION_DENIED")
_LOCK = threading.Lock()
_IN_USE: Counter[str] = Counter()
"""The number of clients of each Milvus Lite folder in this process; they share its server."""


def server_client(options: MilvusLogin) -> MilvusClient:
    """A client of the server, which has answered. Raises StoreServerError."""
    url, timeout = str(options.url), min(_PATIENCE, options.timeout)
    parts = urlsplit(url)
    start = f"Start it, or correct url (Milvus listens at port {_PORT})."
    try:
        # Milvus's own client would wait for its whole time limit if nothing listens there.
        socket.create_connection((parts.hostname or "", parts.port or _PORT), timeout).close()
    except OSError as error:
        raise StoreServerError(f"no Milvus server answers at {url} ({error.strerror or error}). {start}") from error
    with failing_as(lambda error: _refused(url, error, start)):
        at = url if parts.port else f"{url}:{_PORT}"
        token, database = options.token.get_secret_value() if options.token else "", options.database
        return _client_class()(at, token=token, db_name=database, timeout=timeout, dedicated=True)


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


def _status_of(error: BaseException) -> str:
    """The name of the gRPC status; empty for an error without one."""
    code: Any = getattr(error, "code", None)
    return str(getattr(code(), "name", "")) if callable(code) else ""


def _refused(url: str, error: BaseException, start: str) -> StoreServerError:
    # For a wrong password pymilvus reports that the server may be unavailable; the error behind it says more.
    causes = [error, error.__cause__ or error.__context__]
    refusals = [one for one in causes if one is not None and _status_of(one) in _REFUSALS]
    if refusals:
        return StoreServerError(f"Milvus at {url} refuses ({message_of(refusals[0])}); set token.")
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


def searched(
    client: MilvusClient, name: str, queries: Floats, space: Space, parameters: Mapping[str, Any], **asked: Any
) -> Iterator[tuple[Any, Floats]]:
    """The hits of each query, which have all that was written before, and their scores: larger is nearer."""
    rows: Any = client.search(
        name, data=list(queries), search_params={"params": parameters}, consistency_level="Strong", **asked
    )
    for hits in rows:
        scores = np.asarray(hits.distances, dtype=np.float32)
        yield hits, -scores if space == "l2" else scores


MOST_HITS = 16_384
"""The most hits that a server returns."""

_ID, _VECTOR = "id", "vector"
METRICS: Mapping[Space, str] = {"cosine": "COSINE", "ip": "IP", "l2": "L2"}
_HITS_AT_ONCE = 500_000
_DATABASE = "milvus.db"


class MilvusGraph(Options):
    """A graph over whole vectors."""

    kind: Literal["hnsw"] = "hnsw"
    """A graph over whole vectors (HNSW)."""

    m: Annotated[int, Field(ge=2, le=2_048)] = 16
    """Links per vector, from 2 to 2,048; a higher value takes more memory and is more exact (Milvus: M)."""

    ef_construction: Annotated[int, Field(ge=1)] = 100
    """Candidates considered while building; a higher value is slower to build and more exact (Milvus:
    efConstruction)."""

    ef_search: Annotated[int, Field(ge=1, le=32_768)] = 64
    """Candidates considered while searching, up to 32,768; a higher value is slower and more exact (Milvus: ef). A
    search never considers fewer candidates than the requested hits: a server would refuse it, and Milvus Lite would
    miss hits."""


MilvusIndexKind = Annotated[MilvusGraph | OtherIndex | FlatIndex, Field(discriminator="kind")]


class MilvusLogin(Server):
    """The options for logging in to a Milvus server."""

    token: Secret | None = None
    """The server's token, written as `${NAME}`: an API key, or `user:password`."""

    database: str = "default"
    """The database on the server."""


@STORES.register("milvus")
class MilvusStore(MilvusLogin, SettlingStore):
    """A Milvus collection: in a folder (Milvus Lite), or on a server."""

    connected_by = ("url", "token", "database")
    waits_here = True
    search_options = frozenset({"index.ef_search", "index.search"})

    advice_for_low_recall = "Raise store.index.ef_search, m or ef_construction, or set store.index.kind: flat."
    advice_for_unused = (
        "Milvus builds no index for segments of fewer than 1,024 rows: measure as many chunks as there are in "
        "production, or set store.index.kind: flat, which is what is measured."
    )
    advice_for_few_hits = (
        f"Search more widely (nprobe of inverted lists); a server never returns more than {MOST_HITS:,} hits."
    )

    kind: Literal["milvus"] = "milvus"
    """Milvus: in a folder with Milvus Lite, or on the server at `url`."""

    index: MilvusIndexKind = MilvusGraph()
    """The index of the collection."""

    def width(self, depth: int) -> int | None:
        if isinstance(self.index, MilvusGraph):
            return max(self.index.ef_search, depth)
        return depth if isinstance(self.index, OtherIndex) else None

    def other_index(self) -> OtherIndex:
        """The index in Milvus's words."""
        index = self.index
        if not isinstance(index, MilvusGraph):
            return index if isinstance(index, OtherIndex) else OtherIndex(type="FLAT")
        build: dict[str, JsonValue] = {"M": index.m, "efConstruction": index.ef_construction}
        return OtherIndex(type="HNSW", build=build, search={"ef": index.ef_search})

    @property
    def packages(self) -> Mapping[str, str]:  # type: ignore[override]  # which depends on where it is
        return dict.fromkeys(["pymilvus", "milvus-lite"] if self.url is None else ["pymilvus"], "milvus")

    def engine(self, folder: Path | None = None) -> MilvusEngine:
        return MilvusEngine(self, folder if self.url is None else None)


class MilvusEngine(Engine):
    """A connection to Milvus; ``folder`` has the files of Milvus Lite. The primary keys are the numbers of the rows."""

    most_hits = MOST_HITS

    store: MilvusStore

    def __init__(self, store: MilvusStore, folder: Path | None) -> None:
        super().__init__(store, folder)
        self._seconds = math.ceil(store.timeout)  # some calls of pymilvus ignore a time limit that is no int
        if folder is not None:
            self.place = f"Milvus Lite in {folder}"
            self.client, self._close = folder_client(folder / _DATABASE)
        else:
            self.client = server_client(store)
            self._close = self.client.close

    def failing(self) -> AbstractContextManager[None]:
        kind = StoreServerError if self.folder is None else StoreError
        return failing_as(lambda error: kind(f"{self}: {message_of(error)}."))

    def close(self) -> None:
        self._close()

    def version(self) -> str:
        return str(self.client.get_server_version(timeout=self._seconds))

    def check(self) -> None:
        self.client.list_collections(timeout=self._seconds)  # fails if there is no such database

    # The order of a build matters: rows that are not flushed, or flushed after the index, are searched without it.

    def create(self, name: str, count: int, dimension: int) -> None:
        from pymilvus import DataType

        schema = self.client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(_ID, DataType.INT64, is_primary=True)
        schema.add_field(_VECTOR, DataType.FLOAT_VECTOR, dim=dimension)
        self.client.create_collection(name, schema=schema, consistency_level="Strong", timeout=self._seconds)
        if self.version().startswith("milvus_lite"):
            self.at_once = 1  # inserts that meet in Milvus Lite, here or as a server, fail while it writes its files

    def insert(self, name: str, start: int, batch: Floats) -> None:
        rows = [{_ID: code, _VECTOR: row} for code, row in enumerate(batch, start)]
        self.client.insert(name, rows, timeout=self._seconds)

    def finish(self, name: str, count: int, dimension: int) -> Mapping[str, Any]:
        self.client.flush(name, timeout=math.ceil(self.store.settle_within))
        # Merge small segments now: Milvus would merge them later, and then return other hits.
        segments = None if self.folder else listed_segments(self.client.list_persistent_segments, name, self._seconds)
        if segments is not None and len(segments) > 1:
            job = self.client.compact(name, timeout=self._seconds)
            self._wait_for(lambda: self.client.get_compaction_state(job) == "Completed", f"merging segments of {name}")
        index, parameters = self.store.other_index(), self.client.prepare_index_params()
        # Nested, because pymilvus would send each parameter under its own name, and Milvus Lite would ignore them all.
        metric, nested = METRICS[self.store.space], {"params": dict(index.build)}
        parameters.add_index(_VECTOR, index_type=index.type, metric_type=metric, params=nested)
        self.client.create_index(name, parameters, sync=False, timeout=self._seconds)
        self._wait_for(lambda: self._is_built(name), f"the index of {name}")
        self._load(name)
        self._wait_for(lambda: self._is_settled(name, count), f"loading the collection {name}")
        return self._options_in_effect(name)

    def count(self, name: str) -> int | None:
        if not self.client.has_collection(name, timeout=self._seconds):
            return None
        self._load(name)
        return rows_in(self.client, name, self._seconds)

    def stored(self, name: str, codes: list[int]) -> Mapping[int, Any]:
        found = self.client.get(name, ids=codes, output_fields=[_VECTOR], timeout=self._seconds)
        return {int(row[_ID]): row[_VECTOR] for row in found}

    def size(self, name: str) -> int | None:
        return sum(int(segment.mem_size) for segment in self._segments(name) or ()) or None

    def drop(self, name: str) -> None:
        if self.client.has_collection(name, timeout=self._seconds):
            self.client.drop_collection(name, timeout=self._seconds)

    def queries_at_once(self, depth: int) -> int:
        return max(1, min(super().queries_at_once(depth), _HITS_AT_ONCE // max(1, depth * self.at_once)))

    def nearest(self, name: str, queries: Floats, depth: int) -> Iterator[tuple[list[int], Floats]]:
        parameters = dict(self.store.other_index().search)
        if isinstance(self.store.index, MilvusGraph):
            parameters["ef"] = self.store.width(depth)
        asked = {"limit": depth, "output_fields": [_ID], "timeout": self.store.timeout}
        for hits, scores in searched(self.client, name, queries, self.store.space, parameters, **asked):
            yield hits.ids, scores

    def use(self, name: str, vectors: Vectors) -> IndexUse:
        count = len(vectors)
        if self.store.index.kind == "flat" or not count:
            return IndexUse(is_used=True, evidence="The index is FLAT, which compares all vectors, as chosen.")
        if self.folder is None:
            return use_of_segments(count, self._segments(name))
        files = {file.stem for file in self.folder.rglob("data/*.parquet")}
        if files - {file.name.partition(".")[0] for file in self.folder.rglob("indexes/*")}:
            return IndexUse(is_used=None, evidence="Milvus Lite has files without an index, whose rows are compared.")
        return IndexUse(is_used=True, evidence=f"Milvus has loaded all {count:,} vectors with their index.")

    def _wait_for(self, is_done: Callable[[], bool], what: str) -> None:
        wait_for(is_done, self.store.settle_within, f"{self}: {what}")

    def _is_built(self, name: str) -> bool:
        found = self._described(name)
        if found.get("state") == "Failed":
            raise StoreError(f"{self} cannot build the index of {name}: {found}.")
        return found.get("state") == "Finished" and not found.get("pending_index_rows")

    def _load(self, name: str) -> None:
        self.client.load_collection(name, timeout=math.ceil(self.store.settle_within))

    def _is_settled(self, name: str, count: int) -> bool:
        """True if all rows are searched, in segments that no longer change."""
        if rows_in(self.client, name, self._seconds) != count:
            return False
        segments = self._segments(name)
        if segments is None:
            # Milvus Lite merges segments in the background, and a merged one has no index at first. Releasing the
            # collection stops that, and loading it builds missing indexes before it returns.
            self.client.release_collection(name, timeout=self._seconds)
            self._load(name)
            return True
        loaded = sum({segment.segment_id: int(segment.num_rows) for segment in segments}.values())
        return loaded == count and not any(segment.state.name == "Growing" for segment in segments)

    def _described(self, name: str) -> Mapping[str, Any]:
        return self.client.describe_index(name, _VECTOR, timeout=self._seconds) or {}

    def _options_in_effect(self, name: str) -> Mapping[str, Any]:
        """The options of the index, as Milvus reports them. Raises StoreError if they are not as requested."""
        found = dict(self._described(name))
        nested = found.get("params") or {}
        found |= json.loads(nested) if isinstance(nested, str) else nested
        asked = self.store.other_index().build
        ignored = {name: value for name, value in asked.items() if str(found.get(name)) != str(value)}
        if ignored and not isinstance(self.store.index, OtherIndex):
            built = {name: found.get(name) for name in asked}
            raise StoreError(f"{self} built the index with {built} instead of {asked}.")
        effective = {"index_type": found.get("index_type"), "metric_type": found.get("metric_type"), **asked}
        return {**effective, "ignored": ignored} if ignored else effective

    def _segments(self, name: str) -> list[Any] | None:
        """The loaded segments; None if Milvus does not list them."""
        return None if self.folder else listed_segments(self.client.list_loaded_segments, name, self._seconds)


def rows_in(client: MilvusClient, name: str, seconds: int) -> int:
    """The number of rows of a collection, including the latest."""
    found = client.query(name, filter="", output_fields=["count(*)"], consistency_level="Strong", timeout=seconds)
    return int(found[0]["count(*)"])


def listed_segments(ask: Callable[..., list[Any]], name: str, seconds: int) -> list[Any] | None:
    """The segments that ``ask`` returns; None from Milvus Lite, whose server does not implement the call."""
    try:
        return list(ask(name, timeout=seconds))
    except Exception as error:
        if _status_of(error) == "UNIMPLEMENTED":
            return None
        raise


def use_of_segments(count: int, segments: Sequence[Any] | None) -> IndexUse:
    """The use of an index of ``count`` rows, according to the loaded segments; replicas of a segment count once."""
    if segments is None:
        return IndexUse(is_used=None, evidence="The server does not list its segments, as Milvus Lite's does not.")
    indexed = sum({segment.segment_id: int(segment.num_rows) for segment in segments if segment.index_id}.values())
    if indexed >= count:
        return IndexUse(is_used=True, evidence=f"Milvus has loaded all {count:,} vectors with their index.")
    part = f"{count - indexed:,} of" if indexed else "all"
    evidence = f"Milvus has loaded {part} {count:,} vectors without an index, whatever describe_index says."
    return IndexUse(is_used=indexed > 0, evidence=evidence)
