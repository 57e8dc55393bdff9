"""What a label would settle of a comparison: against trying it, and against trying all grades."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joint import WITH_JOINT_BOUNDS, Case, all_labellings, differences, joined, metrics_of, pairs
from ragtrial.comparison.unjudged.joint_bounds import joint_bounds
from ragtrial.comparison.unjudged.joint_hits import NOWHERE, HitSpans
from ragtrial.evaluation.bounds import bounds as score_bounds
from ragtrial.evaluation.metrics import Metric, parse_metric
from ragtrial.labelling.pooling import label_value as module
from ragtrial.labelling.pooling.label_value import LabelValue, chances, levels_of, most_left
from scenarios import Scenario

EXACT = tuple(name for name in WITH_JOINT_BOUNDS if name not in ("ap", "capped_ap"))


def value_of(metric: Metric | str, *cases: Case, threshold: int = 1, spans: dict[str, tuple[int, int]] | None = None,
              scores: tuple[float, float] = (0.0, 0.0)) -> LabelValue:  # fmt: skip
    """What is at stake in these cases; with ``spans``, chunks of one document by their names."""
    made = parse_metric(metric) if isinstance(metric, str) else metric
    hits = joined(cases, threshold)
    names = names_of(*cases)
    codes = np.arange(len(names), dtype=np.int64)
    where = HitSpans(codes, np.zeros_like(codes), np.ones_like(codes))
    if spans is not None:
        ends = np.array([spans[name] for name in names], dtype=np.int64)
        where = HitSpans(np.zeros_like(codes), ends[:, 0], ends[:, 1])
    return LabelValue(
        made, hits, where, np.repeat([scores], len(cases), axis=0).T, np.ones(len(cases), dtype=np.bool_),
        levels_of(made, hits), spans is not None,
    )  # fmt: skip


def names_of(*cases: Case) -> list[str]:
    """What the hits are called, in the order of ``joined``."""
    return [name for one, other, _ in cases for name in sorted({*one, *other})]


def with_grade(case: Case, name: str, grade: int) -> Case:
    return case[0], case[1], {**case[2], name: grade}


def width(metric: Metric, case: Case, threshold: int, highest: int) -> float:
    """The range of a case where grades go up to ``highest``, from nothing but its labels."""
    reached = differences(metric, case, all_labellings(case, highest), threshold)
    return float(reached.max() - reached.min())


@given(case=pairs(2), metrics=metrics_of(WITH_JOINT_BOUNDS), threshold=st.integers(1, 2))
@settings(max_examples=8)
def test_what_a_label_leaves_is_the_range_over_all_grades_of_the_rest(
    case: Case, metrics: list[Metric], threshold: int
) -> None:
    highest, names = max([0, *case[2].values()]), names_of(case)
    for metric in metrics:
        value = value_of(metric, case, threshold=threshold)
        free = np.flatnonzero(value.hits.is_open)
        levels = np.arange(highest + 1, dtype=np.int32)
        left = value.tried(free, levels)
        for row, place in enumerate(free.tolist()):
            for grade in levels.tolist():
                made = width(metric, with_grade(case, names[place], grade), threshold, highest)
                assert left[row, grade] == pytest.approx(made, abs=1e-9), metric


@pytest.mark.slow
@given(cases=st.lists(pairs(3), min_size=2, max_size=4), metrics=metrics_of(EXACT), seed=st.randoms())
@settings(max_examples=8)
def test_trying_a_label_and_taking_it_down_come_to_the_same(
    cases: list[Case],
    metrics: list[Metric],
    seed: st.randoms,  # type: ignore[valid-type]
) -> None:
    for metric in metrics:
        value = value_of(metric, *cases)
        free = np.flatnonzero(value.hits.is_open)
        left = value.tried(free)
        place = seed.randrange(len(free))  # type: ignore[attr-defined]
        for column, grade in enumerate(value.levels.tolist()):
            after = value.with_label(int(free[place]), grade)
            row = int(value.hits.rows[free[place]])
            assert after.widths[row] == pytest.approx(left[place, column], abs=1e-12)
            fresh = replace(after, known_widths=None)
            np.testing.assert_allclose(after.widths, fresh.widths, atol=1e-12)
            again = np.flatnonzero(after.hits.is_open)
            np.testing.assert_allclose(after.tried(again), fresh.tried(again), atol=1e-12)


@given(case=pairs(3), metrics=metrics_of(WITH_JOINT_BOUNDS))
@settings(max_examples=8)
def test_no_label_makes_a_range_wider(case: Case, metrics: list[Metric]) -> None:
    for metric in metrics:
        value = value_of(metric, case)
        left = value.tried(np.flatnonzero(value.hits.is_open))
        assert (left <= value.widths[0] + 1e-9).all(), metric


@given(case=pairs(3), metrics=metrics_of(EXACT))
@settings(max_examples=8)
def test_what_may_be_left_is_the_widest_over_all_grades_of_the_chosen(case: Case, metrics: list[Metric]) -> None:
    names = names_of(case)
    for metric in metrics:
        value = value_of(metric, case)
        chosen = np.flatnonzero(value.hits.is_open)[:2].tolist()
        if not chosen:
            continue
        widest = 0.0
        for grades in product(value.levels.tolist(), repeat=len(chosen)):
            made = case
            for place, grade in zip(chosen, grades, strict=True):
                made = with_grade(made, names[place], grade)
            widest = max(widest, value_of(metric, made, (["a"], ["a"], case[2])).widths[0])
        assert most_left(value, chosen) == pytest.approx(widest, abs=1e-9), metric
        assert most_left(value, chosen, most_ways=len(value.levels)) >= widest - 1e-9
        assert most_left(value, chosen, most_ways=0) == value.widths[0]


@given(case=pairs(4, grades=(0, 1)), name=st.sampled_from(["precision", "ndcg", "rr", "recall", "hit_rate"]))
@settings(max_examples=50)
def test_one_ranking_beside_an_empty_one_has_the_range_of_its_score(case: Case, name: str) -> None:
    metric = parse_metric(f"{name}@3")
    alone: Case = ([], case[1], {**case[2], "elsewhere": 1})
    graded = Scenario((tuple(case[1]),), (alone[2],), (True,)).graded(threshold=1)
    expected = score_bounds(metric, graded)
    assert expected is not None
    value = value_of(metric, alone)
    assert (value.hits.first == NOWHERE).all()
    assert value.widths[0] == pytest.approx(expected.high[0] - expected.low[0], abs=1e-12)


def test_a_query_outside_the_mean_has_nothing_at_stake() -> None:
    case: Case = (["a"], ["b"], {"elsewhere": 1})
    both = value_of("precision@1", case, case)
    one = replace(both, counts=np.array([True, False]))
    assert both.widths.tolist() == [2.0, 2.0]
    assert one.widths.tolist() == [2.0, 0.0]
    assert one.width == 2.0
    assert one.tried(np.array([2]))[0].tolist() == [0.0, 0.0]


def test_blocks_do_not_change_what_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[Case] = [(["a", "b", "c"], ["d", "a", "e"], {"a": 2, "x": 1}), (["a", "b"], ["c", "d"], {"b": 1})]
    value = value_of("ndcg@3", *cases)
    free = np.flatnonzero(value.hits.is_open)
    whole = value.tried(free)
    for size in (1, 7, 30):
        monkeypatch.setattr(module, "BLOCK", size)
        np.testing.assert_array_equal(value.tried(free), whole)
    assert value.tried(free[:0]).shape == (0, 3)


def test_chunks_that_a_judged_one_overlaps_are_judged_with_it() -> None:
    case: Case = (["a", "b"], ["c", "d"], {})
    spans = {"a": (0, 10), "b": (10, 20), "c": (5, 10), "d": (20, 30)}
    value = value_of("precision@2", case, spans=spans)
    assert value.widths.tolist() == [2.0]
    assert value.tried(np.arange(4))[:, 0].tolist() == [1.0, 1.5, 1.0, 1.5]  # a and c meet, b and d do not
    after = value.with_label(0, 0)
    assert after.hits.is_open.tolist() == [False, True, False, True]


def test_a_chunk_without_a_text_is_judged_by_itself() -> None:
    case: Case = (["a"], ["b"], {})
    value = value_of("precision@1", case, spans={"a": (0, 0), "b": (0, 5)})
    assert value.with_label(0, 0).hits.is_open.tolist() == [False, True]


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("precision@2", [[1.5, 1.5], [1.5, 1.5]]),  # half of two, of each ranking: one hit less to be relevant
        ("rr@2", [[1.5, 1.0], [2.0, 1.5]]),
        ("hit_rate@2", [[2.0, 1.0], [2.0, 1.0]]),
    ],
)
def test_a_relevant_chunk_is_scored_before_the_range_is_taken(metric: str, expected: list[list[float]]) -> None:
    """Rank 1 or 2 of the second ranking, not relevant and relevant; nothing else is known.

    rr is from -1 to 1; with the first hit wrong up to 1/2, with it right from 1 - 1 on; with the second right from
    1/2 - 1 on.
    """
    case: Case = (["a", "b"], ["c", "d"], {"x": 1})
    spans = {"a": (0, 1), "b": (1, 2), "c": (2, 3), "d": (3, 4)}
    value = value_of(metric, case, spans=spans)
    left = value.tried(np.array([2, 3]), np.array([0, 1], dtype=np.int32))
    assert left.tolist() == expected


def test_how_often_hits_of_a_rank_are_relevant_counts_unjudged_ones_as_not() -> None:
    case: Case = (["a"], ["b"], {"a": 1})
    value = value_of("precision@1", case, case, case)
    assert chances(value).tolist() == [[4 / 7, 3 / 7]] * 6  # of six hits at rank 1 three; and one more that is not


def test_grades_that_are_tried_are_those_that_a_metric_tells_apart() -> None:
    graded = joined([(["a"], ["b"], dict(zip("cdefghijk", range(-1, 8), strict=True)))])
    assert levels_of(parse_metric("ndcg@10"), graded).tolist() == [0, 1, 3, 5, 7]
    assert levels_of(parse_metric("ap@10"), graded).tolist() == [0, 7]
    assert levels_of(parse_metric("precision(rel=3)@10"), graded).tolist() == [0, 7]
    few = joined([(["a"], ["b"], {"c": 1, "d": 3})])
    assert levels_of(parse_metric("ndcg@10"), few).tolist() == [0, 1, 3]


def test_the_grades_that_labels_have_elsewhere_stay_possible() -> None:
    """A query without a judged document of its own is judged by the grades of all."""
    cases: list[Case] = [(["a"], ["b"], {"x": 1}), (["a"], ["b"], {"x": 3})]
    value = value_of("dcg@1", *cases)
    assert value.widths.tolist() == [6.0, 6.0]
    assert value.tried(np.array([0]))[0].tolist() == [3.0, 3.0, 3.0]
    bounds = joint_bounds(value.metric, value.hits)
    assert (bounds.high - bounds.low).tolist() == [6.0, 6.0]
