"""What an approximate index finds for a setting does not depend on which other settings ask it, or how deep."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chroma_databases import Item, write_collection
from corpora import library_of, write_files
from experiments import Experiment, write_experiment
from ragtrial import load_config, run_experiment
from ragtrial.components.interfaces import Candidates
from ragtrial.components.retrievers.dense import DenseRetriever
from ragtrial.dataset.chunks import Chunks
from ragtrial.engines.chroma import ChromaCollectionOptions, ChromaStore
from ragtrial.engines.exact import ExactStore
from ragtrial.pipeline.corpus import Graph
from ragtrial.pipeline.retrieval import Depth, Ranked, retrieve
from ragtrial.pipeline.run import Run
from ragtrial.rankings import PADDING, deeper, from_rows
from ragtrial.records import Question
from ragtrial.report.rows import read_rows

pytestmark = pytest.mark.slow

EF_SEARCH = 20
GRAPH = {"ef_search": EF_SEARCH, "max_neighbors": 3, "ef_construction": 8}
"""A graph in which a search finds other hits when it looks more widely."""


@dataclass(frozen=True)
class Wandering:
    """Knows one ranking for each width: a wider search knows others, in another order.

    Of ``owners`` the document of each chunk; at most ``most`` hits come, whatever is asked for.
    """

    owners: tuple[int, ...]
    ef: int
    seed: int
    most: int

    def width(self, depth: int) -> int:
        return max(self.ef, depth)

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        rows = []
        for question in questions:
            order = list(range(len(self.owners)))
            random.Random(f"{self.seed} {question.text} {self.width(depth)}").shuffle(order)
            rows.append(order[: min(depth, self.most)])
        return Candidates.of(units_of(self.owners), from_rows(rows, [[0.0] * len(row) for row in rows]))

    def ranked(self, demand: Depth) -> Ranked:
        return retrieve(self.search, [Question("a"), Question("b")], demand, "document", width=self.width)


@cache
def units_of(owners: tuple[int, ...]) -> Chunks:
    """One character of a document for each of ``owners``."""
    with tempfile.TemporaryDirectory() as folder:
        library = library_of(Path(folder), {f"d{number}": "x" * 50 for number in range(9)})
        return Chunks.of(library, [(owner, place, place + 1) for place, owner in enumerate(owners)])


wanderers = st.builds(
    Wandering,
    st.lists(st.integers(0, 8), min_size=1, max_size=40).map(tuple),
    st.integers(1, 20),
    st.integers(0, 1_000),
    st.integers(0, 40),
)


@given(wanderers, st.integers(1, 12), st.integers(0, 12), st.integers(0, 20))
@example(Wandering((0, 0, 0, 0, 1, 1, 1, 2, 3, 4, 5), 4, 3, 40), 2, 4, 3)
@example(Wandering((0,) * 30 + (1, 2, 3, 4), 4, 0, 40), 2, 2, 0)  # several times wider
@example(Wandering((0,) * 30 + (1, 2, 3, 4), 4, 1, 40), 2, 2, 0)
@example(Wandering((0,) * 30 + (1, 2, 3, 4), 4, 2, 40), 3, 1, 4)
def test_what_is_found_for_a_demand_is_the_same_in_any_company_of_the_same_width(
    searcher: Wandering, units: int, more: int, candidates: int
) -> None:
    alone = Depth(units=units)
    company = Depth(candidates, min(units + more, searcher.width(units)))
    if searcher.width(company.hits) != searcher.width(alone.hits):
        return  # another search serves it
    own, cut = searcher.ranked(alone), searcher.ranked(company).cut(alone)
    np.testing.assert_array_equal(cut.rankings.codes, own.rankings.codes)
    np.testing.assert_array_equal(cut.units, own.units)
    np.testing.assert_array_equal(cut.places, own.places)


@given(wanderers, st.integers(1, 12))
def test_a_document_stands_once_however_often_a_search_gets_wider(searcher: Wandering, units: int) -> None:
    found = searcher.ranked(Depth(units=units))
    for row, chunks, places in zip(found.rankings.codes, found.units, found.places, strict=True):
        kept = row[row != PADDING]
        assert len(set(kept.tolist())) == len(kept)
        assert [searcher.owners[chunk] for chunk in chunks[row != PADDING]] == kept.tolist()
        assert (np.diff(places[row != PADDING]) >= 0).all()
        assert (places[row != PADDING] > 0).all()
    assert (found.dropped >= 0).all()


def test_what_only_a_wider_search_finds_comes_after_what_was_found_before() -> None:
    class Two(Wandering):
        def search(self, questions: Sequence[Question], depth: int) -> Candidates:
            rows = [[0, 1, 2][:depth] if depth <= self.ef else [3, 2, 4, 0, 5, 1] for _ in questions]
            scores = [[1 / (1 + place) for place in range(len(row))] for row in rows]
            return Candidates.of(units_of(self.owners), from_rows(rows, scores))

    #               chunk: 0  1  2  3  4  5
    found = Two((0, 0, 1, 2, 3, 4), 3, 0, 6).ranked(Depth(units=4))
    assert found.rankings.codes.tolist() == [[2, 1, 3, 0]] * 2  # 4 hits are asked for at once: one search, no seam
    found = Two((0, 0, 1, 2, 3, 4), 3, 0, 6).ranked(Depth(units=3))
    assert found.rankings.codes.tolist() == [[0, 1, 2]] * 2
    assert found.units.tolist() == [[0, 2, 3]] * 2
    assert found.places.tolist() == [[1, 3, 3]] * 2  # three hits were read before the one that now comes first
    np.testing.assert_array_equal(found.rankings.scores, np.array([[1, 1 / 3, 1]] * 2, dtype=np.float32))


@pytest.mark.parametrize(
    ("begin", "asked"),
    [(10, [10, 20, 40, 80, 100, 200, 400]), (50, [50, 100, 200, 400]), (100, [100, 200, 400]), (150, [150, 300, 600])],
)
def test_wherever_asking_begins_the_same_widths_follow(begin: int, asked: list[int]) -> None:
    depths = [begin]
    while len(depths) < len(asked):
        depths.append(deeper(depths[-1], ChromaStore().width))
    assert depths == asked
    assert deeper(10, ExactStore().width) == 20


# A real index


EMBEDDING = """\
import zlib

