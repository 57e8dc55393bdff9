"""Indexes on a server: collections that are named here, filled once, checked when they are opened, and dropped."""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self
from uuid import uuid4

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from ragtrial.cache.atomic import write_text
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.remote import REMOTE
from ragtrial.cache.untrusted import load_json
from ragtrial.engines.base import SECRETS, Index, IndexUse, Store, Vectors, ranked
from ragtrial.engines.batching import in_batches
from ragtrial.errors import InputError, StoreError, StoreServerError
from ragtrial.options import Options, parts_of
from ragtrial.rankings import Floats, Rankings
from ragtrial.registry import installed_version

_PREFIX = "ragtrial_"
_SAMPLED = 100
_SAMPLE = "sample.npy"
_EMBEDDED = "chunks"
"""The name of the collection in a folder, where there is no other."""
_BUILT = "built.json"
"""The file that records what an engine built in a folder, if it reports that."""
_SAME = 1e-3
"""How far a stored number may be from the one sent, relative to the largest: engines may store half floats."""
_PAUSE = 0.05
_TIME_LIMITS = ("timeout", "settle_within")
_BYTES_AT_ONCE = 8_000_000
"""The most bytes of vectors in a request; as text they are about five times as long."""


def server_url(value: str) -> str:
    """``value`` if it is the address of a server without a password. Raises ValueError."""
    parts = parts_of(value)
    if parts is None:
        raise ValueError(f"is {value!r}; it must be a URL like http://localhost:8000.")
    if parts.password:
        raise ValueError("a password must not be in a url, which is in every report; give it by a key of its own.")
    return value.rstrip("/")


ServerUrl = Annotated[str, AfterValidator(server_url)]
"""The address of a server, without a password."""


class Server(Options):
    """The options for reaching a server."""

    url: ServerUrl | None = None
    """The URL of a server, without a password."""

    timeout: Annotated[float, Field(gt=0)] = 60.0
    """The time limit for a request to a server, in seconds."""


class Engine(ABC):
    """A connection to a server, or to the files of an engine in a folder. ``str()`` names the place.

    The rows of a collection have the numbers of the vectors, from 0. Methods raise the engine's own errors within
    ``failing``, which turns them into StoreServerError if a server is away, refuses or times out, and else StoreError.
    """

    most_hits: ClassVar[int] = 2**31 - 1
    """The most hits that a search returns."""

    def __init__(self, store: ServerStore, folder: Path | None = None) -> None:
        self.store, self.folder = store, folder
        self.place = store.address if folder is None else f"the index in {folder}"
        self.at_once = store.at_once

    def __str__(self) -> str:
        return self.place

    @abstractmethod
    def failing(self) -> AbstractContextManager[None]:
        """Turns the errors of the engine into ours, with the place."""

    def version(self) -> str:
        """The version of a server; empty for an engine that is a package here."""
        return ""

    def check(self) -> None:
        """Check that the engine answers, and supports the options of the store. Raises InputError."""
        self.version()

    @abstractmethod
    def create(self, name: str, count: int, dimension: int) -> None:
        """Create the collection ``name`` for ``count`` vectors."""

    @abstractmethod
    def insert(self, name: str, start: int, batch: Floats) -> None:
        """Add the rows from the number ``start`` on."""

    @abstractmethod
    def finish(self, name: str, count: int, dimension: int) -> Mapping[str, Any]:
        """Wait until searches use the index. Returns the options in effect, as the engine reports them."""

    @abstractmethod
    def count(self, name: str) -> int | None:
        """The number of rows; None if there is no such collection."""

    def stored(self, name: str, codes: list[int]) -> Mapping[int, Any]:
        """The vectors of these rows that a server has."""
        return {}

    def size(self, name: str) -> int | None:
        """The bytes of the collection with its index, as the engine reports them; None if it does not."""
        return None

    def drop(self, name: str) -> None:  # noqa: B027 - a folder is removed as a whole
        """Remove the collection from a server, if it exists."""

    def prepare(self, name: str) -> None:  # noqa: B027 - most engines need nothing
        """Prepare searches of the collection."""

    @abstractmethod
    def nearest(self, name: str, queries: Floats, depth: int) -> Iterable[tuple[Sequence[int], Floats]]:
        """The numbers and the scores of the nearest rows of each query, as ``Index.search`` has them."""

    def queries_at_once(self, depth: int) -> int:
        """The most queries in a request for ``depth`` hits each."""
        return 256

    @abstractmethod
    def use(self, name: str, vectors: Vectors) -> IndexUse: ...

    @abstractmethod
    def close(self) -> None: ...

    def rows(self, name: str, codes: list[int]) -> Floats:
        """The stored vectors of these rows, in this order."""
        found = self.stored(name, codes) if codes else {}
        return np.array([found[code] for code in codes if code in found], dtype=np.float32)


