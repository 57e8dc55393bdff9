"""Settings, and the stages that make their rankings: each stage under the fingerprint of all that changes it."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from ragtrial.chunkers import Chunker
from ragtrial.chunkers.cutting import cut
from ragtrial.config import ExperimentConfig
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.documents import OnError, corpus_fingerprint
from ragtrial.dataset.library import Library
from ragtrial.drilldown import FoundText
from ragtrial.embedders import Embedder
from ragtrial.embedders.cached import CachedEmbedder, TextList
from ragtrial.errors import ModelNotFoundError, RunError, StoreError
from ragtrial.latency import measure_latency
from ragtrial.progress import Progress, stage
from ragtrial.rankings import PADDING, Collapsed, Floats, Rankings
from ragtrial.records import Caution
from ragtrial.retrievers import Retrieved, Retriever, retrieve_documents
from ragtrial.storage.atomic import write_text
from ragtrial.storage.fingerprints import fingerprint
from ragtrial.storage.workspace import Workspace
from ragtrial.stores import Index, Store, Vectors
from ragtrial.tokenizers import Tokenizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Setting:
    """One retriever with everything that reaches it."""

    name: str
    retriever: Retriever
    chunker: Chunker
    embedder: Embedder
    store: Store


def settings_of(config: ExperimentConfig) -> tuple[list[Setting], list[Caution]]:
    """The settings of a config, in its order; of equal ones the first stands for all, and that is said."""
    settings: list[Setting] = []
    cautions: list[Caution] = []
    seen: dict[tuple[object, ...], str] = {}
    for name, retriever in config.retrievers.items():
        setting = Setting(
            name,
            retriever,
            retriever.chunker or config.chunker,
            retriever.embedder or config.embedder,
            retriever.store or config.store,
        )
        key = (fingerprint(retriever.identity()), setting.chunker, setting.embedder, setting.store)
        if key in seen:
            message = f"setting {name!r} is the same as {seen[key]!r}; it is run and shown once, as {seen[key]!r}."
            cautions.append(Caution("equal-settings", message))
        else:
            seen[key] = name
            settings.append(setting)
    return settings, cautions


@dataclass(frozen=True, eq=False)
class SettingRankings:
    """What a setting found: ranked documents and the chunks that brought them, and what there is to say about it.

    ``index`` describes the index; ``too_long`` counts chunks and queries beyond what the model reads (None: unknown);
    ``timings`` are seconds per stage, of this run; ``latency`` is of the run that retrieved.
    """

    setting: Setting
    fingerprint: str
    chunks: Chunks
    retrieved: Retrieved
    index: dict[str, Any]
    too_long: dict[str, int | None]
    timings: dict[str, float]
    latency: dict[str, Any] | None


@dataclass(frozen=True)
class _Materials:
    """What the plan hands to a retriever."""

    opened: Index
    embed: Callable[[Sequence[str]], Floats]

    def index(self) -> Index:
        return self.opened

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        return self.embed(texts)


@dataclass(frozen=True)
class Opened:
    """A setting at work."""

    setting: Setting
    chunks: Chunks
    index: Index
    embedder: CachedEmbedder

    def retrieve(self, queries: Sequence[str]) -> Retrieved:
        """The ranked documents of many queries."""
        return self._search(queries, self.embedder.embed_queries)

    def retrieve_alone(self, query: str) -> Retrieved:
        """The ranked documents of one query, embedded by the model itself: nothing is read from the disk's cache."""
        prefix = self.embedder.query_prefix
        # Once, however often more chunks are asked for: a system at work would keep the vector, too.
        embed_once = cache(lambda texts: self.embedder.embed_now([prefix + text for text in texts]))
        return self._search([query], lambda texts: embed_once(tuple(texts)))

    def _search(self, queries: Sequence[str], embed: Callable[[Sequence[str]], Floats]) -> Retrieved:
        retriever = self.setting.retriever.open(_Materials(self.index, embed))
        return retrieve_documents(retriever, queries, self.setting.retriever.top_k, self.chunks.document)


