"""The rankings of a setting: what it finds for every question."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.workspace import DAMAGE, Workspace
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.config.settings import Setting, of_part
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.errors import RunError
from ragtrial.pipeline.chunk_stage import ChunkStage, embedder_inputs, embedder_names
from ragtrial.pipeline.document_stage import DocumentStage
from ragtrial.pipeline.open_setting import OpenSetting, open_setting
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.retrieval import RANKINGS_FORMAT, Depth, Ranked, skipped_in, stages_kept
from ragtrial.pipeline.setting_stages import SettingStages
from ragtrial.pipeline.stage import (
    Amount,
    Artefacts,
    Inputs,
    Known,
    Stage,
    dotted_options,
    options_and_code,
)
from ragtrial.progress import stage
from ragtrial.records import Question, Unit


class RankingStage(Stage[Ranked]):
    """The rankings of ``questions``, as deep as all need them that are made of them.

    ``width`` is how widely is searched for them, where that changes what is found (see ``Store.width``). The depth is
    no part of what later stages depend on: it follows the key, and deeper rankings that are kept serve as well.
    """

    kind = "rankings"
    shown_as = "rankings"
    is_read_whole = True

    def __init__(
        self,
        resources: Resources,
        documents: DocumentStage,
        stages: SettingStages,
        parts: Sequence[RankingStage],
        questions: Sequence[Question],
        unit: Unit,
        depth: Depth,
        width: int | None,
    ) -> None:
        self.stages = stages
        self.setting: Setting = stages.setting
        self.parts = tuple(parts)
        self.questions = questions
        self.depth = depth
        self._resources = resources
        self._documents = documents
        self._unit: Unit = unit
        self._width = width
        chunked = [one.chunks for one in stages.tree() if one.chunks and "chunker" in one.setting.retriever.reached_by]
        self._chunks: tuple[ChunkStage, ...] = tuple(dict.fromkeys(chunked))
        last = () if stages.last is None else (stages.last,)
        self.needs = (documents, *last, *self.parts)
        self.reads = (documents, *self._chunks)

    @cached_property
    def _embedder(self) -> CachedEmbedder | None:
        is_reached = "embedder" in self.setting.retriever.reached_by
        return self._resources.embedder(self.setting.embedder) if is_reached else None

    def inputs(self) -> Inputs:
        retriever, reached = self.setting.retriever, self.setting.retriever.reached_by
        found = options_and_code("retriever", retriever, retriever.identity(), "retriever code")
        found[f"retriever {retriever.inputs_are}"] = fingerprint(retriever.inputs(self._resources.digest))
        asked = self._resources.asked(retriever, self.questions)
        found |= {"questions": asked, "evaluators.unit": self._unit, "rankings format": RANKINGS_FORMAT}
        if "context" in reached and "chunker" not in reached:
            found |= dotted_options("context", self.setting.context.identity())
        if self._embedder is not None:
            found |= embedder_inputs(self._embedder) | {"embedder.query_prefix": self._embedder.query_prefix}
        return found if self._width is None else found | {"search width": self._width}

    @cached_property
    def whatever_is_asked(self) -> str:
        """Equal for rankings of equal settings, whatever these are asked."""
        own = {name: value for name, value in self.inputs().items() if name != "questions"}
        corpus = [need.spec for need in self.needs if not isinstance(need, RankingStage)]
        return fingerprint([own, corpus, [part.whatever_is_asked for part in self.parts]])

    def names(self) -> Inputs:
        named = embedder_names(self.setting) if self._embedder is not None else {}
        return {"retriever.top_k": self.depth.units, "hits looked at": self.depth.candidates, **named}

    def identity(self) -> str:
        return super().key()

    def key(self) -> str:
        return f"{self.identity()}-{self.depth.candidates}-{self.depth.units}"

    def kept_key(self, workspace: Workspace) -> str | None:
        """Its own rankings, or the least deep ones that are deep enough."""
        own, base = self.key(), self.identity()
        if workspace.has(self.kind, own):
            return own
        deeper = []
        for path in workspace.path(self.kind, base).parent.glob(f"{base}-*"):
            candidates, units = (int(number) for number in path.name.split("-")[1:])
            if Depth(candidates, units).covers(self.depth) and workspace.has(self.kind, path.name):
                deeper.append((candidates + units, path.name))
        return min(deeper)[1] if deeper else None

    @property
    def title(self) -> str:
        return f"rankings of {self.setting.name}"

    @contextmanager
    def opened(self, artefacts: Artefacts) -> Iterator[Sequence[Any]]:
        library = artefacts.artefact(self._documents)
        chunks = [artefacts.artefact(one) for one in self._chunks]
        with open_setting(self._resources, library, self.stages, artefacts, self._unit, with_parts=False) as setting:
            yield setting, {one.name: one for one in chunks}

    def build(self, folder: Path, setting: OpenSetting, known: Mapping[str, Chunks], *artefacts: Any) -> Ranked:
        parts = artefacts[len(artefacts) - len(self.parts) :]
        looked_at = Depth(candidates=self.setting.depth_of_parts)
        start = time.perf_counter()
        count = len(self.questions)
        with stage(self._resources.progress, f"retrieval ({self.setting.name})", count, "queries") as progress:
            if self.parts:
                found = [part.cut(looked_at).candidates for part in parts]
                ranked = setting.refined(self.questions, found, self.depth)
                progress.advance(count)
            else:
                ranked = setting.retrieved(self.questions, self.depth, progress.advance)
        self._resources.workspace.rates.note(*self._work, time.perf_counter() - start)
        ranked = replace(ranked, stages=frozenset(setting.kept))
        ranked.save(folder, known)
        return ranked

    def load(self, folder: Path, library: Library, *chunks: Chunks) -> Ranked:
        return Ranked.load(folder, library, {one.name: one for one in chunks})

    def is_incomplete(self, artefact: Ranked) -> bool:
        return bool(artefact.skipped.any())

    def failure(self, need: Stage[Any], error: Exception) -> Exception:
        """A failure in a part says whose it is."""
        part = next((name for name, one in zip(self.setting.parts, self.parts, strict=True) if one is need), None)
        return of_part(part, error) if part is not None and isinstance(error, RunError) else error

    def mark_used(self) -> set[tuple[str, str]]:
        """Note as used all that its parts' retrievers and its own keep. Gives kind and name of these stages."""
        workspace, used = self._resources.workspace, set[tuple[str, str]]()
        if self._embedder is not None:
            self._resources.mark_vectors(self.setting.embedder)
        name = self.kept_key(workspace)
        if name is not None:
            workspace.mark(self.kind, name)
            with suppress(*DAMAGE):
                used |= stages_kept(workspace.path(self.kind, name))
        for part in self.parts:
            used |= part.mark_used()
        for kind, name in used:
            workspace.mark(kind, name)
        return used

    @property
    def _work(self) -> tuple[str, int]:
        """What goes at one rate, and how much of it there is: questions, of a refiner the hits that it looks at."""
        retriever = self.setting.retriever
        options = retriever.model_dump(mode="json")
        kinds = [retriever.kind, self.setting.store.kind if self.setting.has_index else ""]
        rate = " ".join(["rankings", *filter(None, [*kinds, options.get("model") or options.get("function")])])
        wordings = len(self.setting.wordings(self.questions))
        return rate, wordings * self.setting.depth_of_parts * len(self.parts) if self.parts else len(self.questions)

    def label(self) -> str:
        return f"{self.setting.name} ({self.setting.retriever.kind})"

    def amount(self, known: Known) -> Amount:
        name = self.kept_key(self._resources.workspace) if known(self) is not None else None
        count = len(self.questions)
        skipped = skipped_in(self._resources.workspace.path(self.kind, name)) if name else 0
        seconds = self._resources.seconds(*self._work)
        if skipped and seconds is not None:
            seconds *= skipped / max(1, count)
        return Amount(count, "questions", skipped or count, seconds=seconds)
