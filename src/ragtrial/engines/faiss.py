"""FAISS in this process: builds any index of its factory, and searches existing index files."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from ragtrial.dataset.documents import json_rows
from ragtrial.engines.base import STORES, Index, IndexUse, Space, Vectors, count_unreachable, normalized
from ragtrial.engines.collection import (
    COLLECTIONS,
    PAGE,
    Collection,
    Fact,
    FieldNames,
    Found,
    Item,
    opening,
)
from ragtrial.engines.filters import ALL, Conditions, parsed, passes
from ragtrial.engines.quantization import CodeRows, Quantization, QuantizedIndex, QuantizedStore, Quantizer, read_codes
from ragtrial.errors import Fault, InputError, StoreError, listed
from ragtrial.options import PathText, shown
from ragtrial.rankings import Floats, Rankings, unfilled

if TYPE_CHECKING:
    import faiss

FILE = "index.faiss"
ADD_BATCH = 10_000
_QUERY_BATCH = 256


def search_in_batches(
    index: Any, queries: Any, depth: int, prepared: Callable[[Any], Any], *, gives_distances: bool
) -> Rankings:
    """The nearest vectors of ``index``, at most ``depth``, to each of the ``prepared`` queries.

    Scores are FAISS's own, or minus these where it gives distances.
    """
    depth = min(depth, int(index.ntotal))
    made = unfilled(len(queries), depth)
    for start in range(0, len(queries) if depth else 0, _QUERY_BATCH):
        rows = slice(start, start + _QUERY_BATCH)
        scores, codes = index.search(prepared(queries[rows]), depth)
        is_hit = codes >= 0  # FAISS fills up with -1
        made.codes[rows][is_hit] = codes[is_hit]
        made.scores[rows][is_hit] = (-scores if gives_distances else scores)[is_hit]
    return made


def message_of(error: BaseException) -> str:
    """FAISS's message, without the place in its source code."""
    text = " ".join(str(error).split())
    return re.sub(r"^Error in .*? at \S+: (Error: )?", "", text).rstrip(".") or type(error).__name__


_USUAL_EF = 16