class Plan:
    """Makes stages and keeps them: what is finished is never made again, here or in another run."""

    def __init__(
        self,
        workspace: Workspace,
        corpus: Path,
        progress: Progress,
        *,
        on_error: OnError = "stop",
        latency: bool = False,
        seed: int = 0,
    ) -> None:
        self._workspace = workspace
        self._progress = progress
        self._latency = latency
        self._seed = seed
        self._embedders: dict[Embedder, CachedEmbedder] = {}
        content = corpus_fingerprint(corpus, on_error)
        self.documents = fingerprint(["documents", content])

        def build(folder: Path) -> None:
            with stage(progress, "documents"):
                Library.write(corpus, folder, on_error)
            if corpus_fingerprint(corpus, on_error) != content:
                raise RunError(f"the documents in {corpus} changed while they were read; run the same command again.")

        self.library = Library(workspace.stage("documents", self.documents, build))

    def prepare(self, setting: Setting) -> None:
        """Find everything that ``setting`` names (model, tokenizer, function) before any work is done.

        Raises ModelNotFoundError, also for sizes in tokens that no tokenizer is there to count.
        """
        self._unit_tokenizer(setting)

    def release(self, embedder: Embedder) -> None:
        """Let go of the model of ``embedder``: no later setting needs it."""
        self._embedder(embedder).release()

    def rankings(self, setting: Setting, queries: Sequence[str]) -> SettingRankings:
        """The ranked documents of ``setting`` for the texts of ``queries``.

        Raises RunError if a stage fails; the stages before it are kept.
        """
        timings: dict[str, float] = {}
        with _timed(timings, "chunks"):
            chunks = self.chunks(setting)
        with _timed(timings, "embeddings"):
            embeddings = self._embeddings(setting, chunks)
        with _timed(timings, "index"):
            index = self._index(setting, chunks, embeddings)
        with _timed(timings, "retrieval"):
            name = self._ranking_name(setting, index, queries)
            wanted = ("rankings", "latency") if self._latency else ("rankings",)
            if not all(self._workspace.has(kind, name) for kind in wanted):
                with self.open(setting, chunks) as opened:
                    # Opening may have built a damaged index again: its rankings go by another name.
                    name = self._ranking_name(setting, index, queries)
                    self._workspace.stage("rankings", name, partial(self._retrieve, opened, queries))
                    if self._latency:
                        self._workspace.stage("latency", name, partial(self._measure, opened, queries))
        found, description = _load_rankings(self._workspace.path("rankings", name))
        latency = None
        if self._latency:
            latency = json.loads((self._workspace.path("latency", name) / "latency.json").read_text())
        return SettingRankings(
            setting=setting,
            fingerprint=fingerprint(["setting", index.name, self._query_side(setting)]),
            chunks=chunks,
            retrieved=found,
            index=description,
            too_long=self.too_long(setting, queries),
            timings=timings,
            latency=latency,
        )

    def chunks(self, setting: Setting) -> Chunks:
        """The chunks of ``setting``."""
        tokenizer = self._unit_tokenizer(setting)
        counted = [tokenizer.fingerprint, tokenizer.special_tokens] if tokenizer else None
        name = fingerprint(["chunks", self.documents, setting.chunker.identity(), counted])

        def build(folder: Path) -> None:
            with stage(self._progress, "chunks", len(self.library), "documents") as progress:
                cut(self.library, setting.chunker, tokenizer, progress.advance).write(folder)

        return Chunks(self.library, self._workspace.stage("chunks", name, build))

    def too_long(self, setting: Setting, queries: Sequence[str]) -> dict[str, int | None]:
        """How many chunks and queries are longer than the model reads (None: not known); loads no model."""
        embedder, chunks = self._embedder(setting.embedder), self.chunks(setting)
        counted_by = embedder.tokenizer.fingerprint if embedder.tokenizer else None
        limit = setting.embedder.max_tokens()

        def build(folder: Path) -> None:
            count = embedder.count_too_long(chunks, embedder.document_prefix)
            write_text(folder / "too_long.json", json.dumps(count))

        name = fingerprint(["too_long", chunks.name, embedder.document_prefix, counted_by, limit])
        folder = self._workspace.stage("lengths", name, build)
        return {
            "chunks": json.loads((folder / "too_long.json").read_text()),
            "queries": embedder.count_too_long(TextList(queries), embedder.query_prefix),
        }

    def search(self, setting: Setting, text: str) -> list[FoundText]:
        """What ``setting`` finds for one text that no label knows."""
        chunks = self.chunks(setting)
        with self.open(setting, chunks) as opened:
            found = opened.retrieve([text]).collapsed
        scores = found.rankings.scores[0].tolist()
        hits = []
        for rank, (unit, score) in enumerate(zip(found.units[0].tolist(), scores, strict=True), 1):
            if unit != PADDING:
                title, span = self.library.titles[int(chunks.document[unit])], chunks.span(unit)
                where = (chunks.document_id(unit), title, span.start, span.end)
                hits.append(FoundText(rank, *where, score, chunks.text(unit), pages=chunks.pages(unit)))
        return hits

    @contextmanager
    def open(self, setting: Setting, chunks: Chunks) -> Iterator[Opened]:
        """The retriever of ``setting``, ready to search; its index is open for this process alone meanwhile."""
        embeddings = self._embeddings(setting, chunks)
        folder = self._index(setting, chunks, embeddings)
        vectors = self._vectors(chunks, embeddings)
        alone = nullcontext() if setting.store.is_exact else self._workspace.lock(f"the index {folder.name}")
        with alone:
            try:
                index = setting.store.open(vectors, folder)
            except StoreError as error:
                logger.warning("%s Building it again from the cached embeddings.", error)
                self._workspace.drop("indexes", folder.name)
                self._index(setting, chunks, embeddings)
                index = setting.store.open(vectors, folder)
            try:
                yield Opened(setting, chunks, index, self._embedder(setting.embedder))
            finally:
                index.close()

    def _embeddings(self, setting: Setting, chunks: Chunks) -> Path:
        """The folder with the vectors of all chunks."""
        embedder = self._embedder(setting.embedder)
        name = fingerprint(["embeddings", chunks.name, embedder.fingerprint, embedder.document_prefix])

        def build(folder: Path) -> None:
            def out(count: int, dimension: int) -> Floats:
                made = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, (count, dimension))
                return cast("Floats", made)

            with stage(self._progress, "embeddings", len(chunks), "chunks") as progress:
                embedder.embed(chunks, embedder.document_prefix, out, progress.advance)

        return self._workspace.stage("embeddings", name, build)

    def _vectors(self, chunks: Chunks, embeddings: Path) -> Vectors:
        """The vectors of all chunks, mapped from their file."""
        matrix: Floats = np.load(embeddings / "vectors.npy", mmap_mode="r" if len(chunks) else None)
        by_id = np.lexsort((chunks.start, self.library.id_order[chunks.document]))
        order = np.empty(len(chunks), dtype=np.int64)
        order[by_id] = np.arange(len(chunks))
        return Vectors(matrix, chunks.ids, order)

    def _index(self, setting: Setting, chunks: Chunks, embeddings: Path) -> Path:
        """The folder of the built index."""

        def build(folder: Path) -> None:
            vectors = self._vectors(chunks, embeddings)
            with stage(self._progress, "index", len(chunks), "vectors") as progress:
                setting.store.build(vectors, folder, progress.advance)

        name = fingerprint(["index", embeddings.name, setting.store.identity()])
        return self._workspace.stage("indexes", name, build)

    def _embedder(self, embedder: Embedder) -> CachedEmbedder:
        """One for all settings with this embedder, so that its model is loaded once."""
        if embedder not in self._embedders:
            self._embedders[embedder] = CachedEmbedder(embedder, self._workspace.root / "vectors")
        return self._embedders[embedder]

    def _unit_tokenizer(self, setting: Setting) -> Tokenizer | None:
        """What counts the chunker's sizes; None for characters."""
        tokenizer = self._embedder(setting.embedder).tokenizer
        if not setting.chunker.unit_is_tokens:
            return None
        if tokenizer is None:
            raise ModelNotFoundError(
                f"setting {setting.name!r}: its embedder has no tokenizer.json, so tokens cannot be counted; "
                "set chunker.unit: characters."
            )
        return tokenizer

    def _query_side(self, setting: Setting) -> list[Any]:
        return [setting.retriever.identity(), self._embedder(setting.embedder).query_prefix, "document"]

    def _ranking_name(self, setting: Setting, index: Path, queries: Sequence[str]) -> str:
        try:
            built = setting.store.built_id(index)
        except StoreError:
            built = "damaged"  # opening it will build it again
        return fingerprint(["rankings", index.name, built, self._query_side(setting), list(queries)])

    def _retrieve(self, opened: Opened, queries: Sequence[str], folder: Path) -> None:
        name = opened.setting.name
        with stage(self._progress, f"retrieval ({name})", len(queries), "queries") as progress:
            found = opened.retrieve(queries)
            progress.advance(len(queries))
        _save_rankings(folder, found, opened.index.describe())

    def _measure(self, opened: Opened, queries: Sequence[str], folder: Path) -> None:
        with stage(self._progress, f"latency ({opened.setting.name})"):
            latency = measure_latency(opened.retrieve_alone, queries, self._seed)
        write_text(folder / "latency.json", json.dumps(latency))


