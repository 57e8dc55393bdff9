"""What an existing collection loses against exact search is what an independent computation finds it to lose."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from expectations import present
from experiments import Experiment, write_experiment
from filled_collections import Stored, faiss
from ragtrial import run_experiment
from ragtrial.rankings import Floats
from ragtrial.report.model import Report, read_rows

pytestmark = pytest.mark.slow

DIMENSION, ITEMS, TOP_K = 32, 600, 10
EMBEDDING = """
import zlib
import numpy as np

def embed(texts):
    return [np.random.default_rng(zlib.crc32(text.encode())).normal(size=32).tolist() for text in texts]
"""
NAMES = [f"{number:03}.txt" for number in range(ITEMS)]
DOCUMENTS = {name: f"document {name}" for name in NAMES}
QUERIES: list[dict[str, Any]] = [
    {"id": f"q{number}", "text": f"question {number}", "relevant_docs": [{"doc": NAMES[number]}]}
    for number in range(20)
]


def embedded(texts: Sequence[str]) -> Floats:
    names: dict[str, Any] = {}
    exec(EMBEDDING, names)
    return np.array(names["embed"](list(texts)), dtype=np.float32)


VECTORS = embedded(list(DOCUMENTS.values()))


def hnsw(folder: Path, vectors: Floats, links: int, ef: int) -> Mapping[str, Any]:
    """An HNSW index of ``vectors`` with few links, whose items are the documents; one in ten is rare."""
    import faiss as library

    index = library.IndexHNSWFlat(DIMENSION, links, library.METRIC_L2)
    index.hnsw.efConstruction = 8
    index.add(vectors)
    folder.mkdir(exist_ok=True)
    library.write_index(index, str(folder / "docs.index"))
    rows = [
        {"id": f"item {name}", "text": DOCUMENTS[name], "source": name, "rare": number % 50 == 0}
        for number, name in enumerate(NAMES)
    ]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path, items = str(folder / "docs.index"), str(folder / "items.jsonl")
    return {"kind": "faiss", "path": path, "items": items, "document": "source", "ef": ef}


def experiment(
    folder: Path,
    collection: Mapping[str, Any],
    queries: Sequence[Mapping[str, Any]] = tuple(QUERIES),
    **options: object,
) -> Experiment:
    retriever = {"kind": "dense", "top_k": TOP_K, "collection": collection, **options}
    made = write_experiment(
        folder,
        DOCUMENTS,
        queries,
        embedder={"kind": "custom", "function": "hashed:embed", "normalize": False},
        retrievers={"prod": retriever},
    )
    (folder / "hashed.py").write_text(EMBEDDING)
    return made


def found_by(report: Report) -> list[list[str]]:
    rows = read_rows(report.folder / "rankings" / "prod.jsonl.gz")
    return [row["docs"] for row in rows]


def nearest(allowed: Sequence[int], vectors: Floats = VECTORS) -> list[list[str]]:
    """What brute force finds of the ``allowed`` documents for each query."""
    asked = embedded([query["text"] for query in QUERIES]).astype(np.float64)
    distances = ((asked[:, None] - vectors[list(allowed)].astype(np.float64)) ** 2).sum(axis=2)
    return [[NAMES[allowed[place]] for place in np.argsort(row, kind="stable")[:TOP_K]] for row in distances]


def shares(found: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> list[float]:
    return [len(set(one) & set(other)) / len(other) for one, other in zip(found, wanted, strict=True)]


def hit_rates(rows: Sequence[Sequence[str]]) -> float:
    return float(np.mean([NAMES[number] in row for number, row in enumerate(rows)]))


def test_a_starved_graph_is_named_with_what_it_costs(tmp_path: Path) -> None:
    report = run_experiment(experiment(tmp_path, hnsw(tmp_path / "index", VECTORS, links=2, ef=TOP_K)).config())
    audit = present(report.settings[0].audit)
    found, wanted = found_by(report), nearest(range(ITEMS))
    expected = shares(found, wanted)
    assert 0 < np.mean(expected) < 0.9, "the graph is to be starved, or nothing is shown"
    assert audit.overlap == pytest.approx(np.mean(expected))
    assert audit.lowest_overlap == pytest.approx(min(expected))
    assert audit.queries_that_differ == sum(share < 1 for share in expected)
    assert audit.lost["hit_rate@10"] == pytest.approx(hit_rates(wanted) - hit_rates(found))


def test_a_filter_that_starves_the_graph_is_named(tmp_path: Path) -> None:
    made = experiment(tmp_path, hnsw(tmp_path / "index", VECTORS, links=2, ef=TOP_K), where={"rare": True})
    report = run_experiment(made.config())
    audit = present(report.settings[0].audit)
    found, wanted = found_by(report), nearest(range(0, ITEMS, 50))
    short = sum(len(one) < len(other) for one, other in zip(found, wanted, strict=True))
    assert short > 0, "the filter is to starve the graph, or nothing is shown"
    assert audit.short_queries == short
    assert audit.overlap == pytest.approx(np.mean(shares(found, wanted)))
    (told,) = [one.message for one in report.warnings if one.code == "fewer-hits"]
    assert told == (
        f"prod: queries with fewer hits than were asked for, although exact search finds more: {short}. Raise ef "
        "(HNSW) or nprobe (IVF) of the collection, or build the index with more links or longer codes."
    )


def test_exact_search_of_a_query_is_over_what_passes_its_own_conditions(tmp_path: Path) -> None:
    items = [Stored(name, text, {"even": place % 2 == 0}, VECTORS[place].tolist())
             for place, (name, text) in enumerate(DOCUMENTS.items())]  # fmt: skip
    queries = [{**one, "where": {"even": number % 2 == 0}} for number, one in enumerate(QUERIES)]
    with faiss(tmp_path / "index", items, "l2") as filled:
        collection = filled.options.model_dump(mode="json")
        report = run_experiment(experiment(tmp_path, collection, queries).config())
    audit = present(report.settings[0].audit)
    assert (audit.overlap, audit.short_queries) == (1.0, 0)
    assert set(audit.lost.values()) == {0.0}
    even, odd = nearest(range(0, ITEMS, 2)), nearest(range(1, ITEMS, 2))
    assert found_by(report) == [(odd if number % 2 else even)[number] for number in range(len(QUERIES))]


def test_of_items_that_are_equally_near_any_counts(tmp_path: Path) -> None:
    equal = np.repeat(VECTORS[:1], ITEMS, axis=0)  # the engine and exact search have orders of their own
    collection = {**hnsw(tmp_path / "index", equal, links=16, ef=50), "check": False}
    report = run_experiment(experiment(tmp_path, collection).config())
    assert present(report.settings[0].audit).overlap == 1.0
    assert found_by(report) != nearest(range(ITEMS), equal)


def test_the_vectors_are_read_once_and_the_audit_is_kept(tmp_path: Path) -> None:
    made = experiment(tmp_path, hnsw(tmp_path / "index", VECTORS, links=2, ef=TOP_K))
    first = run_experiment(made.config())
    kept = {path for kind in ("collections", "shares") for path in (made.workspace / kind).glob("[!.]*")}
    assert len(kept) == 2
    again = run_experiment(made.config())
    assert again.settings[0].audit == first.settings[0].audit
    other = experiment(tmp_path, hnsw(tmp_path / "index", VECTORS, links=2, ef=400))
    assert run_experiment(other.config()).settings[0].audit != first.settings[0].audit
    assert len(list((made.workspace / "collections").glob("[!.]*"))) == 1
    # Exact search does not depend on how widely the engine searches.
    assert len([name for kind, name in made.stages() if kind == "rankings"]) == 3
