"""What an index costs in every store: building, size, and recall against latency and throughput.

    python benchmarks/stores.py [STORE ...] [--vectors 100000] [--dimension 384] [--queries 500] [--seconds 2]
                                [--builds 10] [--seed 0] [--json PATH] [--picture PATH] [--show]

Every registered store runs in every place that tests/support/store_kinds.py has for it (a folder, or a server that is
started here on 127.0.0.1), but for doubles. Vectors are made: unit vectors near a few dozen topics and between two of
them; queries are drawn with them. Graphs are built alike (16 links, 100 candidates), so that what differs is the
engine; each is searched with a few widths. All goes through the interface of stores that a run uses.

Searches are made by 1, 4 and 16 clients at a time: threads of this process, each with a connection where there is a
server; in a process all share one index. The time of a query is that of a whole search for ten hits, client included.
The network's share is the median time of the smallest request that the engine answers. Engines that report no size
have that of their files.

`--json` keeps the results, store by store: a store that is measured again replaces its own, and the table and the
picture are of all that are in the file. `--picture` ends in .svg or .png.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from quiet import refuse_if_busy

from ragtrial.engines import STORES, Index, Store, Vectors
from ragtrial.engines.servers import ServerStore, connected
from ragtrial.rankings import Floats
from ragtrial.views.sections.plots import NEUTRAL, styled
from store_kinds import KINDS, StoreKind, nothing, postgres_url, recall
from vector_oracles import exactly, like_embeddings, vectors_of

CLIENTS = (1, 4, 16)
DEPTH = 10
PINGS = 200
PATIENCE = 900.0
"""Seconds for a request: a server may flush or build for long before it answers."""

ENOUGH = 0.95

DOUBLES = {"qdrant-server": "a double of the tests is no engine, and the server has no package"}
"""Places that are not measured, and why."""

GRAPH = {"m": 16, "ef_construction": 100}
WIDTHS = (10, 20, 40, 80, 160, 320)

CURVES: dict[str, list[dict[str, Any]]] = {
    "chroma": [{"hnsw": {"max_neighbors": 16, "ef_construction": 100, "ef_search": ef}} for ef in (40, 10, 160)],
    "faiss": [{"factory": "HNSW16", "ef_construction": 100, "ef_search": ef} for ef in WIDTHS],
    **{
        kind: [{"index": {"kind": "hnsw", **GRAPH, "ef_search": ef}} for ef in WIDTHS]
        for kind in ("milvus", "pgvector", "qdrant")
    },
}
"""By kind, the options of each point of its curve; a kind that is not here is measured with its defaults. Chroma builds
anew for another ef_search."""


@dataclass(frozen=True)
class Load:
    """So many clients at once: queries a second, and seconds of single ones."""

    clients: int
    throughput: float
    p50: float
    p95: float


@dataclass(frozen=True)
class Point:
    """One way to search."""

    width: int | None
    recall: float
    used: bool | None
    loads: Sequence[Load]


@dataclass(frozen=True)
class Measured:
    """A store in one place. ``network`` is in seconds, None without a server; ``load`` that of the machine before."""

    store: str
    version: str
    build: float
    size: int
    size_is_reported: bool
    network: float | None
    load: float
    points: list[Point] = field(default_factory=list)


@dataclass(frozen=True)
class Data:
    """What is indexed, and what is asked; ``true`` are the nearest rows of each query."""

    vectors: Vectors
    queries: Floats
    true: Any


def made(count: int, dimension: int, queries: int, seed: int) -> Data:
    drawn = like_embeddings(count + queries, dimension, seed)
    vectors, asked = vectors_of(drawn[:count]), drawn[count:]
    return Data(vectors, asked, exactly(vectors, asked, DEPTH, "cosine").codes)


def measure(name: str, place: StoreKind, data: Data, seconds: float, builds: int) -> Measured:
    """The store called ``name`` at one place, after at most so many ``builds``."""
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"ragtrial-{name}-")))
        (data_of_server := folder / "server").mkdir()
        reached = {**stack.enter_context(place.server(data_of_server)), "timeout": PATIENCE} if place.server else {}
        if place.kind == "pgvector":
            give_memory(postgres_url())
        found: Measured | None = None
        built: dict[str, Path] = {}
        for options in CURVES.get(place.kind, [{}]):
            store = place.store(reached, space="cosine", **options)
            if (build := built_with(store)) not in built:
                if len(built) == builds:
                    continue
                at = built[build] = folder / f"build-{len(built)}"
                at.mkdir()
                start = time.perf_counter()
                store.build(data.vectors, at, nothing)
                took = time.perf_counter() - start
                say(f"{name}: built in {took:.1f} s")
                found = found or described(name, store, at, data_of_server, took, load)
            assert found is not None
            found.points.append(point(store, built[build], data, seconds))
            say(f"{name}: {found.points[-1]}")
    assert found is not None
    return found


def built_with(store: Store) -> str:
    """The options of the build, as a run tells builds from one another."""
    options = store.hashed_options()
    for name in store.search_options:
        *outer, last = name.split(".")
        inner = options
        for key in outer:
            inner = inner.get(key) or {}
        inner.pop(last, None)
    return json.dumps(options, sort_keys=True)


def described(name: str, store: Store, folder: Path, of_server: Path, took: float, load: float) -> Measured:
    facts, network = store.facts(folder), None
    if isinstance(store, ServerStore) and store.url is not None:
        network = network_share(store)
    size = facts.get("bytes")
    files = size_of(of_server if network is not None else folder)
    version = str(facts.get("version") or installed(store.kind))
    return Measured(name, version, took, files if size is None else size, size is not None, network, load)


def network_share(store: ServerStore) -> float:
    with connected(store) as engine:
        return statistics.median(seconds_of(engine.version) for _ in range(PINGS))


def point(store: Store, folder: Path, data: Data, seconds: float) -> Point:
    with opened(store, data.vectors, folder, max(CLIENTS)) as indexes:
        found, use = indexes[0].search(data.queries, DEPTH), indexes[0].use()
        loads = [under_load(indexes[:clients], data.queries, seconds) for clients in CLIENTS]
    share = recall(found.codes, data.true)
    return Point(store.width(DEPTH) or asked_width(store), share, use.is_used, loads)


def asked_width(store: Store) -> int | None:
    """The width of a search that does not depend on the hits asked for."""
    return getattr(getattr(store, "index", None), "ef_search", None)


@contextmanager
def opened(store: Store, vectors: Vectors, folder: Path, clients: int) -> Iterator[list[Index]]:
    """An index for each client: connections to a server, else the same one."""
    has_server = getattr(store, "url", None) is not None
    indexes = [store.open(vectors, folder) for _ in range(clients if has_server else 1)]
    try:
        yield indexes if has_server else indexes * clients
    finally:
        for index in indexes:
            index.close()


def under_load(indexes: Sequence[Index], queries: Floats, seconds: float) -> Load:
    """All clients ask, each begins elsewhere among the queries, until the time is over."""
    took: list[list[float]] = [[] for _ in indexes]
    failed: list[BaseException] = []
    barrier = threading.Barrier(len(indexes) + 1)

    def client(number: int) -> None:
        index, at = indexes[number], number * len(queries) // len(indexes)
        try:
            for _ in range(5):
                index.search(queries[at : at + 1], DEPTH)
        except BaseException as error:  # noqa: BLE001 - said below, where all have ended
            failed.append(error)
        barrier.wait()
        end = time.perf_counter() + seconds
        while not failed and time.perf_counter() < end:
            at = (at + 1) % len(queries)
            took[number].append(seconds_of(lambda row=at: index.search(queries[row : row + 1], DEPTH)))  # type: ignore[misc]

    threads = [threading.Thread(target=client, args=(number,)) for number in range(len(indexes))]
    for one in threads:
        one.start()
    barrier.wait()
    start = time.perf_counter()
    for one in threads:
        one.join()
    elapsed = time.perf_counter() - start
    if failed:
        raise failed[0]
    every = np.concatenate([np.array(one) for one in took])
    p50, p95 = np.quantile(every, [0.5, 0.95]).tolist()
    return Load(len(indexes), len(every) / elapsed, p50, p95)


def give_memory(url: str) -> None:
    """Let PostgreSQL build graphs in memory: in the 64 MB of its default the last part is built on the disk."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as database:
        database.execute("ALTER ROLE CURRENT_USER SET maintenance_work_mem = '1GB'")