def too_long_cautions(setting: Setting, too_long: Mapping[str, int | None]) -> Iterator[Caution]:
    """A warning for each kind of text that the model of ``setting`` does not read to the end."""
    limit = setting.embedder.max_tokens()
    for what, count in too_long.items():
        if count:
            yield Caution(
                "too-long",
                f"{setting.name}: {count:,} {what} are longer than the {limit} tokens that the model reads; the "
                "rest of each is ignored. Use smaller chunks, or a model that reads more.",
            )


def _save_rankings(folder: Path, found: Retrieved, index: dict[str, Any]) -> None:
    np.savez(
        folder / "rankings.npz",
        documents=found.collapsed.rankings.codes,
        scores=found.collapsed.rankings.scores,
        chunks=found.collapsed.units,
        dropped=found.collapsed.dropped,
        read=found.read,
    )
    write_text(folder / "index.json", json.dumps(index))


def _load_rankings(folder: Path) -> tuple[Retrieved, dict[str, Any]]:
    columns = np.load(folder / "rankings.npz")
    rankings = Rankings(columns["documents"], columns["scores"])
    index: dict[str, Any] = json.loads((folder / "index.json").read_text())
    return Retrieved(Collapsed(rankings, columns["chunks"], columns["dropped"]), columns["read"]), index


@contextmanager
def _timed(timings: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    timings[name] = time.perf_counter() - start
