"""The graph of a run: every stage of every setting, equal ones once, each ranking as deep as anything needs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ragtrial.components.stores.exact import ExactStore
from ragtrial.config.settings import Setting
from ragtrial.dataset.documents import OnError
from ragtrial.pipeline.audit_stage import AuditStage
from ragtrial.pipeline.chunk_stage import ChunkStage
from ragtrial.pipeline.context_stage import ContextStage
from ragtrial.pipeline.document_stage import DocumentStage
from ragtrial.pipeline.embedding_stage import EmbeddingStage, LengthStage
from ragtrial.pipeline.index_stage import IndexStage
from ragtrial.pipeline.latency_stage import LatencyStage
from ragtrial.pipeline.ranking_stage import RankingStage
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.retrieval import Depth
from ragtrial.pipeline.setting_stages import SettingStages
from ragtrial.pipeline.stage import Stage
from ragtrial.records import Question, Unit

S = TypeVar("S", bound=Stage[Any])

Search = tuple[str, int | None]
"""The key of a ranking, and how widely is searched for it, where that changes what is found."""


@dataclass(frozen=True, eq=False)
class SettingRun:
    """The last stages of a setting: its rankings, and what is measured of it where that is asked for."""

    stages: SettingStages
    ranking: RankingStage
    latency: LatencyStage | None
    audit: AuditStage | None

    @property
    def setting(self) -> Setting:
        return self.stages.setting

    @property
    def ends(self) -> Iterator[Stage[Any]]:
        """The stages that a run asks for; all others are needed by them."""
        yield from (one for one in (self.ranking, self.latency, self.audit) if one is not None)


class CorpusGraph:
    """The stages below search, of any setting, over the documents of ``corpus``."""

    def __init__(self, resources: Resources, corpus: Path, on_error: OnError = "stop") -> None:
        self.resources = resources
        self.documents = DocumentStage(resources, corpus, on_error)
        self._stages: dict[str, Stage[Any]] = {}
        self._settings: dict[Setting, SettingStages] = {}

    def stages(self, setting: Setting) -> SettingStages:
        """The stages of the corpus that reach ``setting`` and its parts."""
        if setting not in self._settings:
            self._settings[setting] = self._made(setting)
        return self._settings[setting]

    def _made(self, setting: Setting) -> SettingStages:
        parts = tuple(self.stages(part) for part in setting.parts)
        if "chunker" not in setting.retriever.reached_by:
            return SettingStages(setting, parts=parts)
        resources, chunks = self.resources, self.chunks(setting)
        if not setting.has_chunks:
            return SettingStages(setting, chunks, parts=parts)
        texts = self.texts(setting)
        if not setting.has_index:
            return SettingStages(setting, chunks, texts, parts=parts)
        lengths = self.once(LengthStage(resources, texts, setting))
        embeddings = self.once(EmbeddingStage(resources, self.documents, texts, lengths, setting))
        index = self.once(IndexStage(resources, texts, embeddings, setting))
        return SettingStages(setting, chunks, texts, lengths, embeddings, index, parts)

    def chunks(self, setting: Setting) -> ChunkStage:
        """The stage of the chunks that the chunker of ``setting`` makes, whether or not these reach it."""
        return self.once(ChunkStage(self.resources, self.documents, setting))

    def texts(self, setting: Setting) -> ContextStage:
        """The stage of what is indexed for these chunks."""
        return self.once(ContextStage(self.resources, self.chunks(setting), setting))

    def once(self, stage: S) -> S:
        """``stage``, or the one that is equal to it and was there before."""
        found: S = self._stages.setdefault(stage.spec, stage)  # type: ignore[assignment]  # equal ones are of one class
        return found


class Graph:
    """The stages of a run of ``settings``, which are asked ``questions``.

    ``unit`` is what rankings are of: documents, or, for passages in them, chunks. ``latency`` measures single queries,
    drawn with ``seed``.
    """

    def __init__(
        self,
        corpus: CorpusGraph,
        settings: Sequence[Setting],
        questions: Sequence[Question],
        unit: Unit = "document",
        *,
        latency: bool = False,
        seed: int = 0,
    ) -> None:
        self.corpus = corpus
        self.settings = settings
        self.questions = questions
        self.unit: Unit = unit
        self._latency = latency
        self._seed = seed
        self._runs: dict[Setting, SettingRun] = {}

    @cached_property
    def depths(self) -> dict[Search, Depth]:
        """How deep each search must go for the settings, all that they are made of, and their exact twins.

        One search serves all that look at it equally widely. An approximate index that is searched more widely finds
        other hits, and what a setting finds must not depend on which others there are.
        """
        found: dict[Search, Depth] = {}

        def want(setting: Setting, depth: Depth) -> None:
            search = search_of(setting, depth)
            found[search] = found.get(search, Depth()) | depth
            for part in setting.parts:
                want(part, Depth(candidates=setting.depth_of_parts))

        for setting in self.settings:
            want(setting, own_depth(setting))
            if is_approximate(setting):
                want(exact_twin(setting), own_depth(setting))
        return found

    def run_of(self, setting: Setting) -> SettingRun:
        """The last stages of one of the settings."""
        if setting not in self._runs:
            self._runs[setting] = self._made(setting)
        return self._runs[setting]

    def _made(self, setting: Setting) -> SettingRun:
        resources, stages = self.corpus.resources, self.corpus.stages(setting)
        ranking = self.ranking(setting, self.questions, own_depth(setting))
        latency = audit = None
        if self._latency and all(one.setting.retriever.has_latency for one in stages.tree()):
            made = LatencyStage(resources, self.corpus.documents, stages, ranking, self.unit, self._seed)
            latency = self.corpus.once(made)
        if stages.index is not None and is_approximate(setting):
            twin = exact_twin(setting)
            own = next((one for one in self.settings if one.ranking_key == twin.ranking_key), twin)
            exact = self.ranking(own, self.questions, own_depth(setting))
            audit = self.corpus.once(AuditStage(resources, setting, stages.index, ranking, exact))
        return SettingRun(stages, ranking, latency, audit)

    def ranking(self, setting: Setting, questions: Sequence[Question], depth: Depth) -> RankingStage:
        """The rankings of a setting, or of a part, that serve ``depth``."""
        search = search_of(setting, depth)
        asked, looked_at = setting.wordings(questions), Depth(candidates=setting.depth_of_parts)
        parts = [self.ranking(part, asked, looked_at) for part in setting.parts]
        corpus, stages = self.corpus, self.corpus.stages(setting)
        deepest, width = self.depths[search], search[1]
        made = RankingStage(corpus.resources, corpus.documents, stages, parts, questions, self.unit, deepest, width)
        return corpus.once(made)


def own_depth(setting: Setting) -> Depth:
    """How deep the ranking of ``setting`` must be for itself."""
    return Depth(units=setting.retriever.top_k)


def search_of(setting: Setting, depth: Depth) -> Search:
    """What must be searched for ``depth``: one search serves all depths with which it is the same."""
    return setting.ranking_key, setting.width(depth.hits)


def is_approximate(setting: Setting) -> bool:
    """Whether ``setting`` searches an index that may miss what exact search finds."""
    return setting.has_index and not setting.store.is_exact


def exact_twin(setting: Setting) -> Setting:
    """``setting`` with exact search over the same vectors."""
    return replace(setting, name=f"{setting.name}, exact", store=ExactStore(space=setting.store.space))