def seconds_of(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def installed(kind: str) -> str:
    """The versions of the packages of an engine in this process."""
    from importlib.metadata import version

    package = {"chroma": "chromadb", "exact": "numpy", "faiss": "faiss-cpu", "qdrant": "qdrant-edge-py"}.get(kind, kind)
    return f"{package} {version(package)}"


def table(measured: Sequence[Measured]) -> Iterator[str]:
    clients = " | ".join(f"q/s, {one}" for one in CLIENTS)
    yield f"| store | ef | recall@{DEPTH} | p50 ms | p95 ms | without network | {clients} |"
    yield f"|---|--:|--:|--:|--:|--:|{'--:|' * len(CLIENTS)}"
    for one in measured:
        for at in one.points:
            alone = at.loads[0]
            without = "" if one.network is None else f"{1e3 * max(0.0, alone.p50 - one.network):.2f}"
            rates = " | ".join(f"{load.throughput:,.0f}" for load in at.loads)
            width = "" if at.width is None else f"{at.width:,}"
            unused = " (not used)" if at.used is False else ""
            yield (
                f"| {one.store}{unused} | {width} | {at.recall:.3f} | {1e3 * alone.p50:.2f} | {1e3 * alone.p95:.2f} | "
                f"{without} | {rates} |"
            )


def summary(measured: Sequence[Measured]) -> Iterator[str]:
    """Builds, and the cheapest search with enough recall."""
    clients = " | ".join(f"q/s, {one}" for one in CLIENTS)
    yield f"| store | engine | load | build s | size MB | ef | recall@{DEPTH} | p50 ms | network ms | {clients} |"
    yield f"|---|---|--:|--:|--:|--:|--:|--:|--:|{'--:|' * len(CLIENTS)}"
    for one in measured:
        enough = [at for at in one.points if at.recall >= ENOUGH]
        at = max(enough, key=lambda at: at.loads[0].throughput) if enough else max(one.points, key=lambda at: at.recall)
        size = f"{one.size / 1e6:,.0f}{'' if one.size_is_reported else ' (files)'}"
        network = "" if one.network is None else f"{1e3 * one.network:.2f}"
        rates = " | ".join(f"{load.throughput:,.0f}" for load in at.loads)
        width = "" if at.width is None else f"{at.width:,}"
        yield (
            f"| {one.store} | {one.version} | {one.load:.0f} | {one.build:,.0f} | {size} | {width} | {at.recall:.3f} | "
            f"{1e3 * at.loads[0].p50:.2f} | {network} | {rates} |"
        )


def draw(measured: Sequence[Measured], title: str, path: Path) -> None:
    """Recall against queries a second, a panel for each number of clients; dashed where there is a server."""
    with styled():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.4), layout="constrained")
        kinds = list(dict.fromkeys(KINDS[one.store].kind for one in measured))
        looks = {
            kind: {"color": f"C{place}", "marker": mark}
            for place, (kind, mark) in enumerate(zip(kinds, "os^Dv<>pX", strict=False))
        }
        panels = figure.subplots(1, len(CLIENTS), sharex=True, sharey=True)
        for panel, (axes, clients) in enumerate(zip(panels, CLIENTS, strict=True)):
            for one in measured:
                look = looks[KINDS[one.store].kind]
                points = sorted((at.recall, at.loads[panel].throughput) for at in one.points)
                axes.plot(*zip(*points, strict=True), marker=look["marker"], color=look["color"], label=one.store,
                          linestyle="-" if one.network is None else "--",
                          markerfacecolor=look["color"] if one.network is None else "white")  # fmt: skip
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.set_title(f"{clients} client{'s' if clients > 1 else ''}", fontsize=8, color=NEUTRAL)
            axes.set_xlabel(f"recall@{DEPTH}")
        panels[0].set_ylabel("queries per second")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center")
        figure.suptitle(title, fontsize=8)
        metadata: dict[str, Any] = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, metadata=metadata, dpi=150)


