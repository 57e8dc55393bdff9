"""Agreement with trec_eval and with another rank-biased overlap, on random data whose scores have no ties."""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from scenarios import Scenario, scores
from strategies import falling_labels, rankings, scenarios

CUTS = (1, 2, 3, 5, 10, 20)
OURS = {
    "P": "precision",
    "recall": "recall",
    "ndcg_cut": "ndcg",
    "map_cut": "ap",
    "success": "hit_rate",
}
"""trec_eval's measures with a cutoff, and what they are called here."""


def falling_scores(ranking: tuple[str, ...]) -> dict[str, float]:
    """Scores without ties that trec_eval sorts into the order of the ranking."""
    return {doc: float(len(ranking) - place) for place, doc in enumerate(ranking)}


def assert_agrees_with_trec_eval(case: Scenario, threshold: int) -> None:
    # A query with negative grades alone crashes pytrec_eval; a document that nothing retrieves changes no measure.
    qrels = {f"q{index}": {**known, "never retrieved": 0} if known else {} for index, known in enumerate(case.labels)}
    run = {f"q{index}": falling_scores(ranking) for index, ranking in enumerate(case.rankings)}
    cuts = ",".join(str(k) for k in CUTS)
    measures = {f"{name}.{cuts}" for name in OURS} | {"recip_rank"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, measures, relevance_level=threshold).evaluate(run)
    # trec_eval says nothing of a query without judgments; here it scores 0.
    assert set(theirs) == {name for name, known in qrels.items() if known}
    graded = case.graded(depth=max(CUTS), threshold=threshold)
    assert case.longest <= max(CUTS), "trec_eval's recip_rank has no cutoff"
    pairs = [(f"{name}_{k}", f"{ours}@{k}") for name, ours in OURS.items() for k in CUTS]
    for name, ours in [*pairs, ("recip_rank", f"rr@{max(CUTS)}")]:
        expected = [theirs.get(query, {}).get(name, 0.0) for query in qrels]
        np.testing.assert_allclose(scores(ours, graded), expected, rtol=0, atol=1e-12, err_msg=ours)


@given(scenarios(grades=st.integers(0, 4), least_queries=1))
def test_metrics_agree_with_trec_eval_on_grades_from_zero(case: Scenario) -> None:
    assert_agrees_with_trec_eval(case, threshold=1)


@given(scenarios(grades=st.integers(-3, 3), least_queries=1))
def test_metrics_agree_with_trec_eval_on_negative_grades(case: Scenario) -> None:
    assert_agrees_with_trec_eval(case, threshold=1)


@given(scenarios(grades=st.integers(-1, 4), least_queries=1), st.integers(2, 4))
def test_metrics_agree_with_trec_eval_at_a_higher_relevance_threshold(case: Scenario, threshold: int) -> None:
    assert_agrees_with_trec_eval(case, threshold)


@given(scenarios(grades=st.integers(-2, 0), least_queries=1))
def test_metrics_agree_with_trec_eval_where_no_query_has_a_relevant_document(case: Scenario) -> None:
    assert_agrees_with_trec_eval(case, threshold=1)


@pytest.mark.parametrize("threshold", [1, 2])
def test_metrics_agree_with_trec_eval_on_many_queries_at_once(threshold: int) -> None:
    """Some rankings are empty, some queries have no judgments, some only grades of 0 and below."""
    rng = np.random.default_rng(20)
    documents = np.array([f"doc-{number}" for number in range(60)])
    queries = 400
    ranked = [tuple(rng.permutation(documents)[: rng.integers(0, 21)].tolist()) for _ in range(queries)]
    known = [dict.fromkeys(rng.permutation(documents)[: rng.integers(0, 30)].tolist(), 0) for _ in range(queries)]
    for judged in known:
        highest = rng.integers(0, 5)
        judged.update({doc: int(rng.integers(-1, highest + 1)) for doc in judged})
    case = Scenario(tuple(ranked), tuple(known), (False,) * queries)
    graded = case.graded(threshold=threshold)
    assert {0, 20} <= set(graded.lengths.tolist())
    assert (graded.relevant_counts == 0).sum() > 20
    assert_agrees_with_trec_eval(case, threshold)


def compatibility(ranking: tuple[str, ...], known: dict[str, int], p: float) -> float:
    """Clarke, Vtyurina & Smucker's compatibility: rank-biased overlap with the order of the grades, normalised."""
    measure = ir_measures.Compat(p=p)
    (value,) = ir_measures.iter_calc([measure], {"q": known}, {"q": falling_scores(ranking)})
    return float(value.value)


@given(ranking=rankings(), known=falling_labels(), p=st.sampled_from((0.5, 0.8, 0.9, 0.95)))
def test_rank_biased_overlap_agrees_with_compatibility(
    ranking: tuple[str, ...], known: dict[str, int], p: float
) -> None:
    relevant = sum(value > 0 for value in known.values())
    k = max(len(ranking), relevant)  # the depth to which compatibility looks
    (value,) = scores(f"rbo(p={p})@{k}", Scenario((ranking,), (known,), (True,)).graded())
    assert value == pytest.approx(compatibility(ranking, known, p), abs=1e-12)


def test_rank_biased_overlap_agrees_with_compatibility_over_a_thousand_hits() -> None:
    rng = np.random.default_rng(5)
    names = [f"doc-{number}" for number in range(1500)]
    ranked, known = [], []
    for _ in range(10):
        ranked.append(tuple(rng.permutation(names)[:1000].tolist()))
        order = rng.permutation(names)[: rng.integers(1, 400)].tolist()
        known.append({doc: len(order) - place for place, doc in enumerate(order)})
    graded = Scenario(tuple(ranked), tuple(known), (True,) * 10).graded(depth=1000)
    expected = [compatibility(ranking, labels, 0.9) for ranking, labels in zip(ranked, known, strict=True)]
    np.testing.assert_allclose(scores("rbo(p=0.9)@1000", graded), expected, rtol=0, atol=1e-12)
