"""A dry run: the work that a run would do, and why. The same graph is walked without building anything.

Only the documents are read. Work of moments is left out: scoring, and counting the tokens of hits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.seals import Seal
from ragtrial.config.settings import Setting
from ragtrial.pipeline.corpus import Graph
from ragtrial.pipeline.measurement_stages import AUDITED_BELOW, LatencyStage
from ragtrial.pipeline.ranking_stage import RankingStage
from ragtrial.pipeline.retrieval import skipped_in
from ragtrial.pipeline.stage import Amount, KeptArtefacts, NotBuiltError, PlannedStage, Stage, all_needs

KINDS = ("documents", "chunks", "context", "embeddings", "index", "wordings", "rankings", "latency", "audit")
"""The order of work."""


@dataclass(frozen=True)
class DryRun:
    """All work for an experiment, in the order of work."""

    experiment: str
    settings: tuple[str, ...]
    stages: tuple[PlannedStage, ...]
    workspace: str
    fingerprint: str
    """The fingerprint of everything that changes a ranking; equal before and after the run, and on other machines."""

    @property
    def to_do(self) -> list[PlannedStage]:
        return [stage for stage in self.stages if not stage.is_cached]

    @property
    def seconds(self) -> float:
        """Estimated seconds, counting only stages with a known rate."""
        return sum(stage.amount.seconds or 0.0 for stage in self.stages)

    @property
    def cost(self) -> float | None:
        """The estimated price of all stages with a known price; None without any."""
        known = [stage.amount.cost for stage in self.stages if stage.amount.cost is not None]
        return sum(known) if known else None

    @property
    def unknown(self) -> int:
        """The number of stages without an estimate of time."""
        return sum(stage.amount.seconds is None for stage in self.stages)


def dry_run(graph: Graph) -> DryRun:
    """The work of a run of ``graph``, and of the chat models before it."""
    corpus, settings = graph.corpus, tuple(setting.name for setting in graph.settings)
    documents = PlannedStage("documents", "", settings, "", Amount(len(corpus.library), "documents", 0, seconds=0.0))
    planned = [documents, *_Walk(graph).stages(), *graph.written.planned]
    stages = tuple(stage for kind in KINDS for stage in planned if stage.kind == kind)
    rankings = map(graph.ranking_stage, graph.settings)
    parts = [[stage.build_free_fingerprint, stage.depth.candidates, stage.depth.units] for stage in rankings]
    return DryRun(corpus.config.experiment, settings, stages, str(corpus.resources.workspace.root), fingerprint(parts))


class _Walk:
    """Walks the graph, setting by setting."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._workspace = graph, graph.corpus.resources.workspace
        self._kept, experiment = KeptArtefacts(self._workspace, graph.corpus.library), graph.corpus.config.experiment
        uses = self._workspace.usage.uses()
        self._used = {(use.kind, use.name) for use in uses if use.experiment == experiment}
        self._settings: dict[Stage[Any], list[str]] = {}
        """The shown stages, and the settings that need each."""

    def stages(self) -> list[PlannedStage]:
        """All stages after the documents, in the order of work."""
        for setting in self._graph.settings:
            for stage in dict.fromkeys(self._shown(setting)):
                self._settings.setdefault(stage, []).append(setting.name)
        return [self._planned(stage, tuple(names)) for stage, names in self._settings.items()]

    def _shown(self, setting: Setting) -> Iterator[Stage[Any]]:
        """The shown stages of a setting, with the rankings of parts that the setting needs."""
        ranking = self._graph.ranking_stage(setting)
        for part in ranking.stages.tree():
            texts = part.texts if part.texts and part.texts.is_kept else None
            embeddings = part.index.embeddings if part.index else None
            whole = embeddings.untruncated if embeddings and self._own_missing(embeddings) else None
            yield from (stage for stage in (part.chunks, texts, whole, embeddings, part.index) if stage)
        yield from self._with_parts(ranking)
        if (latency := self._graph.latency_stage(setting, ranking)) is not None:
            yield latency
        audit = self._graph.audit_stage(setting, ranking)
        if audit is not None and (self._graph.audit or audit.amount(self._kept).count < AUDITED_BELOW):
            yield audit

    def _with_parts(self, stage: RankingStage) -> Iterator[Stage[Any]]:
        if self._own_missing(stage):
            for part in stage.parts:
                yield from self._with_parts(part)
        yield stage

    def _planned(self, stage: Stage[Any], settings: tuple[str, ...]) -> PlannedStage:
        kind, amount, lacking = stage.shown_as, stage.amount(self._kept), self._lacking(stage)
        if not lacking:
            return PlannedStage(kind, stage.label, settings, "", replace(amount, to_do=0, seconds=0.0, cost=None))
        missing = tuple(name for need in lacking for name in self._own_missing(need))
        damage = [self._workspace.damage(folder, name) for folder, name in missing if name]
        why = next((f"damaged: {fault}" for fault in damage if fault), "")
        if not why and isinstance(stage, RankingStage) and amount.to_do < amount.count:
            why = f"questions that were skipped will be asked again: {amount.to_do:,}"
        if not why:
            before = (need for need in all_needs(stage)[:-1] if need in self._settings and self._lacking(need))
            after = next((need.shown_as for need in before), None)
            why = f"after {after}" if after else self._difference(lacking[0])
        return PlannedStage(kind, stage.label, settings, why, amount, missing)

    def _own_missing(self, stage: Stage[Any]) -> list[tuple[str, str | None]]:
        """``stage`` by folder of the workspace and name, if a run would build it."""
        if not stage.is_kept:
            return []
        try:
            kept = stage.kept_key(self._workspace)
            if kept is None:
                return [(stage.kind, stage.key())]
        except NotBuiltError:
            return [(stage.kind, None)]
        is_incomplete = isinstance(stage, RankingStage) and skipped_in(self._workspace.path(stage.kind, kept))
        return [(stage.kind, kept)] if is_incomplete else []

    def _lacking(self, stage: Stage[Any]) -> list[Stage[Any]]:
        """The stages that a run would build for ``stage``: itself, and its needs that have no line in the dry run."""
        own = [stage] if self._own_missing(stage) else []
        if isinstance(stage, RankingStage | LatencyStage) and not own:
            return []
        hidden = (need for need in stage.needs if need not in self._settings and need.shown_as != "documents")
        return list(dict.fromkeys([*own, *(lacking for need in hidden for lacking in self._lacking(need))]))

    def _difference(self, stage: Stage[Any]) -> str:
        """The difference from the most similar finished stage of the same kind and experiment; ties: the newest."""
        if self._workspace.usage.is_marked(stage.kind, stage.key()):
            return "an earlier run asked for it; it is gone, or was not finished"
        now = stage.shown_inputs()
        seals = [seal for _, seal in self._workspace.seals(stage.kind) if seal.made_of]
        seals = [seal for seal in seals if (stage.kind, seal.key) in self._used]
        known = sorted(seals, key=lambda seal: seal.made, reverse=True)
        if not known:
            return "not made before"

        def distance(seal: Seal) -> int:
            return sum(seal.made_of.get(option) != now.get(option) for option in {**seal.made_of, **now})

        before = min(known, key=distance).made_of
        if isinstance(stage, RankingStage) and before.get("retriever.kind") != now.get("retriever.kind"):
            return "not made before"
        differing = changes(before, now)
        if not differing:
            return "another version of ragtrial made the last one"
        more = f", and {len(differing) - 1} more" if differing[1:] else ""
        entry = stage.setting.entry if isinstance(stage, RankingStage) else ""
        return describe_change(differing[0], before, now, entry) + more


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The names of inputs that differ: options before contents, such as the files of a model."""
    differing = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    return sorted(differing, key=lambda name: "." not in name)


def describe_change(name: str, before: Mapping[str, Any], now: Mapping[str, Any], entry: str = "") -> str:
    """``chunker.size changed from 256 to 512``; for a content only that it changed.

    ``entry`` is the name of the retriever in the config that has these options.
    """
    if "." not in name:
        return f"{name} changed"
    shown = f"retrievers.{entry}.{name.removeprefix('retriever.')}" if entry and name.startswith("retriever.") else name
    old, new = (json.dumps(values[name]) if name in values else "nothing" for values in (before, now))
    return f"{shown} changed from {old} to {new}"
