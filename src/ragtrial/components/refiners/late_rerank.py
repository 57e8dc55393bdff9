"""Candidates in the order of a late-interaction model's scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from ragtrial.components.batching import TextList
from ragtrial.components.interfaces import Candidates, Facts, RetrieverContext
from ragtrial.components.refiners.base import REFINERS, OpenRefiner, SingleInputRefiner
from ragtrial.components.retrievers.token_search import MatchingModel
from ragtrial.components.token_vectors.indexes import maxsim
from ragtrial.components.token_vectors.models import Form
from ragtrial.components.token_vectors.vectors import TokenEncoder
from ragtrial.progress import Silent, stage
from ragtrial.rankings import PADDING, unfilled
from ragtrial.records import Question, ReportWarning


@REFINERS.register("late_rerank")
class LateRerank(MatchingModel, SingleInputRefiner):
    """The candidates of another retriever in the order of a late-interaction model's scores (MaxSim).

    It reads the indexed texts of the chunks, or texts with their titles where the hits are not chunks. Token vectors
    are kept in the workspace and shared with `late` retrievers of the same model. Equal scores are ordered by document
    id, then by place in the document.
    """

    form: ClassVar[Form] = "late"

    explanation: ClassVar[str] = (
        "puts the first {candidates} hits of {parts} in the order of {model}; a hit's score is the sum, over the "
        "tokens of the question, of the largest similarity with a token of the hit"
    )

    kind: Literal["late_rerank"] = "late_rerank"
    """The first hits, in the order of a late-interaction model's scores (ColBERT)."""

    @property
    def reached_by(self) -> frozenset[str]:
        return frozenset({"context"})

    def open(self, context: RetrieverContext) -> OpenRefiner:
        return _OpenLateRerank(self, context)

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        yield from self.warnings_of_texts(setting, facts)


@dataclass(frozen=True)
class _OpenLateRerank:
    options: LateRerank
    context: RetrieverContext

    @cached_property
    def _encoder(self) -> TokenEncoder:
        # While latency is measured, texts are read from the disk, as in production; questions are not.
        return self.options.encoder(self.context)

    @cached_property
    def _kept(self) -> TokenEncoder:
        return self.options.encoder(self.context, is_fresh=False)

    def refine(self, questions: Sequence[Question], parts: Sequence[Candidates]) -> Candidates:
        (part,) = parts
        codes, units = part.rankings.codes, part.units
        found = np.unique(codes[codes != PADDING])
        texts = list(self.context.texts(units).indexed_texts(found.tolist()))
        shown = Silent() if self.context.is_fresh else self.context.progress
        with stage(shown, "late vectors", len(texts), "texts") as progress:
            keys = self._kept.fill(TextList(texts), "document", advance=progress.advance)
        queries = self._encoder.of_texts([question.text for question in questions], "query") if len(found) else []
        made, place = unfilled(*codes.shape), units.library.id_order
        for row, query in enumerate(queries):
            hits = codes[row][codes[row] != PADDING]
            kept = [one for block in self._kept.blocks(keys[np.searchsorted(found, hits)]) for one in block]
            is_mean = self.options.mean_over_tokens()
            exact = [maxsim(query, one.vectors, is_mean=is_mean) for one in kept]
            scores = np.array(exact, dtype=np.float32)
            order = np.lexsort((units.end[hits], units.start[hits], place[units.document[hits]], -scores))
            made.codes[row, : len(order)], made.scores[row, : len(order)] = hits[order], scores[order]
        return Candidates(units, made, part.skipped, self._facts(texts))

    def _facts(self, texts: Sequence[str]) -> Facts:
        tokenizer = None if self.context.is_fresh else self.options.tokenizer()
        prompt = self.options.document_prompt
        lengths = None if tokenizer is None else tokenizer.counts([prompt + text for text in texts])
        return self.options.facts_of(lengths, len(texts))
