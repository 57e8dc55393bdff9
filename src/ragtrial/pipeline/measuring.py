"""The stages beside the rankings of a setting: the latency of its queries, and the audit of its index."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ragtrial.cache.arrays import read_array, write_array
from ragtrial.cache.atomic import write_text
from ragtrial.components.stores.exact import ExactStore
from ragtrial.config.settings import Setting
from ragtrial.dataset.chunks import Chunks
from ragtrial.pipeline.demands import exact_twin, own_demand
from ragtrial.pipeline.ground import Ground
from ragtrial.pipeline.latency import measure_latency
from ragtrial.pipeline.opened import Opened
from ragtrial.pipeline.outcomes import Audited
from ragtrial.pipeline.searching import Demand, Ranked
from ragtrial.pipeline.work import work_of_audit, work_of_latency
from ragtrial.progress import Progress, stage
from ragtrial.rankings import Floats
from ragtrial.records import Question, Unit

T = TypeVar("T")


class Opens(Protocol):
    """Puts a setting to work; with ``is_fresh`` nothing that depends on a question is read from the disk."""

    def __call__(self, setting: Setting, *, is_fresh: bool = False) -> AbstractContextManager[Opened]: ...


class Measuring:
    """Measures settings over ``ground``, and keeps what it found.

    ``opens`` puts a setting to work, ``ranked`` gives its rankings; ``seed`` chooses the questions.
    """

    def __init__(
        self,
        ground: Ground,
        progress: Progress,
        opens: Opens,
        ranked: Callable[[Setting, Sequence[Question], Demand], Ranked],
        unit: Unit,
        seed: int,
    ) -> None:
        self._ground = ground
        self._workspace = ground.workspace
        self._progress = progress
        self._open = opens
        self._ranked = ranked
        self._unit: Unit = unit
        self._seed = seed

    def latency(self, setting: Setting, questions: Sequence[Question]) -> dict[str, Any] | None:
        """How long single queries take, or took when it was measured."""

        def name() -> str:
            self._ground.stand(setting)
            return self._ground.names.latency(setting, questions, self._unit, self._seed)

        def build(opened: Opened, folder: Path) -> None:
            start, demand = time.perf_counter(), own_demand(setting)
            with stage(self._progress, f"latency ({setting.name})"):
                latency = measure_latency(lambda one: opened.ranked([one], demand), questions, self._seed)
            write_text(folder / "latency.json", json.dumps(latency))
            asked = latency["n"] if latency else 0
            self._workspace.rates.note(work_of_latency(setting), asked, time.perf_counter() - start)

        def read(folder: Path) -> dict[str, Any] | None:
            latency: dict[str, Any] | None = json.loads((folder / "latency.json").read_text())
            if latency is not None and not isinstance(latency, dict):
                raise ValueError("it is no measurement")
            return latency

        return self._searched("latency", name, setting, build, read)

    def audited(self, setting: Setting, questions: Sequence[Question]) -> Audited:
        """What the index of ``setting`` is compared with."""
        chunks = self._ground.chunks(setting)

        def build(opened: Opened, folder: Path) -> None:
            with stage(self._progress, f"reach ({setting.name})", len(chunks), "vectors"):
                start = time.perf_counter()
                unreachable = opened.index().unreachable()
                self._workspace.rates.note(work_of_audit(setting), len(chunks), time.perf_counter() - start)
            write_text(folder / "unreachable.json", json.dumps(unreachable))

        def read(folder: Path) -> int:
            return int(json.loads((folder / "unreachable.json").read_text()))

        def name() -> str:
            self._ground.stand(setting)
            return self._ground.names.unreachable(setting)

        unreachable = self._searched("reach", name, setting, build, read)
        exact = self._ranked(exact_twin(setting), questions, own_demand(setting)).retrieved
        return Audited(exact, self._exact_scores(setting, chunks, questions), unreachable)

    def _exact_scores(self, setting: Setting, chunks: Chunks, questions: Sequence[Question]) -> Floats:
        """The exact scores of the chunks that ``setting`` found, shape (queries, depth), NaN at the padding."""

        def build(folder: Path) -> None:
            vectors = self._ground.embedder(setting.embedder).embed_queries([question.text for question in questions])
            units = self._ranked(setting, questions, own_demand(setting)).retrieved.units
            index = ExactStore(space=setting.store.space).open(self._ground.vectors(setting, chunks), folder)
            write_array(folder / "scores.npy", index.scores_of(vectors, units))

        self._ground.stand(setting)
        name = self._ground.names.rescored(setting, questions, self._unit)
        what = f"exact scores of {setting.name}"
        return self._workspace.load("rescored", name, what, build, lambda folder: read_array(folder / "scores.npy"))

    def _searched(
        self,
        kind: str,
        name: Callable[[], str],
        setting: Setting,
        build: Callable[[Opened, Path], None],
        read: Callable[[Path], T],
    ) -> T:
        """What is kept of a stage that is made with the setting at work; one that cannot be read is made once again."""

        def make() -> str:
            if not self._workspace.has(kind, name()):
                # Indexes are locked before the stage is: whoever waits for a stage holds nothing its builder needs.
                with self._open(setting, is_fresh=kind == "latency") as opened:
                    if not self._workspace.has(kind, name()):  # another run may have made it meanwhile
                        self._workspace.stage(kind, name(), f"{kind} of {setting.name}", partial(build, opened))
            self._workspace.mark(kind, name())
            return name()

        return self._workspace.read(kind, make, read)
