"""Exact search against comparing everything in float64: many vectors, many ties, absurd lengths, tiles of any size."""

import tracemalloc
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from ragtrial.engines import Vectors, exact
from ragtrial.engines.base import Space
from ragtrial.engines.exact import ExactStore
from ragtrial.rankings import Floats, Rankings
from vector_oracles import all_scores, exactly, like_embeddings, nearest, vectors_of

SPACES: tuple[Space, ...] = get_args(Space)
CONSTANTS = ("_QUERY_BLOCK", "_TILE", "_PAIRS", "_SPARE", "_ROWS")


def shuffled(matrix: npt.ArrayLike) -> Vectors:
    """Vectors whose ties do not go by position."""
    rows = np.asarray(matrix, dtype=np.float32)
    return vectors_of(rows, np.random.default_rng(0).permutation(len(rows)).tolist())


@st.composite
def crowds(draw: st.DrawFn) -> tuple[Vectors, Floats]:
    """Some hundred vectors: topics, copies of one another, vectors of zeros, some long and some short."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    count, dimension = draw(st.integers(1, 400)), draw(st.integers(1, 12))
    matrix = like_embeddings(count, dimension, draw(st.integers(0, 99)))
    matrix = matrix[random.integers(draw(st.integers(1, count)), size=count)]
    matrix *= 10.0 ** (draw(st.sampled_from([0, 0, 1, 6])) * random.uniform(-1, 1, size=(count, 1))).astype(np.float32)
    matrix[random.uniform(size=count) < draw(st.sampled_from([0.0, 0.0, 0.3]))] = 0
    queries = like_embeddings(draw(st.integers(1, 6)), dimension, draw(st.integers(0, 99)))
    return vectors_of(matrix, random.permutation(count).tolist()), queries


@given(crowds(), st.sampled_from(SPACES), st.integers(1, 60), st.data())
def test_blocks_change_no_hit(crowd: tuple[Vectors, Floats], space: Space, depth: int, data: st.DataObject) -> None:
    usual = exactly(*crowd, depth, space)
    with pytest.MonkeyPatch.context() as patch:
        for name in CONSTANTS:
            patch.setattr(exact, name, data.draw(st.integers(1, 500), label=name))
        found = exactly(*crowd, depth, space)
    np.testing.assert_array_equal(found.codes, usual.codes)
    np.testing.assert_array_equal(found.scores, usual.scores)


@given(crowds(), st.sampled_from(SPACES), st.integers(1, 60), st.integers(1, 500))
def test_hits_are_those_of_a_whole_sort(crowd: tuple[Vectors, Floats], space: Space, depth: int, tile: int) -> None:
    vectors, queries = crowd
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_TILE", tile)
        found = exactly(vectors, queries, depth, space)
    scores = all_scores(vectors.matrix, queries, space)
    # A distance of float64 vectors is known to a few last places of their squares.
    off = 1e-12 * (1 + np.square(vectors.matrix.astype(np.float64)).sum(axis=1).max() * (space != "cosine"))
    best = -np.sort(-scores, axis=1)[:, : found.depth]
    np.testing.assert_allclose(found.scores, best, rtol=1e-6, atol=off)
    at_hits = np.take_along_axis(scores, found.codes.astype(np.int64), axis=1)
    np.testing.assert_allclose(found.scores, at_hits, rtol=1e-6, atol=off)
    assert all(len(set(row)) == found.depth for row in found.codes.tolist())


@given(crowds(), st.sampled_from(SPACES), st.integers(1, 60), st.sampled_from([1, -1]))
def test_vectors_that_get_longer_or_shorter_on_the_way_hide_no_hit(
    crowd: tuple[Vectors, Floats], space: Space, depth: int, direction: int
) -> None:
    vectors, queries = crowd
    by_length = np.argsort(direction * np.linalg.norm(vectors.matrix, axis=1))
    ordered = Vectors(vectors.matrix[by_length], vectors.order[by_length])
    usual = exactly(*crowd, depth, space)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_TILE", "_SPARE"):  # one vector at a time, and the floor is raised as early as can be
            patch.setattr(exact, name, 1)
        found = exactly(ordered, queries, depth, space)
    np.testing.assert_array_equal(by_length[found.codes], usual.codes)
    np.testing.assert_array_equal(found.scores, usual.scores)


@pytest.mark.parametrize("dimension", [1, 7, 384, 4_096, 4_097, 8_193, 20_001])
def test_equal_rows_have_equal_products_to_the_last_bit_wherever_they_stand(dimension: int) -> None:
    row, other = np.random.default_rng(dimension).normal(size=(2, 1, dimension))
    for count in (2, 3, 40):
        for products in (
            exact._dots(row.repeat(count, axis=0), other),
            exact._dots(row.repeat(count, axis=0), other.repeat(count, axis=0)),
        ):
            assert set(products.tolist()) == {exact._dots(row, other).item()}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    ("unit", "query"), [(1e38, 1), (1e30, 1e30), (1e-30, 1), (1e-38, 1e-38), (1e-22, 1e-22), (1, 1e-42), (1, 3e38)]
)
def test_numbers_near_the_ends_of_float32_hide_no_hit(space: Space, unit: float, query: float) -> None:
    matrix = (like_embeddings(300, 6, seed=3).astype(np.float64) * unit).astype(np.float32)
    matrix[::50] = 0
    matrix[7] = 1
    queries = (like_embeddings(4, 6, seed=4).astype(np.float64) * query).astype(np.float32)
    found = exactly(shuffled(matrix), queries, 20, space)
    with np.errstate(over="ignore"):
        scores = all_scores(matrix, queries, space).astype(np.float32)
    best = -np.sort(-scores, axis=1)[:, :20]
    np.testing.assert_allclose(found.scores, best, rtol=1e-6, atol=1e-6 if space == "cosine" else 0)


def test_the_memory_of_a_search_does_not_grow_with_the_number_of_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_TILE", 2**14)
    monkeypatch.setattr(exact, "_PAIRS", 2**14)

    def peak(count: int) -> int:
        index = ExactStore(space="ip").open(vectors_of(np.ones((count, 4))), Path())
        tracemalloc.start()
        try:
            index.search(np.ones((8, 4), dtype=np.float32), 5)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few = peak(10_000)
    assert peak(80_000) < 1.5 * few


def test_a_search_leaves_its_queries_and_vectors_alone() -> None:
    vectors, queries = vectors_of(3 * like_embeddings(50, 5, seed=5)), 2 * like_embeddings(3, 5, seed=6)
    matrix, asked = vectors.matrix.copy(), queries.copy()
    vectors.matrix.flags.writeable = queries.flags.writeable = False
    for space in SPACES:
        assert isinstance(exactly(vectors, queries, 4, space), Rankings)
    np.testing.assert_array_equal(vectors.matrix, matrix)
    np.testing.assert_array_equal(queries, asked)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Vectors, Floats]:
    """Small whole numbers, scaled: duplicates, vectors of zeros, vectors of one direction, ties of every kind."""
    dimension = draw(st.integers(1, 4))
    whole = st.lists(st.integers(-3, 3), min_size=dimension, max_size=dimension)
    scale = st.sampled_from([1.0, 1.0, 0.1, 3.0, 1e-3, 1e3])
    row = st.builds(lambda numbers, factor: [number * factor for number in numbers], whole, scale)
    rows = draw(st.lists(row, min_size=1, max_size=25))
    queries = np.array(draw(st.lists(row, min_size=1, max_size=4)), dtype=np.float32)
    return vectors_of(rows, draw(st.permutations(range(len(rows))))), queries


@given(worlds(), st.sampled_from(SPACES), st.integers(0, 27))
def test_exact_search_ranks_as_float64_does(world: tuple[Vectors, Floats], space: Space, depth: int) -> None:
    """As comparing everything does, at depths of nothing and beyond all vectors, too."""
    found = exactly(*world, depth, space)
    assert found.codes.tolist() == nearest(*world, depth, space)
    scores = all_scores(world[0].matrix, world[1], space)
    expected = np.take_along_axis(scores, found.codes.astype(np.int64), axis=1)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("space", SPACES)
def test_exact_search_is_exact_where_its_first_float32_estimate_is_not(space: Space) -> None:
    random = np.random.default_rng(11)
    near = like_embeddings(40, 32, seed=12)
    # Twenty copies of each, moved by about the rounding of a float32: an estimate cannot order these.
    matrix = np.repeat(near, 20, axis=0) * (1 + random.integers(-2, 3, size=(800, 32)) * 6e-8)
    vectors = vectors_of(matrix, random.permutation(800).tolist())
    queries = near[:10] * np.float32(1.7)
    found = exactly(vectors, queries, 30, space)
    assert found.codes.tolist() == nearest(vectors, queries, 30, space)
