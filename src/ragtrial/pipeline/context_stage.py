"""What is indexed for each chunk: its text, and what the config puts around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ragtrial.cache.fingerprints import file_digest
from ragtrial.cache.workspace import DAMAGE
from ragtrial.components.contextual_text import IndexedTexts, Surroundings, name_of_texts
from ragtrial.config.settings import Setting
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.prefixes import match_prefixes, read_prefixes
from ragtrial.errors import RunError
from ragtrial.pipeline.chunk_stage import ChunkStage
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.stage import Amount, Inputs, KeptArtefacts, NotBuiltError, Stage, dotted_options, versions_of
from ragtrial.records import ReportWarning, WarningCode


@dataclass(eq=False)
class ContextStage(Stage[IndexedTexts]):
    """The indexed text of every chunk. Nothing is kept where the title alone is added. Raises PrefixesError."""

    kind = "surroundings"
    shown_as = "context"

    resources: Resources
    chunks: ChunkStage
    setting: Setting

    def __post_init__(self) -> None:
        self.needs = self.reads = (self.chunks,)
        self._context, self._prefixes = self.setting.context, self.setting.context.prefixes
        self._digest: str | None = None
        self.is_kept = not self._context.is_bare
        self.title = f"context of chunks ({self._context.summary()})"
        self.label = self._context.summary()

    def inputs(self) -> Inputs:
        content = {} if self._prefixes_digest is None else {"context prefixes": self._prefixes_digest}
        options = dotted_options("context", self._context.identity())
        return options | versions_of(self._context) | content

    @cached_property
    def _prefixes_digest(self) -> str | None:
        """The hash of the file of prefixes; empty if it cannot be read, which reading it will say."""
        try:
            return None if self._prefixes is None else self.resources.digest(Path(self._prefixes))
        except OSError:
            return ""

    def identity(self) -> str:
        """By its content: another file of prefixes may surround the chunks with the same texts."""
        if self.is_kept and self._digest is None:
            workspace, key = self.resources.workspace, self.key()
            if not workspace.has(self.kind, key):
                raise NotBuiltError(self)
            try:
                self._digest = Surroundings.read(workspace.path(self.kind, key)).digest
            except DAMAGE:
                raise NotBuiltError(self) from None
        return name_of_texts(self.needs[0].identity(), title=self._context.title, digest=self._digest)

    def build(self, folder: Path, chunks: Chunks) -> None:
        prefixes = None
        if self._prefixes is not None:
            file = Path(self._prefixes)
            prefixes = match_prefixes(chunks, read_prefixes(file), file, self.setting.name)
            if file_digest(file) != self._prefixes_digest:
                raise RunError(f"{file} changed while it was read; run the same command again.")
        with self.resources.working("context", len(chunks), "chunks", "context") as progress:
            Surroundings.write(folder, chunks, self._context, prefixes, progress.advance)

    def load(self, folder: Path, chunks: Chunks) -> IndexedTexts:
        surroundings = Surroundings.read(folder) if self.is_kept else None
        return IndexedTexts(chunks, title=self._context.title, surroundings=surroundings)

    def amount(self, kept: KeptArtefacts) -> Amount:
        chunks = self.needs[0].amount(kept)
        return replace(chunks, seconds=self.resources.rates.seconds("context", chunks.count))


def prefix_warnings(setting: Setting, texts: IndexedTexts) -> Iterator[ReportWarning]:
    """A warning if the file of prefixes has none for some chunks of ``setting``."""
    without = texts.surroundings.without_prefix if texts.surroundings else 0
    if setting.context.prefixes is not None and without:
        message = f"{without:,} of {len(texts):,} chunks have no row in {setting.context.prefixes}"
        yield ReportWarning(WarningCode.NO_PREFIX, f"{setting.name}: {message}; they are indexed without a prefix.")
