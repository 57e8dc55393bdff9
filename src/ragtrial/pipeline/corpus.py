"""The documents of a config, and what is made of them before anything is searched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, TypeVar

from ragtrial.config import ExperimentConfig
from ragtrial.config.settings import Setting
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.datasets import corpus_of
from ragtrial.dataset.library import Library
from ragtrial.errors import ConfigError
from ragtrial.pipeline.chunk_stage import ChunkStage
from ragtrial.pipeline.context_stage import ContextStage, prefix_warnings
from ragtrial.pipeline.document_stage import DocumentStage, SampleStage
from ragtrial.pipeline.embedding_stage import EmbeddingStage, LengthStage, TruncationStage, VectorStage
from ragtrial.pipeline.index_stage import IndexStage
from ragtrial.pipeline.open_setting import SettingContext, SettingStages
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.stage import Runner, Stage
from ragtrial.progress import Progress
from ragtrial.records import ReportWarning

S = TypeVar("S", bound=Stage[Any])


class Corpus:
    """The stages below search over the documents of ``config``, in its workspace. Raises CorpusError."""

    def __init__(self, config: ExperimentConfig, progress: Progress, documents: Path | None = None) -> None:
        self.resources = Resources(config, progress)
        self.runner = Runner(self.resources.workspace)
        whole = DocumentStage(self.resources, documents or corpus_of(config.dataset), config.dataset.on_error)
        self._whole = whole
        self._begin(whole)

    def _begin(self, documents: Stage[Library]) -> None:
        self.documents = documents
        self.library: Library = self.runner.artefact(documents)
        self.fingerprint = documents.key()
        """What tells these documents from others; in reports, too."""
        self._stages: dict[str, Stage[Any]] = {}
        self._settings: dict[Setting, SettingStages] = {}

    def among(self, positions: Sequence[int]) -> Corpus:
        """The corpus of some of its documents, with stages of its own in the same workspace."""
        made = copy(self)
        made._begin(SampleStage(self.resources, self._whole, positions))  # noqa: SLF001 - its own
        return made

    def stages(self, setting: Setting) -> SettingStages:
        """The stages of the corpus that reach ``setting`` and its parts."""
        if setting not in self._settings:
            chunks = self.chunk_stage(setting) if "chunker" in setting.retriever.reached_by else None
            texts = self.text_stage(setting) if setting.has_chunks else None
            lengths = embeddings = index = None
            if texts is not None and setting.has_index:
                lengths = self.once(LengthStage(self.resources, texts, setting))
                embeddings = self._vector_stage(texts, lengths, setting)
                index = self.once(IndexStage(self.resources, texts, embeddings, setting))
            parts = tuple(self.stages(part) for part in setting.parts)
            made = SettingStages(setting, self.documents, chunks, texts, lengths, embeddings, index, parts)
            self._settings[setting] = made
        return self._settings[setting]

    def _vector_stage(self, texts: ContextStage, lengths: LengthStage, setting: Setting) -> VectorStage:
        whole, dimensions = (
            self.once(EmbeddingStage(self.resources, texts, lengths, setting)),
            setting.embedder.used_dimensions,
        )
        if dimensions is None:
            return whole
        return self.once(TruncationStage(self.resources, whole, setting, dimensions))

    def chunk_stage(self, setting: Setting) -> ChunkStage:
        """The stage of the chunks that the chunker of ``setting`` makes, whether or not these reach it."""
        return self.once(ChunkStage(self.resources, self.documents, setting))

    def text_stage(self, setting: Setting) -> ContextStage:
        """The stage of what is indexed for these chunks."""
        return self.once(ContextStage(self.resources, self.chunk_stage(setting), setting))

    def once(self, stage: S) -> S:
        """``stage``, or the one that is equal to it and was there before."""
        found: S = self._stages.setdefault(stage.definition_fingerprint, stage)  # type: ignore[assignment]  # equal ones are of one class
        return found

    def chunks(self, setting: Setting, *, loads_models: bool = True) -> Chunks | None:
        """The chunks of ``setting``; None if no chunker reaches it, or if making them would load a model."""
        if not setting.cuts_documents:
            return None
        stage = self.chunk_stage(setting)
        is_there = not setting.chunker.needs_embedder or stage.kept_key(self.resources.workspace) is not None
        return self.runner.artefact(stage) if loads_models or is_there else None

    def prefix_warnings(self, setting: Setting) -> Iterator[ReportWarning]:
        """A warning if the file of prefixes has none for some chunks of ``setting``. Raises PrefixesError."""
        if setting.has_chunks and setting.context.prefixes is not None:
            yield from prefix_warnings(setting, self.runner.artefact(self.text_stage(setting)))

    def prepare(self, setting: Setting) -> None:
        """Find everything that ``setting`` names (model, tokenizer, function, prefixes) before any work is done.

        Raises ModelNotFoundError, also for sizes in tokens that no tokenizer is there to count, and PrefixesError.
        """
        if "chunker" in setting.reached_by:
            setting.chunker.check()
            self.resources.unit_tokenizer(setting)
        if "embedder" in setting.reached_by:
            self.resources.embedder(setting.embedder).check()
        if setting.has_index:
            setting.store.check()
        if setting.has_index and setting.embedder.reads_documents and not setting.context.is_bare:
            raise ConfigError(
                f"{setting.name}: late chunking reads documents as they are; remove headings, sentences and prefixes "
                "from context, or use kind: sentence-transformer."
            )
        list(self.prefix_warnings(setting))  # whose rows are right or not beside chunks

    def context(self, setting: Setting, *, loads_models: bool = True) -> SettingContext:
        """What the retriever of ``setting`` may look at before anything is searched: its index is not open."""
        return SettingContext(self.resources, self.stages(setting), self.runner, loads_models=loads_models)
