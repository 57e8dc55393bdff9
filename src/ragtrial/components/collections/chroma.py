"""A Chroma collection, in a folder or on a server."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ragtrial.components.collections import chroma_client
from ragtrial.components.collections.base import (
    COLLECTIONS,
    PAGE,
    Collection,
    Fact,
    Found,
    Item,
    NamedCollectionOptions,
)
from ragtrial.components.collections.conditions import ALL, Conditions
from ragtrial.components.secrets import Secret
from ragtrial.components.stores.base import IndexUse, Space
from ragtrial.components.stores.chroma import USES_GRAPH, is_chroma_error, score_of
from ragtrial.components.stores.chroma_server import disconnect
from ragtrial.components.stores.engine_errors import failing_as, one_line
from ragtrial.errors import InputError, StoreError
from ragtrial.options import PathText
from ragtrial.rankings import Floats
from ragtrial.records import ReportWarning, WarningCode

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection as OpenedByChroma


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
        return chroma_client.stamp_of(Path(self.path)) if self.path is not None else None

    def open(self) -> ChromaCollection:
        """The collection; its client is closed, and its copy removed, when nothing uses it any more."""
        with ExitStack() as stack:
            folder = chroma_client.copied(Path(self.path), stack) if self.path is not None else None
            place = f"Chroma at {self.address} cannot be opened (tenant {self.tenant!r}, database {self.database!r})"
            with failing_as(lambda error: InputError(f"{place}: {one_line(error)}"), is_chroma_error):
                client = chroma_client.connect(self, folder)
                stack.callback(disconnect, client)
                found = chroma_client.found(client, self)
                return ChromaCollection(self, found, stack.pop_all())

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

    def __init__(self, options: ChromaCollectionOptions, found: OpenedByChroma, resources: ExitStack) -> None:
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
