"""Estimates with an interval, against other libraries, and verdicts over several data sets."""

import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.meta_analysis import combine_effects

from contests import report_of
from ragtrial.comparison.across import AcrossPart, compare_across
from ragtrial.comparison.statistics.estimates import combined_effect, confusion, mean_interval, weighted_kappa
from ragtrial.report.model import write_folder


@given(st.lists(st.tuples(st.floats(-0.3, 0.3), st.floats(0.0001, 0.01)), min_size=2, max_size=12))
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


QUERIES = 24
PATTERN = np.tile([1.0, -1.0], QUERIES // 2)


def over(tmp_path: Path, means: list[float], spreads: list[float], metric: str = "ndcg@3") -> AcrossPart:
    """``new`` against ``old`` on data sets whose differences have these means, and these distances from them."""
    for number, (mean, spread) in enumerate(zip(means, spreads, strict=True)):
        old = np.full(QUERIES, 0.5)
        report = report_of({"old": old.tolist(), "new": (old + mean + spread * PATTERN).tolist()}, metric)
        own = report.dataset.model_copy(update={"documents_fingerprint": str(number)})
        write_folder(report.model_copy(update={"dataset": own}), tmp_path / f"set{number}", {}, [], {})
    folders = [tmp_path / f"set{number}" for number in range(len(means))]
    (part,) = compare_across(folders, baseline="old", margin=0.02).settings
    return part


@pytest.mark.parametrize(("means", "spreads", "verdict"), [
    ([0.1, 0.11, 0.09, 0.1], [0.05] * 4, "better"),
    ([0.004, 0.005, 0.004, 0.005], [0.002] * 4, "better"),
    ([-0.1, -0.11, -0.09, -0.1], [0.05] * 4, "worse"),
    ([-0.012, -0.01, -0.011, -0.011], [0.005] * 4, "worse within the margin"),
    ([0.001, -0.001, 0.002, -0.002], [0.01] * 4, "no worse"),
    ([0.01, 0.012, 0.011, 0.01], [0.05] * 4, "no worse"),
    ([0.001, -0.001, 0.002, -0.002], [0.2] * 4, "inconclusive"),
    ([-0.03, 0.02, -0.01, 0.0], [0.05] * 4, "inconclusive"),
    ([0.1, -0.1], [0.01] * 2, "inconclusive"),
    ([0.1, 0.1, 0.0], [0.05, 0.05, 0.0], "inconclusive"),
    ([0.0, 0.0], [0.0, 0.0], "identical"),
])  # fmt: skip
def test_the_verdict_is_the_interval_s(tmp_path: Path, means: list[float], spreads: list[float], verdict: str) -> None:
    part = over(tmp_path, means, spreads)
    assert part.verdict == verdict
    if 0.0 in spreads:  # identical there: nothing is known of how its difference varies
        assert (part.ci, part.difference, part.spread) == (None, None, None)
        return
    variances = [statistics.variance((mean + spread * PATTERN).tolist()) / QUERIES
                 for mean, spread in zip(means, spreads, strict=True)]  # fmt: skip
    expected = combined_effect(np.array(means), np.array(variances), 0.05)
    assert part.ci == pytest.approx((expected.low, expected.high))
    assert (part.difference, part.spread) == pytest.approx((expected.mean, expected.spread), abs=1e-12)


def test_each_data_set_is_better_worse_or_undecided(tmp_path: Path) -> None:
    part = over(tmp_path, [0.1, -0.1, -0.011, 0.0, 0.0], [0.05, 0.05, 0.005, 0.2, 0.0])
    assert (part.better_on, part.worse_on, part.undecided_on) == (["set0"], ["set1", "set2"], ["set3"])
    assert part.identical_on == ["set4"]


def test_where_lower_values_are_better_verdicts_turn_and_numbers_stay(tmp_path: Path) -> None:
    means, spreads = [-0.1, -0.11, -0.09, -0.1], [0.05] * 4
    fewer = over(tmp_path, means, spreads, "unjudged@3")
    assert (fewer.verdict, fewer.better_on) == ("better", ["set0", "set1", "set2", "set3"])
    higher = over(tmp_path / "higher", means, spreads)
    assert (fewer.difference, fewer.ci, fewer.mean) == (higher.difference, higher.ci, higher.mean)
    assert fewer.ci is not None
    assert fewer.ci[0] < -0.1 < fewer.ci[1] < 0
