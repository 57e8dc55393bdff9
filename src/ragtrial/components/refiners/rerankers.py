"""Scores of rerankers: a cross-encoder on this machine, or a model behind an endpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
from pydantic import Field

from ragtrial.cache.fingerprints import DIGEST_BYTES, Digest
from ragtrial.cache.vectors import Keys, VectorCache, text_keys
from ragtrial.components.batching import longest_first
from ragtrial.components.embedders.model_files import ModelLayout, find_model, model_fingerprint, read_json
from ragtrial.components.embedders.sentence_transformer import load_model
from ragtrial.components.endpoints.client import Client, Refusals, billed, in_order, is_number, named
from ragtrial.components.endpoints.options import EndpointOptions, EndpointUrl, Price
from ragtrial.components.endpoints.transport import scores_budget
from ragtrial.components.interfaces import Fact, Facts, Texts
from ragtrial.components.tokenizers import Tokenizer, estimated_tokens
from ragtrial.engines.batching import as_they_come
from ragtrial.errors import ConfigError, EndpointError, RunError
from ragtrial.rankings import Counts, Floats
from ragtrial.records import Question

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class RerankReply:
    """A score for each text, float32 (texts,), in their order, and the bill for all (None: not known)."""

    scores: Floats
    tokens: int | None
    searches: int | None


def rerank(client: Client, question: str, texts: Sequence[str], texts_are: str = "documents") -> RerankReply:
    """How well each of ``texts``, under the name ``texts_are``, answers ``question``, as the model scores it.

    Raises EndpointError.
    """
    body = {"model": client.options.model, "query": question, texts_are: list(texts), **client.options.fields}
    answer = client.post("rerank", body, scores_budget([question, *texts]))
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

_SAME_MODEL = 0.02
"""How far a new score may be from the cached one, as a share of it or of 1: hosted models vary a little."""


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

    def cost_of(self, tokens: object, searches: object) -> float | None:
        """The cost of a number of tokens and searches; None if no known number has a price."""
        parts = [(tokens, self.price, 1e6), (searches, self.search_price, 1e3)]
        known = [
            count * price / per for count, price, per in parts if isinstance(count, int | float) and price is not None
        ]
        return sum(known) if known else None


@dataclass(eq=False)
class EndpointScores:
    """The endpoint's scores, kept in the file ``path``, which ``what`` describes; with None nothing is kept.

    ``tokens`` and ``searches`` were billed for all requested pairs, including cached pairs; NaN if the endpoint does
    not report them.
    """

    endpoint: RerankEndpoint
    path: Path | None
    what: str
    tokens: float = 0.0
    searches: float = 0.0
    refusal: str | None = None
    """Why pairs were refused, None if none was."""

    _client: Client | None = field(default=None, init=False)
    _is_known: bool = field(default=False, init=False)

    def scores(self, pairs: TextPairs, lengths: Counts, advance: Callable[[int], None]) -> Floats:
        """One score for each pair, float32 (pairs,); ``advance`` is called for all that are done.

        NaN where the endpoint refuses the pair. Each answer is kept before the next request is sent. Raises
        EndpointError and WorkspaceError.
        """
        made = np.empty((len(pairs), 3), dtype=np.float32)
        wanted, keys = np.arange(len(pairs)), pairs.keys()
        with nullcontext() if self.path is None else VectorCache(self.path, self.what) as kept:
            if kept is not None:
                is_missing = kept.missing(keys)
                made[~is_missing] = kept.read(keys[~is_missing]).reshape(-1, 3)
                wanted = np.flatnonzero(is_missing)
                advance(len(pairs) - len(wanted))
            if len(wanted):
                client = self._checked_client(kept)

                refusals = Refusals(is_known=len(wanted) < len(pairs))

                def ask(batch: Sequence[int]) -> RerankReply:
                    asked = pairs.at(np.array(batch))
                    return rerank(client, asked[0][0], [text for _, text in asked], self.endpoint.texts_are)

                def score(whole: Counts) -> None:
                    for part, reply in refusals.by_halves(whole.tolist(), ask):
                        batch = np.array(part)
                        if reply is None:
                            made[batch] = np.nan, 0.0, 0.0
                            continue
                        made[batch] = np.column_stack([reply.scores, *_shares(reply, lengths[batch])])
                        if kept is not None:
                            kept.keep_probe(json.dumps(pairs.at(batch)[0]), made[batch[0]])
                            kept.write(keys[batch], made[batch])

                for batch, _ in as_they_come(score, self._batches(pairs, wanted), self.endpoint.concurrency):
                    advance(len(batch))
                refusals.check()
                self.refusal = str(refusals.first) if refusals.first else self.refusal
        self.tokens += float(made[:, 1].sum())
        self.searches += float(made[:, 2].sum())
        return made[:, 0]

    def billed(self, question: Counts) -> dict[str, Fact]:
        """The cost of all pairs, given the question of each: tokens as billed, None if that is not known; and searches.

        Searches that the endpoint does not bill by number are an estimate, and marked as one.
        """
        is_estimate = bool(np.isnan(self.searches))
        estimate = int(self.endpoint.searches(np.unique_counts(question).counts).sum())
        return {
            "tokens": None if np.isnan(self.tokens) else round(self.tokens),
            "searches": estimate if is_estimate else round(self.searches),
            "searches_are_estimated": is_estimate,
            "refusal": self.refusal,
        }

    def _batches(self, pairs: TextPairs, wanted: Counts) -> Iterator[Counts]:
        """The positions of ``wanted`` pairs, grouped by question, in batches for one request."""
        size = self.endpoint.batch_size
        for one in np.split(wanted, np.flatnonzero(np.diff(pairs.question[wanted])) + 1):
            yield from (one[start : start + size] for start in range(0, len(one), size))

    def _checked_client(self, kept: VectorCache | None) -> Client:
        """The client. Raises EndpointError if the model differs from the model of the kept scores: two must not mix."""
        self._client = client = self._client or Client(self.endpoint)
        probe = None if self._is_known or kept is None else kept.probe()
        self._is_known = True
        if probe is None:
            return client
        (question, text), before = json.loads(probe[0]), float(probe[1][0])
        now = float(rerank(client, question, [text], self.endpoint.texts_are).scores[0])
        if abs(now - before) > _SAME_MODEL * max(1.0, abs(before)):
            raise EndpointError(
                f"the reranker {self.endpoint.model!r} gives the score {now:.4f} for the question {question[:60]!r} "
                f"and a text to which it gave {before:.4f} before; scores of two models cannot be compared. If the "
                "model has changed, give it another `version:`."
            )
        return client


def _shares(reply: RerankReply, lengths: Counts) -> tuple[Floats, Floats]:
    """The billed tokens, spread over the texts by length, and the billed searches; NaN where the endpoint is silent."""
    tokens, searches = (np.nan if billed is None else float(billed) for billed in (reply.tokens, reply.searches))
    by_length = np.asarray(tokens * lengths / max(int(lengths.sum()), 1), dtype=np.float32)
    return by_length, np.full(len(lengths), searches / len(lengths), dtype=np.float32)


Precision = Literal["float32", "bfloat16"]
Pair = tuple[str, str]
"""A question and a text."""

Score = Callable[[Sequence[Pair]], Floats]
"""Pairs to raw scores, float32 (pairs,), in one batch; larger is better."""


def wrong_kind(folder: Path) -> str | None:
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


def load(folder: Path, device: str | None, precision: Precision, length: int | None) -> Score:
    """The model in ``folder``, ready to score; of a pair it reads ``length`` tokens. Raises RunError."""
    from sentence_transformers import CrossEncoder

    import torch  # isort: skip

    model = load_model(CrossEncoder, folder, device, precision, "reranker")
    if model.num_labels != 1:
        raise RunError(f"the reranker in {folder} gives a pair {model.num_labels} scores; use a model that gives one.")
    if length is not None:
        model.max_seq_length = length
    raw = torch.nn.Identity()  # the default for one label is a sigmoid, which makes all good scores 1.0

    def score(pairs: Sequence[Pair]) -> Floats:
        try:
            made = model.predict(list(pairs), batch_size=len(pairs), show_progress_bar=False, activation_fn=raw)
        except (RuntimeError, ValueError, IndexError) as error:
            raise RunError(f"the reranker in {folder} failed on a batch of {len(pairs)} pairs: {error}") from error
        scores = np.asarray(made, dtype=np.float32)
        if scores.shape != (len(pairs),) or not np.isfinite(scores).all():
            bad = "NaN or infinity" if scores.shape == (len(pairs),) else f"the shape {scores.shape}"
            raise RunError(
                f"the reranker in {folder} returned {bad} for {len(pairs)} pairs, the first with the question "
                f"{pairs[0][0][:60]!r}; use a model that gives each pair one finite score."
            )
        return scores

    return score


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

    def __len__(self) -> int:
        return len(self.question)

    def keys(self) -> Keys:
        """The key of every pair, shape (pairs, 16)."""
        both = np.hstack([text_keys(self.questions)[self.question], text_keys(self.texts)[self.text]])
        hashes = b"".join(hashlib.blake2b(row.tobytes(), digest_size=DIGEST_BYTES).digest() for row in both)
        return np.frombuffer(hashes, dtype=np.uint8).reshape(-1, DIGEST_BYTES)

    def at(self, positions: Counts) -> list[Pair]:
        """The questions and texts of some pairs."""
        chosen = zip(self.question[positions].tolist(), self.text[positions].tolist(), strict=True)
        return [(self.questions[question], self.texts[text]) for question, text in chosen]

    def lengths(self, tokenizer: Tokenizer | None) -> Counts:
        """Tokens of each pair with the special tokens that a model adds; characters without a tokenizer."""
        if tokenizer is None:
            questions, texts = [np.array([len(one) for one in them]) for them in (self.questions, self.texts)]
            return np.asarray(questions[self.question] + texts[self.text], dtype=np.int64)
        questions, texts = _tokens(tokenizer, self.questions), _tokens(tokenizer, self.texts)
        return np.asarray(questions[self.question] + texts[self.text] + tokenizer.pair_special_tokens)


@dataclass(eq=False)
class PairScores:
    """The model that ``load`` returns scores ``batch_size`` pairs at a time; scores are kept in the file ``path``,
    described by ``what``.

    The model is loaded when the first pair is missing, and stays. With ``path`` None nothing is kept or read.
    """

    load: Callable[[], Score]
    batch_size: int
    path: Path | None
    what: str
    _score: Score | None = None

    def scores(self, pairs: TextPairs, lengths: Counts, advance: Callable[[int], None]) -> Floats:
        """One score for each pair, float32 (pairs,); ``advance`` is called for all that are done.

        Each batch is kept before the next begins. Raises RunError and WorkspaceError.
        """
        made = np.empty(len(pairs), dtype=np.float32)
        wanted, keys = np.arange(len(pairs)), pairs.keys()
        with nullcontext() if self.path is None else VectorCache(self.path, self.what) as kept:
            if kept is not None:
                is_missing = kept.missing(keys)
                made[~is_missing] = kept.read(keys[~is_missing]).reshape(-1)
                wanted = np.flatnonzero(is_missing)
                advance(len(pairs) - len(wanted))
            order = longest_first(wanted, lengths)
            for start in range(0, len(order), self.batch_size):
                batch = order[start : start + self.batch_size]
                if self._score is None:
                    self._score = self.load()
                made[batch] = self._score(pairs.at(batch))
                if kept is not None:
                    kept.write(keys[batch], made[batch, np.newaxis])
                advance(len(batch))
        return made

    def billed(self, question: Counts) -> dict[str, Fact]:
        """Nothing is."""
        return {}


def _tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> Counts:
    """Tokens of each text on its own, without special tokens."""
    counts: list[int] = []
    for start in range(0, len(texts), _MOST_TEXTS):
        counts += tokenizer.alone(texts[start : start + _MOST_TEXTS])
    return np.array(counts, dtype=np.int64)


LOCAL = ("model", "revision", "device", "precision", "batch_size", "max_length")
"""The options of `rerank` for a model on this machine."""


class Scorer(Protocol):
    """A model at work, and the scores that are kept of it."""

    def scores(self, pairs: TextPairs, lengths: Counts, advance: Callable[[int], None]) -> Floats: ...

    def billed(self, question: Counts) -> dict[str, Fact]: ...


@dataclass(frozen=True)
class LocalReranker:
    """A cross-encoder of the sentence-transformers library."""

    not_identity: ClassVar[tuple[str, ...]] = ("device", "batch_size", "endpoint")
    """The options of `rerank` that change no score, or only its last bits, and the options of other models."""

    model: str
    revision: str | None
    device: str | None
    precision: Precision
    batch_size: int
    max_length: int | None

    def identity(self) -> dict[str, Any]:
        """The parts of the key that are no options of `rerank`, as JSON values."""
        return {}

    @property
    def _folder(self) -> Path:
        return find_model(self.model, self.revision)

    @property
    def length(self) -> int | None:
        """How many tokens of a pair are read, None if it is not known."""
        return self.max_length if self.max_length is not None else ModelLayout(self._folder).most_tokens()

    def inputs(self, digest: Digest) -> dict[str, Any]:
        """All that changes the score of a pair, but its texts. Raises ModelNotFoundError."""
        files = model_fingerprint(self._folder, digest)
        return {"files": files, "max_length": self.length, "precision": self.precision, "activation": "identity"}

    def check(self, setting: str) -> None:
        """Raise InputError for ``setting`` if the files show that the model cannot rerank."""
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
        """The model's tokenizer, None if it is not available. Raises ModelNotFoundError."""
        path = self._folder / "tokenizer.json"
        return Tokenizer(path) if path.exists() else None

    def scorer(self, path: Path | None, kind: str) -> Scorer:
        """The model, and the scores that are kept of it in the file ``path``; with None nothing is kept or read."""
        ready = partial(load, self._folder, self.device, self.precision, self.length)
        return PairScores(ready, self.batch_size, path, f"{kind} model={self.model}")

    def expected_cost(self, questions: Sequence[Question], texts: Texts, candidates: int) -> float | None:
        """The approximate cost of scoring the first ``candidates`` of ``texts``; None if nothing is paid."""
        return None

    def cost(self, facts: Facts) -> float | None:
        """The amount paid, from the facts of a ranking; None if no payment is known."""
        return None


