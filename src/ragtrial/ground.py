"""What stands under every search: the documents, their chunks, vectors and indexes, each made once and kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, astuple
from functools import partial
from pathlib import Path

import numpy as np

from ragtrial.chunkers.cutting import cut
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.documents import OnError, corpus_fingerprint
from ragtrial.dataset.library import Library
from ragtrial.dataset.passages import Located, Place, Sought, locate_all
from ragtrial.embedders import Embedder
from ragtrial.embedders.cached import CachedEmbedder, TextList
from ragtrial.errors import ModelNotFoundError, RunError
from ragtrial.health import LengthWatch
from ragtrial.outcomes import BuiltIndex, Embeddings
from ragtrial.progress import Progress, stage
from ragtrial.rankings import Counts
from ragtrial.records import Span
from ragtrial.setting import Setting
from ragtrial.storage.arrays import read_array, write_array, write_rows
from ragtrial.storage.atomic import write_text
from ragtrial.storage.fingerprints import fingerprint
from ragtrial.storage.workspace import Workspace
from ragtrial.stores import Vectors
from ragtrial.tokenizers import Tokenizer


class Ground:
    """The stages below retrieval: what is finished is never made again, here or in another run.

    ``documents`` is the fingerprint of the ``library``.
    """

    def __init__(self, workspace: Workspace, corpus: Path, progress: Progress, on_error: OnError = "stop") -> None:
        self.workspace = workspace
        self._progress = progress
        self._embedders: dict[Embedder, CachedEmbedder] = {}
        digest = workspace.digests.digest
        content = corpus_fingerprint(corpus, on_error, digest)
        self.documents = fingerprint(["documents", content])

        def build(folder: Path) -> None:
            with stage(progress, "documents"):
                Library.write(corpus, folder, on_error)
            if corpus_fingerprint(corpus, on_error, digest) != content:
                raise RunError(f"the documents in {corpus} changed while they were read; run the same command again.")

        self.library = workspace.load("documents", self.documents, f"documents of {corpus.name}", build, Library)

    def prepare(self, setting: Setting) -> None:
        """Find everything that ``setting`` names (model, tokenizer, function) before any work is done.

        Raises ModelNotFoundError, also for sizes in tokens that no tokenizer is there to count.
        """
        self.unit_tokenizer(setting)

    def release(self, embedder: Embedder) -> None:
        """Let go of the model of ``embedder``: no later setting needs it."""
        self.embedder(embedder).release()

    def located(self, sought: Sequence[Sought], library: Library) -> list[Located]:
        """How and where each passage is found in ``library``, as ``passages.locate_all`` finds them."""
        wanted = sorted(
            {(one.text, one.among) for one in sought}, key=lambda one: (one[0], -1 if one[1] is None else one[1])
        )

        def build(folder: Path) -> None:
            with stage(self._progress, "passages", len(wanted), "passages"):
                found = locate_all([Sought(*one) for one in wanted], library)
            rows = [
                [one.how, [[place.document, *astuple(place.span)] for place in one.places], one.score] for one in found
            ]
            write_text(folder / "places.json", json.dumps(rows))

        def read(folder: Path) -> dict[tuple[str, int | None], Located]:
            rows = json.loads((folder / "places.json").read_text())
            return {
                one: Located(how, tuple(Place(place, Span(start, end)) for place, start, end in places), score)
                for one, (how, places, score) in zip(wanted, rows, strict=True)
            }

        name = fingerprint(["located passages", self.documents, wanted])
        found = self.workspace.load("passages", name, "places of passages", build, read)
        return [found[one.text, one.among] for one in sought]

    def chunks(self, setting: Setting) -> Chunks:
        """The chunks of ``setting``."""
        tokenizer = self.unit_tokenizer(setting)
        counted = [tokenizer.fingerprint, tokenizer.special_tokens] if tokenizer else None
        name = fingerprint(["chunks", self.documents, setting.chunker.identity(), counted])

        def build(folder: Path) -> None:
            with stage(self._progress, "chunks", len(self.library), "documents") as progress:
                cut(self.library, setting.chunker, tokenizer, progress.advance).write(folder)

        what = f"chunks ({setting.chunker.summary()})"
        return self.workspace.load("chunks", name, what, build, partial(Chunks, self.library))

    def too_long(self, setting: Setting, queries: Sequence[str]) -> dict[str, int | None]:
        """How many chunks and queries are longer than the model reads (None: not known); loads no model."""
        embedder, texts = self.embedder(setting.embedder), TextList(queries)
        return {
            "chunks": embedder.count_too_long(self.lengths(setting, self.chunks(setting))),
            "queries": embedder.count_too_long(embedder.lengths(texts, embedder.query_prefix)),
        }

    def lengths(self, setting: Setting, chunks: Chunks) -> Counts:
        """How long each chunk is for the model, shape (chunks,); see ``CachedEmbedder.lengths``."""
        embedder = self.embedder(setting.embedder)
        counted_by = embedder.tokenizer.fingerprint if embedder.tokenizer else None
        name = fingerprint(["lengths", chunks.name, embedder.document_prefix, counted_by])

        def build(folder: Path) -> None:
            write_array(folder / "lengths.npy", embedder.lengths(chunks, embedder.document_prefix))

        return self.workspace.load("lengths", name, "lengths of chunks", build, _read_lengths)

    def embeddings(self, setting: Setting, chunks: Chunks, *, every_byte: bool = False) -> Embeddings:
        """The vectors of all chunks; with ``every_byte`` they are checked to be what was written."""
        embedder = self.embedder(setting.embedder)
        self.workspace.mark("vectors", embedder.path.stem)
        name = fingerprint(["embeddings", chunks.name, embedder.fingerprint, embedder.document_prefix])

        def build(folder: Path) -> None:
            lengths = self.lengths(setting, chunks)
            with stage(self._progress, "embeddings", len(chunks), "chunks") as progress:
                made = embedder.embed(chunks, embedder.document_prefix, lengths, progress.advance)
                seen = LengthWatch()
                write_rows(folder / "vectors.npy", seen.watch(made.blocks()), (len(chunks), made.dimension))
            health = seen.health(len(chunks), made.distinct, made.dimension)
            write_text(folder / "health.json", json.dumps(asdict(health)))

        what = f"embeddings ({setting.embedder.summary()})"
        return self.workspace.load("embeddings", name, what, build, Embeddings.read, every_byte=every_byte)

    def index(self, setting: Setting, chunks: Chunks, *, every_byte: bool = False) -> BuiltIndex:
        """The built index; with ``every_byte`` it is checked to be what was written."""
        embeddings = self.embeddings(setting, chunks)
        name = fingerprint(["index", embeddings.name, setting.store.identity()])

        def build(folder: Path) -> None:
            if not setting.store.is_exact:  # which needs none: the vectors are all there is to it
                vectors = self.vectors(setting, chunks)
                with stage(self._progress, "index", len(chunks), "vectors") as progress:
                    setting.store.build(vectors, folder, progress.advance)

        def read(folder: Path) -> BuiltIndex:
            sealed = self.workspace.seal("indexes", name)
            description = {**setting.store.model_dump(mode="json"), "vectors": len(chunks)}
            if setting.store.is_exact:
                return BuiltIndex(folder, "", description)
            return BuiltIndex(folder, sealed.id, {**description, "id": sealed.id, "bytes": sealed.size})

        what = f"index ({setting.store.summary()})"
        return self.workspace.load("indexes", name, what, build, read, every_byte=every_byte)

    def vectors(self, setting: Setting, chunks: Chunks) -> Vectors:
        """The vectors of all chunks, with the order that breaks ties."""
        by_id = np.lexsort((chunks.start, self.library.id_order[chunks.document]))
        order = np.empty(len(chunks), dtype=np.int64)
        order[by_id] = np.arange(len(chunks))
        return Vectors(self.embeddings(setting, chunks, every_byte=True).matrix, order)

    def embedder(self, embedder: Embedder) -> CachedEmbedder:
        """One for all settings with this embedder, so that its model is loaded once."""
        if embedder not in self._embedders:
            folder = self.workspace.root / "vectors"
            self._embedders[embedder] = CachedEmbedder(embedder, folder, self.workspace.digests.digest)
        return self._embedders[embedder]

    def unit_tokenizer(self, setting: Setting) -> Tokenizer | None:
        """What counts the chunker's sizes; None for characters."""
        tokenizer = self.embedder(setting.embedder).tokenizer
        if not setting.chunker.unit_is_tokens:
            return None
        if tokenizer is None:
            raise ModelNotFoundError(
                f"setting {setting.name!r}: its embedder has no tokenizer.json, so tokens cannot be counted; "
                "set chunker.unit: characters."
            )
        return tokenizer


def _read_lengths(folder: Path) -> Counts:
    return read_array(folder / "lengths.npy")
