"""Batches of texts on their way to a model, and several requests at once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from threading import Lock
from typing import Protocol, Self, TypeVar

import numpy as np

from ragtrial.cache.vectors import Costs, Keys, VectorCache, text_keys
from ragtrial.components.tokenizers import CHARACTERS_PER_TOKEN, Tokenizer, estimated_tokens
from ragtrial.errors import EmbedderError
from ragtrial.rankings import Counts

T = TypeVar("T")
R = TypeVar("R")

MOST_BATCHES = 16
"""Batches whose texts are read at once, so that a document is not opened for each chunk of it."""

_MOST_TEXT = 2_000_000  # tokens or characters of text that are held at once, but at least a batch
_MOST_TEXTS = 256

Batch = tuple[Counts, list[str]]
"""Positions of texts in their source, and the texts."""


class TextSource(Protocol):
    """Texts by position; they need not all fit in memory."""

    def __len__(self) -> int: ...

    def indexed_texts(self, positions: Sequence[int] | None = None) -> Iterator[str]: ...

    def text_id(self, position: int) -> str:
        """The name of a text in messages."""
        ...


@dataclass(frozen=True)
class TextList:
    """Texts in memory, as a source."""

    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.texts)

    def indexed_texts(self, positions: Sequence[int] | None = None) -> Iterator[str]:
        return iter(self.texts) if positions is None else (self.texts[position] for position in positions)

    def text_id(self, position: int) -> str:
        return repr(self.texts[position][:60])


@dataclass(frozen=True)
class Spent:
    """The costs of texts: seconds of the model, and tokens that an endpoint billed. None where that is not known."""

    seconds: float | None
    tokens: float | None

    @classmethod
    def of(cls, cache: VectorCache, keys: Keys) -> Self:
        """The sum over the distinct ``keys``, as measured when each was made."""
        return cls.of_sums(cache.costs(keys[first_of_each(keys)]).sum(axis=0))

    @classmethod
    def of_sums(cls, sums: Costs) -> Self:
        """The sums of costs, NaN where one is not known."""
        seconds, tokens = (None if math.isnan(one) else one for one in sums.tolist())
        return cls(seconds, tokens)


class Meter:
    """Divides the costs of a batch among its texts, by their lengths.

    Time is counted once: from the end of one batch to the end of the next, however many are at work. ``billed`` gives
    the tokens that were billed so far, None where that is not known.
    """

    def __init__(self, billed: Callable[[], int | None] = lambda: None) -> None:
        self._lock = Lock()
        self._billed = billed
        self._before = self._now()

    def shares(self, lengths: Counts) -> Costs:
        """The costs of each of the texts that were just finished, shape (texts, 2); see ``Costs``."""
        with self._lock:
            now, before = self._now(), self._before
            self._before = now
        weights = lengths + 1.0  # a text without characters takes some time, too
        return np.outer(weights / weights.sum(), now - before)

    def _now(self) -> Costs:
        billed = self._billed()
        return np.array([time.perf_counter(), np.nan if billed is None else billed])


@contextmanager
def naming_the_text(source: TextSource, positions: Counts) -> Iterator[None]:
    """An EmbedderError about one text says which of those at ``positions`` it is."""
    try:
        yield
    except EmbedderError as error:
        if error.position is None:
            raise
        text = source.text_id(int(positions[error.position]))
        raise EmbedderError(f"{str(error).rstrip('.')}. The text was {text}.") from error


def keys_of(source: TextSource, prefix: str) -> Keys:
    """The key of every text behind ``prefix``, shape (texts, 16)."""
    groups = _groups(source.indexed_texts())
    return np.concatenate([text_keys(()), *(text_keys(prefix + text for text in texts) for texts in groups)])


def lengths_of(source: TextSource, prefix: str, tokenizer: Tokenizer | None) -> Counts:
    """Tokens of each text after ``prefix``, with special tokens.

    Without a tokenizer, characters of the text; of another script than Latin, of English of about as many tokens.
    """
    lengths: list[Counts] = [np.empty(0, dtype=np.int64)]
    for texts in _groups(source.indexed_texts()):
        if tokenizer is not None:
            lengths.append(tokenizer.counts([prefix + text for text in texts]))
        else:
            characters = [round(estimated_tokens(text) * CHARACTERS_PER_TOKEN) for text in texts]
            lengths.append(np.array(characters, dtype=np.int64))
    return np.concatenate(lengths)


def absent(cache: VectorCache, keys: Keys, *, unchecked: bool = False) -> Counts:
    """The positions of the distinct keys that the cache lacks, ascending; see ``missing``."""
    missing = np.flatnonzero(cache.missing(keys, unchecked=unchecked))
    return missing[first_of_each(keys[missing])]


def first_of_each(keys: Keys) -> Counts:
    """The first position of each different key, ascending."""
    halves = np.ascontiguousarray(keys).view("<u8")  # eight bytes a number: sorted several times faster than bytes
    order = np.lexsort((halves[:, 0], halves[:, 1]))
    differs = np.ones(len(keys), dtype=np.bool_)
    differs[1:] = (halves[order[1:]] != halves[order[:-1]]).any(axis=1)
    return np.sort(order[differs])  # the sort is stable: the first of each run is the first of all


def longest_first(positions: Counts, lengths: Counts) -> Counts:
    """``positions`` by the ``lengths`` of all texts, the longest first, ties in their order.

    Batches of equal length waste no padding, and the largest memory is asked for at once.
    """
    return positions[np.argsort(-lengths[positions], kind="stable")]


def batches(
    source: TextSource, order: Counts, lengths: Counts, size: int, most_length: int | None = None
) -> Iterator[Batch]:
    """The texts at the positions of ``order``, longest first, with these, at most ``size`` in a batch.

    Together they have at most ``most_length`` of the given ``lengths``; a text that is longer goes alone.
    """
    return chain.from_iterable(shards(source, order, lengths, size, most_length, MOST_BATCHES))


def shards(
    source: TextSource, order: Counts, lengths: Counts, size: int, most_length: int | None, most_batches: int
) -> Iterator[list[Batch]]:
    """The same batches, up to ``most_batches`` at once. Which texts are in a batch does not depend on that."""
    start = 0
    while start < len(order):
        fitting = _MOST_TEXT // (size * max(int(lengths[order[start]]), 1))
        wanted = order[start : start + size * min(max(fitting, 1), most_batches)]
        start += len(wanted)
        ascending = np.argsort(wanted)
        texts = dict(zip(ascending.tolist(), source.indexed_texts(wanted[ascending].tolist()), strict=True))
        shard, first = list[Batch](), 0
        while first < len(wanted):
            count = _fitting(lengths[wanted[first : first + size]], most_length)
            shard.append((wanted[first : first + count], [texts[place] for place in range(first, first + count)]))
            first += count
        yield shard


def _fitting(lengths: Counts, most: int | None) -> int:
    """The number of first texts with these ``lengths`` that make a batch: at least one."""
    return len(lengths) if most is None else max(1, int(np.searchsorted(np.cumsum(lengths), most, side="right")))


def _groups(texts: Iterator[str]) -> Iterator[list[str]]:
    """``texts`` in lists that fit in memory, however long one is."""
    while group := list(islice(texts, _MOST_TEXTS)):
        yield group
