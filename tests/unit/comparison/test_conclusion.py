"""Verdicts, and what a comparison comes to: tests/golden/conclusions.txt is the specification."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower

from golden_screens import GoldenScreen
from ragtrial import compare
from ragtrial.comparison.commands import Commands
from ragtrial.comparison.comparison_parts import Comparison
from ragtrial.comparison.evidence import MOST_LABELLED, MOST_TIMES, Evidence, evidence_of
from ragtrial.comparison.statistics.estimates import detectable_difference, level_of, queries_for
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import Family, Procedure
from ragtrial.views.comparison_tables import comparison_text
from scored_runs import scored_report
from situations import SITUATIONS, Situation
from small_experiment import Capture, ragtrial


def _shown(number: int, situation: Situation, comparison: Comparison) -> str:
    made = comparison.conclusion
    against = "all pairs" if made.baseline is None else f"against {made.baseline}"
    settings = f"{len(comparison.settings)} setting{'s' if len(comparison.settings) > 1 else ''}"
    kind = f"[{made.kind}: {settings}, {made.scored.sentence}, {against}]"
    return "\n".join([f"{number}. {situation.title}", kind, *made.sentences])


@pytest.fixture(scope="module")
def comparisons(tmp_path_factory: pytest.TempPathFactory) -> list[Comparison]:
    made = []
    with pytest.MonkeyPatch.context() as patch:
        for situation in SITUATIONS:
            folder = tmp_path_factory.mktemp("situation")
            patch.chdir(folder)
            made.append(situation.compared(folder))
    return made


def test_each_situation_has_its_conclusion(comparisons: list[Comparison], request: pytest.FixtureRequest) -> None:
    """At least sixty, each read by hand against the grammar of docs/reading-the-result.md."""
    pairs = zip(SITUATIONS, comparisons, strict=True)
    text = "\n\n".join(_shown(number, *pair) for number, pair in enumerate(pairs, 1)) + "\n"
    assert len(SITUATIONS) >= 60
    text = re.sub(r"/\S*/situation\d+/", "", text)
    GoldenScreen("conclusions", update=request.config.getoption("--update-golden")).check(text)


def test_labelling_and_cheaper_settings_are_advised_within_reason(comparisons: list[Comparison]) -> None:
    advised = 0
    for made in comparisons:
        for number in re.findall(r"label about ([0-9,]+) more", made.conclusion.next_step.action):
            advised += 1
            more = int(number.replace(",", ""))
            assert more == made.conclusion.next_step.questions
            text = comparison_text(made, 10_000)  # the column is about the margin, the advice about this difference
            assert ("The next step asks for fewer" in text) == (" too many" in text)
            assert more <= min(MOST_LABELLED, MOST_TIMES * made.conclusion.scored.scored)
    assert advised >= 5
    cheaper = [made.conclusion for made in comparisons if "cheapest" in made.conclusion.next_step.action]
    assert len(cheaper) >= 4
    for conclusion in cheaper:
        assert not conclusion.verdicts.keys() & {"inconclusive", "too few differences"}
    assert Commands(("one", "two")).show("--costs") == "ragtrial show one --costs"


def test_settings_of_one_score_may_find_different_numbers_of_answers(tmp_path: Path, capsys: Capture) -> None:
    labels = {f"q{number}": {"right": 1, "wrong": -1} for number in range(12)}
    runs = {"one": dict.fromkeys(labels, "right"), "two": {**dict.fromkeys(labels, "right"), "q0": "other"}}
    report = scored_report(tmp_path, labels, runs, "--metrics", "hit_rate@2,forbidden@2")
    headline = compare(report, metric="forbidden@2").conclusion.sentences[0]
    assert "one and two, forbidden@2 0.000: they find an answer in the first 2 for 11 to 12 of 12" in headline
    gated = ragtrial(capsys, "compare", report.folder, "--fail-if", "one: forbidden@2 > 0", "--json").json
    assert gated["gates"][0]["findings"][0]["found"] == "0.0000 over 12 questions"


def evidence(low: float | None, high: float | None, claim: int | None) -> Evidence:
    """Without a claim of its own, as the interval says."""
    if claim is None:
        claim = 0 if low is None or high is None else (low > 0) - (high < 0)
    return Evidence(60, 40, low, high, 0.0312, 147, claim)


OPEN = "inconclusive; 60 questions detect a difference of 0.031 with 80% power, 147 one of 0.02"
NO_WORSE, WITHIN = "no worse than the margin of 0.02", "worse, but within the margin of 0.02"
FEW = "of 60 questions differ, fewer than 10; no interval is given"
NOTHING = (None, None, None, None)


@pytest.mark.parametrize(("found", "verdict", "sentence"), [
    (evidence(0.001, 0.2, None), "better", "better"),
    (evidence(0.0, 0.2, None), "no worse", NO_WORSE),
    (evidence(-0.0199, 0.2, None), "no worse", NO_WORSE),
    (evidence(-0.02, 0.2, None), "inconclusive", OPEN),
    (evidence(-0.3, 0.0, None), "inconclusive", OPEN),
    (evidence(-0.0199, -0.001, None), "worse within the margin", WITHIN),
    (evidence(-0.02, -0.001, None), "worse", "worse"),
    (evidence(-0.3, 0.01, -1), "worse", "worse"),
    (evidence(-0.01, 0.01, -1), "worse within the margin", WITHIN),
    (evidence(-0.01, 0.01, 1), "better", "better"),
    (evidence(None, None, 1), "better", "better"),
    (evidence(None, None, -1), "worse", "worse"),
    (Evidence(0, 0, *NOTHING), "too few differences", "no question counts for both: nothing to compare"),
    (Evidence(1, 0, *NOTHING), "identical", "identical on 1 question"),
    (Evidence(1234, 0, *NOTHING), "identical", "identical on 1,234 questions"),
    (Evidence(60, 9, *NOTHING), "too few differences", f"only 9 {FEW}"),
    (Evidence(60, 10, *NOTHING), "inconclusive", "inconclusive"),
    (Evidence(60, 40, -0.1, 0.1, 0.00031, 20), "inconclusive",
     "inconclusive; 60 questions detect a difference of 0.00031 with 80% power"),
])  # fmt: skip
def test_the_verdict_is_the_first_that_holds_or_why_none_does(found: Evidence, verdict: str, sentence: str) -> None:
    assert (found.verdict, found.sentence) == (verdict, sentence)


@pytest.mark.parametrize("level", [0.05, 0.002])
@pytest.mark.parametrize("n", [10, 15, 60, 300, 5000, 10**6])
def test_the_detectable_difference_has_a_power_of_four_fifths_by_statsmodels(n: int, level: float) -> None:
    deviations, critical = np.array([1e-6, 0.03, 0.3, 5.0]), -float(stats.t.ppf(level / 2, n - 1))
    counts, criticals = np.full(4, n), np.full(4, critical)
    found = detectable_difference(deviations, counts, criticals)
    for effect in found / deviations:
        assert TTestPower().power(effect, n, level) == pytest.approx(0.8, abs=1e-4)
    assert level_of(criticals, counts) == pytest.approx([level] * 4)


def test_the_queries_needed_are_the_fewest_with_that_power_by_statsmodels() -> None:
    effects, levels = np.repeat([0.02, 0.1, 0.5, 0.8], 2), np.tile([0.05, 0.0026], 4)
    needed = queries_for(0.02, 0.02 / effects, levels)
    for effect, level, n in zip(effects, levels, needed, strict=True):
        assert TTestPower().power(effect, n, level) >= 0.8 > TTestPower().power(effect, n - 1, level)


@given(st.integers(10, 500), st.floats(0.001, 0.2), st.floats(-1.5, 1.5))
def test_the_queries_needed_find_what_is_detectable_with_them(n: int, level: float, skewness: float) -> None:
    counts, critical = np.array([n]), -stats.t.ppf(level / 2, np.array([n - 1]))
    found = detectable_difference(np.ones(1), counts, critical, skewness)
    needed = queries_for(float(found[0]), np.ones(1), np.array([level]), skewness)
    assert needed[0] == pytest.approx(n, rel=0.03, abs=1)


def test_advice_is_the_same_either_way_and_nan_where_none_can_be_given() -> None:
    nothing, number = float("nan"), float("inf")
    deviations, counts, criticals = [0.0, nothing, 0.3, 0.3], [60, 1, 60, 60], [2.0, 2.0, number, 2.0]
    found = detectable_difference(np.array(deviations), np.array(counts), np.array(criticals))
    assert np.isnan(found).tolist() == [True, True, True, False]
    deviations, levels = [nothing, 0.0, 0.3, 1e9, 0.3], [0.05, 0.05, nothing, 0.05, 0.05]
    assert np.isnan(queries_for(0.02, np.array(deviations), np.array(levels))).tolist() == [True] * 4 + [False]
    assert np.isnan(queries_for(0.0, np.array([0.3]), np.array([0.05]))).all()
    assert queries_for(5.0, np.array([0.3]), np.array([0.05])) == 10
    differences = np.random.default_rng(0).exponential(size=(1, 60)) - 0.9
    both = infer([Family(side * differences) for side in (1, -1)], Procedure(flips=999))
    (one,), (other,) = (evidence_of(inference, 0.02) for inference in both)
    assert one.detectable == pytest.approx(other.detectable)
    assert one.queries_needed == other.queries_needed


def test_evidence_is_what_the_procedure_found() -> None:
    differences = np.random.default_rng(0).normal(0.5, 1, (2, 60))
    differences[1] -= differences[1].mean()
    baseline = np.random.default_rng(1).random(60)
    family = Family(np.vstack([baseline, baseline + differences]), np.array([[1, 0], [2, 0]]))
    (inference,) = infer([family], Procedure(flips=2000))
    shown, open_ = evidence_of(inference, 0.02)
    assert shown.verdict == "better"
    assert open_.verdict == "inconclusive"
    assert (shown.n, shown.differing) == (60, 60)
    assert shown.low == inference.low[0]
    leaning = inference.skewness * 60 / 160
    by_hand = detectable_difference(inference.deviation, inference.n, inference.criticals, leaning)
    assert shown.detectable == pytest.approx(by_hand[0])
    assert shown.queries_needed is not None
    assert shown.queries_needed > 60
