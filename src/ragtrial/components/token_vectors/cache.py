"""What a model makes of the tokens of texts, each text once: kept under its hash, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from ragtrial.cache.vectors import Keys, VectorCache, text_keys
from ragtrial.components.embedders.text_sources import TextList, TextSource
from ragtrial.rankings import Codes, Counts, Floats

Task = Literal["query", "document"]
"""Whether a text asks or answers: models read the two otherwise."""

_NUMBER = np.dtype(np.int32).itemsize
_TEXTS_READ = 128  # whose keys are made, or whose vectors are read, at once
_BATCHES_READ = 16  # whose texts are read at once, so that a document is not opened for each chunk of it


@dataclass(frozen=True, eq=False)
class TokenVectors:
    """A text as a model sees it: ``ids`` of tokens, int32 (tokens,), and ``vectors``, float32 (tokens, width).

    A sparse model gives the terms of its vocabulary that weigh anything, each once, and their weights: width 1.
    An id is -1 where no token is known.
    """

    ids: Codes
    vectors: Floats

    def __len__(self) -> int:
        return len(self.ids)

    def packed(self) -> npt.NDArray[np.uint8]:
        """All of it as bytes."""
        parts = np.int32(self.vectors.shape[1]), self.ids.astype(np.int32), self.vectors.astype(np.float32)
        return np.frombuffer(b"".join(part.tobytes() for part in parts), dtype=np.uint8)

    @classmethod
    def unpacked(cls, kept: bytes) -> Self:
        """What was packed into ``kept``."""
        width = int(np.frombuffer(kept, np.int32, 1)[0])
        count = (len(kept) // _NUMBER - 1) // (1 + width)
        ids = np.frombuffer(kept, np.int32, count, _NUMBER)
        return cls(ids, np.frombuffer(kept, np.float32, count * width, _NUMBER * (1 + count)).reshape(count, width))


EncodeTokens = Callable[[Sequence[str], Task], list[TokenVectors]]
"""One batch of texts to what the model makes of them, in their order. Raises RunError."""


class TokenEncoder:
    """A model that ``load`` gives, with all that it makes kept in the file ``path``, which ``what`` describes.

    The model is loaded when the first text is missing, and stays. With ``path`` None nothing is kept or read, but what
    was asked last: a system at work would not make it twice either.
    """

    def __init__(self, load: Callable[[], EncodeTokens], batch_size: int, path: Path | None, what: str) -> None:
        self._load = load
        self._batch_size = batch_size
        self._path = path
        self._what = what
        self._encode: EncodeTokens | None = None
        self._last: tuple[tuple[str, ...], list[TokenVectors]] = (), []
        self._lock = Lock()

    def of_texts(self, texts: Sequence[str], task: Task) -> list[TokenVectors]:
        """What the model makes of ``texts``. Raises RunError and WorkspaceError."""
        if self._path is not None:
            return [one for block in self.blocks(self.fill(TextList(texts), task)) for one in block]
        asked = (task, *texts)
        if asked != self._last[0]:
            size = self._batch_size
            batches = [self._made(texts[start : start + size], task) for start in range(0, len(texts), size)]
            self._last = asked, [one for batch in batches for one in batch]
        return self._last[1]

    def fill(
        self,
        source: TextSource,
        task: Task,
        lengths: Counts | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> Keys:
        """See that what the model makes of every text of ``source`` is in the file; their keys.

        Equal texts are encoded once, and each batch is kept before the next begins. ``lengths`` puts equally long ones
        together (default: characters). ``advance`` is called for every text that is done.
        """
        keys, characters = self._keys(source, task)
        lengths = characters if lengths is None else lengths
        with self._lock, self._opened() as cache:
            absent = np.flatnonzero(cache.missing(keys))
            _, first = np.unique(keys[absent], axis=0, return_index=True)
            missing = absent[np.sort(first)]
            # Longest first: batches of equal length waste no padding, and the largest memory is asked for at once.
            order = missing[np.argsort(-lengths[missing], kind="stable")]
            advance(len(keys) - len(order))
            for start in range(0, len(order), self._batch_size * _BATCHES_READ):
                wanted = order[start : start + self._batch_size * _BATCHES_READ]
                ascending = np.sort(wanted)
                texts = dict(zip(ascending.tolist(), source.indexed_texts(ascending.tolist()), strict=True))
                for place in range(0, len(wanted), self._batch_size):
                    batch = wanted[place : place + self._batch_size]
                    made = self._made([texts[position] for position in batch.tolist()], task)
                    cache.write(keys[batch], [one.packed() for one in made])
                    advance(len(batch))
        return keys

    def blocks(self, keys: Keys) -> Iterator[list[TokenVectors]]:
        """What is in the file under ``keys``, some at a time."""
        with self._opened() as cache:
            for start in range(0, len(keys), _TEXTS_READ):
                yield [TokenVectors.unpacked(kept) for kept in cache.read_each(keys[start : start + _TEXTS_READ])]

    def missing(self, source: TextSource, task: Task) -> Counts:
        """The positions of the texts that would be encoded, equal ones counted each time; nothing is changed."""
        keys, _ = self._keys(source, task)
        if self._path is None or not self._path.exists():
            return np.arange(len(keys))
        with self._opened() as cache:
            return np.flatnonzero(cache.missing(keys, unread=True))

    def _opened(self) -> VectorCache:
        if self._path is None:
            raise ValueError("nothing is kept without a path")
        return VectorCache(self._path, self._what)

    def _made(self, texts: Sequence[str], task: Task) -> list[TokenVectors]:
        if self._encode is None:
            self._encode = self._load()
        return self._encode(texts, task)

    @staticmethod
    def _keys(source: TextSource, task: Task) -> tuple[Keys, Counts]:
        """The key of every text, and its characters."""
        keys, sizes, batch = [text_keys(())], [0] * 0, list[str]()
        for text in source.indexed_texts():
            batch.append(f"{task}\0{text}")
            sizes.append(len(text))
            if len(batch) == _TEXTS_READ:
                keys.append(text_keys(batch))
                batch = []
        return np.concatenate([*keys, text_keys(batch)]), np.array(sizes, dtype=np.int64)


def checked(made: Sequence[TokenVectors], texts: Sequence[str]) -> str | None:
    """What is wrong with what a model made of ``texts``; None if nothing is."""
    if len(made) != len(texts):
        return f"{len(made)} results for {len(texts)} texts"
    bad = [text for one, text in zip(made, texts, strict=True) if not np.isfinite(one.vectors).all()]
    return f"NaN or infinity for {len(bad)} of {len(texts)} texts; the first begins {bad[0][:60]!r}" if bad else None
