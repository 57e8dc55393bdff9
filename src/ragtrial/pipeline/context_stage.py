"""What is indexed for each chunk: its text, and what the config puts around it."""

from __future__ import annotations

from collections.abc import Iterator
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
from ragtrial.pipeline.stage import Amount, Inputs, Known, NotBuiltError, Stage, dotted_options
from ragtrial.progress import stage
from ragtrial.records import ReportWarning, WarningCode


class ContextStage(Stage[IndexedTexts]):
    """The indexed text of every chunk. Nothing is kept where the title alone is added. Raises PrefixesError."""

    kind = "surroundings"
    shown_as = "context"

    def __init__(self, resources: Resources, chunks: ChunkStage, setting: Setting) -> None:
        self.needs = self.reads = (chunks,)
        self._resources = resources
        self._setting = setting
        self._context = setting.context
        self.is_kept = not setting.context.is_bare
        self._digest: str | None = None

    def inputs(self) -> Inputs:
        found = dotted_options("context", self._context.identity())
        content = self._resources.prefixes_digest(self._context.prefixes)
        return found if content is None else found | {"context prefixes": content}

    def identity(self) -> str:
        """By its content: another file of prefixes may surround the chunks with the same texts."""
        chunks = self.needs[0].identity()
        if not self.is_kept:
            return name_of_texts(chunks, title=self._context.title, digest=None)
        if self._digest is None:
            workspace, key = self._resources.workspace, self.key()
            if not workspace.has(self.kind, key):
                raise NotBuiltError(self)
            try:
                self._digest = Surroundings.read(workspace.path(self.kind, key)).digest
            except DAMAGE:
                raise NotBuiltError(self) from None
        return name_of_texts(chunks, title=self._context.title, digest=self._digest)

    @property
    def title(self) -> str:
        return f"context of chunks ({self._context.summary()})"

    def build(self, folder: Path, chunks: Chunks) -> None:
        file = None if self._context.prefixes is None else Path(self._context.prefixes)
        prefixes = None if file is None else match_prefixes(chunks, read_prefixes(file), file, self._setting.name)
        if file is not None and file_digest(file) != self._resources.prefixes_digest(self._context.prefixes):
            raise RunError(f"{file} changed while it was read; run the same command again.")
        with (
            stage(self._resources.progress, "context", len(chunks), "chunks") as progress,
            self._resources.timed("context", len(chunks)),
        ):
            Surroundings.write(folder, chunks, self._context, prefixes, progress.advance)

    def load(self, folder: Path, chunks: Chunks) -> IndexedTexts:
        surroundings = Surroundings.read(folder) if self.is_kept else None
        return IndexedTexts(chunks, title=self._context.title, surroundings=surroundings)

    def label(self) -> str:
        return self._context.summary()

    def amount(self, known: Known) -> Amount:
        count = self.needs[0].amount(known)
        return Amount(
            count.count, "chunks", count.count, count.is_estimate, self._resources.seconds("context", count.count)
        )


def prefix_warnings(setting: Setting, texts: IndexedTexts) -> Iterator[ReportWarning]:
    """A warning if the file of prefixes has none for some chunks of ``setting``."""
    without = texts.surroundings.without_prefix if texts.surroundings else 0
    if setting.context.prefixes is not None and without:
        yield ReportWarning(
            WarningCode.NO_PREFIX,
            f"{setting.name}: {without:,} of {len(texts):,} chunks have no row in "
            f"{setting.context.prefixes}; they are indexed without a prefix.",
        )
