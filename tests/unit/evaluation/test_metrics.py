"""Metrics on cases small enough to work by hand; each number is written as the sum that gives it."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest

from ragtrial.evaluation.grading import grade
from ragtrial.rankings import collapse, from_rows
from ragtrial.records import Judgment, Query
from scenarios import Labels, score, scores

THREE_OF_FIVE = ("6 2 3 4 5", "2 3 7")


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("precision@1", 0),
        ("precision@2", 1 / 2),
        ("precision@3", 2 / 3),
        ("precision@5", 2 / 5),
        ("precision@10", 2 / 10),
        ("recall@1", 0),
        ("recall@2", 1 / 3),
        ("recall@5", 2 / 3),
        ("recall@10", 2 / 3),
        ("f1@1", 0),
        ("f1@2", 2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3)),
        ("f1@5", 0.5),
        ("hit_rate@1", 0),
        ("hit_rate@2", 1),
        ("rr@1", 0),
        ("rr@5", 1 / 2),
        ("ap@2", (1 / 2) / 3),
        ("ap@5", (1 / 2 + 2 / 3) / 3),
        ("judged@5", 2 / 5),
        ("judged@2", 1 / 2),
    ],
)
def test_two_of_three_relevant_documents_at_ranks_two_and_three(metric: str, value: float) -> None:
    assert score(metric, *THREE_OF_FIVE) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("metric", "ranking", "value"),
    [
        ("rbp(p=0.5)@3", "a x b", 0.5 * (1 + 0.25)),
        ("rbp(p=0.8)@3", "a x b", 0.2 * (1 + 0.64)),
        ("rbp(p=0.95)@3", "a x b", 0.05 * (1 + 0.9025)),
        ("rbp(p=0.8)@2", "a x b", 0.2),
        ("rbp@3", "a x b", 0.2 * (1 + 0.64)),
        ("rbp(p=0.5)@4", "x x2 x3 a", 0.5 * 0.125),
        ("rbp(p=0.5)@3", "a b c", 1 - 0.5**3),
        ("rbp(p=0.5)@9", "a b c", 1 - 0.5**3),
        ("rbp(p=0.5)@3", "x y z", 0),
    ],
)
def test_rank_biased_precision_weighs_each_relevant_rank_by_one_minus_p_times_p_to_the_rank_before(
    metric: str, ranking: str, value: float
) -> None:
    assert score(metric, ranking, "a b c") == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("metric", "ranking", "labels", "value"),
    [
        # agreement at depths 1, 2, 3 is 0/1, 2/2, 3/3; in the order of the labels 1, 1, 1
        ("rbo(p=0.9)@3", "b a c", "a b c", (0.9 + 0.81) / (1 + 0.9 + 0.81)),
        ("rbo@3", "b a c", "a b c", (0.9 + 0.81) / (1 + 0.9 + 0.81)),
        # 1/1, 1/2, 3/3
        ("rbo(p=0.9)@3", "a c b", "a b c", (1 + 0.9 / 2 + 0.81) / (1 + 0.9 + 0.81)),
        # 0/1, 1/2, 3/3
        ("rbo(p=0.5)@3", "c b a", "a b c", (0.5 / 2 + 0.25) / (1 + 0.5 + 0.25)),
        # two labels: 1/1, 1/2, 2/3 of at most 1/1, 2/2, 2/3
        ("rbo(p=0.5)@3", "a x b", "a b", (1 + 0.5 / 2 + 0.25 * 2 / 3) / (1 + 0.5 + 0.25 * 2 / 3)),
        # a ranking that ends: 1/1, 1/2, 1/3 of at most 1, 1, 1
        ("rbo(p=0.5)@3", "a", "a b c", (1 + 0.5 / 2 + 0.25 / 3) / (1 + 0.5 + 0.25)),
        # the cut falls before the overlap: 0/1, 0/2
        ("rbo(p=0.5)@2", "c d a b", "a b c d", 0),
        # 0/1, 0/2, 2/3 and then 4/4
        ("rbo(p=0.5)@4", "c d a b", "a b c d", (0.25 * 2 / 3 + 0.125) / (1 + 0.5 + 0.25 + 0.125)),
        # documents of grade 0 hold no place among the labels
        ("rbo(p=0.9)@3", "b a c", {"a": 1, "zero": 0, "b": 1, "c": 1}, (0.9 + 0.81) / (1 + 0.9 + 0.81)),
        # a relevant document that was not retrieved holds its place: 0/1, 1/2 of at most 1, 1
        ("rbo(p=0.5)@2", "b c", "a b c", (0.5 / 2) / 1.5),
        ("rbo(p=0.9)@3", "a b c x", "a b c", 1),
        ("rbo(p=0.9)@9", "a b c x y", "a b c", 1),
        ("rbo(p=0.9)@3", "x y z", "a b c", 0),
    ],
)
def test_rank_biased_overlap_with_the_order_of_the_labels(
    metric: str, ranking: str, labels: Labels, value: float
) -> None:
    assert score(metric, ranking, labels) == pytest.approx(value, rel=1e-14)


def test_the_order_of_the_labels_and_not_their_grades_is_what_rank_biased_overlap_compares_with() -> None:
    assert score("rbo@2", "a b", {"a": 1, "b": 3}) == pytest.approx(1)
    assert score("rbo@2", "b a", {"a": 1, "b": 3}) < 0.5


@pytest.mark.parametrize(
    ("metric", "ranking", "labels", "value"),
    [
        # more relevant documents than k: recall and average precision divide by all of them
        ("recall@2", "a b x", "a b c d", 2 / 4),
        ("ap@2", "a b x", "a b c d", (1 + 1) / 4),
        ("precision@2", "a b x", "a b c d", 1),
        ("f1@2", "a b x", "a b c d", 2 * 1 * 0.5 / 1.5),
        # ... and the ideal of nDCG is cut at k as well
        ("ndcg@2", "a b x", "a b c d", 1),
        ("ndcg@1", "x a", {"a": 3, "x": 1}, 1 / 3),
        # fewer hits than k: precision divides by k, the share of judged hits by the hits
        ("precision@5", "a", "a b", 1 / 5),
        ("recall@5", "a", "a b", 1 / 2),
        ("f1@5", "a", "a b", 2 * 0.2 * 0.5 / 0.7),
        ("judged@5", "a x", "a b", 1 / 2),
        ("judged@1", "x a", "a b", 0),
        ("rr@5", "a", "a b", 1),
        ("ap@5", "a", "a b", 1 / 2),
        ("ndcg@5", "a", "a b", 1 / (1 + 1 / log2(3))),
        # grade 0 is judged and not relevant
        ("precision@2", "zero a", {"zero": 0, "a": 1}, 1 / 2),
        ("recall@2", "zero a", {"zero": 0, "a": 1}, 1),
        ("rr@2", "zero a", {"zero": 0, "a": 1}, 1 / 2),
        ("dcg@2", "zero a", {"zero": 0, "a": 1}, 1 / log2(3)),
        ("judged@2", "zero x", {"zero": 0, "a": 1}, 1 / 2),
        # a negative grade is judged, not relevant, and gains nothing, neither in a ranking nor in the ideal
        ("dcg@3", "bad x a", {"bad": -2, "a": 2}, 2 / 2),
        ("ndcg@3", "bad x a", {"bad": -2, "a": 2}, 1 / 2),
        ("ndcg@3", "a bad", {"bad": -2, "a": 2}, 1),
        ("recall@3", "bad a", {"bad": -2, "a": 2}, 1),
        ("judged@3", "bad x", {"bad": -2, "a": 2}, 1 / 2),
        # unjudged documents gain nothing
        ("dcg@3", "x y a", {"a": 1}, 1 / 2),
    ],
)
def test_edges_of_the_conventions(metric: str, ranking: str, labels: Labels, value: float) -> None:
    assert score(metric, ranking, labels) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("precision@3", 1 / 3),
        ("recall@3", 1 / 2),
        ("f1@3", 2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2)),
        ("hit_rate@1", 0),
        ("rr@3", 1 / 2),
        ("ap@3", (1 / 2) / 2),
        ("rbp(p=0.5)@3", 0.25),
        ("rbo(p=0.5)@3", (0.5 / 2 + 0.25 / 3) / (1 + 0.5 + 0.25 * 2 / 3)),
        # the gain of a grade below the threshold still counts
        ("dcg@3", 1 + 3 / log2(3)),
        ("ndcg@3", (1 + 3 / log2(3)) / (3 + 2 / log2(3) + 1 / 2)),
        ("judged@3", 2 / 3),
    ],
)
def test_the_relevance_threshold_moves_the_binary_metrics_and_not_the_gains(metric: str, value: float) -> None:
    labels = {"one": 1, "three": 3, "two": 2}
    assert score(metric, "one three x", labels, threshold=2) == pytest.approx(value, rel=1e-14)


def test_chunks_of_one_document_collapsed_never_push_recall_above_one() -> None:
    owner = np.array([0, 0, 0, 1], dtype=np.int32)
    collapsed = collapse(from_rows([[0, 2, 1, 3], [3, 3, 0, 1]]), owner)
    query = Query("q", "?", (Judgment("a"),))
    graded = grade(collapsed.rankings, ["a", "b"], [query, query], depth=4)
    assert scores("recall@4", graded).tolist() == [1, 1]
    assert scores("precision@4", graded).tolist() == [1 / 4, 1 / 4]
    assert scores("rr@4", graded).tolist() == [1, 1 / 2]
    assert scores("ap@4", graded).tolist() == [1, 1 / 2]
    assert collapsed.dropped.tolist() == [2, 2]
