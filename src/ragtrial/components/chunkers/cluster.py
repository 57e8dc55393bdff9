"""The chunks whose pieces are most alike: the best segmentation, found by dynamic programming."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from ragtrial.components.chunkers.base import CHUNKERS, EmbeddingChunker, LengthFunction, Vectors, directions
from ragtrial.components.chunkers.outline import Outline
from ragtrial.components.chunkers.piece_merging import Measure, chunks_of
from ragtrial.rankings import Floats
from ragtrial.records import Span

_SAME = 1e-9
"""Sums of similarities that differ by less are equal: the difference is of their rounding."""


@CHUNKERS.register("cluster")
class ClusterChunker(EmbeddingChunker):
    """Small pieces of a text, grouped so that the similarities within the chunks have the largest sum.

    Source: Smith & Troynikov 2024, ClusterSemanticChunker: similarities are cosines less their mean over all pairs of
    different pieces of the document. It limits the number of pieces in a chunk; here it is the chunk's length. Of
    segmentations with the same sum, the one with the longer chunks at the end is taken.
    """

    named_by = ("size", "piece", "unit")
    revision = 2

    kind: Literal["cluster"] = "cluster"
    """Small pieces grouped into the chunks that are most alike within, by the setting's own embedder."""

    piece: Annotated[int, Field(ge=1)] = 50
    """How long the pieces that are embedded and grouped may be at most, in `unit`s; they are cut as `recursive` cuts.
    Must be at most `size`."""

    @model_validator(mode="after")
    def _piece_within_size(self) -> ClusterChunker:
        if self.piece > self.size:
            raise ValueError(f"piece is {self.piece}; it must be at most size ({self.size}).")
        return self

    def texts(self, text: str, ruler: LengthFunction) -> list[str]:
        pieces = self._pieces(text, ruler)
        return [text[piece.start : piece.end] for piece in pieces] if len(pieces) > 1 else []

    def group(self, text: str, ruler: LengthFunction, vectors: Floats) -> list[Span]:
        pieces = self._pieces(text, ruler)
        if len(pieces) < 2:
            return pieces
        budget = self.budget(self.size, ruler)
        first = 0
        firsts = []  # of each piece, the first that fits into a chunk with it
        for piece in pieces:
            while pieces[first] != piece and ruler.length(pieces[first].start, piece.end) > budget:
                first += 1
            firsts.append(first)
        groups = segmented(directions(vectors), firsts)
        return [Span(pieces[start].start, pieces[end].end) for start, end in groups]

    def _pieces(self, text: str, ruler: LengthFunction) -> list[Span]:
        measure = Measure(ruler, min(self.piece, self.budget(self.size, ruler)), 0)
        return chunks_of(text, Outline(text, {}).cut(0, len(text), measure))


def segmented(rows: Vectors, firsts: list[int]) -> list[tuple[int, int]]:
    """The best groups of neighbouring rows, as (first, last) pairs.

    ``rows`` are directions, shape (pieces, dimension); a group that ends with row ``i`` begins at ``firsts[i]`` or
    later. A group's sum is over the ordered pairs of different rows in it, of their similarity less the mean. Memory
    is linear in the rows; time is pieces times the rows of a group.
    """
    count = len(rows)
    mean = (float(np.square(rows.sum(axis=0)).sum()) - float(np.square(rows).sum())) / (count * (count - 1))
    best = np.zeros(count + 1)  # best[i]: the largest sum of the first i rows
    begins = np.zeros(count, dtype=np.int64)
    sums = np.zeros(count)  # sums[j]: of the group that begins at row j and ends at the row at hand
    for last in range(count):
        first = firsts[last]
        likeness = rows[first:last] @ rows[last] - mean
        sums[first:last] += 2 * likeness[::-1].cumsum()[::-1]
        totals = best[first : last + 1] + sums[first : last + 1]
        chosen = int(np.argmax(totals >= totals.max() - _SAME))
        begins[last], best[last + 1] = first + chosen, totals[chosen]
    groups: list[tuple[int, int]] = []
    last = count - 1
    while last >= 0:
        groups.append((int(begins[last]), last))
        last = int(begins[last]) - 1
    return groups[::-1]
