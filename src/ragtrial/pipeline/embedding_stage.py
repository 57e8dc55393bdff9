"""The vectors of what is indexed, and how long these texts are for the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from ragtrial.cache.arrays import read_array, write_array, write_rows
from ragtrial.cache.atomic import write_text
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.components.embedders.cached import Embedded
from ragtrial.components.embedders.late_chunking import LateChunkingEmbedder
from ragtrial.components.token_vectors.late_chunks import DocumentWindows, PooledChunks, pooled_chunks, token_encoder
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
    in_windows: int | None = None
    """How many documents were read in windows, because they are longer than the model reads; None without any read."""


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
        late = self._embedder.embedder
        windows = DocumentWindows(texts, late) if isinstance(late, LateChunkingEmbedder) else None
        total, unit = (len(texts), "chunks") if windows is None else (len(windows), "windows")
        with stage(self.resources.progress, "embeddings", total, unit) as progress:
            made = self._embedded(texts, windows, lengths, progress.advance)
            seen = NormStatistics()
            write_rows(folder / "vectors.npy", seen.watch(made.blocks()), (len(texts), made.dimension))
        health = seen.health(len(texts), made.distinct, made.dimension)
        write_text(folder / "health.json", json.dumps(asdict(health)))
        if windows is not None:
            write_text(folder / "windows.json", json.dumps({"documents": windows.documents_in_windows}))
        self.resources.rates.note(self.rate, made.amount, made.seconds)

    def _embedded(
        self, texts: IndexedTexts, windows: DocumentWindows | None, lengths: Counts, advance: Callable[[int], None]
    ) -> Embedded | PooledChunks:
        late = self._embedder.embedder
        if windows is None or not isinstance(late, LateChunkingEmbedder):
            return self._embedder.embed(texts, self._embedder.document_prefix, lengths, advance)
        return pooled_chunks(windows, late, self._tokens(late), self._embedder.lengths(windows, ""), advance)

    def _tokens(self, late: LateChunkingEmbedder) -> Path:
        """The file of the vectors of tokens."""
        name = fingerprint(["tokens", "late chunking", late.token_parts(self.resources.digest)])
        return self.resources.workspace.path("tokens", f"{name}.sqlite")

    def load(self, folder: Path) -> Embeddings:
        self.resources.mark_vectors(self.setting.embedder)
        health = VectorHealth(**json.loads((folder / "health.json").read_text()))
        in_windows = None
        if isinstance(late := self._embedder.embedder, LateChunkingEmbedder):
            self.resources.workspace.mark("tokens", self._tokens(late).stem)
            in_windows = int(json.loads((folder / "windows.json").read_text())["documents"])
        return Embeddings(read_array(folder / "vectors.npy"), health, in_windows)

    def amount(self, known: Known) -> Amount:
        texts, chunks = known(self.needs[0]), self.needs[0].amount(known)
        late = self._embedder.embedder
        if texts is not None and isinstance(late, LateChunkingEmbedder):
            return self._amount_of_windows(texts, late)
        absent = None if texts is None else self._embedder.absent(texts, self._embedder.document_prefix)[0]
        to_do = chunks.count if absent is None else len(absent)
        units = int(known.library.sizes.sum()) // (BYTES_PER_TOKEN if self._embedder.tokenizer else 1)
        seconds = self.resources.rates.seconds(self.rate, units * to_do / max(1, chunks.count))
        return Amount(chunks.count, "texts", to_do, is_estimate=absent is None, seconds=seconds)

    def _amount_of_windows(self, texts: IndexedTexts, late: LateChunkingEmbedder) -> Amount:
        windows = DocumentWindows(texts, late)
        to_do = token_encoder(late, self._tokens(late)).missing(windows, "document")
        tokens = int(self._embedder.lengths(windows, "")[to_do].sum())
        seconds = self.resources.rates.seconds(self.rate, tokens)
        return Amount(len(windows), "windows", len(to_do), seconds=seconds)
