"""A run that is killed with a signal that cannot be caught, wherever it was, loses nothing that was finished.

The benchmark of kills does the work: a kill at a random moment of each stage, then the same command again.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from commands import LONGEST, commands_of
from experiments import write_experiment
from ragtrial.cache.bookkeeping import only_writer

STAGES = ["documents", "chunks", "embeddings", "index", "retrieval", "audit", "mine", "reranked", "report"]
"""One of each kind: other settings are written as these, and the benchmark kills in all of them."""


@pytest.fixture(scope="module")
def kills(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One kill in each of the stages of a small experiment."""
    benchmark, made = root / "benchmarks" / "kill.py", tmp_path_factory.mktemp("kills") / "kills.json"
    if not benchmark.exists():
        pytest.skip("the benchmarks are not part of this distribution")
    options = ["--kills", str(len(STAGES)), "--stages", ",".join(STAGES), "--documents", "120", "--queries", "8"]
    command = [sys.executable, str(benchmark), *options, "--json", str(made)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=10 * LONGEST)
    assert made.exists(), ran.stderr
    found: dict[str, Any] = json.loads(made.read_text(encoding="utf-8"))
    return {kill["stage"]: kill for kill in found["kills"]}


@pytest.mark.parametrize("stage", STAGES)
def test_the_command_goes_on_after_a_kill_in_every_stage(stage: str, kills: dict[str, Any]) -> None:
    """It ends with exit code 0, embeds and makes nothing twice, finds what an unkilled run finds, and tidies up."""
    made = kills[stage]
    assert made["failures"] == []
    assert [made[promise] for promise in ("resumed", "kept", "equal", "clean", "intact")] == [True] * 5


def test_kills_leave_something_to_go_on_with(kills: dict[str, Any]) -> None:
    """The test of the test: runs were inside of their work when they were killed."""
    assert any(kill["half_made"] for kill in kills.values())
    later = STAGES[STAGES.index("index") :]
    assert min(kills[stage]["cached"] for stage in later) > 300, "texts were embedded before these stages began"


def test_what_killed_runs_left_goes_and_what_is_being_written_stays(tmp_path: Path) -> None:
    experiment = write_experiment(tmp_path / "experiment")
    reports = experiment.folder / "results" / "kitchen"
    left = reports / ".partial-20260101T000000Z-000000-x"
    reports.mkdir(parents=True)
    with commands_of(tmp_path / "logs") as start:
        with only_writer(reports):
            for path in (left, experiment.workspace / ".partial-z"):
                path.mkdir(parents=True)
            running = start(experiment.folder, "run", "config.yaml")
            running.wait_until(lambda: "retrieval (dense): " in running.err)
            assert left.exists(), "it may be that of the one who holds the lock"
        assert running.ended().code == 0
    assert not list(tmp_path.rglob(".partial-*"))
    names = sorted(path.name for path in reports.iterdir())
    assert len(names) == 2
    assert names[1] == "latest"
    assert names[0] == (reports / "latest").read_text().strip()
