"""A Milvus collection, in a folder of Milvus Lite or on a server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ragtrial.components.collections.base import (
    COLLECTIONS,
    PAGE,
    Collection,
    Fact,
    Found,
    Item,
    NamedCollectionOptions,
    VectorFieldNames,
    not_there,
)
from ragtrial.components.collections.conditions import ALL, Comparison, Conditions, parsed, translated
from ragtrial.components.collections.milvus_folder import copied, stamp_of
from ragtrial.components.secrets import Secret
from ragtrial.components.stores.base import Space
from ragtrial.components.stores.milvus_client import (
    failing_as,
    folder_client,
    is_unimplemented,
    said,
    server_client,
    token_of,
)
from ragtrial.components.stores.milvus_engine import MOST_HITS, rows_with_index
from ragtrial.components.stores.server import ServerUrl
from ragtrial.errors import InputError, StoreError, StoreServerError, did_you_mean, listed
from ragtrial.options import PathText
from ragtrial.rankings import Floats
from ragtrial.records import ReportWarning, WarningCode

if TYPE_CHECKING:
    from pymilvus import MilvusClient

_QUERIES = 256
_HITS = 20_000
"""Hits that are asked for at once, with their texts: a few megabytes."""

_ANSWER = 300
"""Seconds in which a server must answer."""

_SPACES: Mapping[str, Space] = {"COSINE": "cosine", "IP": "ip", "L2": "l2"}
_DYNAMIC = "$meta"
_PARAMETERS = {"ef": "HNSW", "nprobe": "IVF"}
"""What a search can be told, and how the names of the indexes begin that heed it."""


@COLLECTIONS.register("milvus")
class MilvusCollectionOptions(NamedCollectionOptions, VectorFieldNames):
    """A Milvus collection: in a folder of Milvus Lite (`path`), or on a server (`url`)."""

    engine: ClassVar[str] = "Milvus"
    filter_type: ClassVar[type[str | dict[str, Any]] | None] = str
    advice_for_low_recall: ClassVar[str] = (
        "Raise collection.ef or nprobe, as in your program, or build its index with more M, efConstruction or nlist."
    )
    unhashed: ClassVar[frozenset[str]] = frozenset({"check", "token", "user", "password"})
    packages: ClassVar[Mapping[str, str]] = {"pymilvus": "milvus", "milvus-lite": "milvus"}

    kind: Literal["milvus"] = "milvus"
    """A collection of Milvus, in a folder of Milvus Lite or on a server."""

    path: PathText | None = None
    """The folder of Milvus Lite, as it is given to `MilvusClient`. A copy of it is searched."""

    url: ServerUrl | None = None
    """The address of a server, without a password."""

    token: Secret | None = None
    """The token of the server, as `${NAME}`; an API key, or `user:password`."""

    user: str | None = None
    """The user of the server, with `password`."""

    password: Secret | None = None
    """The user's password, as `${NAME}`."""

    database: str = "default"
    """The database on the server."""

    ef: Annotated[int, Field(ge=1)] | None = None
    """Candidates considered by a search of a graph (HNSW...), never fewer than the hits asked for (default: the
    server's)."""

    nprobe: Annotated[int, Field(ge=1)] | None = None
    """Lists that a search of lists looks into (IVF...; default: the server's)."""

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        if (self.path is None) == (self.url is None):
            raise ValueError("it must have either path (a folder of Milvus Lite) or url (a server).")
        if (self.user is None) != (self.password is None) or (self.token is not None and self.user is not None):
            raise ValueError("it must have token, or user and password, or none of them.")
        return self

    @property
    def address(self) -> str:
        return str(self.path or self.url)

    def stamp(self) -> object:
        return stamp_of(Path(self.path)) if self.path is not None else None

    def open(self) -> MilvusCollection:
        with ExitStack() as stack:
            try:
                client = self._client(stack)
                with failing_as(lambda error: StoreServerError(f"Milvus at {self.address}: {said(error)}.")):
                    if not client.has_collection(self.name, timeout=_ANSWER):
                        raise not_there(self, client.list_collections(timeout=_ANSWER))
                    self._be_loaded(client)
                    return MilvusCollection(self, client, stack.pop_all())
            except StoreError as error:
                raise InputError(*error.faults) from error
            except ImportError as error:
                raise InputError("kind: milvus needs a package: pip install 'ragtrial[milvus]'.") from error

    def _client(self, stack: ExitStack) -> MilvusClient:
        if self.path is not None:
            client, close = folder_client(copied(Path(self.path), stack))
            stack.callback(close)
            return client
        client = server_client(
            str(self.url), token_of(self.token, self.user, self.password), self.database, _ANSWER, "collection.url"
        )
        stack.callback(client.close)
        return client

    def _be_loaded(self, client: MilvusClient) -> None:
        """Raises InputError for a collection that its server has not loaded: that is for its owner to do."""
        if self.path is not None:
            client.load_collection(self.name)
        elif client.get_load_state(self.name, timeout=_ANSWER)["state"].name != "Loaded":
            raise InputError(
                f"the collection {self.name!r} at {self.address} is not loaded, so that it cannot be searched; load it "
                f"as your program does, for example by client.load_collection({self.name!r})."
            )

    def warnings(self, setting: str, facts: Mapping[str, Fact]) -> Iterator[ReportWarning]:
        without, count = facts.get("without_index"), facts.get("items")
        if without:
            yield ReportWarning(
                WarningCode.INDEX_NOT_USED,
                f"{setting}: of {count:,} vectors Milvus has loaded {without:,} without an index, and compares all of "
                "these, as it does with segments of fewer than 1,024 rows and with rows that are not flushed.",
            )


