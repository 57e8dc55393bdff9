"""FAISS in this process: indexes of any factory that are built, and index files that exist."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field

from ragtrial.dataset.documents import json_rows
from ragtrial.engines.base import STORES, Index, IndexUse, Space, Store, Vectors, failing_as, normalized, ranked
from ragtrial.engines.collection import COLLECTIONS, PAGE, Collection, Fact, FieldNames, Found, Item, Stamp, stamp_of
from ragtrial.engines.filters import Conditions, parsed, passes
from ragtrial.errors import Fault, InputError, RagtrialError, StoreError
from ragtrial.options import PathText, shown
from ragtrial.rankings import Floats, Rankings

_FILE = "index.faiss"
_ADDED_AT_ONCE = 10_000
_QUERY_BATCH = 256
_TRIED_DIMENSION = 960
"""The dimension with which a factory string is checked: most numbers of sub-quantizers divide it."""

_TRAINING = 2**27
"""About how many numbers an index is trained with: millions of vectors would not fit in memory."""

_BUILT = {"ef_construction": "efConstruction"}
_SEARCHED = {"ef_search": "efSearch", "probes": "nprobe", "rescore": "k_factor_rf"}
"""The options of a build and of a search, and their names in FAISS."""


def _message_of(error: BaseException) -> str:
    """FAISS's message, without the place in its source code."""
    text = " ".join(str(error).split())
    return re.sub(r"^Error in .*? at \S+: (Error: )?", "", text).rstrip(".") or type(error).__name__


def _failing(what: str, kind: type[RagtrialError] = StoreError) -> AbstractContextManager[None]:
    """Turns the errors of FAISS into an error of the ``kind``: ``what`` failed."""
    kinds = (RuntimeError, AssertionError, MemoryError)  # a damaged file may claim any size
    return failing_as(lambda error: kind(f"{what}: {_message_of(error)}."), lambda error: isinstance(error, kinds))


