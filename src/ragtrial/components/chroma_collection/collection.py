"""A collection: where it is, what it holds, page by page, and what is nearest to a vector."""

from __future__ import annotations

import hashlib
import json
import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import numpy as np
from pydantic import Field, SecretStr, model_validator

from ragtrial.components.stores.base import Space
from ragtrial.components.stores.chroma import is_chroma_error, score_of
from ragtrial.errors import StoreError
from ragtrial.options import Options, PathText
from ragtrial.rankings import Floats
from ragtrial.records import Question

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection as ChromaCollection


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
            raise ValueError("it must have either path (a folder) or host (a server).")
        of_server = [name for name in ("port", "ssl", "headers") if name in self.model_fields_set]
        if self.path is not None and of_server:
            raise ValueError(f"only a server has {' and '.join(of_server)}; remove it, or set host instead of path.")
        if self.host is not None and ("/" in self.host or not self.host.strip()):
            raise ValueError(f"host is {self.host!r}; it must be a name or an address alone, like localhost (see ssl).")
        if self.end is not None and self.start is None:
            raise ValueError("end needs start; give both, or start alone.")
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


class Conditions(NamedTuple):
    """Which items are searched, by their metadata and by their texts, as Chroma writes it; None lets all through."""

    where: Mapping[str, Any] | None = None
    where_document: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return ", ".join(f"{key}: {dict(one)}" for key, one in self._asdict().items() if one is not None)

    def joined(self, question: Question) -> Conditions:
        """These conditions and those of the question."""
        own = (question.where, question.where_document)
        return Conditions(
            *({"$and": [one, more]} if one and more else one or more for one, more in zip(self, own, strict=True))
        )


class Item(NamedTuple):
    """An item of a collection; its metadata are empty, and its text is None, where it has none."""

    id: str
    metadata: Mapping[str, Any]
    text: str | None


@dataclass(frozen=True, eq=False)
class Found:
    """What is nearest to a vector, best first, and its scores (items,): larger is nearer."""

    items: Sequence[Item]
    scores: Floats


_PAGE = 2_000
_QUERIES = 256
_HITS = 20_000
"""Hits that are asked for at once, with their texts: a few megabytes."""
_HASHED_VECTORS = 10_000
_SAMPLE_DRAWS = 20
_ALL = Conditions()


class Collection:
    """An open collection; ``count`` and ``content`` are of when they are first asked for. Nothing is written to it."""

    def __init__(self, options: CollectionOptions, opened: ChromaCollection) -> None:
        self.options = options
        self._opened = opened
        configuration = opened.configuration_json
        self.id = str(opened.id)
        self.graph: Mapping[str, Any] = configuration.get("hnsw") or configuration.get("spann") or {}
        self.space: Space = self.graph.get("space", "l2")
        self.made_with = _name_of(configuration.get("embedding_function"))

    def __str__(self) -> str:
        return f"the collection {self.options.name!r} at {self.options.address}"

    @cached_property
    def count(self) -> int:
        return int(self._ask(self._opened.count))

    @cached_property
    def dimension(self) -> int:
        """Of its vectors; 0 while it is empty."""
        vectors = self._get(limit=1, include=["embeddings"])["embeddings"]
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
        every = max(1, -(-self.count // _HASHED_VECTORS))
        total = 0
        for items in self.pages():
            rows = [json.dumps(item, sort_keys=True).encode() for item in items]
            names = [item.id for item in items if zlib.crc32(item.id.encode("utf-8", "replace")) % every == 0]
            if names:
                found = self._get(ids=names, include=["embeddings"])
                rows += [
                    name.encode("utf-8", "replace") + b"\0" + np.asarray(vector, dtype=np.float32).tobytes()
                    for name, vector in zip(found["ids"], found["embeddings"], strict=True)
                ]
            total += sum(int.from_bytes(hashlib.blake2b(row, digest_size=16).digest(), "big") for row in rows)
        return f"{total % 2**128:032x}"

    def pages(self, conditions: Conditions = _ALL) -> Iterator[list[Item]]:
        """All items that the conditions let through, some thousand at a time. Raises StoreError."""
        for offset in range(0, self.count, _PAGE):
            found = self._get(conditions, limit=_PAGE, offset=offset, include=["metadatas", "documents"])
            if found["ids"]:
                yield _items(found["ids"], found["metadatas"], found["documents"])

    def check_conditions(self, conditions: Conditions) -> None:
        """Raises ValueError for conditions that Chroma does not understand."""
        from chromadb.errors import InvalidArgumentError

        try:
            self._get(conditions, limit=1, include=[])
        except StoreError as error:
            if not isinstance(error.__cause__, (ValueError, TypeError, InvalidArgumentError)):
                raise
            raise ValueError(" ".join(str(error.__cause__).removesuffix(" in get.").split())) from error

    def sample(self, size: int, conditions: Conditions = _ALL) -> tuple[list[str], Floats]:
        """At most ``size`` stored texts and their vectors, drawn with a fixed seed; fewer where few have a text."""
        total = self.count if conditions == _ALL else len(self._get(conditions, include=[])["ids"])
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

    def nearest(self, vectors: Floats, depth: int, conditions: Conditions = _ALL) -> list[Found]:
        """The items nearest to each vector, at most ``depth``, in Chroma's order. Raises StoreError."""
        made: list[Found] = []
        depth = max(1, min(depth, self.count))
        step = max(1, min(_QUERIES, _HITS // depth))
        for start in range(0, len(vectors), step):
            found = self._ask(
                self._opened.query,
                query_embeddings=np.asarray(vectors[start : start + step], dtype=np.float32),
                n_results=depth,
                include=["distances", "metadatas", "documents"],
                **conditions._asdict(),
            )
            rows = zip(found["ids"], found["metadatas"], found["documents"], found["distances"], strict=True)
            for ids, metadatas, texts, distances in rows:
                scores = score_of(np.asarray(distances, dtype=np.float32), self.space)
                if not np.isfinite(scores).all():
                    raise StoreError(f"{self} gives distances that are not finite numbers ({self.space}).")
                made.append(Found(_items(ids, metadatas, texts), scores))
        return made

    def _get(self, conditions: Conditions = _ALL, **asked: Any) -> Any:
        return self._ask(self._opened.get, **conditions._asdict(), **asked)

    def _ask(self, call: Callable[..., Any], **asked: Any) -> Any:
        try:
            return call(**asked)
        except BaseException as error:
            if not is_chroma_error(error):
                raise
            raise StoreError(f"{self} cannot be read: {' '.join(str(error).split())}") from error


def _items(ids: Sequence[str], metadatas: Any, texts: Any) -> list[Item]:
    return [Item(name, metadata or {}, text) for name, metadata, text in zip(ids, metadatas, texts, strict=True)]


def _name_of(function: Any) -> str:
    """What the collection says its vectors were made with; empty where it says nothing."""
    if not isinstance(function, Mapping) or function.get("type") != "known":
        return ""
    options = function.get("config") or {}
    model = options.get("model_name") or options.get("model")
    return f"{function.get('name')} ({model})" if model else str(function.get("name"))
