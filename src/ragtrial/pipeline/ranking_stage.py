"""The stage of rankings: a setting with its open indexes is asked all questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ragtrial.cache.arrays import is_within
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.workspace import DAMAGE, Workspace
from ragtrial.components.batching import TextList
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.components.interfaces import Candidates, Retriever, Texts
from ragtrial.components.refiners.base import Refiner
from ragtrial.config.settings import Setting, failing_as
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.engines import Index
from ragtrial.errors import ModelNotFoundError, RunError
from ragtrial.pipeline import corpus_stages
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.retrieval import RANKINGS_FORMAT, Depth, SettingRankings, retrieve, skipped_in, stages_kept
from ragtrial.pipeline.stage import Amount, Inputs, KeptArtefacts, Runner, Stage, component_inputs, dotted_options
from ragtrial.rankings import PADDING, Floats
from ragtrial.records import Question, Unit

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class SettingStages:
    """The corpus stages that affect ``setting``, None for a stage that plays no part; and the stages of its parts."""

    setting: Setting
    documents: Stage[Library]
    chunks: corpus_stages.ChunkStage | None = None
    texts: corpus_stages.ContextStage | None = None
    index: corpus_stages.IndexStage | None = None
    parts: tuple[SettingStages, ...] = ()

    def tree(self) -> Iterator[SettingStages]:
        """The stages of all parts, at any depth, before the stages of the setting itself."""
        for part in self.parts:
            yield from part.tree()
        yield self


@dataclass(eq=False)
class SettingContext:
    """The context that a retriever or refiner gets; artefacts are built when first needed.

    ``open_index`` is its index, while that is held open. With ``is_fresh`` nothing that depends on a question is read
    from the disk; without ``loads_models`` a request for vectors raises ModelNotFoundError.
    """

    resources: Resources
    stages: SettingStages
    runner: Runner
    open_index: Index | None = None
    is_fresh: bool = False
    loads_models: bool = True
    kept: dict[tuple[str, str], None] = field(default_factory=dict)
    """Kind and name of all that was kept, stages and files that grow, in their order."""

    def __post_init__(self) -> None:
        self.setting, self.entry = self.stages.setting.name, self.stages.setting.entry
        self.library = self.runner.artefact(self.stages.documents)
        self.progress, self.digest = self.resources.progress, self.resources.digest
        self._vectors: dict[tuple[str, ...], Floats] = {}

    def chunks(self) -> Chunks:
        if self.stages.chunks is None:
            raise RunError(f"setting {self.setting!r} has no chunks of its own.")
        return self.runner.artefact(self.stages.chunks)

    def texts(self, units: Chunks | None = None) -> IndexedTexts:
        units = self.chunks() if units is None else units
        if units.name in self._texts_by_chunks:
            return self._texts_by_chunks[units.name]
        return IndexedTexts(units, title=self.stages.setting.context.title)

    @cached_property
    def _texts_by_chunks(self) -> dict[str, IndexedTexts]:
        """The indexed texts of all chunks of the setting and its parts, by the name of the chunks."""
        texts = [self.runner.artefact(part.texts) for part in self.stages.tree() if part.texts is not None]
        return {part.chunks.name: part for part in texts}

    def index(self) -> Index:
        if self.open_index is None:
            raise RunError(f"setting {self.setting!r}: its index is open only while it is searched.")
        return self.open_index

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        embedder = self.resources.embedder(self.stages.setting.embedder)
        if not self.loads_models:
            raise ModelNotFoundError("that takes vectors, and no model is loaded to check it.", may_be_fetched=True)
        if not self.is_fresh:
            return embedder.embed_queries(texts)
        # Once, however often more chunks are asked for: a system at work would keep the vector, too.
        key = tuple(texts)
        if key not in self._vectors:
            self._vectors = {key: embedder.embed_now([embedder.query_prefix + text for text in texts])}
        return self._vectors[key]

    def embed_texts(self, texts: Sequence[str]) -> Floats:
        if not self.loads_models:
            return self.embed_queries(texts)
        return self.resources.embedder(self.stages.setting.embedder).embed_documents(texts)

    def keep(self, kind: str, parts: Any, what: str, build: Callable[[Path], None], read: Callable[[Path], T]) -> T:
        name = fingerprint([kind, parts])
        self.kept[kind, name] = None
        return self.resources.workspace.load(kind, name, what, build, read)

    def growing(self, kind: str, name: str) -> Path:
        self.kept[kind, name] = None
        self.resources.workspace.mark(kind, name)
        path = self.resources.workspace.path(kind, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


class OpenSetting:
    """A setting at work; ``parts`` are its parts at work, needed only if it is asked without their rankings."""

    def __init__(self, context: SettingContext, parts: Sequence[OpenSetting], unit: Unit) -> None:
        self.context = context
        self._setting, self._parts, self._unit = context.stages.setting, parts, unit
        retriever = self._setting.retriever
        self._search = retriever.open(context).search if isinstance(retriever, Retriever) else None
        self._refine = retriever.open(context).refine if isinstance(retriever, Refiner) else None

    def ranked(
        self,
        questions: Sequence[Question],
        depth: Depth,
        advance: Callable[[int], None] = lambda _: None,
        found: Sequence[Candidates] | None = None,
    ) -> SettingRankings:
        """The rankings of ``questions``; ``advance`` is called for every finished question.

        ``found`` are the hits of the parts of a refiner; without them the parts are searched now.
        """
        setting, refine = self._setting, self._refine
        if self._search is not None:
            return retrieve(self._search, questions, depth, self._unit, advance, setting.width)
        if refine is None:
            raise TypeError(f"{setting.name} neither retrieves nor refines")
        if (parts := found) is None:
            wordings, looked_at = setting.wordings(questions), Depth(candidates=setting.depth_of_parts)
            parts = [part.ranked(wordings, looked_at).candidates for part in self._parts]
        return retrieve(lambda asked, _: refine(asked, parts), questions, depth, self._unit, advance, is_whole=True)


@contextmanager
def open_setting(
    resources: Resources,
    stages: SettingStages,
    runner: Runner,
    unit: Unit,
    *,
    with_parts: bool = True,
    is_fresh: bool = False,
) -> Iterator[OpenSetting]:
    """A setting at work with its index, and with its parts unless their rankings are there already.

    Meanwhile no other process has the approximate indexes among them open.
    """
    tree = list(stages.tree()) if with_parts else [stages]
    to_open = {part.index.key(): part.index for part in tree if part.index is not None}
    indexes: dict[str, Index] = {}  # an index is opened once for each way in which it is searched
    opened: dict[SettingStages, OpenSetting] = {}
    with ExitStack() as held:
        for key, stage in sorted(to_open.items()):  # in the same order in all processes: no deadlock
            if stage.store.is_exclusive:
                description = f"the {stage.store.kind} index of {stage.setting_name}"
                held.enter_context(resources.workspace.lock(f"open-{key}", description))
        for part in tree:  # parts come before the whole
            index = None
            if part.index is not None:
                definition = part.index.build_free_fingerprint
                if definition not in indexes:
                    indexes[definition] = part.index.open(runner)
                    held.callback(indexes[definition].close)
                index = indexes[definition]
            context = SettingContext(resources, part, runner, index, is_fresh=is_fresh)
            own_parts = [opened[below] for below in part.parts] if with_parts else []
            opened[part] = OpenSetting(context, own_parts, unit)
        yield opened[stages]


@dataclass(eq=False)
class RankingStage(Stage[SettingRankings]):
    """The rankings of ``questions``, deep enough for all stages that need them.

    ``width`` is the width of the search, if it changes the hits (see ``Store.width``). Later stages do not depend on
    the depth: it follows the key, and deeper kept rankings serve as well.
    """

    kind = "rankings"
    shown_as = "rankings"
    is_large = True

    stages: SettingStages
    parts: tuple[RankingStage, ...]
    questions: Sequence[Question]
    unit: Unit
    depth: Depth
    width: int | None

    def __post_init__(self) -> None:
        stages, parts = self.stages, self.parts
        self.setting = setting = stages.setting
        self.title = f"rankings of {setting.name}"
        self.label = f"{setting.name} ({setting.retriever.kind})"
        self._has_embedder = "embedder" in setting.retriever.depends_on
        cut = (part for part in stages.tree() if part.chunks and "chunker" in part.setting.retriever.depends_on)
        self._chunks = tuple(dict.fromkeys(part.chunks for part in cut if part.chunks))
        searched = stages.index or stages.texts or stages.chunks
        self.needs = (stages.documents, *((searched,) if searched else ()), *parts)
        self.reads = (stages.documents, *self._chunks)
        self._rate = f"rankings {setting.retriever.kind}"

    def inputs(self) -> Inputs:
        retriever, reached = self.setting.retriever, self.setting.retriever.depends_on
        inputs = component_inputs("retriever", retriever, retriever.hashed_options(), "retriever code")
        inputs[f"retriever {retriever.content_is}"] = fingerprint(retriever.hashed_content(self.resources.digest))
        asked = fingerprint([retriever.asked(question) for question in self.questions])
        inputs |= {"questions": asked, "evaluators.unit": self.unit, "rankings format": RANKINGS_FORMAT}
        if any(question.own_document for question in self.questions):
            own = [question.own_document for question in self.questions]
            inputs["dataset.drop_query_document"] = fingerprint(own)
        if "context" in reached and "chunker" not in reached:
            inputs |= dotted_options("context", self.setting.context.hashed_options())
        if self._has_embedder:
            embedder = self.resources.embedder(self.setting.embedder)
            inputs |= corpus_stages.embedder_inputs(embedder) | {"embedder.query_prefix": embedder.query_prefix}
        return inputs if self.width is None else inputs | {"search width": self.width}

    def tree(self) -> Iterator[RankingStage]:
        """The stages of all parts, at any depth, before the stage itself."""
        for part in self.parts:
            yield from part.tree()
        yield self

    @cached_property
    def query_free_fingerprint(self) -> str:
        """Equal for rankings of equal settings, for any questions."""
        own = {name: value for name, value in self.inputs().items() if name != "questions"}
        corpus = [need.build_free_fingerprint for need in self.needs if not isinstance(need, RankingStage)]
        return fingerprint([own, corpus, [part.query_free_fingerprint for part in self.parts]])

    def unhashed_inputs(self) -> Inputs:
        named = corpus_stages.embedder_names(self.setting) if self._has_embedder else {}
        return {"retriever.top_k": self.depth.units, "hits looked at": self.depth.candidates, **named}

    def key_for_dependents(self) -> str:
        return super().key()

    def key(self) -> str:
        return f"{self.key_for_dependents()}-{self.depth.candidates}-{self.depth.units}"

    def kept_key(self, workspace: Workspace) -> str | None:
        """Its own rankings, or the shallowest kept rankings that are deep enough."""
        own, base = self.key(), self.key_for_dependents()
        if workspace.has(self.kind, own):
            return own
        deeper = []
        for path in workspace.path(self.kind, base).parent.glob(f"{base}-*"):
            candidates, units = (int(number) for number in path.name.split("-")[1:])
            is_deep = candidates >= self.depth.candidates and units >= self.depth.units
            if is_deep and workspace.has(self.kind, path.name):
                deeper.append((candidates + units, path.name))
        return min(deeper)[1] if deeper else None

    @contextmanager
    def held_for_build(self, runner: Runner) -> Iterator[Sequence[Any]]:
        chunks = [runner.artefact(stage) for stage in self._chunks]
        with open_setting(self.resources, self.stages, runner, self.unit, with_parts=False) as setting:
            yield setting, {stage.name: stage for stage in chunks}

    def build(
        self, folder: Path, setting: OpenSetting, known: Mapping[str, Chunks], *artefacts: Any
    ) -> SettingRankings:
        rankings: Sequence[SettingRankings] = artefacts[len(artefacts) - len(self.parts) :]
        candidates = [ranked.cut(Depth(candidates=self.setting.depth_of_parts)).candidates for ranked in rankings]
        name, count = f"retrieval ({self.setting.name})", len(self.questions)
        with self.resources.working(name, count, "queries", self._rate) as progress:
            ranked = setting.ranked(self.questions, self.depth, progress.advance, candidates)
        ranked = replace(ranked, stages=frozenset(setting.context.kept))
        ranked.save(folder, known)
        return ranked

    def load(self, folder: Path, library: Library, *chunks: Chunks) -> SettingRankings:
        ranked = SettingRankings.load(folder, library, {known.name: known for known in chunks})
        ranks = len(library) if self.unit == "document" else len(ranked.candidates.units)
        if len(ranked.hit_counts) != len(self.questions) or not is_within(ranked.rankings.codes, ranks, PADDING):
            raise ValueError("it has rankings of other questions, documents or chunks")
        return ranked

    def is_incomplete(self, artefact: SettingRankings) -> bool:
        return bool(artefact.candidates.skipped.any())

    def error_context(self, need: Stage[Any]) -> AbstractContextManager[None]:
        return failing_as(self.setting.parts[self.parts.index(need)]) if need in self.parts else nullcontext()

    def mark_used(self) -> set[tuple[str, str]]:
        """Note as used all that its parts' retrievers and its own keep. Gives kind and name of these stages."""
        workspace, used = self.resources.workspace, set[tuple[str, str]]()
        if self._has_embedder:
            self.resources.mark_vectors(self.setting.embedder)
        name = self.kept_key(workspace)
        if name is not None:
            workspace.mark(self.kind, name)
            with suppress(*DAMAGE):
                used |= stages_kept(workspace.path(self.kind, name))
        for kind, kept in used:
            workspace.mark(kind, kept)
        return used.union(*(part.mark_used() for part in self.parts))

    def amount(self, kept: KeptArtefacts) -> Amount:
        name = self.kept_key(self.resources.workspace) if kept.get(self) is not None else None
        count = len(self.questions)
        to_do = (skipped_in(self.resources.workspace.path(self.kind, name)) if name else 0) or count
        seconds = self.resources.rates.seconds(self._rate, to_do)
        return Amount(count, "questions", to_do, seconds=seconds, cost=self.expected_cost(kept, to_do))

    def expected_cost(self, kept: KeptArtefacts, count: int) -> float | None:
        """The estimated price that endpoints charge for ``count`` of its questions; None without a known price."""
        chunks = next((part.chunks.amount(kept).count for part in self.stages.tree() if part.chunks), 0)
        size = float(kept.library.sizes.sum()) / corpus_stages.BYTES_PER_TOKEN / max(1, chunks)
        own = self.setting.retriever.expected_cost(self.questions, Texts(chunks, size))
        parts = [part for part in (self.query_cost(), own) if part is not None]
        return sum(parts) * count / max(1, len(self.questions)) if parts else None

    def query_cost(self) -> float | None:
        """The price of embedding all of its questions; None if nothing is paid."""
        if not self._has_embedder or not self.setting.embedder.is_paid:
            return None
        embedder = self.resources.embedder(self.setting.embedder)
        texts = TextList([question.text for question in self.questions])
        length = int(embedder.lengths(texts, embedder.query_prefix).sum())
        return self.resources.embedding_cost(self.setting.embedder, length)
