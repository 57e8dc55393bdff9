"""Models that score pairs of a question and a text: a cross-encoder on this machine, or one behind an endpoint."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from ragtrial.cache.fingerprints import DIGEST_BYTES, Digest
from ragtrial.cache.vectors import Keys, VectorCache, keys_in, text_keys
from ragtrial.components.batching import longest_first
from ragtrial.components.embedders.model_files import LocalModel, ModelLayout, read_json
from ragtrial.components.embedders.sentence_transformer import load_model
from ragtrial.components.endpoints.client import Client, Refusals, answer_budget, billed, in_order, is_number, named
from ragtrial.components.endpoints.options import EndpointOptions, EndpointUrl, Price
from ragtrial.components.interfaces import Fact, Texts
from ragtrial.components.tokenizers import Tokenizer, estimated_tokens
from ragtrial.engines.batching import as_they_come
from ragtrial.errors import ConfigError, EndpointError, RunError, counted
from ragtrial.progress import Advance
from ragtrial.rankings import Counts, Floats
from ragtrial.records import Question

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

Pair = tuple[str, str]
"""A question and a text."""

Keep = Callable[[Sequence[int], Floats], None]
"""Keeps the numbers of pairs, given their positions."""

_MOST_TEXTS = 1_024  # whose tokens are held at once


@dataclass(frozen=True, eq=False)
class TextPairs:
    """Which of some ``questions`` and ``texts`` are put together, each pair once.

    ``question`` and ``text``, int64 (pairs,), are positions in them.
    """

    questions: Sequence[str]
    texts: Sequence[str]
    question: Counts
    text: Counts

    @classmethod
    def of(cls, questions: Sequence[str], texts: Sequence[str], question: Counts, text: Counts) -> tuple[Self, Counts]:
        """The different pairs at the positions ``question`` and ``text``, and which pair is at each position."""
        asked, of_question = _distinct(questions)
        read, of_text = _distinct(texts)
        numbers = of_question[question] * max(len(read), 1) + of_text[text]
        distinct, of_pair = np.unique(numbers, return_inverse=True)
        return cls(asked, read, *np.divmod(distinct, max(len(read), 1))), of_pair

    def __len__(self) -> int:
        return len(self.question)

    def keys(self) -> Keys:
        """The key of every pair, shape (pairs, 16)."""
        both = np.hstack([text_keys(self.questions)[self.question], text_keys(self.texts)[self.text]])
        hashes = b"".join(hashlib.blake2b(row.tobytes(), digest_size=DIGEST_BYTES).digest() for row in both)
        return keys_in(hashes)

    def at(self, positions: Sequence[int]) -> list[Pair]:
        """The questions and texts of some pairs."""
        chosen = zip(self.question[positions].tolist(), self.text[positions].tolist(), strict=True)
        return [(self.questions[question], self.texts[text]) for question, text in chosen]

    def lengths(self, tokenizer: Tokenizer | None) -> Counts:
        """Tokens of each pair with the special tokens that a model adds; characters without a tokenizer."""
        special = tokenizer.pair_special_tokens if tokenizer else 0
        questions, texts = _lengths(tokenizer, self.questions), _lengths(tokenizer, self.texts)
        return np.asarray(questions[self.question] + texts[self.text] + special, dtype=np.int64)


def _distinct(texts: Sequence[str]) -> tuple[list[str], Counts]:
    """The different texts, and which of them each is."""
    places: dict[str, int] = {}
    which = [places.setdefault(text, len(places)) for text in texts]
    return list(places), np.array(which, dtype=np.int64)


def _lengths(tokenizer: Tokenizer | None, texts: Sequence[str]) -> Counts:
    """Tokens of each text on its own, without special tokens; characters without a tokenizer."""
    counts: list[int] = []
    for start in range(0, len(texts), _MOST_TEXTS):
        group = texts[start : start + _MOST_TEXTS]
        counts += tokenizer.alone(group) if tokenizer else map(len, group)
    return np.array(counts, dtype=np.int64)


class Reranker(ABC):
    """A model that scores pairs of a question and a text."""

    columns: ClassVar[int] = 1
    """How many numbers are kept for a pair; the first is its score."""

    options: LocalModel | RerankEndpoint

    @property
    def length(self) -> int | None:
        """How many tokens of a pair are read, None if it is not known."""
        return None

    @abstractmethod
    def hashed_content(self, digest: Digest) -> dict[str, Any]:
        """All that changes the score of a pair, but its texts. Raises ModelNotFoundError."""

    @abstractmethod
    def _score(
        self, pairs: TextPairs, wanted: Counts, lengths: Counts, cache: VectorCache | None, keep: Keep
    ) -> Iterator[Sequence[int]]:
        """Score the ``wanted`` pairs and ``keep`` the numbers of each batch; yields the positions that are done."""

    def check(self, setting: str) -> None:  # noqa: B027 - an endpoint is not asked, and so not paid, before it is needed
        """Raise InputError for ``setting`` if the files show that the model cannot rerank."""

    def tokenizer(self) -> Tokenizer | None:
        """The model's tokenizer, None if it is not available. Raises ModelNotFoundError."""
        return None

    def billed(self, numbers: Floats, question: Counts) -> dict[str, Fact]:
        """Facts about the bill for pairs with these ``numbers``, given the ``question`` of each scored pair."""
        return {}

    def scores(self, pairs: TextPairs, lengths: Counts, advance: Advance, path: Path | None = None) -> Floats:
        """The numbers of each pair, float32 (pairs, columns); ``advance`` is called for all that are done.

        They are kept in the file ``path``, each batch before the next begins; with None nothing is kept or read. The
        score is NaN for a pair that an endpoint refuses. Raises RunError and WorkspaceError.
        """
        numbers = np.zeros((len(pairs), self.columns), dtype=np.float32)
        numbers[:, 0] = np.nan
        wanted, keys = np.arange(len(pairs)), pairs.keys()
        with nullcontext() if path is None else VectorCache(path, f"rerank model={self.options.model}") as cache:
            if cache is not None:
                is_missing = cache.missing(keys)
                numbers[~is_missing] = cache.read(keys[~is_missing]).reshape(-1, self.columns)
                wanted = np.flatnonzero(is_missing)
                advance(len(pairs) - len(wanted))

            def keep(batch: Sequence[int], rows: Floats) -> None:
                numbers[batch] = rows
                if cache is not None:
                    cache.write(keys[batch], rows)

            for batch in self._score(pairs, wanted, lengths, cache, keep) if len(wanted) else ():
                advance(len(batch))
        return numbers


