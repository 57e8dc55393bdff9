"""The metrics of sets, of incomplete judgments and of graded readers, worked by hand; each number is its own sum."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest

from ragtrial.errors import MetricError
from scenarios import scenario, score, scores
from trec_scenarios import graded_as_trec_eval_does

WITH_ONE_AND_TWO = {"r1": 1, "r2": 2, "n1": 0, "n2": 0, "missing": 1}
"""R = 3, two judged not relevant; x, y and z are judged by nobody."""


@pytest.mark.parametrize(
    ("metric", "ranking", "value"),
    [
        ("set_precision", "n1 r1 x y r2", 2 / 5),
        ("set_recall", "n1 r1 x y r2", 2 / 3),
        ("set_f", "n1 r1 x y r2", 2 * (2 / 5) * (2 / 3) / (2 / 5 + 2 / 3)),
        ("set_f(beta=2)", "n1 r1 x y r2", 5 * (2 / 5) * (2 / 3) / (4 * (2 / 5) + 2 / 3)),
        ("set_f(beta=0.5)", "n1 r1 x y r2", 1.25 * (2 / 5) * (2 / 3) / (0.25 * (2 / 5) + 2 / 3)),
        ("set_f", "x y", 0),
        ("set_precision(rel=2)", "n1 r1 x y r2", 1 / 5),
        ("set_recall(rel=2)", "n1 r1 x y r2", 1),
        ("set_precision(judged_only=true)", "n1 r1 x y r2", 2 / 3),
        ("capped_recall@1", "r1 x", 1),
        ("capped_recall@2", "r1 x", 1 / 2),
        ("capped_recall@3", "r1 x r2", 2 / 3),
        ("capped_recall@20", "r1 x r2", 2 / 3),
        ("capped_ap@1", "r1 x r2", 1),
        ("capped_ap@2", "x r1 r2", (1 / 2) / 2),
        ("capped_ap@3", "r1 x r2", (1 + 2 / 3) / 3),
        ("capped_ap@20", "r1 x r2", (1 + 2 / 3) / 3),
        ("r_precision", "r1 x n1 r2", 1 / 3),
        ("r_precision", "x y r2 r1", 1 / 3),
        ("r_precision", "r1 r2", 2 / 3),
        ("r_precision(rel=2)", "r1 r2", 0),
        ("r_precision(rel=2,judged_only=true)", "x r2", 1),
        ("num_ret", "r1 x n1 r2", 4),
        ("num_rel", "r1 x", 3),
        ("num_rel(rel=2)", "r1 x", 1),
        ("num_rel_ret", "r1 x n1 r2", 2),
        ("num_rel_ret(rel=2)", "r1 x n1 r2", 1),
        ("unjudged@2", "x r1", 1 / 2),
        ("unjudged@4", "x r1 y n1 z", 2 / 4),
        ("unjudged@10", "x r1", 1 / 10),
        ("judged", "x r1 y n1 z", 2 / 5),
        ("gm_ap", "r1 x r2", (1 + 2 / 3) / 3),
        ("gm_ap@1", "r1 x r2", 1 / 3),
    ],
)
def test_sets_counts_and_caps(metric: str, ranking: str, value: float) -> None:
    assert score(metric, ranking, WITH_ONE_AND_TWO) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("metric", "ranking", "value"),
    [
        # R = 3, N = 2, so each judged non-relevant hit above takes half of a relevant one
        ("bpref", "r1 r2", 2 / 3),
        ("bpref", "r1 n1 r2", (1 + 1 / 2) / 3),
        ("bpref", "n1 r1 n2 r2", (1 / 2 + 0) / 3),
        ("bpref", "x n1 y r1 z", (1 / 2) / 3),
        ("bpref", "n1 n2", 0),
        # a threshold of 2: R = 1, N = 4, and one non-relevant hit above is enough
        ("bpref(rel=2)", "r2 r1", 1),
        ("bpref(rel=2)", "r1 r2", 0),
        ("bpref(rel=2)", "x r2", 1),
        # unjudged hits are not relevant to average precision, and are not there once lists are condensed
        ("ap", "x r1 n1 r2", (1 / 2 + 2 / 4) / 3),
        ("ap(judged_only=true)", "x r1 n1 r2", (1 + 2 / 3) / 3),
        ("rr(judged_only=true)", "x y n1 r1", 1 / 2),
        ("precision(judged_only=true)@2", "x r1 y n1", 1 / 2),
        ("ndcg(judged_only=true)@2", "x r2 y r1", 1),
        ("rbp(p=0.5,judged_only=true)", "x r1 y n1 r2", 0.5 + 0.125),
        ("r_precision(judged_only=true)", "x y z r1", 1 / 3),
    ],
)
def test_judgments_that_are_incomplete(metric: str, ranking: str, value: float) -> None:
    assert score(metric, ranking, WITH_ONE_AND_TWO) == pytest.approx(value, rel=1e-14)


def test_under_trec_compat_a_negative_grade_is_not_judged() -> None:
    qrels = {"q": {"n": -1, "a": 1, "m": 0}}
    graded = graded_as_trec_eval_does(qrels, {"q": {"n": 3.0, "a": 2.0, "m": 1.0}})
    expected = {"bpref": 1, "judged": 2 / 3, "unjudged@3": 1 / 3, "rr(judged_only=true)": 1, "rr": 1 / 2}
    assert {name: float(scores(name, graded)[0]) for name in expected} == expected
    assert scores("rbp_residual(p=0.5)", graded).tolist() == [0.5 + 0.125]


@pytest.mark.parametrize(
    ("metric", "ranking", "value"),
    [
        ("rbp_residual(p=0.5)", "", 1),
        ("rbp_residual(p=0.5)", "r1", 0.5),
        ("rbp_residual(p=0.5)", "n1", 0.5),
        ("rbp_residual(p=0.5)", "x", 1),
        ("rbp_residual(p=0.5)", "x r1", 0.5 + 0.25),
        ("rbp_residual(p=0.5)", "r1 x n1 y", 0.25 + 0.125),
        ("rbp_residual(p=0.5)@1", "r1 x n1 y", 0.5),
        ("rbp_residual(p=0.5)@2", "r1 x n1 y", 0.5),
        ("rbp_residual(p=0.5)@3", "r1 x n1 y", 0.25 + 0.125),
        ("rbp_residual(p=0.9)@2", "r1 r2 n1", 0.81),
        ("rbp_residual", "r1 x", 0.8),
    ],
)
def test_the_residual_is_the_weight_of_all_ranks_without_a_judged_hit(metric: str, ranking: str, value: float) -> None:
    assert score(metric, ranking, WITH_ONE_AND_TWO) == pytest.approx(value, rel=1e-14)


def test_the_residual_of_a_long_judged_ranking_is_its_tail_to_the_last_digit() -> None:
    """0.8^300 is 8.5e-30; as 1 less the other weights it would be lost, or negative."""
    names = [f"d{number}" for number in range(300)]
    (value,) = scores("rbp_residual", scenario((" ".join(names), dict.fromkeys(names, 0) | {"r": 1})).graded(depth=300))
    assert value == pytest.approx(0.8**300, rel=1e-12)


GRADED = {"three": 3, "two": 2, "one": 1, "zero": 0, "bad": -1}


@pytest.mark.parametrize(
    ("metric", "ranking", "value"),
    [
        ("err", "three", 7 / 16),
        ("err", "one", 1 / 16),
        ("err", "zero bad x three", (7 / 16) / 4),
        ("err", "three two one", 7 / 16 + (9 / 16) * (3 / 16) / 2 + (9 / 16) * (13 / 16) * (1 / 16) / 3),
        ("err", "one x two", 1 / 16 + (15 / 16) * (3 / 16) / 3),
        ("err@2", "one x two", 1 / 16),
        ("err(max=3)", "three two", 7 / 8 + (1 / 8) * (3 / 8) / 2),
        ("err(judged_only=true)", "x three", 7 / 16),
        ("err", "x y", 0),
        ("dcg(gain=exp)", "three x two", 7 + 3 / 2),
        ("ndcg(gain=exp)@2", "two three", (3 + 7 / log2(3)) / (7 + 3 / log2(3))),
        ("ndcg(gain=exp)", "three two one", 1),
        ("dcg", "three x two", 3 + 2 / 2),
        ("ndcg", "one", 1 / (3 + 2 / log2(3) + 1 / 2)),
        ("ndcg@1", "one", 1 / 3),
        # gains for grades; 1 and 3 keep their own, and 2 is now the best
        ("dcg(2=10)", "three two one", 3 + 10 / log2(3) + 1 / 2),
        ("ndcg(2=10)", "three two one", (3 + 10 / log2(3) + 1 / 2) / (10 + 3 / log2(3) + 1 / 2)),
        ("ndcg(2=10)", "two three one", 1),
        ("ndcg(0=5)", "zero three two one", 1),
        ("ndcg(1=0.25,2=0.5,3=0.75)@2", "two three", (0.5 + 0.75 / log2(3)) / (0.75 + 0.5 / log2(3))),
        ("dcg(gain=exp,3=1)", "three two", 1 + 3 / log2(3)),
        ("dcg(1=0,2=0,3=0)", "three two one", 0),
    ],
)
def test_gains_of_graded_judgments(metric: str, ranking: str, value: float) -> None:
    assert score(metric, ranking, GRADED) == pytest.approx(value, rel=1e-14)


def test_an_ideal_ranking_by_given_gains_has_an_ndcg_of_exactly_one() -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        gains = {grade: float(rng.integers(0, 30)) / 7 for grade in range(5)}
        known = {f"d{number}": int(rng.integers(0, 5)) for number in range(40)}
        best = sorted(known, key=lambda doc: -gains[known[doc]])
        metric = f"ndcg({','.join(f'{grade}={gain!r}' for grade, gain in gains.items())})"
        assert set(scores(metric, scenario((" ".join(best), known)).graded(depth=40)).tolist()) <= {1.0}


def test_gains_far_down_are_discounted_by_the_same_formula() -> None:
    names = [f"d{number}" for number in range(1, 12_501)]
    known = {"d2": 1, "d9999": 2, "d10000": 1, "d10001": 3, "d12345": 1}
    (value,) = scores("dcg", scenario((" ".join(names), known)).graded(depth=12_500))
    assert value == pytest.approx(
        1 / log2(3) + 2 / log2(10_000) + 1 / log2(10_001) + 3 / log2(10_002) + 1 / log2(12_346), rel=1e-14
    )


def test_a_long_ideal_ranking_has_an_ndcg_of_exactly_one_and_none_more() -> None:
    """Two discounts far down differ by less than a long sum is rounded."""
    names = [f"d{number}" for number in range(12_000)]
    known = {doc: 1 + (12_000 - number) // 3000 for number, doc in enumerate(names)}
    swapped = [*names[:9000], names[9001], names[9000], *names[9002:]]
    graded = scenario(*((" ".join(order), known) for order in (names, swapped, names[:9500]))).graded(depth=12_000)
    assert scores("ndcg", graded)[0] == 1.0
    assert scores("ndcg", graded).max() == 1.0
    assert scores("ndcg@9500", graded).tolist() == [1.0, pytest.approx(1.0, abs=1e-9), 1.0]


def test_a_grade_above_the_scale_is_refused_wherever_it_stands() -> None:
    """Even where it was not retrieved, and whatever else was."""
    graded = scenario(("a", {"a": 2}), ("b", {"b": 1, "not retrieved": 6})).graded()
    with pytest.raises(MetricError) as caught:
        scores("err@3", graded)
    assert str(caught.value) == (
        "err(max=4): a document has grade 6; max must be the highest grade of the scale, as in err(max=6)."
    )
    assert scores("err(max=6)@3", graded).tolist() == [3 / 64, 1 / 64]


def test_a_grade_beyond_all_powers_of_two_is_refused_and_the_last_one_within_is_not() -> None:
    assert score("ndcg(gain=exp)@2", "b a", {"a": 1000, "b": 999}) == pytest.approx(
        (1 / 2 + 1 / log2(3)) / (1 + 1 / 2 / log2(3))
    )
    with pytest.raises(MetricError) as caught:
        score("ndcg(gain=exp)@2", "b a", {"a": 1001, "b": 1})
    assert str(caught.value) == "gain=exp: a document has grade 1001, and 2^1001 is beyond all numbers."
