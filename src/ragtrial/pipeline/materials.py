"""What a setting's retriever is handed: each made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.components.stores import Index
from ragtrial.config.settings import Setting
from ragtrial.dataset.chunks import Chunks
from ragtrial.errors import ModelNotFoundError
from ragtrial.pipeline.ground import Ground
from ragtrial.progress import Progress
from ragtrial.rankings import Floats

T = TypeVar("T")


class SettingMaterials:
    """The materials of one setting. ``open_index`` gives its index, for as long as its holder keeps that open."""

    def __init__(
        self,
        ground: Ground,
        of: Setting,
        progress: Progress,
        open_index: Callable[[], Index],
        *,
        is_fresh: bool = False,
    ) -> None:
        self.setting, self.entry = of.name, of.entry
        self.library = ground.library
        self.progress = progress
        self.is_fresh = is_fresh
        self.index = open_index
        self._ground = ground
        self._of = of
        self.kept: dict[tuple[str, str], None] = {}
        """Kind and name of all that was kept, stages and files that grow, in their order."""
        self._vectors: dict[tuple[str, ...], Floats] = {}

    def digest(self, path: Path) -> str:
        return self._ground.workspace.digests.digest(path)

    def chunks(self) -> Chunks:
        return self._ground.chunks(self._of)

    def texts(self, units: Chunks | None = None) -> IndexedTexts:
        if units is None:
            return self._ground.texts(self._of, self.chunks())
        if units.name in self._texts_of_parts:
            return self._texts_of_parts[units.name]
        return IndexedTexts(units, title=self._of.context.title)

    @cached_property
    def _texts_of_parts(self) -> dict[str, IndexedTexts]:
        """What is indexed for the chunks of all that the setting is made of, by the name of the chunks."""
        made = {}
        for part in self._of.tree():
            if part.has_chunks:
                chunks = self._ground.chunks(part)
                made[chunks.name] = self._ground.texts(part, chunks)
        return made

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        embedder = self._ground.embedder(self._of.embedder)
        if not self.is_fresh:
            return embedder.embed_queries(texts)
        # Once, however often more chunks are asked for: a system at work would keep the vector, too.
        key = tuple(texts)
        if key not in self._vectors:
            self._vectors = {key: embedder.embed_now([embedder.query_prefix + text for text in texts])}
        return self._vectors[key]

    def embed_texts(self, texts: Sequence[str]) -> Floats:
        return self._ground.embedder(self._of.embedder).embed_documents(texts)

    def keep(self, kind: str, parts: Any, what: str, build: Callable[[Path], None], read: Callable[[Path], T]) -> T:
        name = fingerprint([kind, parts])
        self.kept[kind, name] = None
        return self._ground.workspace.load(kind, name, what, build, read, every_byte=True)

    def growing(self, kind: str, name: str) -> Path:
        workspace = self._ground.workspace
        self.kept[kind, name] = None
        workspace.mark(kind, name)
        path = workspace.path(kind, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


class ModellessMaterials(SettingMaterials):
    """The materials of one setting where no model may be loaded: who asks for vectors is told so."""

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        raise ModelNotFoundError("that takes vectors, and no model is loaded to check it.", may_be_fetched=True)

    def embed_texts(self, texts: Sequence[str]) -> Floats:
        return self.embed_queries(texts)
