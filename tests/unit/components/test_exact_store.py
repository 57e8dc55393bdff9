"""Exact search is exact to the last tie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragtrial.engines import Vectors, exact
from ragtrial.engines.base import Space
from ragtrial.rankings import Floats
from store_kinds import SPACES
from vector_oracles import all_scores, exactly, like_embeddings, nearest, vectors_of


@dataclass(frozen=True)
class World:
    vectors: Vectors
    queries: Floats
    space: Space
    depth: int


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Small whole numbers, scaled: duplicates, vectors of zeros, vectors of one direction, ties of every kind."""
    dimension = draw(st.integers(1, 4))
    whole = st.lists(st.integers(-3, 3), min_size=dimension, max_size=dimension)
    scale = st.sampled_from([1.0, 1.0, 0.1, 3.0, 1e-3, 1e3])
    row = st.builds(lambda numbers, factor: [number * factor for number in numbers], whole, scale)
    rows = draw(st.lists(row, min_size=1, max_size=25))
    queries = draw(st.lists(row, min_size=1, max_size=4))
    order = draw(st.permutations(range(len(rows))))
    return World(
        vectors_of(rows, order),
        np.array(queries, dtype=np.float32),
        draw(st.sampled_from(SPACES)),
        draw(st.integers(0, len(rows) + 2)),
    )


@given(worlds())
def test_exact_search_ranks_as_comparing_everything_in_float64_does(world: World) -> None:
    found = exactly(world.vectors, world.queries, world.depth, world.space)
    assert found.codes.tolist() == nearest(world.vectors, world.queries, world.depth, world.space)
    scores = all_scores(world.vectors.matrix, world.queries, world.space)
    expected = np.take_along_axis(scores, found.codes.astype(np.int64), axis=1)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-6, atol=1e-7)


@given(worlds(), st.randoms(use_true_random=False))
def test_exact_search_does_not_depend_on_where_a_vector_stands(world: World, random: Any) -> None:
    usual = exactly(world.vectors, world.queries, world.depth, world.space)
    moved = list(range(len(world.vectors)))
    random.shuffle(moved)
    shuffled = Vectors(world.vectors.matrix[moved], world.vectors.order[moved])
    found = exactly(shuffled, world.queries, world.depth, world.space)
    assert [[moved[unit] for unit in row] for row in found.codes] == usual.codes.tolist()
    np.testing.assert_array_equal(found.scores, usual.scores)


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


def test_long_vectors_in_one_block_do_not_hide_a_nearer_short_one_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_TILE", 20)
    for seed in range(60):
        random = np.random.default_rng(seed)
        query = like_embeddings(1, 4, seed).astype(np.float64)
        across = random.normal(size=(40, 4))
        across -= (across @ query.T) * query
        across *= np.where(np.arange(40) < 20, 1e4, 0)[:, np.newaxis]
        # All have products of about 1; those of the long ones float32 knows to three digits only.
        vectors = vectors_of(across + query * (1 + 1e-4 * random.normal(size=(40, 1))))
        depth = 1 + seed % 10
        found = exactly(vectors, query, depth, "ip")
        assert found.codes.tolist() == nearest(vectors, query.astype(np.float32), depth, "ip")


@given(worlds())
@example(World(vectors_of([[0, 0], [1, 0], [0, 0]], [2, 1, 0]), np.zeros((1, 2), dtype=np.float32), "cosine", 3))
def test_a_cosine_with_a_vector_of_zeros_is_zero(world: World) -> None:
    found = exactly(world.vectors, world.queries, world.depth, "cosine")
    zero_units = (world.vectors.matrix[found.codes] == 0).all(axis=2)
    zero_queries = (world.queries == 0).all(axis=1, keepdims=True)
    assert (found.scores[zero_units | zero_queries] == 0).all()
