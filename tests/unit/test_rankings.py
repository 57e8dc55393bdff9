"""Columnar rankings: rows of unequal length, cutting, and collapsing chunks into their documents."""

import re

import numpy as np
import pytest
from hypothesis import given

from ragtrial.rankings import PADDING, Rankings, collapse, from_rows
from strategies import chunk_rows


def rows_of(rankings: Rankings) -> list[list[int]]:
    return [[int(code) for code in row if code != PADDING] for row in rankings.codes]


def test_rows_are_padded_and_collapse_keeps_first_chunks_of_each_query() -> None:
    rankings = from_rows([[7, 3, 5], [], [4]], [[0.9, 0.5, 0.25], [], [1.5]])
    assert rankings.codes.dtype == np.int32
    assert rankings.codes.tolist() == [[7, 3, 5], [-1, -1, -1], [4, -1, -1]]
    assert rankings.scores.dtype == np.float32
    np.testing.assert_array_equal(
        rankings.scores, np.array([[0.9, 0.5, 0.25], [np.nan] * 3, [1.5, np.nan, np.nan]], dtype=np.float32)
    )
    assert rankings.lengths.tolist() == [3, 0, 1]
    assert (len(rankings), rankings.depth) == (3, 3)
    codes, scores = np.zeros((2, 3), dtype=np.int32), np.zeros((2, 4), dtype=np.float32)
    with pytest.raises(ValueError, match=re.escape("codes (2, 3) and scores (2, 4) must share a 2-d shape")):
        Rankings(codes, scores)
    owner = np.array([0, 0, 1, 1, 2], dtype=np.int32)  # chunks 0 and 1 are of document 0, ...
    rankings = from_rows([[3, 1, 0, 2, 4], [4], [0, 1]], [[5, 4, 3, 2, 1], [9], [8, 7]])
    collapsed = collapse(rankings, owner)
    assert collapsed.rankings.codes.tolist() == [[1, 0, 2], [2, -1, -1], [0, -1, -1]]
    assert collapsed.units.tolist() == [[3, 1, 4], [4, -1, -1], [0, -1, -1]]
    np.testing.assert_array_equal(
        collapsed.rankings.scores, np.array([[5, 4, 1], [9, np.nan, np.nan], [8, np.nan, np.nan]], dtype=np.float32)
    )
    assert collapsed.dropped.tolist() == [2, 0, 1]
    assert collapsed.rankings.codes.dtype == collapsed.units.dtype == np.int32
    rankings = from_rows([[1, 1, 0]], [[3, 2, 1]])
    collapse(rankings, np.array([5, 5], dtype=np.int32))
    assert rankings.codes.tolist() == [[1, 1, 0]]
    assert rankings.scores.tolist() == [[3, 2, 1]]
    last = 2**31 - 1
    owner = np.array([last, 0, last - 1], dtype=np.int32)
    collapsed = collapse(from_rows([[0, 1], [1, 0, 0], [2, 1, 2]]), owner)
    assert rows_of(collapsed.rankings) == [[last, 0], [0, last], [last - 1, 0]]
    assert collapsed.dropped.tolist() == [0, 1, 1]
    collapsed = collapse(from_rows([[0, 1, 2, 0]]), np.array([8, 8, 9], dtype=np.int32)).cut(1)
    assert collapsed.rankings.codes.tolist() == [[8]]
    assert collapsed.units.tolist() == [[0]]
    assert collapsed.dropped.tolist() == [2]


@pytest.mark.parametrize("rows", [[], [[]], [[], []]])
def test_nothing_ranked_has_depth_zero(rows: list[list[int]]) -> None:
    rankings = from_rows(rows)
    assert (len(rankings), rankings.depth, rankings.lengths.tolist()) == (len(rows), 0, [0] * len(rows))
    assert collapse(rankings, np.arange(3, dtype=np.int32)).dropped.tolist() == [0] * len(rows)


@pytest.mark.parametrize("scores", [[0.5], [0.5, 0.4], [0.5, 0.4, 0.3, 0.2]])
def test_a_row_with_another_number_of_scores_than_of_codes_is_refused(scores: list[float]) -> None:
    with pytest.raises(ValueError, match=f"^row 1 has 3 codes and {len(scores)} scores$"):
        from_rows([[4], [1, 2, 3]], [[0.9], scores])


@pytest.mark.parametrize(("depth", "rows"), [(1, [[7], [4]]), (2, [[7, 3], [4]]), (9, [[7, 3, 5], [4]])])
def test_a_cut_keeps_the_first_units_and_their_scores(depth: int, rows: list[list[int]]) -> None:
    rankings = from_rows([[7, 3, 5], [4]], [[3, 2, 1], [6]])
    cut = rankings.cut(depth)
    assert rows_of(cut) == rows
    assert cut.lengths.tolist() == [len(row) for row in rows]
    np.testing.assert_array_equal(cut.scores, rankings.scores[:, :depth])
    assert rankings.depth == 3


@given(chunk_rows())
def test_collapse_is_the_first_mention_of_each_owner(case: tuple[list[int], list[list[int]]]) -> None:
    owner, rows = case
    scores = [[-float(place) for place in range(len(row))] for row in rows]
    collapsed = collapse(from_rows(rows, scores), np.array(owner, dtype=np.int32))
    expected = [list(dict.fromkeys(owner[chunk] for chunk in row)) for row in rows]
    assert rows_of(collapsed.rankings) == expected
    assert collapsed.dropped.tolist() == [len(row) - len(kept) for row, kept in zip(rows, expected, strict=True)]
    for row, kept, units, values in zip(rows, expected, collapsed.units, collapsed.rankings.scores, strict=True):
        firsts = [next(place for place, chunk in enumerate(row) if owner[chunk] == document) for document in kept]
        assert units[: len(kept)].tolist() == [row[place] for place in firsts]
        assert values[: len(kept)].tolist() == [-place for place in firsts]


@pytest.mark.parametrize("last", [7, 3])
def test_padding_between_units_goes_and_places_tell_where_they_stood(last: int) -> None:
    codes = np.array([[3, PADDING, 5], [PADDING, last, 3]], dtype=np.int32)
    scores = np.where(codes == PADDING, np.nan, 0.5).astype(np.float32)
    found = collapse(Rankings(codes, scores), np.arange(8, dtype=np.int32))
    rows = [[3, 5], [7, 3]] if last == 7 else [[3, 5], [3]]
    assert rows_of(found.rankings) == rows
    assert found.ranks.tolist() == ([[1, 3], [2, 3]] if last == 7 else [[1, 3], [2, 0]])
    assert found.dropped.tolist() == [0, 0 if last == 7 else 1]
    assert found.rankings.codes.dtype == found.units.dtype == np.int32
