"""An embedder whose every vector is kept under the hash of its text: nothing is embedded twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from ragtrial.embedders.base import Embedder, Encode, checked, normalized
from ragtrial.rankings import Counts, Floats
from ragtrial.storage.fingerprints import fingerprint, text_key
from ragtrial.storage.vectors import VectorCache

_SHARD_BATCHES = 8  # batches encoded between two writes: few enough to lose little, enough to keep a model busy
_READ = 4_096


class TextSource(Protocol):
    """Texts by position, of which not all need fit in memory."""

    def __len__(self) -> int: ...

    def indexed_texts(self, positions: Sequence[int] | None = None) -> Iterator[str]: ...


@dataclass(frozen=True)
class TextList:
    """Texts in memory, as a source."""

    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.texts)

    def indexed_texts(self, positions: Sequence[int] | None = None) -> Iterator[str]:
        return iter(self.texts) if positions is None else (self.texts[position] for position in positions)


class CachedEmbedder:
    """``embedder`` with its vectors kept in a file of ``folder``; the model is loaded when the first text is missing.

    ``fingerprint`` is the hash of all that changes a vector, but the text and its prefix. Raises ModelNotFoundError.
    """

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        self.embedder = embedder
        self.fingerprint = fingerprint(embedder.fingerprint_parts())
        self.tokenizer = embedder.tokenizer()
        self.query_prefix, self.document_prefix = embedder.prefixes()
        self.folder = folder
        self._encode: Encode | None = None
        self._dimension: int | None = None

    def embed_now(self, texts: Sequence[str]) -> Floats:
        """The vectors of ``texts`` from the model itself, float32 (texts, dimension). Raises EmbedderError."""
        if self._encode is None:
            self._encode = self.embedder.load()
        vectors = checked(self._encode(texts), texts, self._dimension, f"the embedder ({self.embedder.kind})")
        self._dimension = vectors.shape[1]
        return normalized(vectors) if self.embedder.normalize else vectors

    def release(self) -> None:
        """Let go of the model, and of the memory it takes; it is loaded again when it is needed."""
        self._encode = None

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        """The vectors of queries, float32 (texts, dimension), from the cache or else from the model."""
        made = np.empty((0, 0), dtype=np.float32)

        def out(count: int, dimension: int) -> Floats:
            nonlocal made
            made = np.empty((count, dimension), dtype=np.float32)
            return made

        self.embed(TextList(texts), self.query_prefix, out, _ignore)
        return made

    def embed(
        self, source: TextSource, prefix: str, out: Callable[[int, int], Floats], advance: Callable[[int], None]
    ) -> None:
        """Embed every text of ``source`` behind ``prefix`` and put the vectors into the array that ``out`` makes.

        ``out(texts, dimension)`` must give a float32 array of that shape. Equal texts are embedded once; texts that
        the cache has are not embedded again; each finished shard is kept before the next begins. ``advance`` is told
        of every text that is done. Raises EmbedderError and WorkspaceError.
        """
        keys, lengths = self._keys(source, prefix)
        with VectorCache(self.folder / f"{self.fingerprint}.sqlite") as cache:
            absent = cache.missing(keys)
            first_of = {key: position for position, key in reversed(list(enumerate(keys))) if key in absent}
            # Longest first: batches of equal length waste no padding, and the largest memory is asked for at once.
            order = sorted(first_of.values(), key=lambda position: (-int(lengths[position]), position))
            advance(len(keys) - len(order))
            self._dimension = self._dimension or cache.dimension()
            shard = self.embedder.batch_size * _SHARD_BATCHES
            for start in range(0, len(order), shard):
                positions = order[start : start + shard]
                vectors = self.embed_now([prefix + text for text in source.indexed_texts(positions)])
                cache.write([keys[position] for position in positions], vectors)
                advance(len(positions))
            self._fill(cache, keys, out)

    def count_too_long(self, source: TextSource, prefix: str) -> int | None:
        """How many texts are longer than the model reads; None if that is not known."""
        limit = self.embedder.max_tokens()
        if self.tokenizer is None or limit is None:
            return None
        return int(np.count_nonzero(self._keys(source, prefix)[1] > limit))

    def _keys(self, source: TextSource, prefix: str) -> tuple[list[bytes], Counts]:
        """The key and the length of every text."""
        keys: list[bytes] = []
        lengths: list[Counts] = []
        for texts in _batches(source.indexed_texts(), 1_024):
            prefixed = [prefix + text for text in texts]
            keys += map(text_key, prefixed)
            lengths.append(self._lengths(prefixed))
        return keys, np.concatenate(lengths) if lengths else np.empty(0, dtype=np.int64)

    def _lengths(self, texts: Sequence[str]) -> Counts:
        """Tokens of each text, characters where there is no tokenizer."""
        if self.tokenizer is not None:
            return self.tokenizer.counts(texts)
        return np.array([len(text) for text in texts], dtype=np.int64)

    def _fill(self, cache: VectorCache, keys: Sequence[bytes], out: Callable[[int, int], Floats]) -> None:
        array: Floats | None = None
        for start in range(0, len(keys), _READ):
            block = cache.read(keys[start : start + _READ])
            if array is None:
                array = out(len(keys), block.shape[1])
            array[start : start + len(block)] = block
        if array is None:
            out(0, 0)


def _ignore(count: int) -> None:
    """No one is waiting to hear how far it is."""


def _batches(texts: Iterator[str], size: int) -> Iterator[list[str]]:
    batch: list[str] = []
    for text in texts:
        batch.append(text)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
