"""The stages below search: documents are read, cut, surrounded by their context, measured, embedded and indexed."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ragtrial.cache.arrays import read_array, write_array, write_rows
from ragtrial.cache.atomic import write_text
from ragtrial.cache.fingerprints import Digest, file_digest, fingerprint
from ragtrial.cache.workspace import DAMAGE
from ragtrial.components.batching import Spent
from ragtrial.components.chunkers.base import SizedChunker, cut
from ragtrial.components.contextual_text import IndexedTexts, Surroundings, name_of_texts
from ragtrial.components.embedders.base import truncated
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.interfaces import place_order
from ragtrial.components.tokenizers import CHARACTERS_PER_TOKEN
from ragtrial.components.vector_checks import NormStatistics
from ragtrial.config import ExperimentConfig
from ragtrial.config.settings import Setting, length_warnings
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.datasets import corpus_of
from ragtrial.dataset.documents import OnError, corpus_fingerprint
from ragtrial.dataset.library import Library
from ragtrial.dataset.prefixes import match_prefixes, read_prefixes
from ragtrial.engines import Index, Vectors
from ragtrial.errors import RunError, StoreError, StoreServerError
from ragtrial.pipeline.stage import (
    Amount,
    Inputs,
    KeptArtefacts,
    NotBuiltError,
    Runner,
    Stage,
    component_inputs,
    dotted_options,
    versions_of,
)
from ragtrial.progress import stage
from ragtrial.rankings import Counts, Floats
from ragtrial.report.schema import HealthPart


@dataclass(eq=False)
class DocumentStage(Stage[Library]):
    """The normalised documents of ``corpus``: a folder, or a corpus.jsonl. Raises CorpusError."""

    kind = "documents"
    shown_as = "documents"

    corpus: Path
    on_error: OnError

    def __post_init__(self) -> None:
        self._fingerprint = documents_fingerprint(self.corpus, self.on_error, self.resources.digest)
        self.title = f"documents of {self.corpus.name}"

    def inputs(self) -> Inputs:
        return {"documents": self._fingerprint}

    def key(self) -> str:
        return self._fingerprint  # which reports name, too

    def build(self, folder: Path) -> None:
        with stage(self.resources.progress, "documents"):
            Library.write(self.corpus, folder, self.on_error)
        if documents_fingerprint(self.corpus, self.on_error, self.resources.digest) != self._fingerprint:
            raise RunError(f"the documents in {self.corpus} changed while they were read; run the same command again.")

    def load(self, folder: Path) -> Library:
        return Library(folder, self.corpus)


def documents_fingerprint(corpus: Path, on_error: OnError, digest: Digest = file_digest) -> str:
    """The fingerprint of the documents of ``corpus``, as reports have it; ``digest`` hashes files."""
    return fingerprint(["documents", corpus_fingerprint(corpus, on_error, digest)])


def fingerprint_of(config: ExperimentConfig) -> str:
    """The ``Corpus.fingerprint`` of ``config``; every byte of its documents is read. Raises CorpusError."""
    return documents_fingerprint(corpus_of(config.dataset), config.dataset.on_error)


_BYTES_PER_UNIT = {"characters": 1, "words": 6}
BYTES_PER_TOKEN = CHARACTERS_PER_TOKEN
_BYTES_PER_CHUNK = 800  # of chunkers that are given no size


@dataclass(eq=False)
class ChunkStage(Stage[Chunks]):
    """The documents cut by the setting's chunker; vectors that a chunker asks for are made with its embedder."""

    kind = "chunks"
    shown_as = "chunks"

    documents: Stage[Library]
    setting: Setting

    def __post_init__(self) -> None:
        self.needs = self.reads = (self.documents,)
        self.chunker = chunker = self.setting.chunker
        self._rate = f"chunks {chunker.kind}"
        self.title = f"chunks ({chunker.summary()})"
        self.label = chunker.summary()
        if isinstance(chunker, SizedChunker):
            self.label = f"{chunker.kind} {chunker.size}/{chunker.overlap}"

    def inputs(self) -> Inputs:
        chunker, tokenizer = self.chunker, self.resources.unit_tokenizer(self.setting)
        parts = chunker.hashed_parts(self.resources.digest)
        inputs = component_inputs("chunker", chunker, parts, "chunker code")
        inputs["context.title"] = self.setting.context.title
        if tokenizer is not None:
            owner = "embedder" if chunker.counted_by == "embedder" else "chunker"
            inputs[f"{owner} tokenizer"] = tokenizer.fingerprint
        if chunker.needs_embedder:
            inputs |= embedder_inputs(self.resources.embedder(self.setting.embedder.untruncated))
        return inputs

    def unhashed_inputs(self) -> Inputs:
        has_embedder = self.chunker.counted_by == "embedder" or self.chunker.needs_embedder
        return embedder_names(self.setting) if has_embedder else {}

    def build(self, folder: Path, library: Library) -> None:
        chunker, tokenizer = self.chunker, self.resources.unit_tokenizer(self.setting)
        size = int(library.sizes.sum())

        def embed(texts: Sequence[str]) -> Floats:
            return self.resources.embedder(self.setting.embedder.untruncated).embed_documents(texts)

        with self.resources.working("chunks", len(library), "documents", self._rate, size) as progress:
            has_titles = self.setting.context.title
            cut(library, chunker, tokenizer, progress.advance, embed, has_titles=has_titles).write(folder)

    def load(self, folder: Path, library: Library) -> Chunks:
        if self.chunker.needs_embedder:
            self.resources.mark_vectors(self.setting.embedder)
        return Chunks(library, folder)

    def amount(self, kept: KeptArtefacts) -> Amount:
        sizes, chunks = kept.library.sizes, kept.get(self)
        count = estimated_chunks(self.setting, sizes) if chunks is None else len(chunks)
        seconds = self.resources.rates.seconds(self._rate, int(sizes.sum()))
        return Amount(count, "chunks", count, chunks is None, seconds)


