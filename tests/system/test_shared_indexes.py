"""Settings that search one index in different ways: other prefixes, other batches, another device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import Experiment, write_experiment
from ragtrial import run_experiment

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
    subprocess.run(command, umask=umask, cwd=made.folder, env={**os.environ}, check=True, capture_output=True)
    written = [path for folder in ("workspace", "results") for path in (made.folder / folder).rglob("*")]
    modes = {path: path.stat().st_mode & 0o777 for path in written}
    assert len(modes) > 20
    assert {
        path: f"{mode:o}" for path, mode in modes.items() if mode != (0o777 if path.is_dir() else 0o666) & ~umask
    } == {}
