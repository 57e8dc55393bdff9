"""From chunks to documents: asking for more until there are enough, and what every retriever owes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrial.rankings import PADDING, Codes, Floats, Rankings, from_rows
from ragtrial.retrievers import RETRIEVERS, Retrieved, retrieve_units
from ragtrial.stores import Index, Vectors
from ragtrial.stores.exact import ExactStore


@dataclass
class Searcher:
    """Knows the whole ranking of every query; notes what it was asked for."""

    rankings: dict[str, list[int]]
    asked: list[tuple[list[str], int]] = field(default_factory=list)

    def search(self, queries: Sequence[str], depth: int) -> Rankings:
        self.asked.append((list(queries), depth))
        rows = [self.rankings[query][:depth] for query in queries]
        return from_rows(rows, [[score_of(rank) for rank in range(len(row))] for row in rows])


def score_of(rank: int) -> float:
    return 1 / (1 + rank)


def codes(owners: Sequence[int]) -> Codes:
    return np.array(owners, dtype=np.int32)


def rows_of(array: Codes) -> list[list[int]]:
    return [[code for code in row if code != PADDING] for row in array.tolist()]


def documents_of(found: Retrieved) -> list[list[int]]:
    return rows_of(found.collapsed.rankings.codes)


def test_a_query_is_asked_for_twice_as_many_chunks_until_it_has_enough_documents() -> None:
    #         chunk: 0  1  2  3  4  5  6  7  8  9
    owners = codes([0, 0, 0, 0, 0, 0, 0, 1, 2, 3])
    searcher = Searcher({"far": list(range(10)), "near": [9, 8, 7, *range(7)]})
    found = retrieve_units(searcher, ["far", "near"], 2, owners)
    assert searcher.asked == [(["far", "near"], 2), (["far"], 4), (["far"], 8)]
    assert documents_of(found) == [[0, 1], [3, 2]]
    assert rows_of(found.collapsed.units) == [[0, 7], [9, 8]]
    np.testing.assert_array_equal(found.collapsed.rankings.scores, np.array([[1, 1 / 8], [1, 1 / 2]]))
    assert found.read.tolist() == [8, 2]
    assert found.collapsed.dropped.tolist() == [6, 0]


def test_asking_ends_with_the_last_chunk() -> None:
    owners = codes([0, 0, 0, 1, 1, 2])  # a chunk that the searcher never finds
    searcher = Searcher({"all": [4, 0, 1, 3, 2]})
    found = retrieve_units(searcher, ["all"], 3, owners)
    assert [depth for _, depth in searcher.asked] == [3, 6]
    assert documents_of(found) == [[1, 0]]
    assert found.collapsed.rankings.codes.tolist() == [[1, 0, PADDING]]
    assert found.read.tolist() == [5]
    assert found.collapsed.dropped.tolist() == [3]


def test_asking_ends_with_the_last_document() -> None:
    searcher = Searcher({"all": [4, 0, 1, 3, 2]})
    found = retrieve_units(searcher, ["all"], 3, codes([0, 0, 0, 1, 1]))
    assert [depth for _, depth in searcher.asked] == [2]
    assert documents_of(found) == [[1, 0]]


def test_a_query_that_gets_no_more_than_before_is_not_asked_again() -> None:
    searcher = Searcher({"rare": [2], "none": []})
    found = retrieve_units(searcher, ["rare", "none"], 2, codes(range(50)))
    assert searcher.asked == [(["rare", "none"], 2), (["rare"], 4)]
    assert documents_of(found) == [[2], []]
    assert found.read.tolist() == [1, 0]


@pytest.mark.parametrize("queries", [[], ["any"]])
def test_without_chunks_nothing_is_found(queries: list[str]) -> None:
    found = retrieve_units(Searcher({"any": []}), queries, 4, codes([]))
    assert found.collapsed.rankings.codes.shape == (len(queries), 0)
    assert documents_of(found) == [[] for _ in queries]
    assert found.read.tolist() == [0 for _ in queries]


@st.composite
def searches(draw: st.DrawFn) -> tuple[list[int], dict[str, list[int]], int]:
    """The document of each chunk; per query some or all chunks in any order; top_k."""
    owners = draw(st.lists(st.integers(0, 6), min_size=1, max_size=30))
    rankings = {}
    for query in "abc"[: draw(st.integers(0, 3))]:
        order = draw(st.permutations(range(len(owners))))
        rankings[query] = list(order)[: draw(st.integers(0, len(owners)) | st.just(len(owners)))]
    return owners, rankings, draw(st.integers(1, 8))


@given(searches())
def test_documents_are_those_of_the_whole_ranking_collapsed_and_then_cut(
    search: tuple[list[int], dict[str, list[int]], int],
) -> None:
    owners, rankings, top_k = search
    found = retrieve_units(Searcher(rankings), list(rankings), top_k, codes(owners))
    for index, chunks in enumerate(rankings.values()):
        first: dict[int, int] = {}
        for rank, chunk in enumerate(chunks):
            first.setdefault(owners[chunk], rank)
        best = list(first.items())[:top_k]
        assert documents_of(found)[index] == [document for document, _ in best]
        assert rows_of(found.collapsed.units)[index] == [chunks[rank] for _, rank in best]
        scores = found.collapsed.rankings.scores[index]
        expected = np.array([score_of(rank) for _, rank in best], dtype=np.float32)
        np.testing.assert_array_equal(scores[: len(best)], expected)
        assert np.isnan(scores[len(best) :]).all()


@given(searches())
def test_every_chunk_that_was_read_is_kept_or_collapsed_or_of_a_document_below_the_cut(
    search: tuple[list[int], dict[str, list[int]], int],
) -> None:
    owners, rankings, top_k = search
    found = retrieve_units(Searcher(rankings), list(rankings), top_k, codes(owners))
    for index, chunks in enumerate(rankings.values()):
        read = int(found.read[index])
        seen = {owners[chunk] for chunk in chunks[:read]}
        assert found.collapsed.dropped[index] == read - len(seen)
        wanted = min(top_k, len(set(owners)))
        assert len(seen) >= wanted or read == len(chunks)
        half = {owners[chunk] for chunk in chunks[: read // 2]}
        assert len(half) < wanted or read <= wanted


# What every retriever owes.


@dataclass(frozen=True)
class Shelf:
    """Everything a retriever may ask for, over a few vectors of two dimensions."""

    vectors: Vectors

    def index(self) -> Index:
        return ExactStore(space="ip").open(self.vectors, Path())

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        return np.array([[len(text), text.count("e")] for text in texts], dtype=np.float32)


SHELF = Shelf(Vectors(np.array([[0, 1], [1, 0], [1, 1], [-1, 0], [1, 0]], dtype=np.float32), np.arange(5)))


@pytest.mark.parametrize("kind", RETRIEVERS.names())
def test_a_shorter_ranking_is_the_beginning_of_a_longer_one(kind: str) -> None:
    retriever = RETRIEVERS[kind](kind=kind).open(SHELF)
    queries = ["bees", "hum"]
    whole = retriever.search(queries, 5)
    assert len(whole) == 2
    for depth in range(6):
        part = retriever.search(queries, depth)
        np.testing.assert_array_equal(part.codes, whole.cut(depth).codes)
        np.testing.assert_array_equal(part.scores, whole.cut(depth).scores)


@pytest.mark.parametrize("kind", RETRIEVERS.names())
def test_the_identity_of_a_retriever_is_its_own_options_and_not_what_reaches_it(kind: str) -> None:
    plain = RETRIEVERS[kind](kind=kind)
    assert plain.identity() == RETRIEVERS[kind](kind=kind, store=ExactStore(space="l2")).identity()
    assert plain.identity() != RETRIEVERS[kind](kind=kind, top_k=plain.top_k + 1).identity()


def test_dense_retrieval_finds_the_nearest_vectors_of_the_index() -> None:
    found = RETRIEVERS["dense"](kind="dense").open(SHELF).search(["bees", "hum"], 4)
    # bees is (4, 2), hum is (3, 0); equal scores go by id.
    assert found.codes.tolist() == [[2, 1, 4, 0], [1, 2, 4, 0]]
    assert found.scores.tolist() == [[6, 4, 4, 2], [3, 3, 3, 0]]
