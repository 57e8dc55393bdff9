"""Metrics worked by hand on small cases; each number is written as the sum that gives it.

The metrics that trec_eval has are compared with it elsewhere; here they have an example each, at the edges.
"""

from math import log2

import numpy as np
import pytest

from expectations import message_of
from ragtrial.errors import MetricError
from scenarios import Labels, scenario, score, scores
from trec_scenarios import graded_as_trec_eval_does

IN_ORDER = (1 + 0.9 + 0.81, 1 + 0.5 + 0.25)
"""What the labels in their own order get at depth 3, for p = 0.9 and 0.5."""

ONE_AND_TWO: Labels = {"r1": 1, "r2": 2, "n1": 0, "n2": 0, "missing": 1}
"""R = 3, two judged not relevant; x, y and z are judged by nobody."""

GRADED: Labels = {"three": 3, "two": 2, "one": 1, "zero": 0, "bad": -1}

Rows = list[tuple[str, str, float]]
WORKED: list[tuple[Labels, Rows]] = [
    ("2 3 7", [
        ("f1@1", "6 2 3 4 5", 0),
        ("f1@2", "6 2 3 4 5", 2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3)),
        ("judged@5", "6 2 3 4 5", 2 / 5),
    ]),
    ("a b c", [
        ("rbp(p=0.5)@3", "a x b", 0.5 * (1 + 0.25)), ("rbp@3", "a x b", 0.2 * (1 + 0.64)),
        ("rbp(p=0.8)@2", "a x b", 0.2), ("rbp(p=0.5)@9", "a b c", 1 - 0.5**3),
        # agreement at depths 1, 2, 3 is 0/1, 2/2, 3/3; in the order of the labels 1, 1, 1
        ("rbo@3", "b a c", (0.9 + 0.81) / IN_ORDER[0]),
        # 1/1, 1/2, 3/3, then 0/1, 1/2, 3/3
        ("rbo(p=0.9)@3", "a c b", (1 + 0.9 / 2 + 0.81) / IN_ORDER[0]),
        ("rbo(p=0.5)@3", "c b a", (0.5 / 2 + 0.25) / IN_ORDER[1]),
        # a ranking that ends: 1/1, 1/2, 1/3 of at most 1, 1, 1
        ("rbo(p=0.5)@3", "a", (1 + 0.5 / 2 + 0.25 / 3) / IN_ORDER[1]),
        # a relevant document that was not retrieved holds its place: 0/1, 1/2 of at most 1, 1
        ("rbo(p=0.5)@2", "b c", (0.5 / 2) / 1.5), ("rbo(p=0.9)@9", "a b c x y", 1),
    ]),
    # two labels: 1/1, 1/2, 2/3 of at most 1/1, 2/2, 2/3
    ("a b", [("rbo(p=0.5)@3", "a x b", (1 + 0.5 / 2 + 0.25 * 2 / 3) / (1 + 0.5 + 0.25 * 2 / 3))]),
    # the order of the labels counts and not their grades, and documents of grade 0 hold no place
    ({"a": 1, "zero": 0, "b": 3, "c": 1}, [("rbo(p=0.9)@3", "b a c", (0.9 + 0.81) / IN_ORDER[0])]),
    ("a b c d", [
        # the cut falls before the overlap: 0/1, 0/2; then 2/3 and 4/4
        ("rbo(p=0.5)@2", "c d a b", 0),
        ("rbo(p=0.5)@4", "c d a b", (0.25 * 2 / 3 + 0.125) / (1 + 0.5 + 0.25 + 0.125)),
        # more relevant documents than k: recall and average precision divide by all, the ideal of nDCG is cut
        ("recall@2", "a b x", 2 / 4), ("ap@2", "a b x", (1 + 1) / 4), ("f1@2", "a b x", 2 * 1 * 0.5 / 1.5),
        ("ndcg@2", "a b x", 1),
        # fewer hits than k: precision divides by k, the share of judged hits by the hits
        ("precision@5", "a", 1 / 5), ("judged@5", "a x", 1 / 2), ("judged@1", "x a", 0),
    ]),
    # grades of 0 and below are judged and not relevant, and gain nothing, neither in a ranking nor in the ideal
    ({"zero": 0, "bad": -2, "a": 2}, [
        ("precision@2", "zero a", 1 / 2), ("judged@3", "bad x zero", 2 / 3), ("dcg@3", "bad x a", 2 / 2),
        ("ndcg@3", "bad x a", 1 / 2), ("recall@3", "bad a", 1),
    ]),
    (ONE_AND_TWO, [
        ("capped_recall@1", "r1 x", 1), ("capped_recall@20", "r1 x r2", 2 / 3), ("capped_ap@1", "r1 x r2", 1),
        ("capped_ap@2", "x r1 r2", (1 / 2) / 2), ("capped_ap@20", "r1 x r2", (1 + 2 / 3) / 3),
        ("unjudged@4", "x r1 y n1 z", 2 / 4), ("unjudged@10", "x r1", 1 / 10), ("judged", "x r1 y n1 z", 2 / 5),
        # R = 3, N = 2, so each judged non-relevant hit above takes half of a relevant one
        ("bpref", "n1 r1 n2 r2", (1 / 2 + 0) / 3), ("bpref(rel=2)", "x r2", 1),
        # unjudged hits are not there once lists are condensed
        ("ap", "x r1 n1 r2", (1 / 2 + 2 / 4) / 3),
        ("ap(judged_only=true)", "x r1 n1 r2", (1 + 2 / 3) / 3),
        ("precision(judged_only=true)@2", "x r1 y n1", 1 / 2),
        ("ndcg(judged_only=true)@2", "x r2 y r1", 1),
        ("rbp(p=0.5,judged_only=true)", "x r1 y n1 r2", 0.5 + 0.125),
        ("r_precision(rel=2,judged_only=true)", "x r2", 1),
        # the residual is the weight of all ranks without a judged hit
        ("rbp_residual(p=0.5)", "", 1), ("rbp_residual(p=0.5)", "n1", 0.5),
        ("rbp_residual(p=0.5)", "x r1", 0.5 + 0.25), ("rbp_residual(p=0.5)@2", "r1 x n1 y", 0.5),
        ("rbp_residual(p=0.5)@3", "r1 x n1 y", 0.25 + 0.125), ("rbp_residual", "r1 x", 0.8),
    ]),
    (GRADED, [
        ("err", "zero bad x three", (7 / 16) / 4),
        ("err", "three two one", 7 / 16 + (9 / 16) * (3 / 16) / 2 + (9 / 16) * (13 / 16) * (1 / 16) / 3),
        ("err@2", "one x two", 1 / 16),
        ("err(max=3)", "three two", 7 / 8 + (1 / 8) * (3 / 8) / 2),
        ("err(judged_only=true)", "x three", 7 / 16),
        ("dcg(gain=exp)", "three x two", 7 + 3 / 2),
        ("ndcg(gain=exp)@2", "two three", (3 + 7 / log2(3)) / (7 + 3 / log2(3))),
        ("ndcg", "one", 1 / (3 + 2 / log2(3) + 1 / 2)),
        # gains for grades; 1 and 3 keep their own, and 2 is now the best
        ("ndcg(2=10)", "three two one", (3 + 10 / log2(3) + 1 / 2) / (10 + 3 / log2(3) + 1 / 2)),
        ("ndcg(0=5)", "zero three two one", 1),
        ("ndcg(1=0.25,2=0.5,3=0.75)@2", "two three", (0.5 + 0.75 / log2(3)) / (0.75 + 0.5 / log2(3))),
        ("dcg(gain=exp,3=1)", "three two", 1 + 3 / log2(3)),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "metric", "ranking", "value"), [(labels, *row) for labels, rows in WORKED for row in rows]
)
def test_worked_by_hand(labels: Labels, metric: str, ranking: str, value: float) -> None:
    assert score(metric, ranking, labels) == pytest.approx(value, rel=1e-14)