def read(path: Path | None) -> dict[str, Any]:
    empty: dict[str, Any] = {"machine": "", "stores": {}}
    return json.loads(path.read_text()) if path is not None and path.exists() else empty


def restored(found: Mapping[str, Any]) -> Measured:
    points = [Point(**{**at, "loads": [Load(**load) for load in at["loads"]]}) for at in found["points"]]
    return Measured(**{**found, "points": points})


def say(text: str) -> None:
    print(f"{dt.datetime.now(dt.UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    places = [name for name in KINDS if name not in DOUBLES]
    parser.add_argument("stores", metavar="STORE", nargs="*", help=f"all unless named: {', '.join(places)}")
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement under load")
    parser.add_argument("--builds", type=int, default=10, help="most of a store: Chroma takes one for each width")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--show", action="store_true", help="measure nothing: print and draw what is in --json")
    chosen = parser.parse_args()
    if unknown := set(chosen.stores) - set(places):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(places)}.")
    return chosen


def main() -> int:
    chosen = options()
    kept = read(chosen.json)
    failures = 0 if chosen.show else measure_all(chosen, kept)
    measured = [restored(kept["stores"][name]) for name in KINDS if name in kept["stores"]]
    print(kept["machine"])
    print("\n".join(["", f"The fastest search with recall of {ENOUGH} or more:", "", *summary(measured)]))
    print("\n".join(["", "All searches:", "", *table(measured)]))
    print("\n".join(f"{name} was not measured: {why}." for name, why in DOUBLES.items()))
    if chosen.picture and measured:
        draw(measured, kept["machine"].partition(";")[0], chosen.picture)
    return 1 if failures else 0


def measure_all(chosen: argparse.Namespace, kept: dict[str, Any]) -> int:
    """Measure the chosen stores into ``kept``, and its file; gives how many failed."""
    size = f"{chosen.vectors:,} x {chosen.dimension}"
    data = made(chosen.vectors, chosen.dimension, chosen.queries, chosen.seed)
    kept["machine"] = (
        f"{size} made vectors, seed {chosen.seed}; {dt.datetime.now(dt.UTC):%Y-%m-%d}, {platform.machine()}, "
        f"{os.cpu_count()} cores, Python {platform.python_version()}"
    )
    failures = 0
    for kind in STORES.names():
        for name, place in ((name, one) for name, one in KINDS.items() if one.kind == kind and name not in DOUBLES):
            if chosen.stores and name not in chosen.stores:
                continue
            try:
                kept["stores"][name] = asdict(measure(name, place, data, chosen.seconds, chosen.builds))
            except Exception as error:  # noqa: BLE001 - the other stores go on
                failures += 1
                say(f"{name}: {type(error).__name__}: {error}")
            if chosen.json:
                chosen.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return failures


if __name__ == "__main__":
    refuse_if_busy()
    raise SystemExit(main())
