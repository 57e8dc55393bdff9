"""How long a query takes when it comes alone."""

from __future__ import annotations

import platform
import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

T = TypeVar("T")

SAMPLE = 50
_WARM_UP = 3


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
