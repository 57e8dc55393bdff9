"""Texts by position, of which not all need fit in memory: what they are called, and how they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ragtrial.cache.vectors import Keys, text_keys
from ragtrial.errors import EmbedderError
from ragtrial.rankings import Counts

MOST_TEXT = 2_000_000
"""Tokens or characters of text that are held at once, but at least a batch."""

_MOST_TEXTS = 1_024

Batch = tuple[Counts, list[str]]
"""Positions of texts in their source, and the texts."""


class TextSource(Protocol):
    """Texts by position, of which not all need fit in memory."""

    def __len__(self) -> int: ...

    def indexed_texts(self, positions: Sequence[int] | None = None) -> Iterator[str]: ...

    def text_id(self, position: int) -> str:
        """What a message calls a text."""
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


@contextmanager
def naming_the_text(source: TextSource, positions: Counts) -> Iterator[None]:
    """An EmbedderError that is of one text says which of those at ``positions`` it is."""
    try:
        yield
    except EmbedderError as error:
        if error.position is None:
            raise
        text = source.text_id(int(positions[error.position]))
        raise EmbedderError(f"{str(error).rstrip('.')}. The text was {text}.") from error


def keys_of(source: TextSource, prefix: str) -> Keys:
    """The key of every text, shape (texts, 16)."""
    batches = in_lists(source.indexed_texts())
    return np.concatenate([text_keys(()), *(text_keys(prefix + text for text in texts) for texts in batches)])


def in_lists(texts: Iterator[str]) -> Iterator[list[str]]:
    """``texts`` in lists that are neither long nor large."""
    batch: list[str] = []
    held = 0
    for text in texts:
        batch.append(text)
        held += len(text)
        if len(batch) == _MOST_TEXTS or held > MOST_TEXT:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch
