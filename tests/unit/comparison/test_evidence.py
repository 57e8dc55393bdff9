"""Verdicts: the first of better, worse, no worse than the margin that holds, and what would settle the rest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower

from ragtrial.comparison.evidence import Evidence, evidence_of
from ragtrial.comparison.statistics.estimates import detectable_difference, level_of, queries_for
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import Family, Procedure


def evidence(low: float | None, high: float | None, claim: int | None) -> Evidence:
    """Without a claim of its own, as the interval says."""
    if claim is None:
        claim = 0 if low is None or high is None else (low > 0) - (high < 0)
    return Evidence(60, 40, low, high, 0.0312, 147, claim)


OPEN = "inconclusive; 60 questions detect a difference of 0.031 with 80% power, 147 one of 0.02"
NO_WORSE, WITHIN = "no worse than the margin of 0.02", "worse, but within the margin of 0.02"
FEW = "of 60 questions differ, fewer than 10; no interval is given"
NOTHING = (None, None, None, None)


@pytest.mark.parametrize(
    ("found", "verdict", "sentence"),
    [
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
    ],
)  # fmt: skip
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
