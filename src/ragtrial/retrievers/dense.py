"""Nearest vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ragtrial.rankings import Rankings
from ragtrial.retrievers.base import RETRIEVERS, Materials, OpenRetriever, Retriever


@RETRIEVERS.register("dense")
class DenseRetriever(Retriever):
    """The chunks whose vectors are nearest to the query's."""

    kind: Literal["dense"] = "dense"
    """The chunks whose vectors are nearest to the query's."""

    def open(self, materials: Materials) -> OpenRetriever:
        return _OpenDense(materials)


@dataclass(frozen=True)
class _OpenDense:
    materials: Materials

    def search(self, queries: Sequence[str], depth: int) -> Rankings:
        return self.materials.index().search(self.materials.embed_queries(queries), depth)
