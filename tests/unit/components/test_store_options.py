"""Options of stores and collections arrive in the engine: each changes what the engine does, or what it is sent."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from filled_collections import Stored, pgvector as filled_table, qdrant as filled_qdrant
from qdrant_double import qdrant_double
from ragtrial.engines import STORES, Store, faiss as faiss_store, qdrant as qdrant_engine
from ragtrial.engines.pgvector import PgvectorEngine, Postgres
from ragtrial.engines.servers import ServerStore, connected
from ragtrial.errors import InputError, StoreError, StoreServerError
from store_kinds import found_by, nothing, postgres_url, recall
from vector_oracles import exactly, vectors_of

RANDOM = np.random.default_rng(5)
MANY, QUERIES = vectors_of(RANDOM.standard_normal((2_000, 32))), RANDOM.standard_normal((20, 32)).astype(np.float32)


def store(kind: str, **options: Any) -> Store:
    return STORES[kind].model_validate({"kind": kind, **options})


def share(made: Store, folder: Path) -> float:
    """The recall of the ten nearest; the index is built if ``folder`` is empty."""
    folder.mkdir(exist_ok=True)
    true = exactly(MANY, QUERIES, 10, made.space).codes
    return recall(found_by(made, MANY, QUERIES, 10, folder).codes, true)


@pytest.mark.parametrize(("factory", "few", "many"), [
    ("IVF32,Flat", {"probes": 1}, {"probes": 32}),
    ("HNSW4", {"ef_search": 1}, {"ef_search": 500}),
    ("SQ4,RFlat", {"rescore": 1}, {"rescore": 20}),
])  # fmt: skip
def test_faiss_searches_share_an_index(factory: str, few: dict[str, int], many: dict[str, int], tmp_path: Path) -> None:
    narrow, wide = store("faiss", factory=factory, **few), store("faiss", factory=factory, **many)
    assert set(few) <= narrow.search_options
    assert share(narrow, tmp_path / "index") + 0.03 < share(wide, tmp_path / "index")


def test_ef_construction_is_in_the_graph_that_faiss_wrote(tmp_path: Path) -> None:
    import faiss

    store("faiss", factory="HNSW8", ef_construction=77).build(MANY, tmp_path, nothing)
    index: Any = faiss.downcast_index(faiss.read_index(str(tmp_path / "index.faiss")))
    assert index.hnsw.efConstruction == 77


def test_faiss_is_trained_with_vectors_that_fit_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(faiss_store, "_TRAINING", 2_048 * 32)
    vectors, made = vectors_of(RANDOM.standard_normal((100_000, 32))), store("faiss", factory="IVF16,Flat", probes=16)
    tracemalloc.start()
    try:
        made.build(vectors, tmp_path, nothing)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < vectors.matrix.nbytes / 2
    index = made.open(vectors, tmp_path)
    np.testing.assert_array_equal(index.search(QUERIES, 10).codes, exactly(vectors, QUERIES, 10, "cosine").codes)


@pytest.mark.parametrize(("factory", "options", "name"), [
    ("Flat", {"probes": 2}, "nprobe"),
    ("IVF32,Flat", {"ef_search": 2}, "efSearch"),
    ("HNSW8", {"rescore": 2}, "k_factor_rf"),
    ("SQ8", {"ef_construction": 9}, "efConstruction"),
])  # fmt: skip
def test_an_option_that_the_factory_would_ignore_is_refused(factory: str, options: dict[str, int], name: str) -> None:
    with pytest.raises(InputError, match=f"store.factory '{factory}' has no option {name}, which is set to "):
        store("faiss", factory=factory, **options).check()


def test_factories_are_refused_in_faiss_s_words_and_requests_have_a_limit() -> None:
    with pytest.raises(InputError, match=r"store\.factory: FAISS does not understand 'HMSW32': .*HMSW32"):
        store("faiss", factory="HMSW32").check()
    made = store("pgvector", url=postgres_url(), timeout=7)
    assert isinstance(made, ServerStore)
    with connected(made) as engine:
        assert isinstance(engine, PgvectorEngine)
        assert engine.database.ask("SHOW statement_timeout") == [("7s",)]


def test_links_and_lists_are_in_the_definition_of_the_index_in_postgres(tmp_path: Path) -> None:
    for index, said in (
        ({"kind": "hnsw", "m": 7, "ef_construction": 33}, "(m='7', ef_construction='33')"),
        ({"kind": "other", "type": "ivfflat", "build": {"lists": 9}}, "(lists='9')"),
    ):
        made, folder = store("pgvector", url=postgres_url(), space="ip", index=index), tmp_path / str(index["kind"])
        folder.mkdir()
        made.build(vectors_of(MANY.matrix[:100]), folder, nothing)
        definition = made.facts(folder)["options"]["index"]
        assert said in definition
        assert "vector_ip_ops" in definition


def test_the_planner_of_postgres_has_statistics_of_a_new_table(tmp_path: Path) -> None:
    made = store("pgvector", url=postgres_url())
    assert isinstance(made, ServerStore)
    made.build(vectors_of(MANY.matrix[:100]), tmp_path, nothing)
    with connected(made) as engine:
        assert isinstance(engine, PgvectorEngine)
        columns = engine.database.ask(
            "SELECT attname FROM pg_stats WHERE tablename = %s", made.facts(tmp_path)["collection"]
        )
        assert ("id",) in columns


def test_options_of_searches_are_in_what_a_server_of_qdrant_is_sent(tmp_path: Path) -> None:
    sent: list[tuple[str, dict[str, Any]]] = []
    with qdrant_double(sent) as url:
        graph = {"kind": "hnsw", "m": 7, "ef_construction": 33, "ef_search": 44, "indexing_threshold": 20_000}
        scalar = {"scalar": {"type": "int8", "quantile": 0.9}}
        made = store("qdrant", url=url, index=graph, quantization=scalar, rescore=True, oversampling=3)
        found_by(made, vectors_of(MANY.matrix[:50]), QUERIES[:1], 5, tmp_path)
    (created,) = (body for path, body in sent if "hnsw_config" in body)
    assert created["hnsw_config"]["m"] == 7
    assert created["hnsw_config"]["ef_construct"] == 33
    assert created["optimizers_config"]["indexing_threshold"] == 20_000
    assert created["quantization_config"]["scalar"]["quantile"] == 0.9
    (search,) = (body["searches"][0]["params"] for path, body in sent if path.endswith("/query/batch"))
    assert (search["hnsw_ef"], search["exact"]) == (44, False)
    assert search["quantization"] == {"rescore": True, "oversampling": 3.0}


ITEMS = [Stored(str(at), f"text {at}", {}, row.tolist()) for at, row in enumerate(MANY.matrix[:50])]


def test_options_of_searches_are_in_what_a_collection_of_qdrant_is_sent(tmp_path: Path) -> None:
    for changes, expected in (({"ef": 44}, (44, False)), ({"exact": True}, (None, True))):
        sent: list[tuple[str, dict[str, Any]]] = []
        with filled_qdrant(tmp_path, ITEMS, "ip", sent) as filled:
            collection = filled.options.model_copy(update=changes).open()
            collection.nearest(QUERIES[:1], 3)
            (params,) = (body["searches"][0]["params"] for path, body in sent if path.endswith("/query/batch"))
            assert (params.get("hnsw_ef"), params["exact"]) == expected
            collection.close()


def test_an_id_that_several_points_have_hides_no_other_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qdrant_engine, "PAGE", 2)
    items = [Stored(name, "text", {}, row.tolist()) for name, row in zip("aaaab", MANY.matrix, strict=False)]
    with filled_qdrant(tmp_path, items, "ip") as filled:
        collection = filled.options.open()
        assert [item.id for item in collection.get(["a", "b"])[0]] == ["a", "a", "a", "a", "b"]
        collection.close()


def test_a_build_waits_for_the_graph_of_vectors_above_the_threshold_of_the_server(tmp_path: Path) -> None:
    with qdrant_double() as url:
        made = store("qdrant", url=url, settle_within=0.01)
        assert isinstance(made, ServerStore)
        made.build(vectors_of(MANY.matrix[:50]), tmp_path, nothing)  # 6 KB: below the 20,000 KB
        with connected(made) as engine, pytest.raises(StoreServerError, match=r"is not done .* raise store\.settle"):
            engine.finish(made.facts(tmp_path)["collection"], 1_000_000, 32)


def test_a_session_on_a_table_reads_only_and_has_the_options_of_the_collection(tmp_path: Path) -> None:
    with filled_table(tmp_path, ITEMS, "ip") as filled:
        changes = {"ef_search": 123, "settings": {"ivfflat.probes": 5}, "timeout": 9.0}
        collection: Any = filled.options.model_copy(update=changes).open()
        database: Postgres = collection.database
        for name, value in {"hnsw.ef_search": "123", "ivfflat.probes": "5", "statement_timeout": "9s"}.items():
            assert database.ask(f"SHOW {name}") == [(value,)]
        with pytest.raises(StoreError, match="read-only transaction"), database.failing():
            database.run(f'DELETE FROM "{filled.options.title}"')
        collection.close()


def test_a_table_is_looked_for_in_the_schema_of_the_collection(tmp_path: Path) -> None:
    with filled_table(tmp_path, ITEMS, "ip") as filled:
        moved: Any = filled.options.open()
        moved.database.run("SET default_transaction_read_only = off")
        moved.database.run("CREATE SCHEMA IF NOT EXISTS archive")
        moved.database.run(f'ALTER TABLE "{filled.options.title}" SET SCHEMA archive')
        moved.close()
        with pytest.raises(InputError, match="there is no collection"):
            filled.options.open()
        collection = filled.options.model_copy(update={"db_schema": "archive"}).open()
        assert collection.count == 50
        collection.close()
