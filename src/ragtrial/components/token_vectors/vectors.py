"""Token vectors and term weights of texts, computed once and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Self

import numpy as np
import numpy.typing as npt

from ragtrial.cache.vectors import Keys, VectorCache
from ragtrial.components import batching
from ragtrial.components.batching import Meter, Spent, TextList, TextSource
from ragtrial.components.embedders.model_files import Task
from ragtrial.rankings import Codes, Counts, Floats

_NUMBER = np.dtype(np.int32).itemsize
_TEXTS_READ = 128  # whose vectors are read at once


@dataclass(frozen=True, eq=False)
class TokenVectors:
    """The tokens of a text: ``ids``, int32 (tokens,), and ``vectors``, float32 (tokens, width).

    For a sparse model these are the terms of its vocabulary with a weight other than 0, each once, and their weights
    (width 1). An id is -1 where the token is unknown.
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
        """The tokens that were packed into ``kept``."""
        width = int(np.frombuffer(kept, np.int32, 1)[0])
        count = (len(kept) // _NUMBER - 1) // (1 + width)
        ids = np.frombuffer(kept, np.int32, count, _NUMBER)
        return cls(ids, np.frombuffer(kept, np.float32, count * width, _NUMBER * (1 + count)).reshape(count, width))


EncodeTokens = Callable[[Sequence[str], Task], list[TokenVectors]]
"""Encodes one batch of texts, in their order. Raises RunError."""


class TokenEncoder:
    """The model that ``load`` returns, with its results kept in the file ``path``, which ``what`` describes.

    The model is loaded when the first text is missing, and stays loaded. With ``path`` None, only the results of the
    last call are kept, in memory, as a system in production would.
    """

    def __init__(self, load: Callable[[], EncodeTokens], batch_size: int, path: Path | None, what: str) -> None:
        self._load = load
        self._batch_size = batch_size
        self._path = path
        self._what = what
        self._last: tuple[tuple[str, ...], list[TokenVectors]] = (), []
        self._lock = Lock()

    @cached_property
    def _encode(self) -> EncodeTokens:
        return self._load()

    def of_texts(self, texts: Sequence[str], task: Task) -> list[TokenVectors]:
        """The tokens of ``texts``. Raises RunError and WorkspaceError."""
        if self._path is not None:
            return list(chain.from_iterable(self.blocks(self.fill(TextList(texts), task))))
        asked = (task, *texts)
        if asked != self._last[0]:
            size = self._batch_size
            batches = (self._encode(texts[start : start + size], task) for start in range(0, len(texts), size))
            self._last = asked, list(chain.from_iterable(batches))
        return self._last[1]

    def fill(
        self,
        source: TextSource,
        task: Task,
        lengths: Counts | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> Keys:
        """Encode every text of ``source`` that is not in the file yet; the keys of all.

        Equal texts are encoded once, and each batch is kept before the next begins. ``lengths`` groups texts of similar
        length (default: characters). ``advance`` is called for every text that is done.
        """
        keys = batching.keys_of(source, f"{task}\0")  # a question and a document with the same words are two texts
        lengths = batching.lengths_of(source, "", None) if lengths is None else lengths
        with self._lock, self._opened() as cache:
            order = batching.longest_first(batching.absent(cache, keys), lengths)
            if len(order):
                _ = self._encode  # loading is no part of the first batch's time
            advance(len(keys) - len(order))
            meter = Meter()
            for positions, texts in batching.batches(source, order, lengths, self._batch_size):
                packed = [tokens.packed() for tokens in self._encode(texts, task)]
                cache.write(keys[positions], packed, meter.shares(lengths[positions]))
                advance(len(positions))
        return keys

    def blocks(self, keys: Keys) -> Iterator[list[TokenVectors]]:
        """The tokens in the file under ``keys``, some texts at a time."""
        with self._opened() as cache:
            for start in range(0, len(keys), _TEXTS_READ):
                yield [TokenVectors.unpacked(kept) for kept in cache.read_each(keys[start : start + _TEXTS_READ])]

    def spent(self, keys: Keys) -> Spent:
        """The seconds of encoding the texts of ``keys``, as measured when each was encoded."""
        with self._opened() as cache:
            return Spent.of(cache, keys)

    def _opened(self) -> VectorCache:
        if self._path is None:
            raise ValueError("nothing is kept without a path")
        return VectorCache(self._path, self._what)
