"""Settings at work: what a retriever or a refiner is handed, and its indexes open, each once, whatever searches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.components.refiners import Refiner
from ragtrial.components.retrievers import Candidates, Retriever
from ragtrial.config.settings import Setting
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.engines import Index
from ragtrial.errors import ModelNotFoundError, RunError
from ragtrial.pipeline.chunk_stage import ChunkStage
from ragtrial.pipeline.context_stage import ContextStage
from ragtrial.pipeline.embedding_stage import LengthStage, VectorStage
from ragtrial.pipeline.index_stage import IndexStage, open_indexes
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.retrieval import Depth, Ranked, retrieve
from ragtrial.pipeline.stage import Runner, Stage
from ragtrial.rankings import Floats
from ragtrial.records import Question, Unit

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class SettingStages:
    """The stages of the corpus that reach ``setting``, each None where it plays no part; and those of its parts."""

    setting: Setting
    documents: Stage[Library]
    chunks: ChunkStage | None = None
    texts: ContextStage | None = None
    lengths: LengthStage | None = None
    embeddings: VectorStage | None = None
    index: IndexStage | None = None
    parts: tuple[SettingStages, ...] = ()

    def tree(self) -> Iterator[SettingStages]:
        """Those of all that the setting is made of, the parts before what is made of them."""
        for part in self.parts:
            yield from part.tree()
        yield self


@dataclass(eq=False)
class SettingContext:
    """What the retriever or refiner of one setting is handed: each artefact is made when it is asked for.

    ``open_index`` is its index, while that is held open. With ``is_fresh`` nothing that depends on a question is read
    from the disk; without ``loads_models`` whoever asks for vectors gets ModelNotFoundError.
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
        """What is indexed for the chunks of all that the setting is made of, by the name of the chunks."""
        texts = [self.runner.artefact(one.texts) for one in self.stages.tree() if one.texts is not None]
        return {one.chunks.name: one for one in texts}

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
        return (
            self.resources.embedder(self.stages.setting.embedder).embed_documents(texts)
            if self.loads_models
            else self.embed_queries(texts)
        )

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

    def __init__(self, setting: Setting, context: SettingContext, parts: Sequence[OpenSetting], unit: Unit) -> None:
        self.kept = context.kept
        """Kind and name of the stages that its retriever keeps, those that it has asked for so far."""
        self._setting = setting
        self._parts = parts
        self._unit: Unit = unit
        retriever = setting.retriever
        self._search = retriever.open(context).search if isinstance(retriever, Retriever) else None
        self._refine = retriever.open(context).refine if isinstance(retriever, Refiner) else None

    def ranked(
        self,
        questions: Sequence[Question],
        depth: Depth,
        advance: Callable[[int], None] = lambda _: None,
        found: Sequence[Candidates] | None = None,
    ) -> Ranked:
        """The rankings of ``questions``; ``advance`` is called for every one that is done.

        ``found`` is what the parts of a refiner found; without it they are searched on the way.
        """
        setting, refine = self._setting, self._refine
        if self._search is not None:
            return retrieve(self._search, questions, depth, self._unit, advance, setting.width)
        if refine is None:
            raise TypeError(f"{setting.name} neither retrieves nor refines")
        if found is None:
            wordings, looked_at = setting.wordings(questions), Depth(candidates=setting.depth_of_parts)
            found = [part.ranked(wordings, looked_at).candidates for part in self._parts]
        parts = found
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
    """A setting at work with its index, and with its parts unless their rankings are there already."""
    tree = list(stages.tree()) if with_parts else [stages]
    opened: dict[SettingStages, OpenSetting] = {}
    stages_of_indexes = dict.fromkeys(one.index for one in tree if one.index is not None)
    with open_indexes(runner, resources.workspace, stages_of_indexes) as indexes:
        for one in tree:  # parts come before what is made of them
            index = indexes[one.index] if one.index is not None else None
            context = SettingContext(resources, one, runner, index, is_fresh=is_fresh)
            parts = [opened[part] for part in one.parts] if with_parts else []
            opened[one] = OpenSetting(one.setting, context, parts, unit)
        yield opened[stages]