def estimated_chunks(setting: Setting, sizes: Counts) -> int:
    """About how many chunks documents of these ``sizes`` in bytes, shape (documents,), would be cut into."""
    chunker, filled = setting.chunker, sizes[sizes > 0]
    if chunker.kind == "document":
        return len(filled)
    step = _BYTES_PER_CHUNK
    if isinstance(chunker, SizedChunker):
        step = (chunker.size - chunker.overlap) * _BYTES_PER_UNIT.get(chunker.counted_by, BYTES_PER_TOKEN)
    return int(np.ceil(filled / step).sum())


def embedder_inputs(embedder: CachedEmbedder) -> dict[str, Any]:
    """The inputs that change the vectors of given texts."""
    inputs = component_inputs("embedder", embedder.embedder, embedder.parts, "embedder files")
    if embedder.embedder.used_dimensions is not None:
        inputs[f"embedder.{embedder.embedder.cut_option}"] = embedder.embedder.used_dimensions
    return inputs | {"embedder.document_prefix": embedder.document_prefix}


def embedder_names(setting: Setting) -> dict[str, Any]:
    """The names that users give to embedders; only the files of a model are hashed."""
    options = setting.embedder.model_dump(mode="json", include={"kind", "model", "revision", "function"})
    return {f"embedder.{name}": value for name, value in options.items()}


