"""A run that is killed while it builds or searches an index on a server: the next finishes, and leftovers have names.

RAGTRIAL_KILLS is the number of kills for each store (default: 1), spread evenly over what a run sends to its server.
"""

import gzip
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from commands import LONGEST, commands_of
from experiments import Experiment, write_experiment
from ragtrial.cache.remote import REMOTE
from ragtrial.cache.upkeep import Upkeep
from ragtrial.engines.servers import read_remote
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.resources import servers_of
from store_kinds import KINDS
from watched_servers import watched

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("RAGTRIAL_KILLS", "1"))
DOCUMENTS = {f"{number}.txt": f"Text {number}." for number in range(300)}
QUERIES = [
    {"id": str(number), "text": f"Question {number}?", "relevant_docs": [{"doc": f"{number}.txt"}]}
    for number in range(20)
]
EMBEDDING = """
import random


def embed(texts):
    drawn = [random.Random(text) for text in texts]
    return [[one.gauss(0, 1) for _ in range(32)] for one in drawn]
"""
"""Vectors without ties, the same in every process."""


def _on_milvus(url: str) -> set[str]:
    from ragtrial.engines.milvus import MilvusLogin, server_client

    with closing(server_client(MilvusLogin(url=url))) as client:
        return set(client.list_collections())


def _on_chroma(url: str) -> set[str]:
    from ragtrial.engines.chroma import ChromaServerOptions, disconnect, server_client

    client = server_client(ChromaServerOptions(url=url))
    try:
        return {one.name for one in client.list_collections()}
    finally:
        disconnect(client)


def _on_qdrant(url: str) -> set[str]:
    from ragtrial.engines.qdrant import QdrantLogin, connect

    with closing(connect(QdrantLogin(url=url))) as client:
        return {one.name for one in client.get_collections().collections}


def _in_postgres(url: str) -> set[str]:
    import psycopg

    with psycopg.connect(url) as database:
        found = database.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return {str(name) for (name,) in found}


NAMES: Mapping[str, Callable[[str], set[str]]] = {
    "milvus": _on_milvus, "chroma": _on_chroma, "qdrant": _on_qdrant, "pgvector": _in_postgres,
}  # fmt: skip
"""The collections on a server, by the kind of store."""


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.server is not None])
def test_a_killed_run_is_finished_by_the_next_and_leaves_nothing_unnamed(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    assert kind.server is not None
    with (
        kind.server(tmp_path / "data") as reached,
        watched(reached["url"]) as server,
        commands_of(tmp_path / "logs") as start,
    ):

        def there() -> set[str]:
            return NAMES[kind.kind](reached["url"])

        before = there()
        store = {"kind": kind.kind, **kind.exact, "url": server.url}
        chunker = {"kind": "document"}
        experiment = write_experiment(tmp_path / "experiment", DOCUMENTS, QUERIES, store=store, chunker=chunker)
        (experiment.folder / "embedding.py").write_text(EMBEDDING)
        server.count()
        expected, pieces = found_by_run(experiment), server.pieces
        assert len(there() - before) == 1
        prune(experiment)
        assert there() == before
        built = 0
        for kill in range(KILLS):
            for _ in range(5):
                killed = start(experiment.folder, "run", "config.yaml")
                server.kill(killed.process, max(1, round(pieces * (kill + 0.5) / KILLS)))
                if (code := killed.process.wait(LONGEST)) != 0:
                    break
                pieces = server.pieces  # it ended before: gRPC sends a little more or less each time
                prune(experiment)
            assert code == -9, killed.err
            server.count()
            built += any((experiment.workspace / "indexes").glob("[!.]*"))
            assert len(there() - before) <= 1
            assert there() - before <= named(experiment), "a folder names what was begun"
            if kill % 3 == 2:
                prune(experiment)
                assert there() == before
            assert found_by_run(experiment) == expected
            assert there() - before == named(experiment)
            assert len(named(experiment)) == 1
            prune(experiment)
            assert there() == before
        print(f"{name}: {KILLS} kills, {KILLS - built} while building, {built} while searching; {pieces} pieces")


def found_by_run(experiment: Experiment) -> str:
    """What a run in this process finds."""
    report = run_experiment(experiment.config())
    return gzip.decompress(report.ranking_file("dense").read_bytes()).decode()


def prune(experiment: Experiment) -> None:
    Upkeep(experiment.workspace, [servers_of(experiment.config(), experiment.workspace)]).prune(older_than=0)


def named(experiment: Experiment) -> set[str]:
    """The collections that files of the workspace name."""
    return {read_remote(file.parent)["collection"] for file in experiment.workspace.rglob(REMOTE)}