def test_negative_grades_and_residuals_of_long_rankings() -> None:
    qrels = {"q": {"n": -1, "a": 1, "m": 0}}
    graded = graded_as_trec_eval_does(qrels, {"q": {"n": 3.0, "a": 2.0, "m": 1.0}})
    expected = {"bpref": 1, "judged": 2 / 3, "unjudged@3": 1 / 3, "rr(judged_only=true)": 1, "rr": 1 / 2}
    assert {name: float(scores(name, graded)[0]) for name in expected} == expected
    assert scores("rbp_residual(p=0.5)", graded).tolist() == [0.5 + 0.125]
    # 0.8^300 is 8.5e-30; as 1 less the other weights it would be lost, or negative.
    names = [f"d{number}" for number in range(300)]
    (value,) = scores("rbp_residual", scenario((" ".join(names), dict.fromkeys(names, 0) | {"r": 1})).graded(depth=300))
    assert value == pytest.approx(0.8**300, rel=1e-12)


def test_an_ideal_ranking_of_any_length_and_gains_has_an_ndcg_of_exactly_one() -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        gains = {grade: float(rng.integers(0, 30)) / 7 for grade in range(5)}
        known = {f"d{number}": int(rng.integers(0, 5)) for number in range(40)}
        best = sorted(known, key=lambda doc: -gains[known[doc]])
        metric = f"ndcg({','.join(f'{grade}={gain!r}' for grade, gain in gains.items())})"
        assert set(scores(metric, scenario((" ".join(best), known)).graded(depth=40)).tolist()) <= {1.0}
    # Two discounts far down differ by less than a long sum is rounded.
    names = [f"d{number}" for number in range(12_000)]
    known = {doc: 1 + (12_000 - number) // 3000 for number, doc in enumerate(names)}
    swapped = [*names[:9000], names[9001], names[9000], *names[9002:]]
    graded = scenario(*((" ".join(order), known) for order in (names, swapped, names[:9500]))).graded(depth=12_000)
    assert scores("ndcg", graded)[0] == 1.0
    assert scores("ndcg", graded).max() == 1.0
    assert scores("ndcg@9500", graded).tolist() == [1.0, pytest.approx(1.0, abs=1e-9), 1.0]


def test_a_grade_above_the_scale_or_all_powers_of_two_is_refused() -> None:
    graded = scenario(("a", {"a": 2}), ("b", {"b": 1, "not retrieved": 6})).graded()
    assert message_of(MetricError, scores, "err@3", graded) == (
        "err(max=4): a document has grade 6; max must be the highest grade of the scale, as in err(max=6)."
    )
    assert scores("err(max=6)@3", graded).tolist() == [3 / 64, 1 / 64]
    assert score("ndcg(gain=exp)@2", "b a", {"a": 1000, "b": 999}) == pytest.approx(
        (1 / 2 + 1 / log2(3)) / (1 + 1 / 2 / log2(3))
    )
    message = message_of(MetricError, score, "ndcg(gain=exp)@2", "b a", {"a": 1001, "b": 1})
    assert message == "gain=exp: a document has grade 1001, and 2^1001 is beyond all numbers."
