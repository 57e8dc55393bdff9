"""Benchmarks that measure time begin on a quiet machine alone, unless they are told to."""

import subprocess
import sys
from pathlib import Path

import pytest

TIMED = (
    "bm25", "comparison", "embedding", "endpoints", "executors", "labels", "large_reports",
    "overhead", "pool", "precision", "run", "scale", "scoring", "search_cost", "server_requests", "spans", "stores",
    "sweep", "sweep_loop",
)  # fmt: skip


@pytest.mark.parametrize(
    ("load", "arguments", "code"), [(1.9, [], 0), (2.0, [], 0), (2.1, [], 1), (26.0, [], 1), (26.0, ["--busy"], 0)]
)
def test_a_busy_machine_is_refused_unless_it_is_meant(root: Path, load: float, arguments: list[str], code: int) -> None:
    program = (
        f"import sys; sys.path.insert(0, 'benchmarks'); import quiet; quiet.refuse_if_busy({load}); print(sys.argv)"
    )
    made = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    assert made.returncode == code
    assert ("--busy" in made.stderr) == bool(code)
    assert "--busy" not in made.stdout


@pytest.mark.parametrize("name", TIMED)
def test_a_benchmark_of_times_asks_first(root: Path, name: str) -> None:
    text = (root / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
    assert '__name__ == "__main__":\n    refuse_if_busy()\n' in text
