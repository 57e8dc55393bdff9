"""Where a reranker's scores come from: a cross-encoder on this machine, or a model behind an endpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from ragtrial.cache.fingerprints import Digest
from ragtrial.components.embedders.model_files import find_model, model_fingerprint
from ragtrial.components.embedders.model_layout import ModelLayout
from ragtrial.components.refiners.endpoint_scores import EndpointScores, RerankEndpoint
from ragtrial.components.refiners.pair_scores import (
    PairScores,
    Precision,
    TextPairs,
    load,
    wrong_kind,
)
from ragtrial.components.retrievers.base import Fact, Facts, Texts
from ragtrial.components.tokenizers import Tokenizer, estimated_tokens
from ragtrial.errors import ConfigError
from ragtrial.rankings import Counts, Floats
from ragtrial.records import Question

LOCAL = ("model", "revision", "device", "precision", "batch_size", "max_length")
"""The options of `rerank` for a model on this machine."""


class Scorer(Protocol):
    """A model at work, and the scores that are kept of it."""

    def scores(self, pairs: TextPairs, lengths: Counts, advance: Callable[[int], None]) -> Floats: ...

    def billed(self, question: Counts) -> dict[str, Fact]: ...


class Reranker(ABC):
    """A model that scores pairs of a question and a text."""

    not_identity: ClassVar[tuple[str, ...]]
    """The options of `rerank` that change no score: those of other models, and what changes the last bits at most."""

    def identity(self) -> dict[str, Any]:
        """What changes scores and is no option of `rerank` itself, as JSON values."""
        return {}

    @property
    def length(self) -> int | None:
        """How many tokens of a pair are read, None if it is not known."""
        return None

    @abstractmethod
    def inputs(self, digest: Digest) -> dict[str, Any]:
        """All that changes the score of a pair, but its texts. Raises ModelNotFoundError."""

    @abstractmethod
    def check(self, setting: str) -> None:
        """Raise InputError for ``setting`` if it can be seen now that the model cannot rerank."""

    def tokenizer(self) -> Tokenizer | None:
        """The model's tokenizer, None if it is not available. Raises ModelNotFoundError."""
        return None

    @abstractmethod
    def scorer(self, path: Path | None, kind: str) -> Scorer:
        """The model, and the scores that are kept of it in the file ``path``; with None nothing is kept or read."""

    def expected_cost(self, questions: Sequence[Question], texts: Texts, candidates: int) -> float | None:
        """About what it will cost to score the first ``candidates`` of ``texts``; None if nothing is paid."""
        return None

    def cost(self, facts: Facts) -> float | None:
        """What was paid, by the facts of a ranking; None if nothing is known to be paid."""
        return None


@dataclass(frozen=True)
class LocalReranker(Reranker):
    """A cross-encoder of the sentence-transformers library."""

    not_identity = ("device", "batch_size", "endpoint")

    model: str
    revision: str | None
    device: str | None
    precision: Precision
    batch_size: int
    max_length: int | None

    @property
    def _folder(self) -> Path:
        return find_model(self.model, self.revision)

    @property
    def length(self) -> int | None:
        return self.max_length if self.max_length is not None else ModelLayout(self._folder).most_tokens()

    def inputs(self, digest: Digest) -> dict[str, Any]:
        files = model_fingerprint(self._folder, digest)
        return {"files": files, "max_length": self.length, "precision": self.precision, "activation": "identity"}

    def check(self, setting: str) -> None:
        folder = self._folder
        if (why := wrong_kind(folder)) is not None:
            raise ConfigError(
                f"{setting}: the model {self.model!r} cannot rerank: {why}. `model:` takes a cross-encoder "
                "that gives a pair of texts one score, such as cross-encoder/ms-marco-MiniLM-L6-v2."
            )
        tokenizer = self.tokenizer()
        least = (tokenizer.pair_special_tokens if tokenizer else 0) + 1
        most = ModelLayout(folder).route("document")[0].positions
        if self.max_length is not None and not least <= self.max_length <= (most or self.max_length):
            raise ConfigError(
                f"{setting}: max_length is {self.max_length}; it must be from {least} (a pair has special "
                f"tokens) to {most or 'any number'} for the model {self.model!r}."
            )

    def tokenizer(self) -> Tokenizer | None:
        path = self._folder / "tokenizer.json"
        return Tokenizer(path) if path.exists() else None

    def scorer(self, path: Path | None, kind: str) -> Scorer:
        ready = partial(load, self._folder, self.device, self.precision, self.length)
        return PairScores(ready, self.batch_size, path, f"{kind} model={self.model}")


@dataclass(frozen=True)
class EndpointReranker(Reranker):
    """A reranker behind an endpoint."""

    not_identity = LOCAL

    endpoint: RerankEndpoint

    def identity(self) -> dict[str, Any]:
        fields = {"fields": self.endpoint.fields} if self.endpoint.fields else {}
        return {"endpoint": {**self.endpoint.answered_by(), **fields}}

    def inputs(self, digest: Digest) -> dict[str, Any]:
        return self.identity()

    def check(self, setting: str) -> None:
        """Nothing is asked, and so nothing paid, before it is needed."""

    def scorer(self, path: Path | None, kind: str) -> Scorer:
        return EndpointScores(self.endpoint, path, f"{kind} model={self.endpoint.model}")

    def expected_cost(self, questions: Sequence[Question], texts: Texts, candidates: int) -> float | None:
        looked_at = min(candidates, texts.count or candidates)
        asked = sum(estimated_tokens(question.text) for question in questions)
        tokens = looked_at * (asked + len(questions) * texts.tokens)
        return self.endpoint.cost_of(tokens, len(questions) * int(self.endpoint.searches(np.array(looked_at))))

    def cost(self, facts: Facts) -> float | None:
        return self.endpoint.cost_of(facts.get("tokens"), facts.get("searches"))
