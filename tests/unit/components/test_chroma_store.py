"""A local Chroma index agrees with exact search, has the options that were chosen, and survives damage."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from expectations import message_of
from experiments import python
from ragtrial.engines import Vectors
from ragtrial.engines.chroma import ChromaStore, HnswOptions, model_of
from ragtrial.errors import StoreError
from ragtrial.rankings import PADDING
from store_kinds import assert_same, found_by, nothing, opened
from vector_oracles import like_embeddings, vectors_of


@pytest.mark.slow
@pytest.mark.parametrize(("chosen", "expected"), [
    ({"ef_construction": 37, "max_neighbors": 11, "ef_search": 23}, {}),
    ({}, {"ef_construction": 100, "max_neighbors": 16, "ef_search": 100}),
])  # fmt: skip
def test_the_graph_has_the_store_s_options(tmp_path: Path, chosen: dict[str, int], expected: dict[str, int]) -> None:
    ChromaStore(space="ip", hnsw=HnswOptions(**chosen)).build(vectors_of(np.eye(4)), tmp_path, nothing)
    assert configuration_of(tmp_path).items() >= {"space": "ip", **chosen, **expected}.items()


def configuration_of(folder: Path) -> dict[str, Any]:
    """What Chroma says of the graph of its one collection, asked in another process."""
    code = (
        "import json, sys, chromadb; from chromadb.config import Settings\n"
        "client = chromadb.PersistentClient(sys.argv[1], settings=Settings(anonymized_telemetry=False))\n"
        "(collection,) = client.list_collections()\n"
        "print(json.dumps(collection.configuration_json['hnsw']))"
    )
    return dict(json.loads(python(code, folder).stdout))


@pytest.fixture(scope="module")
def small() -> Vectors:
    """Enough vectors for Chroma to write a graph of its own, beyond its log of 1,000."""
    return vectors_of(like_embeddings(1_100, 8, seed=18))


@pytest.fixture(scope="module")
def sound(small: Vectors, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    ChromaStore().build(small, folder, nothing)
    return folder


def damage(file: Path, how: str) -> None:
    if how == "deleted":
        file.unlink()
    elif how == "cut short":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    else:
        file.write_bytes(b"\xff" * file.stat().st_size)


@pytest.mark.parametrize("how", ["deleted", "cut short", "overwritten"])
def test_a_damaged_database_is_named_and_may_be_replaced(small: Vectors, sound: Path, tmp_path: Path, how: str) -> None:
    folder = shutil.copytree(sound, tmp_path / "index")
    damage(folder / "chroma.sqlite3", how)
    message = message_of(StoreError, ChromaStore().open, small, folder)
    assert f"the index in {folder} " in message
    assert "`ragtrial cache verify` removes" in message
    shutil.rmtree(folder)
    shutil.copytree(sound, folder)
    queries = like_embeddings(3, 8, seed=19)
    assert_same(found_by(ChromaStore(), small, queries, 5, folder), found_by(ChromaStore(), small, queries, 5, sound))


def test_vectors_that_chroma_refuses_and_models_are_named(tmp_path: Path) -> None:
    vectors = vectors_of(np.array([[1, 2], [np.nan, 1]]))
    message = message_of(StoreError, ChromaStore().build, vectors, tmp_path, nothing)
    assert message.startswith(f"Chroma cannot build or read the index in {tmp_path} (")
    config = {"type": "known", "name": "openai", "config": {"model_name": "small"}}
    assert [model_of(one) for one in (config, {"type": "known", "name": "default"}, None)] == [
        "openai (small)", "default", ""
    ]  # fmt: skip


SERVER = {
    "CHROMA_API_IMPL": "chromadb.api.fastapi.FastAPI",
    "CHROMA_SERVER_HOST": "127.0.0.1",
    "CHROMA_SERVER_HTTP_PORT": "1",
    "ALLOW_RESET": "TRUE",
}
SEARCH = """
import sys
from pathlib import Path
import numpy as np
from ragtrial.engines import Vectors
from ragtrial.engines.chroma import ChromaStore

folder = Path(sys.argv[1])
folder.mkdir()
vectors = Vectors(np.eye(4, dtype=np.float32), np.arange(4))
ChromaStore().build(vectors, folder, lambda count: None)
index = ChromaStore().open(vectors, folder)
print(index.search(vectors.matrix, 1).codes.ravel().tolist())
index.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["the environment", "a .env file"])
def test_neither_the_environment_nor_an_env_file_sends_vectors_to_a_server(tmp_path: Path, where: str) -> None:
    if where == "a .env file":
        (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in SERVER.items()))
    done = python(SEARCH, tmp_path / "index", folder=tmp_path, **(SERVER if where == "the environment" else {}))
    assert (done.stdout, done.stderr) == ("[0, 1, 2, 3]\n", "")
    assert (tmp_path / "index" / "chroma.sqlite3").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 2, 3, 99, 999, 1_001, 5_399])
def test_an_index_is_the_same_graph_at_every_opening(tmp_path: Path, count: int) -> None:
    vectors = vectors_of(like_embeddings(count, 8, seed=22))
    ChromaStore().build(vectors, tmp_path, nothing)

    def graph() -> dict[Path, bytes]:
        files = (path for path in tmp_path.glob("*/*") if path.is_file())
        return {path: path.read_bytes() for path in files}

    before = graph()
    assert bool(before) == (count > 1)
    with opened(ChromaStore(), vectors, tmp_path) as index:
        index.search(like_embeddings(2, 8, seed=23), 5)
    assert before == graph() or count <= 1


def test_hits_that_chroma_does_not_find_are_padding(small: Vectors, sound: Path) -> None:
    with opened(ChromaStore(), small, sound) as index:
        found = index.search(like_embeddings(2, 8, seed=20), 1_100)
    lengths = found.lengths.tolist()
    for row, scores, length in zip(found.codes, found.scores, lengths, strict=True):
        assert len(set(row[:length].tolist())) == length > 1_000
        assert (row[length:] == PADDING).all()
        assert np.isnan(scores[length:]).all()
