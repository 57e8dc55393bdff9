"""Candidates in the order of a cross-encoder's scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ragtrial.cache.fingerprints import Digest, fingerprint
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.components.embedders.backends import LIBRARIES
from ragtrial.components.interfaces import Candidates, Fact, Facts, RetrieverContext, Texts
from ragtrial.components.refiners.base import REFINERS, OpenRefiner, SingleInputRefiner
from ragtrial.components.refiners.rerankers import (
    LOCAL,
    EndpointReranker,
    LocalReranker,
    Precision,
    RerankEndpoint,
    Reranker,
    Scorer,
    TextPairs,
)
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.errors import RunError, listed
from ragtrial.options import ModelName
from ragtrial.progress import Silent, stage
from ragtrial.rankings import PADDING, Counts, Floats, unfilled
from ragtrial.records import Question, ReportWarning


@REFINERS.register("rerank")
class Rerank(SingleInputRefiner):
    """The candidates of another retriever in the order in which a cross-encoder scores them with the question.

    A cross-encoder of the sentence-transformers library reads the question and a text together and gives one score,
    which is kept raw: the sigmoid that such models come with makes all good scores 1.0. Equal scores go by document
    id, then by place in the document. Every score is kept in the workspace and never made twice.
    """

    named_by = ("model",)

    inputs_are: ClassVar[str] = "model"

    explanation: ClassVar[str] = (
        "puts the first {candidates} hits of {parts} in the order of {model}; a hit's score is the model's"
    )

    kind: Literal["rerank"] = "rerank"
    """The first hits, in the order of a cross-encoder's scores."""

    model: ModelName = "cross-encoder/ms-marco-MiniLM-L6-v2"
    """A cross-encoder with one score per pair: a name on the hub, or the path of a local folder."""

    revision: str | None = None
    """A branch, tag or commit of the hub's repository."""

    device: str | None = None
    """cpu, cuda, mps, ... (default: the best available)."""

    precision: Precision = "float32"
    """The number format of the model; bfloat16 is faster on recent machines, with slightly different results."""

    batch_size: Annotated[int, Field(ge=1)] = 32
    """How many pairs the model gets at once; affects speed and memory, and at most the last bits of scores."""

    max_length: Annotated[int, Field(ge=1)] | None = None
    """The maximum number of tokens to read from a question and a text together (default: the limit that the model
    declares)."""

    title: bool = True
    """Let the model read a document's title before the text."""

    endpoint: RerankEndpoint | None = None
    """A reranker behind an endpoint, instead of a local cross-encoder."""

    @model_validator(mode="after")
    def _has_one_model(self) -> Self:
        if self.endpoint is None:
            return self
        defaults = {name: field.default for name, field in type(self).model_fields.items()}
        chosen = {name: getattr(self, name) for name in LOCAL}
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
        return dict.fromkeys(LIBRARIES if self.endpoint is None else (), "")

    @property
    def reranker(self) -> Reranker:
        """The model that gives the scores."""
        if self.endpoint is not None:
            return EndpointReranker(self.endpoint)
        return LocalReranker(self.model, self.revision, self.device, self.precision, self.batch_size, self.max_length)

    def identity(self) -> dict[str, Any]:
        """Without what changes no score but in its last bits, and the options of the other kind of model."""
        model = self.reranker
        found = {name: value for name, value in super().identity().items() if name not in model.not_identity}
        return found | model.identity()

    def expected_cost(self, questions: Sequence[Question], texts: Texts) -> float | None:
        return self.reranker.expected_cost(questions, texts, self.candidates)

    def cost(self, facts: Facts) -> float | None:
        return self.reranker.cost(facts)

    def inputs(self, digest: Digest) -> Any:
        return self.reranker.inputs(digest)

    def check(self, context: RetrieverContext, questions: Sequence[Question]) -> None:
        self.reranker.check(context.setting)

    def open(self, context: RetrieverContext) -> OpenRefiner:
        return _OpenRerank(self, context)

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        pairs, truncated, blank = facts["pairs"], facts["pairs_truncated"], facts["pairs_without_text"]
        if truncated:
            yield ReportWarning(
                "truncated-pairs",
                f"{setting}: {truncated:,} of {pairs:,} pairs of a question and a text are longer than the "
                f"{facts['max_length']:,} tokens that the reranker reads; the rest of each was not scored. Use smaller "
                "chunks, or a model that reads more.",
            )
        if facts.get("pairs_refused"):
            yield ReportWarning(
                "pairs-refused",
                f"{setting}: {facts['pairs_refused']:,} of {pairs:,} pairs of a question and a text were refused and "
                f"put last: {facts.get('refusal')}",
            )
        if blank:
            yield ReportWarning(
                "pairs-without-text",
                f"{setting}: {blank:,} candidates have no text that the reranker could read; they were put last. "
                "See whether the documents are empty" + ("." if self.title else ", or set title: true."),
            )

    def scorer(self, context: RetrieverContext) -> Scorer:
        """The model, and the scores that are kept of it."""
        path: Path | None = None
        if not context.is_fresh:
            name = fingerprint(["pairs", self.inputs(context.digest)])
            path = context.growing("pairs", name).with_suffix(".sqlite")
        return self.reranker.scorer(path, self.kind)


