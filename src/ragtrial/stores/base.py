"""What every store owes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from ragtrial.options import Options
from ragtrial.rankings import Counts, Floats, Rankings
from ragtrial.registry import Registry

Space = Literal["cosine", "ip", "l2"]


@dataclass(frozen=True, eq=False)
class Vectors:
    """What is indexed: ``matrix`` float32 (units, dimension); ``ids`` of the units; and their ``order`` when sorted.

    ``order`` has the place of each unit by document id and position, shape (units,): it breaks ties.
    """

    matrix: Floats
    ids: list[str]
    order: Counts


class Index(Protocol):
    """A built index, open for search."""

    def search(self, queries: Floats, depth: int) -> Rankings:
        """The nearest units of each query, at most ``depth``, best first.

        Scores are larger for nearer units: the cosine, the inner product, or minus the squared distance.
        Raises StoreError.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """What the report says of the index: its id, its options, its size."""
        ...

    def close(self) -> None: ...


class Store(Options):
    """A kind of index, and how it is built."""

    kind: str

    space: Space = "cosine"
    """What near means: cosine, ip (inner product) or l2 (squared distance)."""

    @property
    def is_exact(self) -> bool:
        """Whether a search always finds the nearest; two builds then give the same rankings."""
        return False

    @abstractmethod
    def build(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        """Build the index in the empty ``folder``, telling ``advance`` how many units were added."""

    def built_id(self, folder: Path) -> str:
        """What names the rankings of the index in ``folder``: two builds that may differ have two names."""
        return folder.name

    @abstractmethod
    def open(self, vectors: Vectors, folder: Path) -> Index:
        """The index that was built in ``folder`` from ``vectors``. Raises StoreError if it is damaged."""


STORES: Registry[type[Store]] = Registry("store")
