"""What a setting comes to: its rankings, what was measured of it, and what is known of its parts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ragtrial.cache.arrays import array_digest, read_array, write_array
from ragtrial.cache.atomic import write_text
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.seals import DamagedError
from ragtrial.components.batching import TextList
from ragtrial.components.embedders import Embedder
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.interfaces import QueryMatches
from ragtrial.components.refiners import Refiner
from ragtrial.components.retrievers import Candidates, Facts
from ragtrial.components.vector_checks import VectorHealth
from ragtrial.config.settings import Setting, failing_as
from ragtrial.dataset.chunks import Chunks
from ragtrial.evaluation.context_sizes import ContextSizes, TokenCounts, context_sizes
from ragtrial.pipeline.audit_stage import AUDITED_BELOW, Audited
from ragtrial.pipeline.collection_audit_stage import CollectionAuditStage
from ragtrial.pipeline.graph import Graph, SettingRun
from ragtrial.pipeline.latency_stage import Latency
from ragtrial.pipeline.open_setting import SettingStages
from ragtrial.pipeline.ranking_stage import RankingStage
from ragtrial.pipeline.retrieval import Depth, Ranked
from ragtrial.pipeline.stage import Stage
from ragtrial.progress import timed
from ragtrial.rankings import Counts
from ragtrial.records import Question
from ragtrial.report.schema import CostsPart

_HITS_EXPLAINED = 20
"""The hits of a query for which the report says which terms or tokens matched."""


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """What is known of a setting or a part beside its rankings.

    ``facts`` are its retriever's, ``health`` is of its own vectors (None without any); ``too_long`` counts chunks and
    queries beyond what its model reads (None: unknown).
    """

    facts: Facts
    health: VectorHealth | None
    too_long: Mapping[str, int | None]


@dataclass(frozen=True, eq=False)
class ComponentRanking:
    """A part of ``whole``, and what that looked at of it: its hits for the questions themselves.

    ``found`` is None where the whole, or what is made of that, asks for other wordings; ``diagnostics`` where the part
    is a setting, too, and is reported there.
    """

    setting: Setting
    whole: Setting
    found: Candidates | None
    diagnostics: Diagnostics | None


@dataclass(frozen=True, eq=False)
class SettingResult:
    """What a setting found, and what there is to say of it.

    ``chunks`` are what it ranks: all that a chunker made, if ``are_all``, else such as were found. ``index`` describes
    its own index, empty without one. ``timings`` are seconds per stage, of this run; ``latency`` is of the run that
    retrieved; ``audited`` is there where the index is not exact. ``parts`` are its parts, and theirs, of which the
    report has something to keep or to say. ``wordings`` are what is asked beside each question itself.
    """

    setting: Setting
    fingerprint: str
    chunks: Chunks
    are_all: bool
    ranked: Ranked
    diagnostics: Diagnostics
    sizes: ContextSizes
    index: Mapping[str, Any]
    timings: Mapping[str, float]
    latency: Latency | None
    audited: Audited | None
    costs: CostsPart
    parts: tuple[ComponentRanking, ...]
    matches: Sequence[QueryMatches] | None = None
    """Why the first hits of each query have their scores; None where the retriever does not say."""
    wordings: Sequence[Sequence[str]] = ()

    def of(self, setting: Setting) -> SettingResult:
        """The same of an equal setting, which may have another name."""
        equal = dict(zip(self.setting.tree(), setting.tree(), strict=True))
        parts = (replace(one, setting=equal[one.setting], whole=equal[one.whole]) for one in self.parts)
        return replace(self, setting=setting, parts=tuple(parts))


@dataclass(frozen=True, eq=False)
class Results:
    """Makes the results of settings from their stages.

    Contexts are counted in tokens of ``counted_by``, so that they are the same for all settings; by default of each
    setting's own embedder. ``audit`` compares with exact search also indexes of many vectors. ``ties`` are broken in
    rankings that are cut: so what a setting finds does not depend on how deep others look.
    """

    graph: Graph
    counted_by: Embedder | None = None
    audit: bool = False
    ties: Literal["first", "trec"] = "first"
    _queries_too_long: dict[tuple[Embedder, tuple[str, ...]], int | None] = field(default_factory=dict)

    def of(self, setting: Setting) -> SettingResult:
        """The result of one setting. Raises RunError if a stage fails; the stages before it are kept."""
        timings: dict[str, float] = {}
        run, artefact = self.graph.run_of(setting), self.graph.corpus.runner.artefact
        stages = run.stages
        for one in stages.tree():
            with nullcontext() if one is stages else failing_as(one.setting):
                below: dict[str, Stage[Any] | None]
                below = {"chunks": one.lengths, "embeddings": one.embeddings, "index": one.index}
                for name, stage in below.items():
                    if stage is not None:
                        with timed(timings, name):
                            artefact(stage)
        with timed(timings, "retrieval"):
            ranked = self._ordered(artefact(run.ranking).cut(Depth(units=setting.retriever.top_k)))
            tokens = self._tokens(setting, ranked)
        latency = audited = None
        if run.latency is not None:
            with timed(timings, "latency"):
                latency = artefact(run.latency)
        if run.audit is not None and (self.audit or self._audited_vectors(run) < AUDITED_BELOW):
            with timed(timings, "audit"):
                audited = artefact(run.audit)
                audited = replace(audited, exact=self._ordered(audited.exact))
        chunks = ranked.candidates.units
        described: dict[str, Any] | None = artefact(stages.index) if stages.index else None
        return SettingResult(
            setting=setting,
            fingerprint=run.fingerprint,
            chunks=chunks,
            are_all=any(chunks.name == artefact(one.chunks).name for one in stages.tree() if one.chunks),
            ranked=ranked,
            diagnostics=self._diagnostics(stages, run.ranking.questions, ranked.candidates.facts),
            sizes=context_sizes(chunks, ranked.units, tokens),
            index=described or {},
            timings=timings,
            latency=latency,
            audited=audited,
            costs=self._costs(stages, run.ranking.mark_used(), self._query_cost(run.ranking)),
            parts=tuple(self._components(setting, run.ranking)),
            matches=self._matches(run, ranked),
            wordings=[_wordings(setting, question) for question in run.ranking.questions],
        )

    def _audited_vectors(self, run: SettingRun) -> int:
        chunks = run.stages.chunks
        if isinstance(run.audit, CollectionAuditStage):
            return run.audit.count
        return 0 if chunks is None else len(self.graph.corpus.runner.artefact(chunks))

    def _ordered(self, ranked: Ranked) -> Ranked:
        library = self.graph.corpus.library
        return ranked.with_last_first(library.id_order) if self.ties == "trec" else ranked

    def too_long(self, stages: SettingStages, questions: Sequence[Question]) -> dict[str, int | None]:
        """How many chunks and queries are longer than the model reads (None: not known); loads no model."""
        if stages.lengths is None:
            return {}
        embedder = self.graph.corpus.resources.embedder(stages.setting.embedder)
        key = stages.setting.embedder, tuple(question.text for question in questions)
        if key not in self._queries_too_long:
            self._queries_too_long[key] = embedder.count_too_long(self._lengths_of_queries(embedder, key[1]))
        chunks = embedder.count_too_long(self.graph.corpus.runner.artefact(stages.lengths))
        if stages.setting.embedder.reads_documents:
            chunks = 0
        return {"chunks": chunks, "queries": self._queries_too_long[key]}

    def _lengths_of_queries(self, embedder: CachedEmbedder, texts: Sequence[str]) -> Counts:
        """As ``CachedEmbedder.lengths`` counts them; kept, so that a cached run counts nothing."""
        if not embedder.counts_too_long or embedder.tokenizer is None:
            return np.empty(0, dtype=np.int64)
        prefix = embedder.query_prefix
        name = fingerprint(["lengths of queries", list(texts), prefix, embedder.tokenizer.fingerprint])

        def build(folder: Path) -> None:
            write_array(folder / "lengths.npy", embedder.lengths(TextList(texts), prefix))

        workspace = self.graph.corpus.resources.workspace
        return workspace.load(
            "lengths", name, "lengths of queries", build, lambda folder: read_array(folder / "lengths.npy")
        )

    def _diagnostics(self, stages: SettingStages, questions: Sequence[Question], facts: Facts) -> Diagnostics:
        embeddings = self.graph.corpus.runner.artefact(stages.embeddings) if stages.embeddings else None
        too_long = self.too_long(stages, questions)
        if embeddings and embeddings.in_windows is not None:
            too_long = {"documents": embeddings.in_windows, "queries": too_long["queries"]}
        return Diagnostics(facts, embeddings.health if embeddings else None, too_long)

    def _tokens(self, setting: Setting, ranked: Ranked) -> Counts | None:
        """Tokens of each unit that was found, in the shape of the rankings; None without a tokenizer."""
        tokenizer = self.graph.corpus.resources.embedder(self.counted_by or setting.embedder).tokenizer
        if tokenizer is None:
            return None
        # By what was found: rankings of one name may be others when they are made again, as of skipped questions.
        found, chunks, resources = ranked.units, ranked.candidates.units, self.graph.corpus.resources
        name = fingerprint(["sizes", [list(found.shape), array_digest(found), chunks.name], tokenizer.fingerprint])
        known = resources.counted.setdefault((chunks.name, tokenizer.fingerprint), TokenCounts(chunks, tokenizer))

        def build(folder: Path) -> None:
            count = len(known.missing(found))
            with resources.working(f"tokens ({setting.name})", count, "chunks", "tokens") as progress:
                write_array(folder / "tokens.npy", known.of(found, progress.advance))

        what = f"sizes of what {setting.name} finds"
        counts = resources.workspace.load("sizes", name, what, build, lambda folder: read_array(folder / "tokens.npy"))
        known.keep(found, counts)
        return counts

    def _matches(self, run: SettingRun, ranked: Ranked) -> list[QueryMatches] | None:
        """Why the first hits of each question have their scores."""
        setting, resources = run.stages.setting, self.graph.corpus.resources
        if not setting.retriever.has_matches:
            return None
        questions, codes = run.ranking.questions, ranked.units[:, :_HITS_EXPLAINED]
        units = ranked.candidates.units
        found = [list(codes.shape), array_digest(codes), units.name]
        asked = fingerprint([question.text for question in questions])
        name = fingerprint(["matches", found, asked, run.ranking.whatever_is_asked])

        def build(folder: Path) -> None:
            context = self.graph.corpus.context(setting)
            made = setting.retriever.matches(context, questions, units, codes)
            write_text(folder / "matches.json", json.dumps([asdict(one) for one in made]))

        def read(folder: Path) -> list[QueryMatches]:
            return [QueryMatches.of(one) for one in json.loads((folder / "matches.json").read_text(encoding="utf-8"))]

        return resources.workspace.load("matches", name, f"matches of what {setting.name} finds", build, read)

    def _costs(self, stages: SettingStages, used: Iterable[tuple[str, str]], query_cost: float | None) -> CostsPart:
        """What a setting and its parts take together, each embedding and each index counted once.

        ``used`` are the stages, by kind and name, that its retrievers keep for themselves: they count as indexes. An
        exact index is its vectors.
        """
        from ragtrial.cache.upkeep import GROWING

        embedding, indexing, sizes = dict[str, float | None](), dict[str, float | None](), dict[str, float | None]()
        searched_bytes = dict[str, int]()
        paid = dict[str, float]()
        for one in stages.tree():
            if one.index is not None and one.embeddings is not None and one.lengths is not None:
                tokens = int(self.graph.corpus.runner.artefact(one.lengths).sum())
                whole = one.embeddings.whole
                spent = self.graph.corpus.runner.artefact(one.embeddings).spent
                embedding[whole.spec] = spent.seconds
                cost = whole.cost(tokens, spent.tokens)
                paid |= {} if cost is None else {whole.spec: cost}
                if one.index.store.is_exact:
                    sizes[one.embeddings.spec] = self._size_and_seconds(one.embeddings.kind, one.embeddings.key())[0]
                else:
                    sizes[one.index.spec] = self.graph.corpus.runner.artefact(one.index)["bytes"]
                indexing[one.index.spec] = self._size_and_seconds(one.index.kind, one.index.key())[1]
                dimension = self.graph.corpus.runner.artefact(one.embeddings).health.dimension
                searched_bytes[one.index.spec] = one.index.store.vector_bytes(dimension)
        for kind, name in used:
            if kind not in GROWING:
                sizes[name], indexing[name] = self._size_and_seconds(kind, name)
        size = _sum(sizes.values())
        return CostsPart(
            embedding_seconds=_sum(embedding.values()),
            indexing_seconds=_sum(indexing.values()),
            index_bytes=None if size is None else int(size),
            vector_bytes=sum(searched_bytes.values()) or None,
            embedding_cost=_sum(paid.values()),
            query_cost=query_cost,
        )

    def _query_cost(self, ranking: RankingStage) -> float | None:
        """What a thousand queries cost: at prices that are known, of what these questions took."""
        stages, pending = dict[str, RankingStage](), [ranking]
        while pending:
            one = pending.pop()
            stages[one.spec] = one
            pending += one.parts
        costs = [one.query_cost() for one in stages.values()]
        for one in stages.values():
            if one is ranking or one.kept_key(self.graph.corpus.resources.workspace) is not None:
                facts = self.graph.corpus.runner.artefact(one).candidates.facts
                costs.append(one.setting.retriever.cost(facts))
        paid = [cost for cost in costs if cost is not None]
        return 1000 * sum(paid) / max(1, len(ranking.questions)) if paid else None

    def _size_and_seconds(self, kind: str, name: str) -> tuple[int | None, float | None]:
        """The bytes of a stage, and the seconds that it took to make."""
        try:
            sealed = self.graph.corpus.resources.workspace.seal(kind, name)
        except DamagedError:
            return None, None
        return sealed.size, sealed.seconds

    def _components(
        self, whole: Setting, ranking: RankingStage, *, as_asked: bool = True
    ) -> Iterator[ComponentRanking]:
        """What there is to say of the parts of a setting, and of theirs.

        Of those that are settings of their own only what was looked at of them, where that is deeper than these are.
        ``as_asked`` says that the whole is asked the questions of the labels, and not other wordings of them.
        """
        for setting, part in zip(whole.parts, ranking.parts, strict=True):
            is_same = as_asked and part.questions == ranking.questions
            is_deeper = is_same and whole.depth_of_parts > setting.retriever.top_k
            is_kept = part.kept_key(self.graph.corpus.resources.workspace) is not None
            if is_kept and (is_deeper or not setting.retriever.score):
                found = self.graph.corpus.runner.artefact(part).candidates
                diagnostics = (
                    None if setting.retriever.score else self._diagnostics(part.stages, part.questions, found.facts)
                )
                cut = replace(found, rankings=found.rankings.cut(whole.depth_of_parts)) if is_same else None
                yield ComponentRanking(setting, whole, cut, diagnostics)
            yield from self._components(setting, part, as_asked=is_same)


def _wordings(setting: Setting, question: Question) -> list[str]:
    """What the parts of ``setting``, and theirs, are asked instead of ``question`` or beside it, each text once."""
    refiners = [one.retriever for one in setting.tree() if isinstance(one.retriever, Refiner)]
    texts = (wording.text for refiner in refiners for wording in refiner.wordings(question))
    return [text for text in dict.fromkeys(texts) if text != question.text]


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum; None of nothing, or if one is not known."""
    known = list(values)
    return sum(value for value in known if value is not None) if known and None not in known else None
