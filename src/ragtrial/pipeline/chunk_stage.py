"""The chunks of a setting: its documents, cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ragtrial.components.chunkers.base import SizedChunker
from ragtrial.components.chunkers.cutting import cut
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.tokenizers import CHARACTERS_PER_TOKEN
from ragtrial.config.settings import Setting
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.stage import Amount, Inputs, KeptArtefacts, Stage, options_and_code
from ragtrial.rankings import Counts, Floats

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
        total, unit = (size, "bytes") if chunker.needs_embedder else (len(library), "documents")

        def embed(texts: Sequence[str], advance: Callable[[int], None]) -> Floats:
            return self.resources.embedder(self.setting.embedder.whole).embed_documents(texts, advance)

        with self.resources.working("chunks", total, unit, self._rate, size) as progress:
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
    """What changes the vectors of texts, but the texts."""
    found = options_and_code("embedder", embedder.embedder, embedder.parts, "embedder files")
    if embedder.embedder.used_dimensions is not None:
        found[f"embedder.{embedder.embedder.cut_option}"] = embedder.embedder.used_dimensions
    return found | {"embedder.document_prefix": embedder.document_prefix}


def embedder_names(setting: Setting) -> dict[str, Any]:
    """What embedders are called by their users; what is hashed of a model are its files."""
    options = setting.embedder.model_dump(mode="json", include={"kind", "model", "revision", "function"})
    return {f"embedder.{name}": value for name, value in options.items()}
