"""Every measure that trec_eval and ragtrial both have is the same number, in trec_eval's order of equal scores."""

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, strategies as st

from ragtrial.evaluation.metrics import parse_metric
from scenarios import scores
from trec_scenarios import Labels, Scored, graded_as_trec_eval_does, tied_runs

CUTS = (1, 2, 3, 5, 7, 10, 20)
CUT = ("P", "recall", "ndcg_cut", "map_cut", "success", "relative_P")
UNCUT = ("map", "ndcg", "recip_rank", "Rprec", "bpref", "infAP")
GAINS = {"ndcg.1=3,2=9,4=4": {1: 3, 2: 9}, "ndcg.1=0,3=7": {1: 0, 3: 7}, "ndcg.0=1,2=5": {0: 1, 2: 5}}


def of_trec_eval(qrels: Labels, run: Scored, measures: set[str], threshold: int) -> dict[str, dict[str, float]]:
    return dict(pytrec_eval.RelevanceEvaluator(qrels, measures, relevance_level=threshold).evaluate(run))


def assert_agrees(qrels: Labels, run: Scored, threshold: int = 1) -> None:
    """Each of trec_eval's names, as it is, read as a metric of ours; a topic it says nothing of is 0 here."""
    cuts = ",".join(map(str, CUTS))
    measures = {f"{name}.{cuts}" for name in CUT} | set(UNCUT)
    theirs = of_trec_eval(qrels, run, measures, threshold)
    assert set(theirs) == qrels.keys() & run.keys()
    graded = graded_as_trec_eval_does(qrels, run, threshold)
    for name in [*(f"{name}_{k}" for name in CUT for k in CUTS), *UNCUT]:
        expected = [theirs[query][name] if query in theirs else 0.0 for query in qrels]
        np.testing.assert_allclose(scores(parse_metric(name), graded), expected, rtol=0, atol=1e-9, err_msg=name)


@given(tied_runs(), st.integers(1, 4))
def test_every_measure_agrees_with_ties_missing_topics_and_negative_grades(
    case: tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]], threshold: int
) -> None:
    assert_agrees(*case, threshold)


@pytest.mark.parametrize("measure", GAINS)
@given(case=tied_runs())
def test_gains_given_for_grades_agree_with_labels_that_have_these_gains_as_grades(
    measure: str, case: tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]
) -> None:
    """pytrec_eval crashes on gains of its own."""
    qrels, run = case
    gains = GAINS[measure]
    relabelled = {
        query: {doc: gains.get(value, value) for doc, value in known.items()} for query, known in qrels.items()
    }
    theirs = of_trec_eval(relabelled, run, {"ndcg", "ndcg_cut.3"}, 1)
    whole = parse_metric(measure)
    graded = graded_as_trec_eval_does(qrels, run)
    for ours, name in ((whole, "ndcg"), (whole.at(3), "ndcg_cut_3")):
        expected = [theirs[query][name] if query in theirs else 0.0 for query in qrels]
        np.testing.assert_allclose(scores(ours, graded), expected, rtol=0, atol=1e-9)


def test_measures_agree_on_long_rankings_of_many_topics() -> None:
    rng = np.random.default_rng(8)
    names = [f"doc-{number}" for number in range(400)]
    qrels, run = {}, {}
    for topic in range(60):
        judged = rng.permutation(names)[: rng.integers(1, 200)].tolist()
        qrels[str(topic)] = {doc: int(rng.integers(-1, 4)) for doc in judged} | {"never retrieved": 0}
        found = rng.permutation(names)[: rng.integers(1, 400)].tolist()
        run[str(topic)] = {doc: float(rng.integers(0, 60)) / 8 for doc in found}
    for threshold in (1, 2):
        assert_agrees(qrels, run, threshold)
