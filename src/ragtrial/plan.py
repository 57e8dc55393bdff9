"""The stages that search: rankings, latency and audit of a setting, each under the fingerprint of what changes it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ragtrial.context_sizes import context_sizes, token_counts
from ragtrial.dataset.chunks import Chunks
from ragtrial.drilldown import FoundText
from ragtrial.embedders import Embedder
from ragtrial.errors import StoreError
from ragtrial.grading import Unit
from ragtrial.ground import Ground
from ragtrial.latency import measure_latency
from ragtrial.opened import Opened
from ragtrial.outcomes import Audited, SettingRankings
from ragtrial.progress import Progress, stage
from ragtrial.rankings import PADDING, Codes, Counts, Floats
from ragtrial.retrievers import Retrieved
from ragtrial.setting import Setting
from ragtrial.storage.arrays import read_array, write_array
from ragtrial.storage.atomic import write_text
from ragtrial.storage.fingerprints import fingerprint
from ragtrial.stores.exact import ExactStore

T = TypeVar("T")

AUDITED_BELOW = 100_000
"""Indexes of fewer vectors are always compared with exact search; it takes a second or two per thousand queries."""


class Plan:
    """Makes stages and keeps them: what is finished is never made again, here or in another run.

    ``unit`` is what rankings are of: documents, or, for passages in them, chunks. ``latency`` measures single queries;
    ``audit`` compares with exact search also indexes of many vectors. The sizes of contexts are counted in tokens of
    ``counted_by``, so that they are the same for all settings; by default of each setting's own embedder.
    """

    def __init__(
        self,
        ground: Ground,
        progress: Progress,
        *,
        unit: Unit = "document",
        counted_by: Embedder | None = None,
        latency: bool = False,
        audit: bool = False,
        seed: int = 0,
    ) -> None:
        self.ground = ground
        self._unit = unit
        self._counted_by = counted_by
        self._workspace = ground.workspace
        self._progress = progress
        self._latency = latency
        self._audit = audit
        self._seed = seed

    def rankings(self, setting: Setting, queries: Sequence[str]) -> SettingRankings:
        """The ranked documents of ``setting`` for the texts of ``queries``.

        Raises RunError if a stage fails; the stages before it are kept.
        """
        timings: dict[str, float] = {}
        with _timed(timings, "chunks"):
            chunks = self.ground.chunks(setting)
            too_long = self.ground.too_long(setting, queries)
        with _timed(timings, "embeddings"):
            health = self.ground.embeddings(setting, chunks).health
        with _timed(timings, "index"):
            index = self.ground.index(setting, chunks)
        with _timed(timings, "retrieval"):
            retrieved = self._found(setting, chunks, queries)
            tokens = self._tokens(setting, chunks, queries, retrieved)
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
            sizes=context_sizes(chunks, retrieved.collapsed.units, tokens),
            index=self.ground.index(setting, chunks).description,
            health=health,
            too_long=too_long,
            timings=timings,
            latency=latency,
            audited=audited,
        )

    def search(self, setting: Setting, text: str) -> list[FoundText]:
        """What ``setting`` finds for one text that no label knows."""
        chunks = self.ground.chunks(setting)
        with self._alone(setting, chunks), self._opened(setting, chunks) as opened:
            found = opened.retrieve([text]).collapsed
        scores = found.rankings.scores[0].tolist()
        hits = []
        for rank, (unit, score) in enumerate(zip(found.units[0].tolist(), scores, strict=True), 1):
            if unit != PADDING:
                title, span = self.ground.library.titles[int(chunks.document[unit])], chunks.span(unit)
                where = (chunks.document_id(unit), title, span.start, span.end)
                hits.append(FoundText(rank, *where, score, chunks.text(unit), pages=chunks.pages(unit)))
        return hits

    @contextmanager
    def _alone(self, setting: Setting, chunks: Chunks) -> Iterator[None]:
        """No other process has the index of ``setting`` open meanwhile, if it is one that does not bear it."""
        index = self.ground.index(setting, chunks)
        with (
            nullcontext()
            if setting.store.is_exact
            else self._workspace.lock(f"open-{index.folder.name}", f"the {setting.store.kind} index of {setting.name}")
        ):
            yield

    @contextmanager
    def _opened(self, setting: Setting, chunks: Chunks) -> Iterator[Opened]:
        """The retriever of ``setting``, ready to search. The caller must be ``_alone``."""
        vectors = self.ground.vectors(setting, chunks)
        # Chroma finds nothing in a graph with other bytes, or ends the process.
        folder = self.ground.index(setting, chunks, every_byte=True).folder
        try:
            index = setting.store.open(vectors, folder)
        except StoreError as error:
            self._workspace.drop_damaged(
                "indexes", folder.name, self._workspace.build_id("indexes", folder.name), error
            )
            index = setting.store.open(vectors, self.ground.index(setting, chunks).folder)
        try:
            yield Opened(setting, self._unit_of(chunks), index, self.ground.embedder(setting.embedder))
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

    def _tokens(self, setting: Setting, chunks: Chunks, queries: Sequence[str], retrieved: Retrieved) -> Counts | None:
        """Tokens of each chunk that was found, in the shape of the rankings; None without a tokenizer."""
        tokenizer = self.ground.embedder(self._counted_by or setting.embedder).tokenizer
        if tokenizer is None:
            return None
        name = fingerprint(["sizes", self._searched_name("rankings", setting, chunks, queries), tokenizer.fingerprint])

        def build(folder: Path) -> None:
            write_array(folder / "tokens.npy", token_counts(chunks, retrieved.collapsed.units, tokenizer))

        def read(folder: Path) -> Counts:
            return read_array(folder / "tokens.npy")

        return self._workspace.load("sizes", name, f"sizes of what {setting.name} finds", build, read)

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
            vectors = self.ground.embedder(setting.embedder).embed_queries(queries)
            units = self._found(setting, chunks, queries).collapsed.units
            index = store.open(self.ground.vectors(setting, chunks), folder)
            write_array(folder / "scores.npy", index.scores_of(vectors, units))

        name = fingerprint(["exact scores", self._searched_name("rankings", setting, chunks, queries)])
        what = f"exact scores of {setting.name}"
        return self._workspace.load("rescored", name, what, build, lambda folder: read_array(folder / "scores.npy"))

    def _unit_of(self, chunks: Chunks) -> Codes:
        """The document of each chunk, or each chunk itself: what rankings are of, shape (chunks,)."""
        return chunks.document if self._unit == "document" else np.arange(len(chunks), dtype=np.int32)

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
        return self._workspace.read(kind, lambda: self._made_by_search(kind, setting, chunks, queries, build), read)

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
        if not self._workspace.has(kind, name):
            # The index is locked before the stage is: whoever waits for a stage holds nothing that its builder needs.
            with self._alone(setting, chunks):
                name = self._searched_name(kind, setting, chunks, queries)
                if not self._workspace.has(kind, name):  # another run may have made it meanwhile
                    with self._opened(setting, chunks) as opened:
                        # Opening may have built a damaged index again: what it finds goes by another name.
                        name = self._searched_name(kind, setting, chunks, queries)
                        self._workspace.stage(kind, name, f"{kind} of {setting.name}", partial(build, opened))
        self._workspace.mark(kind, name)
        return name

    def _searched_name(self, kind: str, setting: Setting, chunks: Chunks, queries: Sequence[str] | None) -> str:
        """The name of a stage that is made by a search for ``queries``; None where it is about the index alone."""
        index = self.ground.index(setting, chunks)
        asked: list[Any] = [] if queries is None else [self._query_side(setting), list(queries)]
        if kind == "latency":  # which depends on more than what is found does
            asked += [self._seed, setting.embedder.model_dump(mode="json").get("device")]
        return fingerprint([kind, index.folder.name, index.id, *asked])

    def _query_side(self, setting: Setting) -> list[Any]:
        return [setting.retriever.identity(), self.ground.embedder(setting.embedder).query_prefix, self._unit]


@contextmanager
def _timed(timings: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    timings[name] = time.perf_counter() - start
