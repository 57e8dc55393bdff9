"""The executor of kind ray: on this machine, and on a cluster that is there already."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from test_executors import BATCH, TEXTS, embedded, wait_for_end, with_function

from commands import LONGEST, Command
from experiments import Experiment, write_experiment
from ragtrial.components.executors.processes import ProcessExecutor
from ragtrial.components.executors.ray import RayExecutor
from ragtrial.components.executors.serial import SerialExecutor
from ragtrial.errors import ConfigError, EmbedderError

pytestmark = pytest.mark.slow

MEGABYTE = 10**6
MIXED = "return [[float(len(text)), 1 / len(text) + sum(map(len, texts[:2])), 1.0] for text in texts]"
"""Vectors that depend on all texts of a batch and on their order, as those of models do."""


@pytest.fixture(scope="module")
def token() -> Iterator[str]:
    """That of all Ray in this module; it is the user's, so the run makes none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN", "0123456789abcdef" * 4)
        yield os.environ["RAY_AUTH_TOKEN"]


@pytest.fixture(scope="module")
def local(token: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[psutil.Process]]:
    """Ray on this machine, kept for the whole module by one pool of actors; its processes."""
    before = dict(os.environ)
    pool = RayExecutor(workers=2).start(with_function(tmp_path_factory.mktemp("held"), "pass"))
    try:
        pool.embed([TEXTS[:BATCH]])
        changed = {name for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)}
        assert changed <= {"RAY_CLIENT_MODE", "PYTHONBREAKPOINT"}, "which Ray itself sets on import"
        yield psutil.Process().children(recursive=True)
    finally:
        pool.release()


@pytest.mark.usefixtures("local")
def test_one_and_two_actors_give_the_bytes_of_other_executors(tmp_path: Path) -> None:
    embedder = with_function(tmp_path, MIXED)
    every = [SerialExecutor(), ProcessExecutor(workers=2), RayExecutor(workers=1), RayExecutor(workers=2)]
    expected, *others = (embedded(embedder, tmp_path / str(place), one).tobytes() for place, one in enumerate(every))
    assert [made == expected for made in others] == [True] * 3


@pytest.mark.usefixtures("local")
def test_an_actor_that_is_killed_is_replaced_and_costs_no_more_than_its_shard(tmp_path: Path) -> None:
    killed = """
    with (HERE / "calls").open("a") as calls: calls.write(f"{os.getpid()} {os.environ['OMP_NUM_THREADS']}\\n")
    if "loaf 31" in " ".join(texts) and not (HERE / "killed").exists():
        (HERE / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    """.strip()
    made = embedded(with_function(tmp_path, killed), tmp_path / "vectors", RayExecutor(workers=2))
    undisturbed = embedded(with_function(tmp_path / "other", "pass"), tmp_path / "again", SerialExecutor())
    assert made.tobytes() == undisturbed.tobytes()
    calls = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    assert len(calls) == len(TEXTS) // BATCH + 1, "shards of one batch"
    assert len({pid for pid, _ in calls} - {str(os.getpid())}) >= 2
    assert {threads for _, threads in calls} == {ProcessExecutor(workers=2).environment(0)["OMP_NUM_THREADS"]}


@pytest.mark.usefixtures("local")
def test_a_text_that_cannot_be_embedded_is_named(tmp_path: Path) -> None:
    embedder = with_function(tmp_path, 'assert "poison" not in " ".join(texts), "tastes bad"')
    with pytest.raises(EmbedderError) as caught:
        embedded(embedder, tmp_path / "vectors", RayExecutor(workers=1), [*TEXTS[:20], "a little poison"])
    assert str(caught.value) == (
        "beside:embed raised AssertionError for 1 texts: tastes bad. The text was 'a little poison'."
    )


def test_ray_listens_on_the_loopback_alone_and_takes_less_than_two_gigabytes(local: list[psutil.Process]) -> None:
    processes = [psutil.Process(), *(one for one in local if one.is_running())]
    listening = {at.laddr.ip for one in processes for at in one.net_connections() if at.status == psutil.CONN_LISTEN}
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    assert sum(one.memory_full_info().pss for one in processes[1:]) < 2_000 * MEGABYTE


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return write_experiment(tmp_path)


