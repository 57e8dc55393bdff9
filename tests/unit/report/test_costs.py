"""What a setting costs, by the names that gates and searches limit it by."""

from typing import Any

import pytest

from ragtrial.report.schema import COSTS, ContextPart, CostsPart, LatencyPart, QueryColumns, SettingPart


def setting(parameters: dict[str, Any] | None = None, **costs: float) -> SettingPart:
    known = {"embedding_seconds": 2.0, "indexing_seconds": 3.0, "index_bytes": 4000, **costs}
    return SettingPart(
        name="one", fingerprint="", parameters=parameters or {}, scores={}, counts={}, index={}, health=None,
        audit=None, timings={}, context=[ContextPart(k=10, characters=900.0, tokens=None)],
        per_query=QueryColumns(evaluations={}, short=[], skipped=[], collapsed=[]),
        costs=CostsPart.model_validate(known),
        latency=LatencyPart(p50=0.1, p95=0.2, p99=0.3, n=50, machine="", date=""),
    )  # fmt: skip


def test_each_cost_has_its_value() -> None:
    one = setting(embedding_cost=5.0, query_cost=6.0)
    assert {name: one.cost(name) for name in (*COSTS, "characters@10", "tokens@10", "characters@5")} == {
        "latency.p50": 0.1, "latency.p95": 0.2, "latency.p99": 0.3, "embedding_seconds": 2.0, "indexing_seconds": 3.0,
        "index_bytes": 4000, "embedding_cost": 5.0, "query_cost": 6.0, "characters@10": 900.0, "tokens@10": None,
        "characters@5": None,
    }  # fmt: skip


ENDPOINT = {"model": "m", "base_url": "http://localhost/v1", "price": None}


@pytest.mark.parametrize(
    ("parameters", "embedding", "query"),
    [
        ({"retriever": {"kind": "bm25"}}, 0.0, 0.0),
        ({"retriever": {"kind": "dense"}, "embedder": ENDPOINT}, None, None),
        ({"retriever": {"kind": "rerank", "endpoint": ENDPOINT}, "parts": {"bm25": {}}}, 0.0, None),
        ({"retriever": {"kind": "fusion"}, "parts": {"dense": {"embedder": ENDPOINT}}}, None, None),
    ],
)
def test_without_endpoints_nothing_is_paid_and_without_a_price_nobody_knows(
    parameters: dict[str, Any], embedding: float | None, query: float | None
) -> None:
    one = setting(parameters)
    assert (one.cost("embedding_cost"), one.cost("query_cost")) == (embedding, query)
