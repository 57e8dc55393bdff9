"""How long a query takes when it comes alone."""

from __future__ import annotations

import json
import platform
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ragtrial.cache.atomic import write_text
from ragtrial.components.refiners import Refiner
from ragtrial.pipeline.open_setting import OpenSetting, SettingStages, open_setting
from ragtrial.pipeline.ranking_stage import RankingStage
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.retrieval import Depth
from ragtrial.pipeline.stage import Amount, Artefacts, Inputs, Known, Stage
from ragtrial.records import Unit

T = TypeVar("T")

SAMPLE = 50
_WARM_UP = 3


@dataclass(eq=False)
class LatencyStage(Stage[dict[str, Any] | None]):
    """How long single queries of a setting take; None without queries. Measured with its indexes open and warm."""

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

    @contextmanager
    def opened(self, artefacts: Artefacts) -> Iterator[Sequence[OpenSetting]]:
        with open_setting(self.resources, self.stages, artefacts, self.unit, is_fresh=True) as setting:
            yield (setting,)

    def build(self, folder: Path, setting: OpenSetting, _ranked: object) -> None:
        depth, name = Depth(units=self.stages.setting.retriever.top_k), f"latency ({self.label})"
        with self.resources.working(name, min(len(self._questions), SAMPLE), "queries", self._rate):
            latency = measure_latency(lambda one: setting.ranked([one], depth), self._questions, self.seed)
        write_text(folder / "latency.json", json.dumps(latency))

    def load(self, folder: Path) -> dict[str, Any] | None:
        latency: dict[str, Any] | None = json.loads((folder / "latency.json").read_text())
        return latency

    def amount(self, known: Known) -> Amount:
        count = min(len(self._questions), SAMPLE)
        return Amount(count, "questions", count, seconds=self.resources.rates.seconds(self._rate, count))


def measure_latency(search: Callable[[T], object], queries: Sequence[T], seed: int) -> dict[str, Any] | None:
    """Seconds per query of ``search``: p50, p95, p99 over at most 50 queries drawn with ``seed``; None without queries.

    One query at a time, after three that are not counted. Percentiles are nearest-rank. Carries the machine and the
    date, because the numbers mean nothing without them.
    """
    if not queries:
        return None
    sample = random.Random(seed).sample(list(queries), min(SAMPLE, len(queries)))  # noqa: S311 - not a secret
    for text in sample[:_WARM_UP]:
        search(text)
    seconds = []
    for text in sample:
        start = time.perf_counter()
        search(text)
        seconds.append(time.perf_counter() - start)
    p50, p95, p99 = np.percentile(seconds, [50, 95, 99], method="inverted_cdf").tolist()
    return {
        "p50": p50,
        "p95": p95,
        "p99": p99,
        "n": len(seconds),
        "machine": f"{platform.system()} {platform.machine()}, {platform.processor() or 'processor not named'}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
