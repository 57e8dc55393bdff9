"""Qdrant: collections that it scans are named, options arrive, and no key is written anywhere."""

import json
import re
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from httpx import Headers

from expectations import message_of
from qdrant_double import qdrant_double
from ragtrial.engines.qdrant import QdrantCollectionOptions, QdrantStore, _client_errors
from ragtrial.errors import InputError, StoreError, StoreServerError
from store_kinds import found_by, nothing, opened, recall
from vector_oracles import exactly, like_embeddings, vectors_of


@pytest.mark.parametrize(("thresholds", "evidence"), [
    ({"indexing_threshold": 100_000}, "Qdrant counts 0 of 300 vectors as indexed; it scans the others"),
    ({"indexing_threshold": 1, "full_scan_threshold": 1_000},
     "scans 19 kB of vectors, less than full_scan_threshold (1,000 kB)."),
])  # fmt: skip
def test_a_collection_that_is_scanned_is_named(tmp_path: Path, thresholds: dict[str, int], evidence: str) -> None:
    vectors, index = vectors_of(like_embeddings(300, 16, seed=1)), {"kind": "hnsw", **thresholds}
    with opened(QdrantStore.model_validate({"kind": "qdrant", "index": index}), vectors, tmp_path) as opened_index:
        use = opened_index.use()
    assert use.is_used is False
    assert evidence in use.evidence


@pytest.mark.slow
@pytest.mark.parametrize(("quantization", "least", "most"), [
    ({"scalar": {"type": "int8"}}, 0.9, 1.0),
    ({"product": {"compression": "x16"}}, 0.0, 0.9),
    ({"binary": {}}, 0.0, 0.5),
])  # fmt: skip
def test_quantisation_loses_hits(quantization: dict[str, object], least: float, most: float, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    vectors = vectors_of(random.standard_normal((1_500, 64)))
    queries = random.standard_normal((30, 64)).astype(np.float32)
    true = exactly(vectors, queries, 10, "cosine").codes
    graph = {"kind": "hnsw", "indexing_threshold": 1, "full_scan_threshold": 1, "ef_search": 300}
    shares = []
    for more in ({"rescore": False}, {"rescore": True, "oversampling": 8.0}):
        options = {"kind": "qdrant", "index": graph, "quantization": quantization, **more}
        store = QdrantStore.model_validate(options)
        shares.append(recall(found_by(store, vectors, queries, 10, tmp_path).codes, true))
    assert least < shares[0] < most
    assert shares[0] < shares[1]


def test_quantization_is_in_what_the_embedded_engine_wrote_if_it_knows_the_word(tmp_path: Path) -> None:
    store = QdrantStore.model_validate({"kind": "qdrant", "quantization": {"scalar": {"type": "int9"}}})
    with pytest.raises(StoreError, match="no attribute 'Int9'"):
        store.build(vectors_of(like_embeddings(5, 8, seed=4)), tmp_path, nothing)
    quantization = {"scalar": {"type": "int8", "quantile": 0.9}}
    store = QdrantStore.model_validate({"kind": "qdrant", "quantization": quantization})
    store.build(vectors_of(like_embeddings(50, 8, seed=4)), tmp_path, nothing)
    written = json.loads((tmp_path / "shard" / "edge_config.json").read_text())
    assert written["quantization_config"]["scalar"] == {"type": "int8", "quantile": pytest.approx(0.9)}


def test_an_index_with_other_bytes_is_an_error_that_names_its_folder(tmp_path: Path) -> None:
    vectors = vectors_of(like_embeddings(50, 8, seed=6))
    QdrantStore().build(vectors, tmp_path, nothing)
    (tmp_path / "shard" / "edge_config.json").write_text("{")
    assert str(tmp_path) in message_of(StoreError, QdrantStore().open, vectors, tmp_path)


def test_one_vector_of_a_collection_is_searched() -> None:
    from qdrant_client import QdrantClient, models

    def params(distance: str, size: int) -> models.VectorParams:
        return models.VectorParams(size=size, distance=models.Distance(distance))

    with qdrant_double() as url, closing(QdrantClient(url=url, check_compatibility=False)) as client:
        named = {"a": params("Dot", 2), "b": params("Cosine", 3), "c": params("Manhattan", 4)}
        client.create_collection("named", vectors_config=named)
        client.create_collection("bare", vectors_config=params("Dot", 2))
        for name, vector, fault in (
            ("named", None, "has several vectors: set `vector` to one of a, b, c."),
            ("named", "c", "compares by Manhattan; it must be one of Cosine, Dot, Euclid."),
            ("bare", "a", "has one vector without a name; remove `vector`."),
        ):
            with pytest.raises(InputError, match=rf"^the collection '{name}' at \S+ {re.escape(fault)}$"):
                QdrantCollectionOptions(kind="qdrant", url=url, name=name, vector=vector).open()
        with closing(QdrantCollectionOptions(kind="qdrant", url=url, name="named", vector="b").open()) as opened:
            assert (opened.space, opened.dimension) == ("cosine", 3)


@pytest.mark.parametrize(("status", "may_be_away"), [(404, False), (422, False), (503, True)])
def test_a_refusal_is_no_error_of_a_server_that_is_away(status: int, may_be_away: bool) -> None:
    from qdrant_client.http.exceptions import UnexpectedResponse

    with pytest.raises(StoreError, match=f"^here: {status} so text$") as caught, _client_errors("here"):
        raise UnexpectedResponse(status, "so", b"text", Headers())
    assert isinstance(caught.value, StoreServerError) == may_be_away
