"""From hits to what is scored: asking for more until there are enough, and cutting from the deepest."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import given, strategies as st

from corpora import library_of
from ragtrial.components.interfaces import Candidates
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.pipeline.retrieval import Depth, SettingRankings, retrieve
from ragtrial.rankings import PADDING, Codes, from_rows
from ragtrial.records import Question


@dataclass
class Searcher:
    """Knows the whole ranking of every query; notes what it was asked for."""

    rankings: dict[str, list[int]]
    owners: Sequence[int]
    asked: list[tuple[list[str], int]] = field(default_factory=list)

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        queries = [question.text for question in questions]
        self.asked.append((queries, depth))
        rows = [self.rankings[query][:depth] for query in queries]
        rankings = from_rows(rows, [[score_of(rank) for rank in range(len(row))] for row in rows])
        return Candidates.of(units_of(self.owners), rankings, {"asked": len(queries)})


@cache
def library() -> Library:
    """Seven documents of fifty characters."""
    with tempfile.TemporaryDirectory() as folder:
        return library_of(Path(folder), {f"d{number}": "x" * 50 for number in range(7)})


def units_of(owners: Sequence[int]) -> Chunks:
    """One character of a document for each of ``owners``."""
    return Chunks.of(library(), [(owner, place, place + 1) for place, owner in enumerate(owners)])


def score_of(rank: int) -> float:
    return 1 / (1 + rank)


def asked(searcher: Searcher, queries: Sequence[str], top_k: int) -> SettingRankings:
    """The documents that are scored."""
    return ranked(searcher, queries, Depth(units=top_k))


def ranked(searcher: Searcher, queries: Sequence[str], demand: Depth) -> SettingRankings:
    return retrieve(searcher.search, [Question(query) for query in queries], demand, "document")


def rows_of(array: Codes) -> list[list[int]]:
    return [[code for code in row if code != PADDING] for row in array.tolist()]


def documents_of(found: SettingRankings) -> list[list[int]]:
    return rows_of(found.rankings.codes)


def test_more_chunks_are_asked_for_until_they_are_enough_or_all() -> None:
    #         chunk: 0  1  2  3  4  5  6  7  8  9
    owners = [0, 0, 0, 0, 0, 0, 0, 1, 2, 3]
    searcher = Searcher({"far": list(range(10)), "near": [9, 8, 7, *range(7)]}, owners)
    found = asked(searcher, ["far", "near"], 2)
    assert searcher.asked == [(["far", "near"], 2), (["far"], 4), (["far"], 8)]
    assert documents_of(found) == [[0, 1], [3, 2]]
    assert rows_of(found.units) == [[0, 7], [9, 8]]
    np.testing.assert_array_equal(found.rankings.scores, np.array([[1, 1 / 8], [1, 1 / 2]]))
    assert found.read.tolist() == [8, 2]
    assert found.dropped.tolist() == [6, 0]
    searcher = Searcher({"all": [4, 0, 1, 3, 2]}, [0, 0, 0, 1, 1, 2])  # a chunk that the searcher never finds
    found = asked(searcher, ["all"], 3)
    assert [depth for _, depth in searcher.asked] == [3, 6]
    assert documents_of(found) == [[1, 0]]
    assert found.rankings.codes.tolist() == [[1, 0, PADDING]]
    assert found.read.tolist() == [5]
    assert found.dropped.tolist() == [3]


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
def test_documents_are_those_collapsed_and_then_cut(search: tuple[list[int], dict[str, list[int]], int]) -> None:
    owners, rankings, top_k = search
    found = asked(Searcher(rankings, owners), list(rankings), top_k)
    for index, chunks in enumerate(rankings.values()):
        first: dict[int, int] = {}
        for rank, chunk in enumerate(chunks):
            first.setdefault(owners[chunk], rank)
        best = list(first.items())[:top_k]
        assert documents_of(found)[index] == [document for document, _ in best]
        assert rows_of(found.units)[index] == [chunks[rank] for _, rank in best]
        scores = found.rankings.scores[index]
        expected = np.array([score_of(rank) for _, rank in best], dtype=np.float32)
        np.testing.assert_array_equal(scores[: len(best)], expected)
        assert np.isnan(scores[len(best) :]).all()


@given(searches(), st.integers(0, 8), st.integers(0, 12))
def test_what_is_cut_from_the_deepest_is_what_is_found_at_that_depth(
    search: tuple[list[int], dict[str, list[int]], int], units: int, candidates: int
) -> None:
    owners, rankings, deepest = search
    demand = Depth(min(candidates, 12), min(units, deepest))
    searcher = Searcher(rankings, owners)
    deep = ranked(searcher, list(rankings), Depth(12, deepest)).cut(demand)
    own = ranked(searcher, list(rankings), demand)
    for one in (deep, own):
        assert documents_of(one) == documents_of(own)
        assert rows_of(one.units) == rows_of(own.units)
        assert rows_of(one.candidates.rankings.codes) == [row[: demand.candidates] for row in rankings.values()]
    if demand.units:
        assert deep.read.tolist() == own.read.tolist()


def test_what_is_skipped_at_any_depth_stays_skipped_and_facts_are_of_the_first_search() -> None:
    class Failing(Searcher):
        def search(self, questions: Sequence[Question], depth: int) -> Candidates:
            found = super().search(questions, depth)
            failed = np.array([depth > 2 and question.text == "deep" for question in questions], dtype=np.bool_)
            return Candidates(found.units, found.rankings, failed, found.facts)

    searcher = Failing({"deep": [0, 1, 2, 3], "fine": [3, 4]}, [0, 0, 0, 0, 1])
    found = ranked(searcher, ["deep", "fine"], Depth(candidates=2, units=2))
    assert found.candidates.skipped.tolist() == [True, False]
    assert rows_of(found.candidates.rankings.codes) == [[], [3, 4]]
    assert found.candidates.facts == {"asked": 2}
    assert documents_of(found) == [[0], [0, 1]]


@given(searches(), st.booleans())
def test_rankings_are_read_as_they_were_saved(search: tuple[list[int], dict[str, list[int]], int], known: bool) -> None:
    owners, rankings, top_k = search
    found = ranked(Searcher(rankings, owners), list(rankings), Depth(3, top_k))
    units = found.candidates.units
    chunks = {units.name: units} if known else {}
    with tempfile.TemporaryDirectory() as folder:
        found.save(Path(folder), chunks)
        read = SettingRankings.load(Path(folder), library(), chunks)
    for name in ("units", "ranks", "hit_counts"):
        np.testing.assert_array_equal(getattr(read, name), getattr(found, name))
    np.testing.assert_array_equal(read.candidates.rankings.codes, found.candidates.rankings.codes)
    np.testing.assert_array_equal(read.rankings.scores, found.rankings.scores)
    held = read.candidates
    assert [held.units.id(code) for code in range(len(held.units))] == [units.id(code) for code in range(len(units))]
    assert (held.units.name, held.facts) == (units.name, found.candidates.facts)
