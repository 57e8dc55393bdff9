"""An embedder whose every vector is kept under the hash of its text: nothing is embedded twice."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from threading import Lock

import numpy as np

from ragtrial.cache.fingerprints import Digest, file_digest, fingerprint
from ragtrial.cache.vectors import Keys, VectorCache, text_keys
from ragtrial.components.embedders.base import (
    Embedder,
    Encode,
    MeteredEncode,
    checked,
    too_many,
    truncated,
)
from ragtrial.components.embedders.encoding import Workers, model_vectors
from ragtrial.components.embedders.text_sources import (
    MOST_TEXT,
    Batch,
    TextList,
    TextSource,
    in_lists,
    keys_of,
    naming_the_text,
)
from ragtrial.components.endpoints.concurrency import as_they_come
from ragtrial.errors import EmbedderError, InputError
from ragtrial.rankings import Counts, Floats

_MOST_BATCHES = 16  # batches whose texts are read at once, so that a document is not opened for each chunk of it
_READ_BYTES = 4_000_000
_WORTH_WORKERS = 4  # batches; fewer are embedded here while workers would still load the model
_SHARDS = 64  # of a corpus, at least, if it has so many batches: so that the last ones keep all workers busy
_SAME_MODEL = 0.01
"""How far (1 - cosine) a vector made now may be from the one in the cache: hosted models vary in the fourth digit."""


@dataclass(frozen=True, eq=False)
class Embedded:
    """Texts whose vectors are all in the cache at ``path``, in the order of their keys.

    ``amount`` is the length of those that the model was given for it, ``seconds`` what it took for them, ``billed`` the
    tokens that an endpoint counted (None: it does not say).
    """

    path: Path
    keys: Keys
    dimension: int
    amount: int
    seconds: float
    billed: int | None = None

    def blocks(self) -> Iterator[Floats]:
        """The vectors, float32 (some texts, dimension) at a time. Raises WorkspaceError."""
        with VectorCache(self.path) as cache:
            rows = max(1, _READ_BYTES // (4 * max(self.dimension, 1)))
            for start in range(0, len(self.keys), rows):
                yield cache.read(self.keys[start : start + rows])

    @cached_property
    def distinct(self) -> int:
        """How many different texts there are."""
        return len(_first_of_each(self.keys))


Start = Callable[[Embedder], Workers | None]
"""Gives the workers that embed texts of documents; None where this process does."""


class _Model:
    """The model of an embedder, loaded when it is first needed; and the workers that have it, too."""

    def __init__(self, embedder: Embedder, start: Start) -> None:
        self._embedder = embedder
        self.workers = start(embedder) if embedder.is_local else None
        if self.workers is not None:
            weakref.finalize(self, self.workers.release)
        self.encode: Encode | None = None
        self.lock = Lock()
        self.is_known = False
        """Whether it is the one whose vectors are in the cache."""

    def loaded(self) -> Encode:
        with self.lock:
            if self.encode is None:
                self.encode = self._embedder.load()
            return self.encode

    @property
    def is_loaded(self) -> bool:
        return self.encode is not None

    def release(self) -> None:
        self.encode = None
        self.is_known = False
        if self.workers is not None:
            self.workers.release()


class CachedEmbedder:
    """``embedder`` with its vectors kept in a file of ``folder``; the model is loaded when the first text is missing.

    The vectors that it gives are cut to ``embedder.dimensions``; those that it keeps, and all of ``embed``, are whole.

    ``fingerprint`` is the hash of all that changes a vector, but the text and its prefix: of ``parts``. ``digest``
    hashes the model's files; ``start`` gives workers for long lists of texts. Raises ModelNotFoundError.
    """

    def __init__(
        self, embedder: Embedder, folder: Path, digest: Digest = file_digest, start: Start = lambda _: None
    ) -> None:
        self.embedder = embedder
        self.parts = embedder.fingerprint_parts(digest)
        self.fingerprint = fingerprint(self.parts)
        self.tokenizer = embedder.tokenizer()
        self.query_prefix, self.document_prefix = embedder.prefixes()
        self.path = folder / f"{self.fingerprint}.sqlite"
        self._filling = Lock()
        self._model = _Model(embedder, start)
        self._dimension: int | None = None

    def cut(self, embedder: Embedder) -> CachedEmbedder:
        """The same model and cache for ``embedder``, which differs in ``dimensions``."""
        other = copy(self)
        other.embedder = embedder
        return other

    def check(self) -> None:
        """Raise InputError if the model will not load, or is known to have fewer numbers than the config asks for."""
        self.embedder.check()
        wanted = self.embedder.cut_to
        if wanted is not None and (known := self._whole_dimension()) is not None and wanted > known:
            raise InputError(too_many(wanted, known))

    def embed_now(self, texts: Sequence[str]) -> Floats:
        """The vectors of ``texts`` from the model itself, float32 (texts, dimension). Raises EmbedderError."""
        return self._cut(self._made(texts))

    def _made(self, texts: Sequence[str]) -> Floats:
        encode = self._model.loaded()
        at_once = self.embedder.calls_at_once > 1
        with nullcontext() if at_once else self._model.lock:  # of threads: a model in memory works on one batch
            return self._of_one_dimension(model_vectors(self.embedder, encode, texts), texts)

    def _of_one_dimension(self, vectors: Floats, texts: Sequence[str]) -> Floats:
        """``vectors``, if they have the dimension that all had before. Raises EmbedderError."""
        checked(vectors, texts, self._dimension, f"the embedder ({self.embedder.kind})")
        self._dimension = vectors.shape[1]
        return vectors

    def _cut(self, vectors: Floats) -> Floats:
        dimensions = self.embedder.cut_to
        return vectors if dimensions is None else truncated(vectors, dimensions, normalize=self.embedder.normalize)

    @property
    def is_loaded(self) -> bool:
        """Whether the model takes memory now."""
        return self._model.is_loaded

    def release(self) -> None:
        """Let go of the model, and of the memory it takes; it is loaded again when it is needed."""
        self._model.release()

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        """The vectors of queries, float32 (texts, dimension), from the cache or else from the model."""
        return self._vectors(texts, self.query_prefix)

    def embed_documents(self, texts: Sequence[str], advance: Callable[[int], None] = lambda _: None) -> Floats:
        """The vectors of texts of documents, as ``embed_queries``; ``advance`` counts the texts that are done."""
        return self._vectors(texts, self.document_prefix, advance)

    def _vectors(self, texts: Sequence[str], prefix: str, advance: Callable[[int], None] = lambda _: None) -> Floats:
        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        source = TextList(texts)
        held = self._held(text_keys(prefix + text for text in texts))
        if held is not None:
            advance(len(texts))
            return self._cut(held)
        embedded = self.embed(source, prefix, self.lengths(source, prefix), advance)
        return self._cut(np.concatenate(list(embedded.blocks())))

    def _held(self, keys: Keys) -> Floats | None:
        """The vectors of ``keys`` if the cache has all of them: then no text has to be looked at."""
        if not self.path.exists():
            return None
        with VectorCache(self.path) as cache:
            try:
                vectors = cache.read(keys)
            except KeyError:
                return None
        self._dimension = self._dimension or vectors.shape[1]
        return vectors

    def embed(
        self, source: TextSource, prefix: str, lengths: Counts, advance: Callable[[int], None] = lambda _: None
    ) -> Embedded:
        """Embed every text of ``source`` behind ``prefix``, of the given ``lengths`` (see there).

        Equal texts are embedded once, texts that the cache has not at all; each finished batch is kept before the
        next begins. ``advance`` is called for every text that is done. Raises EmbedderError and WorkspaceError.
        """
        keys = keys_of(source, prefix)
        # Of threads that want the same text the second finds it in the cache.
        with self._filling, VectorCache(self.path, self.embedder.summary()) as cache:
            first = _absent(cache, keys)
            # Longest first: batches of equal length waste no padding, and the largest memory is asked for at once.
            order = first[np.lexsort((first, -lengths[first]))]
            advance(len(keys) - len(order))
            self._dimension = self._dimension or cache.dimension()
            seconds, billed = 0.0, self._billed()
            if len(order):
                self._refuse_another_model(cache)
            start = time.perf_counter()
            for (positions, texts), vectors in self._embedded(source, order, lengths, prefix):
                seconds += time.perf_counter() - start
                cache.write(keys[positions], vectors)
                if positions[0] == order[0]:
                    shortest = min(range(len(texts)), key=lambda row: len(texts[row]))
                    cache.keep_probe(prefix + texts[shortest], vectors[shortest])
                advance(len(positions))
                start = time.perf_counter()
        amount, now = int(lengths[order].sum()), self._billed()
        tokens = None if now is None else now - (billed or 0)
        return Embedded(self.path, keys, self._dimension or 0, amount, seconds, tokens)

    def _embedded(
        self, source: TextSource, order: Counts, lengths: Counts, prefix: str
    ) -> Iterator[tuple[Batch, Floats]]:
        """The texts of ``order`` in batches with their vectors, in the order in which they are done."""
        workers, batches = self._model.workers, -(-len(order) // self.embedder.batch_size)
        if workers is not None and batches > _WORTH_WORKERS:
            shards = self._shards_of(source, order, lengths, min(max(batches // _SHARDS, 1), _MOST_BATCHES))

            def embed(shard: Sequence[Batch]) -> list[Floats]:
                return self._by_workers(workers, shard, source, prefix)

            for shard, made in as_they_come(embed, shards, workers.count):
                yield from zip(shard, made, strict=True)
            return
        self._model.loaded()
        one_by_one = chain.from_iterable(self._shards_of(source, order, lengths, _MOST_BATCHES))

        def embed_batch(batch: Batch) -> Floats:
            with naming_the_text(source, batch[0]):
                return self._made([prefix + text for text in batch[1]])

        if self.embedder.calls_at_once == 1:
            yield from ((batch, embed_batch(batch)) for batch in one_by_one)
        else:
            yield from as_they_come(embed_batch, one_by_one, self.embedder.calls_at_once)

    def _by_workers(self, workers: Workers, shard: Sequence[Batch], source: TextSource, prefix: str) -> list[Floats]:
        with naming_the_text(source, np.concatenate([positions for positions, _ in shard])):
            made = workers.embed([[prefix + text for text in texts] for _, texts in shard])
        return [self._of_one_dimension(vectors, texts) for vectors, (_, texts) in zip(made, shard, strict=True)]

    def _billed(self) -> int | None:
        encode = self._model.encode
        return encode.tokens if isinstance(encode, MeteredEncode) else None

    def absent(self, source: TextSource, prefix: str) -> tuple[Counts, Keys]:
        """The positions of the texts that would be embedded, of equal ones the first, and their keys."""
        keys = keys_of(source, prefix)
        if not self.path.exists():
            first = _first_of_each(keys)
        else:
            with VectorCache(self.path) as cache:
                first = _absent(cache, keys, unread=True)
        return first, keys[first]

    def dimension(self) -> int | None:
        """The dimension of the vectors, None where neither the cache nor the model's files tell it."""
        return self.embedder.cut_to or self._whole_dimension()

    def _whole_dimension(self) -> int | None:
        if self._dimension is None and self.path.exists():
            with VectorCache(self.path) as cache:
                self._dimension = cache.dimension()
        return self._dimension or self.embedder.dimension()

    def lengths(self, source: TextSource, prefix: str) -> Counts:
        """Tokens of each text behind ``prefix``, special ones counted; characters where there is no tokenizer."""
        lengths: list[Counts] = [np.empty(0, dtype=np.int64)]
        for texts in in_lists(source.indexed_texts()):
            if self.tokenizer is not None:
                lengths.append(self.tokenizer.counts([prefix + text for text in texts]))
            else:
                lengths.append(np.array([len(text) for text in texts], dtype=np.int64))
        return np.concatenate(lengths)

    def count_too_long(self, lengths: Counts) -> int | None:
        """How many texts of these ``lengths`` are longer than the model reads; None if that is not known."""
        limit = self.embedder.max_tokens()
        return int(np.count_nonzero(lengths > limit)) if self.counts_too_long and limit is not None else None

    @property
    def counts_too_long(self) -> bool:
        """Whether it is known which texts are longer than the model reads."""
        return self.tokenizer is not None and self.embedder.max_tokens() is not None

    def _shards_of(self, source: TextSource, order: Counts, lengths: Counts, most: int) -> Iterator[list[Batch]]:
        """The positions of ``order``, longest first, and their texts, in batches as the model is given them.

        At most so many batches come at once. Which texts are in a batch does not depend on that.
        """
        size, start = self.embedder.batch_size, 0
        while start < len(order):
            fitting = MOST_TEXT // (size * max(int(lengths[order[start]]), 1))
            wanted = order[start : start + size * min(max(fitting, 1), most)]
            start += len(wanted)
            ascending = np.argsort(wanted)
            texts = dict(zip(ascending.tolist(), source.indexed_texts(wanted[ascending].tolist()), strict=True))
            shard, first = list[Batch](), 0
            while first < len(wanted):
                positions = wanted[first : first + self._fitting(lengths[wanted[first : first + size]])]
                shard.append((positions, [texts[place] for place in range(first, first + len(positions))]))
                first += len(positions)
            yield shard

    def _fitting(self, lengths: Counts) -> int:
        """How many texts of these ``lengths``, the first ones, are a batch: at least one."""
        most = self.embedder.batch_length
        return len(lengths) if most is None else max(1, int(np.searchsorted(np.cumsum(lengths), most, side="right")))

    def _refuse_another_model(self, cache: VectorCache) -> None:
        """Raise EmbedderError if the model is not the one whose vectors are in the cache: two must not mix.

        One text of the cache is embedded again for that, once, before any new text is; and only where the fingerprint
        cannot tell, as of a function that asks a service.
        """
        probe = cache.probe()
        if self._model.is_known or probe is None or not self.embedder.may_change:
            self._model.is_known = True
            return
        text, kept = probe
        (made,) = self._made([text])
        lengths = float(np.linalg.norm(kept)) * float(np.linalg.norm(made))
        if lengths > 0 and 1 - float(kept @ made) / lengths > _SAME_MODEL:
            raise EmbedderError(
                f"the embedder ({self.embedder.kind}) gives another vector for {text[:60]!r} than it gave before; "
                "vectors of two models cannot be compared. If the model has changed, give it another `version:`."
            )
        self._model.is_known = True


def _absent(cache: VectorCache, keys: Keys, *, unread: bool = False) -> Counts:
    """The positions of the keys that the cache has not, of equal ones the first, ascending; see ``missing``."""
    absent = np.flatnonzero(cache.missing(keys, unread=unread))
    return absent[_first_of_each(keys[absent])]


def _first_of_each(keys: Keys) -> Counts:
    """The first position of each different key, ascending."""
    halves = np.ascontiguousarray(keys).view("<u8")  # eight bytes a number: sorted several times faster than bytes
    order = np.lexsort((halves[:, 0], halves[:, 1]))
    differs = np.ones(len(keys), dtype=np.bool_)
    differs[1:] = (halves[order[1:]] != halves[order[:-1]]).any(axis=1)
    return np.sort(order[differs])  # the sort is stable: the first of each run is the first of all
