"""Qdrant: its engine in this process (Edge), and its client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import qdrant_edge as edge
from pydantic import ValidationError

from faults.base import QUERIES, ROWS, NotHereError, Seen, fault, recall, said_by_a_run
from ragtrial.engines.qdrant import QdrantStore
from vector_oracles import vectors_of

GRAPH = {"kind": "hnsw", "m": 4, "ef_construction": 10, "full_scan_threshold": 10, "indexing_threshold": 1}
NO_SERVER = "it is a server's, which has no package; the double of the tests has no graph"


def found(shard: Any, ef: int) -> list[list[int]]:
    params = edge.SearchParams(hnsw_ef=ef)
    asked = [edge.QueryRequest(limit=10, query=edge.Query.Nearest(row.tolist()), params=params) for row in QUERIES]
    return [[int(one.id) for one in points] for points in shard.query_batch(edge.QueryBatchRequest(asked))]


def filled(folder: Path, graph: Any, threshold: int | None) -> Any:
    """A shard of the rows, as Edge's README makes one."""
    config = edge.EdgeConfig(
        vectors={"": edge.EdgeVectorParams(size=ROWS.shape[1], distance=edge.Distance.Euclid)},
        hnsw_config=graph,
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=threshold),
    )
    (folder / "shard").mkdir(parents=True)
    shard = edge.EdgeShard.create(str(folder / "shard"), config)
    points = [edge.Point(code, row.tolist(), {}) for code, row in enumerate(ROWS)]
    shard.update(edge.UpdateOperation.upsert_points(points))
    return shard


@fault("qdrant", "Qdrant counts 0 of 6,000 vectors as indexed")
def not_optimized(folder: Path) -> Seen:
    """Edge builds no graph before optimize() is called."""
    shard = filled(folder, edge.HnswIndexConfig(m=4, ef_construct=10, full_scan_threshold=10), 1)
    share = recall(found(shard, 1), QUERIES, ROWS)
    shard.flush()
    shard.close()
    store = QdrantStore.model_validate({"kind": "qdrant", "space": "l2", "index": {**GRAPH, "ef_search": 1}})
    index = store.open(vectors_of(ROWS), folder)
    said = index.use().evidence
    index.close()
    return Seen(share == 1, f"recall {share:.3f} at ef 1 with m 4", f"builds are optimized; without that: {said}")


@fault("qdrant", "index-not-used: one: searches do not use the index")
def thresholds(folder: Path) -> Seen:
    """Collections below full_scan_threshold are scanned: every ef has the same recall."""
    shard = filled(folder, edge.HnswIndexConfig(m=4, ef_construct=10, full_scan_threshold=10_000), None)
    shard.optimize()
    shares = [recall(found(shard, ef), QUERIES, ROWS) for ef in (1, 400)]
    shard.close()
    said = said_by_a_run(folder, {"store": {"kind": "qdrant", "space": "l2"}})
    return Seen(shares == [1, 1], f"recall {shares[0]:.3f} at ef 1 and {shares[1]:.3f} at ef 400 with m 4", said)


@fault("qdrant", "it must be a URL")
def local_mode(_folder: Path) -> Seen:
    """The client's local mode (`:memory:`) compares all vectors and ignores hnsw_ef."""
    import warnings

    from qdrant_client import QdrantClient, models

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        client = QdrantClient(":memory:")
        params = models.VectorParams(size=ROWS.shape[1], distance=models.Distance.EUCLID)
        client.create_collection("docs", vectors_config=params, hnsw_config=models.HnswConfigDiff(m=4, ef_construct=10))
        client.upsert("docs", models.Batch(ids=list(range(len(ROWS))), vectors=ROWS.tolist()))
        narrow = models.SearchParams(hnsw_ef=1)
        points = [client.query_points("docs", row.tolist(), search_params=narrow, limit=10).points for row in QUERIES]
        client.close()
    share = recall([[int(one.id) for one in some] for some in points], QUERIES, ROWS)
    try:
        QdrantStore.model_validate({"kind": "qdrant", "url": ":memory:"})
        said = ""
    except ValidationError as error:
        said = f"refused: {error.errors()[0]['msg']}"
    words = "; the client warns" if any("search_params" in str(one.message) for one in warned) else ""
    return Seen(share == 1, f"recall {share:.3f} at ef 1 with m 4{words}", said)


@fault("qdrant", "")
def green(_folder: Path) -> Seen:
    """A green status does not mean that there is an index."""
    raise NotHereError(f"{NO_SERVER}. ragtrial waits for the count of indexed vectors, too")


@fault("qdrant", "")
def equal_filters(_folder: Path) -> Seen:
    """Equal filters in other words have other recall."""
    raise NotHereError(f"{NO_SERVER}. The audit compares each filter with exact search over what passes it")
