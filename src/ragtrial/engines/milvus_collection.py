"""An existing Milvus collection, in a folder of Milvus Lite or on a server.

Its items become passages of documents in ``engines/placement.py``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, JsonValue

from ragtrial.engines import collection, milvus
from ragtrial.engines.base import IndexUse, Space, failing_as
from ragtrial.engines.filters import Comparison, Conditions, parsed, translated
from ragtrial.errors import InputError, StoreError, StoreServerError, did_you_mean, listed
from ragtrial.rankings import Floats

if TYPE_CHECKING:
    from pymilvus import MilvusClient

_SPACES: Mapping[str, Space] = {metric: space for space, metric in milvus.METRICS.items()}
_DYNAMIC = "$meta"
_VARYING = {"total_rows", "indexed_rows", "pending_index_rows", "state", "index_name", "field_name"}

_ORDERS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


@collection.COLLECTIONS.register("milvus")
class MilvusCollectionOptions(milvus.MilvusLogin, collection.FolderCollectionOptions, collection.VectorFieldNames):
    """A Milvus collection: in a folder of Milvus Lite (`path`), or on a server (`url`)."""

    engine = "Milvus"
    filter_type = str
    advice_for_low_recall = (
        "Raise collection.ef, or nprobe in its search, as in your program, or build its index with a larger M or "
        "efConstruction."
    )
    advice_for_few_hits = (
        f"Raise nprobe in collection.search; Milvus never returns more than {milvus.MOST_HITS:,} hits."
    )
    advice_for_unused = (
        "Milvus compares all rows of segments with fewer than 1,024 rows, and rows that were not flushed: the scores "
        "are those of exact search."
    )
    search_options = frozenset({"ef", "search"})
    server_options = ("token", "database", "timeout")
    packages: ClassVar[Mapping[str, str]] = {"pymilvus": "milvus", "milvus-lite": "milvus"}

    kind: Literal["milvus"]
    """A collection of Milvus, in a folder of Milvus Lite or on a server."""

    ef: Annotated[int, Field(ge=1)] | None = None
    """Candidates considered while searching a graph (HNSW), never fewer than the requested hits (default: Milvus's
    own)."""

    search: dict[str, JsonValue] = Field(default={})
    """Milvus's other parameters of a search, like `{nprobe: 8}` for an index of lists."""

    def files_in(self, folder: Path) -> Iterable[Path]:
        if not (folder / "collections").is_dir():
            message = f"{folder} is not a folder of Milvus Lite from version 3 on: it has no folder collections."
            raise InputError(message)
        return (path for path in folder.rglob("*") if path.name != "LOCK")

    @property
    def seconds(self) -> int:
        """The time limit in whole seconds: some calls of pymilvus ignore a fraction."""
        return math.ceil(self.timeout)

    def connect(self, stack: ExitStack) -> MilvusCollection:
        if self.path is not None:
            client, close = milvus.folder_client(self.copied(self.path, stack))
        else:
            client = milvus.server_client(self)
            close = client.close
        stack.callback(close)
        with failing_as(lambda error: StoreServerError(f"Milvus at {self.address}: {milvus.message_of(error)}.")):
            if not client.has_collection(self.name, timeout=self.seconds):
                raise self.missing(client.list_collections(timeout=self.seconds))
            if self.path is not None:
                client.load_collection(self.name)
            elif client.get_load_state(self.name, timeout=self.seconds)["state"].name != "Loaded":
                # Loading a collection on a server is up to its owner.
                raise InputError(
                    f"the collection {self.name!r} at {self.address} is not loaded, so it cannot be searched; load it "
                    f"as your program does, for example with client.load_collection({self.name!r})."
                )
            return MilvusCollection(self, client)