@dataclass(eq=False)
class LocalReranker(Reranker):
    """A cross-encoder of the sentence-transformers library. It is loaded when the first score is missing."""

    options: LocalModel

    @property
    def length(self) -> int | None:
        return self.options.length

    def hashed_content(self, digest: Digest) -> dict[str, Any]:
        return {**self.options.model_parts(digest), "activation": "identity"}

    def check(self, setting: str) -> None:
        if (why := _wrong_kind(self.options.folder)) is not None:
            raise ConfigError(
                f"{setting}: the model {self.options.model!r} cannot rerank: {why}. `model:` takes a cross-encoder "
                "that gives a pair of texts one score, such as cross-encoder/ms-marco-MiniLM-L6-v2."
            )
        tokenizer = self.tokenizer()
        special = tokenizer.pair_special_tokens if tokenizer else 0
        self.options.layout.check_length(setting, self.options.model, self.options.max_length, special)

    def tokenizer(self) -> Tokenizer | None:
        return self.options.layout.tokenizer

    @cached_property
    def _loaded(self) -> CrossEncoder:
        from sentence_transformers import CrossEncoder

        model: CrossEncoder = load_model(CrossEncoder, self.options, "reranker")
        if model.num_labels != 1:
            raise RunError(
                f"the reranker in {self.options.folder} gives a pair {model.num_labels} scores; use a model that gives "
                "one."
            )
        if self.length is not None:
            model.max_seq_length = self.length
        return model

    def _score(
        self, pairs: TextPairs, wanted: Counts, lengths: Counts, cache: VectorCache | None, keep: Keep
    ) -> Iterator[Sequence[int]]:
        order, size = longest_first(wanted, lengths).tolist(), self.options.batch_size
        for start in range(0, len(order), size):
            batch = order[start : start + size]
            keep(batch, self._predicted(pairs.at(batch)))
            yield batch

    def _predicted(self, pairs: list[Pair]) -> Floats:
        """The raw scores, float32 (pairs, 1); larger is better."""
        import torch

        raw = torch.nn.Identity()  # the default for one label is a sigmoid, which makes all good scores 1.0
        model, who = self._loaded, f"the reranker in {self.options.folder}"
        try:
            values = model.predict(pairs, batch_size=len(pairs), show_progress_bar=False, activation_fn=raw)
        except (RuntimeError, ValueError, IndexError) as error:
            raise RunError(f"{who} failed on a batch of {counted(len(pairs), 'pair')}: {error}") from error
        scores = np.asarray(values, dtype=np.float32)
        if scores.shape != (len(pairs),) or not np.isfinite(scores).all():
            bad = "NaN or infinity" if scores.shape == (len(pairs),) else f"the shape {scores.shape}"
            raise RunError(
                f"{who} returned {bad} for {counted(len(pairs), 'pair')}, the first with the question "
                f"{pairs[0][0][:60]!r}; use a model that gives each pair one finite score."
            )
        return scores[:, np.newaxis]


