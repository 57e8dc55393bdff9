"""What a retriever or a refiner is handed: each artefact is made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.components.stores import Index
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.errors import ModelNotFoundError, RunError
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.setting_stages import SettingStages
from ragtrial.pipeline.stage import Artefacts
from ragtrial.rankings import Floats

T = TypeVar("T")


class SettingContext:
    """The context of one setting. ``open_index`` gives its index while that is held open; by default none is.

    With ``is_fresh`` nothing that depends on a question is read from the disk; without ``loads_models`` whoever asks
    for vectors gets ModelNotFoundError.
    """

    def __init__(
        self,
        resources: Resources,
        library: Library,
        stages: SettingStages,
        artefacts: Artefacts,
        open_index: Callable[[], Index] | None = None,
        *,
        is_fresh: bool = False,
        loads_models: bool = True,
    ) -> None:
        setting = stages.setting
        self.setting, self.entry = setting.name, setting.entry
        self.library = library
        self.progress = resources.progress
        self.is_fresh = is_fresh
        self.kept: dict[tuple[str, str], None] = {}
        """Kind and name of all that was kept, stages and files that grow, in their order."""
        self._stages = stages
        self._resources = resources
        self._artefacts = artefacts
        self._open_index = open_index
        self._loads_models = loads_models
        self._vectors: dict[tuple[str, ...], Floats] = {}

    def digest(self, path: Path) -> str:
        return self._resources.digest(path)

    def chunks(self) -> Chunks:
        if self._stages.chunks is None:
            raise RunError(f"setting {self.setting!r} has no chunks of its own.")
        return self._artefacts.artefact(self._stages.chunks)

    def texts(self, units: Chunks | None = None) -> IndexedTexts:
        if units is None:
            return self._texts_by_chunks[self.chunks().name]
        if units.name in self._texts_by_chunks:
            return self._texts_by_chunks[units.name]
        return IndexedTexts(units, title=self._stages.setting.context.title)

    @cached_property
    def _texts_by_chunks(self) -> dict[str, IndexedTexts]:
        """What is indexed for the chunks of all that the setting is made of, by the name of the chunks."""
        stages = [one.texts for one in self._stages.tree() if one.texts is not None]
        return {texts.chunks.name: texts for texts in map(self._artefacts.artefact, stages)}

    def index(self) -> Index:
        if self._open_index is None:
            raise RunError(f"setting {self.setting!r}: its index is open only while it is searched.")
        return self._open_index()

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        embedder = self._resources.embedder(self._stages.setting.embedder)
        if not self._loads_models:
            raise ModelNotFoundError("that takes vectors, and no model is loaded to check it.", may_be_fetched=True)
        if not self.is_fresh:
            return embedder.embed_queries(texts)
        # Once, however often more chunks are asked for: a system at work would keep the vector, too.
        key = tuple(texts)
        if key not in self._vectors:
            self._vectors = {key: embedder.embed_now([embedder.query_prefix + text for text in texts])}
        return self._vectors[key]

    def embed_texts(self, texts: Sequence[str]) -> Floats:
        if not self._loads_models:
            return self.embed_queries(texts)
        return self._resources.embedder(self._stages.setting.embedder).embed_documents(texts)

    def keep(self, kind: str, parts: Any, what: str, build: Callable[[Path], None], read: Callable[[Path], T]) -> T:
        name = fingerprint([kind, parts])
        self.kept[kind, name] = None
        return self._resources.workspace.load(kind, name, what, build, read)

    def growing(self, kind: str, name: str) -> Path:
        workspace = self._resources.workspace
        self.kept[kind, name] = None
        workspace.mark(kind, name)
        path = workspace.path(kind, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path
