"""Candidates in the order of a model's scores: a cross-encoder's, or a late-interaction model's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ragtrial.cache.fingerprints import Digest, fingerprint
from ragtrial.components.batching import TextList
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.components.embedders.model_files import LocalModel
from ragtrial.components.interfaces import Candidates, Fact, Facts, RetrieverContext, Texts
from ragtrial.components.refiners import rerankers
from ragtrial.components.refiners.base import REFINERS, OpenRefiner, SingleInputRefiner, reordered
from ragtrial.components.token_vectors import Form, TokenEncoder, TokenModel, maxsim
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.errors import RunError, listed
from ragtrial.options import ModelName
from ragtrial.progress import Silent, stage
from ragtrial.rankings import PADDING
from ragtrial.records import Question, ReportWarning


@REFINERS.register("rerank")
class Rerank(LocalModel, SingleInputRefiner):
    """The candidates of another retriever in the order in which a cross-encoder scores them with the question.

    A cross-encoder of the sentence-transformers library reads the question and a text together and gives one score,
    which is kept raw: the sigmoid that such models come with makes all good scores 1.0. Equal scores go by document
    id, then by place in the document. Every score is kept in the workspace and never made twice.
    """

    content_is: ClassVar[str] = "model"

    explanation: ClassVar[str] = (
        "puts the first {candidates} hits of {parts} in the order of {model}; a hit's score is the model's"
    )

    kind: Literal["rerank"] = "rerank"
    """The first hits, in the order of a cross-encoder's scores."""

    model: ModelName = "cross-encoder/ms-marco-MiniLM-L6-v2"
    """A cross-encoder with one score per pair: a name on the hub, or the path of a local folder."""

    batch_size: Annotated[int, Field(ge=1)] = 32
    """How many pairs the model gets at once; affects speed and memory, and at most the last bits of scores."""

    max_length: Annotated[int, Field(ge=1)] | None = None
    """The maximum number of tokens to read from a question and a text together (default: the limit that the model
    declares)."""

    title: bool = True
    """Let the model read a document's title before the text."""

    endpoint: rerankers.RerankEndpoint | None = None
    """A reranker behind an endpoint, instead of a local cross-encoder."""

    @model_validator(mode="after")
    def _has_one_model(self) -> Self:
        if self.endpoint is None:
            return self
        defaults = {name: field.default for name, field in type(self).model_fields.items()}
        chosen = {name: getattr(self, name) for name in LocalModel.model_fields}
        local = [name for name, value in chosen.items() if value not in (defaults[name], self.endpoint.model)]
        if local:
            raise ValueError(
                f"has an endpoint, and {listed(local)}, which {'is' if len(local) == 1 else 'are'} for a local model; "
                "remove one of the two."
            )
        self.__dict__["model"] = self.endpoint.model  # for everything that shows the model's name
        return self

    @property
    def packages(self) -> Mapping[str, str]:  # type: ignore[override]  # which depends on where the model is
        return LocalModel.packages if self.endpoint is None else {}

    @property
    def reranker(self) -> rerankers.Reranker:
        """The model that gives the scores."""
        if self.endpoint is not None:
            return rerankers.EndpointReranker(self.endpoint)
        return rerankers.LocalReranker(self)

    def hashed_options(self) -> dict[str, Any]:
        """Without what changes no score but in its last bits, and the options of the other kind of model."""
        unhashed = {"device", "batch_size", "endpoint"} if self.endpoint is None else LocalModel.model_fields.keys()
        parts = {name: value for name, value in super().hashed_options().items() if name not in unhashed}
        return parts | (self.endpoint.parts() if self.endpoint else {})

    def expected_cost(self, questions: Sequence[Question], texts: Texts) -> float | None:
        return self.endpoint.expected_cost(questions, texts, self.candidates) if self.endpoint else None

    def cost(self, facts: Facts) -> float | None:
        return self.endpoint.cost_of(facts.get("tokens"), facts.get("searches")) if self.endpoint else None

    def hashed_content(self, digest: Digest) -> Any:
        return self.reranker.hashed_content(digest)

    def check(self, context: RetrieverContext, questions: Sequence[Question]) -> None:
        self.reranker.check(context.setting)

    def open(self, context: RetrieverContext) -> OpenRefiner:
        return _OpenRerank(self, context)

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        pairs, truncated, blank = facts["pairs"], facts["pairs_truncated"], facts["pairs_without_text"]
        if truncated:
            yield ReportWarning(
                "truncated-pairs",
                f"{setting}: pairs of a question and a text longer than the {facts['max_length']:,} tokens that the "
                f"reranker reads: {truncated:,} of {pairs:,}; the rest of each was not scored. Use smaller chunks, or "
                "a model that reads more.",
            )
        if facts.get("pairs_refused"):
            yield ReportWarning(
                "pairs-refused",
                f"{setting}: pairs of a question and a text that were refused and put last: "
                f"{facts['pairs_refused']:,} of {pairs:,}. {facts.get('refusal')}",
            )
        if blank:
            yield ReportWarning(
                "pairs-without-text",
                f"{setting}: candidates without a text that the reranker could read, which came last: {blank:,}. "
                "See whether the documents are empty" + ("." if self.title else ", or set title: true."),
            )


