"""What a run would do, and why: the same graph, walked without building anything.

Only the documents are read. What takes moments is left out: scoring, and counting the tokens of what was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, cast

from ragtrial.cache.seals import Seal
from ragtrial.cache.workspace import DAMAGE, Workspace
from ragtrial.pipeline.audit_stage import AUDITED_BELOW
from ragtrial.pipeline.graph import Graph, SettingRun
from ragtrial.pipeline.ranking_stage import RankingStage
from ragtrial.pipeline.retrieval import skipped_in
from ragtrial.pipeline.stage import Amount, Artefacts, NotBuiltError, Stage, all_needs

T = TypeVar("T")

Kind = Literal["documents", "chunks", "context", "embeddings", "index", "rankings", "latency", "audit"]

KINDS: tuple[Kind, ...] = ("documents", "chunks", "context", "embeddings", "index", "rankings", "latency", "audit")
"""The order of work."""

_SINGULAR = ("context", "index", "latency", "audit")


@dataclass(frozen=True)
class PlannedStage:
    """A stage as a dry run shows it, made once for all ``settings`` that need it.

    ``why`` says why it is to do, and is empty where it is cached. ``missing`` are the stages that a run would make for
    it, by the workspace's folder and name; None for a name that depends on a stage to do. ``after`` is the work that is
    to do first, if that alone is why.
    """

    kind: Kind
    what: str
    settings: tuple[str, ...]
    why: str
    amount: Amount
    missing: tuple[tuple[str, str | None], ...] = ()
    after: Kind | None = None

    @property
    def is_cached(self) -> bool:
        return not self.missing

    @property
    def seconds(self) -> float | None:
        """About how long making it takes: 0 where it is cached, None where no such work was done here yet."""
        return 0.0 if self.is_cached else self.amount.seconds


@dataclass(frozen=True)
class DryRun:
    """All work for an experiment, in the order of work."""

    experiment: str
    settings: tuple[str, ...]
    stages: tuple[PlannedStage, ...]
    workspace: str

    @property
    def to_do(self) -> list[PlannedStage]:
        return [stage for stage in self.stages if not stage.is_cached]

    @property
    def seconds(self) -> float:
        """About how long all takes of which that is known."""
        return sum(stage.seconds or 0.0 for stage in self.stages)

    @property
    def unknown(self) -> int:
        """Of how many stages nobody knows how long they take."""
        return sum(stage.seconds is None for stage in self.stages)


def dry_run(experiment: str, graph: Graph, artefacts: Artefacts, *, audit: bool = False) -> DryRun:
    """What a run of ``graph`` would do; ``audit`` compares indexes of many vectors with exact search, too."""
    artefacts.artefact(graph.corpus.documents)
    workspace = graph.corpus.resources.workspace
    stages = tuple(_Walk(graph, workspace, artefacts, audit=audit).stages())
    return DryRun(experiment, tuple(setting.name for setting in graph.settings), stages, str(workspace.root))


class _Walk:
    """Walks the graph, setting by setting."""

    def __init__(self, graph: Graph, workspace: Workspace, artefacts: Artefacts, *, audit: bool) -> None:
        self._graph = graph
        self._workspace = workspace
        self._artefacts = artefacts
        self._audit = audit
        self._known: dict[Stage[Any], Any] = {}
        self._settings: dict[Stage[Any], list[str]] = {}
        """The stages that are shown, and the settings that need each."""

    def stages(self) -> Iterator[PlannedStage]:
        """All stages, in the order of work."""
        for setting in self._graph.settings:
            for stage in self._of_setting(self._graph.run_of(setting)):
                names = self._settings.setdefault(stage, [])
                if setting.name not in names:
                    names.append(setting.name)
        found = [self._planned(stage, tuple(names)) for stage, names in self._settings.items()]
        everyone = tuple(setting.name for setting in self._graph.settings)
        count = len(self._artefacts.artefact(self._graph.corpus.documents))
        yield PlannedStage("documents", "", everyone, "", Amount(count, "documents", 0))
        yield from (stage for kind in KINDS for stage in found if stage.kind == kind)

    def _of_setting(self, run: SettingRun) -> Iterator[Stage[Any]]:
        """The stages that a run asks for; of a part the rankings only where something is made of them."""
        for one in run.stages.tree():
            texts = one.texts if one.texts and one.texts.is_kept else None
            yield from (stage for stage in (one.chunks, texts, one.embeddings, one.index) if stage)
        yield from self._rankings(run.ranking)
        if run.latency is not None:
            yield run.latency
        chunks = run.stages.chunks
        is_small = chunks is not None and chunks.amount(self.known).count < AUDITED_BELOW
        if run.audit is not None and (self._audit or is_small):
            yield run.audit

    def _rankings(self, stage: RankingStage) -> Iterator[RankingStage]:
        if self._own_missing(stage):
            for part in stage.parts:
                yield from self._rankings(part)
        yield stage

    def _planned(self, stage: Stage[Any], settings: tuple[str, ...]) -> PlannedStage:
        kind, amount, lacking = cast("Kind", stage.shown_as), stage.amount(self.known), self._lacking(stage)
        if not lacking:
            return PlannedStage(kind, stage.label(), settings, "", replace(amount, to_do=0))
        missing = tuple(name for one in lacking for name in self._own_missing(one))
        damage, again = self._damage(missing), _asked_again(lacking[0], amount)
        after = None if damage or again else self._first_to_do(stage)
        because = f"because the {after} {'is' if after in _SINGULAR else 'are'} to do" if after else ""
        why = damage or again or because or stage.why_first or self._difference(lacking[0])
        return PlannedStage(kind, stage.label(), settings, why, amount, missing, after)

    def _own_missing(self, stage: Stage[Any]) -> list[tuple[str, str | None]]:
        """``stage`` by the workspace's folder and name, if a run would make it."""
        if not stage.is_kept:
            return []
        try:
            kept = stage.kept_key(self._workspace)
            if kept is not None:
                return [(stage.kind, kept)] if _skipped(stage, self._workspace, kept) else []
            return [(stage.kind, stage.key())]
        except NotBuiltError:
            return [(stage.kind, None)]

    def _lacking(self, stage: Stage[Any]) -> list[Stage[Any]]:
        """What a run would make for ``stage``: itself, and those that it needs that are not shown by themselves."""
        own = [stage] if self._own_missing(stage) else []
        if isinstance(stage, RankingStage) and not own:
            return []
        hidden = (need for need in stage.needs if need not in self._settings and need.shown_as != "documents")
        return list(dict.fromkeys([*own, *(one for need in hidden for one in self._lacking(need))]))

    def _first_to_do(self, stage: Stage[Any]) -> Kind | None:
        """The kind of the first stage shown that is to do before ``stage``."""
        before = (one for one in all_needs(stage) if one is not stage and one in self._settings)
        return next((cast("Kind", one.shown_as) for one in before if self._lacking(one)), None)

    def _damage(self, missing: Sequence[tuple[str, str | None]]) -> str:
        found = [self._workspace.damage(folder, name) for folder, name in missing if name]
        return next((f"damaged: {damage}" for damage in found if damage), "")

    def _difference(self, stage: Stage[Any]) -> str:
        """What differs from the finished stage of the same kind that differs least.

        Of several rather from one that these settings do not use any more, then from one whose contents differ least,
        then from the newest.
        """
        if self._workspace.was_marked(stage.kind, stage.key()):
            return "an earlier run asked for it; it is gone, or was not finished"
        now = stage.described()
        known = [(name, seal) for name, seal in self._workspace.seals(stage.kind) if seal.made_of]
        if not known:
            return "nothing like it was made yet"
        used = {self._kept_name(one) for one in self._settings}

        def nearness(one: tuple[str, Seal]) -> tuple[int, bool, int]:
            before = one[1].made_of
            differing = sum(before.get(name) != now.get(name) for name in {**before, **now})
            return len(changes(before, now)), (stage.kind, one[0]) in used, differing

        known.sort(key=lambda one: one[1].made, reverse=True)
        before = min(known, key=nearness)[1].made_of
        differing = changes(before, now)
        if not differing:
            return "another version of ragtrial made the last one"
        more = f", and {len(differing) - 1} more" if differing[1:] else ""
        entry = stage.setting.entry if isinstance(stage, RankingStage) else ""
        return describe_change(differing[0], before, now, entry) + more

    def _kept_name(self, stage: Stage[Any]) -> tuple[str, str | None]:
        try:
            return stage.kind, stage.kept_key(self._workspace) if stage.is_kept else None
        except NotBuiltError:
            return stage.kind, None

    def known(self, stage: Stage[T]) -> T | None:
        """The artefact of a stage that is kept, else None."""
        if stage not in self._known:
            is_there = not stage.is_kept or self._kept_name(stage)[1] is not None
            is_there = is_there and all(self.known(need) is not None for need in stage.reads)
            self._known[stage] = self._loaded(stage) if is_there else None
        found: T | None = self._known[stage]
        return found

    def _loaded(self, stage: Stage[T]) -> T | None:
        reads = [self.known(need) for need in stage.reads]
        try:
            return stage.load(self._workspace.path(stage.kind, self._kept_name(stage)[1] or ""), *reads)
        except DAMAGE:
            return None


