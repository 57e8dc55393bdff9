"""The graph of stages: the corpus stages below search, and the stages of the settings that search them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ragtrial.components.refiners import Refiner
from ragtrial.config import ExperimentConfig
from ragtrial.config.models import MOST_TIMED
from ragtrial.config.settings import Setting
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.datasets import corpus_of
from ragtrial.dataset.library import Library
from ragtrial.engines.exact import ExactStore
from ragtrial.pipeline.corpus_stages import (
    ChunkStage,
    ContextStage,
    DocumentStage,
    EmbeddingStage,
    IndexStage,
    LengthStage,
    TruncationStage,
    VectorStage,
)
from ragtrial.pipeline.measurement_stages import AuditStage, LatencyStage
from ragtrial.pipeline.ranking_stage import RankingStage, SettingContext, SettingStages
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.retrieval import Depth
from ragtrial.pipeline.stage import Runner, Stage
from ragtrial.progress import Progress
from ragtrial.records import Question, ReportWarning

S = TypeVar("S", bound=Stage[Any])


class Corpus:
    """The stages below search over the documents of ``config``, in its workspace. Raises CorpusError."""

    def __init__(self, config: ExperimentConfig, progress: Progress, documents: Path | None = None) -> None:
        self.config = config
        self.resources = Resources(config, progress)
        self.runner = Runner(self.resources.workspace)
        stage = DocumentStage(self.resources, documents or corpus_of(config.dataset), config.dataset.on_error)
        self.documents: Stage[Library] = stage
        self.library = self.runner.artefact(stage)
        self.fingerprint = stage.key()
        """The fingerprint of the documents, also in reports."""
        self._stages: dict[str, Stage[Any]] = {}
        self._settings: dict[Setting, SettingStages] = {}

    def stages(self, setting: Setting) -> SettingStages:
        """The stages of the corpus that reach ``setting`` and its parts."""
        if setting not in self._settings:
            chunks = self.chunk_stage(setting) if setting.cuts_documents else None
            texts, index = self.text_stage(setting) if setting.has_chunks else None, None
            if texts is not None and setting.has_index:
                lengths, dimensions = self.length_stage(texts, setting), setting.embedder.used_dimensions
                vectors: VectorStage = self.once(EmbeddingStage(self.resources, texts, lengths, setting))
                if dimensions is not None:
                    vectors = self.once(TruncationStage(self.resources, vectors.untruncated, setting, dimensions))
                index = self.once(IndexStage(self.resources, texts, vectors, setting))
            parts = tuple(self.stages(part) for part in setting.parts)
            self._settings[setting] = SettingStages(setting, self.documents, chunks, texts, index, parts)
        return self._settings[setting]

    def length_stage(self, texts: ContextStage, setting: Setting) -> LengthStage:
        """The stage of the lengths of ``texts`` for the model of ``setting``."""
        return self.once(LengthStage(self.resources, texts, setting))

    def chunk_stage(self, setting: Setting) -> ChunkStage:
        """The stage of the chunks that the chunker of ``setting`` makes, whether or not these reach it."""
        return self.once(ChunkStage(self.resources, self.documents, setting))

    def text_stage(self, setting: Setting) -> ContextStage:
        """The stage of the indexed texts of these chunks."""
        return self.once(ContextStage(self.resources, self.chunk_stage(setting), setting))

    def once(self, stage: S) -> S:
        """``stage``, or an equal stage that exists already."""
        found: S = self._stages.setdefault(stage.build_free_fingerprint, stage)  # type: ignore[assignment]  # equal ones are of one class
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
            texts = self.runner.artefact(self.text_stage(setting))
            if without := texts.surroundings.without_prefix if texts.surroundings else 0:
                message = f"chunks without a row in {setting.context.prefixes}: {without:,} of {len(texts):,}"
                yield ReportWarning("no-prefix", f"{setting.name}: {message}; they are indexed without a prefix.")

    def prepare(self, setting: Setting) -> None:
        """Find everything that ``setting`` names (model, tokenizer, function, prefixes) before any work is done.

        Raises ModelNotFoundError, also for sizes in tokens that no tokenizer is there to count, and PrefixesError.
        """
        if "chunker" in setting.depends_on:
            setting.chunker.check()
            self.resources.unit_tokenizer(setting)
        if "embedder" in setting.depends_on:
            self.resources.embedder(setting.embedder).check()
        if setting.has_index:
            setting.store.check()
        list(self.prefix_warnings(setting))  # whose rows can only be checked against chunks

    def context(self, setting: Setting, *, loads_models: bool = True) -> SettingContext:
        """The context of the retriever of ``setting`` before anything is searched: its index is not open."""
        return SettingContext(self.resources, self.stages(setting), self.runner, loads_models=loads_models)


Search = tuple[str, int | None]
"""The key of a ranking, and the width of the search, if it changes the hits."""


@dataclass(eq=False)
class Graph:
    """The stages of a run of ``settings``, which are asked ``questions``.

    Rankings are of documents, or of chunks if the config scores passages. ``latency`` says if single queries are timed
    (None: as the config does, by default for a few settings). ``failures`` are errors of chat models that write
    wordings, by the writer's key: a setting that needs the writer cannot run.
    """

    corpus: Corpus
    settings: Sequence[Setting]
    questions: Sequence[Question]
    latency: bool | None = False
    failures: Mapping[str, Exception] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wanted = self.corpus.config.latency if self.latency is None else self.latency
        self._is_timed = len(self.settings) <= MOST_TIMED if wanted is None else wanted
        self._unit = self.corpus.config.evaluators.unit

    @cached_property
    def depths(self) -> dict[Search, Depth]:
        """The depth of each search for the settings, all their parts, and their exact twins.

        Searches of equal width share one. A wider search of an approximate index finds other hits, and the hits of a
        setting must not depend on the other settings.
        """
        depths: dict[Search, Depth] = {}

        def want(setting: Setting, depth: Depth) -> None:
            search = search_of(setting, depth)
            depths[search] = depths.get(search, Depth()) | depth
            for part in setting.parts:
                want(part, Depth(candidates=setting.depth_of_parts))

        for setting in self.settings:
            for searched in filter(None, (setting, exact_twin(setting))):
                want(searched, Depth(units=setting.retriever.top_k))
        return depths

    def ranking_stage(
        self, setting: Setting, questions: Sequence[Question] | None = None, depth: Depth | None = None
    ) -> RankingStage:
        """The rankings of a setting, or of a part, which is asked other ``questions`` and looked at to some ``depth``.

        Raises the error of a chat model that has no wordings for it.
        """
        writer = setting.retriever.writer if isinstance(setting.retriever, Refiner) else None
        if writer is not None and writer.key in self.failures:
            raise self.failures[writer.key]
        questions = self.questions if questions is None else questions
        search = search_of(setting, depth or Depth(units=setting.retriever.top_k))
        asked, looked_at = setting.wordings(questions), Depth(candidates=setting.depth_of_parts)
        parts = tuple(self.ranking_stage(part, asked, looked_at) for part in setting.parts)
        corpus, stages, deepest, width = self.corpus, self.corpus.stages(setting), self.depths[search], search[1]
        stage = RankingStage(corpus.resources, stages, parts, questions, self._unit, deepest, width)
        return corpus.once(stage)

    def latency_stage(self, setting: Setting, ranking: RankingStage) -> LatencyStage | None:
        """The latency of a setting with this ``ranking``; None if it is not timed."""
        corpus = self.corpus
        if not self._is_timed or not all(part.retriever.has_latency for part in setting.tree()):
            return None
        return corpus.once(LatencyStage(corpus.resources, setting, ranking, corpus.config.seed))

    def audit_stage(self, setting: Setting, ranking: RankingStage) -> AuditStage | None:
        """The comparison of a ``ranking`` with exact search; None if exact search finds the same."""
        twin = exact_twin(setting)
        if twin is None:
            return None
        own = next((other for other in self.settings if other.ranking_key == twin.ranking_key), twin)
        exact = self.ranking_stage(own, depth=Depth(units=setting.retriever.top_k))
        return self.corpus.once(AuditStage(self.corpus.resources, setting, ranking, exact))


def search_of(setting: Setting, depth: Depth) -> Search:
    """The search that serves ``depth``; depths with equal width share one."""
    return setting.ranking_key, setting.width(depth.hits)


def exact_twin(setting: Setting) -> Setting | None:
    """``setting`` with exact search over the same vectors; None if its index misses nothing that this finds."""
    exact = setting.retriever.by_exact_search()
    if exact is not None:
        return replace(setting, name=f"{setting.name}, exact", retriever=exact)
    if not setting.has_index or setting.store.is_exact:
        return None
    return replace(setting, name=f"{setting.name}, exact", store=ExactStore(space=setting.store.space))
