"""The index that a store builds of the vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.workspace import Workspace
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.config.settings import Setting
from ragtrial.engines import Index, Vectors
from ragtrial.errors import StoreError, StoreServerError
from ragtrial.pipeline.context_stage import ContextStage
from ragtrial.pipeline.embedding_stage import Embeddings, VectorStage
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.stage import (
    Amount,
    Inputs,
    KeptArtefacts,
    NotBuiltError,
    Runner,
    Stage,
    dotted_options,
    versions_of,
)


@dataclass(eq=False)
class IndexStage(Stage[dict[str, Any]]):
    """The index of a setting, described. An exact one has nothing to build: the vectors are all there is to it.

    Two builds of an approximate index find other hits, so later stages depend on the build and not on the key alone.
    """

    kind = "indexes"
    shown_as = "index"
    is_searched = True

    resources: Resources
    texts: ContextStage
    embeddings: VectorStage
    setting: Setting

    def __post_init__(self) -> None:
        self.needs, self.reads = (self.embeddings, self.texts), (self.texts,)
        self.store, self.setting_name = self.setting.store, self.setting.name
        self.label = self.store.summary()
        self.title = f"index ({self.label})"

    def inputs(self) -> Inputs:
        return {name: value for name, value in self._options.items() if name not in self._searched_with}

    def unhashed_inputs(self) -> Inputs:
        return self._searched_with

    @cached_property
    def _options(self) -> Inputs:
        return dotted_options("store", self.store.identity()) | versions_of(self.store)

    @cached_property
    def _searched_with(self) -> Inputs:
        """The options of searches, which change no build."""
        names = {f"store.{name}" for name in self.store.search_options}
        return {name: value for name, value in self._options.items() if name in names}

    @cached_property
    def definition_fingerprint(self) -> str:
        return (
            fingerprint([super().definition_fingerprint, self._searched_with])
            if self._searched_with
            else super().definition_fingerprint
        )

    def build_identity(self) -> str:
        """What tells this build of the index from others, however it is searched. Raises NotBuiltError."""
        key = self.key()
        if self.store.is_repeatable:
            return key
        build = self.resources.workspace.build_id(self.kind, key)
        if not build:
            raise NotBuiltError(self)
        return f"{key} {build}"

    def identity(self) -> str:
        build = self.build_identity()
        return f"{build} {fingerprint(self._searched_with)}" if self._searched_with else build

    def build(self, folder: Path, embeddings: Embeddings, texts: IndexedTexts) -> None:
        if not self.store.is_exact:
            with self.resources.working("index", len(texts), "vectors", f"index {self.store.kind}") as progress:
                self.store.build(vectors_of(texts, embeddings), folder, progress.advance)

    def load(self, folder: Path, texts: IndexedTexts) -> dict[str, Any]:
        sealed = self.resources.workspace.seal(self.kind, folder.name)
        description = {**self.store.identity(), "vectors": len(texts)}
        if self.store.is_exact:
            return description
        facts = self.store.facts(folder)
        on_a_server = "collection" in facts  # the folder then has no more than its name
        size = facts.get("bytes") if on_a_server else sealed.size
        return {**description, "id": sealed.id, **facts, "bytes": size}

    def vectors(self, runner: Runner) -> Vectors:
        """What is indexed, with the order that breaks ties; every byte of it is checked."""
        return vectors_of(runner.artefact(self.texts), runner.artefact(self.embeddings, every_byte=True))

    def open(self, runner: Runner) -> Index:
        """The index, open for search; one that turns out to be damaged is built again. Raises StoreError."""
        vectors = self.vectors(runner)
        # Chroma finds nothing in a graph with other bytes, or ends the process.
        runner.artefact(self, every_byte=True)
        workspace, key = self.resources.workspace, self.key()
        try:
            return self.store.open(vectors, workspace.path(self.kind, key))
        except StoreServerError:
            raise
        except StoreError as error:
            workspace.drop_damaged(self.kind, key, workspace.build_id(self.kind, key), error)
            runner.artefact(self, every_byte=True)
            return self.store.open(vectors, workspace.path(self.kind, key))

    def amount(self, kept: KeptArtefacts) -> Amount:
        chunks = self.texts.amount(kept)
        seconds = self.resources.rates.seconds(f"index {self.store.kind}", chunks.count)
        return replace(chunks, unit="vectors", seconds=0.0 if self.store.is_exact else seconds)


OpenIndexes = Mapping[IndexStage, Index]


@contextmanager
def open_indexes(runner: Runner, workspace: Workspace, stages: Iterable[IndexStage]) -> Iterator[OpenIndexes]:
    """The indexes of ``stages``, open; no other process has an approximate one of them open meanwhile."""
    stages_by_key: dict[str, list[IndexStage]] = {}
    for stage in stages:
        stages_by_key.setdefault(stage.key(), []).append(stage)
    found: dict[IndexStage, Index] = {}
    with ExitStack() as held:
        for key, (one, *_) in sorted(stages_by_key.items()):  # in one order: no process waits for one that waits for it
            if one.store.is_exclusive:
                what = f"the {one.store.kind} index of {one.setting_name}"
                held.enter_context(workspace.lock(f"open-{key}", what))
        opened: dict[str, Index] = {}  # indexes of one build that are searched in different ways are opened apart
        for stage in chain.from_iterable(stages_by_key.values()):
            if stage.definition_fingerprint not in opened:
                opened[stage.definition_fingerprint] = stage.open(runner)
                held.callback(opened[stage.definition_fingerprint].close)
            found[stage] = opened[stage.definition_fingerprint]
        yield found


def vectors_of(texts: IndexedTexts, embeddings: Embeddings) -> Vectors:
    """The vectors of all chunks, with their order by document id and position."""
    chunks = texts.chunks
    by_id = np.lexsort((chunks.start, chunks.library.id_order[chunks.document]))
    order = np.empty(len(chunks), dtype=np.int64)
    order[by_id] = np.arange(len(chunks))
    return Vectors(embeddings.matrix, order)