@dataclass(frozen=True)
class _OpenRerank:
    options: Rerank
    context: RetrieverContext

    @cached_property
    def _reranker(self) -> rerankers.Reranker:
        return self.options.reranker

    @cached_property
    def _path(self) -> Path | None:
        """The file of the scores that are kept of the model; None while latency is measured."""
        if self.context.is_fresh:
            return None
        name = fingerprint(["pairs", self._reranker.hashed_content(self.context.digest)])
        return self.context.growing("pairs", name).with_suffix(".sqlite")

    @cached_property
    def _tokenizer(self) -> Tokenizer | None:
        # Counts are reported of the questions together; one asked alone, to measure how long it takes, is not to wait.
        return None if self.context.is_fresh else self._reranker.tokenizer()

    def refine(self, questions: Sequence[Question], parts: Sequence[Candidates]) -> Candidates:
        (part,) = parts
        is_hit = part.rankings.codes != PADDING
        rows = np.nonzero(is_hit)[0]
        units, of_unit = np.unique(part.rankings.codes[is_hit], return_inverse=True)
        texts = list(IndexedTexts(part.units, title=self.options.title).indexed_texts(units.tolist()))
        has_text = np.array([bool(text.strip()) for text in texts], dtype=np.bool_)[of_unit]
        if len(rows) and not has_text.any():
            raise RunError(
                f"{self.context.setting}: no candidate of {len(units):,} has any text, and a reranker reads "
                "texts. See whether the documents are empty" + ("." if self.options.title else ", or set title: true.")
            )
        asked = [question.text for question in questions]
        pairs, of_pair = rerankers.TextPairs.of(asked, texts, rows[has_text], of_unit[has_text])
        lengths = pairs.lengths(self._tokenizer)
        shown = Silent() if self.context.is_fresh else self.context.progress
        with stage(shown, "reranking", len(pairs), "pairs") as progress:
            numbers = self._reranker.scores(pairs, lengths, progress.advance, self._path)
        limit, scores = self._reranker.length, numbers[of_pair, 0]
        is_refused, without_text = np.isnan(scores), int((~has_text).sum())
        has_text[has_text] = ~is_refused
        least = np.full(len(questions), np.inf, dtype=np.float32)
        np.minimum.at(least, rows[has_text], scores[~is_refused])
        spread = np.where(np.isinf(least), np.float32(0), least)[rows]  # the least score, for texts that are empty
        spread[has_text] = scores[~is_refused]
        facts: dict[str, Fact] = {
            "pairs": len(scores),
            "pairs_truncated": int((lengths > limit)[of_pair].sum()) if self._tokenizer and limit else None,
            "pairs_without_text": without_text,
            **({"pairs_refused": int(is_refused.sum())} if is_refused.any() else {}),
            "max_length": limit,
            **self._reranker.billed(numbers, rows[has_text]),
        }
        return Candidates(part.units, reordered(part, spread, ~has_text), part.skipped, facts)


@REFINERS.register("late_rerank")
class LateRerank(TokenModel, SingleInputRefiner):
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
    def depends_on(self) -> frozenset[str]:
        return frozenset({"context"})

    def open(self, context: RetrieverContext) -> OpenRefiner:
        return _OpenLateRerank(self, context)


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
        codes = part.rankings.codes
        units, of_unit = np.unique(codes[codes != PADDING], return_inverse=True)
        texts = list(self.context.texts(part.units).indexed_texts(units.tolist()))
        shown = Silent() if self.context.is_fresh else self.context.progress
        with stage(shown, "late vectors", len(texts), "texts") as progress:
            keys = self._kept.fill(TextList(texts), "document", advance=progress.advance)
        queries = self._encoder.of_texts([question.text for question in questions], "query") if len(units) else []
        is_mean, scores = self.options.mean_over_tokens(), list[float]()
        for query, hits in zip(queries, np.split(of_unit, np.cumsum(part.rankings.lengths)[:-1]), strict=False):
            vectors = chain.from_iterable(self._kept.blocks(keys[hits]))
            scores += [maxsim(query, hit.vectors, is_mean=is_mean) for hit in vectors]
        lengths = None if self.context.is_fresh else self.options.lengths(TextList(texts))
        rankings = reordered(part, np.array(scores, dtype=np.float32))
        return Candidates(part.units, rankings, part.skipped, self.options.facts_of(lengths, len(texts)))
