"""The graph of stages: those below search, those of the settings that search them, and what is read from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.seals import DamagedError
from ragtrial.components.batching import TextList
from ragtrial.components.embedders.base import Embedder
from ragtrial.components.embedders.model_files import without_fetching
from ragtrial.components.interfaces import Facts
from ragtrial.components.refiners.base import Refiner
from ragtrial.config import ExperimentConfig
from ragtrial.config.models import MOST_TIMED
from ragtrial.config.settings import Setting, failing_as
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.datasets import corpus_of
from ragtrial.dataset.library import Library
from ragtrial.engines.exact import ExactStore
from ragtrial.errors import ModelNotFoundError
from ragtrial.evaluation.context_sizes import context_sizes
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
from ragtrial.pipeline.measurement_stages import AUDITED_BELOW, AuditStage, LatencyStage, SizeStage
from ragtrial.pipeline.ranking_stage import RankingStage, SettingContext, SettingStages
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.results import ComponentRanking, Diagnostics, SettingResult
from ragtrial.pipeline.retrieval import Depth, SettingRankings
from ragtrial.pipeline.stage import Runner, Stage
from ragtrial.pipeline.written_wordings import WrittenWordings
from ragtrial.progress import Progress, timed
from ragtrial.rankings import Counts
from ragtrial.records import Question, ReportWarning
from ragtrial.report import schema

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
                lengths = self.once(LengthStage(self.resources, texts, setting))
                vectors: VectorStage = self.once(EmbeddingStage(self.resources, texts, lengths, setting))
                if (dimensions := setting.embedder.used_dimensions) is not None:
                    vectors = self.once(TruncationStage(self.resources, vectors.untruncated, setting, dimensions))
                index = self.once(IndexStage(self.resources, texts, vectors, setting))
            parts = tuple(self.stages(part) for part in setting.parts)
            self._settings[setting] = SettingStages(setting, self.documents, chunks, texts, index, parts)
        return self._settings[setting]

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
    """The stages of a run of ``settings``, which are asked the ``written`` questions, and what is read from them.

    Rankings are of documents, or of chunks if the config scores passages. ``latency`` says if single queries are timed
    (None: as the config does, by default for a few settings). ``audit`` also compares large indexes with exact search.
    A setting cannot run if the chat model failed that writes its wordings.

    Contexts are counted in tokens of the config's embedder, so that they are the same for all settings. Without a
    budget, they are not counted where only that would need the tokenizer, and it is not here. Ties are broken in cut
    rankings, so that a setting's result does not depend on the depth that other settings need.
    """

    corpus: Corpus
    settings: Sequence[Setting]
    written: WrittenWordings
    latency: bool | None = False
    audit: bool = False
    _queries_too_long: dict[tuple[Embedder, tuple[str, ...]], int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._config, self._artefact = self.corpus.config, self.corpus.runner.artefact
        wanted = self._config.latency if self.latency is None else self.latency
        self._is_timed = len(self.settings) <= MOST_TIMED if wanted is None else wanted
        self._unit = self._config.evaluators.unit

    @cached_property
    def depths(self) -> dict[Search, Depth]:
        """The depth of each search for the settings, all their parts, and their exact twins.

        Searches of equal width share one. A wider search of an approximate index finds other hits, and the hits of a
        setting must not depend on the other settings.
        """
        depths: dict[Search, Depth] = {}

        def want(setting: Setting, depth: Depth) -> None:
            search = setting.ranking_key, setting.width(depth.hits)
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
        if writer is not None and writer.key in self.written.failures:
            raise self.written.failures[writer.key]
        questions = self.written.questions if questions is None else questions
        depth = Depth(units=setting.retriever.top_k) if depth is None else depth
        width = setting.width(depth.hits)
        asked, looked_at = setting.wordings(questions), Depth(candidates=setting.depth_of_parts)
        parts = tuple(self.ranking_stage(part, asked, looked_at) for part in setting.parts)
        corpus, stages, deepest = self.corpus, self.corpus.stages(setting), self.depths[setting.ranking_key, width]
        stage = RankingStage(corpus.resources, stages, parts, questions, self._unit, deepest, width)
        return corpus.once(stage)

    def latency_stage(self, setting: Setting, ranking: RankingStage) -> LatencyStage | None:
        """The latency of a setting with this ``ranking``; None if it is not timed."""
        corpus = self.corpus
        if not self._is_timed or not all(part.retriever.has_latency for part in setting.tree()):
            return None
        return corpus.once(LatencyStage(corpus.resources, setting, ranking, self._config.seed))

    def audit_stage(self, setting: Setting, ranking: RankingStage) -> AuditStage | None:
        """The comparison of a ``ranking`` with exact search; None if exact search finds the same."""
        twin = exact_twin(setting)
        if twin is None:
            return None
        own = next((other for other in self.settings if other.ranking_key == twin.ranking_key), twin)
        exact = self.ranking_stage(own, depth=Depth(units=setting.retriever.top_k))
        return self.corpus.once(AuditStage(self.corpus.resources, setting, ranking, exact))

    # --- results

    def result(self, setting: Setting) -> SettingResult:
        """The result of one setting. Raises RunError if a stage fails; finished stages are kept."""
        timings: dict[str, float] = {}
        ranking = self.ranking_stage(setting)
        stages, questions = ranking.stages, ranking.questions
        for part in stages.tree():
            with nullcontext() if part is stages else failing_as(part.setting):
                if part.index is not None:
                    with timed(timings, "chunks"):
                        self._artefact(part.index.embeddings.untruncated.lengths)
                    with timed(timings, "embeddings"):
                        self._artefact(part.index.embeddings)
                    with timed(timings, "index"):
                        self._artefact(part.index)
        with timed(timings, "retrieval"):
            ranked = self._cut(self._artefact(ranking), setting)
            tokens = self._tokens(ranking, ranked)
        latency, audited = None, None
        if (latency_stage := self.latency_stage(setting, ranking)) is not None:
            with timed(timings, "latency"):
                latency = self._artefact(latency_stage)
        audit_stage = self.audit_stage(setting, ranking)
        if audit_stage is not None and self._is_audited(audit_stage, stages):
            with timed(timings, "audit"):
                audited = self._artefact(audit_stage)
        chunks = ranked.candidates.units
        return SettingResult(
            setting=setting,
            fingerprint=fingerprint(["setting", ranking.query_free_fingerprint, setting.retriever.top_k]),
            chunks=chunks,
            are_all=any(chunks.name == self._artefact(part.chunks).name for part in stages.tree() if part.chunks),
            ranked=ranked,
            diagnostics=self._diagnostics(stages, questions, ranked.candidates.facts),
            sizes=context_sizes(np.append(chunks.end - chunks.start, 0)[ranked.units], tokens),
            index=self._artefact(stages.index) if stages.index else {},
            timings=timings,
            latency=latency,
            audited=replace(audited, exact=self._cut(audited.exact, setting)) if audited else None,
            costs=self._costs(stages, ranking.mark_used(), self._query_cost(ranking)),
            parts=tuple(self._components(setting, ranking)),
            wordings=[_wordings(setting, question) for question in questions],
        )

    def ranked(self, setting: Setting) -> SettingRankings:
        """The rankings of a setting, cut at its top_k. Raises RunError if a stage fails; finished stages are kept."""
        return self._cut(self._artefact(self.ranking_stage(setting)), setting)

    def _cut(self, ranked: SettingRankings, setting: Setting) -> SettingRankings:
        cut, last_first = ranked.cut(Depth(units=setting.retriever.top_k)), self._config.evaluators.ties == "trec"
        return cut.with_last_first(self.corpus.library.id_order) if last_first else cut

    def _is_audited(self, audit: AuditStage, stages: SettingStages) -> bool:
        if self.audit:
            return True
        size = audit.collection_size
        if size is None and stages.chunks is not None:
            size = len(self._artefact(stages.chunks))
        return (size or 0) < AUDITED_BELOW

    def too_long(self, stages: SettingStages, questions: Sequence[Question]) -> dict[str, int | None]:
        """The numbers of chunks and queries that are longer than the model reads (None: unknown); loads no model."""
        if stages.index is None:
            return {}
        embedder, lengths = self.corpus.resources.embedder(stages.setting.embedder), np.empty(0, dtype=np.int64)
        key = stages.setting.embedder, tuple(question.text for question in questions)
        if key not in self._queries_too_long:
            if embedder.counts_too_long and embedder.tokenizer is not None:
                lengths = embedder.lengths(TextList(key[1]), embedder.query_prefix)
            self._queries_too_long[key] = embedder.count_too_long(lengths)
        chunks = embedder.count_too_long(self._artefact(stages.index.embeddings.untruncated.lengths))
        return {"chunks": chunks, "queries": self._queries_too_long[key]}

    def _diagnostics(self, stages: SettingStages, questions: Sequence[Question], facts: Facts) -> Diagnostics:
        health = self._artefact(stages.index.embeddings).health if stages.index else None
        return Diagnostics(facts, health, self.too_long(stages, questions))

    def _tokens(self, ranking: RankingStage, ranked: SettingRankings) -> Counts | None:
        """The tokens of each hit, in the shape of the rankings; None without a tokenizer."""
        corpus, counted_by, setting = self.corpus, self._config.embedder, ranking.setting
        is_used = "embedder" in setting.depends_on and setting.embedder == counted_by
        is_needed = self._config.evaluators.budget is not None or is_used
        try:
            with nullcontext() if is_needed else without_fetching():
                tokenizer = corpus.resources.embedder(counted_by).tokenizer
        except ModelNotFoundError:
            if is_needed:
                raise
            return None
        if tokenizer is None:
            return None
        sizes = SizeStage(corpus.resources, ranking, ranked.candidates.units, ranked.units, tokenizer)
        return self._artefact(sizes)

    def _costs(
        self, stages: SettingStages, used: Iterable[tuple[str, str]], query_cost: float | None
    ) -> schema.CostsPart:
        """The costs of a setting with its parts; each embedding and each index counts once.

        ``used`` are the stages, by kind and name, that its retrievers keep themselves: they count as indexes. An exact
        index is its vectors.
        """
        from ragtrial.cache.upkeep import GROWING

        indexes = {part.index.build_free_fingerprint: part.index for part in stages.tree() if part.index}
        models = {index.embeddings.untruncated.build_free_fingerprint: index.embeddings for index in indexes.values()}
        sizes, embedding = dict[str, float | None](), list[float | None]()
        indexing, paid, searched = list[float | None](), list[float | None](), 0
        resources = self.corpus.resources
        for embeddings in models.values():
            spent = self._artefact(embeddings).spent
            tokens = int(self._artefact(embeddings.untruncated.lengths).sum())
            embedding.append(spent.seconds)
            paid.append(resources.embedding_cost(embeddings.untruncated.setting.embedder, tokens, spent.tokens))
        for key, index in indexes.items():
            embeddings = index.embeddings
            indexing.append(self._size_and_seconds(index.kind, index.key())[1])
            searched += index.store.vector_bytes(self._artefact(embeddings).health.dimension)
            if index.store.is_exact:
                size = self._size_and_seconds(embeddings.kind, embeddings.key())[0]
                sizes[embeddings.build_free_fingerprint] = size
            else:
                sizes[key] = self._artefact(index)["bytes"]
        for kind, name in used:
            if kind not in GROWING:
                sizes[name], seconds = self._size_and_seconds(kind, name)
                measured = resources.workspace.path(kind, name) / "seconds.json"
                if measured.exists():  # the vectors of its texts are kept elsewhere, and have their own costs
                    own = json.loads(measured.read_text(encoding="utf-8"))
                    embedding.append(own["embedding"])
                    seconds = own["indexing"]
                indexing.append(seconds)
        total = _sum(sizes.values())
        return schema.CostsPart(
            embedding_seconds=_sum(embedding),
            indexing_seconds=_sum(indexing),
            index_bytes=None if total is None else int(total),
            vector_bytes=searched or None,
            embedding_cost=_sum(cost for cost in paid if cost is not None),
            query_cost=query_cost,
        )

    def _query_cost(self, ranking: RankingStage) -> float | None:
        """The price of a thousand queries, extrapolated from the price of these questions."""
        stages = {stage.build_free_fingerprint: stage for stage in ranking.tree()}
        workspace = self.corpus.resources.workspace
        ranked = [stage for stage in stages.values() if stage is ranking or stage.kept_key(workspace) is not None]
        costs = [stage.query_cost() for stage in stages.values()]
        costs += [stage.setting.retriever.cost(self._artefact(stage).candidates.facts) for stage in ranked]
        paid = [cost for cost in costs if cost is not None]
        return 1000 * sum(paid) / max(1, len(ranking.questions)) if paid else None

    def _size_and_seconds(self, kind: str, name: str) -> tuple[int | None, float | None]:
        """The bytes of a stage, and the seconds that building it took."""
        try:
            sealed = self.corpus.resources.workspace.seal(kind, name)
        except DamagedError:
            return None, None
        return sealed.size, sealed.seconds

    def _components(
        self, whole: Setting, ranking: RankingStage, *, as_asked: bool = True
    ) -> Iterator[ComponentRanking]:
        """The component rankings of a setting, at any depth.

        For components that are settings themselves, only if the whole uses hits beyond their own top_k. ``as_asked``
        is true if the whole is asked the questions of the labels, not other wordings.
        """
        for setting, part in zip(whole.parts, ranking.parts, strict=True):
            is_same = as_asked and part.questions == ranking.questions
            is_deeper = is_same and whole.depth_of_parts > setting.retriever.top_k
            is_kept = part.kept_key(self.corpus.resources.workspace) is not None
            is_setting = bool(setting.retriever.score)
            if is_kept and (is_deeper or not is_setting):
                candidates = self._artefact(part).candidates
                diagnostics = None if is_setting else self._diagnostics(part.stages, part.questions, candidates.facts)
                cut = replace(candidates, rankings=candidates.rankings.cut(whole.depth_of_parts)) if is_same else None
                yield ComponentRanking(setting, whole, cut, diagnostics)
            yield from self._components(setting, part, as_asked=is_same)


def exact_twin(setting: Setting) -> Setting | None:
    """``setting`` with exact search over the same vectors; None if its index misses nothing that this finds."""
    exact = setting.retriever.by_exact_search()
    if exact is not None:
        return replace(setting, name=f"{setting.name}, exact", retriever=exact)
    if not setting.has_index or setting.store.is_exact:
        return None
    return replace(setting, name=f"{setting.name}, exact", store=ExactStore(space=setting.store.space))


def _wordings(setting: Setting, question: Question) -> list[str]:
    """The texts that parts at any depth are asked in addition to ``question`` or instead of it, each once."""
    refiners = [part.retriever for part in setting.tree() if isinstance(part.retriever, Refiner)]
    texts = (wording.text for refiner in refiners for wording in refiner.wordings(question))
    return [text for text in dict.fromkeys(texts) if text != question.text]


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum; None without values, or if one is unknown."""
    known = list(values)
    return sum(value for value in known if value is not None) if known and None not in known else None
