"""What a setting comes to: its rankings, what was measured of it, and what is known of its parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from ragtrial.cache.arrays import array_digest, read_array, write_array
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.seals import DamagedError
from ragtrial.cache.upkeep import GROWING
from ragtrial.cache.workspace import Workspace
from ragtrial.components.embedders import Embedder
from ragtrial.components.embedders.cached import TextList
from ragtrial.components.retrievers import Candidates, Facts
from ragtrial.components.vector_checks import VectorHealth
from ragtrial.config.settings import Setting, failing_as
from ragtrial.dataset.chunks import Chunks
from ragtrial.errors import listed
from ragtrial.evaluation.context_sizes import ContextSizes, context_sizes, token_counts
from ragtrial.pipeline.audit_stage import AUDITED_BELOW, Audited
from ragtrial.pipeline.graph import SettingRun, own_depth
from ragtrial.pipeline.ranking_stage import RankingStage
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.retrieval import Depth, Ranked, Retrieved
from ragtrial.pipeline.setting_stages import SettingStages
from ragtrial.pipeline.stage import Artefacts, Stage
from ragtrial.progress import timed
from ragtrial.rankings import Bools, Counts
from ragtrial.records import Question, ReportWarning, WarningCode


@dataclass(frozen=True, eq=False)
class Costs:
    """What a setting and its parts take beside its quality, as it was measured when its stages were made.

    Seconds to embed its texts (at the rate of this model on this machine) and to build its indexes, and the bytes of
    these; None where there are none, or where it is not known.
    """

    embedding_seconds: float | None = None
    indexing_seconds: float | None = None
    index_bytes: int | None = None


@dataclass(frozen=True, eq=False)
class ComponentDiagnostics:
    """What is known of a part that is no setting of its own, so that nothing of it is lost."""

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
    diagnostics: ComponentDiagnostics | None = None


@dataclass(frozen=True, eq=False)
class SettingResult:
    """What a setting found: ranked documents or chunks, the chunks that brought them, and what there is to say of it.

    ``chunks`` are what it ranks: all that a chunker made, if ``are_all``, else such as were found. ``skipped``, shape
    (queries,), marks those that could not be answered. ``index`` describes its own index and ``health`` its vectors,
    empty and None without one; ``too_long`` counts chunks and queries beyond what its model reads (None: unknown).
    ``timings`` are seconds per stage, of this run; ``latency`` is of the run that retrieved; ``audited`` is there where
    the index is not exact. ``parts`` are its parts, and theirs, of which the report has something to keep or to say.
    """

    setting: Setting
    fingerprint: str
    chunks: Chunks
    are_all: bool
    retrieved: Retrieved
    skipped: Bools
    facts: Facts
    sizes: ContextSizes
    index: Mapping[str, Any]
    health: VectorHealth | None
    too_long: Mapping[str, int | None]
    timings: Mapping[str, float]
    latency: dict[str, Any] | None
    audited: Audited | None
    costs: Costs
    parts: tuple[ComponentRanking, ...] = ()


@dataclass(frozen=True, eq=False)
class Results:
    """Makes the results of settings from their stages.

    Contexts are counted in tokens of ``counted_by``, so that they are the same for all settings; by default of each
    setting's own embedder. ``audit`` compares with exact search also indexes of many vectors.
    """

    resources: Resources
    artefacts: Artefacts
    counted_by: Embedder | None = None
    audit: bool = False
    _too_long: dict[tuple[Embedder, int], tuple[Sequence[Question], int | None]] = field(default_factory=dict)

    def of(self, run: SettingRun) -> SettingResult:
        """The result of one setting. Raises RunError if a stage fails; the stages before it are kept."""
        timings: dict[str, float] = {}
        stages, setting, artefact = run.stages, run.setting, self.artefacts.artefact
        self._make_corpus_stages(stages, timings)
        too_long = self.too_long(stages, run.ranking.questions)
        with timed(timings, "retrieval"):
            ranked = artefact(run.ranking).cut(own_depth(setting))
            tokens = self._tokens(setting, ranked)
        latency, audited = None, None
        if run.latency is not None:
            with timed(timings, "latency"):
                latency = artefact(run.latency)
        is_small = stages.chunks is not None and len(artefact(stages.chunks)) < AUDITED_BELOW
        if run.audit is not None and (self.audit or is_small):
            with timed(timings, "audit"):
                audited = artefact(run.audit)
        return SettingResult(
            setting=setting,
            fingerprint=fingerprint(["setting", run.ranking.whatever_is_asked, setting.retriever.top_k]),
            chunks=ranked.units,
            are_all=any(ranked.units.name == artefact(one.chunks).name for one in stages.tree() if one.chunks),
            retrieved=ranked.retrieved,
            skipped=ranked.skipped,
            facts=ranked.facts,
            sizes=context_sizes(ranked.units, ranked.retrieved.units, tokens),
            index=artefact(stages.index).description if stages.index else {},
            health=artefact(stages.embeddings).health if stages.embeddings else None,
            too_long=too_long,
            timings=timings,
            latency=latency,
            audited=audited,
            costs=self._costs(stages, run.ranking.mark_used()),
            parts=tuple(self._components(setting, run.ranking)),
        )

    def _make_corpus_stages(self, stages: SettingStages, timings: dict[str, float]) -> None:
        """Make all below the searches of a setting and of its parts, and note how long that takes."""
        for one in stages.tree():
            with nullcontext() if one is stages else failing_as(one.setting):
                needed: dict[str, Stage[Any] | None]
                needed = {"chunks": one.lengths, "embeddings": one.embeddings, "index": one.index}
                for name, stage in needed.items():
                    if stage is not None:
                        with timed(timings, name):
                            self.artefacts.artefact(stage)

    def too_long(self, stages: SettingStages, questions: Sequence[Question]) -> dict[str, int | None]:
        """How many chunks and queries are longer than the model reads (None: not known); loads no model."""
        if stages.lengths is None:
            return {}
        embedder, key = self.resources.embedder(stages.setting.embedder), (stages.setting.embedder, id(questions))
        known = self._too_long.get(key)
        if known is None or known[0] is not questions:
            texts = [question.text for question in questions] if embedder.counts_too_long else []
            lengths = embedder.lengths(TextList(texts), embedder.query_prefix)
            known = self._too_long[key] = questions, embedder.count_too_long(lengths)
        return {"chunks": embedder.count_too_long(self.artefacts.artefact(stages.lengths)), "queries": known[1]}

    def _tokens(self, setting: Setting, ranked: Ranked) -> Counts | None:
        """Tokens of each unit that was found, in the shape of the rankings; None without a tokenizer."""
        tokenizer = self.resources.embedder(self.counted_by or setting.embedder).tokenizer
        if tokenizer is None:
            return None
        # By what was found: rankings of one name may be others when they are made again, as of skipped questions.
        found = ranked.retrieved.units
        name = fingerprint(
            ["sizes", [list(found.shape), array_digest(found), ranked.units.name], tokenizer.fingerprint]
        )
        return self.resources.workspace.load(
            "sizes",
            name,
            f"sizes of what {setting.name} finds",
            lambda folder: write_array(folder / "tokens.npy", token_counts(ranked.units, found, tokenizer)),
            lambda folder: read_array(folder / "tokens.npy"),
        )

    def _costs(self, stages: SettingStages, used: Iterable[tuple[str, str]]) -> Costs:
        """What a setting and its parts take together, each embedding and each index counted once.

        ``used`` are the stages, by kind and name, that its retrievers keep for themselves: they count as indexes. An
        exact index is its vectors.
        """
        workspace = self.resources.workspace
        embedding, indexing, sizes = dict[str, float | None](), dict[str, float | None](), dict[str, int | None]()
        for one in stages.tree():
            if one.index is not None and one.embeddings is not None and one.lengths is not None:
                embedding[one.embeddings.spec] = one.embeddings.seconds(self.artefacts.artefact(one.lengths))
                searched = one.embeddings if one.index.store.is_exact else one.index
                sizes[searched.spec] = _size_and_seconds(workspace, searched.kind, searched.key())[0]
                indexing[one.index.spec] = _size_and_seconds(workspace, one.index.kind, one.index.key())[1]
        for kind, name in used:
            if kind not in GROWING:
                sizes[name], indexing[name] = _size_and_seconds(workspace, kind, name)
        size = _sum(sizes.values())
        return Costs(_sum(embedding.values()), _sum(indexing.values()), None if size is None else int(size))

    def _components(
        self, whole: Setting, ranking: RankingStage, *, as_asked: bool = True
    ) -> Iterator[ComponentRanking]:
        """What there is to say of the parts of a setting, and of theirs.

        Of those that are settings of their own only what was looked at of them, where that is deeper than these are.
        ``as_asked`` says that the whole is asked the questions of the labels, and not other wordings of them.
        """
        looked_at = Depth(candidates=whole.depth_of_parts)
        for setting, part in zip(whole.parts, ranking.parts, strict=True):
            is_same = as_asked and part.questions is ranking.questions
            is_deeper = is_same and looked_at.candidates > setting.retriever.top_k
            is_kept = part.kept_key(self.resources.workspace) is not None
            if is_kept and (is_deeper or not setting.retriever.score):
                candidates = self.artefacts.artefact(part).candidates
                cut = replace(candidates, rankings=candidates.rankings.cut(looked_at.candidates))
                diagnostics = None if setting.retriever.score else self._diagnostics(part, candidates.facts)
                yield ComponentRanking(setting, whole, cut if is_same else None, diagnostics)
            yield from self._components(setting, part, as_asked=is_same)

    def _diagnostics(self, part: RankingStage, facts: Facts) -> ComponentDiagnostics:
        embeddings = part.stages.embeddings
        health = self.artefacts.artefact(embeddings).health if embeddings else None
        return ComponentDiagnostics(facts, health, self.too_long(part.stages, part.questions))


def same_rankings(made: Sequence[SettingResult]) -> Iterator[ReportWarning]:
    """That settings differ in nothing that changes a ranking: a sweep over ``batch_size``, say."""
    alike: dict[str, list[str]] = {}
    for one in made:
        alike.setdefault(one.fingerprint, []).append(one.setting.name)
    for names in alike.values():
        if len(names) > 1:
            which = " and ".join(names) if len(names) == 2 else listed(names, 5)
            message = f"{which} find the same: what they differ in changes the time that it takes at most."
            yield ReportWarning(WarningCode.SAME_RANKINGS, message)


def _size_and_seconds(workspace: Workspace, kind: str, name: str) -> tuple[int | None, float | None]:
    """The bytes of a stage, and the seconds that it took to make."""
    try:
        sealed = workspace.seal(kind, name)
    except DamagedError:
        return None, None
    return sealed.size, sealed.seconds


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum; None of nothing, or if one is not known."""
    known = list(values)
    return sum(value for value in known if value is not None) if known and None not in known else None
