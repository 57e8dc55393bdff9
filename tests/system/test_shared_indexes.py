"""Settings that share an index, which other prefixes search, and sweeps, whose chunkings keep no file open."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import Experiment, write_experiment
from ragtrial import run_experiment
from ragtrial.pipeline.run import Run
from small_experiment import Capture, ragtrial

OPEN = Path("/dev/fd")
needs_list = pytest.mark.skipif(not OPEN.exists(), reason="the system does not list the files that a process has open")
FUNCTION = {"kind": "custom", "function": "embedding:embed"}
ENTRIES = {
    "plain": {"kind": "dense", "top_k": 3},
    "asked": {"kind": "dense", "top_k": 3, "embedder": {**FUNCTION, "query_prefix": "bread "}},
    "both": {"kind": "fusion", "inputs": ["plain", "asked"], "top_k": 3},
}


@pytest.fixture(params=["chroma", "exact"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Experiment:
    return write_experiment(tmp_path, retrievers=ENTRIES, store={"kind": request.param}, latency=True)


def test_two_parts_that_search_one_index_with_other_prefixes_are_fused_and_timed(made: Experiment) -> None:
    report = run_experiment(made.config())
    assert report.failures == []
    assert {one.name: one.latency is not None for one in report.settings} == dict.fromkeys(ENTRIES, True)
    searched = {"exact", made.config().store.kind}  # an index that is not exact is compared with one that is
    assert sum(kind == "indexes" for kind, _ in made.stages()) == len(searched)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no umask")
@pytest.mark.parametrize("umask", [0o002, 0o077])
def test_workspace_and_reports_have_the_users_umask(made: Experiment, umask: int) -> None:
    command = [sys.executable, "-m", "ragtrial", "run", str(made.file)]
    subprocess.run(command, umask=umask, cwd=made.folder, check=True, capture_output=True)
    written = [path for folder in ("workspace", "results") for path in (made.folder / folder).rglob("*")]
    modes = {path: path.stat().st_mode & 0o777 for path in written}
    assert len(modes) > 20
    assert {
        path: f"{mode:o}" for path, mode in modes.items() if mode != (0o777 if path.is_dir() else 0o666) & ~umask
    } == {}


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


@needs_list
def test_each_chunking_of_a_sweep_keeps_no_file_open(tmp_path: Path) -> None:
    kept_open(sweep(tmp_path / "first", 1))  # what is opened once in a process
    assert kept_open(sweep(tmp_path / "many", 12)) <= kept_open(sweep(tmp_path / "few", 2))


@needs_list
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