class MilvusCollection(Collection):
    """An open collection of Milvus's."""

    options: MilvusCollectionOptions

    def __init__(self, options: MilvusCollectionOptions, client: MilvusClient, resources: ExitStack) -> None:
        super().__init__(options, resources)
        self._client = client
        with self._failing():
            schema = client.describe_collection(options.name, timeout=_ANSWER)
        self.id = str(schema.get("collection_id") or "")
        self._fields: Mapping[str, Mapping[str, Any]] = {one["name"]: one for one in schema["fields"]}
        self._is_dynamic = bool(schema.get("enable_dynamic_field"))
        self._check_fields()
        self.index = self._index()
        self.space = self._space()

    @cached_property
    def count(self) -> int:
        with self._failing():
            found = self._client.query(self.options.name, filter="", output_fields=["count(*)"], **self._strongly)
        return int(found[0]["count(*)"])

    @property
    def dimension(self) -> int:
        return int(self._fields[self.options.vector]["params"]["dim"])

    def width(self, depth: int) -> int | None:
        kind = str(self.index.get("index_type"))
        if kind == "FLAT" or kind in ("IVF_FLAT", "IVF_SQ8", "IVF_PQ"):
            return None
        return max(self.options.ef or 0, depth)

    def inputs(self) -> Mapping[str, Any]:
        return {**super().inputs(), "index": dict(self.index)}

    def facts(self) -> Mapping[str, Fact]:
        with self._failing():
            version = self._client.get_server_version(timeout=_ANSWER)
        return {"version": version, "index": str(self.index.get("index_type")), "without_index": self._without_index()}

    def pages(self, conditions: Conditions = ALL) -> Iterator[list[Item]]:
        with self._failing():
            rows = self._client.query_iterator(
                self.options.name, batch_size=PAGE, filter=self._expression(conditions), output_fields=self._wanted
            )
        try:
            while True:
                with self._failing():
                    page = rows.next()
                if not page:
                    return
                yield [self._item(row) for row in page]
        finally:
            rows.close()

    def get(self, ids: Sequence[str]) -> tuple[list[Item], Floats]:
        keys = [self._key(name) for name in ids]
        known = [key for key in keys if key is not None]
        rows: Sequence[Mapping[str, Any]] = ()
        if known:
            with self._failing():
                rows = self._client.get(
                    self.options.name, ids=known, output_fields=[*self._wanted, self.options.vector], timeout=_ANSWER
                )
        vectors = np.array([row[self.options.vector] for row in rows], dtype=np.float32)
        return [self._item(row) for row in rows], vectors.reshape(len(rows), self.dimension)

    def nearest(self, vectors: Floats, depth: int, conditions: Conditions = ALL) -> list[Found]:
        depth = max(1, min(depth, self.count, MOST_HITS))
        step = max(1, min(_QUERIES, _HITS // depth))
        made: list[Found] = []
        for start in range(0, len(vectors), step):
            with self._failing():
                found: Any = self._client.search(
                    self.options.name,
                    list(np.asarray(vectors[start : start + step], dtype=np.float32)),
                    anns_field=self.options.vector,
                    limit=depth,
                    filter=self._expression(conditions),
                    output_fields=self._wanted,
                    search_params={"params": self._parameters(depth)},
                    **self._strongly,
                )
                made += [self._found(hits) for hits in found]
        return made

    def ask_for(self, conditions: Conditions) -> None:
        try:
            with self._failing():
                self._client.query(self.options.name, filter=self._expression(conditions), limit=1, **self._strongly)
        except StoreError as error:
            if error.__cause__ is None or not isinstance(getattr(error.__cause__, "code", None), int):
                raise
            raise ValueError(said(error.__cause__)) from error

    # --- what its owner called its fields

    @cached_property
    def _wanted(self) -> list[str]:
        """The fields that are asked for: all but vectors, and those that are in no schema."""
        fields = [name for name, one in self._fields.items() if "VECTOR" not in one["type"].name]
        return [*fields, _DYNAMIC] if self._is_dynamic else fields

    def _check_fields(self) -> None:
        """Raises InputError for fields that it does not have."""
        options = self.options
        (primary,) = (name for name, one in self._fields.items() if one.get("is_primary"))
        vectors = [name for name, one in self._fields.items() if one["type"].name == "FLOAT_VECTOR"]
        faults = []
        if options.id != primary:
            faults.append(f"the ids of {self} are in {primary!r}, its primary key; set collection.id: {primary}.")
        if options.vector not in vectors:
            near = did_you_mean(options.vector, vectors)
            has = listed(vectors) or "none"
            faults.append(f"{self} has no vectors in {options.vector!r}.{near} Set collection.vector; it has: {has}.")
        if options.text not in self._fields and not self._is_dynamic:
            names = [name for name, one in self._fields.items() if one["type"].name == "VARCHAR"]
            near, has = did_you_mean(options.text, names), listed(names) or "none"
            faults.append(f"{self} has no field {options.text!r}.{near} Set collection.text; texts are in: {has}.")
        if faults:
            raise InputError(*faults)

    def _index(self) -> Mapping[str, Any]:
        name, vector = self.options.name, self.options.vector
        with self._failing():
            for one in self._client.list_indexes(name, vector):
                told = self._client.describe_index(name, one, timeout=_ANSWER) or {}
                changes = {"total_rows", "indexed_rows", "pending_index_rows", "state", "index_name", "field_name"}
                return {key: value for key, value in told.items() if key not in changes}
        raise InputError(f"{self} has no index on {vector!r}, without which Milvus does not search; create one.")

    def _space(self) -> Space:
        metric, kind = str(self.index.get("metric_type")), str(self.index.get("index_type"))
        if metric not in _SPACES:
            raise InputError(f"{self} compares by {metric}; it must be COSINE, IP or L2.")
        for name, beginning in _PARAMETERS.items():
            if getattr(self.options, name) is not None and not kind.startswith(beginning):
                raise InputError(f"{self} has the index {kind}, which ignores {name} ({beginning} has it); remove it.")
        return _SPACES[metric]

    def _key(self, name: str) -> str | int | None:
        """An id as its primary key has it; None for one that cannot be."""
        if self._fields[self.options.id]["type"].name != "INT64":
            return name
        return int(name) if name.removeprefix("-").isdecimal() else None

    def _item(self, row: Mapping[str, Any]) -> Item:
        own = (self.options.id, self.options.text)
        metadata = {key: _plain(value) for key, value in row.items() if key not in own and value is not None}
        metadata.pop(self.options.vector, None)
        return Item(str(row[self.options.id]), metadata, row.get(self.options.text))

    def _found(self, hits: Any) -> Found:
        scores = np.asarray(hits.distances, dtype=np.float32)
        if not np.isfinite(scores).all():
            raise StoreError(f"{self} gives distances that are not finite numbers ({self.space}).")
        items = [self._item(hit["entity"]) for hit in hits]
        return Found(items, -scores if self.space == "l2" else scores)

    # --- asking

    @property
    def _strongly(self) -> dict[str, Any]:
        return {"consistency_level": "Strong", "timeout": _ANSWER}

    def _failing(self) -> AbstractContextManager[None]:
        return failing_as(lambda error: StoreError(f"{self} cannot be read: {said(error)}."))

    def _parameters(self, depth: int) -> Mapping[str, int]:
        told = {}
        if self.options.ef is not None:
            told["ef"] = max(self.options.ef, depth)
        if self.options.nprobe is not None:
            told["nprobe"] = self.options.nprobe
        return told

    def _without_index(self) -> int | None:
        """How many rows the server has loaded without an index; None if it does not say."""
        if self.index.get("index_type") == "FLAT" or self.options.path is not None:
            return None
        try:
            with self._failing():
                segments = self._client.list_loaded_segments(self.options.name, timeout=_ANSWER)
        except StoreError as error:
            if isinstance(error.__cause__, Exception) and is_unimplemented(error.__cause__):
                return None
            raise
        return max(0, self.count - rows_with_index(segments))

    # --- conditions

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
        operators = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
        if comparison.operator in operators:
            return f"{field} {operators[comparison.operator]} {_literal(comparison.value)}"
        among = " or ".join(f"{field} == {_literal(one)}" for one in comparison.values)
        if comparison.operator in ("$eq", "$in"):
            return f"({among})"
        # Milvus lets through no item that lacks the field: of nothing it says neither yes nor no.
        if not is_own:
            return f"(not (exists {field}) or not ({among}))"
        return f"({field} is null or not ({among}))" if self._fields[name].get("nullable") else f"(not ({among}))"


def _joined(every: bool, parts: Sequence[str]) -> str:  # noqa: FBT001 - as `translated` calls it
    return "(" + (" and " if every else " or ").join(parts) + ")"


def _literal(value: Any) -> str:
    """A value in Milvus's words, which are those of JSON."""
    return json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | bool | int | float | Mapping) else list(value)