@dataclass(eq=False)
class ContextStage(Stage[IndexedTexts]):
    """The indexed text of every chunk. Nothing is kept where the title alone is added. Raises PrefixesError."""

    kind = "contexts"
    shown_as = "context"

    chunks: ChunkStage
    setting: Setting

    def __post_init__(self) -> None:
        self.needs = self.reads = (self.chunks,)
        self._context, self._prefixes = self.setting.context, self.setting.context.prefixes
        self._digest: str | None = None
        self.is_kept = not self._context.is_bare
        self.title = f"context of chunks ({self._context.summary()})"
        self.label = self._context.summary()

    def inputs(self) -> Inputs:
        content = {} if self._prefixes_digest is None else {"context prefixes": self._prefixes_digest}
        options = dotted_options("context", self._context.hashed_options())
        return options | versions_of(self._context) | content

    @cached_property
    def _prefixes_digest(self) -> str | None:
        """The hash of the file of prefixes; empty if it cannot be read, which reading it will say."""
        try:
            return None if self._prefixes is None else self.resources.digest(Path(self._prefixes))
        except OSError:
            return ""

    def key_for_dependents(self) -> str:
        """By its content: another file of prefixes may surround the chunks with the same texts."""
        if self.is_kept and self._digest is None:
            workspace, key = self.resources.workspace, self.key()
            if not workspace.has(self.kind, key):
                raise NotBuiltError(self)
            try:
                self._digest = Surroundings.read(workspace.path(self.kind, key)).digest
            except DAMAGE:
                raise NotBuiltError(self) from None
        return name_of_texts(self.needs[0].key_for_dependents(), title=self._context.title, digest=self._digest)

    def build(self, folder: Path, chunks: Chunks) -> None:
        prefixes = None
        if self._prefixes is not None:
            file = Path(self._prefixes)
            prefixes = match_prefixes(chunks, read_prefixes(file), file, self.setting.name)
            if file_digest(file) != self._prefixes_digest:
                raise RunError(f"{file} changed while it was read; run the same command again.")
        with self.resources.working("context", len(chunks), "chunks", "context") as progress:
            Surroundings.write(folder, chunks, self._context, prefixes, progress.advance)

    def load(self, folder: Path, chunks: Chunks) -> IndexedTexts:
        surroundings = Surroundings.read(folder) if self.is_kept else None
        return IndexedTexts(chunks, title=self._context.title, surroundings=surroundings)

    def amount(self, kept: KeptArtefacts) -> Amount:
        chunks = self.needs[0].amount(kept)
        return replace(chunks, seconds=self.resources.rates.seconds("context", chunks.count))


logger = logging.getLogger(__name__)

_BLOCK = 2**20  # numbers that are cut at a time


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The vectors of all chunks, float32 (chunks, dimension), mapped from their file; and how healthy they are."""

    matrix: Floats
    health: HealthPart
    spent: Spent
    """The time and tokens to embed all of the texts, as measured when each was embedded."""


@dataclass(eq=False)
class LengthStage(Stage[Counts]):
    """The length of each chunk's text for the model, shape (chunks,); see ``CachedEmbedder.lengths``."""

    kind = "lengths"

    title = "lengths of chunks"

    texts: ContextStage
    setting: Setting

    def __post_init__(self) -> None:
        self.needs = (self.texts,)
        self._embedder = self.resources.embedder(self.setting.embedder)

    def inputs(self) -> Inputs:
        tokenizer = self._embedder.tokenizer
        counted_by = tokenizer.fingerprint if tokenizer else None
        return {"embedder.document_prefix": self._embedder.document_prefix, "embedder tokenizer": counted_by}

    def unhashed_inputs(self) -> Inputs:
        return embedder_names(self.setting)

    def build(self, folder: Path, texts: IndexedTexts) -> None:
        write_array(folder / "lengths.npy", self._embedder.lengths(texts, self._embedder.document_prefix))

    def load(self, folder: Path) -> Counts:
        return read_array(folder / "lengths.npy")


class VectorStage(Stage[Embeddings]):
    """Vectors of all chunks, as they are searched."""

    shown_as = "embeddings"
    is_searched = True

    setting: Setting
    embedder: CachedEmbedder
    untruncated: EmbeddingStage
    """The stage of the model's full vectors: itself, unless vectors are cut."""

    def load(self, folder: Path, texts: Sized) -> Embeddings:
        self.resources.mark_vectors(self.setting.embedder)
        health = HealthPart.model_validate_json((folder / "health.json").read_bytes())
        matrix: Floats = read_array(folder / "vectors.npy")
        if matrix.shape != (len(texts), self.embedder.dimension() or matrix.shape[-1]):
            raise ValueError(f"it has vectors of the shape {matrix.shape} for {len(texts):,} texts")
        return Embeddings(matrix, health, Spent.of_sums(read_array(folder / "spent.npy")))


