"""The interface of an existing collection: its options, and the open collection."""

from __future__ import annotations

import hashlib
import heapq
import json
import shutil
import tempfile
import threading
import weakref
import zlib
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from ragtrial.engines.base import SECRETS, IndexUse, Space
from ragtrial.engines.filters import ALL, Conditions, TypeName, comparisons, parsed, type_of
from ragtrial.engines.servers import Server
from ragtrial.errors import InputError, StoreError, did_you_mean, listed
from ragtrial.options import Options, PathText
from ragtrial.rankings import Floats
from ragtrial.records import ReportWarning
from ragtrial.registry import Registry

PAGE = 2_000
"""The most items to read at once."""

_HITS = 20_000
"""The most hits to request at once, with their texts: a few megabytes."""

_HASHED_VECTORS = 10_000
_SAMPLED_ITEMS = 200_000

DEFAULT_KIND = "chroma"
"""The kind of a collection without `kind`."""

_TRIES = 3
"""How often a folder that is being written to is copied again."""

Fact = int | float | str | bool | None
Stamp = tuple[tuple[str, int, int], ...]
"""Names, sizes and times of files."""


class CollectionOptions(Options, ABC):
    """The location of a collection, and the meaning of its metadata. Each engine has a class."""

    engine: ClassVar[str]
    """The engine's name, for messages."""

    own_operators: ClassVar[tuple[str, ...]] = ()
    """Operators of `where` that only this engine has."""

    searches_texts: ClassVar[bool] = False
    """True if it has `where_document`."""

    filter_type: ClassVar[type[str | dict[str, Any]] | None] = None
    """The type of `filter`, a condition in the engine's own syntax: str or dict; None if the engine has none."""

    advice_for_few_hits: ClassVar[str] = ""
    """The next step where searches return fewer hits than requested (default: the advice for low recall)."""

    advice_for_unused: ClassVar[str] = "The scores are those of exact search."
    """The next step where the engine does not use its index."""

    advice_for_low_recall: ClassVar[str] = ""
    """The next step where searches miss near vectors."""

    search_options: ClassVar[frozenset[str]] = frozenset()
    """Options that change only how the engine searches: exact search depends on none of them."""

    unhashed: ClassVar[frozenset[str]] = frozenset({"check", "timeout", *SECRETS})

    kind: str

    document: str | None = None
    """The metadata key with the id of an item's document, or with a path that ends in it (default: the item's own
    id)."""

    start: str | None = None
    """The metadata key with the position of an item's first character in the normalised text of its document, from 0.
    Without it, ragtrial searches the document for the item's text."""

    end: str | None = None
    """The metadata key with the position after an item's last character (default: `start` plus the length of the item's
    text)."""

    check: bool = True
    """Embed a few stored texts again before the run, and refuse vectors that the embedder does not reproduce."""

    @model_validator(mode="after")
    def _has_a_start(self) -> Self:
        if self.end is not None and self.start is None:
            raise ValueError("end needs start; give both, or start alone.")
        return self

    @property
    @abstractmethod
    def title(self) -> str:
        """Its name in the report and, with ``address``, in messages."""

    @property
    def address(self) -> str:
        """Its path, or the URL of its server, without a password: for messages."""
        return str(getattr(self, "path", None) or getattr(self, "url", ""))

    def files(self) -> Stamp | None:
        """The stamp of its files, which changes when they are written; None on a server.

        Raises InputError if they are not there.
        """
        return None

    def open(self) -> Collection:
        """The collection, open for reading. Raises InputError if it is not there or cannot be reached.

        Nothing is created or written. Its resources are released when nothing uses it any more.
        """
        with ExitStack() as stack:
            try:
                collection = self.connect(stack)
            except ImportError as error:
                raise InputError(f"kind: {self.kind} needs a package: pip install 'ragtrial[{self.kind}]'.") from error
            except StoreError as error:
                raise InputError(*error.faults) from error
            collection.close = weakref.finalize(collection, stack.pop_all().close)
            return collection

    @abstractmethod
    def connect(self, stack: ExitStack) -> Collection:
        """The collection, whose resources ``stack`` releases. Raises InputError or StoreError."""

    def warnings(self, setting: str, facts: Mapping[str, Fact]) -> Iterator[ReportWarning]:
        """Warnings about its searches that only this kind has."""
        yield from ()


