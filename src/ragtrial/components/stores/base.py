"""What every store owes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from ragtrial.options import Options
from ragtrial.rankings import Counts, Floats, Rankings
from ragtrial.registry import Registry

Space = Literal["cosine", "ip", "l2"]


@dataclass(frozen=True, eq=False)
class Vectors:
    """What is indexed: ``matrix`` float32 (units, dimension), which may be mapped from a file larger than memory.

    ``order`` has the place of each unit by document id and position, shape (units,): it breaks ties.
    """

    matrix: Floats
    order: Counts

    def __len__(self) -> int:
        return len(self.matrix)


class Index(Protocol):
    """A built index, open for search."""

    def search(self, queries: Floats, depth: int) -> Rankings:
        """The nearest units of each query, at most ``depth``, best first.

        Scores are larger for nearer units: the cosine, the inner product, or minus the squared distance.
        Raises StoreError.
        """
        ...

    def unreachable(self) -> int:
        """How many units no search can return. Raises StoreError."""
        ...

    def close(self) -> None: ...


class Store(Options):
    """A kind of index, and how it is built."""

    kind: str

    named_by = ("space",)

    advice_for_low_recall: ClassVar[str] = "Set store.kind: exact."
    """The next step where searches miss what is nearest."""

    advice_for_unreachable: ClassVar[str] = "Set store.kind: exact."
    """The next step where no search can return some of the vectors."""

    space: Space = "cosine"
    """The similarity: cosine, ip (inner product) or l2 (squared distance)."""

    @property
    def is_exact(self) -> bool:
        """Whether a search always finds the nearest; two builds then give the same rankings."""
        return False

    @property
    def is_repeatable(self) -> bool:
        """Whether two builds of the same vectors find the same."""
        return self.is_exact

    def vector_bytes(self, dimension: int) -> int:
        """How many bytes of each vector are searched."""
        return 4 * dimension

    def width(self, depth: int) -> int | None:
        """How widely a search for ``depth`` hits looks; None where that changes nothing, as in exact search.

        Searches of one width agree as far as they go; a wider one may find other hits, also among the first.
        """
        return None if self.is_exact else depth

    def bytes_of(self, vectors: int, dimension: int) -> int:
        """About how large the index of so many vectors is on the disk, beside these."""
        return 0

    @abstractmethod
    def build(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        """Build the index in the empty ``folder``, telling ``advance`` how many units were added."""

    @abstractmethod
    def open(self, vectors: Vectors, folder: Path) -> Index:
        """The index that was built in ``folder`` from ``vectors``. Raises StoreError if it is damaged."""


STORES: Registry[type[Store]] = Registry("store")
