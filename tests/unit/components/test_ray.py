"""The executor of kind ray, on a cluster that has this machine alone."""

import gc
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from test_executors import BATCH, MIXED, TEXTS, check_that_a_killed_run_goes_on, embedded, with_function

from commands import LONGEST, Command
from experiments import Experiment, write_experiment
from forked import forked
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.executors.base import SerialExecutor
from ragtrial.components.executors.ray import RayExecutor
from ragtrial.errors import ConfigError, EmbedderError

pytestmark = pytest.mark.slow

TOKEN = "0123456789abcdef" * 4
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
"""Lets Ray listen on 127.0.0.1 alone, on Linux, too, and ask for a token."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The head node of a cluster with two cores, which ends with the module."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--head", "--block", f"--port={port}", "--num-cpus=2", "--num-gpus=1",
               f"--object-store-memory={128 * 2**20}"]  # fmt: skip
    log = tmp_path_factory.mktemp("head") / "log"
    with (
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,  # paths of sockets are short
        pytest.MonkeyPatch.context() as patch,
        log.open("w") as out,
    ):
        for name, setting in {**LOOPBACK, "RAY_AUTH_TOKEN": TOKEN}.items():
            patch.setenv(name, setting)
        start = [sys.executable, "-m", "ray.scripts.scripts", "start", *options, "--include-dashboard=false"]
        head = psutil.Popen([*start, f"--temp-dir={folder}"], stdout=out, stderr=out)
        try:
            deadline = time.monotonic() + LONGEST
            while "Ray runtime started" not in log.read_text():
                assert head.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            yield f"127.0.0.1:{port}"
        finally:
            processes = head.children(recursive=True)
            head.terminate()
            head.wait(LONGEST)
            assert psutil.wait_procs(processes, timeout=30)[1] == []


def test_an_actor_that_sees_fewer_gpus_than_it_was_assigned_stops_the_run(tmp_path: Path, address: str) -> None:
    """Ray assigns a GPU that this machine does not have."""
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(EmbedderError, match=r"a worker was assigned 1 GPU \(number 0\), and torch finds 0"):
        embedded(with_function(tmp_path, "pass"), tmp_path / "vectors", RayExecutor(workers=1, gpus=1, address=address))


@pytest.mark.parametrize(("patched", "gpus"), [({}, 1), ({"cluster_resources": lambda: {"CPU": 2.0}}, 0)])
def test_a_cluster_with_too_few_gpus_is_an_error(
    patched: dict[str, Any], gpus: int, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragtrial.components.executors.ray._SECONDS_TO_GROW", 0.0)
    for name, answer in patched.items():
        monkeypatch.setattr(f"ray.{name}", answer)
    message = rf"executor needs 2 GPUs \(1 workers x 2\); the Ray cluster at {address} has {gpus}\."
    with pytest.raises(EmbedderError, match=message):
        embedded(with_function(tmp_path, "pass"), tmp_path / "vectors", RayExecutor(workers=1, gpus=2, address=address))


def test_garbage_that_is_collected_while_ray_is_joined_blocks_nothing(tmp_path: Path, address: str) -> None:
    """A released pool in a circle of references is released again by the collector, at any line of the next join."""
    executor, handler = RayExecutor(workers=1, address=address), signal.getsignal(signal.SIGTERM)
    embedder, thresholds = with_function(tmp_path, "pass"), gc.get_threshold()
    gc.set_threshold(100)
    try:
        for _ in range(2):
            cached = CachedEmbedder(embedder, tmp_path, start=executor.start)
            vars(cached)["circle"] = cached
            cached.release()
            del cached
    finally:
        gc.set_threshold(*thresholds)
    assert signal.getsignal(signal.SIGTERM) is handler


def test_an_actor_that_is_killed_is_replaced_and_costs_no_more_than_its_shard(tmp_path: Path, address: str) -> None:
    killed = """
    with (HERE / "calls").open("a") as calls: calls.write(f"{os.getpid()} {os.environ['OMP_NUM_THREADS']}\\n")
    if "loaf 31" in " ".join(texts) and not (HERE / "killed").exists():
        (HERE / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    """.strip()
    embedder = with_function(tmp_path, f"{killed}\n    {MIXED}")
    made = embedded(embedder, tmp_path / "vectors", RayExecutor(workers=2, address=address))
    undisturbed = embedded(with_function(tmp_path / "other", MIXED), tmp_path / "again", SerialExecutor())
    assert made.tobytes() == undisturbed.tobytes()
    import ray

    assert not ray.is_initialized(), "the last pool closes the connection"
    calls = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    assert len(calls) == len(TEXTS) // BATCH + 1, "shards of one batch"
    assert len({pid for pid, _ in calls} - {str(os.getpid())}) >= 2
    assert {threads for _, threads in calls} == {"1"}, "the core that each reserves"


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return write_experiment(tmp_path)


def run(experiment: Experiment, address: str, **environment: str) -> tuple[int, str]:
    """The exit code of a run with actors of the cluster at ``address``, and all that it says."""
    options = ["kind=ray", "workers=1", f"address={address}"]
    overrides = [part for option in options for part in ("--set", f"executor.{option}")]
    variables = {**LOOPBACK, **environment}
    command = Command(
        experiment.folder, "run", str(experiment.file), *overrides, "--set", "embedder.batch_size=2",
        log=experiment.folder / "log", environment=variables,
    )  # fmt: skip
    ended = command.ended()
    return ended.code, ended.out + ended.err


def test_a_cluster_is_joined_with_its_token_and_left_as_it_was(experiment: Experiment, address: str) -> None:
    code, said = run(experiment, address, RAY_AUTH_TOKEN="f" * 64)
    assert code == 2
    assert f"the Ray cluster at {address} cannot be joined: " in said
    assert "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to that token." in said
    assert "f" * 64 not in said
    assert experiment.embedded() == []
    code, said = run(experiment, address, RAY_AUTH_TOKEN=TOKEN)
    assert code == 0, said
    assert TOKEN not in said
    assert not any(TOKEN.encode() in path.read_bytes() for path in experiment.folder.rglob("*") if path.is_file())


def test_a_cluster_that_does_not_answer_is_an_error_before_any_work(experiment: Experiment) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    code, said = run(experiment, address)
    assert code == 2
    assert f"no Ray cluster answers at {address} (Connection refused). Start it with `ray start --head`" in said
    assert experiment.embedded() == []


def test_the_actor_of_a_run_that_is_killed_ends_and_the_next_run_goes_on(tmp_path: Path, address: str) -> None:
    check_that_a_killed_run_goes_on(tmp_path, RayExecutor(workers=1, address=address))


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"^executor.kind: ray needs a package: pip install 'ragtrial\[ray\]'\.$"):
        RayExecutor(workers=1, address="127.0.0.1:6379").start(with_function(tmp_path, "pass"))


@pytest.mark.parametrize("address", ["auto", "ray://head:10001", "head", "head:0"])
def test_an_address_without_host_and_port_is_refused(experiment: Experiment, address: str) -> None:
    with pytest.raises(ConfigError, match=r"it must be the host:port of the head node"):
        experiment.config("executor.kind=ray", "executor.workers=2", f"executor.address={address}")


def test_ray_is_imported_by_neither_help_nor_a_run_without_it(experiment: Experiment) -> None:
    code = "import sys; from ragtrial.cli.outcome import run; run(['--help']); run(sys.argv[1:]); print(*sys.modules)"
    done = forked(code, "run", experiment.file, folder=experiment.folder)
    assert done.code == 0, done.err
    assert "ray" not in done.out.splitlines()[-1].split()
