"""Indexes on a server: collections that are named here, filled once, checked when they are opened, and dropped."""

from __future__ import annotations

import json
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol, Self
from uuid import uuid4

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from ragtrial.cache.atomic import write_text
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.remote import REMOTE
from ragtrial.cache.untrusted import load_json
from ragtrial.engines.base import Index, Store, Vectors
from ragtrial.errors import InputError, StoreError, StoreServerError
from ragtrial.options import parts_of
from ragtrial.rankings import Floats
from ragtrial.registry import installed_version

_PREFIX = "ragtrial_"
_SAMPLED = 100
_SAMPLE = "sample.npy"
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


class Engine(Protocol):
    """A connection to a server. The rows of a collection have the numbers of the vectors, from 0.

    Every method raises StoreServerError if the server is away, refuses or times out, and StoreError if the request
    fails.
    """

    def version(self) -> str: ...

    def fill(self, name: str, vectors: Vectors, advance: Callable[[int], None]) -> Mapping[str, Any]:
        """Create the collection ``name`` with all vectors, and wait until searches use its index.

        Returns the options in effect, as the engine reports them.
        """
        ...

    def count(self, name: str) -> int | None:
        """The number of rows; None if there is no such collection."""
        ...

    def rows(self, name: str, codes: list[int]) -> Floats:
        """The stored vectors of these rows, in this order."""
        ...

    def size(self, name: str) -> int | None:
        """The bytes of the collection with its index, as the engine reports them; None if it does not."""
        ...

    def drop(self, name: str) -> None:
        """Remove the collection, if it exists."""
        ...

    def open(self, name: str, vectors: Vectors) -> Index: ...

    def ping(self) -> None:
        """Send the smallest request there is: its time is the network's share of a search."""
        ...

    def close(self) -> None: ...


