"""A collection: where it is, what it holds, page by page, and what is nearest to a vector."""

from __future__ import annotations

import hashlib
import json
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import Field, SecretStr, model_validator

from ragtrial.components.stores.base import Space
from ragtrial.components.stores.chroma import is_chroma_error, score_of
from ragtrial.errors import StoreError
from ragtrial.options import Options, PathText
from ragtrial.rankings import Floats

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection as ChromaCollection

_OF_SERVERS = ("port", "ssl", "headers")


class CollectionOptions(Options):
    """A Chroma collection: in a folder (`path`), or on a server (`host`)."""

    name: Annotated[str, Field(min_length=1)]
    """The collection's name."""

    path: PathText | None = None
    """The folder of an embedded Chroma. It is copied and the copy searched: opening a folder changes its files."""

    host: str | None = None
    """The host of a Chroma server, without `http://`."""

    port: Annotated[int, Field(ge=1, le=65_535)] = 8000
    """The server's port."""

    ssl: bool = False
    """Whether the server speaks https."""

    headers: dict[str, SecretStr] = Field(default={})
    """Sent with every request, like `{Authorization: "Bearer ${TOKEN}"}`; in no report and no fingerprint."""

    tenant: str = "default_tenant"
    """Chroma's tenant."""

    database: str = "default_database"
    """Chroma's database."""

    document: str | None = None
    """The metadata key that holds the id of an item's document, or a path that ends in it (default: the item's id)."""

    start: str | None = None
    """The metadata key of the character at which an item begins in its document's normalised text, from 0. Without it
    the item's text is looked for in its document."""

    end: str | None = None
    """The metadata key of the character after an item's last (default: `start` and the length of the item's text)."""

    check: bool = True
    """Embed a few stored texts again before the run, and refuse vectors that the embedder did not make."""

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        if (self.path is None) == (self.host is None):
            given = "neither is given" if self.path is None else "both are given"
            raise ValueError(f"{given}; it must have path (a folder) or host (a server), one of the two.")
        of_server = [name for name in _OF_SERVERS if name in self.model_fields_set]
        if self.path is not None and of_server:
            raise ValueError(
                f"only a server has {' and '.join(of_server)}; take that out, or give host in place of path."
            )
        if self.host is not None and ("/" in self.host or not self.host.strip()):
            raise ValueError(f"host is {self.host!r}; it must be a name or an address alone, like localhost (see ssl).")
        if self.end is not None and self.start is None:
            raise ValueError("end comes without start; give both, or start alone.")
        return self

    @property
    def address(self) -> str:
        """Where it is, for messages."""
        return self.path if self.path is not None else self.url

    @property
    def url(self) -> str:
        """Of the server."""
        host = f"[{self.host}]" if self.host and ":" in self.host else self.host
        return f"{'https' if self.ssl else 'http'}://{host}:{self.port}"

    def identity(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude={"headers", "check", "ssl"})


Condition = Mapping[str, Any] | None
Metadata = Mapping[str, Any]

_PAGE = 2_000
_QUERIES = 256
_HITS = 20_000
"""Hits that are asked for at once, with their texts: a few megabytes."""
_HASHED_VECTORS = 10_000
_SAMPLE_DRAWS = 20


@dataclass(frozen=True)
class CollectionItems:
    """Some items: ids, and of each its metadata and its text, empty and None where it has none."""

    ids: Sequence[str]
    metadatas: Sequence[Metadata]
    texts: Sequence[str | None]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class Found:
    """What is nearest to a vector, best first, and its scores (items,): larger is nearer."""

    items: CollectionItems
    scores: Floats


