"""What the stores cost: exact search against a plain NumPy product, and building against Chroma used directly.

    python benchmarks/search.py [--vectors 100000] [--dimension 384] [--queries 1000] [--rounds 5] [--json PATH]

Paired and interleaved: in every round both sides do the same work, in alternating order. Prints for each pair the
medians, the median of the ratios and their range: exact search as a multiple of NumPy's time (below 1 is faster),
building as a share of Chroma's speed (1 is as fast). The NumPy side finds about the same hits in float32, its ties in
no order. ``--rounds`` counts the rounds of a search; a build, which takes long, has ``--builds`` of them.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from ragtrial.engines import Vectors
from ragtrial.engines.base import Space
from ragtrial.engines.chroma import ChromaStore
from ragtrial.engines.exact import ExactStore
from ragtrial.rankings import Floats

DEPTHS = (10, 100, 1_000)
QUERY_BLOCK = 128
CHROMA_BATCH = 5_000


def like_embeddings(count: int, dimension: int, seed: int) -> Floats:
    """Unit vectors as models make them: between two of 4,000 texts, which lie near a space of few dimensions."""
    shared = np.random.default_rng(0)
    axes = shared.standard_normal((64, dimension)) / np.arange(1, 65)[:, np.newaxis] ** 0.5
    texts = (shared.standard_normal((4_000, 64)) @ axes + 0.3 * shared.standard_normal((4_000, dimension))) / dimension
    random = np.random.default_rng(seed)
    made = np.empty((count, dimension), dtype=np.float32)
    for start in range(0, count, 10_000):
        part = made[start : start + 10_000]
        share = random.uniform(size=(len(part), 1))
        one, other = random.integers(len(texts), size=(2, len(part)))
        part[:] = share * texts[one] + (1 - share) * texts[other]
        part += 0.3 * part.std() * random.standard_normal(part.shape)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made


def vectors_of(matrix: Floats) -> Vectors:
    return Vectors(matrix, np.arange(len(matrix)))


def numpy_search(matrix: Floats, queries: Floats, depth: int) -> None:
    cut = len(matrix) - depth
    for start in range(0, len(queries), QUERY_BLOCK):
        scores = queries[start : start + QUERY_BLOCK] @ matrix.T
        found = np.argpartition(scores, cut, axis=1)[:, cut:]
        best = np.take_along_axis(scores, found, axis=1)
        np.take_along_axis(found, np.argsort(-best, axis=1), axis=1)


def chroma_build(vectors: Vectors) -> None:
    import chromadb
    from chromadb.api.client import Client
    from chromadb.config import Settings

    settings = Settings(anonymized_telemetry=False)
    with tempfile.TemporaryDirectory() as folder, cast("Client", chromadb.PersistentClient(folder, settings)) as client:
        collection = client.create_collection(
            "chunks", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )
        for start in range(0, len(vectors.matrix), CHROMA_BATCH):
            part = vectors.matrix[start : start + CHROMA_BATCH]
            collection.add(ids=[str(number) for number in range(start, start + len(part))], embeddings=part)


def our_build(vectors: Vectors) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ChromaStore().build(vectors, Path(folder), lambda _: None)


def compared(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of every round of both."""
    seconds: dict[Callable[[], object], list[float]] = {ours: [], theirs: []}
    for number in range(rounds):
        for function in (ours, theirs) if number % 2 else (theirs, ours):
            start = time.perf_counter()
            function()
            seconds[function].append(time.perf_counter() - start)
    return seconds[ours], seconds[theirs]


def row(name: str, ours: list[float], theirs: list[float], ratios: list[float]) -> dict[str, Any]:
    """One line of the table, printed at once."""
    made = {
        "what": name,
        "seconds": statistics.median(ours),
        "theirs": statistics.median(theirs),
        "ratio": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
        "rounds": len(ratios),
    }
    print(
        f"{name:<28} {made['seconds']:>8.3f} s {made['theirs']:>8.3f} s {made['ratio']:>6.2f}  "
        f"({made['lowest']:.2f} to {made['highest']:.2f})",
        flush=True,
    )
    return made


def machine() -> dict[str, Any]:
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("ragtrial", "numpy", "chromadb")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--builds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    matrix = like_embeddings(options.vectors, options.dimension, seed=1)
    queries = like_embeddings(options.queries, options.dimension, seed=2)
    vectors = vectors_of(matrix)
    about = machine()
    print(f"{options.vectors:,} vectors of {options.dimension}, {options.queries:,} queries; {about}")
    print(f"{'':<28} {'ragtrial':>10} {'other':>10} {'ratio':>6}  (of single rounds)")
    rows = []
    spaces: tuple[Space, ...] = ("cosine", "ip", "l2")
    for space in spaces:
        index = ExactStore(space=space).open(vectors, Path())
        for depth in DEPTHS:
            if depth > options.vectors:
                continue
            ours, theirs = compared(
                lambda index=index, depth=depth: index.search(queries, depth),  # type: ignore[misc]
                lambda depth=depth: numpy_search(matrix, queries, depth),  # type: ignore[misc]
                options.rounds + 1,
            )
            ours, theirs = ours[1:], theirs[1:]  # the first warms up
            ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
            rows.append(row(f"exact search, {space}, k = {depth}", ours, theirs, ratios))
    if options.builds:
        ours, theirs = compared(lambda: our_build(vectors), lambda: chroma_build(vectors), options.builds)
        ratios = [other / one for one, other in zip(ours, theirs, strict=True)]
        rows.append(row("building for Chroma", ours, theirs, ratios))
    if options.json:
        sizes = {name: getattr(options, name) for name in ("vectors", "dimension", "queries")}
        options.json.write_text(json.dumps({**about, **sizes, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
