"""Gates: what can be written, what is refused and how, and when one fails."""

import pytest
from hypothesis import given, strategies as st

from expectations import message_of
from gate_scenarios import METRICS, findings, judged, part, setting
from ragtrial.comparison.gates import GateEvidence, Subject, judge_gates, parse_gates
from ragtrial.errors import Fault, GateError
from ragtrial.report.schema import FailurePart
from ragtrial.views.findings_files import gate_line, junit_text, markdown_text, summary

SUBJECT = Subject(("dense", "hybrid", "main:dense", "run (k1=0.9): a"), METRICS, baseline="dense")


def message(*texts: str, subject: Subject = SUBJECT) -> str:
    return message_of(GateError, parse_gates, texts, subject)


@pytest.mark.parametrize(("text", "setting", "quantity", "relation", "limit"), [
    ("ndcg@10 < 0.70", None, "ndcg@10", "<", 0.7),
    ("NDCG@10<=.7", None, "ndcg@10", "<=", 0.7),
    ("ndcg_cut_10 >= 1e-1", None, "ndcg@10", ">=", 0.1),
    ("dcg@10 > 12", None, "dcg@10", ">", 12.0),
    ("rbp(p=0.8)@10 < 0.5", None, "rbp(p=0.8)@10", "<", 0.5),
    ("latency.p95 > 0.2", None, "latency.p95", ">", 0.2),
    ("hybrid: MRR@10 < 0.5", "hybrid", "rr@10", "<", 0.5),
    ("hybrid:ndcg@10 worse than baseline", "hybrid", "ndcg@10", "worse than", 0.0),
    ("main:dense: ndcg@10 Worse  Than Baseline", "main:dense", "ndcg@10", "worse than", 0.0),
    ("run (k1=0.9): a: ndcg@10 < 0.5", "run (k1=0.9): a", "ndcg@10", "<", 0.5),
    ("recall@10 not within 0.02 of baseline", None, "recall@10", "not within", 0.02),
    ("recall@10 not within 0 of baseline", None, "recall@10", "not within", 0.0),
])  # fmt: skip
def test_a_gate_means_what_it_says(text: str, setting: str | None, quantity: str, relation: str, limit: float) -> None:
    (gate,) = parse_gates([text], SUBJECT)
    assert (gate.setting, gate.quantity, gate.relation, gate.limit) == (setting, quantity, relation, limit)


@pytest.mark.parametrize(("text", "told"), [
    ("ndgc@10 < 0.7", "there is no metric 'ndgc'. Did you mean 'ndcg'?"),
    ("ndcg@5 < 0.7", "there is no 'ndcg@5' among the metrics. Did you mean 'ndcg@10'? There are: ndcg@10, "),
    ("hibrid: ndcg@10 < 0.7", "there is no setting 'hibrid'. Did you mean 'hybrid'? There are: dense, hybrid"),
    ("ndcg@10 == 0.7", "this is no gate. Write one like"),
    ("ndcg@10 < 70", "ndcg@10 lies between 0 and 1; a limit of 70 says nothing."),
    ("dcg@10 < -1", "dcg@10 lies between 0 and inf; a limit of -1 says nothing."),
    ("ndcg@10 < 70%", "'70%' is not a number."),
    ("ndcg@10 < nan", "'nan' is not a number."),
    ("ndcg@10 <", "this is no gate."),
    ("ndcg@10 not within -0.1 of baseline", "the margin is -0.1; it must be at least 0."),
    ("ndcg@10 not within 2 of baseline",
     "ndcg@10 lies between 0 and 1; a margin of 2 says nothing. Did you mean 0.02?"),
    ("recall@10 not within 1 of baseline", "recall@10 lies between 0 and 1; a margin of 1 says nothing."),
    ("ndcg@10 worst then baseline", "this is no gate. Write one like"),
    ("ndcg@10", "this is no gate. Write one like \"ndcg@10 < 0.70\""),
    ("ndcg@10 worse than hybrid", "this is no gate."),
    ("dense: ndcg@10 worse than baseline", "there is nothing to compare with the baseline 'dense'; name another"),
    ("latency.p59 > 1", "there is no 'latency.p59'. Did you mean 'latency.p99'?"),
    ("latency.p95 worse than baseline", "latency.p95 is not compared question by question; give a limit"),
])  # fmt: skip
def test_a_gate_that_says_nothing_is_refused_with_the_way_out(text: str, told: str) -> None:
    assert told in message(text)
    assert message("ndcg@10 < 0.5", text).startswith("--fail-if #2: ")


