"""A run that is killed while it builds an index on a server: the next one finishes, and all that is left has a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import commands_of
from experiments import Experiment, write_experiment
from milvus_servers import milvus_server
from ragtrial.cache.remote import REMOTE
from ragtrial.components.stores.milvus_client import server_client
from ragtrial.components.stores.server import read_remote

pytestmark = pytest.mark.slow


def test_a_killed_build_on_milvus_is_built_again_and_leaves_nothing_unnamed(tmp_path: Path) -> None:
    with milvus_server(tmp_path / "data") as reached, commands_of(tmp_path / "logs") as start:
        flat = {"kind": "milvus", "index": {"kind": "flat"}, **reached}
        experiment = write_experiment(tmp_path / "experiment", store=flat)
        client = server_client(reached["url"], "", "default", 60)
        try:
            killed = start(experiment.folder, "run", "config.yaml")
            killed.wait_until(lambda: bool(client.list_collections()))
            killed.process.kill()
            killed.process.wait()
            assert set(client.list_collections()) == named(experiment), "a folder names what was begun"
            assert start(experiment.folder, "run", "config.yaml").ended().code == 0
            assert set(client.list_collections()) == named(experiment)
            assert start(experiment.folder, "cache", "prune", "workspace", "--older-than", "0h").ended().code == 0
            assert client.list_collections() == []
        finally:
            client.close()


def named(experiment: Experiment) -> set[str]:
    """The collections that files of the workspace name."""
    return {read_remote(file.parent)["collection"] for file in experiment.workspace.rglob(REMOTE)}
