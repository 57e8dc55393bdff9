"""Estimates with an interval: effects over data sets, agreement of raters, means; against other libraries."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.meta_analysis import combine_effects

from ragtrial.comparison.statistics.estimates import combined_effect, confusion, mean_interval, weighted_kappa

EFFECTS = st.lists(st.tuples(st.floats(-0.3, 0.3), st.floats(0.0001, 0.01)), min_size=2, max_size=12)


@given(EFFECTS)
def test_means_and_intervals_are_those_of_statsmodels(data: list[tuple[float, float]]) -> None:
    """Of its two intervals, with the scatter estimated (Hartung-Knapp) and with it held at 1, the wider one."""
    effects, variances = (np.array(column) for column in zip(*data, strict=True))
    found = combined_effect(effects, variances, 0.05)
    with np.errstate(all="ignore"):
        oracle = combine_effects(effects, variances, method_re="dl", use_t=True)
    assume(oracle.tau2 > 0)  # below 0 it goes on with that, where others take 0
    assert found.mean == pytest.approx(oracle.mean_effect_re, abs=1e-9)
    assert found.spread**2 == pytest.approx(oracle.tau2, abs=1e-9)
    _, plain, _, scaled = oracle.conf_int(use_t=True)
    wider = max([plain, scaled], key=lambda ends: ends[1] - ends[0])
    assert (found.low, found.high) == pytest.approx(tuple(map(float, wider)), abs=1e-9)


def test_intervals_are_student_s_but_of_skewed_or_equal_values() -> None:
    """By hand: weights 100 and 300 give (100 * 0.1 + 300 * 0.1) / 400, and a standard error of 1 / 20."""
    found = combined_effect(np.array([0.1, 0.1]), np.array([0.01, 1 / 300]), 0.05)
    assert found.mean == pytest.approx(0.1)
    assert found.spread == 0
    assert found.high - found.mean == pytest.approx(12.706205 / 20)  # Student's t with one degree of freedom
    values = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    expected = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
    assert mean_interval(values, 0.05, "dcg@10") == pytest.approx(expected)
    assert weighted_kappa(confusion([(0, 1), (0, 2), (0, 0)], GRADES), GRADES) is None
    assert mean_interval(np.full(20, 0.3), 0.05, "dcg@10") is None
    assert mean_interval(np.array([0.5]), 0.05, "dcg@10") is None
    # Scores most of which are 1, as of a good setting: 30 of them, 4,000 times.
    rng = np.random.default_rng(0)
    samples = 1 - rng.beta(0.3, 2.5, (4000, 30))
    truth = 1 - 0.3 / 2.8
    intervals = [mean_interval(row, 0.05, "dcg@10") for row in samples]
    held = np.mean([one is not None and one[0] <= truth <= one[1] for one in intervals])
    student = stats.t.interval(0.95, 29, samples.mean(axis=1), stats.sem(samples, axis=1))
    assert held > np.mean((student[0] <= truth) & (truth <= student[1]))
    assert held == pytest.approx(0.95, abs=0.035)


GRADES = (0, 1, 2, 3)
pairs_of_grades = st.lists(st.tuples(st.sampled_from(GRADES), st.sampled_from(GRADES)), min_size=2, max_size=60)


@example([(0, 2), (1, 0), (1, 0)])
@given(pairs_of_grades)
def test_kappa_is_that_of_scikit_learn_and_its_interval_that_of_statsmodels(pairs: list[tuple[int, int]]) -> None:
    one, other = zip(*pairs, strict=True)
    assume(len(set(one)) > 1 and len(set(other)) > 1)
    found = weighted_kappa(confusion(pairs, GRADES), GRADES)
    assert found is not None
    assert found.value == pytest.approx(cohen_kappa_score(one, other, weights="quadratic", labels=GRADES), abs=1e-9)
    with np.errstate(invalid="ignore"):  # a variance that rounding made negative, which is 0 here
        theirs: Any = cohens_kappa(confusion(pairs, GRADES), wt="quadratic")
    ends = (theirs.kappa_low, theirs.kappa_upp) if theirs.var_kappa > 0 else (theirs.kappa, theirs.kappa)
    assert (found.value, found.low, found.high) == pytest.approx(
        (theirs.kappa, *ends), abs=1e-6 if theirs.var_kappa < 1e-12 else 1e-9
    )


@pytest.mark.parametrize("seed", range(5))
def test_skewness_lengthens_one_end_of_student_s_interval_and_shortens_none(seed: int) -> None:
    values = 5 + np.random.default_rng(seed).exponential(size=30) * (-1) ** seed
    low, high = mean_interval(values, 0.05, "dcg@10") or (0.0, 0.0)
    theirs = stats.ttest_1samp(values, 0).confidence_interval()
    ends = (low, theirs.low), (high, theirs.high)
    assert low <= theirs.low + 1e-12
    assert high >= theirs.high - 1e-12
    assert sum(ours == pytest.approx(student) for ours, student in ends) == 1
