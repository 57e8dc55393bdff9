"""An existing FAISS index file, and a JSON Lines file with a row for each of its vectors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from ragtrial.dataset.documents import json_rows
from ragtrial.engines.base import IndexUse, Space
from ragtrial.engines.collection import (
    COLLECTIONS,
    PAGE,
    Collection,
    Fact,
    FieldNames,
    Found,
    Item,
    opening,
    stamp_of,
)
from ragtrial.engines.faiss import message_of
from ragtrial.engines.filters import ALL, Conditions, parsed, passes
from ragtrial.errors import Fault, InputError, StoreError, listed
from ragtrial.options import PathText, shown
from ragtrial.rankings import Floats

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
        return [stamp_of(Path(path).parent, [Path(path)]) for path in (self.path, self.items)]

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

    def search(self, queries: Floats, depth: int, conditions: Conditions) -> Iterator[Found]:
        parameters = None
        if conditions.where is not None:
            numbers = self._numbers_that_pass(conditions)
            if not numbers:
                yield from (Found([], np.empty(0, dtype=np.float32)) for _ in queries)
                return
            parameters = self._parameters(self._faiss.IDSelectorBatch(np.array(numbers, dtype=np.int64)))
        try:
            distances, found = self._index.search(queries, depth, params=parameters)
        except RuntimeError as error:
            raise StoreError(f"{self} cannot be searched: {message_of(error)}.") from error
        for row, near in zip(found, distances, strict=True):
            is_hit = row >= 0  # FAISS fills up with -1
            scores = -near[is_hit] if self.space == "l2" else near[is_hit]
            yield Found([self._items[number] for number in row[is_hit].tolist()], scores)

    def validate(self, conditions: Conditions) -> None:
        try:
            self.nearest(np.zeros((1, self.dimension), dtype=np.float32), 1, conditions)
        except StoreError as error:
            raise ValueError(f"{type(self._searched).__name__} of FAISS takes no conditions") from error

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
        """Set the search options. Raises InputError for an option that this type of index does not have."""
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
    """The items by the numbers of their vectors; ``numbers`` are in the order of the index, None if unknown.

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
