"""Cluster chunks: the best segmentation there is, in memory that does not grow with the square of the pieces."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrial.components.chunkers.base import LengthFunction
from ragtrial.components.chunkers.meaning import ClusterChunker, directions, segmented

Rows = npt.NDArray[np.float64]


def at_angles(angles: list[float]) -> Rows:
    return np.array([(np.cos(angle), np.sin(angle)) for angle in angles])


def worth(rows: Rows, groups: list[tuple[int, int]]) -> float:
    """The sum that is made as large as can be, from the whole matrix."""
    matrix = rows @ rows.T
    above = matrix[np.triu_indices(len(rows), k=1)]
    matrix = matrix - above.mean()
    np.fill_diagonal(matrix, 0)
    return float(sum(matrix[start : end + 1, start : end + 1].sum() for start, end in groups))


def every_segmentation(firsts: list[int]) -> list[list[tuple[int, int]]]:
    count = len(firsts)
    found: list[list[list[tuple[int, int]]]] = [[[]]]
    for last in range(count):
        found.append([[*before, (start, last)] for start in range(firsts[last], last + 1) for before in found[start]])
    return found[count]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Rows, list[int]]:
    angles = draw(st.lists(st.floats(0, 6), min_size=2, max_size=9))
    widest = draw(st.integers(1, 9))
    rows = at_angles(angles)
    if draw(st.booleans()):
        rows[draw(st.integers(0, len(rows) - 1))] = 0
    return rows, [max(0, last - widest + 1) for last in range(len(rows))]


@given(cases())
def test_no_segmentation_is_worth_more(case: tuple[Rows, list[int]]) -> None:
    rows, firsts = case
    groups = segmented(rows, firsts)
    assert [start for start, _ in groups] == [0, *(end + 1 for _, end in groups[:-1])]
    assert groups[-1][1] == len(rows) - 1
    assert all(firsts[end] <= start for start, end in groups)
    best = max(worth(rows, groups) for groups in every_segmentation(firsts))
    assert worth(rows, groups) == pytest.approx(best, abs=1e-7)


def test_pieces_that_are_alike_are_grouped_in_the_worked_example() -> None:
    # Similarities: 1 within {0, 1, 2} and {3, 4}, 0 between: their mean is 4/10. Within: 3 and 1 pairs of .6, twice.
    rows = np.array([[1, 0]] * 3 + [[0, 1]] * 2, dtype=np.float64)
    assert segmented(rows, [0, 0, 0, 0, 0]) == [(0, 2), (3, 4)]
    assert worth(rows, [(0, 2), (3, 4)]) == pytest.approx(4.8)
    assert segmented(rows, [0, 0, 1, 2, 3]) == [(0, 0), (1, 2), (3, 4)]  # at most two in each


def test_of_equal_sums_the_longer_chunks_at_the_end_are_taken() -> None:
    assert segmented(np.array([[1.0, 0.0]] * 5), [0, 0, 0, 1, 2]) == [(0, 1), (2, 4)]
    assert segmented(at_angles([0.0, 1.0]), [0, 0]) == [(0, 1)]


@pytest.mark.slow
def test_memory_is_linear_in_the_pieces() -> None:
    """The whole matrix of 20,000 pieces would be 3.2 GB."""
    rows = directions(np.random.default_rng(0).normal(size=(20_000, 4)))
    tracemalloc.start()
    groups = segmented(rows, [max(0, last - 7) for last in range(len(rows))])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert groups[-1][1] == 19_999
    assert peak < 20_000_000


WORDS = "alpha beta gamma delta " * 40


def test_pieces_are_cut_as_recursive_cuts_and_chunks_fit_the_size() -> None:
    made = ClusterChunker(size=60, piece=25, unit="characters")
    ruler = LengthFunction(range(len(WORDS)), overhead=10)
    texts = made.texts(WORDS, ruler)
    assert texts[:2] == ["alpha beta gamma delta", "alpha beta gamma delta"]
    spans = made.group(WORDS, ruler, np.ones((len(texts), 2), dtype=np.float32))
    assert all(span.end - span.start <= 50 for span in spans)
    assert {span.end - span.start for span in spans[1:]} == {45}  # two pieces
    assert " ".join(WORDS[span.start : span.end] for span in spans).split() == WORDS.split()
    assert all(earlier.end < later.start for earlier, later in pairwise(spans))


def test_a_title_that_leaves_less_room_than_a_piece_makes_pieces_smaller() -> None:
    made = ClusterChunker(size=40, piece=40, unit="characters")
    assert max(map(len, made.texts(WORDS, LengthFunction(range(len(WORDS)), overhead=25)))) <= 20


@pytest.mark.parametrize("text", ["", "  \n", "One piece."])
def test_nothing_is_embedded_where_there_is_nothing_to_group(text: str) -> None:
    made, ruler = ClusterChunker(unit="characters"), LengthFunction(range(len(text)))
    assert made.texts(text, ruler) == []
    spans = made.group(text, ruler, np.empty((0, 0), dtype=np.float32))
    assert [text[span.start : span.end] for span in spans] == ([text] if text.strip() else [])
