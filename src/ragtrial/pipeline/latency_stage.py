"""How long a query takes when it comes alone."""

from __future__ import annotations

import platform
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import numpy as np

from ragtrial.cache.atomic import write_text
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.workspace import Workspace
from ragtrial.components.refiners import Refiner
from ragtrial.errors import listed
from ragtrial.pipeline.ranking_stage import OpenSetting, RankingStage, open_setting
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.retrieval import Depth, Ranked
from ragtrial.pipeline.stage import Amount, Inputs, KeptArtefacts, Runner, Stage
from ragtrial.records import Question, ReportWarning, Unit
from ragtrial.report.schema import LatencyPart

SAMPLE = 50
_WARM_UP = 3
_PERCENTILES = (50, 95, 99)
_NONE = "null"
"""The content of a measurement without queries."""


@dataclass(eq=False)
class LatencyStage(Stage[LatencyPart | None]):
    """The latency of single queries of a setting with its parts, their indexes open and warm; None without queries.

    An earlier measurement of other queries serves as well, unless it had half as many or fewer.
    """

    kind = "latency"
    shown_as = "latency"

    resources: Resources
    ranking: RankingStage
    unit: Unit
    seed: int

    def __post_init__(self) -> None:
        self.needs = (self.ranking,)
        self._questions, self._tree = self.ranking.questions, [one.setting for one in self.ranking.stages.tree()]
        self._count = min(len(self._questions), SAMPLE)
        self._rate = " ".join(["latency", *(one.retriever.kind for one in self._tree)])
        self.label = self.ranking.setting.name
        self.title = f"latency of {self.label}"

    def inputs(self) -> Inputs:
        devices = [
            options.model_dump().get("device") for one in self._tree for options in (one.embedder, one.retriever)
        ]
        # A retriever gets one question at a time, so its batches do not matter; a refiner gets many hits.
        refiners = [one.retriever.model_dump() for one in self._tree if isinstance(one.retriever, Refiner)]
        batches = [options["batch_size"] for options in refiners if "batch_size" in options]
        top_k = self.ranking.setting.retriever.top_k
        return {"top_k": top_k, "seed": self.seed, "devices": devices, "batches": batches, "format": 2}

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
    def held_for_build(self, runner: Runner) -> Iterator[Sequence[OpenSetting]]:
        with open_setting(self.resources, self.ranking.stages, runner, self.unit, is_fresh=True) as setting:
            yield (setting,)

    def build(self, folder: Path, setting: OpenSetting, _ranked: Ranked) -> None:
        depth = Depth(units=self.ranking.setting.retriever.top_k)
        with self.resources.working(f"latency ({self.label})", self._count, "queries", self._rate):
            latency = measure_latency(lambda question: setting.ranked([question], depth), self._questions, self.seed)
        write_text(folder / "latency.json", latency.model_dump_json() if latency else _NONE)

    def load(self, folder: Path) -> LatencyPart | None:
        text = (folder / "latency.json").read_text(encoding="utf-8")
        return None if text == _NONE else LatencyPart.model_validate_json(text)

    def amount(self, kept: KeptArtefacts) -> Amount:
        count = self._count
        seconds = self.resources.rates.seconds(self._rate, count)
        asked = count + min(count, _WARM_UP) if count else 0  # caches are passed over, so all of it is paid for again
        costs = [stage.expected_cost(kept, asked) for stage in self.ranking.tree()]
        paid = [cost for cost in costs if cost is not None]
        return Amount(count, "questions", count, seconds=seconds, cost=sum(paid) if paid else None)


def measure_latency(
    search: Callable[[Question], object], questions: Sequence[Question], seed: int
) -> LatencyPart | None:
    """Seconds per query of ``search``, of at most 50 questions drawn with ``seed``; None without questions.

    One query at a time, after three that are not counted. Percentiles are nearest-rank. Carries the machine, what else
    it did, and the date, because the numbers mean nothing without them: see ``LatencyPart``.
    """
    if not questions:
        return None
    sample = random.Random(seed).sample(list(questions), min(SAMPLE, len(questions)))  # noqa: S311 - not a secret
    for question in sample[:_WARM_UP]:
        search(question)
    seconds, waited = list[float](), _seconds_waited()
    for question in sample:
        start = time.perf_counter()
        search(question)
        seconds.append(time.perf_counter() - start)
    if waited is not None:
        waited = min(1.0, ((_seconds_waited() or waited) - waited) / max(sum(seconds), 1e-9))
    percentiles = np.percentile(seconds, _PERCENTILES, method="inverted_cdf").tolist()
    return LatencyPart(
        **{f"p{percent}": value for percent, value in zip(_PERCENTILES, percentiles, strict=True)},
        n=len(seconds),
        machine=f"{platform.system()} {platform.machine()}, {platform.processor() or 'processor not named'}",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        waited=waited,
    )


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
    waits = {name: one.waited or 0.0 for name, one in loaded.items()}
    if waits:
        why = f"up to {max(waits.values()):.0%} of the time went into waiting for a processor"
        message = f"the latency of {listed(waits, 3)} was measured while other programs were at work ({why})"
        advice = (
            "To measure it again when the machine is idle: `ragtrial cache prune CONFIG --latency`, then run again."
        )
        yield ReportWarning("latency-loaded", f"{message}: it is too high. {advice}")