class ServerStore(Store):
    """A store whose index is a collection on a server, if `url` names one."""

    connected_by: ClassVar[tuple[str, ...]] = ("url",)
    """The options for reaching the server, including secrets. Without `url` they are refused."""

    unhashed: ClassVar[frozenset[str]] = frozenset({"timeout", "concurrency"})
    """The options that do not change what searches find; secrets must be among them."""

    waits_here: ClassVar[bool] = False
    """True if the time limits also apply without a server."""

    most_rows: ClassVar[int] = 5_000
    """The most vectors in a request."""

    url: ServerUrl | None = None
    """The URL of a server, without a password."""

    timeout: Annotated[float, Field(gt=0)] = 60.0
    """The time limit for a request, in seconds."""

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

    def identity(self) -> dict[str, Any]:
        reached_by = self.connected_by if self.url is None else ()
        return {name: value for name, value in super().identity().items() if name not in reached_by}

    def check(self) -> None:
        missing = {extra for package, extra in self.packages.items() if installed_version(package) is None}
        if missing:
            extras = ",".join(sorted(missing))
            raise InputError(f"store.kind: {self.kind} needs a package: pip install 'ragtrial[{extras}]'.")
        if self.url is not None:
            try:
                with connected(self) as engine:
                    engine.version()
            except StoreServerError as error:
                raise InputError(*error.faults) from error

    @abstractmethod
    def engine(self) -> Engine:
        """A new connection to the server. Raises StoreServerError."""

    def build_here(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        """Build the index in the ``folder``, without a server."""
        raise StoreError(f"store.kind: {self.kind} needs a server; set store.url.")

    def open_here(self, vectors: Vectors, folder: Path) -> Index:
        """The index that was built in the ``folder``."""
        raise StoreError(f"store.kind: {self.kind} needs a server; set store.url.")

    def build(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        if self.url is None:
            self.build_here(vectors, folder, advance)
            return
        name = _name_for(folder)
        known = {"kind": self.kind, "place": self.place, "collection": name}
        write_text(folder / REMOTE, json.dumps(known))  # first: a killed run leaves nothing unnamed
        with connected(self) as engine:
            options = dict(engine.fill(name, vectors, advance))
            count = engine.count(name)
            if count != len(vectors):
                raise StoreError(f"{self.address} kept {count or 0:,} of {len(vectors):,} vectors in {name}.")
            codes = _sampled(len(vectors))
            sample = engine.rows(name, codes) if codes else np.empty((0, 0), dtype=np.float32)
            np.save(folder / _SAMPLE, sample)
            more = {"version": engine.version(), "count": count, "bytes": engine.size(name), "options": options}
        write_text(folder / REMOTE, json.dumps({**known, **more}))

    def open(self, vectors: Vectors, folder: Path) -> Index:
        if self.url is None:
            return self.open_here(vectors, folder)
        name = read_remote(folder)["collection"]
        engine = self.engine()
        try:
            count = engine.count(name)
            if count != len(vectors):
                why = "is gone" if count is None else f"has {count:,} of {len(vectors):,} vectors"
                raise StoreError(f"the collection {name} of {self.address} {why}.")
            return engine.open(name, vectors)
        except BaseException:
            engine.close()
            raise

    def facts(self, folder: Path) -> dict[str, Any]:
        if self.url is None:
            return {}
        names = ("collection", "version", "bytes", "options")
        return {name: value for name, value in read_remote(folder).items() if name in names and value is not None}

    @property
    def place(self) -> dict[str, Any]:
        """Where its collections are: the options for reaching the server but for users and secrets."""
        names = [name for name in self.connected_by if name not in self.unhashed]
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class SettlingStore(ServerStore):
    """A store whose engine builds the index after the last vector was sent."""

    unhashed: ClassVar[frozenset[str]] = ServerStore.unhashed | {"settle_within"}

    settle_within: Annotated[float, Field(gt=0)] = 3_600.0
    """The time limit for building the index after the last vector was sent, in seconds."""


class StoreServers:
    """The servers of the ``stores`` of a config, and whether it built an index: ``used`` asks that by the stage's key.

    A file of the cache may be anybody's. It names a collection, and neither where that is nor how it is reached.
    """

    def __init__(self, stores: Callable[[], Iterable[Store]], used: Callable[[str], bool]) -> None:
        self._stores = stores
        self._used = used

    def find(self, content: Mapping[str, Any], folder: Path) -> RemoteIndex | None:
        for store in self._stores():
            if not isinstance(store, ServerStore) or store.url is None:
                continue
            if content.get("kind") == store.kind and content.get("place") == store.place:
                return RemoteIndex(store, content, folder, self._used)
        return None


class RemoteIndex:
    """A collection on the server of ``store``, as a file in a stage's ``folder`` names it."""

    def __init__(
        self, store: ServerStore, content: Mapping[str, Any], folder: Path, used: Callable[[str], bool]
    ) -> None:
        self._store = store
        self._name = str(content.get("collection"))
        self._count = content.get("count")
        self._folder = folder
        self._used = used

    def __str__(self) -> str:
        return f"the collection {self._name} of {self._store.address}"

    def drop(self) -> None:
        if not (is_name_for(self._folder, self._name) and self._used(_key_of(self._folder))):
            raise StoreError(f"{self} was not built by this config; if nobody needs it, remove it on the server.")
        with connected(self._store) as engine:
            engine.drop(self._name)

    def damage(self) -> str | None:
        if not is_name_for(self._folder, self._name):
            return "it is the collection of another stage"
        with connected(self._store) as engine:
            count = engine.count(self._name)
            if count is None:
                return "it is gone"
            if count != self._count:
                return f"it has {count:,} vectors and had {self._count:,}"
            sample = np.load(self._folder / _SAMPLE)
            is_sound = not count or is_same(engine.rows(self._name, _sampled(count)), sample)
            return None if is_sound else "it has other vectors"


@contextmanager
def connected(store: ServerStore) -> Iterator[Engine]:
    """A connection to the server of ``store``, closed when the block ends."""
    engine = store.engine()
    try:
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
    if stored.shape != sent.shape:
        return False
    return bool(np.allclose(stored, sent, rtol=0, atol=_SAME * max(1e-30, float(np.abs(sent).max(initial=0)))))


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
