"""Where another tool gives another number, ours is the one that docs/other-tools.md says, and theirs is as it says.

Each situation of that table is in NUMBERS here, or the docstring of a test, as it stands there.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, strategies as st

from experiments import write_experiment
from ragtrial.errors import MetricError
from ragtrial.evaluation.evaluators import evaluate
from ragtrial.evaluation.grading import grade
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.experiment import run_experiment
from ragtrial.rankings import collapse, from_rows
from ragtrial.records import Judgment, Mean, Query
from report_hits import hits_of
from scenarios import Scenario, scenario, scores
from strategies import falling_labels, rankings, scenarios
from trec_scenarios import Labels, Scored, as_dicts, graded_as_trec_eval_does

DOCUMENT = Path(__file__).parents[2] / "docs" / "other-tools.md"
LINES = re.findall(r"^\| (?!situation)([^|]+?) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)

needs_perl = pytest.mark.skipif(shutil.which("perl") is None, reason="ir_measures runs a Perl script for this")


def ours(metric: str, qrels: Labels, run: Scored) -> list[float]:
    return [float(value) for value in scores(metric, graded_as_trec_eval_does(qrels, run))]


def mean_here(metric: str, qrels: Labels, run: Scored) -> Mean:
    parsed = parse_metric(metric)
    (found,) = evaluate([parsed], graded_as_trec_eval_does(qrels, run)).values()
    return found.mean


def of_pytrec_eval(measure: str, qrels: Labels, run: Scored) -> dict[str, float]:
    found = pytrec_eval.RelevanceEvaluator(qrels, {measure}).evaluate(run)
    return {query: next(iter(values.values())) for query, values in found.items()}


def of_ir_measures(measure: Any, qrels: Labels, run: Scored) -> list[float]:
    by_query = {one.query_id: one.value for one in ir_measures.iter_calc([measure], qrels, run)}
    return [float(by_query[query]) for query in qrels]


def test_every_line_of_the_table_has_a_test() -> None:
    here = [member for name, member in globals().items() if name.startswith("test_") and callable(member)]
    told = {*NUMBERS, *((member.__doc__ or "").strip() for member in here)}
    assert len(LINES) > 15
    assert set(LINES) - told == set()


NUMBERS: dict[str, tuple[Labels, Scored, dict[str, float], dict[str, float]]] = {
    "scores that differ beyond six digits": (
        {"q": {"b": 1}}, {"q": {"a": 0.123456789, "b": 0.123456788}}, {"rr": 0.5}, {"recip_rank": 1.0}),
    "RR with a cutoff, recip_rank_10": (
        {"q": {"z": 1}}, {"q": {f"d{rank:02}": 50.0 - rank for rank in range(20)} | {"z": 1.0}}, {"rr@10": 0},
        {"recip_rank_10": 1 / 21}),
    "ndcg of a run that was cut at 1, R = 3": (
        {"q": {"a": 1, "b": 1, "c": 1}}, {"q": {"a": 1.0}}, {"ndcg@1": 1.0, "ndcg": 1 / (1 + 1 / np.log2(3) + 1 / 2)},
        {"ndcg": 1 / (1 + 1 / np.log2(3) + 1 / 2)}),
    "bpref where no judged document is non-relevant": (
        {"q": {"a": 1, "b": 1}}, {"q": {"x": 2.0, "a": 1.0}}, {"bpref": 0.5}, {"bpref": 0.5}),
    "RBP of graded judgments": (
        {"q": dict.fromkeys("abc", 3)}, {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}, {"rbp(p=0.95)": 1 - 0.95**3}, {}),
    "the residual of RBP with every hit judged": (
        {"q": {"a": 1, "b": 0}}, {"q": {"a": 2.0, "b": 1.0}}, {"rbp_residual(p=0.9)": 0.81}, {}),
    "infAP of a perfect ranking of two": (
        {"q": {"a": 1, "b": 1}}, {"q": {"a": 2.0, "b": 1.0}}, {"infAP": 0.9999975}, {"infAP": 0.9999975}),
    "gains for grades that differ by less than 1": (
        {"q": {"a": 1, "b": 2, "c": 3}}, {"q": {"b": 3.0, "a": 2.0, "c": 1.0}}, {"ndcg.1=0.6,2=0.9,3=0.2": 1.0}, {}),
}  # fmt: skip
"""By situation: labels, a run, our metrics and those of pytrec_eval."""


@pytest.mark.parametrize(("qrels", "run", "own", "theirs"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_are_those_of_the_table(
    qrels: Labels, run: Scored, own: dict[str, float], theirs: dict[str, float]
) -> None:
    assert {metric: ours(metric, qrels, run)[0] for metric in own} == pytest.approx(own, abs=5e-10)
    found = {measure: of_pytrec_eval(measure, qrels, run)["q"] for measure in theirs}
    assert found == pytest.approx(theirs, abs=5e-10)


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("recip_rank_10", "recip_rank has no cutoff; write rr@10."), ("ndcg(rel=2)@10", "ndcg has no parameter 'rel'"),
        ("rbp.95", "may mean p or k"), ("P.0", "k is '0'; it must be a whole number from 1 to 1,000,000."),
        ("Hole@1", "is the name of another number: BEIR counts hits judged for no"),
    ],
)  # fmt: skip
def test_what_other_tools_mean_otherwise_is_refused(spelling: str, message: str) -> None:
    with pytest.raises(MetricError, match=re.escape(message)):
        parse_metric(spelling)


def test_scores_that_are_equal_have_one_order_for_all_metrics() -> None:
    """equal scores, RR and RR@10 of one run"""
    qrels, run = {"q": {"d1": 0, "d3": 3}}, {"q": {"d1": 1.0, "d3": 1.0}}
    assert of_ir_measures(ir_measures.RR, qrels, run) == [1.0]
    assert of_ir_measures(ir_measures.RR @ 10, qrels, run) == [0.5]
    assert ours("rr", qrels, run) == ours("rr@10", qrels, run) == [1.0]


@pytest.mark.parametrize(("ties", "rank"), [("first", 2), ("trec", 1)])
def test_equal_scores_of_a_run_go_by_id_from_either_end(ties: str, rank: int, tmp_path: Path) -> None:
    """equal scores of documents in `run`"""
    documents = {"a.txt": "hot bread", "b.txt": "hot bread", "c.txt": "cold tea"}
    queries = [{"id": "q", "text": "bread", "relevant_docs": [{"doc": "b.txt"}]}]
    experiment = write_experiment(
        tmp_path, documents=documents, queries=queries, retrievers={"words": {"kind": "bm25", "top_k": 3}},
        evaluators={"ties": ties, "primary_metric": "rr@3", "order_unaware": {"k": [1]}},
    )  # fmt: skip
    report = run_experiment(experiment.config())
    assert report.settings[0].scores["rr@3"].mean == 1 / rank
    run = {query: {hit.doc: hit.score or 0 for hit in hits} for query, hits in hits_of(report, "words").items()}
    assert of_pytrec_eval("recip_rank", {"q": {"b.txt": 1}}, run) == {"q": 1.0}


def test_a_missing_query_counts_zero() -> None:
    """a query that the run lacks"""
    qrels, run = {"1": {"a": 1}, "2": {"a": 1}}, {"1": {"a": 1.0}}
    assert of_pytrec_eval("map", qrels, run) == {"1": 1.0}
    assert mean_here("map", qrels, run) == Mean(0.5, 2)


def test_the_gain_of_a_grade_has_no_threshold_unless_it_is_given() -> None:
    """nDCG and a relevance threshold"""
    qrels, run = {"q": {"d2": 1, "d3": 3}}, {"q": {"d1": 3.0, "d2": 2.0, "d3": 1.0}}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}, relevance_level=2).evaluate(run)["q"]
    assert ours("ndcg@10", qrels, run) == [pytest.approx(theirs["ndcg_cut_10"], rel=1e-12)]
    assert ours("ndcg(1=0)@10", qrels, run) == [pytest.approx(0.5)]


def test_nothing_retrieved_has_a_share_of_judged_hits() -> None:
    """Judged@k where nothing was retrieved"""
    qrels: dict[str, dict[str, int]] = {"q": {"a": 1}}
    run: dict[str, dict[str, float]] = {"q": {}}
    with pytest.raises(ZeroDivisionError):
        of_ir_measures(ir_measures.Judged @ 10, qrels, run)
    assert ours("judged@10", qrels, run) == [0]


def pytrec_eval_ends(labels: str, measures: str) -> int:
    """The exit status of a process of its own; below 0 for one that was aborted."""
    lines = f"import pytrec_eval as p; p.RelevanceEvaluator({labels}, {measures}).evaluate({{'q': {{'a': 1.0}}}})"
    return subprocess.run([sys.executable, "-c", lines], capture_output=True, check=False).returncode


@pytest.mark.skipif(sys.platform == "win32", reason="an abort has another exit status there")
def test_gains_may_be_given() -> None:
    """gains for grades"""
    assert pytrec_eval_ends("{'q': {'a': 1}}", "{'ndcg.1=3'}") < 0
    assert ours("ndcg.1=3", {"q": {"a": 1, "b": 2}}, {"q": {"a": 1.0}}) == [pytest.approx(3 / (3 + 2 / np.log2(3)))]


@pytest.mark.skipif(sys.platform == "win32", reason="an abort has another exit status there")
def test_a_cutoff_of_zero_is_refused() -> None:
    """a cutoff of 0"""
    assert pytrec_eval_ends("{'q': {'a': 1}}", "{'P.0'}") < 0


@needs_perl
def test_any_query_id_will_do() -> None:
    """ERR and exponential nDCG of queries with names"""
    qrels, run = {"q1": {"a": 1, "b": 3}}, {"q1": {"a": 2.0, "b": 1.0}}
    for measure in (ir_measures.ERR @ 10, ir_measures.nDCG(dcg="exp-log2") @ 10):
        with pytest.raises(subprocess.CalledProcessError):
            of_ir_measures(measure, qrels, run)
        numbered = of_ir_measures(measure, {"1": qrels["q1"]}, {"1": run["q1"]})
        assert ours(str(measure), qrels, run) == [pytest.approx(numbered[0], abs=5e-6)]


@needs_perl
def test_the_highest_grade_is_a_parameter() -> None:
    """ERR with a grade above 4"""
    qrels, run = {"1": {"a": 5}}, {"1": {"a": 1.0}}
    with pytest.raises(subprocess.CalledProcessError):
        of_ir_measures(ir_measures.ERR @ 10, qrels, run)
    with pytest.raises(MetricError, match=r"^err\(max=4\): a document has grade 5; "):
        ours("ERR@10", qrels, run)
    assert ours("err(max=5)@10", qrels, run) == [31 / 32]


def test_a_document_counts_once_however_many_chunks_of_it_were_found() -> None:
    """recall of several chunks of one document"""
    chunks = collapse(from_rows([[0, 1, 2]]), np.array([0, 0, 1], dtype=np.int32))
    graded = grade(chunks.rankings, ["a", "b"], [Query("q", "?", (Judgment("a"),))], depth=3)
    assert scores("recall@3", graded).tolist() == [1]


def test_a_query_without_relevant_documents_has_no_capped_recall() -> None:
    """capped recall without relevant documents"""
    assert mean_here("R_cap@5", {"q": {"a": 0}, "r": {"a": 1}}, {"q": {"a": 1.0}, "r": {"a": 1.0}}) == Mean(1.0, 1)


def test_what_is_judged_for_another_query_is_not_judged_for_this_one() -> None:
    """hits that nobody judged for this query"""
    qrels, run = {"q": {"a": 1}, "r": {"b": 1}}, {"q": {"b": 1.0}, "r": {"b": 1.0}}
    assert ours("unjudged@1", qrels, run) == [1, 0]


AGREED: Mapping[str, Callable[[int], Any]] = {
    "P(judged_only=True)": lambda k: ir_measures.P(judged_only=True) @ k,
    "P(rel=2)": lambda k: ir_measures.P(rel=2) @ k,
    "R(rel=2)": lambda k: ir_measures.R(rel=2) @ k,
    "RR(rel=2)": lambda k: ir_measures.RR(rel=2) @ k,
    "AP(rel=2,judged_only=True)": lambda k: ir_measures.AP(rel=2, judged_only=True) @ k,
    "nDCG": lambda k: ir_measures.nDCG @ k,
    "nDCG(judged_only=True)": lambda k: ir_measures.nDCG(judged_only=True) @ k,
    "nDCG(0=1,1=4,2=2)": lambda k: ir_measures.nDCG(gains={0: 1, 1: 4, 2: 2}) @ k,
    "Success(rel=2)": lambda k: ir_measures.Success(rel=2) @ k,
    "Judged": lambda k: ir_measures.Judged @ k,
}
UNCUT: Mapping[str, Any] = {
    "Rprec(rel=2)": ir_measures.Rprec(rel=2), "Bpref(rel=2)": ir_measures.Bpref(rel=2),
    "infAP(rel=2)": ir_measures.infAP(rel=2), "AP(judged_only=True)": ir_measures.AP(judged_only=True),
}  # fmt: skip


@given(case=scenarios(grades=st.integers(0, 3), least_queries=1), k=st.sampled_from((1, 2, 5, 10)))
def test_metrics_agree_with_ir_measures_by_its_own_names(case: Scenario, k: int) -> None:
    """Without ties, and where something was retrieved and something is judged."""
    qrels, run = as_dicts(case)
    qrels = {query: {**known, "never retrieved": 0} for query, known in qrels.items() if run[query]}
    run = {query: found for query, found in run.items() if query in qrels}
    if not qrels:
        return
    for name, measure in AGREED.items():
        expected = of_ir_measures(measure(k), qrels, run)
        np.testing.assert_allclose(ours(f"{name}@{k}", qrels, run), expected, rtol=0, atol=1e-9, err_msg=name)
    for name, measured in UNCUT.items():
        made = of_ir_measures(measured, qrels, run)
        np.testing.assert_allclose(ours(name, qrels, run), made, rtol=0, atol=1e-9, err_msg=name)


@given(ranking=rankings(), known=falling_labels(), p=st.sampled_from((0.5, 0.8, 0.9, 0.95)))
def test_rank_biased_overlap_is_compatibility(ranking: tuple[str, ...], known: dict[str, int], p: float) -> None:
    """Clarke, Vtyurina & Smucker's: rank-biased overlap with the order of the grades, normalised."""
    k = max(len(ranking), sum(value > 0 for value in known.values()))  # the depth to which compatibility looks
    case = Scenario((ranking,), (known,), (True,))
    expected = of_ir_measures(ir_measures.Compat(p=p), *as_dicts(case))
    assert scores(f"rbo(p={p})@{k}", case.graded()) == pytest.approx(expected, abs=1e-12)