def _wrong_kind(folder: Path) -> str | None:
    """The reason why the model in ``folder`` does not give a pair of texts one score, according to its files; None if
    there is none.

    An embedding model would be loaded all the same, with a last layer of random weights.
    """
    own, config = ModelLayout(folder).declared, read_json(folder / "config.json") or {}
    kind = own.get("model_type") or ("SentenceTransformer" if (folder / "modules.json").exists() else None)
    if kind not in (None, "CrossEncoder"):
        return f"it is an embedding model ({kind})" if kind == "SentenceTransformer" else f"it is a {kind}"
    name = str(next(iter(config.get("architectures") or ()), ""))
    if not name.endswith("ForSequenceClassification"):
        return None if kind or not name else f"it has no layer that gives a score (its architecture is {name})"
    labels = len(config.get("id2label") or ()) or config.get("num_labels", 2)
    has_more = len(read_json(folder / "modules.json") or ()) > 1
    return None if has_more or labels == 1 else f"it gives a pair {labels} scores (one for each of its labels)"


_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class RerankReply:
    """A score for each text, float32 (texts,), in their order, and the bill for all (None: not known)."""

    scores: Floats
    tokens: int | None
    searches: int | None

    def numbers(self, lengths: Counts) -> Floats:
        """For each text its score, its share by length of the tokens, and an equal share of the searches."""
        tokens, searches = (np.nan if bill is None else bill for bill in (self.tokens, self.searches))
        by_length = tokens * lengths / max(int(lengths.sum()), 1)
        shares = np.full(len(lengths), searches / len(lengths))
        return np.column_stack([self.scores, by_length, shares]).astype(np.float32)


def rerank(client: Client, question: str, texts: Sequence[str], texts_are: str = "documents") -> RerankReply:
    """How well each of ``texts``, under the name ``texts_are``, answers ``question``, as the model scores it.

    Raises EndpointError.
    """
    body = {"model": client.options.model, "query": question, texts_are: list(texts), **client.options.fields}
    answer = client.post("rerank", body, answer_budget([question, *texts]))
    who = named(client)
    rows = answer
    if isinstance(answer, Mapping):
        rows = answer.get("results", answer.get("data"))  # Voyage's name for it
    if not isinstance(rows, list):
        raise EndpointError(f"{who} answered without 'results'.")
    scores = [row.get("relevance_score", row.get("score")) for row in in_order(rows, len(texts), who)]
    if not all(is_number(score) and abs(score) <= _LARGEST for score in scores):
        raise EndpointError(f"{who} answered with a score that is not a finite number.")
    tokens = billed(answer, "usage", ("total_tokens",))
    searches = billed(answer, "meta", "billed_units", ("search_units",))
    return RerankReply(np.array(scores, dtype=np.float32), tokens, searches)


TEXTS_PER_SEARCH = 100
"""The texts of one search, as Cohere bills them."""


