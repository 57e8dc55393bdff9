"""Nearest vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ragtrial.records import Question
from ragtrial.retrievers.base import RETRIEVERS, Candidates, Materials, OpenRetriever, VectorRetriever


@RETRIEVERS.register("dense")
class DenseRetriever(VectorRetriever):
    """The chunks whose vectors are nearest to the query's."""

    kind: Literal["dense"] = "dense"
    """The chunks whose vectors are nearest to the query's."""

    def open(self, materials: Materials) -> OpenRetriever:
        return _OpenDense(materials)


@dataclass(frozen=True)
class _OpenDense:
    materials: Materials

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        vectors = self.materials.embed_queries([question.text for question in questions])
        return Candidates.of(self.materials.chunks(), self.materials.index().search(vectors, depth))
