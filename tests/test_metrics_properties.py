"""What holds for every ranking and every set of labels, metric by metric."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrial.grading import GradedRankings
from ragtrial.metrics import METRICS
from scenarios import Scenario, example, scenario, scores
from strategies import cutoffs, labels_with_a_relevant_one, promotions, rankings, scenarios

BINARY = [name for name, definition in METRICS.members() if definition.needs != "gain"]
"""Metrics that know relevant from not relevant and nothing finer."""

TINY = 1e-12


one_query = scenarios(least_queries=1, most_queries=1)


def assert_equal_scores(names: list[str], k: int, one: GradedRankings, other: GradedRankings) -> None:
    for name in names:
        metric = example(name, k)
        np.testing.assert_array_equal(scores(metric, one), scores(metric, other), err_msg=str(metric))


@given(case=scenarios(), k=cutoffs)
def test_a_larger_k_never_lowers_what_accumulates(case: Scenario, k: int) -> None:
    graded = case.graded()
    for name in ("recall", "hit_rate", "rr", "ap", "rbp(p=0.8)", "dcg"):
        assert (scores(f"{name}@{k + 1}", graded) >= scores(f"{name}@{k}", graded) - TINY).all(), name


@given(case=scenarios(), k=cutoffs)
def test_precision_counts_the_same_hits_as_recall(case: Scenario, k: int) -> None:
    graded = case.graded()
    found = scores(f"recall@{k}", graded) * graded.relevant_counts
    np.testing.assert_allclose(scores(f"precision@{k}", graded) * k, found, rtol=0, atol=TINY)
    assert (found <= np.minimum(k, graded.relevant_counts) + TINY).all()


@given(case=scenarios(), k=cutoffs)
def test_f1_lies_between_precision_and_recall_and_is_zero_with_them(case: Scenario, k: int) -> None:
    graded = case.graded()
    precision, recall, f1 = (scores(f"{name}@{k}", graded) for name in ("precision", "recall", "f1"))
    assert (f1 >= np.minimum(precision, recall) - TINY).all()
    assert (f1 <= np.maximum(precision, recall) + TINY).all()
    assert ((f1 == 0) == (recall == 0)).all()


@given(case=scenarios(), k=cutoffs)
def test_hit_rate_says_whether_anything_relevant_was_found(case: Scenario, k: int) -> None:
    graded = case.graded()
    hit_rate = scores(f"hit_rate@{k}", graded)
    for name in ("precision", "recall", "f1", "rr", "ap", "rbp(p=0.8)"):
        assert ((scores(f"{name}@{k}", graded) > 0) == (hit_rate == 1)).all(), name
    assert np.isin(hit_rate, (0, 1)).all()


@given(case=scenarios(), k=cutoffs)
def test_a_reciprocal_rank_is_one_over_a_rank_within_k_at_which_precision_first_rises(case: Scenario, k: int) -> None:
    graded = case.graded()
    for index, value in enumerate(scores(f"rr@{k}", graded)):
        at = [float(scores(f"precision@{rank}", graded)[index]) for rank in range(1, k + 1)]
        assert value == next((precision for precision in at if precision > 0), 0)


@given(data=st.data(), case=one_query, k=st.integers(1, 12))
def test_the_order_among_the_first_k_does_not_matter_to_order_unaware_metrics_and_judged(
    data: st.DataObject, case: Scenario, k: int
) -> None:
    (ranking,) = case.rankings
    shuffled = replace(case, rankings=((*data.draw(st.permutations(ranking[:k])), *ranking[k:]),))
    unaware = [name for name, definition in METRICS.members() if definition.family == "order_unaware"]
    assert_equal_scores([*unaware, "judged"], k, shuffled.graded(), case.graded())


@given(promotion=promotions(), k=cutoffs)
def test_moving_a_better_document_up_past_a_worse_one_never_lowers_a_score(
    promotion: tuple[Scenario, Scenario], k: int
) -> None:
    before, after = (case.graded() for case in promotion)
    for name in ("rr", "ap", "rbp(p=0.8)", "dcg", "ndcg", "precision", "recall", "hit_rate", "f1"):
        assert (scores(f"{name}@{k}", after) >= scores(f"{name}@{k}", before) - TINY).all(), name


@given(case=scenarios(), k=cutoffs, grade=st.integers(-3, 0))
def test_a_hit_judged_not_relevant_scores_as_an_unjudged_one(case: Scenario, k: int, grade: int) -> None:
    judged = replace(
        case,
        labels=tuple(
            dict(known) | {doc: grade for doc in ranking if doc not in known}
            for ranking, known in zip(case.rankings, case.labels, strict=True)
        ),
    )
    of_judgments = ("judged", "unjudged", "rbp_residual", "bpref", "infap")
    others = [name for name in METRICS.names() if name not in of_judgments]
    assert_equal_scores(others, k, judged.graded(), case.graded())


@given(case=scenarios(), k=st.integers(1, 10))
def test_what_stands_below_k_or_is_kept_below_k_changes_nothing(case: Scenario, k: int) -> None:
    cut = replace(case, rankings=tuple(ranking[:k] for ranking in case.rankings))
    names = [name for name, definition in METRICS.members() if definition.cut != "none"]
    assert_equal_scores(names, k, case.graded(depth=k), case.graded(depth=20))
    assert_equal_scores(names, k, cut.graded(depth=20), case.graded(depth=20))


@given(case=scenarios(), k=cutoffs, threshold=st.integers(1, 4))
def test_a_threshold_is_the_same_as_labels_reduced_to_relevant_and_not(case: Scenario, k: int, threshold: int) -> None:
    reduced = replace(
        case, labels=tuple({doc: int(value >= threshold) for doc, value in known.items()} for known in case.labels)
    )
    binary = [name for name in BINARY if name != "infap"]  # to which a negative grade is no grade
    assert_equal_scores(binary, k, case.graded(threshold=threshold), reduced.graded())


@given(case=scenarios(), k=cutoffs, threshold=st.integers(-1, 5))
def test_the_threshold_plays_no_part_in_graded_metrics(case: Scenario, k: int, threshold: int) -> None:
    assert_equal_scores(
        ["dcg", "ndcg", "err", "judged", "unjudged"], k, case.graded(threshold=threshold), case.graded()
    )


@given(case=scenarios(), k=cutoffs)
def test_gains_are_linear_in_the_grades(case: Scenario, k: int) -> None:
    tripled = replace(case, labels=tuple({doc: 3 * value for doc, value in known.items()} for known in case.labels))
    dcg, ndcg = f"dcg@{k}", f"ndcg@{k}"
    np.testing.assert_allclose(scores(dcg, tripled.graded()), 3 * scores(dcg, case.graded()), rtol=1e-12)
    np.testing.assert_allclose(scores(ndcg, tripled.graded()), scores(ndcg, case.graded()), rtol=1e-12)


@given(known=labels_with_a_relevant_one(), k=cutoffs, tail=rankings())
def test_the_order_of_the_grades_has_an_ndcg_of_one_and_every_other_order_no_more(
    known: dict[str, int], k: int, tail: tuple[str, ...]
) -> None:
    best = sorted(known, key=lambda doc: -known[doc])
    ideal = scenario((" ".join(best), known), (" ".join(dict.fromkeys((*tail, *best))), known)).graded()
    of_best, of_other = scores(f"ndcg@{k}", ideal)
    assert of_best == pytest.approx(1, abs=TINY)
    assert of_other <= 1


@given(known=labels_with_a_relevant_one(), k=cutoffs, tail=rankings())
def test_relevant_documents_first_are_the_best_there_is(known: dict[str, int], k: int, tail: tuple[str, ...]) -> None:
    relevant = [doc for doc, value in known.items() if value >= 1]
    ranking = " ".join(dict.fromkeys((*relevant, *tail)))
    graded = scenario((ranking, known)).graded()
    reachable = min(k, len(relevant))
    expected = {
        "precision": reachable / k,
        "recall": reachable / len(relevant),
        "f1": 2 * reachable / (k + len(relevant)),
        "hit_rate": 1,
        "rr": 1,
        "ap": reachable / len(relevant),
        "rbp(p=0.8)": 1 - 0.8**reachable,
        "rbo(p=0.9)": 1,
    }
    for name, value in expected.items():
        assert scores(f"{name}@{k}", graded) == pytest.approx([value], abs=TINY), name


@given(case=one_query, k=cutoffs, p=st.floats(0.01, 0.99))
def test_the_weights_of_rank_biased_precision_sum_to_one_less_the_weight_beyond_k(
    case: Scenario, k: int, p: float
) -> None:
    """A ranking and the same one with every label turned round share out all the weight there is."""
    (ranking,), (grades,) = case.rankings, case.labels
    turned = replace(case, labels=({doc: int(grades.get(doc, 0) < 1) for doc in ranking},))
    metric = f"rbp(p={p})@{k}"
    both = scores(metric, case.graded()) + scores(metric, turned.graded())
    assert both == pytest.approx([1 - p ** min(k, len(ranking))], abs=TINY)


@given(case=scenarios(), k=cutoffs)
def test_a_reader_of_no_patience_reads_only_the_first_hit(case: Scenario, k: int) -> None:
    graded = case.graded()
    first = scores("precision@1", graded)
    np.testing.assert_allclose(scores(f"rbp(p=1e-9)@{k}", graded), first, atol=1e-8)


@given(names=rankings(least=2), k=cutoffs)
def test_each_swap_that_carries_the_first_label_down_lowers_rank_biased_overlap_or_leaves_it(
    names: tuple[str, ...], k: int
) -> None:
    orders = [(*names[1 : place + 1], names[0], *names[place + 1 :]) for place in range(len(names))]
    known = dict.fromkeys(names, 1)
    values = scores(f"rbo@{k}", scenario(*((" ".join(order), known) for order in orders)).graded())
    assert values[0] == pytest.approx(1, abs=TINY)
    assert (np.diff(values) <= TINY).all()
    assert values[1] < 0.99


@given(case=scenarios(), k=cutoffs)
def test_each_share_of_judged_hits_is_a_count_over_the_hits_there_are(case: Scenario, k: int) -> None:
    values = scores(f"judged@{k}", case.graded())
    for value, ranking, known in zip(values, case.rankings, case.labels, strict=True):
        first = ranking[:k]
        assert value == (len(known.keys() & set(first)) / len(first) if first else 0)
