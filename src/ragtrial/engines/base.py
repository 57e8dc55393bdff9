"""The parts that all engines share: vectors, spaces, the interface of a store and its index, and errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, JsonValue

from ragtrial.engines.batching import in_batches
from ragtrial.errors import RagtrialError
from ragtrial.options import Options
from ragtrial.rankings import Counts, Floats, Rankings, unfilled
from ragtrial.registry import Registry


@contextmanager
def failing_as(
    made: Callable[[BaseException], RagtrialError],
    is_of_engine: Callable[[BaseException], bool] = lambda error: isinstance(error, Exception),
) -> Iterator[None]:
    """Raise ``made(error)`` instead of an error of the engine; our own errors pass as they are."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, RagtrialError) or not is_of_engine(error):
            raise
        raise made(error) from error


def one_line(error: BaseException) -> str:
    """The message of ``error`` in one line; the name of its class if it has none."""
    return " ".join(str(error).split()) or type(error).__name__


Space = Literal["cosine", "ip", "l2"]

SECRETS = frozenset({"api_key", "headers", "password", "token"})
"""The options of all engines that identify a user to a server: no fingerprint and no file has them."""

_SAFE_LENGTHS = (1e-15, 1e15)


@dataclass(frozen=True, eq=False)
class Vectors:
    """The vectors to index: ``matrix`` float32 (units, dimension), which may be mapped from a file larger than memory.

    ``order`` has the place of each unit by document id and position, shape (units,): it breaks ties.
    """

    matrix: Floats
    order: Counts

    def __len__(self) -> int:
        return len(self.matrix)


@dataclass(frozen=True)
class IndexUse:
    """The use of an index by searches, and the evidence; ``is_used`` is None if the engine does not show it.

    An engine that scans all vectors answers as exact search does: a measurement then says nothing about the index.
    """

    is_used: bool | None
    evidence: str
    """One sentence, such as: EXPLAIN names the index."""


class OtherIndex(Options):
    """Any index of the engine, with parameters that are passed on as they are."""

    kind: Literal["other"] = "other"
    """Any kind of index that the engine has, by its name there."""

    type: Annotated[str, Field(pattern=r"^\w+$")]
    """The kind in the engine's words, like `DISKANN` (Milvus) or `ivfflat` (pgvector)."""

    build: dict[str, JsonValue] = Field(default={})
    """The engine's parameters of the build, like `{nlist: 128}` (Milvus) or `{lists: 100}` (pgvector)."""

    search: dict[str, JsonValue] = Field(default={})
    """The engine's parameters of a search, like `{nprobe: 8}` (Milvus) or `{ivfflat.probes: 8}` (pgvector)."""


class FlatIndex(Options):
    """No index."""

    kind: Literal["flat"] = "flat"
    """No index: every vector is compared, which is exact."""


class Index(ABC):
    """A built index of ``vectors``, open for search."""

    vectors: Vectors

    @abstractmethod
    def search(self, queries: Floats, depth: int) -> Rankings:
        """The nearest units of each query, at most ``depth``, best first; fewer if the engine returns fewer.

        Scores are larger for nearer units: the cosine, the inner product, or minus the squared distance.
        Raises StoreError.
        """

    @abstractmethod
    def use(self) -> IndexUse:
        """The use of the index, on the engine's own evidence. Raises StoreError."""

    def close(self) -> None:  # noqa: B027 - an index in memory has nothing to close
        """Release its resources; it cannot be used after that."""


class Store(Options):
    """A kind of index, and how it is built."""

    kind: str

    named_by: ClassVar[tuple[str, ...]] = ("space",)

    advice_for_low_recall: ClassVar[str] = "Set store.kind: exact."
    """The next step where searches miss near vectors."""

    advice_for_unused: ClassVar[str] = "Set store.kind: exact, which is what is measured."
    """The next step where the engine does not use its index."""

    advice_for_few_hits: ClassVar[str] = "Set store.kind: exact."
    """The next step where searches return fewer hits than requested."""

    is_repeatable: ClassVar[bool] = False
    """True if two indexes of the same vectors return the same hits."""

    search_options: ClassVar[frozenset[str]] = frozenset()
    """The options, dotted, that change only searches: settings that differ in these alone share one index."""

    space: Space = "cosine"
    """The similarity: cosine, ip (inner product) or l2 (squared distance)."""

    @property
    def is_exact(self) -> bool:
        """True if searches compare all vectors: nothing is built, and no near vector is missed."""
        return False

    @property
    def is_exclusive(self) -> bool:
        """True if only one process may have the index open."""
        return not self.is_repeatable

    def vector_bytes(self, dimension: int) -> int:
        """The bytes of each vector that a search reads."""
        return 4 * dimension

    def width(self, depth: int) -> int | None:
        """How many candidates a search for ``depth`` hits considers; None if their number changes nothing.

        Searches of the same width return the same hits, as far as they go; a wider one may return others, also first.
        """
        return None if self.is_exact else depth

    def check(self) -> None:
        """Check, before any work is done, that its package is installed and its server answers. Raises InputError."""

    @abstractmethod
    def build(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        """Build the index in the empty ``folder``, and wait until searches use it.

        ``advance`` is called with the number of units that were added. Raises StoreError.
        """

    def facts(self, folder: Path) -> dict[str, Any]:
        """The facts about the index in ``folder`` that the report shows next to its options: JSON values."""
        return {}

    @abstractmethod
    def open(self, vectors: Vectors, folder: Path) -> Index:
        """The index that was built in ``folder`` from ``vectors``. Raises StoreError if it is damaged."""


STORES: Registry[type[Store]] = Registry("store", __package__, Store)


def ranked(
    nearest: Callable[[Floats, int], Iterable[tuple[Sequence[int], Floats]]],
    queries: Floats,
    depth: int,
    size: int,
    at_once: int = 1,
) -> Rankings:
    """Rank by an engine: ``nearest`` returns the units and scores of each query of a batch, best first.

    A batch has at most ``size`` queries; ``at_once`` of them are searched at a time.
    """
    rankings = unfilled(len(queries), depth)

    def search(rows: slice) -> None:
        batch = np.ascontiguousarray(queries[rows], dtype=np.float32)
        for row, (codes, scores) in enumerate(nearest(batch, depth), rows.start):
            rankings.codes[row, : len(codes)] = codes
            rankings.scores[row, : len(codes)] = scores

    in_batches(search, len(queries) if depth else 0, size, at_once)
    return rankings


def normalized(vectors: Floats) -> Floats:
    """Every row scaled to length 1; a row of zeros stays one."""
    lengths = lengths_of(vectors)[:, np.newaxis]
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def lengths_of(vectors: Floats) -> npt.NDArray[np.floating[Any]]:
    """The length of every row; in double precision where squares are too large or too small for a float32."""
    with np.errstate(over="ignore", under="ignore"):
        lengths = np.linalg.norm(vectors, axis=1)
    odd = ~((lengths > _SAFE_LENGTHS[0]) & (lengths < _SAFE_LENGTHS[1]))
    if odd.any():
        lengths = lengths.astype(np.float64)
        lengths[odd] = np.linalg.norm(vectors[odd].astype(np.float64), axis=1)
    return np.asarray(lengths)