class NamedCollectionOptions(CollectionOptions):
    """A collection that has a name within its engine."""

    name: Annotated[str, Field(min_length=1)]
    """The collection's name."""

    @property
    def title(self) -> str:
        return self.name

    def missing(self, names: Sequence[str]) -> InputError:
        """The error for a missing collection; ``names`` are the existing collections."""
        missing = f"there is no collection {self.name!r} at {self.address}.{did_you_mean(self.name, names)}"
        return InputError(f"{missing} Collections: {listed(sorted(names)) or 'none'}.")


class FolderCollectionOptions(Server, NamedCollectionOptions):
    """A collection in a folder of an embedded engine (`path`), or on a server (`url`)."""

    serving: ClassVar[str] = ""
    """The command that serves a folder, for messages, like " (`chroma run`)"."""

    server_options: ClassVar[tuple[str, ...]] = ("timeout",)
    """The options that only a server has."""

    path: PathText | None = None
    """The folder of an embedded database. ragtrial searches a copy, because opening a folder changes its files."""

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        if (self.path is None) == (self.url is None):
            raise ValueError("it must have either path (a folder) or url (a server).")
        ignored = [name for name in self.server_options if name in self.model_fields_set]
        if self.path is not None and ignored:
            raise ValueError(f"only a server has {' and '.join(ignored)}; remove it, or set url instead of path.")
        return self

    def files(self) -> Stamp | None:
        return None if self.path is None else stamp_of(Path(self.path), self.files_in(Path(self.path)))

    @abstractmethod
    def files_in(self, folder: Path) -> Iterable[Path]:
        """The files of a collection in ``folder``. Raises InputError for a folder that is not of this engine."""

    def copied(self, path: str, stack: ExitStack) -> Path:
        """A copy of its folder ``path``, which ``stack`` removes; the folder is not written to.

        Raises InputError if it is being written to, and StoreError if it cannot be copied.
        """
        folder, advice = Path(path), f"serve the folder{self.serving} and set url instead of path"
        try:
            temporary = tempfile.TemporaryDirectory(prefix="ragtrial-copy-", ignore_cleanup_errors=True)
            target = Path(stack.enter_context(temporary)) / "copy.db"
            for _ in range(_TRIES):
                before = self.files() or ()
                shutil.rmtree(target, ignore_errors=True)
                target.mkdir()
                for name, *_ in before:
                    (target / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(folder / name, target / name)
                if self.files() == before:
                    return target
        except OSError as error:
            raise StoreError(
                f"{folder} cannot be copied to {tempfile.gettempdir()}, where it is searched: {error}. Set TMPDIR to "
                f"a place with more room, or {advice}."
            ) from error
        raise InputError(f"{folder} is being written to, so it cannot be copied. Stop what writes, or {advice}.")


def stamp_of(folder: Path, files: Iterable[Path]) -> Stamp:
    """The stamp of ``files`` below ``folder``, which changes when they are written."""
    stats = ((path, path.stat()) for path in sorted(files) if path.is_file())
    return tuple((str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns) for path, stat in stats)


class FieldNames(CollectionOptions):
    """A collection whose fields have names that its owner chose."""

    id: Annotated[str, Field(min_length=1)] = "id"
    """The field that holds an item's id."""

    text: Annotated[str, Field(min_length=1)] = "text"
    """The field that holds an item's text."""


class VectorFieldNames(FieldNames):
    """A collection whose items may have several fields of vectors."""

    vector: Annotated[str, Field(min_length=1)] = "vector"
    """The field that holds an item's vector."""


class Item(NamedTuple):
    """An item of a collection; its metadata, JSON values, are empty, and its text is None, where it has none."""

    id: str
    metadata: Mapping[str, Any]
    text: str | None


class Found(NamedTuple):
    """The items nearest to a vector, best first, and their scores (items,): larger is nearer."""

    items: Sequence[Item]
    scores: Floats


class Collection(ABC):
    """A collection, open for reading. Nothing is written to it.

    Failures of the engine are raised as StoreError, without a password.
    """

    id: str = ""
    """Distinguishes it from another collection with the same name and content; empty if the engine has no such id."""

    space: Space

    count: int
    """The number of items."""

    dimension: int
    """The dimension of its vectors; 0 if it is empty and does not say."""

    queries_at_once: ClassVar[int] = 256
    """The most queries in a request."""

    most_hits: ClassVar[int] = 2**31 - 1
    """The most hits that its engine returns."""

    ef: int | None = 0
    """The fewest candidates that a search considers; None if their number does not depend on the requested hits."""

    index_inputs: Mapping[str, Any] = {}
    """The inputs of its rankings that describe its index, as JSON values."""

    facts: Mapping[str, Fact] = {}
    """The facts in the report that only this kind has: a server's version, the kind of index."""

    made_with: str = ""
    """The model of its vectors, if the collection names one."""

    close: Callable[[], object]
    """Releases its resources; it cannot be used after that."""

    def __init__(self, options: CollectionOptions) -> None:
        self.options = options

    def __str__(self) -> str:
        return f"the collection {self.options.title!r} at {self.options.address}"

    # --- different for each kind

    @abstractmethod
    def failing(self) -> AbstractContextManager[None]:
        """Turns the errors of the engine into StoreError."""

    @abstractmethod
    def read(self, conditions: Conditions) -> Iterator[list[Item]]:
        """As ``pages``; a page may be empty."""

    @abstractmethod
    def fetch(self, ids: Sequence[str]) -> tuple[list[Item], Sequence[Any] | Floats]:
        """As ``get``, for at least one id; vectors are in any form that NumPy reads."""

    @abstractmethod
    def search(self, queries: Floats, depth: int, conditions: Conditions) -> Iterable[Found]:
        """The items nearest to each query of a batch, at most ``depth``, in the engine's order."""

    def use(self) -> IndexUse:
        """The use of its index by searches, on the engine's own evidence."""
        return IndexUse(is_used=None, evidence="")

    def rejection(self, error: StoreError) -> str | None:
        """The engine's reason if it failed because it rejected conditions; None for any other failure."""
        return str(error)

    # --- the same for all kinds

    def width(self, depth: int) -> int | None:
        """How many candidates a search for ``depth`` hits considers; see ``Store.width``."""
        return None if self.ef is None else max(self.ef, depth)

    def inputs(self) -> Mapping[str, Any]:
        """The inputs of its rankings other than the options, as JSON values: its content and its index."""
        return {"id": self.id, "content": self.content, **self.index_inputs}

    def pages(self, conditions: Conditions = ALL) -> Iterator[list[Item]]:
        """All items that meet the conditions, each once, at most PAGE at a time; no page is empty."""
        with self.failing():
            yield from filter(None, self.read(conditions))

    def get(self, ids: Sequence[str]) -> tuple[list[Item], Floats]:
        """The existing items of these ids, at most PAGE, in any order; and their vectors (items, dimension)."""
        with self.failing():
            items, rows = self.fetch(ids) if ids else ([], ())
        return items, np.asarray(rows, dtype=np.float32).reshape(len(items), self.dimension)

    def nearest(self, vectors: Floats, depth: int, conditions: Conditions = ALL) -> list[Found]:
        """The items nearest to each vector, at most ``depth``, in the engine's order."""
        depth = max(1, min(depth, self.count, self.most_hits))
        step = max(1, min(self.queries_at_once, _HITS // depth))
        batches = (np.ascontiguousarray(vectors[at : at + step], np.float32) for at in range(0, len(vectors), step))
        with self.failing():
            rows = [row for batch in batches for row in self.search(batch, depth, conditions)]
        if not all(np.isfinite(row.scores).all() for row in rows):
            raise StoreError(f"{self} gives distances that are not finite numbers ({self.space}).")
        return rows

    def check_conditions(self, conditions: Conditions) -> None:
        """Raises ValueError for conditions that no item can meet, with the place and the expected value."""
        options = self.options
        if conditions.where is not None:
            for one in comparisons(parsed(conditions.where, options.own_operators)):
                known = self.fields.get(one.field, frozenset())
                if not known:
                    near = did_you_mean(one.field, self.fields)
                    raise ValueError(f"where.{one.field}: no item has the metadata {one.field!r}.{near}")
                asked = type_of(one.values[0])
                if asked not in known and one.operator not in options.own_operators:
                    has = " or ".join(sorted(known))
                    raise ValueError(f"where.{one.field} is compared with a {asked}; in all items it is a {has}")
        if conditions.where_document is not None and not options.searches_texts:
            raise ValueError(f"where_document: {options.engine} has no conditions on texts; remove it")
        if conditions != ALL:
            try:
                self.nearest(np.ones((1, self.dimension), dtype=np.float32), 1, conditions)
            except StoreError as error:
                if (reason := self.rejection(error)) is None:
                    raise
                raise ValueError(reason) from error

    @cached_property
    def _survey(self) -> tuple[str, Mapping[str, frozenset[TypeName]]]:
        every = max(1, -(-self.count // _HASHED_VECTORS))
        types: defaultdict[str, set[TypeName]] = defaultdict(set)
        total = 0
        for items in self.pages():
            rows = [json.dumps(item, sort_keys=True).encode() for item in items]
            for item in items:
                for field, value in item.metadata.items():
                    if value is not None:
                        types[field].add(type_of(value))
            names = [item.id for item in items if zlib.crc32(item.id.encode("utf-8", "replace")) % every == 0]
            if names:
                rows += [
                    item.id.encode("utf-8", "replace") + b"\0" + np.asarray(vector, dtype=np.float32).tobytes()
                    for item, vector in zip(*self.get(names), strict=True)
                ]
            total += sum(int.from_bytes(hashlib.blake2b(row, digest_size=16).digest(), "big") for row in rows)
        return f"{total % 2**128:032x}", {field: frozenset(found) for field, found in types.items()}

    @property
    def content(self) -> str:
        """A hash of all ids, metadata and texts and of up to about ten thousand vectors, independent of their order."""
        return self._survey[0]

    @property
    def fields(self) -> Mapping[str, frozenset[TypeName]]:
        """The metadata keys of the items, each with the types of its values; an empty value has none."""
        return self._survey[1]

    def sample(self, size: int, conditions: Conditions = ALL) -> tuple[list[str], Floats]:
        """At most ``size`` stored texts and their vectors, drawn by hashes of ids; fewer where few have a text."""
        items = (item for page in self.pages(conditions) for item in page)
        with_text = (item.id for item in islice(items, _SAMPLED_ITEMS) if item.text and item.text.strip())
        drawn, vectors = self.get(heapq.nsmallest(size, with_text, key=_hash))
        order = sorted(range(len(drawn)), key=lambda at: drawn[at].id)
        texts = [drawn[at].text or "" for at in order]
        return texts, vectors[order].reshape(len(texts), self.dimension)


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


COLLECTIONS: Registry[type[CollectionOptions]] = Registry("collection", __package__, CollectionOptions)

_OPENED: list[tuple[CollectionOptions, object, Collection]] = []
"""The options of a place, its stamp, and the collection that was opened there."""
_LOCK = threading.RLock()


def open_collection(options: CollectionOptions, *, afresh: bool = False) -> Collection:
    """The collection, opened once in this process for all options of its metadata.

    ``afresh`` checks whether it has changed: files are read again if they differ, a server is asked again. Raises
    InputError if it is not there or cannot be reached.
    """
    with _LOCK:
        place = options.model_copy(update={"document": None, "start": None, "end": None, "check": True})
        held = next((one for one in _OPENED if one[0] == place), None)
        stamp = options.files() if afresh or held is None else None
        if held is None or (afresh and (stamp is None or held[1] != stamp)):
            _OPENED[:] = [one for one in _OPENED if one is not held]
            held = place, stamp, place.open()
            _OPENED.append(held)
        return held[2]
