"""Reranking by endpoints, in the form that Cohere, Jina, Voyage, vLLM and Infinity share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ragtrial.components.endpoints.answers import billed, in_order, is_number, named
from ragtrial.components.endpoints.bodies import scores_budget
from ragtrial.components.endpoints.client import Client
from ragtrial.errors import EndpointError
from ragtrial.rankings import Floats

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class RerankReply:
    """A score for each text, float32 (texts,), in their order, and what is billed for all (None: not known)."""

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
