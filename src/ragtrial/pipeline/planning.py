"""What work is to be done for the settings of a config, and why: the graph of stages, each once, without making any.

Only the documents are read. Names come from where a run takes them, so that what is told to be cached is what the run
will find. What takes moments is left out: scoring, and counting the tokens of what was found.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.seals import Seal
from ragtrial.components.chunkers.base import SizedChunker
from ragtrial.config.settings import Setting
from ragtrial.pipeline import ingredients
from ragtrial.pipeline.amounts import Amount, Amounts, Estimate
from ragtrial.pipeline.demands import AUDITED_BELOW, Search, demand_of_parts, exact_twin, own_demand, search_for
from ragtrial.pipeline.names import UnmadeError, at_depth
from ragtrial.pipeline.plan import Plan
from ragtrial.pipeline.searching import Demand, skipped_in
from ragtrial.records import Question

Kind = Literal["documents", "chunks", "context", "embeddings", "index", "rankings", "latency", "audit"]

KINDS: tuple[Kind, ...] = ("documents", "chunks", "context", "embeddings", "index", "rankings", "latency", "audit")
"""The order of work."""

_ONE = ("context", "index", "latency", "audit")


@dataclass(frozen=True)
class Node:
    """A piece of work, made once for all ``settings`` that need it.

    ``why`` says why it is to do, and is empty where it is cached. ``seconds`` and ``disk`` (bytes) are what making it
    takes about: 0 where it is cached, None where that is not known. ``missing`` are the stages that a run would make
    for it, by the workspace's folder and name; None for a name that hangs on a stage to do. ``after`` is the work that
    is to do first, if that alone is why.
    """

    kind: Kind
    what: str
    settings: tuple[str, ...]
    why: str
    amount: Amount
    seconds: float | None
    disk: int | None
    missing: tuple[tuple[str, str | None], ...] = ()
    after: Kind | None = None

    @property
    def is_cached(self) -> bool:
        return not self.missing


@dataclass(frozen=True)
class WorkPlan:
    """All work for an experiment, in the order of work. ``free`` is what is left on the workspace's disk, in bytes."""

    experiment: str
    settings: tuple[str, ...]
    nodes: tuple[Node, ...]
    workspace: str
    free: int

    @property
    def to_do(self) -> list[Node]:
        return [node for node in self.nodes if not node.is_cached]

    @property
    def seconds(self) -> float:
        """About how long all takes of which that is known."""
        return sum(node.seconds or 0.0 for node in self.nodes)

    @property
    def unknown(self) -> int:
        """Of how many pieces of work nobody knows how long they take."""
        return sum(node.seconds is None for node in self.nodes)

    @property
    def disk(self) -> int:
        """About how many bytes will be written, of which that is known."""
        return sum(node.disk or 0 for node in self.nodes)

    @property
    def is_disk_known(self) -> bool:
        """Whether that is all."""
        return all(node.disk is not None for node in self.nodes)


def plan_work(experiment: str, settings: Sequence[Setting], plan: Plan, questions: Sequence[Question]) -> WorkPlan:
    """What a run of ``plan`` would do for ``settings``, all of whose inputs are there."""
    root = plan.ground.workspace.root
    nodes = tuple(_Planner(settings, plan, questions).nodes())
    names = tuple(setting.name for setting in settings)
    return WorkPlan(experiment, names, nodes, str(root), shutil.disk_usage(root).free)


@dataclass(frozen=True)
class _Stage:
    """A folder of the workspace, a name in it, and what that is made of; each told when it is asked for."""

    folder: str
    name: Callable[[], str]
    made_of: Callable[[], Mapping[str, Any]] | None = None