@dataclass(frozen=True)
class EndpointReranker:
    """A reranker behind an endpoint."""

    not_identity: ClassVar[tuple[str, ...]] = LOCAL
    length: ClassVar[int | None] = None

    endpoint: RerankEndpoint

    def identity(self) -> dict[str, Any]:
        fields = {"fields": self.endpoint.fields} if self.endpoint.fields else {}
        return {"endpoint": {**self.endpoint.answered_by(), **fields}}

    def inputs(self, digest: Digest) -> dict[str, Any]:
        return self.identity()

    def check(self, setting: str) -> None:
        """Nothing is asked, and so nothing paid, before it is needed."""

    def tokenizer(self) -> None:
        return None

    def scorer(self, path: Path | None, kind: str) -> Scorer:
        return EndpointScores(self.endpoint, path, f"{kind} model={self.endpoint.model}")

    def expected_cost(self, questions: Sequence[Question], texts: Texts, candidates: int) -> float | None:
        looked_at = min(candidates, texts.count or candidates)
        asked = sum(estimated_tokens(question.text) for question in questions)
        tokens = looked_at * (asked + len(questions) * texts.tokens)
        return self.endpoint.cost_of(tokens, len(questions) * int(self.endpoint.searches(np.array(looked_at))))

    def cost(self, facts: Facts) -> float | None:
        return self.endpoint.cost_of(facts.get("tokens"), facts.get("searches"))


Reranker = LocalReranker | EndpointReranker
"""A model that scores pairs of a question and a text."""
