"""Milvus: Milvus Lite as a server, or the packaged server where `make milvus` has installed it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from faults.base import QUERIES, ROWS, NotHereError, Seen, fault, recall, said_by_a_run
from milvus_servers import PACKAGED, milvus_server
from ragtrial.engines.milvus import MilvusStore
from ragtrial.engines.servers import EngineIndex, connected
from ragtrial.errors import StoreError
from vector_oracles import vectors_of

STARVED = {"kind": "hnsw", "m": 4, "ef_construction": 10, "ef_search": 1}
NESTED: dict[str, Any] = {"params": {"M": 4, "efConstruction": 10}}
"""Parameters as they arrive in Milvus Lite."""


@contextmanager
def milvus(folder: Path, **options: Any) -> Iterator[tuple[Any, Any]]:
    """A Milvus server with a store on it, and its client."""
    with milvus_server(folder / "server") as reached:
        given = {"kind": "milvus", "space": "l2", "index": STARVED, **options, **reached}
        with connected(MilvusStore.model_validate(given)) as engine:
            yield engine, engine.client  # type: ignore[attr-defined]


def filled(client: Any, *, with_index: bool, **parameters: Any) -> None:
    """A collection as tutorials make it: rows are inserted, and nothing is flushed."""
    from pymilvus import DataType

    schema = client.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=ROWS.shape[1])
    client.create_collection("c", schema=schema, consistency_level="Strong")
    if with_index:
        indexed(client, **parameters)
    client.insert("c", [{"id": code, "vector": row} for code, row in enumerate(ROWS)])


def indexed(client: Any, **parameters: Any) -> None:
    made = client.prepare_index_params()
    made.add_index("vector", index_type="HNSW", metric_type="L2", params=parameters)
    client.create_index("c", made)
    client.load_collection("c")


def flushed_and_indexed(client: Any, **parameters: Any) -> None:
    filled(client, with_index=False)
    client.flush("c")
    indexed(client, **parameters)


def found(client: Any, depth: int = 10, **parameters: Any) -> list[list[int]]:
    hits = client.search("c", list(QUERIES), limit=depth, output_fields=["id"], search_params={"params": parameters})
    return [list(one.ids) for one in hits]


def evidence(engine: Any) -> str:
    """What ragtrial says of searches in the collection of the client."""
    return str(EngineIndex(engine, "c", vectors_of(ROWS)).use().evidence)


def refused_option(**index: Any) -> str:
    try:
        MilvusStore.model_validate({"kind": "milvus", "index": {**STARVED, **index}})
    except ValidationError as error:
        return f"refused: {error.errors()[0]['loc'][-1]}: {error.errors()[0]['msg']}"
    return ""


def of_milvus_lite_alone() -> None:
    if PACKAGED:
        raise NotHereError("it is Milvus Lite's")


@fault("milvus", "without an index|does not list its segments")
def memtable(folder: Path) -> Seen:
    """Rows that were not flushed are searched without the index."""
    with milvus(folder) as (engine, client):
        filled(client, with_index=True, **NESTED)
        state = client.describe_index("c", "vector")["state"]
        share, said = recall(found(client, ef=1), QUERIES, ROWS), evidence(engine)
    return Seen(share == 1, f"recall {share:.3f} at ef 1; describe_index says {state}", said)


@fault("milvus", "builds are flushed before they are indexed")
def background(folder: Path) -> Seen:
    """After a flush the answer changes by itself (Milvus Lite)."""
    of_milvus_lite_alone()
    with milvus(folder) as (engine, client):
        filled(client, with_index=True, **NESTED)
        client.flush("c")
        before, until = recall(found(client, ef=1), QUERIES, ROWS), time.monotonic() + 60
        while (after := recall(found(client, ef=1), QUERIES, ROWS)) > 0.9 and time.monotonic() < until:
            time.sleep(0.2)
        said = evidence(engine)
    happens = f"recall {before:.3f} at ef 1, then {after:.3f}; describe_index says Finished both times"
    return Seen(after < 0.9, happens, f"builds are flushed before they are indexed; then: {said}")


@fault("milvus", "built the index with")
def dropped_parameters(folder: Path) -> Seen:
    """Milvus Lite ignores M and efConstruction as pymilvus 3 sends them."""
    from pymilvus.milvus_client.index import IndexParam

    of_milvus_lite_alone()
    with milvus(folder, index={**STARVED, "ef_search": 64}) as (engine, client):
        flushed_and_indexed(client, M=4, efConstruction=10)
        sent = recall(found(client, ef=64), QUERIES, ROWS)
        nested = IndexParam.get_index_configs
        IndexParam.get_index_configs = lambda self: {**nested(self).pop("params"), **nested(self)}
        try:
            engine.fill("d", vectors_of(ROWS), 1_000, lambda _: None)
            said = ""
        except StoreError as error:
            said = str(error)
        finally:
            IndexParam.get_index_configs = nested
        built = engine.fill("e", vectors_of(ROWS), 1_000, lambda _: None)
        mine = recall(EngineIndex(engine, "e", vectors_of(ROWS)).search(QUERIES, 10).codes.tolist(), QUERIES, ROWS)
    happens = f"recall {sent:.3f} at ef 64 with M 4 sent by pymilvus, {mine:.3f} with M {built['M']} built"
    return Seen(sent > mine + 0.05, happens, said)


@fault("milvus", "refused: probes")
def foreign_parameter(folder: Path) -> Seen:
    """A parameter of another kind of index is ignored."""
    with milvus(folder) as (_, client):
        flushed_and_indexed(client, **NESTED)
        try:
            one, other = (recall(found(client, ef=64, **more), QUERIES, ROWS) for more in ({}, {"nprobe": 1}))
        except Exception as error:  # noqa: BLE001 - it would be the engine's word on it
            return Seen(is_there=False, happens=f"refused: {error}", said="")
    return Seen(
        abs(one - other) < 0.1,
        f"nprobe 1 for HNSW raises no error (recall {one:.3f}, then {other:.3f})",
        refused_option(probes=1),
    )


@fault("milvus", "searched with ef 10")
def narrow_ef(folder: Path) -> Seen:
    """An ef below the hits asked for finds less in Milvus Lite, and is refused by a server."""
    with milvus(folder) as (_, client):
        flushed_and_indexed(client, **NESTED)
        try:
            is_there = found(client, ef=1) != found(client, ef=10)
            happens = "10 hits at ef 1 differ from those at ef 10"
        except Exception as error:  # noqa: BLE001 - a server's
            is_there, happens = True, f"refused: {str(error)[-90:]}"
    width = MilvusStore.model_validate({"kind": "milvus", "index": STARVED}).width(10)
    return Seen(is_there, happens, f"searched with ef {width} in both, as the option's text says")


@fault("milvus", "fewer-hits: one: 2")
def few_probes(folder: Path) -> Seen:
    """Few probes give fewer hits than asked for."""
    index = {"kind": "other", "type": "IVF_FLAT", "build": {"nlist": 128}, "search": {"nprobe": 1}}
    with milvus(folder, index=index) as (engine, _):
        engine.fill("c", vectors_of(ROWS), 1_000, lambda _: None)
        lengths = EngineIndex(engine, "c", vectors_of(ROWS)).search(QUERIES, 100).lengths
        store = {"kind": "milvus", "space": "l2", "url": engine.store.url, "index": index}
        said = said_by_a_run(folder, {"store": store, "top_k": 100})
    short = int((lengths < 100).sum())
    return Seen(
        short > 0, f"{short} of {len(QUERIES)} queries got fewer than 100 hits, the fewest {lengths.min()}", said
    )


@fault("milvus", "without an index")
def small_segment(folder: Path) -> Seen:
    """A segment of fewer than 1,024 rows is scanned (servers alone)."""
    if not PACKAGED:
        raise NotHereError("Milvus Lite indexes all segments; the server of `make milvus` shows it")
    rows = ROWS[:800]
    with milvus(folder) as (engine, client):
        engine.fill("c", vectors_of(rows), 1_000, lambda _: None)
        state = client.describe_index("c", "vector")
        store = {"kind": "milvus", "space": "l2", "url": engine.store.url, "index": STARVED}
        said = said_by_a_run(folder, {"store": store}, rows)
    happens = f"describe_index says {state['state']}, {state['indexed_rows']} rows indexed; there is no index"
    return Seen(state["state"] == "Finished", happens, said)