@STORES.register("faiss")
class FaissStore(Store):
    """A FAISS index, described by its factory string, in this process."""

    search_options = frozenset({"ef_search", "probes", "rescore"})
    advice_for_low_recall = (
        "Raise store.ef_search or probes, choose a larger store.factory, add ',RFlat' with store.rescore, "
        "or set store.kind: exact."
    )
    advice_for_few_hits = "Raise store.probes or ef_search, or set store.kind: exact."

    named_by = ("space", "factory")
    packages: ClassVar[Mapping[str, str]] = {"faiss-cpu": "faiss"}

    kind: Literal["faiss"] = "faiss"
    """FAISS in this process: graphs, inverted lists, scalar and product quantization."""

    factory: Annotated[str, Field(min_length=1)] = "HNSW32"
    """The index, in the syntax of FAISS's `index_factory`, like `Flat`, `HNSW32`, `IVF256,Flat`, `IVF256,SQ8`,
    `IVF256,PQ48`, `SQ8,RFlat`."""

    ef_construction: Annotated[int, Field(ge=1)] | None = None
    """Candidates considered while building a graph; needs `HNSW` in the factory (FAISS's default: 40)."""

    ef_search: Annotated[int, Field(ge=1)] | None = None
    """Candidates considered while searching a graph; needs `HNSW` in the factory (FAISS's default: 16)."""

    probes: Annotated[int, Field(ge=1)] | None = None
    """Inverted lists to search (FAISS: nprobe); needs `IVF` in the factory (FAISS's default: 1)."""

    rescore: Annotated[int, Field(ge=1)] | None = None
    """Find this many times the requested hits, then rank them again with the whole vectors; needs `RFlat` or `Refine`
    in the factory (FAISS: k_factor)."""

    @property
    def is_exclusive(self) -> bool:
        return False

    def width(self, depth: int) -> int | None:
        if "HNSW" in self.factory and "IVF" not in self.factory:
            return max(self.ef_search or 16, depth * (self.rescore or 1))
        return None if self.rescore is None else depth * self.rescore

    def check(self) -> None:
        if importlib.util.find_spec("faiss") is None:
            raise InputError("store.kind: faiss needs a package: pip install 'ragtrial[faiss]'.")
        import faiss

        with _failing(f"store.factory: FAISS does not understand {self.factory!r}", InputError):
            index = faiss.index_factory(_TRIED_DIMENSION, self.factory)
        self._configure(index, _BUILT | _SEARCHED)

    def _configure(self, index: Any, names: Mapping[str, str]) -> None:
        options = {names[key]: value for key, value in self.model_dump(include=set(names)).items()}
        _configure(index, f"store.factory {self.factory!r}", options)

    def build(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        import faiss

        count, dimension = vectors.matrix.shape
        metric = faiss.METRIC_L2 if self.space == "l2" else faiss.METRIC_INNER_PRODUCT
        with _failing(
            f"FAISS could not build {self.factory!r} from {count:,} vectors of {dimension} dimensions (training needs "
            "at least as many vectors as there are lists (IVF) or codes (PQ); choose fewer of them, or set store.kind: "
            "exact)"
        ):
            index = faiss.index_factory(dimension, self.factory, metric)
            self._configure(index, _BUILT)
            if not index.is_trained and count:
                # All rows, or evenly spread rows that fit in memory.
                index.train(self.prepared(vectors.matrix[:: -(-vectors.matrix.size // _TRAINING)]))
            for start in range(0, count, _ADDED_AT_ONCE):
                batch = self.prepared(vectors.matrix[start : start + _ADDED_AT_ONCE])
                index.add(batch)
                advance(len(batch))
            faiss.write_index(index, str(folder / _FILE))

    def open(self, vectors: Vectors, folder: Path) -> Index:
        import faiss

        path = folder / _FILE
        with _failing(f"the index {path} cannot be read"):
            index: Any = faiss.read_index(str(path))
        self._configure(index, _SEARCHED)
        if index.ntotal != len(vectors):
            raise StoreError(f"the index {path} has {index.ntotal:,} of {len(vectors):,} vectors.")
        return FaissIndex(self, index, vectors)

    def prepared(self, matrix: Floats) -> Floats:
        """Rows as FAISS compares them: it has no cosine, which is the inner product of vectors of length 1."""
        rows = np.ascontiguousarray(matrix, dtype=np.float32)
        return normalized(rows) if self.space == "cosine" else rows


def _configure(index: Any, what: str, options: Mapping[str, float | None]) -> None:
    """Set options of an index by their names in FAISS. Raises InputError if ``what`` lacks the option."""
    import faiss

    for name, value in options.items():
        try:
            if value is not None:
                faiss.ParameterSpace().set_index_parameter(index, name, value)
        except RuntimeError as error:
            raise InputError(f"{what} has no option {name}, which is set to {value}; remove it.") from error


class FaissIndex(Index):
    """An index in memory."""

    def __init__(self, store: FaissStore, index: Any, vectors: Vectors) -> None:
        self._store, self._index, self.vectors = store, index, vectors

    def search(self, queries: Floats, depth: int) -> Rankings:
        def nearest(batch: Floats, limit: int) -> Iterator[tuple[Any, Floats]]:
            distances, numbers = self._index.search(self._store.prepared(batch), limit)
            return _hits(distances, numbers, self._store.space)

        return ranked(nearest, queries, min(depth, len(self.vectors)), _QUERY_BATCH)

    def use(self) -> IndexUse:
        return IndexUse(is_used=True, evidence=f"FAISS searches {self._store.factory}, whatever its size.")

    def close(self) -> None:
        del self._index


def _hits(distances: Floats, numbers: Any, space: str) -> Iterator[tuple[Any, Floats]]:
    """The numbers and the scores of the hits of each query; FAISS fills rows up with -1."""
    for row, near in zip(numbers, -distances if space == "l2" else distances, strict=True):
        yield row[row >= 0], near[row >= 0]


_MOST_FAULTS = 20


def _no_pickle(path: str) -> str:
    if Path(path).suffix in (".pkl", ".pickle"):
        message = f"is {shown(path)}; a pickle runs code when it is read. Write the items into a JSON Lines file."
        raise ValueError(message)
    return path


FilePath = Annotated[PathText, AfterValidator(_no_pickle)]


@COLLECTIONS.register("faiss")
class FaissCollectionOptions(FieldNames):
    """A FAISS index file, and the items of its vectors."""

    engine = "FAISS"
    advice_for_low_recall = (
        "Raise ef (HNSW) or nprobe (IVF) of the collection, or build the index with more links or longer codes."
    )
    search_options = frozenset({"ef", "nprobe"})
    named_by = ("path",)
    unhashed = FieldNames.unhashed | {"path", "items"}  # their contents are hashed
    packages: ClassVar[Mapping[str, str]] = {"faiss-cpu": "faiss"}

    kind: Literal["faiss"]
    """A FAISS index file, with its items in a JSON Lines file."""

    path: FilePath
    """The index file, as written by `faiss.write_index`."""

    items: FilePath
    """A JSON Lines file with one row per vector, in the order in which the vectors were added. A row has an id,
    optionally a text, and metadata: all other keys, or the keys below `metadata`."""

    ef: Annotated[int, Field(ge=1)] | None = None
    """Candidates considered when searching an HNSW index (default: the value in the file)."""

    nprobe: Annotated[int, Field(ge=1)] | None = None
    """Lists to search in an IVF index (default: the value in the file)."""

    @property
    def title(self) -> str:
        return Path(self.path).name

    def files(self) -> Stamp | None:
        return tuple(stamp for path in (self.path, self.items) for stamp in stamp_of(Path(path).parent, [Path(path)]))

    def connect(self, stack: ExitStack) -> FaissCollection:
        return FaissCollection(self)


class FaissCollection(Collection):
    """An index in memory, and its items by the numbers of their vectors."""

    options: FaissCollectionOptions
    facts: dict[str, Fact]

    def __init__(self, options: FaissCollectionOptions) -> None:
        import faiss

        super().__init__(options)
        self._faiss = faiss
        try:
            with Path(options.path).open("rb") as file:
                self.id = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
        except OSError as error:
            raise InputError(f"{options.path} cannot be read: {error.strerror}.") from error
        with _failing(f"{options.path} is no index of FAISS, or is damaged"):
            self._index = faiss.read_index(options.path)
        self.count, self.dimension = int(self._index.ntotal), int(self._index.d)
        self._searched = self._innermost()
        self._kind = type(self._searched).__name__
        metrics: Mapping[int, Space] = {faiss.METRIC_INNER_PRODUCT: "ip", faiss.METRIC_L2: "l2"}
        metric = int(self._index.metric_type)
        if metric not in metrics:
            raise InputError(f"{self} compares by FAISS's metric {metric}; it must be the inner product or L2.")
        self.space = metrics[metric]
        _configure(self._index, f"{self} of the type {self._kind}", {"efSearch": options.ef, "nprobe": options.nprobe})
        self.facts, self.ef = {"index": self._kind}, None
        if self._is("IndexHNSW"):
            self.ef = int(self._searched.hnsw.efSearch)
            self.facts |= {"ef": self.ef}
        if self._is("IndexIVF"):
            self.facts |= {"nprobe": int(self._searched.nprobe)}
        self._items = _read_items(options, self._prepare_reading())
        self._numbers = {item.id: number for number, item in self._items.items()}
        self._passing: tuple[str, list[int]] = ("", [])
        try:
            self.get(list(self._numbers)[:1])
        except StoreError as error:
            raise InputError(f"{self} is of the type {self._kind}, which gives no vectors back: {error}") from error

    def __str__(self) -> str:
        return f"the index {self.options.address}"

    def failing(self) -> AbstractContextManager[None]:
        return _failing(f"{self} cannot be searched")

    def use(self) -> IndexUse:
        return IndexUse(is_used=True, evidence=f"FAISS searches its {self._kind}, whatever its size.")

    def read(self, conditions: Conditions) -> Iterator[list[Item]]:
        numbers = list(self._items) if conditions.where is None else self._numbers_that_pass(conditions)
        for start in range(0, len(numbers), PAGE):
            yield [self._items[number] for number in numbers[start : start + PAGE]]

    def fetch(self, ids: Sequence[str]) -> tuple[list[Item], list[Any]]:
        numbers = [self._numbers[name] for name in ids if name in self._numbers]
        vectors = [self._vectors_of.reconstruct(self._places.get(number, number)) for number in numbers]
        return [self._items[number] for number in numbers], vectors

    def search(self, queries: Floats, depth: int, conditions: Conditions) -> Iterator[Found]:
        parameters = None
        if conditions.where is not None:
            numbers = self._numbers_that_pass(conditions)
            if not numbers:
                yield from (Found([], np.empty(0, dtype=np.float32)) for _ in queries)
                return
            parameters = self._parameters(self._faiss.IDSelectorBatch(np.array(numbers, dtype=np.int64)))
        distances, found = self._index.search(queries, depth, params=parameters)
        for row, scores in _hits(distances, found, self.space):
            yield Found([self._items[number] for number in row.tolist()], scores)

    def _numbers_that_pass(self, conditions: Conditions) -> list[int]:
        key = json.dumps(conditions.where, sort_keys=True)
        known, passing = self._passing
        if known != key:
            condition = parsed(conditions.where)
            passing = [number for number, item in self._items.items() if passes(condition, item.metadata)]
            self._passing = key, passing
        return passing

    # --- what kind of index it is

    def _is(self, name: str) -> bool:
        return isinstance(self._searched, getattr(self._faiss, name))

    def _innermost(self) -> Any:
        """The index that searches, without wrappers that only renumber, transform or refine."""
        faiss, index = self._faiss, self._index
        while isinstance(index, (faiss.IndexIDMap, faiss.IndexPreTransform, faiss.IndexRefine)):
            inner = index.base_index if isinstance(index, faiss.IndexRefine) else index.index
            index = faiss.downcast_index(inner)
        return index

    def _parameters(self, chosen: Any) -> Any:
        """Search parameters that restrict a search to the ``chosen`` vectors."""
        faiss = self._faiss
        if self._is("IndexHNSW"):
            made = faiss.SearchParametersHNSW(sel=chosen, efSearch=self._searched.hnsw.efSearch)
        elif self._is("IndexIVF"):
            made = faiss.SearchParametersIVF(sel=chosen, nprobe=self._searched.nprobe)
        else:
            made = faiss.SearchParameters(sel=chosen)
        if isinstance(self._index, faiss.IndexPreTransform):
            return faiss.SearchParametersPreTransform(index_params=made)
        if isinstance(self._index, faiss.IndexRefine):
            return faiss.IndexRefineSearchParameters(base_index_params=made)
        return made

    def _prepare_reading(self) -> Sequence[int]:
        """Prepare reading single vectors. Returns their numbers in the order they were added."""
        faiss, self._vectors_of, self._places = self._faiss, self._index, dict[int, int]()
        if self._is("IndexIVF"):
            try:
                self._searched.make_direct_map()
            except RuntimeError as error:
                raise InputError(
                    f"{self} has vectors with numbers of its own, in no known order: build it in an IndexIDMap."
                ) from error
        if not isinstance(self._index, faiss.IndexIDMap):
            return range(self.count)
        # Reading a vector from an IndexIDMap ends the process: read from the index inside.
        self._vectors_of = faiss.downcast_index(self._index.index)
        numbers: list[int] = faiss.vector_to_array(self._index.id_map).tolist()
        self._places = {number: place for place, number in enumerate(numbers)}
        return numbers


def _read_items(options: FaissCollectionOptions, numbers: Sequence[int]) -> dict[int, Item]:
    """The items by the numbers of their vectors, which are in the order of the index.

    Raises InputError with every fault and its place.
    """
    path, faults, items = Path(options.items), list[Fault](), dict[str, Item]()
    for line, row in json_rows(path, faults):
        try:
            item = _item(row, options)
            if item.id in items:
                raise ValueError(f"has the id {item.id!r} of an earlier row; each must be unique")
            items[item.id] = item
        except ValueError as error:
            faults.append(Fault(str(path), line, message=f"{error}."))
    if not faults and len(items) != len(numbers):
        message = f"has {len(items):,} rows; {options.path} has {len(numbers):,} vectors."
        faults.append(Fault(str(path), message=message))
    InputError.raise_any(faults[:_MOST_FAULTS])
    return dict(zip(numbers, items.values(), strict=True))


def _item(row: Mapping[str, Any], options: FaissCollectionOptions) -> Item:
    """The item of a row. Raises ValueError."""
    name, text = row.get(options.id), row.get(options.text)
    if type(name) not in (str, int) or name == "":
        raise ValueError(f"has {options.id!r} {shown(name)}; it must be a text or a whole number")
    if text is not None and not isinstance(text, str):
        raise ValueError(f"has {options.text!r} {shown(text)}; it must be a text")
    metadata = row.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {key: value for key, value in row.items() if key not in (options.id, options.text)}
    return Item(str(name), metadata, text)
