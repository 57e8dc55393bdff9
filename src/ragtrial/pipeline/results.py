"""The result of a setting: rankings, measurements, and diagnostics of its parts, read from stages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ragtrial.cache.arrays import array_digest, read_array, write_array
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.seals import DamagedError
from ragtrial.components.batching import TextList
from ragtrial.components.embedders import Embedder
from ragtrial.components.embedders.model_files import without_fetching
from ragtrial.components.interfaces import REACHING, Candidates, Facts
from ragtrial.components.refiners import Refiner
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.config.settings import Setting, failing_as
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.dataset.pdf import PACKAGE as PDF_PACKAGE
from ragtrial.errors import ModelNotFoundError
from ragtrial.evaluation.context_sizes import ContextSizes, TokenCounts, context_sizes
from ragtrial.evaluation.grading import GradedRankings
from ragtrial.options import with_variables
from ragtrial.pipeline.corpus import Graph
from ragtrial.pipeline.measurement_stages import AUDITED_BELOW, Audited, AuditStage
from ragtrial.pipeline.ranking_stage import RankingStage, SettingStages
from ragtrial.pipeline.retrieval import Depth, SettingRankings
from ragtrial.pipeline.stage import Inputs, Stage
from ragtrial.progress import timed
from ragtrial.rankings import Codes, Counts
from ragtrial.records import Question
from ragtrial.report import schema


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Observations about a setting or a part, apart from its rankings.

    ``facts`` come from its retriever, ``health`` describes its own vectors (None without any); ``too_long`` counts
    chunks and queries that its model would cut (None: unknown).
    """

    facts: Facts
    health: schema.HealthPart | None
    too_long: Mapping[str, int | None]


@dataclass(frozen=True, eq=False)
class ComponentRanking:
    """A component of ``composite``, with the hits that ``composite`` used.

    ``found`` is None if the whole asks other wordings; ``diagnostics`` is None if the part is also a setting, which is
    reported there.
    """

    setting: Setting
    composite: Setting
    found: Candidates | None
    diagnostics: Diagnostics | None


@dataclass(frozen=True, eq=False)
class SettingResult:
    """The rankings of a setting before they are scored, and all measurements.

    ``chunks`` are the ranked units: all chunks of a chunker if ``are_all``, otherwise only the retrieved chunks.
    ``index`` describes its own index, empty without one. ``timings`` are seconds per stage in this run; ``latency`` is
    from the run that retrieved; ``audited`` is None if the index is exact. ``parts`` are the components, at any depth,
    that the report shows. ``wordings`` are asked in addition to each question.
    """

    setting: Setting
    fingerprint: str
    chunks: Chunks
    are_all: bool
    ranked: SettingRankings
    diagnostics: Diagnostics
    sizes: ContextSizes
    index: Mapping[str, Any]
    timings: Mapping[str, float]
    latency: schema.LatencyPart | None
    audited: Audited | None
    costs: schema.CostsPart
    parts: tuple[ComponentRanking, ...]
    wordings: Sequence[Sequence[str]] = ()

    def of(self, setting: Setting) -> SettingResult:
        """The result of an equal setting, which may have another name."""
        equal = dict(zip(self.setting.tree(), setting.tree(), strict=True))
        parts = (replace(part, setting=equal[part.setting], composite=equal[part.composite]) for part in self.parts)
        return replace(self, setting=setting, parts=tuple(parts))

    @property
    def described(self) -> dict[str, Any]:
        """The fields of its part of the report that do not depend on labels."""
        health = self.diagnostics.health
        return {
            "fingerprint": self.fingerprint,
            "parameters": setting_parameters(self.setting),
            "comparable": self.setting.has_comparable_scores,
            "facts": dict(self.diagnostics.facts),
            "index": dict(self.index),
            "health": health,
            "timings": dict(self.timings),
            "costs": self.costs,
            "latency": self.latency,
        }

    def counts(self, graded: GradedRankings) -> dict[str, int | None]:
        """The counts of chunks, hits and queries for the report."""
        ranked, skipped, lengths = self.ranked, self.ranked.candidates.skipped, graded.lengths
        return {
            **({"chunks": len(self.chunks)} if self.setting.has_chunks else {}),
            **{f"{what}_too_long": count for what, count in self.diagnostics.too_long.items()},
            "chunks_read": int(ranked.read.sum()),
            "chunks_collapsed": int(ranked.dropped.sum()),
            "documents_kept" if graded.unit == "document" else "chunks_kept": int(lengths.sum()),
            "queries_short": int((lengths < self.setting.retriever.top_k).sum()),
            "queries_without_hits": int(((lengths == 0) & ~skipped).sum()),
            "queries_skipped": int(skipped.sum()),
        }


def setting_parameters(setting: Setting) -> dict[str, Any]:
    """All options of a setting, with defaults; texts (names, paths, variables) are as they were written.

    They are its own options, its chunker, embedder and so on, under ``parts`` the same for its parts, and the sweep's
    ``values`` with the ``entry`` of the config that they belong to.
    """
    written = setting.config.as_written
    own = (written.get("retrievers") or {}).get(setting.entry) or {}
    options = setting.retriever.model_dump(mode="json", exclude={*REACHING, "score"})
    parameters: dict[str, Any] = {"retriever": _as_written(options, own)}
    for section in REACHING:
        if section in setting.depends_on:
            options = getattr(setting, section).model_dump(mode="json")
            parameters[section] = _as_written(options, own.get(section) or written.get(section))
    if setting.parts:
        parameters["parts"] = {part.entry: setting_parameters(part) for part in setting.parts}
    if setting.values:
        parameters["values"] = with_variables(setting.values)
    if setting.name != setting.entry:
        parameters["entry"] = setting.entry
    return parameters


