"""What stands under every search: the documents, their chunks, vectors and indexes, each made once and kept."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ragtrial.cache.arrays import read_array, write_array, write_rows
from ragtrial.cache.atomic import write_text
from ragtrial.cache.fingerprints import file_digest, fingerprint
from ragtrial.cache.seals import MadeOf
from ragtrial.cache.usage import user
from ragtrial.cache.workspace import Workspace
from ragtrial.components.chunkers.cutting import cut
from ragtrial.components.contextual_text import IndexedTexts, Surroundings
from ragtrial.components.embedders import Embedder
from ragtrial.components.embedders.cached import CachedEmbedder, TextList
from ragtrial.components.stores import Vectors
from ragtrial.components.vector_checks import LengthWatch
from ragtrial.config import ExperimentConfig
from ragtrial.config.settings import Setting
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.documents import OnError, corpus_fingerprint
from ragtrial.dataset.library import Library
from ragtrial.dataset.passages import Located, Place, Sought, locate_all
from ragtrial.dataset.prefixes import match_prefixes, read_prefixes
from ragtrial.errors import RunError
from ragtrial.options import at_home
from ragtrial.pipeline import ingredients
from ragtrial.pipeline.names import Names
from ragtrial.pipeline.outcomes import BuiltIndex, Embeddings
from ragtrial.pipeline.work import work_of_chunks, work_of_embedding, work_of_index
from ragtrial.progress import Progress, stage
from ragtrial.rankings import Counts, Floats
from ragtrial.records import Caution, Span

T = TypeVar("T")


class Ground:
    """The stages below retrieval: what is finished is never made again, here or in another run.

    ``documents`` is the fingerprint of the ``library``.
    """

    def __init__(self, workspace: Workspace, corpus: Path, progress: Progress, on_error: OnError = "stop") -> None:
        self.workspace = workspace
        self._progress = progress
        self._loaded: dict[tuple[str, str], Any] = {}
        self._too_long: dict[tuple[Embedder, tuple[str, ...]], int | None] = {}
        digest = workspace.digests.digest
        content = corpus_fingerprint(corpus, on_error, digest)
        self.documents = _documents_fingerprint(content)

        def build(folder: Path) -> None:
            with stage(progress, "documents"):
                Library.write(corpus, folder, on_error)
            if corpus_fingerprint(corpus, on_error, digest) != content:
                raise RunError(f"the documents in {corpus} changed while they were read; run the same command again.")

        self.names = Names(workspace, self.documents)
        self.library = workspace.load("documents", self.documents, f"documents of {corpus.name}", build, Library)

    def prepare(self, setting: Setting) -> None:
        """Find everything that ``setting`` names (model, tokenizer, function, prefixes) before any work is done.

        Raises ModelNotFoundError, also for sizes in tokens that no tokenizer is there to count, and PrefixesError.
        """
        if "chunker" in setting.reached_by:
            setting.chunker.check()
            self.names.unit_tokenizer(setting)
        if "embedder" in setting.reached_by:
            self.embedder(setting.embedder)
        if (
            setting.has_chunks and setting.context.prefixes is not None
        ):  # whose rows are right or not only beside the chunks
            self.texts(setting, self.chunks(setting))

    def release(self, embedder: Embedder) -> None:
        """Let go of the model of ``embedder``: no later setting needs it."""
        self.names.release(embedder)

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
        """The chunks of ``setting``; the vectors that a chunker needs are made with its embedder, and kept."""
        name = self.names.chunks(setting)
        if setting.chunker.needs_embedder:
            self.workspace.mark("vectors", self.embedder(setting.embedder).path.stem)
        if ("chunks", name) in self._loaded:
            known: Chunks = self._loaded["chunks", name]
            return known
        chunker, tokenizer, has_titles = setting.chunker, self.names.unit_tokenizer(setting), setting.context.title
        size = int(self.library.sizes.sum())
        total, unit = (size, "bytes") if chunker.needs_embedder else (len(self.library), "documents")

        def embed(texts: Sequence[str], advance: Callable[[int], None]) -> Floats:
            return self.embedder(setting.embedder).embed_documents(texts, advance)

        def build(folder: Path) -> None:
            with stage(self._progress, "chunks", total, unit) as progress, self._rated(work_of_chunks(setting), size):
                cut(self.library, chunker, tokenizer, progress.advance, embed, has_titles=has_titles).write(folder)

        what = f"chunks ({chunker.summary()})"
        made_of = partial(ingredients.of_chunks, self.names, setting)
        return self._load("chunks", name, what, build, partial(Chunks, self.library), made_of=made_of)

    def has_chunks(self, setting: Setting) -> bool:
        """Whether the chunks of ``setting`` are there or can be made without a model."""
        return not setting.chunker.needs_embedder or self.workspace.has("chunks", self.names.chunks(setting))

    def texts(self, setting: Setting, chunks: Chunks) -> IndexedTexts:
        """What is indexed for each of ``chunks``, those of ``setting``. Raises PrefixesError."""
        context = setting.context
        if context.is_bare:
            return IndexedTexts(chunks, title=context.title)
        file = None if context.prefixes is None else Path(context.prefixes)
        content = self.names.prefixes_digest(setting)

        def build(folder: Path) -> None:
            prefixes = None if file is None else match_prefixes(chunks, read_prefixes(file), file, setting.name)
            if file is not None and file_digest(file) != content:
                raise RunError(f"{file} changed while it was read; run the same command again.")
            with (
                stage(self._progress, "context", len(chunks), "chunks") as progress,
                self._rated("context", len(chunks)),
            ):
                Surroundings.write(folder, chunks, context, prefixes, progress.advance)

        what, name = f"context of chunks ({context.summary()})", self.names.surroundings(setting)
        made_of = partial(ingredients.of_texts, self.names, setting)
        found = self._load("surroundings", name, what, build, Surroundings.read, made_of=made_of)
        return IndexedTexts(chunks, title=context.title, surroundings=found)

    def prefix_cautions(self, setting: Setting) -> Iterator[Caution]:
        """A warning if the file of prefixes has none for some chunks of ``setting``. Raises PrefixesError."""
        if not setting.has_chunks or setting.context.prefixes is None:
            return
        chunks = self.chunks(setting)
        surroundings = self.texts(setting, chunks).surroundings
        if surroundings and surroundings.without_prefix:
            yield Caution(
                "no-prefix",
                f"{setting.name}: {surroundings.without_prefix:,} of {len(chunks):,} chunks have no row in "
                f"{setting.context.prefixes}; they are indexed without a prefix.",
            )

    def too_long(self, setting: Setting, queries: Sequence[str]) -> dict[str, int | None]:
        """How many chunks and queries are longer than the model reads (None: not known); loads no model."""
        embedder, key = self.embedder(setting.embedder), (setting.embedder, tuple(queries))
        if key not in self._too_long:
            counted = queries if embedder.counts_too_long else []
            lengths = embedder.lengths(TextList(counted), embedder.query_prefix)
            self._too_long[key] = embedder.count_too_long(lengths)
        chunks = self.lengths(setting, self.chunks(setting))
        return {"chunks": embedder.count_too_long(chunks), "queries": self._too_long[key]}

    def lengths(self, setting: Setting, chunks: Chunks) -> Counts:
        """How long each chunk is for the model, shape (chunks,); see ``CachedEmbedder.lengths``."""
        embedder, texts = self.embedder(setting.embedder), self.texts(setting, chunks)

        def build(folder: Path) -> None:
            write_array(folder / "lengths.npy", embedder.lengths(texts, embedder.document_prefix))

        name, made_of = self.names.lengths(setting), partial(ingredients.of_lengths, self.names, setting)
        return self._load("lengths", name, "lengths of chunks", build, _read_lengths, made_of=made_of)

    def embeddings(self, setting: Setting, chunks: Chunks, *, every_byte: bool = False) -> Embeddings:
        """The vectors of all chunks; with ``every_byte`` they are checked to be what was written."""
        embedder = self.embedder(setting.embedder)
        self.workspace.mark("vectors", embedder.path.stem)
        texts = self.texts(setting, chunks)

        def build(folder: Path) -> None:
            lengths = self.lengths(setting, chunks)
            with stage(self._progress, "embeddings", len(chunks), "chunks") as progress:
                made = embedder.embed(texts, embedder.document_prefix, lengths, progress.advance)
                seen = LengthWatch()
                write_rows(folder / "vectors.npy", seen.watch(made.blocks()), (len(chunks), made.dimension))
            health = seen.health(len(chunks), made.distinct, made.dimension)
            write_text(folder / "health.json", json.dumps(asdict(health)))
            self.workspace.rates.note(work_of_embedding(embedder), made.amount, made.seconds)

        what, name = f"embeddings ({setting.embedder.summary()})", self.names.embeddings(setting)
        return self._load(
            "embeddings", name, what, build, Embeddings.read,
            every_byte=every_byte, made_of=partial(ingredients.of_embeddings, self.names, setting),
        )  # fmt: skip

    def index(self, setting: Setting, chunks: Chunks, *, every_byte: bool = False) -> BuiltIndex:
        """The built index; with ``every_byte`` it is checked to be what was written."""
        self.embeddings(setting, chunks)
        name, work = self.names.index(setting), work_of_index(setting)

        def build(folder: Path) -> None:
            if not setting.store.is_exact:  # which needs none: the vectors are all there is to it
                vectors = self.vectors(setting, chunks)
                with stage(self._progress, "index", len(chunks), "vectors") as progress, self._rated(work, len(chunks)):
                    setting.store.build(vectors, folder, progress.advance)

        def read(folder: Path) -> BuiltIndex:
            sealed = self.workspace.seal("indexes", name)
            description = {**setting.store.model_dump(mode="json"), "vectors": len(chunks)}
            if setting.store.is_exact:
                return BuiltIndex(folder, "", description)
            return BuiltIndex(folder, sealed.id, {**description, "id": sealed.id, "bytes": sealed.size})

        what, made_of = f"index ({setting.store.summary()})", partial(ingredients.of_index, self.names, setting)
        return self._load("indexes", name, what, build, read, every_byte=every_byte, made_of=made_of)

    def stand(self, setting: Setting) -> None:
        """Make what the name of any search of ``setting`` hangs on: what stands under it and under its parts."""
        for one in setting.tree():
            if one.has_index:
                self.index(one, self.chunks(one))
            elif one.has_chunks:
                self.texts(one, self.chunks(one))

    def vectors(self, setting: Setting, chunks: Chunks) -> Vectors:
        """The vectors of all chunks, with the order that breaks ties."""
        by_id = np.lexsort((chunks.start, self.library.id_order[chunks.document]))
        order = np.empty(len(chunks), dtype=np.int64)
        order[by_id] = np.arange(len(chunks))
        return Vectors(self.embeddings(setting, chunks, every_byte=True).matrix, order)

    def embedder(self, embedder: Embedder) -> CachedEmbedder:
        """One for all settings with this embedder, so that its model is loaded once."""
        return self.names.embedder(embedder)

    @contextmanager
    def _rated(self, work: str, amount: float) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.workspace.rates.note(work, amount, time.perf_counter() - start)

    def _load(
        self,
        kind: str,
        name: str,
        what: str,
        build: Callable[[Path], None],
        read: Callable[[Path], T],
        *,
        made_of: Callable[[], MadeOf],
        every_byte: bool = False,
    ) -> T:
        """As ``Workspace.load``, once in a run: settings share most stages; again where every byte is to be checked."""
        if every_byte or (kind, name) not in self._loaded:
            self._loaded[kind, name] = self.workspace.load(
                kind, name, what, build, read, every_byte=every_byte, made_of=made_of
            )
        found: T = self._loaded[kind, name]
        return found


def _read_lengths(folder: Path) -> Counts:
    return read_array(folder / "lengths.npy")


def documents_fingerprint(config: ExperimentConfig, corpus: Path) -> str:
    """What ``Ground.documents`` would be of ``corpus``; every byte of it is read. Raises CorpusError."""
    return _documents_fingerprint(corpus_fingerprint(corpus, config.dataset.on_error))


def _documents_fingerprint(content: str) -> str:
    return fingerprint(["documents", content])


def workspace_folder(config: ExperimentConfig) -> Path:
    """Where finished stages are kept: what the config says, else RAGTRIAL_WORKSPACE, else .ragtrial beside it."""
    named = config.workspace or os.environ.get("RAGTRIAL_WORKSPACE")
    beside = Path(config.file).absolute().parent if config.file else Path.cwd()
    return at_home(named).absolute() if named else beside / ".ragtrial"


def ground_of(config: ExperimentConfig, corpus: Path, progress: Progress) -> Ground:
    """The stages below search, over the documents of ``corpus``, in the workspace of ``config``."""
    workspace = Workspace(workspace_folder(config), user(config.experiment, config.file or str(Path.cwd())))
    return Ground(workspace, corpus, progress, config.dataset.on_error)
