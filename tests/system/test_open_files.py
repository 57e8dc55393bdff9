"""A sweep over many chunkings keeps no more files open than one over few."""

import gc
from pathlib import Path

import pytest

from experiments import Experiment, write_experiment
from ragtrial.pipeline.run import Run
from small_experiment import Capture, ragtrial

OPEN = Path("/dev/fd")
pytestmark = pytest.mark.skipif(not OPEN.exists(), reason="the system does not list the files that a process has open")


def sweep(folder: Path, sizes: int) -> Experiment:
    retrievers = {"dense": {"kind": "dense", "top_k": 3}, "words": {"kind": "bm25", "top_k": 3}}
    axes = {"matrix": {"chunker.size": [60 + 5 * number for number in range(sizes)]}}
    return write_experiment(folder, retrievers=retrievers, sweep=axes)


def kept_open(experiment: Experiment) -> int:
    """How many files are open more than before, while the settings' results are held."""
    gc.collect()  # or it closes files of an earlier experiment in between
    before = sum(1 for _ in OPEN.iterdir())
    run = Run.prepare(experiment.config())
    outcome = run.score_all()
    assert len(outcome.scored) == len(run.settings) >= 2
    gc.collect()
    return sum(1 for _ in OPEN.iterdir()) - before


def test_each_chunking_of_a_sweep_keeps_no_file_open(tmp_path: Path) -> None:
    kept_open(sweep(tmp_path / "first", 1))  # what is opened once in a process
    assert kept_open(sweep(tmp_path / "many", 12)) <= kept_open(sweep(tmp_path / "few", 2))


def test_a_run_may_open_as_many_files_as_the_system_lets(tmp_path: Path, capsys: Capture) -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        assert ragtrial(capsys, "run", sweep(tmp_path, 1).file, "-q").code == 0
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert most == (65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536))