def write_index_of_codes(
    kind: Quantization, factory: str, ef_construction: int | None, folder: Path, dimension: int
) -> None:
    """Build the index of the codes in ``folder``: bits are compared by how many differ, bytes by their product."""
    import faiss

    links = None if factory == "Flat" else int(factory.removeprefix("HNSW"))
    index: Any
    if kind == "binary":
        bits = 8 * -(-dimension // 8)
        index = faiss.IndexBinaryFlat(bits) if links is None else faiss.IndexBinaryHNSW(bits, links)
    else:
        direct: Any
        direct, product = faiss.ScalarQuantizer.QT_8bit_direct_signed, faiss.METRIC_INNER_PRODUCT
        if links is None:
            index = faiss.IndexScalarQuantizer(dimension, direct, product)
        else:
            index = faiss.IndexHNSWSQ(dimension, direct, links, product)
        index.is_trained = True  # the codes are the numbers themselves
    if links is not None and ef_construction is not None:
        index.hnsw.efConstruction = ef_construction
    codes = read_codes(folder)
    for start in range(0, len(codes), ADD_BATCH):
        index.add(_as_input(kind, codes[start : start + ADD_BATCH]))
    write = faiss.write_index_binary if kind == "binary" else faiss.write_index
    write(index, str(folder / FILE))


class FaissCodes:
    """An index of codes, searched by codes."""

    def __init__(self, kind: Quantization, ef_search: int | None, codes: Vectors, folder: Path) -> None:
        import faiss

        self._kind: Quantization = kind
        self._codes = codes.matrix
        path = str(folder / FILE)
        try:
            self._index: Any = faiss.read_index_binary(path) if kind == "binary" else faiss.read_index(path)
        except RuntimeError as error:
            raise StoreError(f"the index {path} cannot be read: {message_of(error)}.") from error
        if self._index.ntotal != len(codes):
            raise StoreError(f"the index {path} has {self._index.ntotal:,} of {len(codes):,} vectors.")
        if hasattr(self._index, "hnsw"):
            self._index.hnsw.efSearch = ef_search or _USUAL_EF

    def search(self, queries: CodeRows, depth: int) -> Rankings:
        """Scores are products of bytes, or minus the number of bits that differ."""
        kind = self._kind
        return search_in_batches(
            self._index, queries, depth, lambda rows: _as_input(kind, rows), gives_distances=kind == "binary"
        )

    def unreachable(self) -> int:
        return count_unreachable(self.search, self._codes)

    def close(self) -> None:
        del self._index


def _as_input(kind: Quantization, codes: CodeRows) -> Any:
    return np.ascontiguousarray(codes, dtype=np.uint8 if kind == "binary" else np.float32)


_OF_CODES = re.compile(r"Flat|HNSW[0-9]+")
_TRIED_DIMENSION = 960
"""The dimension with which a factory string is checked: most numbers of sub-quantizers divide it."""

_TRAINING = 2**27
"""Numbers in the vectors that an index is trained with, about: those of millions would not fit in memory."""


@STORES.register("faiss")
class FaissStore(QuantizedStore):
    """A FAISS index, described by its factory string, in this process."""

    search_options: ClassVar[frozenset[str]] = frozenset({"ef_search", "probes", "rescore"})
    advice_for_low_recall: ClassVar[str] = (
        "Raise store.ef_search or probes, choose a larger store.factory, add ',RFlat' with store.rescore, "
        "or set store.kind: exact."
    )
    advice_for_unreachable: ClassVar[str] = (
        "Raise store.ef_construction, choose a larger store.factory, or set store.kind: exact."
    )
    advice_for_few_hits: ClassVar[str] = "Raise store.probes or ef_search, or set store.kind: exact."

    named_by: ClassVar[tuple[str, ...]] = ("space", "factory")
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
    """Find this many times the requested hits, then rank them again: with the whole vectors (needs `RFlat` or `Refine`
    in the factory; FAISS: k_factor), or with the float query and the codes of `quantize`."""

    @model_validator(mode="after")
    def _can_be_quantized(self) -> Self:
        """With ``quantize`` the codes are made here: the factory must not compress them again."""
        if self.quantize is not None and not _OF_CODES.fullmatch(self.factory):
            raise ValueError(f"factory is {self.factory!r}; with quantize it must be Flat or HNSW and a number.")
        return self.compares_by_products()

    @model_validator(mode="after")
    def _options_are_of_the_factory(self) -> Self:
        needs = {"ef_construction": "HNSW", "ef_search": "HNSW", "probes": "IVF"}
        if self.quantize is None:
            needs["rescore"] = "RFlat|Refine"
        ignored = {
            name: part
            for name, part in needs.items()
            if getattr(self, name) is not None and not re.search(part, self.factory)
        }
        if ignored:
            parts = " and ".join(f"{name} needs {part.replace('|', ' or ')}" for name, part in ignored.items())
            raise ValueError(f"factory {self.factory!r} would ignore {' and '.join(ignored)}: {parts} in it.")
        return self

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

        try:
            faiss.index_factory(_TRIED_DIMENSION, self.factory)
        except RuntimeError as error:
            raise InputError(
                f"store.factory: FAISS does not understand {self.factory!r}: {message_of(error)}."
            ) from error

    def build(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        import faiss

        if self.quantize is not None:
            Quantizer.of(self.quantize, self.space, vectors.matrix).write(vectors.matrix, folder, advance)
            write_index_of_codes(self.quantize, self.factory, self.ef_construction, folder, vectors.matrix.shape[1])
            return
        dimension = vectors.matrix.shape[1]
        metric = faiss.METRIC_L2 if self.space == "l2" else faiss.METRIC_INNER_PRODUCT
        try:
            index = faiss.index_factory(dimension, self.factory, metric)
            if self.ef_construction is not None:
                _graph_of(index).hnsw.efConstruction = self.ef_construction
            if not index.is_trained and len(vectors):
                index.train(_prepared(_training_rows(vectors.matrix), self.space))
            for start in range(0, len(vectors), ADD_BATCH):
                batch = _prepared(vectors.matrix[start : start + ADD_BATCH], self.space)
                index.add(batch)
                advance(len(batch))
            faiss.write_index(index, str(folder / FILE))
        except (RuntimeError, AssertionError, MemoryError) as error:
            what = f"FAISS could not build {self.factory!r} from {len(vectors):,} vectors of {dimension} dimensions"
            raise StoreError(
                f"{what}: {message_of(error)}. Training needs at least as many vectors as there are lists (IVF) or "
                "codes (PQ); choose fewer of them, or set store.kind: exact."
            ) from error

    def open(self, vectors: Vectors, folder: Path) -> Index:
        import faiss

        if self.quantize is not None:
            quantizer = Quantizer.read(self.quantize, self.space, vectors.matrix.shape[1], folder)
            codes = Vectors(read_codes(folder), vectors.order)
            return QuantizedIndex(
                FaissCodes(self.quantize, self.ef_search, codes, folder), quantizer, codes, self.rescore
            )
        path = folder / FILE
        try:
            index = faiss.read_index(str(path))
            if index.ntotal != len(vectors):
                raise StoreError(f"the index {path} has {index.ntotal:,} of {len(vectors):,} vectors.")
            parameters = faiss.ParameterSpace()
            for name, value in self._searched().items():
                parameters.set_index_parameter(index, name, value)
        except RuntimeError as error:
            raise StoreError(f"the index {path} cannot be read: {message_of(error)}.") from error
        return FaissIndex(self, vectors, index)

    def _searched(self) -> dict[str, float]:
        """The chosen search options, under FAISS's names."""
        named = {"efSearch": self.ef_search, "nprobe": self.probes, "k_factor_rf": self.rescore}
        return {name: value for name, value in named.items() if value is not None}


class FaissIndex:
    """An index in memory."""

    def __init__(self, store: FaissStore, vectors: Vectors, index: faiss.Index) -> None:
        self._store = store
        self._vectors = vectors
        self._index = index

    def search(self, queries: Floats, depth: int) -> Rankings:
        space = self._store.space
        return search_in_batches(
            self._index, queries, depth, lambda rows: _prepared(rows, space), gives_distances=space == "l2"
        )

    def unreachable(self) -> int:
        return count_unreachable(self.search, self._vectors.matrix)

    def use(self) -> IndexUse:
        return IndexUse(is_used=True, evidence=f"FAISS searches {self._store.factory}, whatever its size.")

    def close(self) -> None:
        del self._index


def _training_rows(matrix: Floats) -> Floats:
    """All rows, or so many of them, evenly spread, that they fit in memory."""
    return matrix[:: -(-matrix.size // _TRAINING)]


def _prepared(matrix: Floats, space: str) -> Floats:
    """Rows as FAISS compares them: it has no cosine, which is the inner product of vectors of length 1."""
    rows = np.ascontiguousarray(matrix, dtype=np.float32)
    return normalized(rows) if space == "cosine" else rows


def _graph_of(index: faiss.Index) -> faiss.IndexHNSW:
    """The graph in an index: itself, what it wraps, or what assigns vectors to its lists. Raises RuntimeError."""
    import faiss

    found = faiss.downcast_index(index)
    while not hasattr(found, "hnsw"):
        inner = next(
            (getattr(found, name) for name in ("index", "base_index", "quantizer") if hasattr(found, name)), None
        )
        if inner is None:
            raise RuntimeError("there is no graph in it")
        found = faiss.downcast_index(inner)
    return cast("faiss.IndexHNSW", found)


_QUERIES = 256
_MOST_FAULTS = 20
_PICKLED = b"\x80"
_WHY_NO_PICKLE = (
    "a pickle runs code when it is read. Write the items into a JSON Lines file instead, in the order of the vectors"
)


@COLLECTIONS.register("faiss")
class FaissCollectionOptions(FieldNames):
    """A FAISS index file, and the items of its vectors."""

    engine: ClassVar[str] = "FAISS"
    advice_for_low_recall: ClassVar[str] = (
        "Raise ef (HNSW) or nprobe (IVF) of the collection, or build the index with more links or longer codes."
    )
    search_options: ClassVar[frozenset[str]] = frozenset({"ef", "nprobe"})
    named_by = ("path",)
    unhashed: ClassVar[frozenset[str]] = frozenset({"check", "path", "items"})  # their contents are
    packages: ClassVar[Mapping[str, str]] = {"faiss-cpu": "faiss"}

    kind: Literal["faiss"] = "faiss"
    """A FAISS index file, with its items in a JSON Lines file."""

    path: PathText
    """The index file, as written by `faiss.write_index`."""

    items: PathText
    """A JSON Lines file with one row per vector, in the order in which the vectors were added. A row has an id,
    optionally a text, and metadata: all other keys, or the keys below `metadata`."""

    number: str | None = None
    """The row key with the number of the vector in the index (default: rows are in the order of the index)."""

    ef: Annotated[int, Field(ge=1)] | None = None
    """Candidates considered when searching an HNSW index (default: the value in the file)."""

    nprobe: Annotated[int, Field(ge=1)] | None = None
    """Lists to search in an IVF index (default: the value in the file)."""

    @model_validator(mode="after")
    def _is_no_pickle(self) -> Self:
        for name in ("path", "items"):
            if Path(getattr(self, name)).suffix in (".pkl", ".pickle"):
                raise ValueError(f"{name} is {shown(getattr(self, name))}; {_WHY_NO_PICKLE}.")
        return self

    @property
    def title(self) -> str:
        return Path(self.path).name

    @property
    def address(self) -> str:
        return self.path

    def stamp(self) -> object:
        return [_stat(path) for path in (self.path, self.items)]

    def open(self) -> FaissCollection:
        with opening(self.kind):
            return FaissCollection(self)


class FaissCollection(Collection):
    """An index in memory, and its items by the numbers of their vectors."""

    def __init__(self, options: FaissCollectionOptions) -> None:
        import faiss

        super().__init__(options)
        self._faiss = faiss
        self.id = _digest(options.path)
        try:
            self._index = faiss.read_index(options.path)
        except (RuntimeError, MemoryError) as error:  # a damaged file may claim any size
            raise InputError(f"{options.path} is no index of FAISS, or is damaged: {message_of(error)}.") from error
        self._searched = self._innermost()
        self.space = self._space()
        self._set_width(options)
        numbers = self._known_numbers()
        self._items = _read_items(options, None if numbers is None else numbers.tolist(), self.count)
        self._numbers = {item.id: number for number, item in self._items.items()}
        self._prepare_reading()
        self._passing: tuple[str, list[int]] = ("", [])

    def __str__(self) -> str:
        return f"the index {self.options.address}"

    @property
    def count(self) -> int:
        return int(self._index.ntotal)

    @property
    def dimension(self) -> int:
        return int(self._index.d)

    def width(self, depth: int) -> int | None:
        return max(int(self._searched.hnsw.efSearch), depth) if self._is("IndexHNSW") else None

    def use(self) -> IndexUse:
        index = type(self._searched).__name__
        return IndexUse(is_used=True, evidence=f"FAISS searches its {index}, whatever its size.")

    def facts(self) -> Mapping[str, Fact]:
        facts: dict[str, Fact] = {"index": type(self._searched).__name__}
        if self._is("IndexHNSW"):
            facts["ef"] = int(self._searched.hnsw.efSearch)
        if self._is("IndexIVF"):
            facts["nprobe"] = int(self._searched.nprobe)
        return facts

    def pages(self, conditions: Conditions = ALL) -> Iterator[list[Item]]:
        numbers = list(self._items) if conditions.where is None else self._numbers_that_pass(conditions)
        for start in range(0, len(numbers), PAGE):
            yield [self._items[number] for number in numbers[start : start + PAGE]]

    def get(self, ids: Sequence[str]) -> tuple[list[Item], Floats]:
        numbers = [self._numbers[name] for name in ids if name in self._numbers]
        vectors = np.empty((len(numbers), self.dimension), dtype=np.float32)
        for row, number in enumerate(numbers):
            vectors[row] = self._vectors_of.reconstruct(self._places.get(number, number))
        return [self._items[number] for number in numbers], vectors

    def nearest(self, vectors: Floats, depth: int, conditions: Conditions = ALL) -> list[Found]:
        depth, chosen = max(1, min(depth, self.count)), None
        if conditions.where is not None:
            numbers = self._numbers_that_pass(conditions)
            if not numbers:
                return [Found([], np.empty(0, dtype=np.float32)) for _ in vectors]
            chosen = self._faiss.IDSelectorBatch(np.array(numbers, dtype=np.int64))
        parameters = self._parameters(chosen) if chosen is not None else None
        made = []
        for start in range(0, len(vectors), _QUERIES):
            block = np.ascontiguousarray(vectors[start : start + _QUERIES], dtype=np.float32)
            try:
                distances, found = self._index.search(block, depth, params=parameters)
            except RuntimeError as error:
                raise StoreError(f"{self} cannot be searched: {message_of(error)}.") from error
            made += [self._found(*row) for row in zip(found, distances, strict=True)]
        return made

    def ask_for(self, conditions: Conditions) -> None:
        try:
            self.nearest(np.zeros((1, self.dimension), dtype=np.float32), 1, conditions)
        except StoreError as error:
            raise ValueError(f"{type(self._searched).__name__} of FAISS takes no conditions") from error

    def _found(self, numbers: npt.NDArray[np.int64], distances: Floats) -> Found:
        is_hit = numbers >= 0  # FAISS fills up with -1
        scores = -distances[is_hit] if self.space == "l2" else distances[is_hit]
        if not np.isfinite(scores).all():
            raise StoreError(f"{self} gives distances that are not finite numbers ({self.space}).")
        return Found([self._items[number] for number in numbers[is_hit].tolist()], scores)

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

    def _space(self) -> Space:
        metrics: Mapping[int, Space] = {self._faiss.METRIC_INNER_PRODUCT: "ip", self._faiss.METRIC_L2: "l2"}
        metric = int(self._index.metric_type)
        if metric not in metrics:
            raise InputError(f"{self} compares by FAISS's metric {metric}; it must be the inner product or L2.")
        return metrics[metric]

    def _set_width(self, options: FaissCollectionOptions) -> None:
        """Set the search options. Raises InputError for one that this type of index does not have."""
        given = {"ef": (options.ef, "IndexHNSW"), "nprobe": (options.nprobe, "IndexIVF")}
        for name, (value, needed) in given.items():
            if value is not None and not self._is(needed):
                found = type(self._searched).__name__
                raise InputError(f"{self} is of the type {found}, which has no {name} ({needed} has); remove it.")
        if options.ef is not None:
            self._searched.hnsw.efSearch = options.ef
        if options.nprobe is not None:
            self._searched.nprobe = options.nprobe

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

    # --- its vectors

    def _known_numbers(self) -> npt.NDArray[np.int64] | None:
        """The numbers of its vectors in the order they were added; None if that order is not known."""
        faiss = self._faiss
        if isinstance(self._index, faiss.IndexIDMap):
            return np.asarray(faiss.vector_to_array(self._index.id_map), dtype=np.int64)
        own = np.arange(self.count, dtype=np.int64)
        if not self._is("IndexIVF"):
            return own
        return own if np.array_equal(np.sort(self._numbers_in_lists()), own) else None

    def _numbers_in_lists(self) -> npt.NDArray[np.int64]:
        lists = self._searched.invlists
        sizes = [int(lists.list_size(one)) for one in range(int(lists.nlist))]
        found = [self._faiss.rev_swig_ptr(lists.get_ids(one), size).copy() for one, size in enumerate(sizes) if size]
        return np.concatenate([*found, np.empty(0, dtype=np.int64)])

    def _prepare_reading(self) -> None:
        """Prepare reading single vectors. Raises InputError for an index that cannot return them."""
        faiss, self._vectors_of, self._places = self._faiss, self._index, dict[int, int]()
        if isinstance(self._index, faiss.IndexIDMap):
            # Reading a vector from an IndexIDMap ends the process: read from the index inside.
            self._vectors_of = faiss.downcast_index(self._index.index)
            numbers = faiss.vector_to_array(self._index.id_map).tolist()
            self._places = {number: place for place, number in enumerate(numbers)}
        if self._is("IndexIVF"):
            self._searched.set_direct_map_type(faiss.DirectMap.Hashtable)
        first = next(iter(self._items), None)
        try:
            self._vectors_of.reconstruct(self._places.get(first, first)) if first is not None else None
        except RuntimeError as error:
            found = type(self._searched).__name__
            message = f"{self} is of the type {found}, which gives no vectors back, so that they cannot be compared"
            raise InputError(f"{message}: {message_of(error)}.") from error


def _read_items(options: FaissCollectionOptions, numbers: Sequence[int] | None, count: int) -> dict[int, Item]:
    """The items by the numbers of their vectors; ``numbers`` are those of the index, in order, None if not known.

    Raises InputError with every fault and its place.
    """
    path, faults, found = Path(options.items), list[Fault](), dict[int, Item]()
    _refuse_pickle(path)
    if numbers is None and options.number is None:
        raise InputError(
            f"{options.path} has numbers of its own, in no known order: set collection.number to the key in the rows "
            f"of {path} that holds the number of a row's vector."
        )
    lines: dict[str, int] = {}
    for place, (line, row) in enumerate(json_rows(path, faults)):
        try:
            item, number = _item(row, options), _number(row, place, options, numbers)
            if item.id in lines or number in found:
                what = f"the id {item.id!r}" if item.id in lines else f"the number {number}"
                faults.append(Fault(str(path), line, message=f"has {what} of an earlier row; each must be unique."))
            lines[item.id], found[number] = line, item
        except ValueError as error:
            faults.append(Fault(str(path), line, message=f"{error}."))
    if not faults and len(found) != count:
        faults.append(Fault(str(path), message=f"has {len(found):,} rows; {options.path} has {count:,} vectors."))
    if not faults and numbers is not None and (unknown := found.keys() - set(numbers)):
        some = listed(map(str, sorted(unknown)), 3)
        faults.append(Fault(str(path), message=f"has numbers that {options.path} does not have: {some}."))
    if faults:
        raise InputError(*faults[:_MOST_FAULTS])
    return found


def _item(row: Mapping[str, Any], options: FaissCollectionOptions) -> Item:
    """The item of a row. Raises ValueError."""
    name, text = row.get(options.id), row.get(options.text)
    for key, value, types in ((options.id, name, (str, int)), (options.text, text, (str, type(None)))):
        if type(value) not in types or (key == options.id and value == ""):
            expected = "a text or a whole number" if int in types else "a text"
            raise ValueError(f"has {key!r} {shown(value)}; it must be {expected}")
    below = row.get("metadata")
    if isinstance(below, dict):
        return Item(str(name), below, text)
    own = (options.id, options.text, options.number)
    return Item(str(name), {key: value for key, value in row.items() if key not in own}, text)


def _number(row: Mapping[str, Any], place: int, options: FaissCollectionOptions, numbers: Sequence[int] | None) -> int:
    """The number in the index of the vector of the row at ``place``. Raises ValueError."""
    if options.number is None:
        return numbers[place] if numbers is not None and place < len(numbers) else -1 - place
    number = row.get(options.number)
    if type(number) is not int:
        raise ValueError(f"has {options.number!r} {shown(number)}; it must be a whole number")
    return number


def _refuse_pickle(path: Path) -> None:
    try:
        with path.open("rb") as file:
            is_pickle = file.read(1) == _PICKLED
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    if is_pickle:
        raise InputError(f"{path} is a pickle; {_WHY_NO_PICKLE}.")


def _digest(path: str) -> str:
    """The hash of a file, which must be no pickle. Raises InputError."""
    _refuse_pickle(Path(path))
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _stat(path: str) -> tuple[int, int] | None:
    found = Path(path).stat() if Path(path).exists() else None
    return (found.st_size, found.st_mtime_ns) if found is not None else None
