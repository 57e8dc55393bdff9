"""Milvus, embedded and on a server: what it does silently is named, and what it would ignore is refused."""

import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from experiments import python
from milvus_servers import PACKAGED, milvus_server
from ragtrial.engines import IndexUse, Vectors
from ragtrial.engines.milvus import MilvusStore, server_client
from ragtrial.engines.servers import connected, read_remote
from ragtrial.errors import InputError, StoreError, StoreServerError
from store_kinds import found_by, nothing, opened, recall
from vector_oracles import exactly, like_embeddings, vectors_of

STARVED = {"kind": "hnsw", "m": 4, "ef_construction": 10}
IVF: dict[str, Any] = {"kind": "other", "type": "IVF_FLAT", "build": {"nlist": 32}}


def store_of(index: Any = None, **options: Any) -> MilvusStore:
    given = {} if index is None else {"index": index}
    return MilvusStore.model_validate({"kind": "milvus", **given, **options})


@pytest.fixture(scope="module")
def many() -> Vectors:
    return vectors_of(like_embeddings(1_500, 16, seed=1))


@pytest.fixture(scope="module")
def queries() -> npt.NDArray[np.float32]:
    return like_embeddings(30, 16, seed=2)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with milvus_server(tmp_path_factory.mktemp("milvus")) as reached:
        yield reached["url"]


