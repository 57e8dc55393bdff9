"""The arithmetic of fusion, by hand, against plain dicts, and by what must always hold."""

from collections.abc import Sequence
from itertools import permutations
from statistics import fmean, pstdev
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ragtrial.components.refiners.fusion import FusionRefiner, Method, Normalisation, fuse
from ragtrial.rankings import PADDING, Codes, Rankings, from_rows

UNITS = 9

List = Sequence[tuple[int, float]]
"""Codes and scores, best first."""

Weights = Sequence[float] | None


def fusing(method: Method = "rrf", normalisation: Normalisation = "min_max", rank_constant: int = 60) -> FusionRefiner:
    """The options, of which the arithmetic reads these."""
    return FusionRefiner.model_construct(
        input_names=[], method=method, normalisation=normalisation, rank_constant=rank_constant
    )


def rankings(*rows: List) -> Rankings:
    return from_rows([[code for code, _ in row] for row in rows], [[score for _, score in row] for row in rows])


def in_place(codes: Codes) -> tuple[Codes]:
    return (codes,)


def rows_of(found: Rankings) -> list[dict[int, float]]:
    """Code to score for each question, best first."""
    rows = zip(found.codes.tolist(), found.scores.tolist(), strict=True)
    return [{c: s for c, s in zip(codes, scores, strict=True) if c != PADDING} for codes, scores in rows]


def fused_scores(lists: Sequence[List], options: FusionRefiner, weights: Weights = None) -> dict[int, float]:
    (row,) = rows_of(fuse([rankings(one) for one in lists], options, in_place, weights).rankings)
    return row


A, B, C, D = range(4)
FIRST, SECOND = [(A, 10.0), (B, 8.0), (C, 4.0)], [(C, 5.0), (D, 3.0)]
BY_HAND: list[tuple[FusionRefiner, Weights, dict[int, float]]] = [
    # c stands third and first; b and d stand second, once each, and go in order.
    (fusing(), None, {C: 1 / 63 + 1 / 61, A: 1 / 61, B: 1 / 62, D: 1 / 62}),
    (fusing(rank_constant=0), None, {C: 1 / 3 + 1, A: 1, B: 1 / 2, D: 1 / 2}),
    (fusing(), (3, 1), {C: 3 / 63 + 1 / 61, A: 3 / 61, B: 3 / 62, D: 1 / 62}),
    # Min-max: a 1, b 2/3, c 0 and c 1, d 0.
    (fusing("weighted"), (1, 2), {C: 2, A: 1, B: 2 / 3, D: 0}),
    # Means 22/3 and 4, deviations sqrt(56/9) and 1: a 1.069045, b 0.267261, c -1.336306 and c 1, d -1.
    (fusing("weighted", "z_score"), None, {A: 0.069045, C: -0.336306, B: -0.732739, D: -2.336306}),
    (fusing("weighted", "none"), None, {A: 13, B: 11, C: 9, D: 7}),
]


@pytest.mark.parametrize(("options", "weights", "expected"), BY_HAND)
def test_two_lists_are_fused_as_by_hand(options: FusionRefiner, weights: Weights, expected: dict[int, float]) -> None:
    found = fused_scores([FIRST, SECOND], options, weights)
    assert list(found) == list(expected)
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_sums_do_not_depend_on_the_order_and_a_hit_counts_once() -> None:
    first, second = rankings([(A, 2.0), (B, 1.0)]), rankings([(B, 2.0), (A, 1.0)])
    assert fuse([first, second], fusing(), in_place).rankings.codes.tolist() == [[A, B]]
    assert fuse([first, second], fusing(), lambda codes: (-codes,)).rankings.codes.tolist() == [[B, A]]
    lists = [rankings([(B, 1e-30), (A, -1e-30)])] * 2
    tiny = (1e-30, 1e-30)  # 2e-60 is 0 in float32
    assert fuse(lists, fusing("weighted", "none"), in_place, tiny).rankings.codes.tolist() == [[A, B]]
    parts = [[(A, 1e20)], [(A, -1e20)], [(A, 1.0)]]
    sums = [
        fused_scores([parts[index] for index in order], fusing("weighted", "none")) for order in permutations(range(3))
    ]
    assert all(one == sums[0] for one in sums)
    first, second = rankings([(A, 3.0), (B, 2.0), (C, 1.0)]), rankings([(C, 2.0), (B, 1.0)])
    found = fuse([first, second], fusing(), in_place)
    assert found.rankings.codes.tolist() == [[C, B, A]]
    assert (found.lists.tolist(), found.best.tolist(), found.column.tolist()) == ([[2, 2, 1]], [[1, 0, 0]], [[0, 1, 0]])
    heavy = fuse([first, second], fusing(), in_place, (1, 2))
    assert heavy.rankings.codes.tolist() == [[C, B, A]]
    assert heavy.best.tolist() == [[1, 1, 0]]
    found = fuse([rankings([(A, 3.0), (A, 2.0), (B, 1.0)]), rankings([(B, 1.0)])], fusing(), in_place)
    assert rows_of(found.rankings) == [pytest.approx({B: 1 / 62 + 1 / 61, A: 1 / 61})]
    assert found.lists.tolist() == [[2, 1]]


