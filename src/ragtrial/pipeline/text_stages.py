"""The stages of texts: documents are read, cut into chunks, and surrounded by their context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ragtrial.cache.fingerprints import Digest, file_digest, fingerprint
from ragtrial.cache.workspace import DAMAGE
from ragtrial.components.chunkers.base import SizedChunker, cut
from ragtrial.components.contextual_text import IndexedTexts, Surroundings, name_of_texts
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.tokenizers import CHARACTERS_PER_TOKEN
from ragtrial.config import ExperimentConfig
from ragtrial.config.settings import Setting
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.datasets import corpus_of
from ragtrial.dataset.documents import OnError, corpus_fingerprint
from ragtrial.dataset.library import Library
from ragtrial.dataset.prefixes import match_prefixes, read_prefixes
from ragtrial.errors import RunError
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.stage import (
    Amount,
    Inputs,
    KeptArtefacts,
    NotBuiltError,
    Stage,
    dotted_options,
    options_and_code,
    versions_of,
)
from ragtrial.progress import stage
from ragtrial.rankings import Counts, Floats
from ragtrial.records import ReportWarning


@dataclass(eq=False)
class DocumentStage(Stage[Library]):
    """The normalised documents of ``corpus``: a folder, or a corpus.jsonl. Raises CorpusError."""

    kind = "documents"
    shown_as = "documents"

    resources: Resources
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
        return Library(folder)


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

    resources: Resources
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
        parts = chunker.fingerprint_parts(self.resources.digest)
        found = options_and_code("chunker", chunker, parts, "chunker code")
        found["context.title"] = self.setting.context.title
        if tokenizer is not None:
            owner = "embedder" if chunker.counted_by == "embedder" else "chunker"
            found[f"{owner} tokenizer"] = tokenizer.fingerprint
        if chunker.needs_embedder:
            found |= embedder_inputs(self.resources.embedder(self.setting.embedder.whole))
        return found

    def unhashed_inputs(self) -> Inputs:
        has_embedder = self.chunker.counted_by == "embedder" or self.chunker.needs_embedder
        return embedder_names(self.setting) if has_embedder else {}

    def build(self, folder: Path, library: Library) -> None:
        chunker, tokenizer = self.chunker, self.resources.unit_tokenizer(self.setting)
        size = int(library.sizes.sum())

        def embed(texts: Sequence[str], advance: Callable[[int], None]) -> Floats:
            return self.resources.embedder(self.setting.embedder.whole).embed_documents(texts, advance)

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
    found = options_and_code("embedder", embedder.embedder, embedder.parts, "embedder files")
    if embedder.embedder.used_dimensions is not None:
        found[f"embedder.{embedder.embedder.cut_option}"] = embedder.embedder.used_dimensions
    return found | {"embedder.document_prefix": embedder.document_prefix}


def embedder_names(setting: Setting) -> dict[str, Any]:
    """The names that users give to embedders; only the files of a model are hashed."""
    options = setting.embedder.model_dump(mode="json", include={"kind", "model", "revision", "function"})
    return {f"embedder.{name}": value for name, value in options.items()}


@dataclass(eq=False)
class ContextStage(Stage[IndexedTexts]):
    """The indexed text of every chunk. Nothing is kept where the title alone is added. Raises PrefixesError."""

    kind = "surroundings"
    shown_as = "context"

    resources: Resources
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
        options = dotted_options("context", self._context.identity())
        return options | versions_of(self._context) | content

    @cached_property
    def _prefixes_digest(self) -> str | None:
        """The hash of the file of prefixes; empty if it cannot be read, which reading it will say."""
        try:
            return None if self._prefixes is None else self.resources.digest(Path(self._prefixes))
        except OSError:
            return ""

    def identity(self) -> str:
        """By its content: another file of prefixes may surround the chunks with the same texts."""
        if self.is_kept and self._digest is None:
            workspace, key = self.resources.workspace, self.key()
            if not workspace.has(self.kind, key):
                raise NotBuiltError(self)
            try:
                self._digest = Surroundings.read(workspace.path(self.kind, key)).digest
            except DAMAGE:
                raise NotBuiltError(self) from None
        return name_of_texts(self.needs[0].identity(), title=self._context.title, digest=self._digest)

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


def prefix_warnings(setting: Setting, texts: IndexedTexts) -> Iterator[ReportWarning]:
    """A warning if the file of prefixes has none for some chunks of ``setting``."""
    without = texts.surroundings.without_prefix if texts.surroundings else 0
    if setting.context.prefixes is not None and without:
        message = f"{without:,} of {len(texts):,} chunks have no row in {setting.context.prefixes}"
        yield ReportWarning("no-prefix", f"{setting.name}: {message}; they are indexed without a prefix.")
