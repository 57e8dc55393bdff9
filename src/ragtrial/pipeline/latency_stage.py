"""How long a query takes when it comes alone."""

from __future__ import annotations

import json
import os
import platform
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ragtrial.cache.atomic import write_text
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.workspace import Workspace
from ragtrial.components.refiners import Refiner
from ragtrial.errors import listed
from ragtrial.pipeline.open_setting import OpenSetting, SettingStages, open_setting
from ragtrial.pipeline.ranking_stage import RankingStage
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.retrieval import Depth
from ragtrial.pipeline.stage import Amount, Artefacts, Inputs, Known, Stage
from ragtrial.records import ReportWarning, Unit, WarningCode
from ragtrial.report.schema import LatencyPart

T = TypeVar("T")

SAMPLE = 50
_WARM_UP = 3
_PERCENTILES = (25, 50, 75, 95, 99)


@dataclass(eq=False)
class LatencyStage(Stage[dict[str, Any] | None]):
    """How long single queries of a setting take; None without queries. Measured with its indexes open and warm.

    What was measured of other queries serves as well, unless it was of half as many or fewer.
    """

    kind = "latency"
    shown_as = "latency"

    resources: Resources
    stages: SettingStages
    ranking: RankingStage
    unit: Unit
    seed: int

    def __post_init__(self) -> None:
        self.needs = (self.ranking,)
        self._questions = self.ranking.questions
        self._count = min(len(self._questions), SAMPLE)
        self._rate = " ".join(["latency", *(one.setting.retriever.kind for one in self.stages.tree())])
        self.label = self.stages.setting.name
        self.title = f"latency of {self.label}"

    def inputs(self) -> Inputs:
        tree = [one.setting for one in self.stages.tree()]
        devices = [options.model_dump().get("device") for one in tree for options in (one.embedder, one.retriever)]
        # A retriever gets one question at a time, whatever its batches are; a refiner has many hits of that one.
        refiners = [one.retriever.model_dump() for one in tree if isinstance(one.retriever, Refiner)]
        batches = [options["batch_size"] for options in refiners if "batch_size" in options]
        top_k = self.stages.setting.retriever.top_k
        return {"top_k": top_k, "seed": self.seed, "devices": devices, "batches": batches}

    def key(self) -> str:
        return f"{self._base}-{self._count}"

    @cached_property
    def _base(self) -> str:
        return fingerprint([self.own, self.ranking.whatever_is_asked])

    def kept_key(self, workspace: Workspace) -> str | None:
        """That of the most queries."""
        found = [int(path.name.rpartition("-")[2]) for path in (workspace.root / self.kind).glob(f"{self._base}-*")]
        for count in sorted(found, reverse=True):
            if 2 * count > self._count and workspace.has(self.kind, name := f"{self._base}-{count}"):
                return name
        return self.key() if workspace.has(self.kind, self.key()) else None

    @contextmanager
    def opened(self, artefacts: Artefacts) -> Iterator[Sequence[OpenSetting]]:
        with open_setting(self.resources, self.stages, artefacts, self.unit, is_fresh=True) as setting:
            yield (setting,)

    def build(self, folder: Path, setting: OpenSetting, _ranked: object) -> None:
        depth, name = Depth(units=self.stages.setting.retriever.top_k), f"latency ({self.label})"
        with self.resources.working(name, self._count, "queries", self._rate):
            latency = measure_latency(lambda one: setting.ranked([one], depth), self._questions, self.seed)
        write_text(folder / "latency.json", json.dumps(latency))

    def load(self, folder: Path) -> dict[str, Any] | None:
        latency: dict[str, Any] | None = json.loads((folder / "latency.json").read_text())
        return latency

    def amount(self, known: Known) -> Amount:
        count = self._count
        return Amount(count, "questions", count, seconds=self.resources.rates.seconds(self._rate, count))


def measure_latency(search: Callable[[T], object], queries: Sequence[T], seed: int) -> dict[str, Any] | None:
    """Seconds per query of ``search``: percentiles over at most 50 queries drawn with ``seed``; None without queries.

    One query at a time, after three that are not counted. Percentiles are nearest-rank. Carries the machine, what else
    it did, and the date, because the numbers mean nothing without them: see ``LatencyPart``.
    """
    if not queries:
        return None
    sample = random.Random(seed).sample(list(queries), min(SAMPLE, len(queries)))  # noqa: S311 - not a secret
    for text in sample[:_WARM_UP]:
        search(text)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    seconds, waited = [], _seconds_waited()
    for text in sample:
        start = time.perf_counter()
        search(text)
        seconds.append(time.perf_counter() - start)
    if waited is not None:
        waited = min(1.0, ((_seconds_waited() or waited) - waited) / max(sum(seconds), 1e-9))
    percentiles = np.percentile(seconds, _PERCENTILES, method="inverted_cdf").tolist()
    return {
        **{f"p{part}": value for part, value in zip(_PERCENTILES, percentiles, strict=True)},
        "n": len(seconds),
        "machine": f"{platform.system()} {platform.machine()}, {platform.processor() or 'processor not named'}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpus": os.cpu_count(),
        "load": load,
        "waited": waited,
    }


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
        WarningCode.LATENCY_LOADED,
        f"the latency of {listed(loaded, 3)} was measured while other programs were at work ({why}): it is too high. "
        "To measure it again when the machine is idle: `ragtrial cache prune CONFIG --latency`, then run again.",
    )