class Collection:
    """An open collection; ``count`` and ``content`` are of when they are first asked for. Nothing is written to it."""

    def __init__(self, options: CollectionOptions, opened: ChromaCollection) -> None:
        self.options = options
        self._opened = opened
        configuration = opened.configuration_json
        graph = configuration.get("hnsw") or configuration.get("spann") or {}
        self.id = str(opened.id)
        self.space: Space = graph.get("space", "l2")
        self.graph: Mapping[str, Any] = graph
        self.made_with = _name_of(configuration.get("embedding_function"))

    @cached_property
    def count(self) -> int:
        with self._errors():
            return self._opened.count()

    @cached_property
    def dimension(self) -> int:
        """Of its vectors; 0 while it is empty."""
        with self._errors():
            vectors = self._opened.get(limit=1, include=["embeddings"])["embeddings"]
        return 0 if vectors is None or not len(vectors) else len(vectors[0])

    @property
    def keeps_graph(self) -> bool:
        """Whether Chroma keeps the graph on the disk; else it makes another one each time it opens the collection."""
        return self.count >= int(self.graph.get("sync_threshold", 0))

    def width(self, depth: int) -> int:
        """How widely its graph is searched for ``depth`` hits; see ``Store.width``."""
        return max(int(self.graph.get("ef_search", 0)), depth)

    @cached_property
    def content(self) -> str:
        """A hash of all ids, metadata and texts and of up to about ten thousand vectors, whatever their order."""
        every = -(-self.count // _HASHED_VECTORS)
        total = 0
        for items in self.pages():
            for name, metadata, text in zip(items.ids, items.metadatas, items.texts, strict=True):
                total += _number(json.dumps([name, metadata, text], sort_keys=True).encode())
            chosen = [name for name in items.ids if zlib.crc32(name.encode("utf-8", "replace")) % max(every, 1) == 0]
            for name, vector in self._vectors(chosen):
                total += _number(name.encode("utf-8", "replace") + b"\0" + vector.tobytes())
        return f"{total % 2**128:032x}"

    def pages(
        self, where: Condition = None, where_document: Condition = None, *, texts: bool = True
    ) -> Iterator[CollectionItems]:
        """All items that the conditions let through, some thousand at a time. Raises StoreError."""
        offset = 0
        while True:
            with self._errors():
                found = self._opened.get(
                    where=where,  # type: ignore[arg-type]  # Chroma's types are narrower than JSON
                    where_document=where_document,  # type: ignore[arg-type]  # as above
                    limit=_PAGE,
                    offset=offset,
                    include=["metadatas", "documents"] if texts else ["metadatas"],
                )
            if found["ids"]:
                yield _items(found["ids"], found["metadatas"], found["documents"])
            if len(found["ids"]) < _PAGE:
                return
            offset += _PAGE

    def matches(self, where: Condition, where_document: Condition) -> bool:
        """Whether any item meets the conditions. Raises ValueError for conditions that Chroma does not understand."""
        from chromadb.errors import InvalidArgumentError

        with self._errors():
            try:
                found = self._opened.get(where=where, where_document=where_document, limit=1, include=[])  # type: ignore[arg-type]  # as above
            except (ValueError, TypeError, InvalidArgumentError) as error:
                raise _RefusedError(" ".join(str(error).removesuffix(" in get.").split())) from error
        return bool(found["ids"])

    def sample(self, size: int, where: Condition = None, where_document: Condition = None) -> tuple[list[str], Floats]:
        """At most ``size`` stored texts and their vectors, drawn with a fixed seed; fewer where few have a text."""
        drawn = random.Random(0)  # noqa: S311 - no secret
        total = self.count if where is None and where_document is None else self._matching(where, where_document)
        places = drawn.sample(range(total), min(total, _SAMPLE_DRAWS))
        texts: list[str] = []
        vectors: list[Floats] = []
        for place in places:
            if len(texts) == size:
                break
            with self._errors():
                found = self._opened.get(
                    where=where,  # type: ignore[arg-type]  # as above
                    where_document=where_document,  # type: ignore[arg-type]  # as above
                    limit=1,
                    offset=place,
                    include=["documents", "embeddings"],
                )
            text = found["documents"][0] if found["documents"] else None
            if text and text.strip() and found["embeddings"] is not None:
                texts.append(text)
                vectors.append(np.asarray(found["embeddings"][0], dtype=np.float32))
        return texts, np.array(vectors, dtype=np.float32).reshape(len(texts), self.dimension)

    def nearest(
        self, vectors: Floats, depth: int, where: Condition = None, where_document: Condition = None
    ) -> list[Found]:
        """The items nearest to each vector, at most ``depth``, in Chroma's order. Raises StoreError."""
        made: list[Found] = []
        depth = max(1, min(depth, self.count))
        step = max(1, min(_QUERIES, _HITS // depth))
        for start in range(0, len(vectors), step):
            batch = np.asarray(vectors[start : start + step], dtype=np.float32)
            with self._errors():
                found = self._opened.query(
                    query_embeddings=batch,
                    n_results=depth,
                    where=where,  # type: ignore[arg-type]  # as above
                    where_document=where_document,  # type: ignore[arg-type]  # as above
                    include=["distances", "metadatas", "documents"],
                )
            rows = zip(
                found["ids"], found["metadatas"] or (), found["documents"] or (), found["distances"] or (), strict=True
            )
            for ids, metadatas, texts, distances in rows:
                scores = score_of(np.asarray(distances, dtype=np.float32), self.space)
                if not np.isfinite(scores).all():
                    raise StoreError(f"{self.told} gives distances that are not finite numbers ({self.space}).")
                made.append(Found(_items(ids, metadatas, texts), scores))
        return made

    @property
    def told(self) -> str:
        """What it is called in messages."""
        return f"the collection {self.options.name!r} at {self.options.address}"

    def _matching(self, where: Condition, where_document: Condition) -> int:
        return sum(len(items) for items in self.pages(where, where_document, texts=False))

    def _vectors(self, ids: Sequence[str]) -> Iterator[tuple[str, Floats]]:
        if not ids:
            return
        with self._errors():
            found = self._opened.get(ids=list(ids), include=["embeddings"])
        for name, vector in zip(
            found["ids"], found["embeddings"] if found["embeddings"] is not None else (), strict=True
        ):
            yield name, np.asarray(vector, dtype=np.float32)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except _RefusedError:
            raise
        except BaseException as error:
            if not is_chroma_error(error):
                raise
            raise StoreError(f"{self.told} cannot be read: {' '.join(str(error).split())}") from error


class _RefusedError(ValueError):
    """Chroma does not understand a condition."""


def _items(ids: Sequence[str], metadatas: Any, texts: Any) -> CollectionItems:
    metadatas = metadatas if metadatas is not None else [None] * len(ids)
    return CollectionItems(ids, [one or {} for one in metadatas], texts if texts is not None else [None] * len(ids))


def _number(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=16).digest(), "big")


def _name_of(function: Any) -> str:
    """What the collection says its vectors were made with; empty where it says nothing."""
    if not isinstance(function, Mapping) or function.get("type") != "known":
        return ""
    options = function.get("config")
    model = options.get("model_name") or options.get("model") if isinstance(options, Mapping) else None
    return f"{function.get('name')} ({model})" if model else str(function.get("name"))