@dataclass(eq=False)
class EmbeddingStage(VectorStage):
    """The vectors that the model makes; the cache has some of them, perhaps, from other stages."""

    kind = "embeddings"

    texts: ContextStage
    lengths: LengthStage
    setting: Setting

    def __post_init__(self) -> None:
        self.untruncated = self
        self.needs = (self.texts, self.lengths)
        self.reads = (self.texts,)
        self.embedder = self.resources.embedder(self.setting.embedder.untruncated)
        self.rate = f"embedding {self.embedder.fingerprint}"
        """The name of its work in the rates of the machine, by tokens (characters where there is no tokenizer)."""
        embedder = self.setting.embedder.untruncated
        options, summary = embedder.model_dump(mode="json"), embedder.summary()
        self.title = f"embeddings ({summary})"
        self.label = str(options.get("model") or options.get("function") or summary).rpartition("/")[2]

    def inputs(self) -> Inputs:
        return embedder_inputs(self.embedder)

    def unhashed_inputs(self) -> Inputs:
        return embedder_names(self.setting)

    def build(self, folder: Path, texts: IndexedTexts, lengths: Counts) -> None:
        # Before the work, which may be for nothing.
        for warning in length_warnings(self.setting, {"chunks": self.embedder.count_too_long(lengths)}):
            logger.warning(warning.message)
        with stage(self.resources.progress, "embeddings", len(texts), "chunks") as progress:
            embedded = self.embedder.embed(texts, self.embedder.document_prefix, lengths, progress.advance)
            _write(folder, embedded.blocks(), (len(texts), embedded.dimension), embedded.distinct)
            _write_spent(folder, embedded.spent)
        self.resources.rates.note(self.rate, embedded.amount, embedded.seconds)
        self.resources.note_tokens(self.setting.embedder, embedded.amount, embedded.billed)

    def amount(self, kept: KeptArtefacts) -> Amount:
        texts, chunks = kept.get(self.needs[0]), self.needs[0].amount(kept)
        absent = None if texts is None else self.embedder.absent(texts, self.embedder.document_prefix)[0]
        to_do = chunks.count if absent is None else len(absent)
        units = int(kept.library.sizes.sum()) // (BYTES_PER_TOKEN if self.embedder.tokenizer else 1)
        length = units * to_do / max(1, chunks.count)
        seconds = self.resources.rates.seconds(self.rate, length)
        cost = self.resources.embedding_cost(self.setting.embedder, length)
        return Amount(chunks.count, "texts", to_do, is_estimate=absent is None, seconds=seconds, cost=cost)


