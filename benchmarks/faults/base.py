"""What a fault is, and ragtrial run over the vectors that it is about."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ragtrial import load_config, run_experiment
from ragtrial.rankings import Floats
from vector_oracles import exactly, vectors_of


class Seen(NamedTuple):
    """Whether it happened and in which figures, and the words of ragtrial on it."""

    is_there: bool
    happens: str
    said: str


class NotHereError(Exception):
    """The fault cannot be made to happen on this machine; says why."""


@dataclass(frozen=True)
class Fault:
    """Something that an engine does without a word. ``expected`` words are in what ragtrial says of it."""

    engine: str
    name: str
    expected: str
    reproduce: Callable[[Path], Seen]


FAULTS: list[Fault] = []


def fault(engine: str, expected: str) -> Callable[[Callable[[Path], Seen]], Callable[[Path], Seen]]:
    """Registers a function that makes a fault happen in an empty folder; its docstring is the fault's name."""

    def register(reproduce: Callable[[Path], Seen]) -> Callable[[Path], Seen]:
        name = " ".join((reproduce.__doc__ or "").split()).rstrip(".")
        FAULTS.append(Fault(engine, name, expected, reproduce))
        return reproduce

    return register


def gaussian(count: int, dimension: int = 96, seed: int = 0) -> Floats:
    """Vectors without any structure: a poor graph visibly misses some."""
    return np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)


ROWS, QUERIES = gaussian(6_000), gaussian(30, seed=1)


def recall(found: list[list[int]], queries: Floats, rows: Floats) -> float:
    """The share of the nearest rows by squared distance that was found, in [0, 1]."""
    distances = (rows**2).sum(axis=1) - 2 * queries @ rows.T
    depth = len(found[0])
    true = np.argsort(distances, axis=1)[:, :depth]
    return float(np.mean([len(set(one) & set(other)) / depth for one, other in zip(found, true.tolist(), strict=True)]))


EMBEDDER = """\
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
ROWS, QUERIES = np.load(HERE / "rows.npy"), np.load(HERE / "queries.npy")


def embed(texts):
    return np.array([QUERIES[int(text[1:])] if text.startswith("q") else ROWS[int(text)] for text in texts])
"""


def said_by_a_run(folder: Path, retriever: Mapping[str, Any], rows: Floats = ROWS, queries: Floats = QUERIES) -> str:
    """The warnings of a run of one retriever over documents whose vectors are ``rows``, one a line.

    Documents are called 0, 1, ..., which is their text, too; each query's nearest one by squared distance is relevant.
    """
    run = folder / "run"
    run.mkdir()
    np.save(run / "rows.npy", rows)
    np.save(run / "queries.npy", queries)
    documents = "".join(json.dumps({"_id": str(one), "text": str(one)}) + "\n" for one in range(len(rows)))
    (run / "corpus.jsonl").write_text(documents, encoding="utf-8")
    nearest = exactly(vectors_of(rows), queries, 1, "l2").codes[:, 0].tolist()
    asked = [
        {"id": f"q{one}", "text": f"q{one}", "relevant_docs": [{"doc": str(doc)}]} for one, doc in enumerate(nearest)
    ]
    (run / "labels.json").write_text(json.dumps({"prompt": "{query} {contexts}", "queries": asked}), encoding="utf-8")
    (run / "made_vectors.py").write_text(EMBEDDER, encoding="utf-8")
    config = {
        "experiment": "fault",
        "dataset": {"corpus": "corpus.jsonl", "queries": "labels.json"},
        "chunker": {"kind": "document"},
        "embedder": {"kind": "custom", "function": "made_vectors:embed", "normalize": False},
        "retrievers": {"one": {"kind": "dense", "top_k": 10, **retriever}},
        "evaluators": {"primary_metric": "recall@1", "order_unaware": {"k": [1]}, "order_aware": {"k": [1]},
                       "graded": {"k": [1]}},
        "latency": False,
    }  # fmt: skip
    (run / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    report = run_experiment(load_config(run / "config.yaml"))
    return "\n".join(f"{one.code}: {one.message}" for one in report.warnings)
