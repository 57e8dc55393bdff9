"""What holds for every ranking and every set of labels, metric by metric."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrial.evaluation.grading import GradedRankings
from ragtrial.evaluation.metrics import METRICS, Metric
from scenarios import OF_DOCUMENTS, Scenario, example, scenario, scores
from strategies import (
    DOCUMENTS,
    cutoffs,
    labels_with_a_relevant_one,
    one_of_each_metric,
    promotions,
    rankings,
    scenarios,
)

BINARY = [name for name in OF_DOCUMENTS if METRICS[name].needs != "gain"]
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
    unaware = [name for name in OF_DOCUMENTS if METRICS[name].family == "order_unaware"]
    assert_equal_scores([*unaware, "judged"], k, shuffled.graded(), case.graded())


@given(promotion=promotions(), k=cutoffs)
def test_moving_a_better_document_up_past_a_worse_one_never_lowers_a_score(
    promotion: tuple[Scenario, Scenario], k: int
) -> None:
    before, after = (case.graded() for case in promotion)
    for name in ("rr", "ap", "capped_ap", "rbp(p=0.8)", "dcg", "ndcg", "ndcg(gain=exp)", "err", "capped_recall"):
        assert (scores(f"{name}@{k}", after) >= scores(f"{name}@{k}", before) - TINY).all(), name
    for name in ("bpref", "r_precision", "iprec(recall=0.4)", "iprec_11pt", "set_f"):
        assert (scores(name, after) >= scores(name, before) - TINY).all(), name
    for name in ("precision", "recall", "hit_rate", "f1"):
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
    others = [name for name in OF_DOCUMENTS if name not in of_judgments]
    assert_equal_scores(others, k, judged.graded(), case.graded())


@given(case=scenarios(), k=st.integers(1, 10))
def test_what_stands_below_k_or_is_kept_below_k_changes_nothing(case: Scenario, k: int) -> None:
    cut = replace(case, rankings=tuple(ranking[:k] for ranking in case.rankings))
    names = [name for name in OF_DOCUMENTS if METRICS[name].cut != "none"]
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


# What whole metrics have in common, and what the ones beside one another say of each other.


@given(metrics=one_of_each_metric(), case=scenarios(), data=st.data())
def test_what_documents_are_called_changes_nothing(metrics: list[Metric], case: Scenario, data: st.DataObject) -> None:
    called = dict(zip(DOCUMENTS, data.draw(st.permutations(DOCUMENTS)), strict=True))
    renamed = Scenario(
        tuple(tuple(called[doc] for doc in ranking) for ranking in case.rankings),
        tuple({called.get(doc, doc): value for doc, value in known.items()} for known in case.labels),
        case.ordered,
    )
    for metric in metrics:
        np.testing.assert_array_equal(
            scores(metric, renamed.graded()), scores(metric, case.graded()), err_msg=str(metric)
        )


@given(metrics=one_of_each_metric(), case=scenarios())
def test_a_cutoff_beyond_all_hits_and_labels_is_none(metrics: list[Metric], case: Scenario) -> None:
    for metric in metrics:
        if metric.definition.cut == "optional":
            np.testing.assert_array_equal(
                scores(metric.at(20), case.graded()), scores(metric.at(None), case.graded()), err_msg=str(metric)
            )


@given(metrics=one_of_each_metric(), case=scenarios(), threshold=st.integers(1, 5))
def test_a_threshold_of_the_metric_stands_before_that_of_the_rankings(
    metrics: list[Metric], case: Scenario, threshold: int
) -> None:
    for metric in metrics:
        if "rel" in metric.definition.parameters:
            given = dict(metric.parameters)
            own = Metric(metric.name, metric.k, tuple({**given, "rel": threshold}.items()))
            without = Metric(metric.name, metric.k, tuple(pair for pair in metric.parameters if pair[0] != "rel"))
            expected = scores(without, case.graded(threshold=threshold))
            np.testing.assert_array_equal(scores(own, case.graded()), expected, err_msg=str(own))


@given(metrics=one_of_each_metric(), case=scenarios())
def test_judged_only_is_the_ranking_without_what_nobody_judged(metrics: list[Metric], case: Scenario) -> None:
    judged = tuple(
        tuple(doc for doc in ranking if doc in known) for ranking, known in zip(case.rankings, case.labels, strict=True)
    )
    condensed = replace(case, rankings=judged).graded()
    for metric in metrics:
        if "judged_only" in metric.definition.parameters:
            given = {key: value for key, value in metric.parameters if key != "judged_only"}
            only = Metric(metric.name, metric.k, tuple({**given, "judged_only": True}.items()), metric.gains)
            plain = Metric(metric.name, metric.k, tuple(given.items()), metric.gains)
            np.testing.assert_array_equal(scores(only, case.graded()), scores(plain, condensed), err_msg=str(only))


@given(case=scenarios(), p=st.floats(0.05, 0.95), k=cutoffs)
def test_the_residual_is_what_rank_biased_precision_would_gain_if_all_that_is_unknown_were_relevant(
    case: Scenario, p: float, k: int
) -> None:
    """Every ranking goes on for ever with documents that nobody judged: 300 of them here, whose tail is nothing."""
    endless = [f"unknown-{number}" for number in range(300)]
    rankings = tuple((*ranking[:k], *endless) for ranking in case.rankings)
    relevant = tuple(
        {**dict.fromkeys(ranking, 1), **known} for ranking, known in zip(rankings, case.labels, strict=True)
    )
    best = scores(f"rbp(p={p})", replace(case, rankings=rankings, labels=relevant).graded(depth=400))
    known = scores(f"rbp(p={p})@{k}", case.graded()) + scores(f"rbp_residual(p={p})@{k}", case.graded())
    np.testing.assert_allclose(known, best, rtol=0, atol=1e-6)


@given(case=scenarios(), k=cutoffs)
def test_caps_only_ever_raise_and_shares_of_judged_and_unjudged_hits_make_a_whole(case: Scenario, k: int) -> None:
    graded = case.graded()
    of = {
        name: scores(f"{name}@{k}", graded)
        for name in ("precision", "recall", "ap", "capped_recall", "capped_ap", "judged", "unjudged")
    }
    assert (of["capped_recall"] == np.maximum(of["precision"], of["recall"])).all()
    assert (of["capped_ap"] >= of["ap"]).all()
    assert (of["capped_ap"] <= of["capped_recall"] + TINY).all()
    full = graded.lengths >= k
    np.testing.assert_allclose((of["judged"] + of["unjudged"])[full], 1, rtol=0, atol=TINY)


@given(case=scenarios(), lower=st.floats(0, 1), upper=st.floats(0, 1))
def test_more_recall_is_never_had_with_more_precision(case: Scenario, lower: float, upper: float) -> None:
    lower, upper = sorted((lower, upper))
    graded = case.graded()
    of_less, of_more = (scores(f"iprec(recall={recall!r})", graded) for recall in (lower, upper))
    assert (of_less >= of_more).all()
    assert (scores("iprec(recall=0)", graded) >= scores("r_precision", graded)).all()
    assert (scores("iprec(recall=1)", graded) <= scores("iprec_11pt", graded) + TINY).all()


@given(case=scenarios())
def test_set_metrics_are_ratios_of_the_counts(case: Scenario) -> None:
    graded = case.graded()
    hits, relevant, found = (scores(name, graded) for name in ("num_ret", "num_rel", "num_rel_ret"))
    assert hits.tolist() == [len(ranking) for ranking in case.rankings]
    precision, recall = scores("set_precision", graded), scores("set_recall", graded)
    np.testing.assert_allclose(precision * hits, found, rtol=0, atol=TINY)
    np.testing.assert_allclose(recall * relevant, found, rtol=0, atol=TINY)
    f = scores("set_f", graded)
    np.testing.assert_allclose(f * (precision + recall), 2 * precision * recall, rtol=0, atol=TINY)
    np.testing.assert_allclose(scores("set_f(beta=1e-6)", graded), np.where(f > 0, precision, 0), atol=1e-9)
    np.testing.assert_allclose(scores("set_f(beta=999)", graded), np.where(f > 0, recall, 0), atol=1e-4)


@given(case=scenarios(), place=st.integers(0, 12))
def test_a_hit_that_nobody_judged_changes_no_binary_preference(case: Scenario, place: int) -> None:
    more = replace(case, rankings=tuple((*ranking[:place], "nobody's", *ranking[place:]) for ranking in case.rankings))
    np.testing.assert_array_equal(scores("bpref", more.graded()), scores("bpref", case.graded()))


@given(case=scenarios(grades=st.integers(0, 4)))
def test_inferred_average_precision_is_average_precision_where_everything_is_judged(case: Scenario) -> None:
    judged = replace(
        case,
        labels=tuple(
            {**dict.fromkeys(ranking, 0), **known} for ranking, known in zip(case.rankings, case.labels, strict=True)
        ),
    )
    np.testing.assert_allclose(scores("infap", judged.graded()), scores("ap", judged.graded()), rtol=0, atol=1e-4)


@given(case=scenarios(), k=cutoffs)
def test_an_expected_reciprocal_rank_of_full_content_is_a_reciprocal_rank(case: Scenario, k: int) -> None:
    """With all relevant documents at the top of a long scale, nobody reads beyond the first one."""
    top = replace(
        case, labels=tuple({doc: 60 if value > 0 else 0 for doc, value in known.items()} for known in case.labels)
    )
    err, rr = scores(f"err(max=60)@{k}", top.graded()), scores(f"rr@{k}", top.graded())
    np.testing.assert_allclose(err, rr, rtol=0, atol=1e-12)
