"""How long a query takes when it comes alone."""

from __future__ import annotations

import json
import os
import platform
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ragtrial.cache.atomic import write_text
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.workspace import Workspace
from ragtrial.components.interfaces import Candidates
from ragtrial.components.refiners import Refiner
from ragtrial.errors import listed
from ragtrial.pipeline.ranking_stage import OpenSetting, RankingStage, SettingStages, open_setting
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.retrieval import Depth, Ranked
from ragtrial.pipeline.stage import Amount, Inputs, KeptArtefacts, Runner, Stage
from ragtrial.rankings import Rankings
from ragtrial.records import Question, ReportWarning, Unit
from ragtrial.report.schema import LatencyPart

SAMPLE = 50
_WARM_UP = 3
_PERCENTILES = (25, 50, 75, 95, 99)


@dataclass(frozen=True)
class Latency:
    """The measured latency: ``summary`` has the fields of ``LatencyPart``, ``seconds`` has each query, by its text."""

    summary: Mapping[str, Any]
    seconds: Mapping[str, float]

    def after(self, parts: Sequence[Latency]) -> Latency:
        """The latency of queries for which all of ``parts`` are asked first, in sequence."""
        steps = [self, *parts]
        seconds = {asked: sum(step.seconds[asked] for step in steps) for asked in self.seconds}
        loads, shares = ([step.summary[name] for step in steps] for name in ("load", "waited"))
        took = [sum(step.seconds[asked] for asked in seconds) for step in steps]
        others = {
            "load": None if None in loads else max(loads),
            "waited": None if None in shares else float(np.average(shares, weights=took)),
        }
        return Latency({**self.summary, **_percentiles(list(seconds.values())), **others}, seconds)


@dataclass(eq=False)
class LatencyStage(Stage[Latency | None]):
    """The latency of single queries of a setting, with its indexes open and warm; None without queries.

    An earlier measurement of other queries serves as well, unless it had half as many or fewer.

    The latency of a refiner is the sum of its own time, over the hits of its ``parts``, and of the latency of the
    parts, which are measured once for all settings. If the parts were measured with too few of these queries, or on
    another machine, the whole is measured together.
    """

    kind = "latency"
    shown_as = "latency"

    resources: Resources
    stages: SettingStages
    ranking: RankingStage
    parts: tuple[LatencyStage, ...]
    unit: Unit
    depth: Depth
    seed: int

    def __post_init__(self) -> None:
        self.needs = (self.ranking, *self.parts)
        self._questions = self.ranking.questions
        self._count = min(len(self._questions), SAMPLE)
        setting, looked_at = self.stages.setting, self.depth.candidates
        searched = [setting] if self.parts else [one.setting for one in self.stages.tree()]
        self._rate = " ".join(["latency", *(one.retriever.kind for one in searched)])
        self.label = f"{setting.name}, {looked_at:,} hits" if looked_at else setting.name
        self.title = f"latency of {self.label}"

    def inputs(self) -> Inputs:
        tree = [one.setting for one in self.stages.tree()]
        devices = [options.model_dump().get("device") for one in tree for options in (one.embedder, one.retriever)]
        # A retriever gets one question at a time, so its batches do not matter; a refiner gets many hits.
        refiners = [one.retriever.model_dump() for one in tree if isinstance(one.retriever, Refiner)]
        batches = [options["batch_size"] for options in refiners if "batch_size" in options]
        depth = {"top_k": self.depth.units, "hits looked at": self.depth.candidates}
        return {**depth, "seed": self.seed, "devices": devices, "batches": batches}

    def key(self) -> str:
        return f"{self._base}-{self._count}"

    @cached_property
    def _base(self) -> str:
        return fingerprint([self.input_fingerprint, self.ranking.query_free_fingerprint])

    def kept_key(self, workspace: Workspace) -> str | None:
        """The kept measurement with the most queries."""
        found = [int(path.name.rpartition("-")[2]) for path in (workspace.root / self.kind).glob(f"{self._base}-*")]
        for count in sorted(found, reverse=True):
            if 2 * count > self._count and workspace.has(self.kind, name := f"{self._base}-{count}"):
                return name
        return self.key() if workspace.has(self.kind, self.key()) else None

    @contextmanager
    def held_for_build(self, runner: Runner) -> Iterator[Sequence[Any]]:
        parts = [part for part in map(runner.artefact, self.parts) if part is not None]
        measured = [part.seconds for part in parts if part.summary["machine"] == _machine()]
        asked = [one for one in self._questions if all(one.text in seconds for seconds in measured)]
        if is_added := len(measured) == len(self.parts) > 0 and 2 * len(asked) > self._count:
            looked_at = Depth(candidates=self.stages.setting.depth_of_parts)
            found = [runner.artefact(one).cut(looked_at).candidates for one in self.ranking.parts]
        with open_setting(
            self.resources, self.stages, runner, self.unit, with_parts=not is_added, is_fresh=True
        ) as setting:
            yield setting, asked if is_added else self._questions, found if is_added else None

    def build(
        self,
        folder: Path,
        setting: OpenSetting,
        questions: Sequence[Question],
        found: Sequence[Candidates] | None,
        _ranked: Ranked,
        *parts: Latency,
    ) -> None:
        rows = {id(question): row for row, question in enumerate(self._questions)}

        def search(question: Question) -> None:
            of_parts = None if found is None else [_row(one, rows[id(question)]) for one in found]
            setting.ranked([question], self.depth, found=of_parts)

        with self.resources.working(f"latency ({self.label})", self._count, "queries", self._rate):
            latency = measure_latency(search, questions, self.seed)
        if latency is not None and found is not None:
            latency = latency.after(parts)
        write_text(folder / "latency.json", json.dumps(asdict(latency) if latency else None))

    def load(self, folder: Path) -> Latency | None:
        read: dict[str, Any] | None = json.loads((folder / "latency.json").read_text())
        return None if read is None else Latency(**read)

    def amount(self, kept: KeptArtefacts) -> Amount:
        count = self._count
        seconds = self.resources.rates.seconds(self._rate, count)
        asked = count + min(count, _WARM_UP) if count else 0  # caches are passed over, so all of it is paid for again
        costs = [one.expected_cost(kept, asked) for one in (self.ranking, *self._asked_with_it())]
        paid = [cost for cost in costs if cost is not None]
        return Amount(count, "questions", count, seconds=seconds, cost=sum(paid) if paid else None)

    def _asked_with_it(self) -> Iterator[RankingStage]:
        """The rankings of its parts, where these are not measured by themselves."""
        pending = [] if self.parts else list(self.ranking.parts)
        while pending:
            part = pending.pop()
            yield part
            pending += part.parts


