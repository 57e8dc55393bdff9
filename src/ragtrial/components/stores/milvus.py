"""Milvus: Milvus Lite in a folder, or a server; graphs, lists and quantised vectors."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

import numpy as np
from pydantic import Field, model_validator

from ragtrial.components.secrets import Secret
from ragtrial.components.stores.base import STORES, Index, IndexUse, Vectors, count_unreachable
from ragtrial.components.stores.milvus_client import failing_as, folder_client, is_unimplemented, said, server_client
from ragtrial.components.stores.milvus_index import MilvusHnsw, MilvusIndexKind, MilvusIndexOptions, Parameters
from ragtrial.components.stores.probe import PROBES, SURE_FROM, missed
from ragtrial.components.stores.server import Engine, ServerStore, wait_for
from ragtrial.errors import InputError, StoreError, StoreServerError
from ragtrial.rankings import Floats, Rankings, unfilled

if TYPE_CHECKING:
    from pymilvus import MilvusClient

_DATABASE = "milvus.db"
_COLLECTION = "chunks"
_ID, _VECTOR = "id", "vector"
_METRICS = {"cosine": "COSINE", "ip": "IP", "l2": "L2"}
_MOST_HITS = 16_384
"""Hits that a server gives at most."""

_QUERY_BATCH = 256
_HITS_AT_ONCE = 500_000
_BYTES_AT_ONCE = 8_000_000
_FIRST_WITH_EF = (3, 2, 2)
"""The first version of Milvus Lite that heeds ef: those before search all graphs with their default."""


@STORES.register("milvus")
class MilvusStore(ServerStore):
    """A Milvus collection: in a folder (Milvus Lite), or on a server."""

    packages: ClassVar[Mapping[str, str]] = {"pymilvus": "milvus", "milvus_lite": "milvus"}
    connected_by: ClassVar[tuple[str, ...]] = ("url", "token", "user", "password", "database")
    not_hashed: ClassVar[frozenset[str]] = ServerStore.not_hashed | {"token", "user", "password"}
    search_options: ClassVar[frozenset[str]] = frozenset(
        {"index.ef_search", "index.probes", "index.search_list", "index.reorder_k"}
    )

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
        f"Raise store.index.probes; a server never returns more than {_MOST_HITS:,} hits."
    )

    kind: Literal["milvus"] = "milvus"
    """Milvus: in a folder by Milvus Lite, or on a server by `url`."""

    index: MilvusIndexKind = Field(default=MilvusHnsw())
    """The kind of index, with its options."""

    token: Secret | None = None
    """The token of the server, as `${NAME}`; an API key, or `user:password`."""

    user: str | None = None
    """The user of the server, with `password`."""

    password: Secret | None = None
    """The user's password, as `${NAME}`."""

    database: str = "default"
    """The database on the server."""

    @model_validator(mode="after")
    def _can_be_had(self) -> Self:
        if self.url is None and not self.index.in_lite:
            raise ValueError(f"index.kind {self.index.kind} needs a server, as Milvus Lite does not have it; set url.")
        if self.url is not None and urlsplit(self.url).scheme not in ("http", "https"):
            raise ValueError(f"url is {self.url!r}; it must begin with http:// or https://.")
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password go together; give both, or token alone.")
        if self.token is not None and self.user is not None:
            raise ValueError("token and user exclude each other; remove one.")
        return self

    def width(self, depth: int) -> int | None:
        return self.index.width(depth)

    def bytes_of(self, vectors: int, dimension: int) -> int:
        links = 2 * getattr(self.index, "m", 0)
        return 0 if self.url is not None else vectors * (2 * 4 * dimension + 4 * links + 50)

    def check(self) -> None:
        super().check()
        found = importlib.metadata.version("milvus-lite")
        numbers = tuple(int(part) for part in found.split(".")[:3] if part.isdigit())
        if self.url is None and numbers < _FIRST_WITH_EF:
            raise InputError(
                f"Milvus Lite {found} ignores ef_search: pip install 'milvus-lite>=3.2.2', or set store.url."
            )

    def engine(self) -> Engine:
        secret = self.token or self.password
        given = "" if secret is None else secret.get_secret_value()
        token = given if self.user is None else f"{self.user}:{given}"
        client = server_client(str(self.url), token, self.database, self.timeout)
        return MilvusEngine(self, client, client.close)

    def build_here(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        engine = self._engine_in(folder)
        try:
            engine.fill(_COLLECTION, vectors, advance)
        finally:
            engine.close()

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

    def _engine_in(self, folder: Path) -> MilvusEngine:
        client, close = folder_client(folder / _DATABASE)
        return MilvusEngine(self, client, close, folder)


class MilvusEngine:
    """Milvus, connected; ``folder`` is where Milvus Lite has its files. Rows have their numbers as primary keys."""

    def __init__(
        self, store: MilvusStore, client: MilvusClient, close: Callable[[], None], folder: Path | None = None
    ) -> None:
        self.store = store
        self.client = client
        self.close = close
        self._folder = folder
        self._seconds = math.ceil(store.timeout)  # pymilvus takes a time limit that is no int for none, here and there

    def version(self) -> str:
        with self.failing():
            return str(self.client.get_server_version(timeout=self._seconds))

    def fill(self, name: str, vectors: Vectors, advance: Callable[[int], None]) -> Mapping[str, Any]:
        # In this order: rows that are not flushed are searched without an index, and so is what is flushed after it.
        with self.failing():
            self._insert(name, vectors, advance)
            self.client.flush(name, timeout=math.ceil(self.store.settle_within))
            self._merge_segments(name)
            self._build_index(name)
            self._load(name)
            self.wait_for(lambda: self._is_settled(name, len(vectors)), f"loading the collection {name}")
            return {name: one for name, one in self._described(name).items() if name in self._reported()}

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
        """How many rows are in segments that are searched without an index; None if Milvus does not show it."""
        with self.failing():
            if self._folder is not None:
                stems = {file.stem for file in self._folder.rglob("data/*.parquet")}
                return None if stems - {file.name.partition(".")[0] for file in self._folder.rglob("indexes/*")} else 0
            segments = self._segments(name)
            return None if segments is None else sum(one.num_rows for one in segments if not one.index_id)

    def failing(self) -> AbstractContextManager[None]:
        """Whatever Milvus raises within becomes one error with the place."""
        return failing_as(self._error)

    def _error(self, error: Exception) -> StoreError:
        if self._folder is not None:
            return StoreError(f"Milvus Lite fails in {self._folder}: {said(error)}.")
        return StoreServerError(f"{self.store.address}: {said(error)}.")

    def wait_for(self, is_done: Callable[[], bool], what: str) -> None:
        wait_for(is_done, self.store.settle_within, f"{self.store.address}: {what}")

    # --- the steps of a build

    def _insert(self, name: str, vectors: Vectors, advance: Callable[[int], None]) -> None:
        from pymilvus import DataType

        dimension = vectors.matrix.shape[1]
        schema = self.client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(_ID, DataType.INT64, is_primary=True)
        schema.add_field(_VECTOR, DataType.FLOAT_VECTOR, dim=dimension)
        self.client.create_collection(name, schema=schema, consistency_level="Strong", timeout=self._seconds)
        rows = max(1, _BYTES_AT_ONCE // (4 * dimension + 8))
        for start in range(0, len(vectors), rows):
            batch = np.asarray(vectors.matrix[start : start + rows], dtype=np.float32)
            sent = [{_ID: code, _VECTOR: row} for code, row in enumerate(batch, start)]
            self.client.insert(name, sent, timeout=self._seconds)
            advance(len(batch))

    def _merge_segments(self, name: str) -> None:
        """Let Milvus merge small segments now: it does so some time, and then answers otherwise."""
        try:
            segments = self.client.list_persistent_segments(name, timeout=self._seconds)
        except Exception as error:
            if not is_unimplemented(error):  # Milvus Lite merges while it flushes
                raise
            return
        if len(segments) > 1:
            job = self.client.compact(name, timeout=self._seconds)
            self.wait_for(lambda: self.client.get_compaction_state(job) == "Completed", f"merging segments of {name}")

    def _build_index(self, name: str) -> None:
        index = self.store.index
        parameters = self.client.prepare_index_params()
        metric = _METRICS[self.store.space]
        parameters.add_index(_VECTOR, index_type=index.engine_name, metric_type=metric, params=dict(index.built()))
        self.client.create_index(name, parameters, sync=False, timeout=self._seconds)
        self.wait_for(lambda: self._is_built(name), f"the index of {name}")

    def _is_built(self, name: str) -> bool:
        found = self._described(name)
        if found.get("state") == "Failed":
            raise StoreError(f"{self.store.address} cannot build the index of {name}: {found}.")
        return found.get("state") == "Finished" and not found.get("pending_index_rows")

    def _load(self, name: str) -> None:
        self.client.load_collection(name, timeout=math.ceil(self.store.settle_within))

    def _is_settled(self, name: str, count: int) -> bool:
        """Whether all rows are searched, and in segments that change no more."""
        if self._count(name) != count:
            return False
        segments = self._segments(name)
        if segments is None:
            # Milvus Lite merges segments behind our back, and the merged one has no index for a while. It cannot while
            # it releases, and loading builds what is missing before it returns.
            self.client.release_collection(name, timeout=self._seconds)
            self._load(name)
            return True
        return sum(one.num_rows for one in segments) == count and not any(
            one.state.name == "Growing" for one in segments
        )

    def _described(self, name: str) -> Mapping[str, Any]:
        return self.client.describe_index(name, _VECTOR, timeout=self._seconds) or {}

    def _reported(self) -> set[str]:
        return {"index_type", "metric_type", *self.store.index.built()}

    def _count(self, name: str) -> int:
        found = self.client.query(
            name, filter="", output_fields=["count(*)"], consistency_level="Strong", timeout=self._seconds
        )
        return int(found[0]["count(*)"])

    def _segments(self, name: str) -> list[Any] | None:
        """What the server has loaded; None if it does not say, as Milvus Lite does."""
        try:
            return list(self.client.list_loaded_segments(name, timeout=self._seconds))
        except Exception as error:
            if is_unimplemented(error):
                return None
            raise


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
            return IndexUse(is_used=True, evidence="The index is FLAT, which compares all vectors, as is wished.")
        wrong = missed(self._narrowly, self._vectors, self._engine.store.space)
        scanned = self._engine.scanned(self._name)
        if scanned:
            part = "all" if scanned == count else f"{scanned:,} of"
            without = f"Milvus has loaded {part} {count:,} vectors without an index, whatever describe_index says."
            return IndexUse(is_used=scanned < count, evidence=without)
        if wrong:
            how = f"{wrong} of {PROBES} searches that were as narrow as can be missed the nearest vector"
            return IndexUse(is_used=True, evidence=f"{how}; comparing all vectors misses none.")
        if scanned == 0:
            return IndexUse(is_used=True, evidence=f"Milvus has loaded all {count:,} vectors with their index.")
        none = f"None of {PROBES} searches that were as narrow as can be missed the nearest vector"
        is_sure = count >= SURE_FROM and self._index.kind != "autoindex"
        return IndexUse(
            is_used=False if is_sure else None,
            evidence=f"{none}: all vectors are compared." if is_sure else f"{none}; among so few that says nothing.",
        )

    def close(self) -> None:
        self._engine.close()

    def _narrowly(self, queries: Floats) -> Rankings:
        return self._found(queries, 1, lambda _: self._index.narrowest())

    def _found(self, queries: Floats, depth: int, parameters: Callable[[int], Parameters]) -> Rankings:
        depth = min(depth, len(self._vectors), _MOST_HITS)
        made = unfilled(len(queries), depth)
        if not depth:
            return made
        engine = self._engine
        at_once = max(1, min(_QUERY_BATCH, _HITS_AT_ONCE // depth))
        for start in range(0, len(queries), at_once):
            batch = np.asarray(queries[start : start + at_once], dtype=np.float32)
            with engine.failing():
                found: Any = engine.client.search(
                    self._name,
                    data=list(batch),
                    limit=depth,
                    output_fields=[_ID],
                    search_params={"params": dict(parameters(depth))},
                    consistency_level="Strong",
                    timeout=engine.store.timeout,
                )
                for row, hits in enumerate(found, start):
                    made.codes[row, : len(hits)] = hits.ids
                    scores = np.asarray(hits.distances, dtype=np.float32)
                    made.scores[row, : len(hits)] = -scores if engine.store.space == "l2" else scores
        return made
