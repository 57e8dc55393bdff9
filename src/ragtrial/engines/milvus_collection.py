"""An existing Milvus collection, in a folder of Milvus Lite or on a server."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ragtrial.engines.base import IndexUse, Space, failing_as
from ragtrial.engines.collection import (
    COLLECTIONS,
    PAGE,
    Collection,
    Fact,
    Found,
    Item,
    NamedCollectionOptions,
    Stamp,
    VectorFieldNames,
    copied,
    not_there,
    opening,
    stamp_of,
)
from ragtrial.engines.filters import ALL, Comparison, Conditions, parsed, translated
from ragtrial.engines.milvus import (
    MOST_HITS,
    MilvusLogin,
    folder_client,
    message_of,
    rows_with_index,
    segments_of,
    server_client,
    use_of_loaded,
)
from ragtrial.engines.servers import ServerUrl
from ragtrial.errors import InputError, StoreError, StoreServerError, did_you_mean, listed
from ragtrial.options import PathText
from ragtrial.rankings import Floats

if TYPE_CHECKING:
    from pymilvus import MilvusClient


def files_of(folder: Path) -> Stamp:
    """The stamp of the files in ``folder``. Raises InputError if it is no folder of Milvus Lite."""
    if folder.is_file():
        raise InputError(
            f"{folder} is a file, the format of Milvus Lite before version 3; export it with that version "
            "(milvus-lite dump), and insert it into a folder or a server."
        )
    if not (folder / "collections").is_dir():
        raise InputError(f"{folder} is not a folder of Milvus Lite: it has no folder named collections.")
    return stamp_of(folder, (path for path in folder.rglob("*") if path.name != "LOCK"))


_SPACES: Mapping[str, Space] = {"COSINE": "cosine", "IP": "ip", "L2": "l2"}
_DYNAMIC = "$meta"
_HEEDED_BY = {"ef": "HNSW", "nprobe": "IVF"}
"""The options of a search, each with the beginning of the names of the indexes that use it."""

_SERVER_OPTIONS = ("token", "user", "password", "database", "timeout")


@COLLECTIONS.register("milvus")
class MilvusCollectionOptions(MilvusLogin, NamedCollectionOptions, VectorFieldNames):
    """A Milvus collection: in a folder of Milvus Lite (`path`), or on a server (`url`)."""

    engine: ClassVar[str] = "Milvus"
    filter_type: ClassVar[type[str | dict[str, Any]] | None] = str
    advice_for_low_recall: ClassVar[str] = (
        "Raise collection.ef or nprobe, as in your program, or build its index with a larger M or efConstruction."
    )
    advice_for_few_hits: ClassVar[str] = f"Raise collection.nprobe; Milvus never returns more than {MOST_HITS:,} hits."
    advice_for_unused: ClassVar[str] = (
        "Milvus compares all rows of segments with fewer than 1,024 rows, and rows that were not flushed: the scores "
        "are those of exact search."
    )
    search_options: ClassVar[frozenset[str]] = frozenset({"ef", "nprobe"})
    unhashed: ClassVar[frozenset[str]] = frozenset({"check", "token", "user", "password", "timeout"})
    packages: ClassVar[Mapping[str, str]] = {"pymilvus": "milvus", "milvus-lite": "milvus"}

    kind: Literal["milvus"] = "milvus"
    """A collection of Milvus, in a folder of Milvus Lite or on a server."""

    path: PathText | None = None
    """The folder of Milvus Lite, as your program gives it to `MilvusClient`. ragtrial searches a copy, because opening
    a folder changes its files."""

    url: ServerUrl | None = None
    """The URL of a server, like `http://localhost:19530`, without a password."""

    ef: Annotated[int, Field(ge=1)] | None = None
    """Candidates considered while searching a graph (HNSW), never fewer than the requested hits (default: Milvus's
    own)."""

    nprobe: Annotated[int, Field(ge=1)] | None = None
    """Lists to search in an index of lists (IVF; default: Milvus's own)."""

    timeout: Annotated[float, Field(gt=0)] = 60.0
    """The time limit for a request to a server, in seconds."""

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        if (self.path is None) == (self.url is None):
            raise ValueError("it must have either path (a folder of Milvus Lite) or url (a server).")
        ignored = [name for name in _SERVER_OPTIONS if name in self.model_fields_set]
        if self.path is not None and ignored:
            raise ValueError(f"only a server has {' and '.join(ignored)}; remove it, or set url instead of path.")
        return self

    @property
    def address(self) -> str:
        return str(self.path or self.url)

    def stamp(self) -> object:
        return files_of(Path(self.path)) if self.path is not None else None

    @property
    def seconds(self) -> int:
        """The time limit in whole seconds: some calls of pymilvus ignore a fraction."""
        return math.ceil(self.timeout)

    def open(self) -> MilvusCollection:
        with opening(self.kind) as stack:
            client = self._client(stack)
            with failing_as(lambda error: StoreServerError(f"Milvus at {self.address}: {message_of(error)}.")):
                if not client.has_collection(self.name, timeout=self.seconds):
                    raise not_there(self, client.list_collections(timeout=self.seconds))
                self._load(client)
                return MilvusCollection(self, client, stack.pop_all())

    def _client(self, stack: ExitStack) -> MilvusClient:
        if self.path is not None:
            client, close = folder_client(
                copied(Path(self.path), lambda: files_of(Path(str(self.path))), stack, "serve the folder and set url")
            )
            stack.callback(close)
            return client
        client = server_client(str(self.url), self.sent_token(), self.database, self.timeout, "collection.url")
        stack.callback(client.close)
        return client

    def _load(self, client: MilvusClient) -> None:
        """Load the copy of a folder. On a server this is up to the owner: raises InputError if it is not loaded."""
        if self.path is not None:
            client.load_collection(self.name)
        elif client.get_load_state(self.name, timeout=self.seconds)["state"].name != "Loaded":
            raise InputError(
                f"the collection {self.name!r} at {self.address} is not loaded, so it cannot be searched; load it as "
                f"your program does, for example with client.load_collection({self.name!r})."
            )


class MilvusCollection(Collection):
    """A collection, open for reading."""

    options: MilvusCollectionOptions
    most_hits: ClassVar[int] = MOST_HITS

    def __init__(self, options: MilvusCollectionOptions, client: MilvusClient, resources: ExitStack) -> None:
        super().__init__(options, resources)
        self._client = client
        with self._failing():
            schema = client.describe_collection(options.name, timeout=options.seconds)
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
        if self._kind in ("FLAT", "IVF_FLAT", "IVF_SQ8", "IVF_PQ"):
            return None
        return max(self.options.ef or 0, depth)

    def inputs(self) -> Mapping[str, Any]:
        return {**super().inputs(), "index": dict(self.index)}

    def facts(self) -> Mapping[str, Fact]:
        with self._failing():
            version = self._client.get_server_version(timeout=self.options.seconds)
        return {"server": f"Milvus {version}", "index": self._kind}

    def use(self) -> IndexUse:
        if self._kind == "FLAT":
            return IndexUse(is_used=True, evidence="The index is FLAT, which compares all vectors, as its owner chose.")
        if self.options.path is not None:
            return IndexUse(is_used=None, evidence="Milvus Lite does not show whether searches use the index.")
        with self._failing():
            ask = lambda: self._client.list_loaded_segments(self.options.name, timeout=self.options.seconds)  # noqa: E731
            segments = segments_of(ask)
        if segments is None:
            return IndexUse(is_used=None, evidence="The server does not list its segments, as Milvus Lite's does not.")
        return use_of_loaded(self.count, max(0, self.count - rows_with_index(segments)))

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
                    self.options.name,
                    ids=known,
                    output_fields=[*self._wanted, self.options.vector],
                    timeout=self.options.seconds,
                )
        vectors = np.array([row[self.options.vector] for row in rows], dtype=np.float32)
        return [self._item(row) for row in rows], vectors.reshape(len(rows), self.dimension)

    def search(self, queries: Floats, depth: int, conditions: Conditions) -> Iterator[Found]:
        with self._failing():
            rows: Any = self._client.search(
                self.options.name,
                list(queries),
                anns_field=self.options.vector,
                limit=depth,
                filter=self._expression(conditions),
                output_fields=self._wanted,
                search_params={"params": self._parameters(depth)},
                **self._strongly,
            )
        for hits in rows:
            scores = np.asarray(hits.distances, dtype=np.float32)
            yield Found([self._item(hit["entity"]) for hit in hits], -scores if self.space == "l2" else scores)

    def rejection(self, error: StoreError) -> str | None:
        cause = error.__cause__
        return message_of(cause) if cause is not None and isinstance(getattr(cause, "code", None), int) else None

    # --- the owner's names

    @property
    def _kind(self) -> str:
        """The kind of index, in Milvus's words."""
        return str(self.index.get("index_type"))

    @cached_property
    def _wanted(self) -> list[str]:
        """The fields to read: all but vectors, including dynamic fields."""
        fields = [name for name, one in self._fields.items() if "VECTOR" not in one["type"].name]
        return [*fields, _DYNAMIC] if self._is_dynamic else fields

    def _check_fields(self) -> None:
        """Raises InputError for fields that the collection does not have."""
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
                described = self._client.describe_index(name, one, timeout=self.options.seconds) or {}
                varying = {"total_rows", "indexed_rows", "pending_index_rows", "state", "index_name", "field_name"}
                return {key: value for key, value in described.items() if key not in varying}
        raise InputError(f"{self} has no index on {vector!r}; Milvus does not search without one. Create one.")

    def _space(self) -> Space:
        metric = str(self.index.get("metric_type"))
        if metric not in _SPACES:
            raise InputError(f"{self} compares by {metric}; it must be COSINE, IP or L2.")
        for name, beginning in _HEEDED_BY.items():
            if getattr(self.options, name) is not None and not self._kind.startswith(beginning):
                raise InputError(
                    f"{self} has the index {self._kind}, which ignores {name} ({beginning} uses it); remove it."
                )
        return _SPACES[metric]

    def _key(self, name: str) -> str | int | None:
        """An id as the primary key has it; None for a text that can be none."""
        if self._fields[self.options.id]["type"].name != "INT64":
            return name
        return int(name) if name.removeprefix("-").isdecimal() else None

    def _item(self, row: Mapping[str, Any]) -> Item:
        own = (self.options.id, self.options.text)
        metadata = {key: _plain(value) for key, value in row.items() if key not in own and value is not None}
        metadata.pop(self.options.vector, None)
        return Item(str(row[self.options.id]), metadata, row.get(self.options.text))

    # --- requests

    @property
    def _strongly(self) -> dict[str, Any]:
        return {"consistency_level": "Strong", "timeout": self.options.seconds}

    def _failing(self) -> AbstractContextManager[None]:
        return failing_as(lambda error: StoreError(f"{self} cannot be read: {message_of(error)}."))

    def _parameters(self, depth: int) -> Mapping[str, int]:
        ef, nprobe = self.options.ef, self.options.nprobe
        chosen = {"ef": None if ef is None else max(ef, depth), "nprobe": nprobe}
        return {name: value for name, value in chosen.items() if value is not None}

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