class MilvusCollection(collection.Collection):
    """A collection, open for reading."""

    options: MilvusCollectionOptions
    most_hits = milvus.MOST_HITS

    def __init__(self, options: MilvusCollectionOptions, client: MilvusClient) -> None:
        super().__init__(options)
        self._client = client
        schema = client.describe_collection(options.name, timeout=options.seconds)
        self.id = str(schema.get("collection_id") or "")
        self._fields: Mapping[str, Mapping[str, Any]] = {field["name"]: field for field in schema["fields"]}
        self._is_dynamic = bool(schema.get("enable_dynamic_field"))
        self._check_fields()
        index = self._described()
        self._kind = str(index.get("index_type"))
        metric = str(index.get("metric_type"))
        if metric not in _SPACES:
            raise InputError(f"{self} compares by {metric}; it must be COSINE, IP or L2.")
        self.space = _SPACES[metric]
        self.ef = None if self._kind in ("FLAT", "IVF_FLAT", "IVF_SQ8", "IVF_PQ") else options.ef or 0
        self.index_inputs = {"index": index}
        version = client.get_server_version(timeout=options.seconds)
        self.facts = {"server": f"Milvus {version}", "index": self._kind}
        self.count = milvus.rows_in(client, options.name, options.seconds)
        self.dimension = int(self._fields[options.vector]["params"]["dim"])

    def failing(self) -> AbstractContextManager[None]:
        return failing_as(lambda error: StoreError(f"{self} cannot be read: {milvus.message_of(error)}."))

    def use(self) -> IndexUse:
        if self._kind == "FLAT":
            return IndexUse(is_used=True, evidence="The index is FLAT, which compares all vectors, as its owner chose.")
        if self.options.path is not None:
            return IndexUse(is_used=None, evidence="Milvus Lite does not show whether searches use the index.")
        with self.failing():
            loaded, options = self._client.list_loaded_segments, self.options
            segments = milvus.listed_segments(loaded, options.name, options.seconds)
        return milvus.use_of_segments(self.count, segments)

    def read(self, conditions: Conditions) -> Iterator[list[collection.Item]]:
        asked = {"filter": self._expression(conditions), "output_fields": self._wanted}
        rows = self._client.query_iterator(self.options.name, batch_size=collection.PAGE, **asked)
        try:
            while page := rows.next():
                yield [self._item(row) for row in page]
        finally:
            rows.close()

    def fetch(self, ids: Sequence[str]) -> tuple[list[collection.Item], list[Any]]:
        options = self.options
        keys = [key for key in map(self._key, ids) if key is not None]
        fields = [*self._wanted, options.vector]
        rows = self._client.get(options.name, ids=keys, output_fields=fields, timeout=options.seconds) if keys else []
        return [self._item(row) for row in rows], [row[options.vector] for row in rows]

    def search(self, queries: Floats, depth: int, conditions: Conditions) -> Iterator[collection.Found]:
        ef = self.options.ef
        parameters = self.options.search if ef is None else {**self.options.search, "ef": max(ef, depth)}
        asked = {
            "anns_field": self.options.vector, "limit": depth, "filter": self._expression(conditions),
            "output_fields": self._wanted, "timeout": self.options.seconds,
        }  # fmt: skip
        for hits, scores in milvus.searched(self._client, self.options.name, queries, self.space, parameters, **asked):
            yield collection.Found([self._item(hit["entity"]) for hit in hits], scores)

    def rejection(self, error: StoreError) -> str | None:
        cause = error.__cause__
        return milvus.message_of(cause) if cause is not None and isinstance(getattr(cause, "code", None), int) else None

    @cached_property
    def _wanted(self) -> list[str]:
        """The fields to read: all but vectors, including dynamic fields."""
        fields = [name for name, one in self._fields.items() if "VECTOR" not in one["type"].name]
        return [*fields, _DYNAMIC] if self._is_dynamic else fields

    def _check_fields(self) -> None:
        """Raises InputError for fields that the collection does not have."""
        options = self.options
        (primary,) = (name for name, one in self._fields.items() if one.get("is_primary"))
        faults = []
        if options.id != primary:
            faults.append(f"the ids of {self} are in {primary!r}, its primary key; set collection.id: {primary}.")
        for key, name, kind in (("vector", options.vector, "FLOAT_VECTOR"), ("text", options.text, "VARCHAR")):
            names = [name for name, field in self._fields.items() if field["type"].name == kind]
            if name not in names and not (key == "text" and self._is_dynamic):
                near, has = did_you_mean(name, names), listed(names) or "none"
                faults.append(f"{self} has no {key} in {name!r}.{near} Set collection.{key}; it has: {has}.")
        InputError.raise_any(faults)

    def _described(self) -> Mapping[str, Any]:
        name, vector = self.options.name, self.options.vector
        for index in self._client.list_indexes(name, vector):
            described = self._client.describe_index(name, index, timeout=self.options.seconds) or {}
            return {key: value for key, value in described.items() if key not in _VARYING}
        raise InputError(f"{self} has no index on {vector!r}; Milvus does not search without one. Create one.")

    def _key(self, name: str) -> str | int | None:
        """An id as the primary key has it; None for a text that can be none."""
        if self._fields[self.options.id]["type"].name != "INT64":
            return name
        return int(name) if name.removeprefix("-").isdecimal() else None

    def _item(self, row: Mapping[str, Any]) -> collection.Item:
        own = (self.options.id, self.options.text)
        metadata = {key: _plain(value) for key, value in row.items() if key not in own and value is not None}
        metadata.pop(self.options.vector, None)
        return collection.Item(str(row[self.options.id]), metadata, row.get(self.options.text))

    def _expression(self, conditions: Conditions) -> str:
        parts = []
        if conditions.where is not None:
            parts.append(translated(parsed(conditions.where), self._compared, _joined))
        if conditions.filter is not None:
            parts.append(str(conditions.filter))
        return " and ".join(f"({part})" for part in parts)

    def _compared(self, comparison: Comparison) -> str:
        name = comparison.field
        is_own = name in self._fields
        field = name if is_own else f"{_DYNAMIC}[{_literal(name)}]"
        if comparison.operator in _ORDERS:
            return f"{field} {_ORDERS[comparison.operator]} {_literal(comparison.value)}"
        among = " or ".join(f"{field} == {_literal(one)}" for one in comparison.values)
        if comparison.operator in ("$eq", "$in"):
            return f"({among})"
        # In Milvus, a comparison with a missing field is neither true nor false, and neither is its negation.
        if not is_own:
            return f"(not (exists {field}) or not ({among}))"
        return f"({field} is null or not ({among}))" if self._fields[name].get("nullable") else f"(not ({among}))"


def _joined(every: bool, parts: Sequence[str]) -> str:  # noqa: FBT001 - as `translated` calls it
    return "(" + (" and " if every else " or ").join(parts) + ")"


def _literal(value: Any) -> str:
    """A value as Milvus's expressions have it: in JSON."""
    return json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | bool | int | float | Mapping) else list(value)
