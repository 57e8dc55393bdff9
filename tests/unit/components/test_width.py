"""What an approximate index finds for a setting does not depend on which other settings ask it, or how deep."""

import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from chroma_databases import Item, write_collection
from corpora import library_of
from experiments import write_experiment
from ragtrial.components.interfaces import Candidates
from ragtrial.components.retrievers.dense import DenseRetriever
from ragtrial.dataset.chunks import Chunks
from ragtrial.engines.chroma import ChromaCollectionOptions, ChromaStore
from ragtrial.engines.exact import ExactStore
from ragtrial.pipeline.corpus import Graph
from ragtrial.pipeline.retrieval import Depth, SettingRankings, retrieve
from ragtrial.pipeline.run import Run
from ragtrial.pipeline.written_wordings import WrittenWordings
from ragtrial.rankings import PADDING, deeper, from_rows
from ragtrial.records import Question

pytestmark = pytest.mark.slow

EF_SEARCH = 20


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

    def ranked(self, demand: Depth) -> SettingRankings:
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
def test_what_is_found_is_the_same_in_any_company(searcher: Wandering, units: int, more: int, candidates: int) -> None:
    alone = Depth(units=units)
    company = Depth(candidates, min(units + more, searcher.width(units)))
    if searcher.width(company.hits) != searcher.width(alone.hits):
        return  # another search serves it
    own, cut = searcher.ranked(alone), searcher.ranked(company).cut(alone)
    np.testing.assert_array_equal(cut.rankings.codes, own.rankings.codes)
    np.testing.assert_array_equal(cut.units, own.units)
    np.testing.assert_array_equal(cut.ranks, own.ranks)


@given(wanderers, st.integers(1, 12))
def test_a_document_stands_once_however_often_a_search_gets_wider(searcher: Wandering, units: int) -> None:
    found = searcher.ranked(Depth(units=units))
    for row, chunks, places in zip(found.rankings.codes, found.units, found.ranks, strict=True):
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
    assert found.ranks.tolist() == [[1, 3, 3]] * 2  # three hits were read before the one that now comes first
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


RETRIEVERS: Mapping[str, Mapping[str, Any]] = {
    "dense": {"kind": "dense", "top_k": 8},
    "more": {"kind": "dense", "top_k": 12},
    "bm25": {"kind": "bm25", "score": False},
    "many": {"kind": "fusion", "inputs": ["dense", "bm25"], "candidates": 90, "top_k": 8},
    "few": {"kind": "fusion", "inputs": ["dense", "bm25"], "candidates": EF_SEARCH, "top_k": 8},
}


def test_one_search_serves_all_that_are_no_wider_and_each_that_is_has_its_own(tmp_path: Path) -> None:
    store = {"kind": "chroma", "hnsw": {"ef_search": EF_SEARCH}}
    run = Run.of(write_experiment(tmp_path, store=store, retrievers=RETRIEVERS).config())
    dense = run.settings[0]
    searched = {width: demand for (key, width), demand in run.graph.depths.items() if key == dense.ranking_key}
    assert searched == {EF_SEARCH: Depth(EF_SEARCH, 12), 90: Depth(90, 0)}
    exact = [replace(one, store=ExactStore()) for one in run.settings]
    exact = [replace(one, parts=tuple(replace(part, store=ExactStore()) for part in one.parts)) for one in exact]
    of_exact = {
        width: demand
        for (key, width), demand in Graph(run.corpus, exact, WrittenWordings([])).depths.items()
        if key == exact[0].ranking_key
    }
    assert of_exact == {None: Depth(90, 12)}


def test_a_collection_that_is_there_already_is_searched_by_its_own_width(tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "db", [Item("one", "rye bread")])
    collection = ChromaCollectionOptions(path=str(folder), name="docs")
    retriever = DenseRetriever(collection=collection)
    assert [retriever.width(ExactStore(), depth) for depth in (1, 100, 101)] == [100, 100, 101]  # Chroma's default
