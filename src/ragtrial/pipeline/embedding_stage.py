"""The vectors of what is indexed, and how long these texts are for the model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ragtrial.cache.arrays import read_array, write_array, write_rows
from ragtrial.cache.atomic import write_text
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.components.vector_checks import NormStatistics, VectorHealth
from ragtrial.config.settings import Setting
from ragtrial.pipeline.chunk_stage import BYTES_PER_TOKEN, embedder_inputs, embedder_names
from ragtrial.pipeline.context_stage import ContextStage
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.stage import Amount, Inputs, Known, Stage
from ragtrial.progress import stage
from ragtrial.rankings import Counts, Floats


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The vectors of all chunks, float32 (chunks, dimension), mapped from their file; and how healthy they are."""

    matrix: Floats
    health: VectorHealth


@dataclass(eq=False)
class LengthStage(Stage[Counts]):
    """How long the text of each chunk is for the model, shape (chunks,); see ``CachedEmbedder.lengths``."""

    kind = "lengths"

    title = "lengths of chunks"

    resources: Resources
    texts: ContextStage
    setting: Setting

    def __post_init__(self) -> None:
        self.needs = (self.texts,)
        self._embedder = self.resources.embedder(self.setting.embedder)

    def inputs(self) -> Inputs:
        tokenizer = self._embedder.tokenizer
        counted_by = tokenizer.fingerprint if tokenizer else None
        return {"embedder.document_prefix": self._embedder.document_prefix, "embedder tokenizer": counted_by}

    def names(self) -> Inputs:
        return embedder_names(self.setting)

    def build(self, folder: Path, texts: IndexedTexts) -> None:
        write_array(folder / "lengths.npy", self._embedder.lengths(texts, self._embedder.document_prefix))

    def load(self, folder: Path) -> Counts:
        return read_array(folder / "lengths.npy")


@dataclass(eq=False)
class EmbeddingStage(Stage[Embeddings]):
    """The vectors of all chunks; of these the cache of the model's vectors has some, perhaps, from other stages."""

    kind = "embeddings"
    shown_as = "embeddings"
    is_searched = True

    resources: Resources
    texts: ContextStage
    lengths: LengthStage
    setting: Setting

    def __post_init__(self) -> None:
        self.needs = (self.texts, self.lengths)
        self._embedder = self.resources.embedder(self.setting.embedder)
        self.rate = f"embedding {self._embedder.fingerprint}"
        """The name of its work in the rates of the machine, by tokens (characters where there is no tokenizer)."""
        options, summary = self.setting.embedder.model_dump(mode="json"), self.setting.embedder.summary()
        self.title = f"embeddings ({summary})"
        self.label = str(options.get("model") or options.get("function") or summary).rpartition("/")[2]

    def inputs(self) -> Inputs:
        return embedder_inputs(self._embedder)

    def names(self) -> Inputs:
        return embedder_names(self.setting)

    def build(self, folder: Path, texts: IndexedTexts, lengths: Counts) -> None:
        embedder = self._embedder
        with stage(self.resources.progress, "embeddings", len(texts), "chunks") as progress:
            made = embedder.embed(texts, embedder.document_prefix, lengths, progress.advance)
            seen = NormStatistics()
            write_rows(folder / "vectors.npy", seen.watch(made.blocks()), (len(texts), made.dimension))
        health = seen.health(len(texts), made.distinct, made.dimension)
        write_text(folder / "health.json", json.dumps(asdict(health)))
        self.resources.rates.note(self.rate, made.amount, made.seconds)
        self.resources.note_tokens(self.setting.embedder, made.amount, made.billed)

    def load(self, folder: Path) -> Embeddings:
        self.resources.mark_vectors(self.setting.embedder)
        health = VectorHealth(**json.loads((folder / "health.json").read_text()))
        return Embeddings(read_array(folder / "vectors.npy"), health)

    def amount(self, known: Known) -> Amount:
        texts, chunks = known(self.needs[0]), self.needs[0].amount(known)
        absent = None if texts is None else self._embedder.absent(texts, self._embedder.document_prefix)[0]
        to_do = chunks.count if absent is None else len(absent)
        units = int(known.library.sizes.sum()) // (BYTES_PER_TOKEN if self._embedder.tokenizer else 1)
        length = units * to_do / max(1, chunks.count)
        seconds, cost = self.resources.rates.seconds(self.rate, length), self.cost(length)
        return Amount(chunks.count, "texts", to_do, is_estimate=absent is None, seconds=seconds, cost=cost)

    def cost(self, length: float) -> float | None:
        """What it costs to embed texts of so much length."""
        return self.resources.embedding_cost(self.setting.embedder, length)
