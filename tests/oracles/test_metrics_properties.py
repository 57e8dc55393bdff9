"""What holds for every ranking and every set of labels, metric by metric."""

from dataclasses import replace

import numpy as np
from hypothesis import given, strategies as st

from ragtrial.evaluation.grading import GradedRankings
from ragtrial.evaluation.metrics import METRICS, Metric
from scenarios import OF_DOCUMENTS, Scenario, example, scores
from strategies import DOCUMENTS, cutoffs, one_of_each_metric, promotions, scenarios

one_query = scenarios(least_queries=1, most_queries=1)


def assert_equal_scores(names: list[str], k: int, one: GradedRankings, other: GradedRankings) -> None:
    for name in names:
        metric = example(name, k)
        np.testing.assert_array_equal(scores(metric, one), scores(metric, other), err_msg=str(metric))


@given(data=st.data(), case=one_query, k=st.integers(1, 12))
def test_the_order_among_the_first_k_is_nothing_to_unaware_ones(data: st.DataObject, case: Scenario, k: int) -> None:
    (ranking,) = case.rankings
    shuffled = replace(case, rankings=((*data.draw(st.permutations(ranking[:k])), *ranking[k:]),))
    unaware = [name for name in OF_DOCUMENTS if METRICS[name].family == "order_unaware"]
    assert_equal_scores([*unaware, "judged"], k, shuffled.graded(), case.graded())


@given(promotion=promotions(), k=cutoffs)
def test_moving_a_better_document_up_never_lowers_a_score(promotion: tuple[Scenario, Scenario], k: int) -> None:
    before, after = (case.graded() for case in promotion)
    cut = ("rr", "ap", "capped_ap", "rbp(p=0.8)", "dcg", "ndcg", "ndcg(gain=exp)", "err", "capped_recall", "precision",
           "recall", "hit_rate", "f1")  # fmt: skip
    for name in ("bpref", "r_precision", *(f"{name}@{k}" for name in cut)):
        assert (scores(name, after) >= scores(name, before) - 1e-12).all(), name


@given(case=scenarios(), k=cutoffs, grade=st.integers(-3, 0))
def test_a_hit_judged_not_relevant_scores_as_an_unjudged_one(case: Scenario, k: int, grade: int) -> None:
    judged = replace(
        case,
        labels=tuple(
            dict(known) | {doc: grade for doc in ranking if doc not in known}
            for ranking, known in zip(case.rankings, case.labels, strict=True)
        ),
    )
    of_judgments = ("forbidden", "judged", "unjudged", "rbp_residual", "bpref", "infap")
    others = [name for name in OF_DOCUMENTS if name not in of_judgments]
    assert_equal_scores(others, k, judged.graded(), case.graded())


@given(case=scenarios(), k=st.integers(1, 10))
def test_what_stands_below_k_or_is_kept_below_k_changes_nothing(case: Scenario, k: int) -> None:
    cut = replace(case, rankings=tuple(ranking[:k] for ranking in case.rankings))
    names = [name for name in OF_DOCUMENTS if METRICS[name].cut != "none"]
    assert_equal_scores(names, k, case.graded(depth=k), case.graded(depth=20))
    assert_equal_scores(names, k, cut.graded(depth=20), case.graded(depth=20))


@given(case=scenarios(), k=cutoffs, threshold=st.integers(-1, 5))
def test_the_threshold_plays_no_part_in_graded_metrics(case: Scenario, k: int, threshold: int) -> None:
    graded_metrics = ["dcg", "ndcg", "err", "judged", "unjudged"]
    assert_equal_scores(graded_metrics, k, case.graded(threshold=threshold), case.graded())


@given(metrics=one_of_each_metric(), case=scenarios(), data=st.data())
def test_what_documents_are_called_changes_nothing(metrics: list[Metric], case: Scenario, data: st.DataObject) -> None:
    called = dict(zip(DOCUMENTS, data.draw(st.permutations(DOCUMENTS)), strict=True))
    renamed = Scenario(
        tuple(tuple(called[doc] for doc in ranking) for ranking in case.rankings),
        tuple({called.get(doc, doc): value for doc, value in known.items()} for known in case.labels),
        case.ordered,
    )
    for metric in metrics:
        found, expected = scores(metric, renamed.graded()), scores(metric, case.graded())
        np.testing.assert_array_equal(found, expected, err_msg=str(metric))


@given(case=scenarios(), p=st.floats(0.05, 0.95), k=cutoffs)
def test_the_residual_is_what_rbp_would_gain_if_all_unknown_were_relevant(case: Scenario, p: float, k: int) -> None:
    """Every ranking goes on for ever with documents that nobody judged: 300 of them here, whose tail is nothing."""
    endless = [f"unknown-{number}" for number in range(300)]
    rankings = tuple((*ranking[:k], *endless) for ranking in case.rankings)
    pairs = zip(rankings, case.labels, strict=True)
    relevant = tuple({**dict.fromkeys(ranking, 1), **known} for ranking, known in pairs)
    best = scores(f"rbp(p={p})", replace(case, rankings=rankings, labels=relevant).graded(depth=400))
    known = scores(f"rbp(p={p})@{k}", case.graded()) + scores(f"rbp_residual(p={p})@{k}", case.graded())
    np.testing.assert_allclose(known, best, rtol=0, atol=1e-6)
