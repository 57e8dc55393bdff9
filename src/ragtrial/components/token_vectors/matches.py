"""Why a hit has its score: the terms that it shares with the question, or the tokens that match best."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ragtrial.components.retrievers.base import HitMatches, QueryMatches, Weighted
from ragtrial.components.token_vectors.cache import TokenVectors
from ragtrial.components.token_vectors.maxsim import similarities
from ragtrial.components.tokenizers import Tokenizer

_MOST = 8
"""How many terms or matches are shown."""

Named = Callable[[Sequence[int]], list[str]]
"""The words of ids."""


def sparse_matches(query: TokenVectors, hits: Sequence[TokenVectors], named: Named) -> QueryMatches:
    """The shared terms, each with the product of both weights; over all shared terms these add up to the score."""
    found = []
    for hit in hits:
        shared, here, there = np.intersect1d(query.ids, hit.ids, assume_unique=True, return_indices=True)
        worth = query.vectors[here, 0].astype(np.float64) * hit.vectors[there, 0]
        found.append(HitMatches(_largest(shared.tolist(), worth.tolist(), named), _weights(hit, named)))
    return QueryMatches(_weights(query, named), tuple(found))


def late_matches(query: TokenVectors, hits: Sequence[TokenVectors], tokenizer: Tokenizer | None) -> QueryMatches:
    """For each token of the question the most similar token of the text, and the similarity; without special tokens."""
    if tokenizer is None or (query.ids < 0).any():
        return QueryMatches((), tuple(HitMatches(()) for _ in hits))
    is_word = np.array([not tokenizer.is_special(number) for number in query.ids.tolist()], dtype=np.bool_)
    asked = TokenVectors(query.ids[is_word], query.vectors[is_word])
    found = []
    for hit in hits:
        if not len(asked) or not len(hit) or (hit.ids < 0).any():
            found.append(HitMatches(()))
            continue
        near = similarities(asked, hit.vectors)
        best = near.argmax(axis=1)
        pairs = zip(tokenizer.words(asked.ids.tolist()), tokenizer.words(hit.ids[best].tolist()), strict=True)
        named = [one if one == other else f"{one} ~ {other}" for one, other in pairs]
        ranked = sorted(zip(named, near.max(axis=1).tolist(), strict=True), key=lambda pair: (-pair[1], pair[0]))
        once = dict(reversed(ranked))  # keeps the better one of equal matches
        found.append(HitMatches(tuple(sorted(once.items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST])))
    return QueryMatches((), tuple(found))


def _weights(text: TokenVectors, named: Named) -> tuple[Weighted, ...]:
    return _largest(text.ids.tolist(), text.vectors[:, 0].tolist(), named)


def _largest(ids: Sequence[int], worth: Sequence[float], named: Named) -> tuple[Weighted, ...]:
    """The words of the largest values, with these; equal values by id."""
    best = sorted(zip(ids, worth, strict=True), key=lambda pair: (-pair[1], pair[0]))[:_MOST]
    return tuple(zip(named([number for number, _ in best]), (value for _, value in best), strict=True))
