"""An embedder that keeps every vector under the hash of its text, and embeds no text twice.

The one exception is a text by which it sees that the model behind an endpoint or a function is still the same.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from operator import add
from pathlib import Path
from threading import Lock

import numpy as np

from ragtrial.cache.fingerprints import Digest, file_digest, fingerprint
from ragtrial.cache.vectors import Keys, VectorCache, are_of_one_model, text_keys
from ragtrial.components import batching
from ragtrial.components.batching import Batch, Meter, Spent, TextList, TextSource, naming_the_text
from ragtrial.components.embedders import base
from ragtrial.components.endpoints.client import Refusals
from ragtrial.engines.batching import as_they_come
from ragtrial.errors import EmbedderError, InputError, WorkspaceError, counted
from ragtrial.progress import Advance
from ragtrial.rankings import Counts, Floats

_READ_BYTES = 4_000_000
_WORTH_WORKERS = 4  # batches; fewer are embedded here while workers would still load the model
_SHARDS = 64  # a corpus has at least this many if it has enough batches, so that the last shards keep all workers busy


@dataclass(frozen=True, eq=False)
class Embedded:
    """Texts whose vectors are all in the cache at ``path``, in the order of their keys.

    ``amount`` is the total length of the newly embedded texts, ``seconds`` the time that took, and ``billed`` the
    tokens that an endpoint billed (None: not reported).
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
        return len(batching.first_of_each(self.keys))

    @property
    def spent(self) -> Spent:
        """The seconds and tokens of embedding all texts, as measured when each was embedded."""
        with VectorCache(self.path) as cache:
            return Spent.of(cache, self.keys)


Start = Callable[[base.Embedder], base.Workers | None]
"""Starts the workers that embed texts of documents; None if this process embeds them."""


class _Model:
    """The model of an embedder, loaded when it is first needed, and the workers that have their own copies of it."""

    def __init__(self, embedder: base.Embedder, start: Start) -> None:
        self._embedder = embedder
        self.workers = start(embedder) if embedder.is_local else None
        if self.workers is not None:
            weakref.finalize(self, self.workers.release)
        self.encode: base.Encode | None = None
        self.lock = Lock()
        self.is_known = False
        """If true, the model is known to be the one of the cached vectors."""

    def loaded(self) -> base.Encode:
        with self.lock:
            if self.encode is None:
                self.encode = self._embedder.load()
            return self.encode

    def release(self) -> None:
        self.encode = None
        self.is_known = False
        if self.workers is not None:
            self.workers.release()


@dataclass(frozen=True, eq=False)
class _MissingTexts:
    """The texts of ``source`` that ``cache`` lacks: those at the positions of ``order``, longest first."""

    cache: VectorCache
    source: TextSource
    prefix: str
    lengths: Counts
    keys: Keys
    order: Counts
    meter: Meter

    def keep(self, batches: Sequence[tuple[Batch, Floats]]) -> None:
        """Write the vectors of batches that were just finished, with their shares of the costs."""
        shares = self.meter.shares(np.concatenate([self.lengths[positions] for (positions, _), _ in batches]))
        for (positions, texts), vectors in batches:
            shortest = min(range(len(texts)), key=lambda row: len(texts[row]))
            self.cache.keep_probe(self.prefix + texts[shortest], vectors[shortest])  # first: no vector without a probe
            costs, shares = np.split(shares, [len(texts)])
            self.cache.write(self.keys[positions], vectors, costs)


