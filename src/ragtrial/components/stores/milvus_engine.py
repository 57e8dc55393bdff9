"""Milvus, embedded or on a server: builds collections, searches them, and finds out whether an index is used."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ragtrial.components.stores.base import Index, IndexUse, Vectors, count_unreachable
from ragtrial.components.stores.batches import in_batches
from ragtrial.components.stores.engine_errors import failing_as
from ragtrial.components.stores.milvus_client import is_unimplemented, message_of
from ragtrial.components.stores.milvus_index import MilvusIndexOptions, Parameters
from ragtrial.components.stores.probe import PROBES, SURE_FROM, missed
from ragtrial.components.stores.server import wait_for
from ragtrial.errors import StoreError, StoreServerError
from ragtrial.rankings import Floats, Rankings, unfilled

if TYPE_CHECKING:
    from pymilvus import MilvusClient

    from ragtrial.components.stores.milvus import MilvusStore

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
        """Whether all rows are searched, in segments that no longer change."""
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
        """The options of the index, as Milvus reports them. Raises StoreError if they are not those of the store."""
        found = dict(self._described(name))
        nested = found.get("params") or {}
        found |= json.loads(nested) if isinstance(nested, str) else nested
        asked = self.store.index.built()
        built = {one: found.get(one) for one in asked}
        if {one: str(value) for one, value in built.items()} != {one: str(value) for one, value in asked.items()}:
            raise StoreError(f"{self._place} built the index with {built} instead of {dict(asked)}.")
        return {"index_type": found.get("index_type"), "metric_type": found.get("metric_type"), **asked}

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
    """Whether searches go through the index of ``count`` rows, of which ``without_index`` were loaded without it."""
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
        is_sure = count >= SURE_FROM and self._index.kind != "autoindex"
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
        depth = min(depth, len(self._vectors), MOST_HITS)
        made = unfilled(len(queries), depth)
        if not depth:
            return made
        engine, at_once = self._engine, self._engine.store.at_once

        def ask(rows: slice) -> None:
            found: Any = engine.client.search(
                self._name,
                data=list(np.asarray(queries[rows], dtype=np.float32)),
                limit=depth,
                output_fields=[_ID],
                search_params={"params": dict(parameters(depth))},
                consistency_level="Strong",
                timeout=engine.store.timeout,
            )
            for row, hits in enumerate(found, rows.start):
                made.codes[row, : len(hits)] = hits.ids
                scores = np.asarray(hits.distances, dtype=np.float32)
                made.scores[row, : len(hits)] = -scores if engine.store.space == "l2" else scores

        with engine.failing():
            most = _HITS_AT_ONCE // (depth * at_once)
            in_batches(ask, len(queries), max(1, min(_QUERY_BATCH, most)), at_once)
        return made
