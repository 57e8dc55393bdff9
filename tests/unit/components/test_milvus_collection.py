"""An existing Milvus collection: on a server, under its owner's names, and what its owner should know of it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from expectations import message_of
from milvus_servers import PACKAGED, milvus_server
from ragtrial.engines import Conditions
from ragtrial.engines.milvus import MilvusStore, server_client
from ragtrial.engines.milvus_collection import MilvusCollectionOptions
from ragtrial.errors import InputError

pytestmark = pytest.mark.slow

VECTORS = np.random.default_rng(1).standard_normal((2_000, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a collection ``docs`` whose names are those of another library."""
    from pymilvus import DataType

    with milvus_server(tmp_path_factory.mktemp("milvus")) as reached:
        client = server_client(MilvusStore(url=reached["url"]))
        schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
        schema.add_field("pk", DataType.INT64, is_primary=True)
        schema.add_field("page_content", DataType.VARCHAR, max_length=100)
        schema.add_field("embedding", DataType.FLOAT_VECTOR, dim=8)
        index = client.prepare_index_params()
        built = {"params": {"M": 8, "efConstruction": 50}}
        index.add_index("embedding", index_name="mine", index_type="HNSW", metric_type="IP", params=built)
        for name in ("docs", "idle"):
            client.create_collection(name, schema=schema, consistency_level="Strong")
            rows = [
                {"pk": at, "page_content": f"text {at}", "embedding": row, "area": "a" if at % 2 else "b"}
                for at, row in enumerate(VECTORS)
            ]
            client.insert(name, rows)
            client.flush(name)
            client.create_index(name, index)
            client.load_collection(name)
        client.release_collection("idle")
        client.create_collection("bare", schema=schema)
        if not PACKAGED:  # a server loads nothing without an index
            client.load_collection("bare")
        client.close()
        yield reached["url"]


def options(url: str, **changes: Any) -> MilvusCollectionOptions:
    names = {"name": "docs", "id": "pk", "text": "page_content", "vector": "embedding"}
    return MilvusCollectionOptions.model_validate({"kind": "milvus", "url": url, **names, **changes})


def test_a_collection_is_read_under_the_names_of_its_owner(url: str) -> None:
    collection = options(url).open()
    assert (collection.count, collection.dimension, collection.space) == (2_000, 8, "ip")
    pages = list(collection.pages(Conditions({"area": "a"})))
    assert sum(map(len, pages)) == 1_000
    items, vectors = collection.get(["7", "x", "99999"])
    assert [tuple(item) for item in items] == [("7", {"area": "a"}, "text 7")]
    np.testing.assert_allclose(vectors, VECTORS[7:8], rtol=1e-6)
    facts, use = collection.facts, collection.use()
    assert facts["index"] == "HNSW"
    assert str(facts["server"]).startswith("Milvus ")
    assert use.is_used is (True if PACKAGED else None), use.evidence
    assert ("with their index" if PACKAGED else "does not list its segments") in use.evidence
    collection.close()


def test_wider_searches_find_more_and_filters_of_both_forms_are_joined(url: str) -> None:
    true = np.argsort(-VECTORS[:50] @ VECTORS.T, axis=1)[:, :10]
    shares = {}
    for ef, chosen in ((1, {"ef": 1}), (400, {"ef": 400}), (0, {"search": {"ef": 400}})):
        collection = options(url, **chosen).open()
        found = collection.nearest(VECTORS[:50], 10)
        assert all(len(one.items) == 10 for one in found)
        ids = [{int(item.id) for item in one.items} for one in found]
        shares[ef] = np.mean([len(one & set(row)) / 10 for one, row in zip(ids, true.tolist(), strict=True)])
        collection.close()
    assert shares[1] < shares[400] > 0.99
    assert shares[0] == shares[400], "parameters are passed on"
    collection = options(url).open()
    pages = collection.pages(Conditions({"area": "a"}, filter="pk < 6"))
    assert sorted(item.id for page in pages for item in page) == ["1", "3", "5"]
    with pytest.raises(ValueError, match="pk"):
        collection.check_conditions(Conditions(filter="pk <"))
    collection.close()


@pytest.mark.parametrize(("changes", "said"), [
    ({"id": "id"}, "are in 'pk', its primary key; set collection.id: pk"),
    ({"vector": "vector"}, "has no vector in 'vector'. Set collection.vector; it has: embedding"),
    ({"name": "bare"}, "the collection 'bare' at .* (has no index on 'embedding'; .* Create one|is not loaded)"),
    ({"name": "doc"}, "there is no collection 'doc' at .* Did you mean 'docs'"),
    ({"name": "idle"}, "the collection 'idle' at .* is not loaded"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_with_what_does(url: str, changes: dict[str, Any], said: str) -> None:
    assert re.search(said, message_of(InputError, options(url, **changes).open))


def test_a_file_of_an_older_milvus_lite_and_another_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "old.db").write_bytes(b"SQLite format 3\0")
    for path in (tmp_path / "old.db", tmp_path):
        with pytest.raises(InputError, match="is not a folder of Milvus Lite from version 3"):
            MilvusCollectionOptions(kind="milvus", name="docs", path=str(path)).open()
