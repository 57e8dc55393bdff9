"""Silent faults of vector indexes, each made to happen in its engine, and what ragtrial says of it.

    python benchmarks/index_faults.py [ENGINE ...]

Each function makes one fault happen with the engine's own client, as users come to it, and then lets ragtrial look. It
fails if the fault does not happen, or is not named.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))


class Seen(NamedTuple):
    """What the engine did, in figures, and the words in which ragtrial names it; None if it does not."""

    happens: str
    named: str | None


@dataclass(frozen=True)
class Fault:
    """Something that an engine does without a word."""

    engine: str
    name: str
    reproduce: Callable[[Path], Seen]


FAULTS: list[Fault] = []


def fault(engine: str, name: str) -> Callable[[Callable[[Path], Seen]], Callable[[Path], Seen]]:
    """Registers what makes a fault happen in an empty folder."""

    def register(reproduce: Callable[[Path], Seen]) -> Callable[[Path], Seen]:
        FAULTS.append(Fault(engine, name, reproduce))
        return reproduce

    return register


def gaussian(count: int, dimension: int = 96, seed: int = 0) -> npt.NDArray[np.float32]:
    """Vectors without any structure: what a poor graph misses is seen at once."""
    return np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)


def recall(found: list[list[int]], queries: npt.NDArray[np.float32], rows: npt.NDArray[np.float32]) -> float:
    """The share of the nearest rows by squared distance that was found, in [0, 1]."""
    distances = (rows**2).sum(axis=1) - 2 * queries @ rows.T
    depth = len(found[0])
    true = np.argsort(distances, axis=1)[:, :depth]
    return float(np.mean([len(set(one) & set(other)) / depth for one, other in zip(found, true.tolist(), strict=True)]))


# Milvus.

ROWS, QUERIES = gaussian(6_000), gaussian(30, seed=1)
STARVED = {"kind": "hnsw", "m": 4, "ef_construction": 10, "ef_search": 1}


@contextmanager
def milvus(folder: Path, **options: Any) -> Iterator[tuple[Any, Any]]:
    """A Milvus server, and a store on it."""
    from milvus_servers import milvus_server
    from ragtrial.components.stores.milvus import MilvusStore
    from ragtrial.components.stores.server import connected

    with milvus_server(folder) as reached:
        given = {"kind": "milvus", "space": "l2", "index": STARVED, **options, **reached}
        with connected(MilvusStore.model_validate(given)) as engine:
            yield engine, engine.client  # type: ignore[attr-defined]


def milvus_collection(client: Any, *, with_index: bool, count: int = len(ROWS), **parameters: Any) -> None:
    """A collection as tutorials make it: rows are inserted, and nothing is flushed."""
    from pymilvus import DataType

    schema = client.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=ROWS.shape[1])
    client.create_collection("c", schema=schema, consistency_level="Strong")
    if with_index:
        milvus_indexed(client, **parameters)
    client.insert("c", [{"id": code, "vector": row} for code, row in enumerate(ROWS[:count])])


def milvus_indexed(client: Any, **parameters: Any) -> None:
    made = client.prepare_index_params()
    made.add_index("vector", index_type="HNSW", metric_type="L2", params=parameters)
    client.create_index("c", made)
    client.load_collection("c")


def milvus_found(client: Any, depth: int = 10, **parameters: Any) -> list[list[int]]:
    hits = client.search("c", list(QUERIES), limit=depth, output_fields=["id"], search_params={"params": parameters})
    return [list(one.ids) for one in hits]


def milvus_use(engine: Any, count: int = len(ROWS)) -> Any:
    from vector_oracles import vectors_of

    return engine.open("c", vectors_of(ROWS[:count])).use()


NESTED: dict[str, Any] = {"params": {"M": 4, "efConstruction": 10}}
"""Parameters as they arrive in Milvus Lite."""


def of_milvus_lite() -> Seen | None:
    """What is seen of a fault of Milvus Lite where the server itself is tried."""
    from milvus_servers import PACKAGED

    return Seen("not tried: it is Milvus Lite's", "-") if PACKAGED else None


@fault("milvus", "rows that were not flushed are searched without the index")
def memtable(folder: Path) -> Seen:
    with milvus(folder) as (engine, client):
        milvus_collection(client, with_index=True, **NESTED)
        state = client.describe_index("c", "vector")["state"]
        found, use = recall(milvus_found(client, ef=1), QUERIES, ROWS), milvus_use(engine)
    happens = f"recall {found:.3f} at ef 1; describe_index says {state}"
    return Seen(happens, use.evidence if found == 1 and use.is_used is False else None)


@fault("milvus", "after a flush the answer changes by itself (Milvus Lite)")
def background(folder: Path) -> Seen:
    if (seen := of_milvus_lite()) is not None:
        return seen
    with milvus(folder) as (engine, client):
        milvus_collection(client, with_index=True, **NESTED)
        client.flush("c")
        before, until = recall(milvus_found(client, ef=1), QUERIES, ROWS), time.monotonic() + 60
        while (after := recall(milvus_found(client, ef=1), QUERIES, ROWS)) > 0.9 and time.monotonic() < until:
            time.sleep(0.2)
        use = milvus_use(engine)
    happens = f"recall {before:.3f} at ef 1, then {after:.3f}; describe_index says Finished both times"
    return Seen(happens, f"a build is flushed before it is indexed. {use.evidence}" if after < 0.9 else None)


@fault("milvus", "Milvus Lite ignores M and efConstruction as pymilvus 3 sends them")
def dropped_parameters(folder: Path) -> Seen:
    from pymilvus.milvus_client.index import IndexParam

    from ragtrial.errors import StoreError
    from vector_oracles import vectors_of

    if (seen := of_milvus_lite()) is not None:
        return seen
    with milvus(folder, index={**STARVED, "ef_search": 64}) as (engine, client):
        milvus_collection(client, with_index=False)
        client.flush("c")
        milvus_indexed(client, M=4, efConstruction=10)
        sent = recall(milvus_found(client, ef=64), QUERIES, ROWS)
        nested = IndexParam.get_index_configs
        IndexParam.get_index_configs = lambda self: {**nested(self).pop("params"), **nested(self)}
        try:
            engine.fill("d", vectors_of(ROWS), lambda _: None)
            named = None
        except StoreError as error:
            named = str(error)
        finally:
            IndexParam.get_index_configs = nested
        fill = engine.fill("e", vectors_of(ROWS), lambda _: None)
        mine = recall(engine.open("e", vectors_of(ROWS)).search(QUERIES, 10).codes.tolist(), QUERIES, ROWS)
    happens = f"recall {sent:.3f} at ef 64 with M 4 sent by pymilvus, {mine:.3f} with M {fill['M']} built"
    return Seen(happens, named if sent > mine + 0.05 else None)


@fault("milvus", "a parameter of another kind of index is ignored")
def foreign_parameter(folder: Path) -> Seen:
    from pydantic import ValidationError

    from ragtrial.components.stores.milvus import MilvusStore

    with milvus(folder) as (_, client):
        milvus_collection(client, with_index=False)
        client.flush("c")
        milvus_indexed(client, **NESTED)
        is_same = milvus_found(client, ef=64) == milvus_found(client, ef=64, nprobe=1)
    try:
        MilvusStore.model_validate({"kind": "milvus", "index": {**STARVED, "probes": 1}})
        named = None
    except ValidationError as error:
        named = f"refused: {error.errors()[0]['loc'][-1]}: {error.errors()[0]['msg']}"
    return Seen(f"nprobe 1 for HNSW changes {'nothing' if is_same else 'hits'}, without an error", named)


@fault("milvus", "ef below the hits asked for finds less in Milvus Lite, and is refused by a server")
def narrow_ef(folder: Path) -> Seen:
    from ragtrial.components.stores.milvus import MilvusStore

    with milvus(folder) as (_, client):
        milvus_collection(client, with_index=False)
        client.flush("c")
        milvus_indexed(client, **NESTED)
        try:
            is_same = milvus_found(client, ef=1) == milvus_found(client, ef=10)
            happens = f"10 hits at ef 1 {'are those' if is_same else 'differ from those'} at ef 10"
        except Exception as error:  # noqa: BLE001 - a server's
            happens = f"refused: {str(error)[-90:]}"
    store = MilvusStore.model_validate({"kind": "milvus", "index": STARVED})
    return Seen(happens, f"searched with ef {store.width(10)} in both, as the option's text says")


@fault("milvus", "few probes give fewer hits than asked for")
def few_probes(folder: Path) -> Seen:
    from vector_oracles import vectors_of

    with milvus(folder, index={"kind": "ivf_flat", "lists": 128, "probes": 1}) as (engine, _):
        engine.fill("c", vectors_of(ROWS), lambda _: None)
        lengths = engine.open("c", vectors_of(ROWS)).search(QUERIES, 100).lengths
    short = int((lengths < 100).sum())
    named = f"audit.short_queries {short}, warning few_hits: {engine.store.advice_for_few_hits}"
    return Seen(f"{short} of {len(QUERIES)} queries got fewer than 100 hits, the fewest {lengths.min()}", named)


@fault("milvus", "rows that no search finds")
def unreachable(folder: Path) -> Seen:
    from vector_oracles import vectors_of

    index = {"kind": "hnsw", "m": 2, "ef_construction": 1, "ef_search": 64}
    with milvus(folder, index=index) as (engine, client):
        engine.fill("c", vectors_of(ROWS), lambda _: None)
        listed = {one for hits in milvus_found(client, depth=6_000, ef=32_768) for one in hits}
        lost = engine.open("c", vectors_of(ROWS)).unreachable()
    missing = len(ROWS) - len(listed)
    happens = f"{missing:,} of {len(ROWS):,} rows are in no listing of all, though they are stored"
    named = f"audit.unreachable {lost:,}: {engine.store.advice_for_unreachable}"
    return Seen(happens, named if bool(lost) == bool(missing) else None)


@fault("milvus", "a segment of fewer than 1,024 rows is scanned (servers alone)")
def small_segment(folder: Path) -> Seen:
    from milvus_servers import PACKAGED
    from vector_oracles import vectors_of

    if not PACKAGED:
        return Seen("not tried: Milvus Lite indexes all segments; `make milvus` has the server", "-")
    rows = vectors_of(ROWS[:800])
    with milvus(folder) as (engine, client):
        engine.fill("c", rows, lambda _: None)
        state = client.describe_index("c", "vector")
        use = engine.open("c", rows).use()
    happens = f"describe_index says {state['state']}, {state['indexed_rows']} rows indexed; there is no index"
    return Seen(happens, use.evidence if use.is_used is False else None)


def main(engines: list[str]) -> int:
    missing = 0
    for one in FAULTS:
        if engines and one.engine not in engines:
            continue
        with tempfile.TemporaryDirectory() as folder:
            seen = one.reproduce(Path(folder))
        missing += seen.named is None
        print(
            f"{one.engine}: {one.name}\n  happens: {seen.happens}\n  ragtrial: {seen.named or 'NOT NAMED'}", flush=True
        )
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