def packages_of(settings: Sequence[Setting], library: Library) -> set[str]:
    """The packages that work on ``settings`` and their documents, as pip names them."""
    parts = {part for setting in settings for part in setting.tree()}
    options = [getattr(part, section) for part in parts for section in ("retriever", *part.depends_on)]
    reader = {PDF_PACKAGE} if library.has_pages else set()
    return reader.union(*(section.packages for section in options))


def _as_written(value: Any, written: Any) -> Any:
    """``value`` with its texts as they are in ``written``; a list of another length as it was written."""
    if isinstance(value, dict) and isinstance(written, dict):
        return {key: _as_written(option, written.get(key)) for key, option in value.items()}
    if isinstance(value, list) and isinstance(written, list):
        return list(map(_as_written, value, written)) if len(value) == len(written) else written
    return str(written) if isinstance(written, str) else value


@dataclass(eq=False)
class SizeStage(Stage[Counts]):
    """The tokens of each hit of ``ranking``: the first ``chunks`` of its rankings, numbered by ``units``.

    The key has the hits themselves, since rankings of one name can differ after skipped questions were retried.
    """

    kind = "sizes"
    is_counted = False
    is_large = True

    ranking: RankingStage
    chunks: Chunks
    units: Codes
    tokenizer: Tokenizer

    def __post_init__(self) -> None:
        self.title = f"sizes of what {self.ranking.setting.name} finds"
        key = self.chunks.name, self.tokenizer.fingerprint
        self._known = self.resources.counted.setdefault(key, TokenCounts(self.chunks, self.tokenizer))

    def inputs(self) -> Inputs:
        hits = [list(self.units.shape), array_digest(self.units), self.chunks.name]
        return {"hits": fingerprint(hits), "tokenizer": self.tokenizer.fingerprint}

    def build(self, folder: Path) -> None:
        count, name = len(self._known.missing(self.units)), f"tokens ({self.ranking.setting.name})"
        with self.resources.working(name, count, "chunks", "tokens") as progress:
            write_array(folder / "tokens.npy", self._known.of(self.units, progress.advance))

    def load(self, folder: Path) -> Counts:
        counts = read_array(folder / "tokens.npy")
        self._known.keep(self.units, counts)
        return counts


@dataclass(eq=False)
class Results:
    """Reads the results of settings from their stages.

    Contexts are counted in tokens of the config's embedder, so that they are the same for all settings. Without
    a budget, they are not counted where only that would need the tokenizer, and it is not here. ``audit`` also
    compares large indexes with exact search. Ties are broken in cut rankings, so that a setting's result does not
    depend on the depth that other settings need.
    """

    graph: Graph
    audit: bool = False
    _queries_too_long: dict[tuple[Embedder, tuple[str, ...]], int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._corpus, self._config = self.graph.corpus, self.graph.corpus.config
        self._workspace, self._artefact = self._corpus.resources.workspace, self._corpus.runner.artefact

    def of(self, setting: Setting) -> SettingResult:
        """The result of one setting. Raises RunError if a stage fails; finished stages are kept."""
        timings: dict[str, float] = {}
        ranking = self.graph.ranking_stage(setting)
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
        if (latency_stage := self.graph.latency_stage(setting, ranking)) is not None:
            with timed(timings, "latency"):
                latency = self._artefact(latency_stage)
        audit_stage = self.graph.audit_stage(setting, ranking)
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
        return self._cut(self._artefact(self.graph.ranking_stage(setting)), setting)

    def _cut(self, ranked: SettingRankings, setting: Setting) -> SettingRankings:
        cut, last_first = ranked.cut(Depth(units=setting.retriever.top_k)), self._config.evaluators.ties == "trec"
        return cut.with_last_first(self._corpus.library.id_order) if last_first else cut

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
        embedder, lengths = self._corpus.resources.embedder(stages.setting.embedder), np.empty(0, dtype=np.int64)
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
        corpus, counted_by, setting = self.graph.corpus, self._config.embedder, ranking.setting
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
        resources = self._corpus.resources
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
        workspace = self._workspace
        ranked = [stage for stage in stages.values() if stage is ranking or stage.kept_key(workspace) is not None]
        costs = [stage.query_cost() for stage in stages.values()]
        costs += [stage.setting.retriever.cost(self._artefact(stage).candidates.facts) for stage in ranked]
        paid = [cost for cost in costs if cost is not None]
        return 1000 * sum(paid) / max(1, len(ranking.questions)) if paid else None

    def _size_and_seconds(self, kind: str, name: str) -> tuple[int | None, float | None]:
        """The bytes of a stage, and the seconds that building it took."""
        try:
            sealed = self._workspace.seal(kind, name)
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
            is_kept = part.kept_key(self._workspace) is not None
            is_setting = bool(setting.retriever.score)
            if is_kept and (is_deeper or not is_setting):
                candidates = self._artefact(part).candidates
                diagnostics = None if is_setting else self._diagnostics(part.stages, part.questions, candidates.facts)
                cut = replace(candidates, rankings=candidates.rankings.cut(whole.depth_of_parts)) if is_same else None
                yield ComponentRanking(setting, whole, cut, diagnostics)
            yield from self._components(setting, part, as_asked=is_same)


def _wordings(setting: Setting, question: Question) -> list[str]:
    """The texts that parts at any depth are asked in addition to ``question`` or instead of it, each once."""
    refiners = [part.retriever for part in setting.tree() if isinstance(part.retriever, Refiner)]
    texts = (wording.text for refiner in refiners for wording in refiner.wordings(question))
    return [text for text in dict.fromkeys(texts) if text != question.text]


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum; None without values, or if one is unknown."""
    known = list(values)
    return sum(value for value in known if value is not None) if known and None not in known else None
