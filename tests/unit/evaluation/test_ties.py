"""The range of ties is what all orders of equal scores give, and no metric has one without being known to."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, groupby, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ragtrial.evaluation.bounds import Bounds, tie_range, ties_that_matter
from ragtrial.evaluation.grading import GradedRankings
from ragtrial.evaluation.metrics import METRICS, Metric, parse_metric
from ragtrial.pipeline.reporting import tie_warnings
from scenarios import OF_DOCUMENTS, Scenario, scenario, scores
from strategies import DOCUMENTS, cutoffs, labels, metric_called

UNORDERED = ("rbo", "infap", "forbidden")
"""No order of equal scores is known to be best: a hit counts by its place in the labels, by others, or against."""

Transformation = Callable[[GradedRankings], GradedRankings]


def tied(case: Scenario, run_scores: Sequence[Sequence[int]], threshold: int = 1) -> GradedRankings:
    """The graded rankings, knowing which hits have one score; the scores of each query fall or stay as they are."""
    graded = case.graded(threshold=threshold)
    found = []
    for row, rank in zip(graded.rows.tolist(), graded.ranks.tolist(), strict=True):
        own = run_scores[row]
        alike = [place for place, score in enumerate(own, start=1) if score == own[rank - 1]]
        found.append((alike[0], alike[-1]))
    return replace(graded, ties=np.array(found, dtype=np.int32).reshape(-1, 2))


def every_order(case: Scenario, run_scores: Sequence[int]) -> Scenario:
    """The query once for each order of its hits that keeps higher scores above lower ones."""
    (ranking,), (known,), ordered = case.rankings, case.labels, case.ordered
    groups = [[doc for doc, _ in group] for _, group in groupby(zip(ranking, run_scores, strict=True), lambda x: x[1])]
    orders = [sum(chosen, ()) for chosen in product(*map(permutations, groups))]
    return Scenario(tuple(orders), (known,) * len(orders), ordered * len(orders))


_orders, _lengths = st.permutations(DOCUMENTS), st.integers(0, 5)
_scores, _known = st.integers(0, 2), labels()


@st.composite
def tied_runs(draw: st.DrawFn) -> tuple[Scenario, list[int]]:
    """One query with its scores, falling, few of them different."""
    ranking = tuple(draw(_orders)[: draw(_lengths)])
    run_scores = sorted((draw(_scores) for _ in ranking), reverse=True)
    near = st.dictionaries(st.sampled_from(ranking), st.integers(-1, 3)) if ranking else st.just({})
    return Scenario((ranking,), ({**draw(_known), **draw(near)},), (True,)), run_scores


def transformations(depth: int) -> tuple[Transformation, ...]:
    """What may be done to rankings before they are scored."""
    return (
        lambda graded: graded, lambda graded: graded.cut(depth), lambda graded: graded.condensed,
        lambda graded: graded.cut(depth).condensed, lambda graded: graded.condensed.cut(depth),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_DOCUMENTS)
@settings(max_examples=40)
@given(
    data=st.data(),
    drawn=tied_runs(),
    then=st.integers(1, 6).map(transformations).flatmap(st.sampled_from),
    threshold=st.integers(1, 2),
    skips_negatives=st.booleans(),
)
def test_the_range_is_that_of_all_orders_of_equal_scores(
    name: str,
    data: st.DataObject,
    drawn: tuple[Scenario, list[int]],
    then: Transformation,
    threshold: int,
    skips_negatives: bool,
) -> None:
    case, run_scores = drawn
    metric = data.draw(metric_called(name))
    graded = replace(tied(case, [run_scores], threshold), skips_negatives=skips_negatives)
    found = tie_range(metric, graded, then)
    if found is None:
        assert name in UNORDERED
        return
    orders = replace(every_order(case, run_scores).graded(threshold=threshold), skips_negatives=skips_negatives)
    all_scores = scores(metric, then(orders))
    assert found.low == pytest.approx([all_scores.min()], abs=1e-12)
    assert found.high == pytest.approx([all_scores.max()], abs=1e-12)


def ends(metric: str, graded: GradedRankings, then: Transformation = lambda graded: graded) -> list[list[float]]:
    found = tie_range(parse_metric(metric), graded, then)
    assert isinstance(found, Bounds)
    return [found.low.tolist(), found.high.tolist()]


def test_groups_that_straddle_k_decide_and_the_setting_moved_most_is_named() -> None:
    """x above three equal ones, of which one is relevant: it may be the second or the fourth."""
    graded = tied(scenario(("x y a z", "a")), [[3, 2, 2, 2]])
    assert ends("rr@4", graded) == [[1 / 4], [1 / 2]]
    assert ends("hit_rate@2", graded) == [[0], [1]]
    assert ends("hit_rate@1", graded) == [[0], [0]]
    assert ends("recall@3", graded) == [[0], [1]]
    assert ends("rr@4", graded, lambda ranked: ranked.cut(3)) == [[0], [1 / 2]]
    moved = {"a": (0.5, 0.6), "b": (0.1, 0.6), "c": (0.4, 0.7), "d": None}
    (warning,) = tie_warnings(moved, "ndcg@10", "first")
    assert "their order moves ndcg@10 of b between 0.1000 and 0.6000, and that of 2 other settings" in warning.message
    # A new metric: show that moving some kind of hit up never lowers it, or that there is none.
    assert {name for name in OF_DOCUMENTS if METRICS[name].prefers is None} == set(UNORDERED)


@given(runs=st.lists(tied_runs(), max_size=4), k=cutoffs)
def test_ties_matter_where_two_of_equal_score_are_judged_unlike(runs: list[tuple[Scenario, list[int]]], k: int) -> None:
    singles = [case for case, _ in runs]
    case = Scenario(
        tuple(single.rankings[0] for single in singles),
        tuple(single.labels[0] for single in singles),
        (False,) * len(runs),
    )
    graded = tied(case, [run_scores for _, run_scores in runs])
    matter = ties_that_matter(graded)
    for index, (single, run_scores) in enumerate(runs):
        judged = [single.labels[0].get(doc) for doc in single.rankings[0]]
        pairs = combinations(zip(judged, run_scores, strict=True), 2)
        assert matter[index] == any(one != other and same == score for (one, same), (other, score) in pairs)
    for name in sorted(name for name, one in METRICS.members() if one.prefers):
        found = tie_range(Metric(name, None if METRICS[name].cut == "none" else k), graded)
        assert found is not None
        assert found.low[~matter].tolist() == found.high[~matter].tolist(), name
