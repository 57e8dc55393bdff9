"""FAISS in this process: any index of its factory, such as flat, graphs, inverted lists, product quantization."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
from pydantic import Field, model_validator

from ragtrial.engines.base import STORES, Index, IndexUse, Vectors, count_unreachable, normalized
from ragtrial.engines.quantization import CodeRows, Quantization, QuantizedIndex, QuantizedStore, Quantizer, read_codes
from ragtrial.errors import InputError, StoreError
from ragtrial.rankings import Floats, Rankings, unfilled

if TYPE_CHECKING:
    import faiss

FILE = "index.faiss"
ADD_BATCH = 10_000
_QUERY_BATCH = 256


class FaissIndex:
    """An index in memory. ``prepared`` turns queries into the form of the indexed rows.

    Scores are FAISS's own, or minus these where it gives distances.
    """

    def __init__(
        self, index: Any, matrix: Any, prepared: Callable[[Any], Any], evidence: str, *, gives_distances: bool
    ) -> None:
        self._index, self._matrix, self._prepared, self._evidence = index, matrix, prepared, evidence
        self._sign = -1 if gives_distances else 1

    @classmethod
    def read(
        cls,
        path: Path,
        matrix: Any,
        prepared: Callable[[Any], Any],
        evidence: str = "",
        *,
        binary: bool,
        gives_distances: bool,
    ) -> FaissIndex:
        """The index that was written to ``path`` from ``matrix``. Raises StoreError."""
        import faiss

        try:
            index: Any = faiss.read_index_binary(str(path)) if binary else faiss.read_index(str(path))
        except RuntimeError as error:
            raise StoreError(f"the index {path} cannot be read: {message_of(error)}.") from error
        if index.ntotal != len(matrix):
            raise StoreError(f"the index {path} has {index.ntotal:,} of {len(matrix):,} vectors.")
        return cls(index, matrix, prepared, evidence, gives_distances=gives_distances)

    def search(self, queries: Any, depth: int) -> Rankings:
        depth = min(depth, int(self._index.ntotal))
        rankings = unfilled(len(queries), depth)
        for start in range(0, len(queries) if depth else 0, _QUERY_BATCH):
            rows = slice(start, start + _QUERY_BATCH)
            scores, codes = self._index.search(self._prepared(queries[rows]), depth)
            is_hit = codes >= 0  # FAISS fills up with -1
            rankings.codes[rows][is_hit] = codes[is_hit]
            rankings.scores[rows][is_hit] = self._sign * scores[is_hit]
        return rankings

    def configure(self, options: Mapping[str, float]) -> None:
        """Set search options, under FAISS's names. Raises RuntimeError."""
        import faiss

        parameters = faiss.ParameterSpace()
        for name, value in options.items():
            parameters.set_index_parameter(self._index, name, value)

    def set_width(self, candidates: int) -> None:
        """Set the candidates considered while searching a graph of codes, which FAISS's options do not reach."""
        self._index.hnsw.efSearch = candidates

    def unreachable(self) -> int:
        return count_unreachable(self.search, self._matrix)

    def use(self) -> IndexUse:
        return IndexUse(is_used=True, evidence=self._evidence)

    def close(self) -> None:
        del self._index


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


def _as_input(kind: Quantization, codes: CodeRows) -> Any:
    return np.ascontiguousarray(codes, dtype=np.uint8 if kind == "binary" else np.float32)


_OF_CODES = re.compile(r"Flat|HNSW[0-9]+")
_TRIED_DIMENSION = 960
"""The dimension with which a factory string is checked: most numbers of sub-quantizers divide it."""

_TRAINING = 2**27
"""About how many numbers an index is trained with: millions of vectors would not fit in memory."""


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

        if self.quantize is not None:
            quantizer = Quantizer.read(self.quantize, self.space, vectors.matrix.shape[1], folder)
            codes, kind = Vectors(read_codes(folder), vectors.order), self.quantize
            is_binary = kind == "binary"
            inner = FaissIndex.read(
                folder / FILE,
                codes.matrix,
                lambda rows: _as_input(kind, rows),
                binary=is_binary,
                gives_distances=is_binary,
            )
            if "HNSW" in self.factory:
                inner.set_width(self.ef_search or _USUAL_EF)
            return QuantizedIndex(inner, quantizer, codes, self.rescore)
        space, path = self.space, folder / FILE
        index = FaissIndex.read(
            path,
            vectors.matrix,
            lambda rows: _prepared(rows, space),
            f"FAISS searches {self.factory}, whatever its size.",
            binary=False,
            gives_distances=space == "l2",
        )
        try:
            index.configure(self._searched())
        except RuntimeError as error:
            raise StoreError(f"the index {path} cannot be read: {message_of(error)}.") from error
        return index

    def _searched(self) -> dict[str, float]:
        """The chosen search options, under FAISS's names."""
        named = {"efSearch": self.ef_search, "nprobe": self.probes, "k_factor_rf": self.rescore}
        return {name: value for name, value in named.items() if value is not None}


def _training_rows(matrix: Floats) -> Floats:
    """All rows, or evenly spread rows that fit in memory."""
    return matrix[:: -(-matrix.size // _TRAINING)]


def _prepared(matrix: Floats, space: str) -> Floats:
    """Rows as FAISS compares them: it has no cosine, which is the inner product of vectors of length 1."""
    rows = np.ascontiguousarray(matrix, dtype=np.float32)
    return normalized(rows) if space == "cosine" else rows


def _graph_of(index: faiss.Index) -> faiss.IndexHNSW:
    """The graph in an index: the index itself, the wrapped index or the quantizer of its lists. Raises RuntimeError."""
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
