"""Candidates in an order in which each adds something to those before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from ragtrial.components.embedders.base import AnyEmbedder
from ragtrial.components.interfaces import Candidates, RetrieverContext
from ragtrial.components.refiners.base import REFINERS, OpenRefiner, SingleInputRefiner, reordered
from ragtrial.dataset.chunks import Chunks
from ragtrial.engines.base import normalized
from ragtrial.rankings import PADDING, Bools, Codes, Counts, Doubles, Floats, unfilled
from ragtrial.records import Question

_MOST_CELLS = 8_000_000
"""How many numbers the vectors and cosines of the questions of one step may be."""

_MOST_QUESTIONS = 512

_DECIMALS = 6
"""The smallest difference between float32 vectors: without rounding, the noise of a sum would rank equal texts."""

_BELOW_ALL = -10.0
"""Less than any value: cosines are at least -1."""


@REFINERS.register("mmr")
class Mmr(SingleInputRefiner):
    """Maximal marginal relevance: near to the question, and unlike the hits before it.

    The next hit is the candidate with the largest ``(1 - diversity) * cosine(question, candidate) - diversity * max
    cosine(candidate, hit before it)``. Ties: document id, then place in the document. All candidates are put in order.
    Their scores are these values; of the first, which has none before it, with the least cosine there is (-1), so that
    scores never rise.

    Source: Carbonell & Goldstein 1998, whose lambda (LangChain's ``lambda_mult``) is ``1 - diversity``.
    """

    named_by = ("diversity",)

    explanation: ClassVar[str] = (
        "picks from the first {candidates} hits of {parts}, each unlike those above it; a hit's score is its value "
        "when it was picked"
    )

    kind: Literal["mmr"] = "mmr"
    """Maximal marginal relevance: near to the question, and unlike the hits before it."""

    diversity: Annotated[float, Field(ge=0, le=1)] = 0.3
    """The weight of diversity, from 0 (only nearness to the question) to 1; LangChain's lambda_mult is 1 minus it."""

    candidates: Annotated[int, Field(ge=1)] = 50

    embedder: AnyEmbedder | None = None
    """The embedder of questions and texts (default: the config's); the part's own is not taken over. Texts are
    embedded as they are indexed for the part, or with their titles where its hits are no chunks."""

    @property
    def depends_on(self) -> frozenset[str]:
        return frozenset({"embedder", "context"})

    def open(self, context: RetrieverContext) -> OpenRefiner:
        return _OpenMmr(self.diversity, context)


@dataclass(frozen=True)
class _OpenMmr:
    diversity: float
    context: RetrieverContext

    def refine(self, questions: Sequence[Question], parts: Sequence[Candidates]) -> Candidates:
        (part,) = parts
        hits = np.zeros(int(part.rankings.lengths.sum()), dtype=np.float32)
        codes = reordered(part, hits).codes  # by place alone, so that ties resolve to the first
        made = unfilled(len(codes), codes.shape[1])
        if codes.size and (codes != PADDING).any():
            queries = normalized(self.context.embed_queries([question.text for question in questions]))
            cells = codes.shape[1] * (codes.shape[1] + queries.shape[1])
            size = max(1, min(_MOST_QUESTIONS, _MOST_CELLS // cells))
            for start in range(0, len(codes), size):
                rows = slice(start, start + size)
                made.codes[rows], made.scores[rows] = self._ordered(part.units, queries[rows], codes[rows])
        return Candidates(part.units, made, part.skipped)

    def _ordered(self, units: Chunks, queries: Floats, codes: Codes) -> tuple[Codes, Floats]:
        """The codes of some questions in their new order, and the value of each when it was chosen."""
        is_there = codes != PADDING
        found, of_code = np.unique(codes[is_there], return_inverse=True)
        vectors = np.zeros((*codes.shape, queries.shape[1]), dtype=np.float64)
        if len(found):
            texts = list(self.context.texts(units).indexed_texts(found.tolist()))
            vectors[is_there] = normalized(self.context.embed_texts(texts))[of_code]
        nearness = np.matmul(vectors, queries.astype(np.float64)[:, :, np.newaxis])[:, :, 0]
        likeness = np.matmul(vectors, vectors.transpose(0, 2, 1))
        order, values = selected(nearness, likeness, is_there, self.diversity)
        return np.take_along_axis(codes, order, axis=1), values


def selected(nearness: Doubles, likeness: Doubles, is_there: Bools, diversity: float) -> tuple[Counts, Floats]:
    """The places of all candidates in the order in which they are chosen, and the value of each when it was.

    ``nearness``, shape (questions, candidates), has cosines with the question; ``likeness``, shape (questions,
    candidates, candidates), cosines between candidates. Missing candidates come last, with the value NaN. Ties: the
    first candidate.
    """
    questions, candidates = nearness.shape
    every = np.arange(questions)
    order = np.zeros((questions, candidates), dtype=np.int64)
    values = np.full((questions, candidates), np.nan, dtype=np.float32)
    gains = (1 - diversity) * np.clip(nearness, -1, 1)
    losses = np.full((questions, candidates), -1.0)
    is_open = np.ones((questions, candidates), dtype=np.bool_)
    for rank in range(candidates):
        marginal = np.round(gains - diversity * losses, _DECIMALS)
        marginal[~is_there] = _BELOW_ALL
        marginal[~is_open] = -np.inf
        chosen = marginal.argmax(axis=1)
        order[:, rank] = chosen
        exists = is_there[every, chosen]
        values[exists, rank] = marginal[every, chosen][exists]
        is_open[every, chosen] = False
        losses = np.maximum(losses, np.clip(likeness[every, chosen], -1, 1))
    return order, values
