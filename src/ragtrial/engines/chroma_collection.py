"""An existing Chroma collection, in a folder or on a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ragtrial.engines.base import (
    IndexUse,
    Space,
    failing_as,
    one_line,
)
from ragtrial.engines.collection import (
    COLLECTIONS,
    PAGE,
    Collection,
    Fact,
    Found,
    Item,
    NamedCollectionOptions,
    Stamp,
    copied,
    not_there,
    stamp_of,
)
from ragtrial.engines.filters import ALL, Conditions
from ragtrial.errors import InputError, StoreError
from ragtrial.options import PathText
from ragtrial.rankings import Floats
from ragtrial.records import ReportWarning

if TYPE_CHECKING:
    from chromadb.api.client import Client
    from chromadb.api.models.Collection import Collection as ChromaHandle

from ragtrial.engines.chroma import (
    USES_GRAPH,
    ChromaServerOptions,
    chroma_server,
    disconnect,
    folder_client,
    is_chroma_error,
    score_of,
)

_DATABASE = "chroma.sqlite3"

_ANSWER = 300
"""The time limit for a request to a server, in seconds; Chroma's own client has none."""


def found(client: Client, options: ChromaCollectionOptions) -> ChromaHandle:
    """The collection that the options name. Raises InputError if the client has none of that name."""
    from chromadb.errors import NotFoundError

    try:
        return client.get_collection(options.name, embedding_function=None)
    except (NotFoundError, ValueError) as error:
        raise not_there(options, [one.name for one in client.list_collections()]) from error


def files_of(folder: Path) -> Stamp:
    """The stamp of the files that Chroma needs from ``folder``. Raises InputError if Chroma did not write it."""
    if not (folder / _DATABASE).is_file():
        near = sorted(path.parent for path in folder.glob(f"*/{_DATABASE}"))
        hint = f" There is one in {near[0]}." if near else ""
        raise InputError(f"{folder} is not a folder of Chroma: there is no {_DATABASE} in it.{hint}")
    return stamp_of(folder, chain.from_iterable(map(folder.glob, (f"{_DATABASE}*", "*/*.bin", "*/*.pickle"))))


def copy_of(folder: Path, stack: ExitStack) -> Path:
    """A copy that ``stack`` removes; it rolls back a transaction that a killed program left unfinished.

    Chroma 1.5.9 writes to chroma.sqlite3 whenever a folder is opened, upgrades the tables of older versions, and writes
    the graph anew at its first query while fewer than sync_threshold vectors were added.
    """
    advice = f"serve the folder (`chroma run --path {folder}`) and set host instead of path"
    return copied(folder, lambda: files_of(folder), stack, advice)


def connect(options: ChromaCollectionOptions, folder: Path | None) -> Client:
    """A client of the server or of a copy."""
    if folder is not None:
        return folder_client(folder, tenant=options.tenant, database=options.database)
    place = (options.url, options.headers, options.tenant, options.database)
    return chroma_server(*place, _ANSWER, named_by="host, port and ssl")


@COLLECTIONS.register("chroma")
class ChromaCollectionOptions(ChromaServerOptions, NamedCollectionOptions):
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
    """Use https."""

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
        return files_of(Path(self.path)) if self.path is not None else None

    def open(self) -> ChromaCollection:
        """The collection; its client is closed, and its copy removed, when nothing uses it any more."""
        with ExitStack() as stack:
            folder = copy_of(Path(self.path), stack) if self.path is not None else None
            place = f"Chroma at {self.address} cannot be opened (tenant {self.tenant!r}, database {self.database!r})"
            with failing_as(lambda error: InputError(f"{place}: {one_line(error)}"), is_chroma_error):
                client = connect(self, folder)
                stack.callback(disconnect, client)
                handle = found(client, self)
                return ChromaCollection(self, handle, stack.pop_all())

    def warnings(self, setting: str, facts: Mapping[str, Fact]) -> Iterator[ReportWarning]:
        if facts.get("keeps_graph") is False:
            yield ReportWarning(
                "graph-not-kept",
                f"{setting}: with so few items ({facts['items']:,}) Chroma keeps no graph on disk (sync_threshold): "
                "it builds a new one each time it opens the collection, with slightly different hits. The scores are "
                "those of one such graph.",
            )


_NOTHING: Mapping[str, Any] = {"ids": [], "metadatas": [], "documents": [], "embeddings": []}


class ChromaCollection(Collection):
    """A collection, open for reading; ``count`` and ``content`` are read once."""

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
        """True if Chroma keeps the graph on disk; otherwise it builds a new graph each time it opens the collection."""
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

    def rejection(self, error: StoreError) -> str | None:
        from chromadb.errors import InvalidArgumentError

        if not isinstance(error.__cause__, (ValueError, TypeError, InvalidArgumentError)):
            return None
        return " ".join(str(error.__cause__).removesuffix(" in get.").split())

    def search(self, queries: Floats, depth: int, conditions: Conditions) -> Iterator[Found]:
        hits = self._ask(
            self._opened.query,
            query_embeddings=queries,
            n_results=depth,
            include=["distances", "metadatas", "documents"],
            where=conditions.where,
            where_document=conditions.where_document,
        )
        rows = zip(hits["ids"], hits["metadatas"], hits["documents"], hits["distances"], strict=True)
        for ids, metadatas, texts, distances in rows:
            yield Found(_items(ids, metadatas, texts), score_of(np.asarray(distances, np.float32), self.space))

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