def _skipped(stage: Stage[Any], workspace: Workspace, kept: str) -> int:
    """How many questions were skipped in rankings that are kept: a run asks them again."""
    return skipped_in(workspace.path(stage.kind, kept)) if isinstance(stage, RankingStage) else 0


def _asked_again(stage: Stage[Any], amount: Amount) -> str:
    if not isinstance(stage, RankingStage) or amount.to_do == amount.count:
        return ""
    those = "question that was" if amount.to_do == 1 else "questions that were"
    return f"{amount.to_do:,} {those} skipped will be asked again"


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The names of what differs: options first, in their order; contents where no option of theirs says it."""
    differing = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    options = [name for name in differing if "." in name]
    named = {name.partition(".")[0] for name in options}
    return [*options, *(name for name in differing if "." not in name and name.partition(" ")[0] not in named)]


def describe_change(name: str, before: Mapping[str, Any], now: Mapping[str, Any], entry: str = "") -> str:
    """``chunker.size changed from 256 to 512``; of a content only that it changed.

    ``entry`` is the name in the config of the retriever whose options these are.
    """
    if "." not in name:
        return f"{name} changed"
    shown = f"retrievers.{entry}.{name.removeprefix('retriever.')}" if entry and name.startswith("retriever.") else name
    return f"{shown} changed from {_shown(before, name)} to {_shown(now, name)}"


def _shown(values: Mapping[str, Any], name: str) -> str:
    if name not in values:
        return "nothing"
    value = values[name]
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return repr(value) if isinstance(value, str) and (not value or value != value.strip()) else str(value)
