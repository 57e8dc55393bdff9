"""What chunkers owe that cut by meaning: what must be embedded, and the chunks once it is."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from ragtrial.components.chunkers.base import LengthFunction, MeasuredChunker
from ragtrial.rankings import Floats
from ragtrial.records import Span

Vectors = npt.NDArray[np.float64]


class EmbeddingChunker(MeasuredChunker):
    """A chunker that decides by the vectors of parts of the text, which the setting's own embedder makes.

    ``group(text, ruler, vectors)`` is called with the vectors of ``texts(text, ruler)``, in that order.
    """

    needs_embedder: ClassVar[bool] = True

    @abstractmethod
    def texts(self, text: str, ruler: LengthFunction) -> list[str]:
        """What of ``text`` must be embedded; nothing where there is nothing to decide."""

    @abstractmethod
    def group(self, text: str, ruler: LengthFunction, vectors: Floats) -> list[Span]:
        """The spans of the chunks, by the vectors of ``texts``: float32 (texts, dimension)."""

    def split(self, text: str, ruler: LengthFunction) -> NoReturn:
        """Raises TypeError: vectors are needed, see ``group``."""
        raise TypeError(f"the chunker {self.kind!r} needs vectors: embed texts() and call group()")


def directions(vectors: npt.NDArray[np.floating[Any]]) -> Vectors:
    """Every row scaled to length 1 in double precision; a row of zeros stays one."""
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True) if len(rows) else np.ones((0, 1))
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))
