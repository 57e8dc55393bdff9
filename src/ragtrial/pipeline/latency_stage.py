"""How long a query takes when it comes alone."""

from __future__ import annotations

import json
import platform
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from ragtrial.cache.atomic import write_text
from ragtrial.components.refiners import Refiner
from ragtrial.pipeline.document_stage import DocumentStage
from ragtrial.pipeline.open_setting import OpenSetting, open_setting
from ragtrial.pipeline.ranking_stage import RankingStage
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.retrieval import Depth
from ragtrial.pipeline.setting_stages import SettingStages
from ragtrial.pipeline.stage import Amount, Artefacts, Inputs, Known, Stage
from ragtrial.progress import stage
from ragtrial.records import Unit

T = TypeVar("T")

SAMPLE = 50
_WARM_UP = 3


class LatencyStage(Stage[dict[str, Any] | None]):
    """How long single queries of a setting take; None without queries. Measured with its indexes open and warm."""

    kind = "latency"
    shown_as = "latency"
    why_first = "not measured yet"

    def __init__(
        self,
        resources: Resources,
        documents: DocumentStage,
        stages: SettingStages,
        ranking: RankingStage,
        unit: Unit,
        seed: int,
    ) -> None:
        self.needs = (ranking,)
        self._resources = resources
        self._documents = documents
        self._stages = stages
        self._questions = ranking.questions
        self._setting = stages.setting
        self._unit: Unit = unit
        self._seed = seed

    def inputs(self) -> Inputs:
        tree = [one.setting for one in self._stages.tree()]
        devices = [options.model_dump().get("device") for one in tree for options in (one.embedder, one.retriever)]
        # A retriever gets one question at a time, whatever its batches are; a refiner has many hits of that one.
        refiners = [one.retriever.model_dump() for one in tree if isinstance(one.retriever, Refiner)]
        batches = [options["batch_size"] for options in refiners if "batch_size" in options]
        return {"top_k": self._setting.retriever.top_k, "seed": self._seed, "devices": devices, "batches": batches}

    @property
    def title(self) -> str:
        return f"latency of {self._setting.name}"

    @contextmanager
    def opened(self, artefacts: Artefacts) -> Iterator[Sequence[OpenSetting]]:
        library, stages = artefacts.artefact(self._documents), self._stages
        with open_setting(self._resources, library, stages, artefacts, self._unit, is_fresh=True) as setting:
            yield (setting,)

    def build(self, folder: Path, setting: OpenSetting, _ranked: object) -> None:
        start, depth = time.perf_counter(), Depth(units=self._setting.retriever.top_k)
        with stage(self._resources.progress, f"latency ({self._setting.name})"):
            latency = measure_latency(lambda one: setting.ranked([one], depth), self._questions, self._seed)
        write_text(folder / "latency.json", json.dumps(latency))
        asked = latency["n"] if latency else 0
        self._resources.workspace.rates.note(self._rate, asked, time.perf_counter() - start)

    def load(self, folder: Path) -> dict[str, Any] | None:
        latency: dict[str, Any] | None = json.loads((folder / "latency.json").read_text())
        if latency is not None and not isinstance(latency, dict):
            raise ValueError("it is no measurement")
        return latency

    @property
    def _rate(self) -> str:
        return " ".join(["latency", *(one.setting.retriever.kind for one in self._stages.tree())])

    def label(self) -> str:
        return self._setting.name

    def amount(self, known: Known) -> Amount:
        count = min(len(self._questions), SAMPLE)
        return Amount(count, "questions", count, seconds=self._resources.seconds(self._rate, count))


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
    seconds.sort()
    return {
        "p50": _percentile(seconds, 50),
        "p95": _percentile(seconds, 95),
        "p99": _percentile(seconds, 99),
        "n": len(seconds),
        "machine": f"{platform.system()} {platform.machine()}, {platform.processor() or 'processor not named'}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _percentile(ascending: Sequence[float], percent: int) -> float:
    return ascending[max(0, -(-percent * len(ascending) // 100) - 1)]
