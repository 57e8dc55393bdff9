"""Milvus: Milvus Lite in a folder, or a server; graphs, lists and quantised vectors."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from ragtrial.cache.atomic import write_text
from ragtrial.components.secrets import Secret
from ragtrial.components.stores.base import STORES, Index, Vectors
from ragtrial.components.stores.milvus_client import folder_client, server_client, token_of
from ragtrial.components.stores.milvus_engine import MOST_HITS, MilvusEngine
from ragtrial.components.stores.milvus_index import MilvusHnsw, MilvusIndexKind
from ragtrial.components.stores.server import Engine, SettlingStore
from ragtrial.errors import InputError, StoreError

_DATABASE = "milvus.db"
_COLLECTION = "chunks"
_BUILT = "built.json"
"""The file that records what Milvus Lite built in a folder."""

_FIRST_WITH_EF = (3, 2, 2)
"""The first version of Milvus Lite that uses ef; earlier ones search every graph with their default."""


@STORES.register("milvus")
class MilvusStore(SettlingStore):
    """A Milvus collection: in a folder (Milvus Lite), or on a server."""

    connected_by: ClassVar[tuple[str, ...]] = ("url", "token", "user", "password", "database")
    waits_here: ClassVar[bool] = True
    unhashed: ClassVar[frozenset[str]] = SettlingStore.unhashed | {"token", "user", "password"}
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
        f"Raise store.index.probes; a server never returns more than {MOST_HITS:,} hits."
    )

    kind: Literal["milvus"] = "milvus"
    """Milvus: in a folder with Milvus Lite, or on the server at `url`."""

    index: MilvusIndexKind = Field(default=MilvusHnsw())
    """The index of the collection."""

    token: Secret | None = None
    """The server's token, written as `${NAME}`: an API key, or `user:password`."""

    user: str | None = None
    """The user on the server; needs `password`."""

    password: Secret | None = None
    """The user's password, written as `${NAME}`."""

    database: str = "default"
    """The database on the server."""

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
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

    @property
    def packages(self) -> Mapping[str, str]:  # type: ignore[override]  # which depends on where it is
        return dict.fromkeys(["pymilvus", "milvus-lite"] if self.url is None else ["pymilvus"], "milvus")

    def check(self) -> None:
        super().check()
        if self.url is not None:
            return
        found = importlib.metadata.version("milvus-lite")
        numbers = tuple(int(part) for part in found.split(".")[:3] if part.isdigit())
        if numbers < _FIRST_WITH_EF:
            raise InputError(
                f"Milvus Lite {found} ignores ef_search: pip install 'milvus-lite>=3.2.2', or set store.url."
            )

    def engine(self) -> Engine:
        token = token_of(self.token, self.user, self.password)
        client = server_client(str(self.url), token, self.database, self.timeout)
        return MilvusEngine(self, client, client.close)

    def build_here(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        engine = self._engine_in(folder)
        try:
            options = engine.fill(_COLLECTION, vectors, advance)
            known = {"version": engine.version(), "options": dict(options)}
        finally:
            engine.close()
        write_text(folder / _BUILT, json.dumps(known))

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

    def facts(self, folder: Path) -> dict[str, Any]:
        known: Mapping[str, Any] = json.loads((folder / _BUILT).read_text()) if self.url is None else {}
        return {**super().facts(folder), **known}

    def _engine_in(self, folder: Path) -> MilvusEngine:
        client, close = folder_client(folder / _DATABASE)
        return MilvusEngine(self, client, close, folder)
