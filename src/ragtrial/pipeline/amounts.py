"""How much work a stage would be: counted where what it stands on is there, else estimated from the documents' size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragtrial.cache.arrays import read_array
from ragtrial.cache.vectors import Keys
from ragtrial.cache.workspace import DAMAGE
from ragtrial.components.chunkers.base import SizedChunker
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.config.settings import Setting
from ragtrial.dataset.chunks import Chunks
from ragtrial.pipeline.ground import Ground
from ragtrial.pipeline.latency import SAMPLE
from ragtrial.pipeline.names import UnmadeError
from ragtrial.pipeline.searching import Demand
from ragtrial.pipeline.work import (
    work_of_audit,
    work_of_chunks,
    work_of_embedding,
    work_of_index,
    work_of_latency,
    work_of_rankings,
)
from ragtrial.rankings import Counts
from ragtrial.records import Question

_BYTES_PER_UNIT = {"characters": 1, "words": 6}
_BYTES_PER_TOKEN = 4  # of English text, by the usual rule of thumb
_BYTES_PER_CHUNK = 800  # of chunkers that are told no size
_CHUNK_ROW = 28  # bytes on the disk: document, start, end and id
_VECTOR_KEY = 30  # bytes beside each vector in the cache


@dataclass(frozen=True)
class Amount:
    """How many there are of what, and how many of these are still to do; estimated where it cannot be known yet."""

    count: int
    unit: str
    to_do: int
    is_estimate: bool = False


@dataclass(frozen=True)
class Estimate:
    """What it takes to make a stage: seconds, None where no such work was done on this machine yet; bytes of disk."""

    amount: Amount
    seconds: float | None
    disk: int | None


class Amounts:
    """Estimates of what is to be made on ``ground``; a text that two stages need to have embedded counts once."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._rates = ground.workspace.rates
        self._awaited: dict[str, set[bytes]] = {}

    def chunks(self, setting: Setting) -> Estimate:
        amount = self.chunk_count(setting)
        seconds = self._rates.seconds(work_of_chunks(setting), int(self._ground.library.sizes.sum()))
        return Estimate(amount, seconds, amount.count * _CHUNK_ROW)

    def chunk_count(self, setting: Setting) -> Amount:
        """How many chunks there are, or would be."""
        chunks = self._chunks(setting)
        if chunks is not None:
            return Amount(len(chunks), "chunks", len(chunks))
        count = estimated_chunks(setting, self._ground.library.sizes)
        return Amount(count, "chunks", count, is_estimate=True)

    def context(self, setting: Setting) -> Estimate:
        return Estimate(
            self.chunk_count(setting), self._rates.seconds("context", self.chunk_count(setting).count), None
        )

    def embeddings(self, setting: Setting) -> Estimate:
        """Texts that have no vector yet, by the cache of the model where the texts are known."""
        embedder, texts = self._ground.embedder(setting.embedder), self._texts(setting)
        dimension, count = embedder.dimension(), self.chunk_count(setting)
        if texts is None:
            amount, units = Amount(count.count, "texts", count.count, is_estimate=True), self._units(setting)
        else:
            absent = self._first_awaited(embedder.fingerprint, *embedder.absent(texts, embedder.document_prefix))
            amount, units = Amount(len(texts), "texts", len(absent)), self._lengths(setting, texts, absent)
        seconds = self._rates.seconds(work_of_embedding(embedder), units)
        disk = None
        if dimension is not None:
            disk = 4 * dimension * (amount.count + amount.to_do) + _VECTOR_KEY * amount.to_do
        return Estimate(amount, seconds, disk)

    def index(self, setting: Setting) -> Estimate:
        count = self.chunk_count(setting)
        dimension = self._ground.embedder(setting.embedder).dimension()
        vectors = Amount(count.count, "vectors", count.count, count.is_estimate)
        if setting.store.is_exact:
            return Estimate(vectors, 0.0, 0)
        disk = None if dimension is None else setting.store.bytes_of(count.count, dimension)
        return Estimate(vectors, self._rates.seconds(work_of_index(setting), count.count), disk)

    def rankings(self, setting: Setting, questions: Sequence[Question], demand: Demand) -> Estimate:
        work, units = work_of_rankings(setting, questions)
        row = 8 * demand.candidates + 20 * demand.units
        amount = Amount(len(questions), "questions", len(questions))
        return Estimate(amount, self._rates.seconds(work, units), len(questions) * row)

    def latency(self, setting: Setting, questions: Sequence[Question]) -> Estimate:
        count = min(len(questions), SAMPLE)
        return Estimate(Amount(count, "questions", count), self._rates.seconds(work_of_latency(setting), count), 0)

    def audit(self, setting: Setting) -> Estimate:
        count = self.chunk_count(setting)
        vectors = Amount(count.count, "vectors", count.count, count.is_estimate)
        return Estimate(vectors, self._rates.seconds(work_of_audit(setting), count.count), 0)

    def _chunks(self, setting: Setting) -> Chunks | None:
        workspace, name = self._ground.workspace, self._ground.names.chunks(setting)
        if not workspace.has("chunks", name):
            return None
        try:
            return Chunks(self._ground.library, workspace.path("chunks", name))
        except DAMAGE:
            return None

    def _texts(self, setting: Setting) -> IndexedTexts | None:
        chunks = self._chunks(setting)
        try:
            self._ground.names.texts(setting)
        except UnmadeError:
            return None
        return None if chunks is None else self._ground.texts(setting, chunks)

    def _first_awaited(self, model: str, positions: Counts, keys: Keys) -> Counts:
        """The ``positions`` of texts that no stage before has to embed; from now on these have."""
        awaited = self._awaited.setdefault(model, set())
        content = [key.tobytes() for key in keys]
        new = np.array([key not in awaited for key in content], dtype=np.bool_)
        awaited.update(content)
        return positions[new]

    def _lengths(self, setting: Setting, texts: IndexedTexts, positions: Counts) -> int:
        """How long some texts are, in what the model's rate is told in."""
        workspace, name = self._ground.workspace, self._ground.names.lengths(setting)
        if workspace.has("lengths", name):
            return int(read_array(workspace.path("lengths", name) / "lengths.npy")[positions].sum())
        characters = int((texts.chunks.end - texts.chunks.start)[positions].sum())
        return characters // self._characters_per_unit(setting)

    def _units(self, setting: Setting) -> int:
        """How long all texts are about, where the chunks are not there: those that overlap count twice."""
        chunker, size = setting.chunker, int(self._ground.library.sizes.sum())
        again = chunker.size / (chunker.size - chunker.overlap) if isinstance(chunker, SizedChunker) else 1.0
        return int(size * again) // self._characters_per_unit(setting)

    def _characters_per_unit(self, setting: Setting) -> int:
        return 1 if self._ground.embedder(setting.embedder).tokenizer is None else _BYTES_PER_TOKEN


def estimated_chunks(setting: Setting, sizes: Counts) -> int:
    """About how many chunks documents of these ``sizes`` in bytes, shape (documents,), would be cut into."""
    chunker, filled = setting.chunker, sizes[sizes > 0]
    if chunker.kind == "document":
        return len(filled)
    step, again = _BYTES_PER_CHUNK, 0
    if isinstance(chunker, SizedChunker):
        unit = _BYTES_PER_UNIT.get(chunker.counted_by, _BYTES_PER_TOKEN)
        step, again = (chunker.size - chunker.overlap) * unit, chunker.overlap * unit
    return int(np.maximum(1, -(-(filled - again) // step)).sum())
