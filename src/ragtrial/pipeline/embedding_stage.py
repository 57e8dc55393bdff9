"""The vectors of what is indexed, and how long these texts are for the model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ragtrial.cache.arrays import read_array, write_array, write_rows
from ragtrial.cache.atomic import write_text
from ragtrial.components.chunkers.base import SizedChunker
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.vector_checks import NormStatistics, VectorHealth
from ragtrial.config.settings import Setting
from ragtrial.pipeline.chunk_stage import BYTES_PER_TOKEN, embedder_inputs, embedder_names
from ragtrial.pipeline.context_stage import ContextStage
from ragtrial.pipeline.document_stage import DocumentStage
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.stage import Amount, Inputs, Known, Stage
from ragtrial.progress import stage
from ragtrial.rankings import Counts, Floats


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The vectors of all chunks, float32 (chunks, dimension), mapped from their file; and how healthy they are."""

    matrix: Floats
    health: VectorHealth


class LengthStage(Stage[Counts]):
    """How long the text of each chunk is for the model, shape (chunks,); see ``CachedEmbedder.lengths``."""

    kind = "lengths"

    def __init__(self, resources: Resources, texts: ContextStage, setting: Setting) -> None:
        self.needs = (texts,)
        self._setting = setting
        self._embedder = resources.embedder(setting.embedder)

    def inputs(self) -> Inputs:
        tokenizer = self._embedder.tokenizer
        counted_by = tokenizer.fingerprint if tokenizer else None
        return {"embedder.document_prefix": self._embedder.document_prefix, "embedder tokenizer": counted_by}

    def names(self) -> Mapping[str, object]:
        return embedder_names(self._setting)

    @property
    def title(self) -> str:
        return "lengths of chunks"

    def build(self, folder: Path, texts: IndexedTexts) -> None:
        write_array(folder / "lengths.npy", self._embedder.lengths(texts, self._embedder.document_prefix))

    def load(self, folder: Path) -> Counts:
        return read_array(folder / "lengths.npy")


class EmbeddingStage(Stage[Embeddings]):
    """The vectors of all chunks; of these the cache of the model's vectors has some, perhaps, from other stages."""

    kind = "embeddings"
    shown_as = "embeddings"

    def __init__(
        self,
        resources: Resources,
        documents: DocumentStage,
        texts: ContextStage,
        lengths: LengthStage,
        setting: Setting,
    ) -> None:
        self.needs = (texts, lengths)
        self._resources = resources
        self._documents = documents
        self._texts = texts
        self._lengths = lengths
        self._setting = setting
        self._embedder: CachedEmbedder = resources.embedder(setting.embedder)

    def inputs(self) -> Inputs:
        return embedder_inputs(self._embedder)

    def names(self) -> Mapping[str, object]:
        return embedder_names(self._setting)

    @property
    def title(self) -> str:
        return f"embeddings ({self._setting.embedder.summary()})"

    def build(self, folder: Path, texts: IndexedTexts, lengths: Counts) -> None:
        embedder = self._embedder
        with stage(self._resources.progress, "embeddings", len(texts), "chunks") as progress:
            made = embedder.embed(texts, embedder.document_prefix, lengths, progress.advance)
            seen = NormStatistics()
            write_rows(folder / "vectors.npy", seen.watch(made.blocks()), (len(texts), made.dimension))
        health = seen.health(len(texts), made.distinct, made.dimension)
        write_text(folder / "health.json", json.dumps(asdict(health)))
        self._resources.workspace.rates.note(self._rate, made.amount, made.seconds)

    def load(self, folder: Path) -> Embeddings:
        self._resources.mark_vectors(self._setting.embedder)
        health = VectorHealth(**json.loads((folder / "health.json").read_text()))
        return Embeddings(read_array(folder / "vectors.npy"), health)

    def seconds(self, lengths: Counts) -> float | None:
        """How long texts of these ``lengths`` take, none of them cached, at the rate measured on this machine."""
        return self._resources.seconds(self._rate, int(lengths.sum()))

    @property
    def _rate(self) -> str:
        return f"embedding {self._embedder.fingerprint}"

    def label(self) -> str:
        options = self._setting.embedder.model_dump(mode="json")
        named = str(options.get("model") or options.get("function") or self._setting.embedder.summary())
        return named.rpartition("/")[2]

    def amount(self, known: Known) -> Amount:
        texts = known(self._texts)
        if texts is None:
            chunks = self._texts.amount(known)
            units = self._units(known)
            seconds = self._resources.seconds(self._rate, units)
            return Amount(chunks.count, "texts", chunks.count, is_estimate=True, seconds=seconds)
        absent, _ = self._embedder.absent(texts, self._embedder.document_prefix)
        amount = Amount(len(texts), "texts", len(absent))
        lengths = known(self._lengths)
        if lengths is not None:
            units = int(lengths[absent].sum())
        else:
            units = int((texts.chunks.end - texts.chunks.start)[absent].sum()) // self._characters_per_unit
        return replace(amount, seconds=self._resources.seconds(self._rate, units))

    def _units(self, known: Known) -> int:
        """How long all texts are about, where there are no chunks yet: what overlaps counts twice."""
        library, chunker = known(self._documents), self._setting.chunker
        size = int(library.sizes.sum()) if library else 0
        again = chunker.size / (chunker.size - chunker.overlap) if isinstance(chunker, SizedChunker) else 1.0
        return int(size * again) // self._characters_per_unit

    @property
    def _characters_per_unit(self) -> int:
        return 1 if self._embedder.tokenizer is None else BYTES_PER_TOKEN
