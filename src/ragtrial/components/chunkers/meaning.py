"""The chunker that cuts by the vectors of sentences."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from ragtrial.components.chunkers.base import CHUNKERS, EmbeddingChunker, Measure, Ruler, chunks_of
from ragtrial.components.chunkers.sentences import sentences
from ragtrial.components.chunkers.structured import Outline
from ragtrial.rankings import Doubles, Floats
from ragtrial.records import Span

Threshold = Literal["percentile", "standard_deviation", "interquartile", "gradient"]

_SAME_DISTANCE = 1e-12
"""Vectors that differ by less are equal: the difference is of their rounding."""

_AMOUNTS = {"percentile": 95.0, "standard_deviation": 3.0, "interquartile": 1.5, "gradient": 95.0}


@CHUNKERS.register("semantic")
class SemanticChunker(EmbeddingChunker):
    """Cuts where neighbouring sentences, each embedded with its surroundings, lie far apart.

    The distance is 1 - cosine. The threshold is one of a document's own distances: with ``threshold`` as LangChain's
    SemanticChunker defines it (after Kamradt 2023), with ``target`` as Smith & Troynikov 2024 modified it (who cut
    between pieces of 50 tokens instead of sentences, each with three on both sides). A document with fewer than two
    distances (three sentences) has no gradient, and one of a single sentence nothing to cut.
    """

    named_by = ("threshold",)
    revision = 4

    kind: Literal["semantic"] = "semantic"
    """Between sentences whose meaning differs most, by the setting's own embedder; of any length, unless `size` is
    given."""

    buffer: Annotated[int, Field(ge=0)] = 1
    """How many sentences on each side are embedded together with each sentence."""

    threshold: Threshold = "percentile"
    """Where to cut: at distances above the percentile `amount` of a document's distances; above their mean
    and `amount` standard deviations; above their mean and `amount` interquartile ranges; or those whose gradient is
    above the percentile `amount` of the gradients."""

    amount: Annotated[float, Field(ge=0)] | None = None
    """The threshold's parameter (default: 95 for percentile and gradient, 3 for standard_deviation, 1.5 for
    interquartile)."""

    target: Annotated[int, Field(ge=1)] | None = None
    """The average length of chunks in `unit`s, instead of `threshold` and `amount`. The cuts of a
    document are then its (length / `target`) largest distances."""

    size: Annotated[int, Field(ge=1)] | None = None  # type: ignore[assignment]  # no maximum unless one is given

    @model_validator(mode="after")
    def _agrees(self) -> SemanticChunker:
        if self.target is not None:
            given = [name for name in ("threshold", "amount") if name in self.model_fields_set]
            if given:
                raise ValueError(f"target and {given[0]} are both given; target takes the place of {given[0]}.")
            if self.size is not None and self.target > self.size:
                raise ValueError(f"target is {self.target}; it must be at most size ({self.size}).")
        if self.threshold in ("percentile", "gradient") and self.amount is not None and self.amount > 100:
            raise ValueError(f"amount is {self.amount:g}; as a percentile ({self.threshold}) it must be at most 100.")
        return self

    @property
    def counted_by(self) -> str:
        return "characters" if self.size is None and self.target is None else super().counted_by

    def texts(self, text: str, ruler: Ruler) -> list[str]:
        found = sentences(text)
        around = [found[max(index - self.buffer, 0) : index + self.buffer + 1] for index in range(len(found))]
        return [text[group[0].start : group[-1].end] for group in around] if len(found) > 1 else []

    def group(self, text: str, ruler: Ruler, vectors: Floats) -> list[Span]:
        found, cuts = sentences(text), list[int]()
        if not found:
            return []
        if len(found) > 1:
            rows = vectors.astype(np.float64)
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            rows /= np.where(lengths > 0, lengths, 1)  # a row of zeros stays one
            distances = 1 - np.einsum("ij,ij->i", rows[:-1], rows[1:])
            cuts = self._cuts(distances, ruler.length(0, len(text)))
        starts = [found[0].start, *(found[index + 1].start for index in cuts), len(text)]
        if self.size is None:
            return chunks_of(text, list(pairwise(starts)))
        outline = Outline(text, {sentence.start: 0 for sentence in found})
        measure = Measure(ruler, self.budget(self.size, ruler), 0)
        return chunks_of(text, [part for group in pairwise(starts) for part in outline.cut(*group, measure)])

    def _cuts(self, distances: Doubles, length: int) -> list[int]:
        """The sentences that are the last of their chunk, by position; the last of all is not among them."""
        if self.target is not None:
            return _largest(distances, length // self.target)
        if self.threshold == "gradient":
            if len(distances) < 2:
                return []
            distances = np.gradient(distances)
        return np.flatnonzero(distances > self._limit(distances) + _SAME_DISTANCE).tolist()

    def _limit(self, values: Doubles) -> float:
        amount = _AMOUNTS[self.threshold] if self.amount is None else self.amount
        if self.threshold == "standard_deviation":
            return float(values.mean() + amount * values.std())
        if self.threshold == "interquartile":
            low, high = np.percentile(values, [25, 75])
            return float(values.mean() + amount * (high - low))
        return float(np.percentile(values, amount))


def _largest(distances: Doubles, count: int) -> list[int]:
    """The positions of the distances above the least threshold that at most ``count`` are above; all above 0 at most.

    This is the result of Smith & Troynikov's bisection between 0 and 1: equal distances are all cut or none is.
    """
    descending = np.sort(distances)[::-1]
    limit = max(float(descending[count]), 0.0) if count < len(descending) else 0.0
    return np.flatnonzero(distances > limit + _SAME_DISTANCE).tolist()