@dataclass(eq=False)
class TruncationStage(VectorStage):
    """The first numbers of the vectors of another stage: no text is embedded for it."""

    kind = "truncated"

    untruncated: EmbeddingStage
    setting: Setting
    dimensions: int

    def __post_init__(self) -> None:
        self.needs = (self.untruncated,)
        self.reads = (self.untruncated.texts,)
        self.embedder = self.resources.embedder(self.setting.embedder)
        self.title = f"embeddings ({self.setting.embedder.summary()})"
        self.label = f"{self.untruncated.label}, {self.dimensions} dimensions"

    def inputs(self) -> Inputs:
        return {f"embedder.{self.setting.embedder.cut_option}": self.dimensions}

    def build(self, folder: Path, embeddings: Embeddings) -> None:
        matrix, rows = embeddings.matrix, max(1, _BLOCK // max(1, embeddings.matrix.shape[1]))
        normalize, dimension = self.setting.embedder.normalize, min(self.dimensions, matrix.shape[1])
        starts = range(0, len(matrix), rows)
        blocks = (truncated(matrix[at : at + rows], self.dimensions, normalize=normalize) for at in starts)
        _write(folder, blocks, (len(matrix), dimension), embeddings.health.distinct_texts)
        _write_spent(folder, embeddings.spent)

    def amount(self, kept: KeptArtefacts) -> Amount:
        return replace(self.untruncated.amount(kept), unit="vectors", seconds=0.0, cost=None)


def _write(folder: Path, blocks: Iterable[Floats], shape: tuple[int, int], distinct: int) -> None:
    """Write vectors of ``distinct`` texts, and their health."""
    seen = NormStatistics()
    write_rows(folder / "vectors.npy", seen.watch(blocks), shape)
    write_text(folder / "health.json", json.dumps(dict(seen.health(shape[0], distinct, shape[1]))))


def _write_spent(folder: Path, spent: Spent) -> None:
    """Write ``spent`` in a fixed number of bytes, since they count as a part of an exact index."""
    sums = [np.nan if amount is None else amount for amount in (spent.seconds, spent.tokens)]
    write_array(folder / "spent.npy", np.array(sums, dtype=np.float64))


@dataclass(eq=False)
class IndexStage(Stage[Mapping[str, Any]]):
    """The index of a setting, described. An exact one has nothing to build: the vectors are all there is to it.

    Two builds of an approximate index find other hits, so later stages depend on the build and not on the key alone.
    """

    kind = "indexes"
    shown_as = "index"
    is_searched = True

    texts: ContextStage
    embeddings: VectorStage
    setting: Setting

    def __post_init__(self) -> None:
        self.needs, self.reads = (self.embeddings, self.texts), (self.texts,)
        self.store, self.setting_name = self.setting.store, self.setting.name
        self.label = self.store.summary()
        self.title = f"index ({self.label})"

    def inputs(self) -> Inputs:
        return {name: value for name, value in self._options.items() if name not in self._searched_with}

    def unhashed_inputs(self) -> Inputs:
        return self._searched_with

    @cached_property
    def _options(self) -> Inputs:
        return dotted_options("store", self.store.hashed_options()) | versions_of(self.store)

    @cached_property
    def _searched_with(self) -> Inputs:
        """The options of searches, which change no build."""
        names = tuple(f"store.{name}." for name in self.store.search_options)
        return {name: value for name, value in self._options.items() if f"{name}.".startswith(names)}

    @cached_property
    def build_free_fingerprint(self) -> str:
        own = super().build_free_fingerprint
        return fingerprint([own, self._searched_with]) if self._searched_with else own

    def key_for_dependents(self) -> str:
        key = self.key()
        if not self.store.is_repeatable:
            build = self.resources.workspace.build_id(self.kind, key)
            if not build:
                raise NotBuiltError(self)
            key = f"{key} {build}"
        return f"{key} {fingerprint(self._searched_with)}" if self._searched_with else key

    def build(self, folder: Path, embeddings: Embeddings, texts: IndexedTexts) -> None:
        if not self.store.is_exact:
            with self.resources.working("index", len(texts), "vectors", f"index {self.store.kind}") as progress:
                self.store.build(Vectors(embeddings.matrix, place_order(texts.chunks)), folder, progress.advance)

    def load(self, folder: Path, texts: IndexedTexts) -> Mapping[str, Any]:
        sealed = self.resources.workspace.seal(self.kind, folder.name)
        options = {name: value for name, value in self.store.hashed_options().items() if value is not None}
        description = {**options, "vectors": len(texts)}
        if self.store.is_exact:
            return description
        facts = self.store.facts(folder)
        on_a_server = "collection" in facts  # the folder then has no more than its name
        size = facts.get("bytes") if on_a_server else sealed.size
        return {**description, "id": sealed.id, **facts, "bytes": size}

    def open(self, runner: Runner) -> Index:
        """The index, open for search, every byte of it checked; a damaged index is rebuilt. Raises StoreError."""
        embeddings = runner.artefact(self.embeddings, every_byte=True)
        vectors = Vectors(embeddings.matrix, place_order(runner.artefact(self.texts).chunks))
        # Chroma finds nothing in a graph with other bytes, or ends the process.
        runner.artefact(self, every_byte=True)
        workspace, key = self.resources.workspace, self.key()
        try:
            return self.store.open(vectors, workspace.path(self.kind, key))
        except StoreServerError:
            raise
        except StoreError as error:
            workspace.drop_damaged(self.kind, key, workspace.build_id(self.kind, key), error)
            runner.artefact(self, every_byte=True)
            return self.store.open(vectors, workspace.path(self.kind, key))

    def amount(self, kept: KeptArtefacts) -> Amount:
        chunks = self.texts.amount(kept)
        seconds = self.resources.rates.seconds(f"index {self.store.kind}", chunks.count)
        return replace(chunks, unit="vectors", seconds=0.0 if self.store.is_exact else seconds)