def measure_latency(search: Callable[[Question], object], questions: Sequence[Question], seed: int) -> Latency | None:
    """Seconds per query of ``search``, of at most 50 questions drawn with ``seed``; None without questions.

    One query at a time, after three that are not counted. Percentiles are nearest-rank. Carries the machine, what else
    it did, and the date, because the numbers mean nothing without them: see ``LatencyPart``.
    """
    if not questions:
        return None
    sample = random.Random(seed).sample(list(questions), min(SAMPLE, len(questions)))  # noqa: S311 - not a secret
    for question in sample[:_WARM_UP]:
        search(question)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    seconds, waited = dict[str, float](), _seconds_waited()
    for question in sample:
        start = time.perf_counter()
        search(question)
        seconds[question.text] = time.perf_counter() - start
    if waited is not None:
        waited = min(1.0, ((_seconds_waited() or waited) - waited) / max(sum(seconds.values()), 1e-9))
    summary = {
        **_percentiles(list(seconds.values())),
        "machine": _machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpus": os.cpu_count(),
        "load": load,
        "waited": waited,
    }
    return Latency(summary, seconds)


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    found = np.percentile(seconds, _PERCENTILES, method="inverted_cdf").tolist()
    return {**{f"p{part}": value for part, value in zip(_PERCENTILES, found, strict=True)}, "n": len(seconds)}


def _machine() -> str:
    return f"{platform.system()} {platform.machine()}, {platform.processor() or 'processor not named'}"


def _row(found: Candidates, row: int) -> Candidates:
    """The hits for one question."""
    rankings = Rankings(found.rankings.codes[row : row + 1], found.rankings.scores[row : row + 1])
    return replace(found, rankings=rankings, skipped=found.skipped[row : row + 1])


def _seconds_waited() -> float | None:
    """For how long this thread was ready to run and no processor was free, since it began; None but on Linux.

    Source: https://docs.kernel.org/scheduler/sched-stats.html, "/proc/<pid>/schedstat".
    """
    try:
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def latency_warnings(latencies: Mapping[str, LatencyPart | None]) -> Iterator[ReportWarning]:
    """A warning if other programs slowed the measurement of settings, by name."""
    loaded = {name: one for name, one in latencies.items() if one is not None and one.is_loaded}
    if not loaded:
        return
    waits = [one.waited for one in loaded.values() if one.waited is not None]
    why = f"up to {max(waits):.0%} of the time went into waiting for a processor" if waits else "the load was high"
    yield ReportWarning(
        "latency-loaded",
        f"the latency of {listed(loaded, 3)} was measured while other programs were at work ({why}): it is too high. "
        "To measure it again when the machine is idle: `ragtrial cache prune CONFIG --latency`, then run again.",
    )