@dataclass(frozen=True)
class _OpenRerank:
    options: Rerank
    context: RetrieverContext

    @cached_property
    def _reranker(self) -> Reranker:
        return self.options.reranker

    @cached_property
    def _scorer(self) -> Scorer:
        return self.options.scorer(self.context)

    @cached_property
    def _tokenizer(self) -> Tokenizer | None:
        # Counts are reported of the questions together; one asked alone, to measure how long it takes, is not to wait.
        return None if self.context.is_fresh else self._reranker.tokenizer()

    def refine(self, questions: Sequence[Question], parts: Sequence[Candidates]) -> Candidates:
        (part,) = parts
        rows, columns = np.nonzero(part.rankings.codes != PADDING)
        codes = part.rankings.codes[rows, columns]
        units, of_unit = np.unique(codes, return_inverse=True)
        texts = list(IndexedTexts(part.units, title=self.options.title).indexed_texts(units.tolist()))
        has_text = np.array([bool(text.strip()) for text in texts], dtype=np.bool_)[of_unit]
        if len(codes) and not has_text.any():
            raise RunError(
                f"{self.context.setting}: none of the {len(units):,} candidates has any text, and a reranker reads "
                "texts. See whether the documents are empty" + ("." if self.options.title else ", or set title: true.")
            )
        asked = [question.text for question in questions]
        scores, truncated = self._scores(asked, texts, rows[has_text], of_unit[has_text])
        without_text, is_refused = int((~has_text).sum()), np.isnan(scores)
        has_text[has_text] = ~is_refused
        scores = scores[~is_refused]
        least = np.full(len(questions), np.inf, dtype=np.float32)
        np.minimum.at(least, rows[has_text], scores)
        spread = np.where(np.isinf(least), np.float32(0), least)[rows]  # the least score, for texts that are empty
        spread[has_text] = scores
        facts: dict[str, Fact] = {
            "pairs": len(is_refused),
            "pairs_truncated": truncated,
            "pairs_without_text": without_text,
            **({"pairs_refused": int(is_refused.sum())} if is_refused.any() else {}),
            "max_length": self._reranker.length,
            **self._scorer.billed(rows[has_text]),
        }
        place = part.units.library.id_order[part.units.document[codes]]
        order = np.lexsort((part.units.end[codes], part.units.start[codes], place, -spread, ~has_text, rows))
        made = unfilled(len(questions), part.rankings.depth)
        filled = np.arange(made.depth) < part.rankings.lengths[:, np.newaxis]
        made.codes[filled], made.scores[filled] = codes[order], spread[order]
        return Candidates(part.units, made, part.skipped, facts)

    def _scores(
        self, questions: Sequence[str], texts: Sequence[str], question: Counts, text: Counts
    ) -> tuple[Floats, int | None]:
        """The score of each pair, and how many are longer than the model reads; equal pairs are scored once."""
        asked, of_question = _distinct(questions)
        read, of_text = _distinct(texts)
        numbers = of_question[question] * max(len(read), 1) + of_text[text]
        distinct, of_pair = np.unique(numbers, return_inverse=True)
        pairs = TextPairs(asked, read, *np.divmod(distinct, max(len(read), 1)))
        lengths = pairs.lengths(self._tokenizer)
        shown = Silent() if self.context.is_fresh else self.context.progress
        with stage(shown, "reranking", len(pairs), "pairs") as progress:
            scores = self._scorer.scores(pairs, lengths, progress.advance)
        if self._tokenizer is None or self._reranker.length is None:
            return scores[of_pair], None
        return scores[of_pair], int((lengths > self._reranker.length)[of_pair].sum())


def _distinct(texts: Sequence[str]) -> tuple[list[str], Counts]:
    """The different texts, and which of them each is."""
    places: dict[str, int] = {}
    which = [places.setdefault(text, len(places)) for text in texts]
    return list(places), np.array(which, dtype=np.int64)