def test_lists_of_very_different_depths_and_many_questions_are_fused_row_by_row() -> None:
    drawn, questions = np.random.default_rng(5), 700
    deep = np.argsort(drawn.random((questions, 150)), axis=1).astype(np.int32)
    short = np.argsort(drawn.random((questions, 150)), axis=1).astype(np.int32)[:, :3]
    parts = [Rankings(codes, -np.sort(-drawn.random(codes.shape)).astype(np.float32)) for codes in (deep, short)]
    found = fuse(parts, fusing("weighted"), in_place, (1, 2))
    assert found.rankings.codes.shape == (questions, 150)
    for question in (0, 108, 109, 110, 699):  # blocks end between them
        alone = [Rankings(part.codes[[question]], part.scores[[question]]) for part in parts]
        row = fuse(alone, fusing("weighted"), in_place, (1, 2)).rankings
        np.testing.assert_array_equal(found.rankings.codes[question], row.codes[0])
        np.testing.assert_array_equal(found.rankings.scores[question], row.scores[0])


def values_by_dict(one: List, normalisation: Normalisation) -> tuple[dict[int, float], float]:
    """What becomes of the scores of a list, and what is given for a missing one."""
    if not one:
        return {}, 0.0
    scores = dict(one)
    low, high = min(scores.values()), max(scores.values())
    if normalisation == "none":
        return scores, low
    if low == high:
        return dict.fromkeys(scores, 1.0 if normalisation == "min_max" else 0.0), 0.0
    if normalisation == "min_max":
        made = {code: (score - low) / (high - low) for code, score in one}
    else:
        made = {code: (score - fmean(scores.values())) / pstdev(scores.values()) for code, score in one}
    return made, min(made.values())


def fused_by_dict(lists: Sequence[List], options: FusionRefiner, weights: Sequence[float]) -> dict[int, float]:
    union = {code for one in lists for code, _ in one}
    if options.method == "rrf":
        ranks = [{code: rank for rank, (code, _) in enumerate(one, 1)} for one in lists]
        places = list(zip(weights, ranks, strict=True))
        return {c: sum(w / (options.rank_constant + r[c]) for w, r in places if c in r) for c in union}
    made = [values_by_dict(one, options.normalisation) for one in lists]
    return {c: sum(w * v.get(c, low) for w, (v, low) in zip(weights, made, strict=True)) for c in union}


@st.composite
def lists_of_hits(draw: st.DrawFn) -> list[list[tuple[int, float]]]:
    """Two to four lists, some of them empty, of one hit or with equal scores; scores fall."""
    made = []
    for _ in range(draw(st.integers(2, 4))):
        codes = draw(st.lists(st.integers(0, UNITS - 1), max_size=UNITS, unique=True))
        score = st.integers(-8, 40).map(lambda number: number / 4)
        scores = draw(st.lists(score, min_size=len(codes), max_size=len(codes)))
        made.append(list(zip(codes, sorted(scores, reverse=True), strict=True)))
    return made


@settings(max_examples=60)
@given(
    lists_of_hits(),
    st.builds(fusing, st.sampled_from(get_args(Method)), st.sampled_from(get_args(Normalisation)), st.integers(0, 100)),
    st.lists(st.sampled_from([0.0, 0.25, 1.0, 2.5]), min_size=4, max_size=4),
)
def test_columns_give_what_the_formulas_give(
    lists: list[list[tuple[int, float]]], options: FusionRefiner, drawn_weights: list[float]
) -> None:
    weights = drawn_weights[: len(lists)]
    found, expected = fused_scores(lists, options, weights), fused_by_dict(lists, options, weights)
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert list(found) == sorted(found, key=lambda code: (-found[code], code))
