"""The stages that make a setting's rankings: each under the fingerprint of all that changes it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, astuple, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ragtrial.chunkers.cutting import cut
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.documents import OnError, corpus_fingerprint
from ragtrial.dataset.library import Library
from ragtrial.dataset.passages import locate
from ragtrial.drilldown import FoundText
from ragtrial.embedders import Embedder
from ragtrial.embedders.cached import CachedEmbedder, TextList
from ragtrial.errors import ModelNotFoundError, RunError, StoreError
from ragtrial.health import LengthWatch
from ragtrial.latency import measure_latency
from ragtrial.opened import Opened
from ragtrial.outcomes import Audited, BuiltIndex, Embeddings, SettingRankings
from ragtrial.progress import Progress, stage
from ragtrial.rankings import PADDING, Counts, Floats
from ragtrial.records import Span
from ragtrial.retrievers import Retrieved
from ragtrial.setting import Setting
from ragtrial.storage.arrays import read_array, write_array, write_rows
from ragtrial.storage.atomic import write_text
from ragtrial.storage.fingerprints import fingerprint
from ragtrial.storage.workspace import Workspace
from ragtrial.stores import Vectors
from ragtrial.stores.exact import ExactStore
from ragtrial.tokenizers import Tokenizer

T = TypeVar("T")

AUDITED_BELOW = 100_000
"""Indexes of fewer vectors are always compared with exact search; it takes a second or two per thousand queries."""


class Plan:
    """Makes stages and keeps them: what is finished is never made again, here or in another run.

    ``latency`` measures single queries; ``audit`` compares with exact search also indexes of many vectors.
    """

    def __init__(
        self,
        workspace: Workspace,
        corpus: Path,
        progress: Progress,
        *,
        on_error: OnError = "stop",
        latency: bool = False,
        audit: bool = False,
        seed: int = 0,
    ) -> None:
        self.workspace = workspace
        self._progress = progress
        self._latency = latency
        self._audit = audit
        self._seed = seed
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
            too_long = self.too_long(setting, queries)
        with _timed(timings, "embeddings"):
            health = self._embeddings(setting, chunks).health
        with _timed(timings, "index"):
            index = self._index(setting, chunks)
        with _timed(timings, "retrieval"):
            retrieved = self._found(setting, chunks, queries)
        latency, audited = None, None
        if self._latency:
            with _timed(timings, "latency"):
                latency = self._measured(setting, chunks, queries)
        if not setting.store.is_exact and (self._audit or len(chunks) < AUDITED_BELOW):
            with _timed(timings, "audit"):
                audited = self._audited(setting, chunks, queries)
        return SettingRankings(
            setting=setting,
            fingerprint=fingerprint(["setting", index.folder.name, self._query_side(setting)]),
            chunks=chunks,
            retrieved=retrieved,
            index=self._index(setting, chunks).description,
            health=health,
            too_long=too_long,
            timings=timings,
            latency=latency,
            audited=audited,
        )

    def located(self, passages: Iterable[str], library: Library) -> dict[str, dict[int, tuple[Span, ...]]]:
        """The documents of ``library`` that hold each of ``passages``, and where; as ``passages.locate`` finds them."""
        wanted = sorted(set(passages))

        def build(folder: Path) -> None:
            with stage(self._progress, "passages", len(wanted), "passages"):
                found = locate(wanted, library)
            rows = [
                [[position, [astuple(span) for span in spans]] for position, spans in found[one].items()]
                for one in wanted
            ]
            write_text(folder / "places.json", json.dumps(rows))

        def read(folder: Path) -> dict[str, dict[int, tuple[Span, ...]]]:
            rows = json.loads((folder / "places.json").read_text())
            return {
                passage: {position: tuple(Span(*span) for span in spans) for position, spans in places}
                for passage, places in zip(wanted, rows, strict=True)
            }

        name = fingerprint(["passages", self.documents, wanted])
        return self.workspace.load("passages", name, "places of passages", build, read)

    def chunks(self, setting: Setting) -> Chunks:
        """The chunks of ``setting``."""
        tokenizer = self._unit_tokenizer(setting)
        counted = [tokenizer.fingerprint, tokenizer.special_tokens] if tokenizer else None
        name = fingerprint(["chunks", self.documents, setting.chunker.identity(), counted])

        def build(folder: Path) -> None:
            with stage(self._progress, "chunks", len(self.library), "documents") as progress:
                cut(self.library, setting.chunker, tokenizer, progress.advance).write(folder)

        what = f"chunks ({setting.chunker.summary()})"
        return self.workspace.load("chunks", name, what, build, partial(Chunks, self.library))

    def too_long(self, setting: Setting, queries: Sequence[str]) -> dict[str, int | None]:
        """How many chunks and queries are longer than the model reads (None: not known); loads no model."""
        embedder, texts = self._embedder(setting.embedder), TextList(queries)
        return {
            "chunks": embedder.count_too_long(self._lengths(setting, self.chunks(setting))),
            "queries": embedder.count_too_long(embedder.lengths(texts, embedder.query_prefix)),
        }

    def search(self, setting: Setting, text: str) -> list[FoundText]:
        """What ``setting`` finds for one text that no label knows."""
        chunks = self.chunks(setting)
        with self._alone(setting, chunks), self._opened(setting, chunks) as opened:
            found = opened.retrieve([text]).collapsed
        scores = found.rankings.scores[0].tolist()
        hits = []
        for rank, (unit, score) in enumerate(zip(found.units[0].tolist(), scores, strict=True), 1):
            if unit != PADDING:
                title, span = self.library.titles[int(chunks.document[unit])], chunks.span(unit)
                where = (chunks.document_id(unit), title, span.start, span.end)
                hits.append(FoundText(rank, *where, score, chunks.text(unit), pages=chunks.pages(unit)))
        return hits

    def _lengths(self, setting: Setting, chunks: Chunks) -> Counts:
        """How long each chunk is for the model, shape (chunks,); see ``CachedEmbedder.lengths``."""
        embedder = self._embedder(setting.embedder)
        counted_by = embedder.tokenizer.fingerprint if embedder.tokenizer else None
        name = fingerprint(["lengths", chunks.name, embedder.document_prefix, counted_by])

        def build(folder: Path) -> None:
            write_array(folder / "lengths.npy", embedder.lengths(chunks, embedder.document_prefix))

        return self.workspace.load("lengths", name, "lengths of chunks", build, _read_lengths)

    def _embeddings(self, setting: Setting, chunks: Chunks, *, every_byte: bool = False) -> Embeddings:
        """The vectors of all chunks; with ``every_byte`` they are checked to be what was written."""
        embedder = self._embedder(setting.embedder)
        self.workspace.mark("vectors", embedder.path.stem)
        name = fingerprint(["embeddings", chunks.name, embedder.fingerprint, embedder.document_prefix])

        def build(folder: Path) -> None:
            lengths = self._lengths(setting, chunks)
            with stage(self._progress, "embeddings", len(chunks), "chunks") as progress:
                made = embedder.embed(chunks, embedder.document_prefix, lengths, progress.advance)
                seen = LengthWatch()
                write_rows(folder / "vectors.npy", seen.watch(made.blocks()), (len(chunks), made.dimension))
            health = seen.health(len(chunks), made.distinct, made.dimension)
            write_text(folder / "health.json", json.dumps(asdict(health)))

        what = f"embeddings ({setting.embedder.summary()})"
        return self.workspace.load("embeddings", name, what, build, Embeddings.read, every_byte=every_byte)

    def _index(self, setting: Setting, chunks: Chunks, *, every_byte: bool = False) -> BuiltIndex:
        """The built index; with ``every_byte`` it is checked to be what was written."""
        embeddings = self._embeddings(setting, chunks)
        name = fingerprint(["index", embeddings.name, setting.store.identity()])

        def build(folder: Path) -> None:
            if not setting.store.is_exact:  # which needs none: the vectors are all there is to it
                vectors = self._vectors(setting, chunks)
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

    def _vectors(self, setting: Setting, chunks: Chunks) -> Vectors:
        """The vectors of all chunks, with the order that breaks ties."""
        by_id = np.lexsort((chunks.start, self.library.id_order[chunks.document]))
        order = np.empty(len(chunks), dtype=np.int64)
        order[by_id] = np.arange(len(chunks))
        return Vectors(self._embeddings(setting, chunks, every_byte=True).matrix, order)

    @contextmanager
    def _alone(self, setting: Setting, chunks: Chunks) -> Iterator[None]:
        """No other process has the index of ``setting`` open meanwhile, if it is one that does not bear it."""
        index = self._index(setting, chunks)
        with (
            nullcontext()
            if setting.store.is_exact
            else self.workspace.lock(f"open-{index.folder.name}", f"the {setting.store.kind} index of {setting.name}")
        ):
            yield

    @contextmanager
    def _opened(self, setting: Setting, chunks: Chunks) -> Iterator[Opened]:
        """The retriever of ``setting``, ready to search. The caller must be ``_alone``."""
        vectors = self._vectors(setting, chunks)
        # Chroma finds nothing in a graph with other bytes, or ends the process.
        folder = self._index(setting, chunks, every_byte=True).folder
        try:
            index = setting.store.open(vectors, folder)
        except StoreError as error:
            self.workspace.drop_damaged("indexes", folder.name, self.workspace.build_id("indexes", folder.name), error)
            index = setting.store.open(vectors, self._index(setting, chunks).folder)
        try:
            yield Opened(setting, chunks, index, self._embedder(setting.embedder))
        finally:
            index.close()

    def _found(self, setting: Setting, chunks: Chunks, queries: Sequence[str]) -> Retrieved:
        """The rankings of ``setting``."""

        def build(opened: Opened, folder: Path) -> None:
            with stage(self._progress, f"retrieval ({setting.name})", len(queries), "queries") as progress:
                found = opened.retrieve(queries)
                progress.advance(len(queries))
            found.save(folder)

        return self._searched("rankings", setting, chunks, queries, build, Retrieved.load)

    def _measured(self, setting: Setting, chunks: Chunks, queries: Sequence[str]) -> dict[str, Any] | None:
        """How long single queries take, or took when it was measured."""

        def build(opened: Opened, folder: Path) -> None:
            with stage(self._progress, f"latency ({setting.name})"):
                latency = measure_latency(opened.retrieve_alone, queries, self._seed)
            write_text(folder / "latency.json", json.dumps(latency))

        def read(folder: Path) -> dict[str, Any] | None:
            latency: dict[str, Any] | None = json.loads((folder / "latency.json").read_text())
            if latency is not None and not isinstance(latency, dict):
                raise ValueError("it is no measurement")
            return latency

        return self._searched("latency", setting, chunks, queries, build, read)

    def _audited(self, setting: Setting, chunks: Chunks, queries: Sequence[str]) -> Audited:
        """What the index of ``setting`` is compared with."""

        def build(opened: Opened, folder: Path) -> None:
            with stage(self._progress, f"reach ({setting.name})", len(chunks), "vectors"):
                unreachable = opened.index.unreachable()
            write_text(folder / "unreachable.json", json.dumps(unreachable))

        def read(folder: Path) -> int:
            return int(json.loads((folder / "unreachable.json").read_text()))

        unreachable = self._searched("reach", setting, chunks, None, build, read)
        store = ExactStore(space=setting.store.space)
        exact = self._found(replace(setting, name=f"{setting.name}, exact", store=store), chunks, queries)
        return Audited(exact, self._exact_scores(setting, chunks, queries, store), unreachable)

    def _exact_scores(self, setting: Setting, chunks: Chunks, queries: Sequence[str], store: ExactStore) -> Floats:
        """The exact scores of the chunks that ``setting`` found, shape (queries, depth), NaN at the padding."""

        def build(folder: Path) -> None:
            vectors = self._embedder(setting.embedder).embed_queries(queries)
            units = self._found(setting, chunks, queries).collapsed.units
            index = store.open(self._vectors(setting, chunks), folder)
            write_array(folder / "scores.npy", index.scores_of(vectors, units))

        name = fingerprint(["exact scores", self._searched_name("rankings", setting, chunks, queries)])
        what = f"exact scores of {setting.name}"
        return self.workspace.load("rescored", name, what, build, lambda folder: read_array(folder / "scores.npy"))

    def _searched(
        self,
        kind: str,
        setting: Setting,
        chunks: Chunks,
        queries: Sequence[str] | None,
        build: Callable[[Opened, Path], None],
        read: Callable[[Path], T],
    ) -> T:
        """What is kept of a stage that is made with the index at work; one that cannot be read is made once again."""
        return self.workspace.read(kind, lambda: self._made_by_search(kind, setting, chunks, queries, build), read)

    def _made_by_search(
        self,
        kind: str,
        setting: Setting,
        chunks: Chunks,
        queries: Sequence[str] | None,
        build: Callable[[Opened, Path], None],
    ) -> str:
        """The name of such a stage, which is there; the index is opened only to make it."""
        name = self._searched_name(kind, setting, chunks, queries)
        if not self.workspace.has(kind, name):
            # The index is locked before the stage is: whoever waits for a stage holds nothing that its builder needs.
            with self._alone(setting, chunks):
                name = self._searched_name(kind, setting, chunks, queries)
                if not self.workspace.has(kind, name):  # another run may have made it meanwhile
                    with self._opened(setting, chunks) as opened:
                        # Opening may have built a damaged index again: what it finds goes by another name.
                        name = self._searched_name(kind, setting, chunks, queries)
                        self.workspace.stage(kind, name, f"{kind} of {setting.name}", partial(build, opened))
        self.workspace.mark(kind, name)
        return name

    def _searched_name(self, kind: str, setting: Setting, chunks: Chunks, queries: Sequence[str] | None) -> str:
        """The name of a stage that is made by a search for ``queries``; None where it is about the index alone."""
        index = self._index(setting, chunks)
        asked: list[Any] = [] if queries is None else [self._query_side(setting), list(queries)]
        if kind == "latency":  # which depends on more than what is found does
            asked += [self._seed, setting.embedder.model_dump(mode="json").get("device")]
        return fingerprint([kind, index.folder.name, index.id, *asked])

    def _embedder(self, embedder: Embedder) -> CachedEmbedder:
        """One for all settings with this embedder, so that its model is loaded once."""
        if embedder not in self._embedders:
            folder = self.workspace.root / "vectors"
            self._embedders[embedder] = CachedEmbedder(embedder, folder, self.workspace.digests.digest)
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


def _read_lengths(folder: Path) -> Counts:
    return read_array(folder / "lengths.npy")


@contextmanager
def _timed(timings: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    timings[name] = time.perf_counter() - start
