"""Rerankers behind endpoints: each score is paid for once, and kept with what was billed for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ragtrial.cache.vectors import VectorCache
from ragtrial.components.endpoints.client import Client
from ragtrial.components.endpoints.concurrency import as_they_come
from ragtrial.components.endpoints.options import EndpointOptions, EndpointUrl, Price
from ragtrial.components.endpoints.refusals import Refusals
from ragtrial.components.endpoints.rerank import RerankReply, rerank
from ragtrial.components.refiners.pair_scores import TextPairs
from ragtrial.components.retrievers.base import Fact
from ragtrial.errors import EndpointError
from ragtrial.rankings import Counts, Floats

TEXTS_PER_SEARCH = 100
"""Of one search, as Cohere bills them."""

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
        """About how many searches are billed for questions with so many ``texts`` each: at least one a request."""
        return np.asarray(-(-texts // min(self.batch_size, TEXTS_PER_SEARCH)), dtype=np.int64)

    def cost_of(self, tokens: object, searches: object) -> float | None:
        """The cost of a number of tokens and searches; None without a price for what is known."""
        parts = [(tokens, self.price, 1e6), (searches, self.search_price, 1e3)]
        known = [
            count * price / per for count, price, per in parts if isinstance(count, int | float) and price is not None
        ]
        return sum(known) if known else None


@dataclass(eq=False)
class EndpointScores:
    """The endpoint's scores, kept in the file ``path``, which ``what`` describes; with None nothing is kept.

    ``tokens`` and ``searches`` were billed for all pairs that were asked for, cached ones included; NaN where the
    endpoint does not say.
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
        """What all pairs cost, given the question of each: tokens as billed, None if that is not known; and searches.

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
        """The positions of ``wanted`` pairs, those of one question together, as many as one request takes."""
        size = self.endpoint.batch_size
        for one in np.split(wanted, np.flatnonzero(np.diff(pairs.question[wanted])) + 1):
            yield from (one[start : start + size] for start in range(0, len(one), size))

    def _checked_client(self, kept: VectorCache | None) -> Client:
        """The client. Raises EndpointError if the model is not the one whose scores are kept: two must not mix."""
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