def test_faults_are_told_at_once_and_a_baseline_is_not_compared_with_itself() -> None:
    lines = message("hibrid: ndcg@10 < 70", "", "ndcg@10 < 0.7", "ndcg@10 > 2").splitlines()
    assert [line.partition(":")[0] for line in lines] == ["--fail-if #1"] * 2 + ["--fail-if #2", "--fail-if #4"]
    text = "ndcg@10 worse than baseline"
    without, alone = Subject(("dense", "hybrid"), METRICS), Subject(("dense",), METRICS, "dense")
    absent = "there is no baseline; name the setting to compare with: --baseline SETTING or REPORT:SETTING."
    assert absent in message(text, subject=without)
    assert "nothing to compare with the baseline 'dense'" in message(text, subject=alone)
    earlier = Subject(("dense",), METRICS, "old:dense")
    assert parse_gates([text], earlier)
    assert "there is no setting 'old:dense'" in message("old:dense: ndcg@10 < 0.5", subject=earlier)
    assert [one.setting for one in judged("ndcg@10 worse than baseline", part("a", 0.1, (0.0, 0.2))).findings] == ["a"]
    known = {"a": setting("a", ndcg_10=0.5)}
    gates = parse_gates(["ndcg@10 worse than baseline"], Subject(("a", "base"), METRICS, "base"))
    (outcome,) = judge_gates(gates, GateEvidence(known, "ndcg@10", ["base"], "base"))
    assert outcome.outcome == "not checked"
    assert [(one.setting, one.found) for one in outcome.findings] == [
        ("a", "has nothing to be compared with: base could not be run")
    ]


@given(st.text(max_size=60))
def test_whatever_is_written_is_a_gate_or_an_error_that_quotes_it(text: str) -> None:
    faults: tuple[Fault, ...] = ()
    try:
        parse_gates([text], SUBJECT)
    except GateError as error:
        faults = error.faults
    assert all(fault.file == "--fail-if #1" and fault.message for fault in faults)


@pytest.mark.parametrize(("relation", "fails"), [
    ("<", (True, False, False)), ("<=", (True, True, False)), (">", (False, False, True)),
    (">=", (False, True, True)),
])  # fmt: skip
def test_a_bound_fails_where_it_holds(relation: str, fails: tuple[bool, ...]) -> None:
    outcomes = [
        judged(f"ndcg@10 {relation} 0.7", settings=[setting("a", ndcg_10=value)]).outcome for value in (0.6, 0.7, 0.8)
    ]
    assert outcomes == ["failed" if fail else "passed" for fail in fails]


def test_bounds_are_met_up_to_rounding_and_the_unknown_is_undecided() -> None:
    mean = 0.7 - 2e-16
    assert mean < 0.7
    assert judged("ndcg@10 < 0.7", settings=[setting("a", ndcg_10=mean)]).outcome == "passed"
    assert judged("ndcg@10 <= 0.7", settings=[setting("a", ndcg_10=0.7 + 1e-15)]).outcome == "failed"
    three = [setting("a", ndcg_10=0.69996), setting("b", ndcg_10=0.5), setting("c", ndcg_10=0.8)]
    outcome = judged("ndcg@10 < 0.70", settings=three)
    assert gate_line(outcome) == "gate failed: ndcg@10 < 0.70: a 0.69996; b 0.5000; 1 other passed"
    assert judged("c: ndcg@10 < 0.70", settings=three).outcome == "passed"
    assert [finding.setting for finding in judged("a: ndcg@10 < 0.70", settings=three).findings] == ["a"]
    assert gate_line(judged("ndcg@10 < 0.7", settings=[setting("a", ndcg_10=None)])).endswith(": a no question counts")
    slow = [setting("a", p95=0.3), setting("b", p95=0.1), setting("c")]
    outcome = judged("latency.p95 > 0.2", settings=slow)
    assert gate_line(outcome) == "gate failed: latency.p95 > 0.2: a 0.3000; 1 other passed"
    assert judged("latency.p95 > 0.4", settings=slow).outcome == "undecided"
    assert judged("index_bytes > 999", settings=slow).outcome == "failed"
    nothing = judged("ndcg@10 worse than baseline", part("a", None, None, n=0, wins=0, losses=0, ties=0))
    assert (nothing.outcome, nothing.findings[0].found) == ("undecided", "no question counts for both")
    same = part("a", 0.0, None, wins=0, losses=0, ties=59)
    for text in ("ndcg@10 worse than baseline", "ndcg@10 not within 0 of baseline"):
        outcome = judged(text, same)
        assert (outcome.outcome, outcome.findings[0].found) == ("passed", "identical to base")


@pytest.mark.parametrize(("ci", "worse", "not_within"), [
    ((-0.09, -0.03), "failed", "failed"),  # worse, by more than the margin
    ((-0.09, -0.01), "failed", "undecided"),  # worse, by an unknown amount
    ((-0.015, -0.001), "failed", "passed"),  # worse, but within the margin
    ((-0.02, 0.05), "passed", "undecided"),  # the margin itself is not within it
    ((-0.0199, 0.05), "passed", "passed"),  # no worse
    ((-0.05, 0.0), "passed", "undecided"),  # inconclusive
    ((0.01, 0.05), "passed", "passed"),  # better
    (None, "passed", "undecided"),  # too few differences for an interval
])  # fmt: skip
def test_gates_on_the_baseline_go_by_the_interval(ci: tuple[float, float] | None, worse: str, not_within: str) -> None:
    one = part("a", -0.01, ci)
    assert judged("ndcg@10 worse than baseline", one).outcome == worse
    assert judged("ndcg@10 not within 0.02 of baseline", one).outcome == not_within


