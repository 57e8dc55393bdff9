"""Millions of vectors, larger than the memory they may take: stored, searched exactly, indexed and audited.

    python benchmarks/scale.py [--vectors 1000000] [--dimension 384] [--queries 1000] [--depth 100] [--folder FOLDER]
                               [--store '{"kind": "exact", "quantize": "binary", "rescore": 10}'] [--cache]

The vectors are made, not embedded: 4,096 topics, with differences of 48 dimensions inside each. They are written,
sealed and read as a run writes, seals and reads the vectors of its chunks, and leave FOLDER at the end.

With --cache they are, before that, kept in batches as a run keeps what a model embeds, in an order of their own, and
read again in that of the chunks.

Exact search is held against the least that it must do: reading the file once, and the matrix product in NumPy (of every
eighth block, times eight). Before either the file is dropped from the page cache. Prints for each step the seconds, the
processor's seconds (which depend less on what else runs), the most memory of the process while it lasts (anonymous
memory; and all that is resident, with mapped pages of files), and what was read from the disk. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import numpy as np
from quiet import refuse_if_busy

from ragtrial.cache.arrays import read_array, write_rows
from ragtrial.cache.seals import check_bytes, seal
from ragtrial.cache.vectors import VectorCache, text_keys
from ragtrial.components.embedders.cached import Embedded
from ragtrial.components.vector_checks import NormStatistics
from ragtrial.engines import STORES, Store, Vectors
from ragtrial.engines.base import normalized
from ragtrial.engines.exact import ExactIndex
from ragtrial.rankings import Floats

TOPICS = 4_096
WITHIN = 48
BLOCK = 8_192
BATCH = 1_024
MULTIPLIED = 8  # of so many blocks one is multiplied for the reference
MIB = 2**20


class MadeVectors:
    """Vectors of length 1 around random topics: about what is near is decided inside a topic and between neighbours."""

    def __init__(self, dimension: int, seed: int) -> None:
        self._random = np.random.Generator(np.random.SFC64(seed))
        self._topics = self._random.standard_normal((TOPICS, dimension), dtype=np.float32)
        self._basis = self._random.standard_normal((WITHIN, dimension), dtype=np.float32) / np.float32(WITHIN**0.5)

    def blocks(self, count: int) -> Iterator[Floats]:
        for start in range(0, count, BLOCK):
            rows = min(BLOCK, count - start)
            topics = self._topics[self._random.integers(TOPICS, size=rows)]
            yield normalized(topics + self._random.standard_normal((rows, WITHIN), dtype=np.float32) @ self._basis)


@dataclass
class Taken:
    """What a step has taken: seconds by the clock and of the processor, and the most memory in MiB."""

    wall: float = 0.0
    processor: float = 0.0
    most: dict[str, int] = field(default_factory=lambda: {"RssAnon": 0, "VmRSS": 0})

    def watch_memory(self, over: Event) -> None:
        is_over = False
        while not is_over:
            for line in Path("/proc/self/status").read_text().splitlines():
                key, _, value = line.partition(":")
                if key in self.most:
                    self.most[key] = max(self.most[key], int(value.split()[0]) // 1024)
            is_over = over.wait(0.05)


@contextmanager
def step(name: str) -> Iterator[Taken]:
    """Print what is taken by what is done inside."""
    over, taken = Event(), Taken()
    watcher, before = Thread(target=taken.watch_memory, args=(over,)), bytes_read()
    watcher.start()
    start, busy = time.perf_counter(), time.process_time()
    try:
        yield taken
    finally:
        taken.wall, taken.processor = time.perf_counter() - start, time.process_time() - busy
        over.set()
        watcher.join()
        read = (bytes_read() - before) // MIB
        numbers = f"{taken.wall:8.1f} {taken.processor:9.1f} {taken.most['RssAnon']:8,} {taken.most['VmRSS']:8,}"
        print(f"{name:42} {numbers} {read:8,}", flush=True)


def bytes_read() -> int:
    """What this process has had read from the disk."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def drop_from_cache(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_once(path: Path, dimension: int) -> Iterator[Floats]:
    """The rows of the file, each block in the memory of the one before."""
    block = np.empty((BLOCK, dimension), dtype=np.float32)
    with path.open("rb", buffering=0) as file:
        file.seek(path.stat().st_size % block[0].nbytes)  # behind the header
        while count := file.readinto(block.data.cast("B")):
            yield block[: count // block[0].nbytes]


def reference(path: Path, queries: Floats) -> Taken:
    """What it takes to read the file once, and to multiply all of its rows with all queries."""
    product, part = np.empty((len(queries), BLOCK), dtype=np.float32), Taken()
    with step("reference: read, multiply each 8th block") as all_of_it:
        for number, rows in enumerate(read_once(path, queries.shape[1])):
            if number % MULTIPLIED == 0:
                start, busy = time.perf_counter(), time.process_time()
                np.matmul(queries, rows.T, out=product[:, : len(rows)])
                part.wall += time.perf_counter() - start
                part.processor += time.process_time() - busy
    more = MULTIPLIED - 1
    whole = Taken(all_of_it.wall + more * part.wall, all_of_it.processor + more * part.processor)
    reading = all_of_it.wall - part.wall
    print(f"reference: {whole.wall:.1f} s, of which reading {reading:.1f}; {whole.processor:.1f} s of the processor")
    return whole


def keep(options: argparse.Namespace, folder: Path) -> None:
    """Write to the cache of an embedder, batch by batch, and read all of it in another order."""
    made, order = MadeVectors(options.dimension, options.seed), np.random.default_rng(options.seed)
    with VectorCache(folder / "cache.sqlite", "made vectors") as cache:
        with step("keep vectors"):
            for start in range(0, options.vectors, BATCH):
                count = min(BATCH, options.vectors - start)
                (vectors,) = made.blocks(count)
                cache.write(text_keys(map(str, range(start, start + count))), vectors)
        keys = text_keys(map(str, order.permutation(options.vectors).tolist()))
        embedded = Embedded(cache.path, keys, options.dimension, 0, 0.0)
        with step("read them in the order of chunks"):
            write_rows(folder / "read.npy", embedded.blocks(), (options.vectors, options.dimension))
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()


def measure(options: argparse.Namespace, store: Store, folder: Path) -> None:
    stage, index_folder = folder / "embeddings", folder / "index"
    stage.mkdir()
    index_folder.mkdir()
    path, made = stage / "vectors.npy", MadeVectors(options.dimension, options.seed)
    print(f"{'step':42} {'seconds':>8} {'processor':>9} {'anon MiB':>8} {'RSS MiB':>8} {'read MiB':>8}")
    if options.cache:
        keep(options, folder)
    with step("make and write vectors"):
        blocks = NormStatistics().watch(made.blocks(options.vectors))
        write_rows(path, blocks, (options.vectors, options.dimension))
    with step("seal (checksum)"):
        seal(stage, "made vectors")
    (queries,) = made.blocks(options.queries)
    drop_from_cache(path)
    least = reference(path, queries)
    drop_from_cache(path)
    with step("check every byte"):
        check_bytes(stage)
    vectors = Vectors(read_array(path), np.random.default_rng(options.seed).permutation(options.vectors))
    drop_from_cache(path)
    with step(f"exact: open, {len(queries):,} queries, top {options.depth}") as taken:
        exact = ExactIndex(vectors, store.space).search(queries, options.depth)
    shares = taken.wall / least.wall, taken.processor / least.processor
    print(f"exact search: {shares[0]:.2f} times the reference, {shares[1]:.2f} times of the processor")
    with step(f"index {store.kind}"):
        store.build(vectors, index_folder, lambda _: None)
    index = store.open(vectors, index_folder)
    with step("search the index"):
        found = index.search(queries, options.depth)
    index.close()
    size = sum(one.stat().st_size for one in index_folder.rglob("*") if one.is_file())
    print(f"disk: vectors {path.stat().st_size // MIB:,} MiB, index {size // MIB:,} MiB")
    share = np.mean([np.isin(row, best).mean() for row, best in zip(found.codes, exact.codes, strict=True)])
    print(f"overlap of the index with exact search {share:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=1_000, help=f"at most {BLOCK:,}")
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="where there is space for all vectors twice")
    parser.add_argument("--store", type=json.loads, default={"kind": "exact", "quantize": "binary", "rescore": 10})
    parser.add_argument("--cache", action="store_true", help="measure the cache of an embedder, too")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    store = STORES[options.store["kind"]].model_validate(options.store)
    print(f"{options.vectors:,} vectors of {options.dimension}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure(options, store, Path(folder))


if __name__ == "__main__":
    refuse_if_busy()
    main()