class EngineIndex(Index):
    """A collection, open for search until ``close``."""

    def __init__(self, engine: Engine, name: str, vectors: Vectors) -> None:
        self.engine, self._name, self.vectors = engine, name, vectors
        engine.prepare(name)

    def search(self, queries: Floats, depth: int) -> Rankings:
        engine, depth = self.engine, min(depth, len(self.vectors), self.engine.most_hits)
        with engine.failing():
            nearest = partial(engine.nearest, self._name)
            return ranked(nearest, queries, depth, engine.queries_at_once(depth), engine.at_once)

    def use(self) -> IndexUse:
        with self.engine.failing():
            return self.engine.use(self._name, self.vectors)

    def close(self) -> None:
        self.engine.close()


class ServerStore(Server, Store):
    """A store whose index is a collection on a server, if `url` names one."""

    connected_by: ClassVar[tuple[str, ...]] = ("url",)
    """The options for reaching the server, including secrets. Without `url` they are refused."""

    unhashed: ClassVar[frozenset[str]] = frozenset({"timeout", "concurrency", "settle_within", *SECRETS})
    """The options that do not change what searches find; secrets must be among them."""

    waits_here: ClassVar[bool] = False
    """True if the time limits also apply without a server."""

    most_rows: ClassVar[int] = 5_000
    """The most vectors in a request."""

    concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    """The maximum number of requests to the server at once while an index is built or searched (pgvector:
    connections)."""

    @model_validator(mode="after")
    def _has_a_server_for_its_options(self) -> Self:
        of_servers = {*self.connected_by, "concurrency", *(() if self.waits_here else _TIME_LIMITS)} - {"url"}
        fields = type(self).model_fields
        ignored = [name for name in sorted(of_servers & set(fields)) if getattr(self, name) != fields[name].default]
        if self.url is None and ignored:
            raise ValueError(f"only a server has {' and '.join(ignored)}; remove it, or set url.")
        return self

    @property
    def address(self) -> str:
        """Kind and URL of the server, for messages."""
        return f"{self.kind} at {self.url}"

    @property
    def at_once(self) -> int:
        """How many batches of vectors or queries are on their way at once; in a folder, one after another."""
        return 1 if self.url is None else self.concurrency

    def rows_at_once(self, dimension: int) -> int:
        """The number of vectors in a request."""
        return max(1, min(self.most_rows, _BYTES_AT_ONCE // max(1, 4 * dimension)))

    @property
    def is_exclusive(self) -> bool:
        return self.url is None

    def hashed_options(self) -> dict[str, Any]:
        depends_on = self.connected_by if self.url is None else ()
        return {name: value for name, value in super().hashed_options().items() if name not in depends_on}

    def check(self) -> None:
        missing = {extra for package, extra in self.packages.items() if installed_version(package) is None}
        if extras := ",".join(sorted(missing)):
            raise InputError(f"store.kind: {self.kind} needs a package: pip install 'ragtrial[{extras}]'.")
        if self.url is not None:
            try:
                with connected(self) as engine:
                    engine.check()
            except StoreError as error:
                raise InputError(*error.faults) from error

    @abstractmethod
    def engine(self, folder: Path | None = None) -> Engine:
        """A new connection: to the server, or without one to the files in ``folder``. Raises StoreServerError."""

    def build(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        name = _EMBEDDED if self.url is None else _name_for(folder)
        known = {"kind": self.kind, "place": self.place, "collection": name}
        if self.url is not None:
            write_text(folder / REMOTE, json.dumps(known))  # first: a killed run leaves nothing unnamed
        with connected(self, folder) as engine:

            def send(rows: slice) -> None:
                engine.insert(name, rows.start, np.asarray(vectors.matrix[rows], dtype=np.float32))

            size = len(vectors), vectors.matrix.shape[1]
            engine.create(name, *size)
            in_batches(send, len(vectors), self.rows_at_once(size[1]), engine.at_once, advance)
            options = dict(engine.finish(name, *size))
            count = engine.count(name)
            if count != len(vectors):
                raise StoreError(f"{engine} kept {count or 0:,} of {len(vectors):,} vectors in {name}.")
            more = {"version": engine.version(), "count": count, "bytes": engine.size(name), "options": options}
            sample = engine.rows(name, _sampled(count))
        if self.url is not None:
            np.save(folder / _SAMPLE, sample)
            write_text(folder / REMOTE, json.dumps({**known, **more}))
        elif options:
            write_text(folder / _BUILT, json.dumps(more))

    def open(self, vectors: Vectors, folder: Path) -> Index:
        name = _EMBEDDED if self.url is None else read_remote(folder)["collection"]
        engine = self.engine(folder)
        try:
            with engine.failing():
                count = engine.count(name)
                if count != len(vectors):
                    why = "is gone" if count is None else f"has {count:,} of {len(vectors):,} vectors"
                    raise StoreError(f"the collection {name} of {engine} {why}. `ragtrial cache verify` removes it.")
                return EngineIndex(engine, name, vectors)
        except BaseException:
            engine.close()
            raise

    def facts(self, folder: Path) -> dict[str, Any]:
        built = folder / _BUILT
        if self.url is not None:
            content = read_remote(folder)
        else:
            content = json.loads(built.read_text()) if built.exists() else {}
        names = ("collection", "version", "bytes", "options")
        return {name: content[name] for name in names if content.get(name) is not None}

    @property
    def place(self) -> dict[str, Any]:
        """Where its collections are: the options for reaching the server but for users and secrets."""
        names = [name for name in self.connected_by if name not in self.unhashed]
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class SettlingStore(ServerStore):
    """A store whose engine builds the index after the last vector was sent."""

    settle_within: Annotated[float, Field(gt=0)] = 3_600.0
    """The time limit for building the index after the last vector was sent, in seconds."""


@dataclass(frozen=True)
class StoreServers:
    """The servers of the ``stores`` of a config, and whether it built an index: ``used`` asks that by the stage's key.

    A file of the cache may be anybody's. It names a collection, and neither where that is nor how it is reached.
    """

    stores: Callable[[], Iterable[Store]]
    used: Callable[[str], bool]

    def find(self, content: Mapping[str, Any], folder: Path) -> RemoteIndex | None:
        for store in self.stores():
            if not isinstance(store, ServerStore) or store.url is None:
                continue
            if content.get("kind") == store.kind and content.get("place") == store.place:
                return RemoteIndex(store, str(content.get("collection")), content.get("count"), folder, self.used)
        return None


@dataclass(frozen=True)
class RemoteIndex:
    """A collection on the server of ``store``, as a file in a stage's ``folder`` names it."""

    store: ServerStore
    name: str
    count: int | None
    folder: Path
    used: Callable[[str], bool]

    def __str__(self) -> str:
        return f"the collection {self.name} of {self.store.address}"

    def drop(self) -> None:
        if not (is_name_for(self.folder, self.name) and self.used(_key_of(self.folder))):
            raise StoreError(f"{self} was not built by this config; if nobody needs it, remove it on the server.")
        with connected(self.store) as engine:
            engine.drop(self.name)

    def damage(self) -> str | None:
        if not is_name_for(self.folder, self.name):
            return "it is the collection of another stage"
        with connected(self.store) as engine:
            count = engine.count(self.name)
            rows = engine.rows(self.name, _sampled(count or 0))
        if count is None:
            return "it is gone"
        if count != self.count:
            return f"it has {count:,} vectors and had {self.count:,}"
        return None if is_same(rows, np.load(self.folder / _SAMPLE)) else "it has other vectors"


@contextmanager
def connected(store: ServerStore, folder: Path | None = None) -> Iterator[Engine]:
    """A connection of ``store``, whose errors become ours within the block, and which is closed when it ends."""
    engine = store.engine(folder)
    try:
        with engine.failing():
            yield engine
    finally:
        engine.close()


def read_remote(folder: Path) -> dict[str, Any]:
    """The record of its collection in the folder of an index. Raises StoreError."""
    try:
        found = load_json((folder / REMOTE).read_bytes())
        content = {**found, "collection": str(found["collection"])}
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise StoreError(f"{folder / REMOTE} cannot be read: {error}") from error
    if not is_name_for(folder, content["collection"]):
        raise StoreError(f"{folder / REMOTE} names {content['collection']}, the collection of another stage.")
    return content


def is_same(stored: Floats, sent: Floats) -> bool:
    """True if stored and sent vectors are equal to the precision of half floats."""
    most = _SAME * max(1e-30, float(np.abs(sent).max(initial=0)))
    return stored.shape == sent.shape and np.allclose(stored, sent, rtol=0, atol=most)


def wait_for(is_done: Callable[[], bool], seconds: float, what: str) -> None:
    """Call ``is_done`` until it returns True. Raises StoreServerError after ``seconds``."""
    end, pause = time.monotonic() + seconds, _PAUSE
    while not is_done():
        if time.monotonic() > end:
            raise StoreServerError(f"{what} is not done after {seconds:,.0f} s; raise store.settle_within.")
        time.sleep(pause)
        pause = min(2 * pause, 1.0)


def _key_of(folder: Path) -> str:
    """The key of the stage that is, or will be, in ``folder``."""
    found = re.search(r"[0-9a-f]{32}", folder.name)
    return found[0] if found else fingerprint(folder.name)


def _name_for(folder: Path) -> str:
    """A collection's name that no other build has: the key of the stage in ``folder``, and random digits."""
    return f"{_PREFIX}{_key_of(folder)[:16]}_{uuid4().hex[:8]}"


def is_name_for(folder: Path, name: str) -> bool:
    """True if ``name`` is the name of a collection for the stage in ``folder``."""
    return re.fullmatch(f"{_PREFIX}{_key_of(folder)[:16]}_[0-9a-f]{{8}}", name) is not None


def _sampled(count: int) -> list[int]:
    """The rows whose vectors ``cache verify`` compares, spread evenly over all."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, _SAMPLED)).astype(int)).tolist() if count else []
