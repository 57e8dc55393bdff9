"""The stages that stand below the rankings of a setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ragtrial.config.settings import Setting
from ragtrial.pipeline.chunk_stage import ChunkStage
from ragtrial.pipeline.context_stage import ContextStage
from ragtrial.pipeline.embedding_stage import EmbeddingStage, LengthStage
from ragtrial.pipeline.index_stage import IndexStage


@dataclass(frozen=True, eq=False)
class SettingStages:
    """The stages of the corpus that reach ``setting``, each None where it plays no part; and those of its parts."""

    setting: Setting
    chunks: ChunkStage | None = None
    texts: ContextStage | None = None
    lengths: LengthStage | None = None
    embeddings: EmbeddingStage | None = None
    index: IndexStage | None = None
    parts: tuple[SettingStages, ...] = ()

    def tree(self) -> Iterator[SettingStages]:
        """Those of all that the setting is made of, the parts before what is made of them."""
        for part in self.parts:
            yield from part.tree()
        yield self

    @property
    def last(self) -> ChunkStage | ContextStage | IndexStage | None:
        """The one that its own searches depend on."""
        if self.index is not None:
            return self.index
        return self.texts if self.setting.has_chunks else self.chunks