class _Planner:
    """Draws the graph, setting by setting; a piece of work that is there already gets another setting."""

    def __init__(self, settings: Sequence[Setting], plan: Plan, questions: Sequence[Question]) -> None:
        self._settings = settings
        self._plan = plan
        self._ground, self._names = plan.ground, plan.ground.names
        self._workspace = plan.ground.workspace
        self._amounts = Amounts(plan.ground)
        self._questions = questions
        self._nodes: dict[tuple[str, str], Node] = {}
        self._uncompared: dict[tuple[str, str], tuple[_Stage, str]] = {}
        """Of what nothing else explains why it is to do: the first stage that lacks, and the retriever's entry."""
        self._used: set[tuple[str, str]] = set()

    def nodes(self) -> Iterator[Node]:
        """All work, in the order of work."""
        count, everyone = len(self._ground.library), tuple(setting.name for setting in self._settings)
        yield Node("documents", "", everyone, "", Amount(count, "documents", 0), 0.0, 0)
        for setting in self._settings:
            for one in setting.tree():
                self._stand(one, setting.name)
            ranking = self._ranking(setting, self._questions, own_demand(setting), setting.name)
            self._measurements(setting, ranking)
        for key, (stage, entry) in self._uncompared.items():
            self._nodes[key] = replace(self._nodes[key], why=self._compared(stage, entry))
        found = list(self._nodes.values())
        yield from (node for kind in KINDS for node in found if node.kind == kind)

    def _stand(self, one: Setting, owner: str) -> list[Node]:
        """What stands under the searches of a setting, or of a part of one."""
        names, amounts, made = self._names, self._amounts, list[Node]()

        def add(
            kind: Kind, what: str, reach: tuple[str, ...], estimate: Callable[[Setting], Estimate], *stages: _Stage
        ) -> None:
            key = fingerprint([getattr(one, name).model_dump(mode="json") for name in reach])
            known = self._named(stages[-1].name)
            made.append(self._put(kind, known or key, owner, what, stages, made, partial(estimate, one)))

        def stage(folder: str, name: Callable[[Setting], str], made_of: Callable[..., Mapping[str, Any]]) -> _Stage:
            return _Stage(folder, partial(name, one), partial(made_of, names, one))

        if "chunker" in one.retriever.reached_by:
            chunks = stage("chunks", names.chunks, ingredients.of_chunks)
            add("chunks", _of_chunker(one), ("chunker", "context", "embedder"), amounts.chunks, chunks)
        if one.has_chunks and not one.context.is_bare:
            context = stage("surroundings", names.surroundings, ingredients.of_texts)
            add("context", one.context.summary(), ("chunker", "context", "embedder"), amounts.context, context)
        if one.has_index:
            lengths = stage("lengths", names.lengths, ingredients.of_lengths)
            vectors = stage("embeddings", names.embeddings, ingredients.of_embeddings)
            reach = ("chunker", "context", "embedder")
            add("embeddings", _of_embedder(one), reach, amounts.embeddings, lengths, vectors)
            index = stage("indexes", names.index, ingredients.of_index)
            add("index", one.store.summary(), (*reach, "store"), amounts.index, index)
        return made

    def _ranking(self, setting: Setting, questions: Sequence[Question], wanted: Demand, owner: str) -> Node:
        """The rankings of a setting; those of its parts only where a run would ask for them, too."""
        search, unit = search_for(setting, wanted), self._plan.unit
        demand = self._plan.demands[search]
        base = self._named(partial(self._names.rankings, setting, questions, unit, search[1]))
        found = self._names.deep_enough(base, demand) if base else None
        skipped = skipped_in(self._workspace.path("rankings", found)) if found else 0
        parents = []
        if found is None or skipped:
            wordings = setting.wordings(questions)
            parents = [self._ranking(part, wordings, demand_of_parts(setting), owner) for part in setting.parts]
            parents += self._stand(setting, owner)
        made_of = partial(ingredients.of_rankings, self._names, setting, questions, unit)
        stage = _Stage("rankings", partial(self._ranking_name, setting, questions, wanted), made_of)
        estimate = partial(self._amounts.rankings, setting, questions, demand)
        what = f"{setting.name} ({setting.retriever.kind})"
        why = self._not_deep_enough(base, demand) if base and found is None else ""
        key = self._ranking_key(setting, questions, search)
        node = self._put("rankings", key, owner, what, [stage], parents, estimate, why, setting.entry)
        if found and skipped and node.is_cached:
            node = self._nodes["rankings", key] = _asked_again(node, found, skipped, estimate())
        return node

    def _ranking_key(self, setting: Setting, questions: Sequence[Question], search: Search) -> str:
        """Equal for rankings that are made once for all: options like batch_size make no others."""
        key, width = search
        with suppress(UnmadeError):
            key = fingerprint(self._names.base(setting, builds=False))
        return fingerprint([key, width, self._names.asked_name(setting, questions)])

    def _ranking_name(self, setting: Setting, questions: Sequence[Question], wanted: Demand) -> str:
        search = search_for(setting, wanted)
        demand = self._plan.demands[search]
        base = self._names.rankings(setting, questions, self._plan.unit, search[1])
        return self._names.deep_enough(base, demand) or at_depth(base, demand)

    def _not_deep_enough(self, base: str, demand: Demand) -> str:
        """How deep the rankings are that are there, if any are."""
        kept = [depth for name, depth in self._names.depths(base) if self._workspace.has("rankings", name)]
        if not kept:
            return ""
        units, hits = max(depth.units for depth in kept), max(depth.candidates for depth in kept)
        if units < demand.units:
            return f"top_k is {demand.units}, the rankings that are kept have {units}"
        return f"{demand.candidates} hits are looked at, the rankings that are kept have {hits}"

    def _measurements(self, setting: Setting, ranking: Node) -> None:
        questions, plan, key = self._questions, self._plan, fingerprint(list(setting.key))
        if plan.is_measured(setting):
            stage = _Stage("latency", partial(self._names.latency, setting, questions, plan.unit, plan.seed))
            estimate = partial(self._amounts.latency, setting, questions)
            why = "not measured yet"
            self._put("latency", key, setting.name, setting.name, [stage], [ranking], estimate, why)
        if not setting.has_index or setting.store.is_exact:
            return
        if plan.audit or self._amounts.chunk_count(setting).count < AUDITED_BELOW:
            twin = exact_twin(setting)
            stages = [
                _Stage("reach", partial(self._names.unreachable, setting)),
                _Stage("indexes", partial(self._names.index, twin)),
                _Stage("rankings", partial(self._ranking_name, twin, questions, own_demand(twin))),
                _Stage("rescored", partial(self._names.rescored, setting, questions, plan.unit)),
            ]
            parents = [*self._stand(setting, setting.name), ranking]
            exact = "rankings", self._ranking_key(twin, questions, search_for(twin, own_demand(twin)))
            parents += [self._nodes[exact]] if exact in self._nodes else []
            why = "not compared with exact search yet"
            estimate = partial(self._amounts.audit, setting)
            self._put("audit", key, setting.name, setting.name, stages, parents, estimate, why)

    def _put(
        self,
        kind: Kind,
        key: str,
        owner: str,
        what: str,
        stages: Sequence[_Stage],
        parents: Sequence[Node],
        estimate: Callable[[], Estimate],
        why: str = "",
        entry: str = "",
    ) -> Node:
        """The piece of work of that ``kind`` and ``key``; ``why`` it is to do where nothing that it needs is."""
        node = self._nodes.get((kind, key))
        if node is None:
            named = [(stage, self._named(stage.name)) for stage in stages]
            lacking = [(one, name) for one, name in named if name is None or not self._workspace.has(one.folder, name)]
            self._used.update((stage.folder, name) for stage, name in named if name)
            made, missing = estimate(), tuple((stage.folder, name) for stage, name in lacking)
            if missing:
                damage, after = self._damage(missing), next((one.kind for one in parents if not one.is_cached), None)
                because = f"because the {after} {'is' if after in _ONE else 'are'} to do" if after else ""
                if not (damage or because or why):
                    self._uncompared[kind, key] = lacking[0][0], entry
                node = Node(
                    kind, what, (), damage or because or why, made.amount, made.seconds, made.disk, missing,
                    after=None if damage else after,
                )  # fmt: skip
            else:
                node = Node(kind, what, (), "", replace(made.amount, to_do=0), 0.0, 0)
        if owner not in node.settings:
            node = replace(node, settings=(*node.settings, owner))
        self._nodes[kind, key] = node
        return node

    def _named(self, name: Callable[[], str]) -> str | None:
        try:
            return name()
        except UnmadeError:
            return None

    def _damage(self, missing: Sequence[tuple[str, str | None]]) -> str:
        found = [self._workspace.damage(folder, name) for folder, name in missing if name]
        return next((f"damaged: {damage}" for damage in found if damage), "")

    def _compared(self, stage: _Stage, entry: str) -> str:
        """What differs from the finished stage of the same kind that differs least.

        Of several rather from one that these settings do not use any more, then from one whose contents differ least,
        then from the newest.
        """
        if self._workspace.was_marked(stage.folder, stage.name()):
            return "an earlier run asked for it; it is gone, or was not finished"
        now = stage.made_of() if stage.made_of else {}
        known = [(name, seal) for name, seal in self._workspace.seals(stage.folder) if seal.made_of]
        if not known:
            return "nothing like it was made yet"

        def nearness(one: tuple[str, Seal]) -> tuple[int, bool, int]:
            before = one[1].made_of
            differing = sum(before.get(name) != now.get(name) for name in {**before, **now})
            return len(ingredients.changes(before, now)), (stage.folder, one[0]) in self._used, differing

        known.sort(key=lambda one: one[1].made, reverse=True)
        before = min(known, key=nearness)[1].made_of
        differing = ingredients.changes(before, now)
        if not differing:
            return "another version of ragtrial made the last one"
        more = f", and {len(differing) - 1} more" if differing[1:] else ""
        return ingredients.told(differing[0], before, now, entry) + more


def _asked_again(node: Node, name: str, skipped: int, whole: Estimate) -> Node:
    """Rankings that are there, and whose skipped questions a run asks again."""
    why = f"{skipped:,} {'question that was' if skipped == 1 else 'questions that were'} skipped will be asked again"
    seconds = None if whole.seconds is None else whole.seconds * skipped / max(1, whole.amount.count)
    amount = replace(whole.amount, to_do=skipped)
    return replace(node, why=why, amount=amount, seconds=seconds, disk=whole.disk, missing=(("rankings", name),))


def _of_chunker(setting: Setting) -> str:
    """The kind of chunker, its size and its overlap."""
    chunker = setting.chunker
    if isinstance(chunker, SizedChunker):
        return f"{chunker.kind} {chunker.size}/{chunker.overlap}"
    return chunker.summary()


def _of_embedder(setting: Setting) -> str:
    """The model's name without the folders and the owner before it, or the function."""
    options = setting.embedder.model_dump(mode="json")
    named = str(options.get("model") or options.get("function") or setting.embedder.summary())
    return named.rpartition("/")[2]