@pytest.mark.parametrize(("difference", "won", "lost", "n", "outcome"), [
    (-0.456, 0, 6, 10, "undecided"),  # a large loss, on too few questions to test it
    (-0.003, 0, 3, 200, "passed"),  # nearly nothing has changed
    (-0.02, 1, 8, 50, "passed"),  # as large as the margin is not above it
    (-0.0201, 1, 8, 50, "undecided"),
    (+0.300, 6, 0, 10, "passed"),
    (0.0, 0, 0, 10, "passed"),  # identical
])  # fmt: skip
def test_a_large_loss_on_few_queries_is_undecided(difference: float, won: int, lost: int, n: int, outcome: str) -> None:
    one = part("a", difference, None, wins=won, losses=lost, ties=n - won - lost, n=n)
    made = judged("ndcg@10 worse than baseline", one)
    assert made.outcome == outcome
    if won + lost:
        assert f"{won + lost} of {n} questions differ" in made.findings[0].found
    assert findings(gates=(made,)).exit_code == (outcome == "undecided")
    opposite = part("a", -difference, None, wins=won, losses=lost, ties=n - won - lost, n=n, better="lower")
    assert judged("ndcg@10 worse than baseline", opposite).outcome == outcome


@pytest.mark.parametrize("ci", [None, (-0.05, 0.01)])
def test_gates_follow_what_a_procedure_claims_beside_its_interval(ci: tuple[float, float] | None) -> None:
    worse, better = part("a", -0.03, ci, verdict="worse"), part("a", 0.03, ci, verdict="better")
    open_ = part("a", -0.03, ci, verdict="inconclusive")
    outcomes = {
        text: [judged(text, one).outcome for one in (worse, better, open_)]
        for text in ("ndcg@10 worse than baseline", "ndcg@10 not within 0.02 of baseline")
    }
    assert list(outcomes.values()) == [["failed", "passed", "passed"], ["undecided", "passed", "undecided"]]
    found = judged("ndcg@10 worse than baseline", worse).findings[0].found
    between = "" if ci is None else ", 95% interval -0.0500 to +0.0100"
    assert found == f"-0.0300 against base{between}: worse"


def test_failed_settings_are_not_checked_and_gates_that_fail_fail_all_the_same() -> None:
    known = [setting("a", ndcg_10=0.8)]
    passing = judged("ndcg@10 < 0.7", settings=known, failed=["b"])
    assert (passing.outcome, [one.outcome for one in passing.findings]) == ("passed", ["passed", "not checked"])
    assert judged("b: ndcg@10 < 0.7", settings=known, failed=["b"]).outcome == "not checked"
    assert judged("ndcg@10 < 0.9", settings=known, failed=["b"]).outcome == "failed"
    assert gate_line(passing) == "gate passed: ndcg@10 < 0.7: a 0.8000; b could not be run"
    failures = (FailurePart(name="b", error="no key"),)
    texts, half = ("a: ndcg@10 < 0.7", "a: ndcg@10 > 0.7", "b: ndcg@10 < 0.7"), [setting("a", ndcg_10=0.5)]
    low, high, unchecked = (judged(text, settings=half, failed=["b"]) for text in texts)
    assert findings(gates=(low, high), failures=failures).exit_code == 1
    assert findings(gates=(high,), failures=failures).exit_code == 4
    assert findings(gates=(high, unchecked)).exit_code == 4
    assert findings(gates=(high,)).exit_code == 0
    assert findings().exit_code == 0


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 0.5))
def test_what_is_shown_never_contradicts_the_outcome(low: float, width: float, margin: float) -> None:
    one = judged(f"ndcg@10 not within {margin!r} of baseline", part("a", low, (low, low + width))).findings[0]
    shown = float(one.found.partition("interval ")[2].partition(" to ")[0])
    if abs(low + margin) > 1e-11:
        assert (shown > -margin) == (one.outcome == "passed")


def test_an_undecided_gate_exits_with_1_and_is_called_so_in_every_file() -> None:
    made = judged("ndcg@10 worse than baseline", part("new", -0.3, None, wins=0, losses=6, ties=4, n=10))
    one = findings(gates=(made,))
    assert (one.has_failed, one.exit_code) == (True, 1)
    assert summary(one) == "1 gate: 1 undecided"
    assert markdown_text(one).startswith("### kitchen: undecided (1 gate: 1 undecided)\n")
    assert 'message="gate undecided: ndcg@10 worse than baseline: new -0.3000 against base' in junit_text(one)
    failed = judged("ndcg@10 worse than baseline", part("new", -0.3, (-0.4, -0.2)))
    assert markdown_text(findings(gates=(made, failed))).startswith(
        "### kitchen: failed (2 gates: 1 failed, 1 undecided)"
    )