def run(experiment: Experiment, address: str, **environment: str) -> tuple[int, str]:
    """The exit code of a run with actors of the cluster at ``address``, and all that it says."""
    options = ["kind=ray", "workers=1", f"address={address}"]
    overrides = [part for option in options for part in ("--set", f"executor.{option}")]
    variables = {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", **environment}
    command = Command(
        experiment.folder, "run", str(experiment.file), *overrides, "--set", "embedder.batch_size=2",
        log=experiment.folder / "log", environment=variables,
    )  # fmt: skip
    ended = command.ended()
    return ended.code, ended.out + ended.err


@pytest.mark.usefixtures("local")
def test_a_cluster_is_joined_with_its_token_and_left_as_it_was(experiment: Experiment, token: str) -> None:
    import ray

    address = ray.get_runtime_context().gcs_address
    code, said = run(experiment, address, RAY_AUTH_TOKEN="f" * 64)
    assert code == 2
    assert f"the Ray cluster at {address} cannot be joined: " in said
    assert "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to that token." in said
    assert "f" * 64 not in said
    assert experiment.embedded() == []
    code, said = run(experiment, address, RAY_AUTH_TOKEN=token)
    assert code == 0, said
    assert token not in said
    assert not any(token.encode() in path.read_bytes() for path in experiment.folder.rglob("*") if path.is_file())
    assert len(ray.nodes()) == 1  # type: ignore[no-untyped-call]


def test_a_cluster_that_does_not_answer_is_an_error_before_any_work(experiment: Experiment) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    code, said = run(experiment, address)
    assert code == 2
    assert f"no Ray cluster answers at {address} (Connection refused). Start it with `ray start --head`" in said
    assert experiment.embedded() == []


DRIVER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_executors import *
from ragtrial.components.executors.ray import RayExecutor
folder = Path(sys.argv[1])
(folder / "driver").write_text(str(os.getpid()))
embedded(CustomEmbedder(function=FunctionReference("beside:embed", folder), batch_size=BATCH, version="1"),
         folder / "vectors", RayExecutor(workers=1))
"""


def test_all_of_ray_ends_with_the_run_that_is_killed_and_the_next_one_goes_on(
    tmp_path: Path, local: list[psutil.Process]
) -> None:
    killer = """
    import json, psutil
    if "loaf 0" in texts and not (HERE / "pids").exists():
        driver = psutil.Process(int((HERE / "driver").read_text()))
        (HERE / "pids").write_text(json.dumps([one.pid for one in driver.children(recursive=True)]))
        driver.kill()
    """.strip()
    paths = [str(Path(__file__).parent), str(Path(write_experiment.__code__.co_filename).parent)]
    embedder = with_function(tmp_path, killer)
    run = subprocess.run([sys.executable, "-c", DRIVER, str(tmp_path), *paths], timeout=LONGEST, check=False)
    assert run.returncode == -signal.SIGKILL
    processes = json.loads((tmp_path / "pids").read_text())
    assert len(processes) > 5
    for pid in processes:
        wait_for_end(pid)
    assert local
    made = embedded(embedder, tmp_path / "vectors", RayExecutor(workers=1))
    undisturbed = embedded(with_function(tmp_path / "other", "pass"), tmp_path / "again", SerialExecutor())
    assert made.tobytes() == undisturbed.tobytes()


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"^executor.kind: ray needs a package: pip install 'ragtrial\[ray\]'\.$"):
        RayExecutor(workers=1).start(with_function(tmp_path, "pass"))


@pytest.mark.parametrize("address", ["auto", "ray://head:10001", "head", "head:0"])
def test_an_address_without_host_and_port_is_refused(experiment: Experiment, address: str) -> None:
    with pytest.raises(ConfigError, match=r"it must be the host:port of the head node"):
        experiment.config("executor.kind=ray", "executor.workers=2", f"executor.address={address}")


def test_ray_is_imported_by_neither_help_nor_a_run_without_it(experiment: Experiment) -> None:
    code = "import sys; from ragtrial.cli.outcome import run; run(sys.argv[1:]); print('ray' in sys.modules)"
    for arguments in (["--help"], ["run", str(experiment.file)]):
        said = subprocess.check_output([sys.executable, "-c", code, *arguments], text=True, cwd=experiment.folder)
        assert said.endswith("False\n")
