"""The page on ten million chunks: its table follows from its arithmetic, and its benchmark runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHUNKS = (1e6, 1e7, 1e8)
TOKENS = 200
BYTES, LINKS = 4 * 384, 128
EXPECTED = {
    "embedding, GPU hours": TOKENS / 100_000 / 3_600,
    "embedding, hours on two cores": TOKENS / 6_000 / 3_600,
    "disk: vectors, GB": BYTES / 1e9,
    "disk: cache of embeddings, GB": 1_668 / 1e9,
    "server memory, float32 graph, GB": (BYTES + LINKS) / 1e9,
    "server memory, int8 graph, GB": (BYTES / 4 + LINKS) / 1e9,
    "server memory, one bit per number, GB": (BYTES / 32 + LINKS) / 1e9,
}


@pytest.fixture
def page(root: Path) -> str:
    return (root / "docs" / "ten-million-chunks.md").read_text(encoding="utf-8")


def cells(page: str, name: str) -> list[float]:
    (row,) = re.findall(rf"^\| {re.escape(name)} \| (.*) \|$", page, re.MULTILINE)
    return [float(cell) for cell in row.split(" | ")]


@pytest.mark.parametrize("name", EXPECTED)
def test_its_costs_follow_from_its_arithmetic(page: str, name: str) -> None:
    assert cells(page, name) == pytest.approx([count * EXPECTED[name] for count in CHUNKS], rel=0.1, abs=0.05)


def test_the_time_of_exact_search_is_the_measured_one_in_proportion(page: str) -> None:
    (measured,) = re.findall(r"^\| exact search[^|]*\| (\d+) \|", page, re.MULTILINE)
    name = "exact search, 1,000 queries, minutes"
    assert cells(page, name) == pytest.approx([count * int(measured) / 1e7 / 60 for count in CHUNKS], rel=0.1, abs=0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="the benchmark reads /proc")
def test_its_benchmark_runs_and_leaves_nothing(root: Path, tmp_path: Path) -> None:
    benchmark = root / "benchmarks" / "scale.py"
    if not benchmark.exists():
        pytest.skip("the benchmarks are not part of this distribution")
    options = ["--busy", "--vectors", "20000", "--queries", "30", "--folder", str(tmp_path)]
    ran = subprocess.run(
        [sys.executable, str(benchmark), *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    (share,) = re.findall(r"overlap of the index with exact search (\S+), unreachable 0", ran.stdout)
    assert 0.3 < float(share) < 1
    assert list(tmp_path.iterdir()) == []