@needs_perl
def test_graded_readers_agree_with_the_script_of_the_web_track() -> None:
    rng = np.random.default_rng(6)
    names = [f"d{number}" for number in range(30)]
    qrels, run = {}, {}
    for query in range(1, 40):
        judged = rng.permutation(names)[:15].tolist()
        qrels[str(query)] = {doc: int(rng.integers(0, 5)) for doc in judged} | {judged[0]: 2}
        found = rng.permutation(names)[:20].tolist()
        run[str(query)] = {doc: float(100 - place) for place, doc in enumerate(found)}
    for measure in (ir_measures.ERR @ 5, ir_measures.ERR @ 20, ir_measures.nDCG(dcg="exp-log2") @ 10):
        np.testing.assert_allclose(
            ours(str(measure), qrels, run), of_ir_measures(measure, qrels, run), rtol=0, atol=6e-6
        )


RANX = json.loads((Path(__file__).parents[1] / "golden" / "ranx.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RANX["scores"])
def test_metrics_agree_with_ranx_by_its_own_names(name: str) -> None:
    """Scores of ranx 0.3.21, kept in a file: it takes long to install and to start. Its -l2 is a threshold."""
    spelling, _, level = name.partition("-l")
    metric = parse_metric(spelling)
    if level and metric.definition.gains:
        metric = replace(metric, gains=tuple((grade, 0.0) for grade in range(1, int(level))))
    elif level:
        metric = replace(metric, parameters=(*metric.parameters, ("rel", int(level))))
    values = ours(str(metric), RANX["qrels"], RANX["run"])
    np.testing.assert_allclose(values, RANX["scores"][name], rtol=0, atol=1e-9)
    assert any(value > 0 for value in values)


def test_our_names_are_read_as_they_are_by_the_scenarios_here() -> None:
    """A ranking is in trec_eval's order in this file: by score, then by id, descending."""
    assert ours("rr", {"q": {"a": 1}}, {"q": {"a": 1.0, "b": 1.0, "B": 1.0}}) == [1 / 2]
    assert scores("rr", scenario(("b a B", "a")).graded()).tolist() == [1 / 2]