class CachedEmbedder:
    """``embedder`` with a cache of its vectors in ``folder``; the model is loaded when the first text is missing.

    Vectors are returned cut to ``embedder.used_dimensions``; those in the cache, and all of ``embed``, are whole.

    ``fingerprint`` is the hash of ``parts``: everything but the text and its prefix that changes a vector. ``digest``
    hashes the model's files; ``start`` gives workers for long lists of texts. Raises ModelNotFoundError.
    """

    def __init__(
        self, embedder: base.Embedder, folder: Path, digest: Digest = file_digest, start: Start = lambda _: None
    ) -> None:
        self.embedder = embedder
        self.parts = embedder.hashed_parts(digest) | embedder.versions()
        self.fingerprint = fingerprint(self.parts)
        self.tokenizer = embedder.tokenizer()
        sides = base.SIDES if embedder.distinguishes_sides else ("", "")
        self.query_prefix, self.document_prefix = map(add, sides, embedder.prefixes())
        self.path = folder / f"{self.fingerprint}.sqlite"
        self._filling = Lock()
        self._model = _Model(embedder, start)
        self._dimension: int | None = None

    def cut(self, embedder: base.Embedder) -> CachedEmbedder:
        """A copy for ``embedder``, which differs only in ``used_dimensions``, with the same model and cache."""
        other = copy(self)
        other.embedder = embedder
        return other

    def check(self) -> None:
        """Raise InputError if the model cannot be loaded, or is known to have fewer dimensions than requested."""
        self.embedder.check()
        if self.tokenizer is not None and not self.path.exists():  # otherwise it has counted the embedded texts
            self.tokenizer.check()
        wanted = self.embedder.used_dimensions
        if wanted is not None and (known := self._whole_dimension()) is not None and wanted > known:
            raise InputError(base.too_many(wanted, known, self.embedder.cut_option))

    def embed_now(self, texts: Sequence[str]) -> Floats:
        """The vectors of ``texts`` from the model itself, float32 (texts, dimension). Raises EmbedderError."""
        return self._cut(self._embed_directly(texts))

    def _embed_directly(self, texts: Sequence[str]) -> Floats:
        encode = self._model.loaded()
        at_once = self.embedder.calls_at_once > 1
        with nullcontext() if at_once else self._model.lock:  # a model in memory works on one batch at a time
            return self._of_one_dimension(base.model_vectors(self.embedder, encode, texts), texts)

    def _of_one_dimension(self, vectors: Floats, texts: Sequence[str]) -> Floats:
        """``vectors``, if they have the dimension of all vectors before them. Raises EmbedderError."""
        base.checked(vectors, texts, self._dimension, f"the embedder ({self.embedder.kind})")
        self._dimension = vectors.shape[1]
        return vectors

    def _cut(self, vectors: Floats) -> Floats:
        dimensions = self.embedder.used_dimensions
        return vectors if dimensions is None else base.truncated(vectors, dimensions, normalize=self.embedder.normalize)

    @property
    def is_loaded(self) -> bool:
        """If true, the model takes memory now."""
        return self._model.encode is not None

    def release(self) -> None:
        """Free the model's memory; the model is loaded again when it is needed."""
        self._model.release()

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        """The vectors of queries, float32 (texts, dimension), from the cache or else from the model."""
        return self._vectors(texts, self.query_prefix)

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        """The vectors of texts of documents; see ``embed_queries``."""
        return self._vectors(texts, self.document_prefix)

    def _vectors(self, texts: Sequence[str], prefix: str) -> Floats:
        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        if self.path.exists():
            with VectorCache(self.path) as cache, suppress(KeyError):  # if one is missing, all go to ``embed``
                vectors = cache.read(text_keys(prefix + text for text in texts))
                self._dimension = self._dimension or vectors.shape[1]
                return self._cut(vectors)
        source = TextList(texts)
        embedded = self.embed(source, prefix, self.lengths(source, prefix))
        return self._cut(np.concatenate(list(embedded.blocks())))

    def embed(self, source: TextSource, prefix: str, lengths: Counts, advance: Advance = lambda _: None) -> Embedded:
        """Embed every text of ``source``, each after ``prefix``; ``lengths`` come from ``CachedEmbedder.lengths``.

        Equal texts are embedded once, and cached texts are not embedded again. A thread keeps each batch before it
        begins the next. ``advance`` gets the number of texts that are done. Raises EmbedderError and WorkspaceError.
        """
        keys = batching.keys_of(source, prefix)
        # If two threads want the same text, the second finds it in the cache.
        with self._filling, VectorCache(self.path, self.embedder.summary()) as cache:
            order = batching.longest_first(batching.absent(cache, keys), lengths)
            self._dimension = self._dimension or cache.dimension()
            billed = self._billed()
            workers = self._model.workers if len(order) > _WORTH_WORKERS * self.embedder.batch_size else None
            if len(order):
                self._refuse_another_model(cache)
                if workers is None:
                    self._model.loaded()
            advance(len(keys) - len(order))  # the first step, from which a forecast counts: loading is no part of it
            start = time.perf_counter()
            missing = _MissingTexts(cache, source, prefix, lengths, keys, order, Meter(self._billed))
            for count in self._by_batches(missing) if workers is None else self._by_workers(missing, workers):
                advance(count)
            seconds = time.perf_counter() - start
        amount, now = int(lengths[order].sum()), self._billed()
        tokens = None if now is None else now - (billed or 0)
        return Embedded(self.path, keys, self._dimension or 0, amount, seconds, tokens)

    def _by_workers(self, missing: _MissingTexts, workers: base.Workers) -> Iterator[int]:
        """Embed shards of batches by ``workers``, side by side. Yields the number of texts of each finished shard."""
        size, most_length, prefix = self.embedder.batch_size, self.embedder.batch_length, missing.prefix

        def embed(shard: Sequence[Batch]) -> int:
            positions = np.concatenate([positions for positions, _ in shard])
            with naming_the_text(missing.source, positions):
                vectors = workers.embed([[prefix + text for text in texts] for _, texts in shard])
            pairs = zip(shard, vectors, strict=True)
            missing.keep([(batch, self._of_one_dimension(rows, batch[1])) for batch, rows in pairs])
            return len(positions)

        most_batches = min(max(-(-len(missing.order) // size) // _SHARDS, 1), batching.MOST_BATCHES)
        work = batching.shards(missing.source, missing.order, missing.lengths, size, most_length, most_batches)
        yield from (count for _, count in as_they_come(embed, work, workers.count))

    def _by_batches(self, missing: _MissingTexts) -> Iterator[int]:
        """Embed batches here, or by requests side by side. Yields the number of texts of each finished batch.

        Raises EmbedderError at the end if an endpoint refused some of the texts.
        """
        size, most_length, at_once = self.embedder.batch_size, self.embedder.batch_length, self.embedder.calls_at_once
        refusals, refused = Refusals(), list[int]()

        def ask(items: Sequence[tuple[int, str]]) -> Floats:
            with naming_the_text(missing.source, np.array([position for position, _ in items])):
                return self._embed_directly([missing.prefix + text for _, text in items])

        def embed(batch: Batch) -> int:
            for items, vectors in refusals.by_halves(list(zip(*batch, strict=True)), ask):
                positions, texts = zip(*items, strict=True)
                if vectors is None:
                    refused.extend(positions)
                else:
                    missing.keep([((np.array(positions), list(texts)), vectors)])
            return len(batch[0])

        work = batching.batches(missing.source, missing.order, missing.lengths, size, most_length)
        yield from map(embed, work) if at_once == 1 else (count for _, count in as_they_come(embed, work, at_once))
        refusals.check()
        if refused:
            longest = max(refused, key=lambda position: missing.lengths[position])
            raise EmbedderError(
                f"{counted(len(refused), 'text was', 'texts were')} refused, the longest "
                f"{missing.source.text_id(longest)}: {refusals.first} All others are embedded and kept."
            )

    def _billed(self) -> int | None:
        tokens: int | None = getattr(self._model.encode, "tokens", None)
        return tokens

    def absent(self, source: TextSource, prefix: str) -> tuple[Counts, Keys]:
        """The positions of the texts that would be embedded, each distinct text once, and their keys."""
        keys = batching.keys_of(source, prefix)
        if not self.path.exists():
            first = batching.first_of_each(keys)
        else:
            with VectorCache(self.path) as cache:
                first = batching.absent(cache, keys, unchecked=True)
        return first, keys[first]

    def dimension(self) -> int | None:
        """The dimension of the vectors; None if neither the cache nor the model's files show it."""
        return self.embedder.used_dimensions or self._whole_dimension()

    def _whole_dimension(self) -> int | None:
        if self._dimension is None and self.path.exists():
            # On a read-only disk finished stages are read all the same; if a vector is needed, that is the error.
            with suppress(WorkspaceError), VectorCache(self.path) as cache:
                self._dimension = cache.dimension()
        return self._dimension or self.embedder.dimension()

    def lengths(self, source: TextSource, prefix: str) -> Counts:
        """Tokens of each text after ``prefix``, with special tokens; characters if there is no tokenizer."""
        return batching.lengths_of(source, base.without_side(prefix), self.tokenizer)

    def count_too_long(self, lengths: Counts) -> int | None:
        """How many texts of these ``lengths`` are longer than the model reads; None if unknown."""
        limit = self.embedder.max_tokens()
        return int(np.count_nonzero(lengths > limit)) if self.counts_too_long and limit is not None else None

    @property
    def counts_too_long(self) -> bool:
        """If true, it is known which texts are longer than the model reads."""
        return self.tokenizer is not None and self.embedder.max_tokens() is not None

    def _refuse_another_model(self, cache: VectorCache) -> None:
        """Raise EmbedderError if the model differs from the model of the cached vectors: two must not mix.

        One cached text is embedded again to compare. That happens once, before any new text, and only for endpoints
        and custom functions, whose changes the fingerprint does not show.
        """
        probe = cache.probe()
        if self._model.is_known or probe is None or not self.embedder.may_change:
            self._model.is_known = True
            return
        text, kept = probe
        (vector,) = self._embed_directly([text])
        if not are_of_one_model(kept, vector):
            raise EmbedderError(
                f"the embedder ({self.embedder.kind}) gives another vector for {text[:60]!r} than it gave before; "
                "vectors of two models cannot be compared. If the model has changed, give it another `version:`."
            )
        self._model.is_known = True
