"""How large the text of the first hits is: what a reader, or a language model, is given at each k."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ragtrial.components.tokenizers import Tokenizer
from ragtrial.dataset.chunks import Chunks
from ragtrial.rankings import PADDING, Bools, Codes, Counts, distinct

_UNKNOWN = -1
_AT_ONCE = 1000
"""Texts that are tokenized together."""


@dataclass(frozen=True, eq=False)
class ContextSizes:
    """Sizes of the first 0, 1, ... hits of each query, int64 (queries, depth + 1), in ``characters`` and ``tokens``.

    The text of each chunk counts, without title and special tokens. ``tokens`` is None without a tokenizer.
    """

    characters: Counts
    tokens: Counts | None

    def at(self, k: int, answered: Bools) -> tuple[float, float | None]:
        """The size of the first ``k`` hits, mean over the queries that are ``answered``: characters, tokens; 0 of none.

        ``answered`` has the shape (queries,).
        """
        if not answered.any():
            return 0.0, None if self.tokens is None else 0.0
        place = min(k, self.characters.shape[1] - 1)
        tokens = None if self.tokens is None else float(self.tokens[answered, place].mean())
        return float(self.characters[answered, place].mean()), tokens

    def of_hits(self, query: int) -> list[int] | None:
        """The tokens of each hit of one query, 0 where there are no more hits; None where tokens are not known."""
        return None if self.tokens is None else np.diff(self.tokens[query]).tolist()

    def fitting(self, budget: int) -> Counts:
        """How many of the first hits of each query have at most ``budget`` tokens together, shape (queries,).

        Raises ValueError where tokens are not known.
        """
        if self.tokens is None:
            raise ValueError("tokens are not known")
        return np.asarray((self.tokens[:, 1:] <= budget).sum(axis=1, dtype=np.int64))


class TokenCounts:
    """The token counts of chunk texts without special tokens; each text is counted once."""

    def __init__(self, chunks: Chunks, tokenizer: Tokenizer) -> None:
        self._chunks = chunks
        self._tokenizer = tokenizer
        self._counts = np.full(len(chunks), _UNKNOWN, dtype=np.int64)

    def missing(self, units: Codes) -> Codes:
        """Which chunks of ``units`` are not counted yet, each once."""
        chunks = distinct(units)
        missing: Codes = chunks[self._counts[chunks] == _UNKNOWN]
        return missing

    def of(self, units: Codes, advance: Callable[[int], None] = lambda _: None) -> Counts:
        """The token count of each ranked chunk, in the shape of ``units``; 0 at the padding.

        ``advance`` receives the number of new counts.
        """
        missing = self.missing(units)
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            texts = [self._chunks.text(unit) for unit in some.tolist()]
            self._counts[some] = self._tokenizer.counts(texts) - self._tokenizer.special_tokens
            advance(len(some))
        counts: Counts = np.append(self._counts, 0)[units]
        return counts

    def keep(self, units: Codes, counts: Counts) -> None:
        """Store earlier counts, in the form that ``of`` returns."""
        known = units != PADDING
        self._counts[units[known]] = counts[known]


def context_sizes(characters: Counts, tokens: Counts | None) -> ContextSizes:
    """From the size of each hit, int64 (queries, depth), 0 where there are no more hits."""

    def together(sizes: Counts) -> Counts:
        return np.pad(np.cumsum(sizes, axis=1, dtype=np.int64), ((0, 0), (1, 0)))

    return ContextSizes(together(characters), None if tokens is None else together(tokens))