class RerankEndpoint(EndpointOptions):
    """A reranker behind an endpoint: Cohere, Jina, Voyage, vLLM, Infinity, TEI and others."""

    base_url: EndpointUrl
    """The URL before `/rerank`, like https://api.cohere.com/v2, https://api.jina.ai/v1 or https://api.voyageai.com/v1."""

    search_price: Price | None = None
    """The price of a thousand searches (one question with up to 100 texts), if the provider charges per search."""

    batch_size: Annotated[int, Field(ge=1)] = 100
    """The maximum number of texts to send with a question in one request."""

    texts_are: Literal["documents", "texts"] = "documents"
    """The endpoint's name for the texts: `documents`, or `texts` for TEI."""

    def searches(self, texts: Counts) -> Counts:
        """The estimated number of searches that are billed for questions with these numbers of ``texts``: at least one
        a request.
        """
        return np.asarray(-(-texts // min(self.batch_size, TEXTS_PER_SEARCH)), dtype=np.int64)

    def parts(self) -> dict[str, Any]:
        """All that changes a score, but its pair, as JSON values."""
        return {"endpoint": {**self.answered_by(), **({"fields": self.fields} if self.fields else {})}}

    def expected_cost(self, questions: Sequence[Question], texts: Texts, candidates: int) -> float | None:
        """The approximate cost of scoring the first ``candidates`` of ``texts``; None without a price."""
        looked_at = min(candidates, texts.count or candidates)
        asked = sum(estimated_tokens(question.text) for question in questions)
        tokens = looked_at * (asked + len(questions) * texts.tokens)
        return self.cost_of(tokens, len(questions) * int(self.searches(np.array(looked_at))))

    def cost_of(self, tokens: object, searches: object) -> float | None:
        """The cost of a number of tokens and searches; None if no known number has a price."""
        parts = [(tokens, self.price, 1e6), (searches, self.search_price, 1e3)]
        known = [
            count * price / per for count, price, per in parts if isinstance(count, int | float) and price is not None
        ]
        return sum(known) if known else None


_SAME_MODEL = 0.02
"""How far a new score may be from the cached one, as a share of it or of 1: hosted models vary a little."""


@dataclass(eq=False)
class EndpointReranker(Reranker):
    """A reranker behind an endpoint. For each pair its score is kept, and its share of the billed tokens and searches.

    These are NaN if the endpoint does not report them.
    """

    columns: ClassVar[int] = 3

    options: RerankEndpoint
    refusal: str | None = None
    """Why pairs were refused, None if none was."""

    _client: Client | None = field(default=None, init=False)

    def hashed_content(self, digest: Digest) -> dict[str, Any]:
        return self.options.parts()

    def billed(self, numbers: Floats, question: Counts) -> dict[str, Fact]:
        """Tokens, None if they are not known, and searches: where they are not billed by number, an estimate."""
        tokens, searches = float(numbers[:, 1].sum()), float(numbers[:, 2].sum())
        is_estimate = bool(np.isnan(searches))
        estimate = int(self.options.searches(np.unique_counts(question).counts).sum())
        counts = {"tokens": None if np.isnan(tokens) else round(tokens)}
        counts["searches"] = estimate if is_estimate else round(searches)
        return {**counts, "searches_are_estimated": is_estimate, "refusal": self.refusal}

    def _score(
        self, pairs: TextPairs, wanted: Counts, lengths: Counts, cache: VectorCache | None, keep: Keep
    ) -> Iterator[Sequence[int]]:
        if self._client is None:
            self._client = Client(self.options)
            self._check_model(self._client, cache)
        client, refusals = self._client, Refusals(is_known=len(wanted) < len(pairs))

        def ask(batch: Sequence[int]) -> RerankReply:
            asked = pairs.at(batch)
            return rerank(client, asked[0][0], [text for _, text in asked], self.options.texts_are)

        def score(whole: Sequence[int]) -> None:
            for batch, reply in refusals.by_halves(whole, ask):
                if reply is not None:
                    rows = reply.numbers(lengths[batch])
                    if cache is not None:
                        cache.keep_probe(json.dumps(pairs.at(batch)[0]), rows[0])
                    keep(batch, rows)

        for batch, _ in as_they_come(score, self._batches(pairs, wanted), self.options.concurrency):
            yield batch
        refusals.check()
        self.refusal = str(refusals.first) if refusals.first else self.refusal

    def _batches(self, pairs: TextPairs, wanted: Counts) -> Iterator[list[int]]:
        """The positions of ``wanted`` pairs, grouped by question, in batches for one request."""
        size = self.options.batch_size
        for group in np.split(wanted, np.flatnonzero(np.diff(pairs.question[wanted])) + 1):
            yield from (group[start : start + size].tolist() for start in range(0, len(group), size))

    def _check_model(self, client: Client, cache: VectorCache | None) -> None:
        """Raise EndpointError if the model differs from the model of the kept scores: two must not mix."""
        if cache is None or (probe := cache.probe()) is None:
            return
        (question, text), before = json.loads(probe[0]), float(probe[1][0])
        now = float(rerank(client, question, [text], self.options.texts_are).scores[0])
        if abs(now - before) > _SAME_MODEL * max(1.0, abs(before)):
            raise EndpointError(
                f"the reranker {self.options.model!r} gives the score {now:.4f} for the question {question[:60]!r} "
                f"and a text to which it gave {before:.4f} before; scores of two models cannot be compared. If the "
                "model has changed, give it another `version:`."
            )