@pytest.fixture(scope="module")
def starved(many: Vectors, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a poor graph in Milvus Lite."""
    folder = tmp_path_factory.mktemp("starved")
    store_of(STARVED).build(many, folder, nothing)
    return folder


def test_a_search_is_as_wide_as_its_hits(many: Vectors, queries: Any, starved: Path, url: str, tmp_path: Path) -> None:
    """A server refuses a narrower one, Milvus Lite finds less by it: both find what ef_search 10 finds."""
    narrow, even = store_of(STARVED | {"ef_search": 1}), store_of(STARVED | {"ef_search": 10})
    assert narrow.width(10) == even.width(10) == 10
    np.testing.assert_array_equal(
        found_by(narrow, many, queries, 10, starved).codes, found_by(even, many, queries, 10, starved).codes
    )
    served = store_of(STARVED | {"ef_search": 1}, url=url)
    assert (found_by(served, many, queries, 10, tmp_path).codes >= 0).all()


def test_other_parameters_are_passed_on_or_reported_as_ignored(many: Vectors, queries: Any, tmp_path: Path) -> None:
    true, shares = exactly(many, queries, 10, "cosine").codes, []
    for probes in (1, 32):
        store = store_of({**IVF, "search": {"nprobe": probes}})
        shares.append(recall(found_by(store, many, queries, 10, tmp_path).codes, true))
    assert shares[0] < 0.9
    assert shares[1] == 1
    options = store_of(IVF).facts(tmp_path)["options"]
    assert (options["index_type"], options["nlist"]) == ("IVF_FLAT", 32)
    assert "ignored" not in options


def test_options_of_the_build_arrive_in_milvus_lite_as_pymilvus_sends_them(many: Vectors, tmp_path: Path) -> None:
    """The sizes of graphs show it: a link is a number of 4 bytes, and a vector has 2 m of them."""
    sizes = {}
    for m in (4, 32):
        (tmp_path / str(m)).mkdir()
        store_of({"kind": "hnsw", "m": m}).build(many, tmp_path / str(m), nothing)
        (graph,) = (tmp_path / str(m)).rglob("*.idx")
        sizes[m] = graph.stat().st_size
    assert sizes[32] - sizes[4] > 1.5 * (32 - 4) * 4 * len(many)


def test_what_was_built_is_reported_and_searching_changes_no_file(many: Vectors, starved: Path, queries: Any) -> None:
    facts = store_of(STARVED).facts(starved)
    assert facts["version"].startswith("milvus_lite-3.")
    assert facts["options"] == {"index_type": "HNSW", "metric_type": "COSINE", "M": 4, "efConstruction": 10}
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in starved.rglob("*")}
    found_by(store_of(STARVED), many, queries, 10, starved)
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in starved.rglob("*")} == before


def test_a_build_with_other_options_is_refused(many: Vectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As from a server that drops what it does not know, without a word."""
    from pymilvus.milvus_client.index import IndexParam

    monkeypatch.setattr(IndexParam, "get_index_configs", lambda self: {"index_type": "HNSW", "metric_type": "COSINE"})
    with pytest.raises(StoreError, match=r"built the index with .*'M': None.* instead of .*'M': 4"):
        store_of(STARVED).build(many, tmp_path, nothing)


@pytest.mark.skipif(bool(PACKAGED), reason="the packaged server says which segments have an index")
def test_milvus_lite_as_a_server_does_not_show_whether_searches_use_the_index(url: str, tmp_path: Path) -> None:
    with opened(store_of(STARVED, url=url), vectors_of(like_embeddings(20, 16, seed=3)), tmp_path) as index:
        assert index.use() == IndexUse(None, "The server does not list its segments, as Milvus Lite's does not.")


def test_a_few_vectors_have_an_index_too_where_milvus_lite_wrote_one(tmp_path: Path) -> None:
    few = vectors_of(like_embeddings(20, 16, seed=3))
    with opened(store_of({"kind": "hnsw", "m": 64}), few, tmp_path) as index:
        use = index.use()
    assert use.is_used
    assert use.evidence == "Milvus has loaded all 20 vectors with their index."


@pytest.mark.skipif(not PACKAGED, reason="needs the packaged server: make milvus")
def test_a_small_segment_is_scanned_by_a_server_and_that_is_seen(url: str, tmp_path: Path) -> None:
    few = vectors_of(like_embeddings(600, 16, seed=3))
    with opened(store_of(STARVED, url=url), few, tmp_path) as index:
        use = index.use()
    assert use.is_used is False
    assert use.evidence == "Milvus has loaded all 600 vectors without an index, whatever describe_index says."


def test_a_damaged_graph_is_an_error_with_the_folder(many: Vectors, starved: Path, tmp_path: Path) -> None:
    shutil.copytree(starved, tmp_path, dirs_exist_ok=True)
    (graph,) = tmp_path.rglob("*.idx")
    graph.write_bytes(graph.read_bytes()[:1_000])
    with pytest.raises(StoreError, match=f"Milvus Lite in {tmp_path}/?: "):
        store_of(STARVED).open(many, tmp_path)


def test_an_index_that_goes_while_searched_is_an_error_with_the_server(url: str, queries: Any, tmp_path: Path) -> None:
    store, few = store_of(url=url), vectors_of(like_embeddings(50, 16, seed=3))
    with opened(store, few, tmp_path) as index, connected(store) as engine:
        engine.drop(read_remote(tmp_path)["collection"])
        with pytest.raises(StoreServerError, match=f"milvus at {url}: "):
            index.search(queries, 10)


def test_what_is_no_server_and_a_missing_database_are_refused_first(url: str) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        at = f"http://127.0.0.1:{server.server_port}"
        with pytest.raises(StoreServerError, match=f"the server at {at} does not answer as Milvus does"):
            server_client(store_of(url=at, timeout=2.0))
        server.shutdown()
    with pytest.raises(InputError, match=f"milvus at {url}: .*nope"):
        store_of(url=url, database="nope").check()


@pytest.mark.slow
def test_a_env_file_is_not_read_and_errors_are_not_printed(tmp_path: Path) -> None:
    import pymilvus

    (tmp_path / "pymilvus").symlink_to(Path(pymilvus.__file__).parent)
    (tmp_path / ".env").write_text("MILVUS_URI=http://elsewhere:1\n")
    code = """
import os
import socket
from ragtrial.engines.milvus import MilvusStore, server_client
from ragtrial.errors import StoreServerError
with socket.create_server(("127.0.0.1", 0)) as silent:
    try:
        server_client(MilvusStore(url=f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=1.0))
    except StoreServerError as error:
        import pymilvus
        print(pymilvus.__file__, os.environ.get("MILVUS_URI"))
"""
    ran = python(code, PYTHONPATH=str(tmp_path))
    assert ran.stdout.split() == [str(tmp_path / "pymilvus" / "__init__.py"), "None"]
    assert ran.stderr == ""