import numpy as np


def embed(texts):
    vectors = []
    for text in texts:
        words = text.split()
        middle = np.random.default_rng(zlib.crc32(words[0].encode())).normal(size=24)
        vectors.append(middle + 0.6 * np.random.default_rng(zlib.crc32(" ".join(words).encode())).normal(size=24))
    return np.array(vectors)
"""
RETRIEVERS: Mapping[str, Mapping[str, Any]] = {
    "dense": {"kind": "dense", "top_k": 8},
    "more": {"kind": "dense", "top_k": 12},
    "bm25": {"kind": "bm25", "score": False},
    "many": {"kind": "fusion", "inputs": ["dense", "bm25"], "candidates": 90, "top_k": 8},
    "few": {"kind": "fusion", "inputs": ["dense", "bm25"], "candidates": EF_SEARCH, "top_k": 8},
}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """600 documents of five chunks that stand together, their index built, nothing searched."""
    documents = {
        f"{number:04}.txt": "\n\n".join(f"cluster{number % 12} {number} part{part}" for part in range(5))
        for number in range(600)
    }
    queries = [
        {"id": f"q{number}", "text": f"cluster{number % 12} wanted {number}", "relevant_docs": [{"doc": "0000.txt"}]}
        for number in range(60)
    ]
    experiment = write_experiment(
        tmp_path_factory.mktemp("width"),
        documents,
        queries,
        chunker={"kind": "recursive", "size": 24, "overlap": 0, "unit": "characters"},
        embedder={"kind": "custom", "function": "clusters:embed", "batch_size": 5_000},
        store={"kind": "chroma", "hnsw": GRAPH},
        retrievers=RETRIEVERS,
    )
    write_files(experiment.folder, {"clusters.py": EMBEDDING})
    run = Run.prepare(experiment.config())
    setting = run.settings[0]
    stages = run.corpus.stages(setting)
    assert stages.index is not None
    assert run.corpus.runner.artefact(stages.index)["vectors"] == 3_000
    return experiment


def found_by(indexed: Experiment, folder: Path, *names: str) -> dict[str, list[list[str]]]:
    """The documents of each query by the setting, when those settings are run over the one index."""
    shutil.copytree(indexed.workspace, folder / "workspace")
    parts = {part for name in names for part in RETRIEVERS[name].get("inputs", ())}
    retrievers = {name: {**one, "score": name in names} for name, one in RETRIEVERS.items() if name in {*names, *parts}}
    config = {**json.loads(indexed.file.read_text()), "retrievers": retrievers, "workspace": str(folder / "workspace")}
    file = indexed.folder / f"{folder.name}.yaml"
    file.write_text(json.dumps(config))
    report = run_experiment(load_config(file))
    assert not report.failures
    return {name: [row["docs"] for row in read_rows(report.folder / "rankings" / f"{name}.jsonl.gz")] for name in names}


@pytest.mark.slow
def test_a_setting_finds_the_same_whoever_else_searches_its_approximate_index(
    indexed: Experiment, tmp_path: Path
) -> None:
    together = found_by(indexed, tmp_path / "all", "dense", "more", "many", "few")
    assert {name: len(rows) for name, rows in together.items()} == dict.fromkeys(together, 60)
    for name, rows in together.items():
        assert found_by(indexed, tmp_path / name, name) == {name: rows}, name
    fused = {name: together[name] for name in ("many", "few")}
    assert found_by(indexed, tmp_path / "fused", *fused) == fused  # the first is deep enough for the second, and wider
    assert [row[:8] for row in together["more"]] == together["dense"]


def test_one_search_serves_all_that_are_no_wider_and_each_that_is_has_its_own(indexed: Experiment) -> None:
    run = Run.of(indexed.config())
    dense = run.settings[0]
    searched = {width: demand for (key, width), demand in run.graph.depths.items() if key == dense.ranking_key}
    assert searched == {EF_SEARCH: Depth(EF_SEARCH, 12), 90: Depth(90, 0)}
    exact = [replace(one, store=ExactStore()) for one in run.settings]
    exact = [replace(one, parts=tuple(replace(part, store=ExactStore()) for part in one.parts)) for one in exact]
    of_exact = {
        width: demand
        for (key, width), demand in Graph(run.corpus, exact, []).depths.items()
        if key == exact[0].ranking_key
    }
    assert of_exact == {None: Depth(90, 12)}


def test_a_collection_that_is_there_already_is_searched_by_its_own_width(tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "db", [Item("one", "rye bread")])
    collection = ChromaCollectionOptions(path=str(folder), name="docs")
    retriever = DenseRetriever(collection=collection)
    assert [retriever.width(ExactStore(), depth) for depth in (1, 100, 101)] == [100, 100, 101]  # Chroma's default
