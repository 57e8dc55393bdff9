"""The two-phase regression estimator: its formulas against statsmodels and plain matrices, and what it promises."""

from collections.abc import Callable

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, strategies as st
from scipy import stats

from ragtrial.comparison.statistics.procedures import Basis, TwoPhaseInference, TwoPhaseSample, infer_two_phase
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.evaluation.grading import Scores

PLACES = np.arange(100)
seeds = st.integers(0, 10**6)


def drawn(seed: int, family: int = 1, people: int = 30, more: int = 200, rho: float = 0.7) -> TwoPhaseSample:
    random = np.random.default_rng(seed)
    y = random.standard_normal((family, people + more)) + 0.3
    f = rho * y + np.sqrt(1 - rho**2) * random.standard_normal(y.shape)
    y[:, people:] = np.nan
    order = random.permutation(people + more)
    return TwoPhaseSample(y[:, order], f[:, order])


def inferred(sample: TwoPhaseSample, flips: int = 10_000, seed: int = 0) -> TwoPhaseInference:
    return infer_two_phase([sample], Procedure(flips=flips, seed=seed))[0]


@given(seeds)
def test_estimate_and_variance_are_those_of_the_intercept_of_a_regression_on_the_judge_less_its_mean(seed: int) -> None:
    sample = drawn(seed)
    found, known = inferred(sample), ~np.isnan(sample.people[0])
    y, f = sample.people[0, known], sample.judge[0]
    fitted = sm.OLS(y, sm.add_constant(f[known] - f.mean())).fit(cov_type="HC2")
    assert found.inference.mean[0] == pytest.approx(fitted.params[0], abs=1e-9)
    variance = fitted.bse[0] ** 2 + fitted.params[1] ** 2 * f.var(ddof=1) / len(f)
    error = found.inference.deviation[0] / np.sqrt(found.inference.n[0])
    assert error == pytest.approx(np.sqrt(variance), abs=1e-9)
    assert found.fixed[0] == pytest.approx(fitted.params[1] ** 2 * f.var(ddof=1) / len(f), abs=1e-12)
    assert found.worth[0] == pytest.approx(y.var(ddof=1) / variance - len(y), abs=1e-6)


@given(seeds, st.sampled_from([0.3, 0.9]), st.sampled_from([20, 200]))
def test_degrees_of_freedom_are_satterthwaites_by_whole_matrices(seed: int, rho: float, more: int) -> None:
    sample = drawn(seed, people=12, rho=rho, more=more)
    found, known = inferred(sample), ~np.isnan(sample.people[0])
    y, f, n = sample.people[0, known], sample.judge[0], int(known.sum())
    design = np.column_stack([np.ones(n), f[known] - f.mean()])
    inverse = np.linalg.inv(design.T @ design)
    projection = design @ inverse @ design.T
    weights = inverse[0] @ design.T
    made = np.diag(weights**2 / (1 - np.diag(projection))) @ (np.eye(n) - projection)
    of_people = np.trace(made) ** 2 / np.trace(made @ made)
    fitted = sm.OLS(y, design).fit()
    fixed = fitted.params[1] ** 2 * f.var(ddof=1) / len(f)
    variance = (found.inference.deviation[0] / np.sqrt(n)) ** 2
    of_fixed = 1 / (1 / (len(f) - 1) + 2 * (fitted.bse[1] / fitted.params[1]) ** 2)
    freedom = variance**2 / ((variance - fixed) ** 2 / of_people + fixed**2 / of_fixed)
    assert found.inference.criticals[0] == pytest.approx(stats.t.ppf(0.975, min(freedom, n - 2)), rel=1e-9)


@given(seeds, st.floats(-2, 2))
def test_a_judge_that_favours_a_setting_everywhere_moves_nothing(seed: int, favour: float) -> None:
    sample = drawn(seed)
    found, biased = inferred(sample), inferred(TwoPhaseSample(sample.people, sample.judge + favour))
    assert biased.inference.low[0] == pytest.approx(found.inference.low[0], abs=1e-9)
    assert biased.inference.high[0] == pytest.approx(found.inference.high[0], abs=1e-9)
    assert biased.bias[0] == pytest.approx(found.bias[0] + favour, abs=1e-9)


@given(seeds, st.integers(1, 8))
def test_corrected_p_is_at_most_the_level_exactly_where_the_interval_leaves_out_0(seed: int, family: int) -> None:
    one = inferred(drawn(seed, family), flips=300).inference
    assert ((one.p_corrected <= 0.05) == ((one.low > 0) | (one.high < 0))).all()
    assert (one.p_corrected >= one.p).all()


@pytest.mark.parametrize(("judge", "basis"), [
    (np.zeros_like, Basis.NO_SPREAD),
    (lambda y: np.where(PLACES == 0, 1.0, 0.0)[None], Basis.NO_SPREAD),
    (lambda y: np.where(PLACES < 2, 0.0, y), Basis.TOO_FEW_ERRORS),
    (lambda y: np.where(PLACES < 20, y + np.sin(PLACES), np.nan), Basis.NOT_JUDGED),
])  # fmt: skip
def test_a_judge_that_says_too_little_leaves_people_s_interval(judge: Callable[[Scores], Scores], basis: Basis) -> None:
    everywhere = np.random.default_rng(3).standard_normal((1, 100))
    y = np.where(np.arange(100) < 20, everywhere, np.nan)
    found = inferred(TwoPhaseSample(y, judge(everywhere)))
    assert found.basis == [basis]
    expected = stats.ttest_1samp(y[0, :20], 0.0).confidence_interval(0.95)
    assert (found.inference.low[0], found.inference.high[0]) == pytest.approx(tuple(expected), abs=1e-9)
    assert found.worth[0] == 0


def test_critical_values_of_equal_different_and_missing_comparisons() -> None:
    whole = drawn(6, family=3)
    few = drawn(6, family=8)
    few.people[3:, np.flatnonzero(~np.isnan(few.people[3]))[9:]] = 0.0
    few.people[:3], few.judge[:3] = whole.people, whole.judge
    beside, alone = inferred(few).inference, inferred(whole).inference
    assert np.isnan(beside.low[3:]).all()
    for numbers in ("low", "high", "p_corrected"):
        np.testing.assert_allclose(getattr(beside, numbers)[:3], getattr(alone, numbers))
    one = drawn(7)
    twins = TwoPhaseSample(np.repeat(one.people, 8, axis=0), np.repeat(one.judge, 8, axis=0))
    alone = inferred(one).inference.criticals[0]
    assert inferred(twins, flips=20_000).inference.criticals == pytest.approx(np.full(8, alone), rel=0.03)
    many = drawn(8, family=8, people=300, more=20)
    sidak = stats.norm.ppf(1 - (1 - 0.95 ** (1 / 8)) / 2)
    assert inferred(many, flips=20_000).inference.criticals == pytest.approx(np.full(8, sidak), rel=0.05)


def test_queries_without_the_judge_are_left_out_and_ten_differences_needed() -> None:
    sample = drawn(9)
    (gone,) = np.flatnonzero(~np.isnan(sample.people[0]))[:1]
    sample.judge[0, gone] = np.nan
    assert inferred(sample).inference.n[0] == 29
    sample = drawn(5)
    known = np.flatnonzero(~np.isnan(sample.people[0]))
    sample.people[0, known[9:]] = 0.0
    found = inferred(sample).inference
    assert np.isnan([found.low[0], found.high[0], found.p[0]]).all()
    assert found.claims[0] == 0
    for shared in (2, 1):  # one question shows no bias
        sample.judge[0, known[shared:]] = np.nan
        errors = (sample.judge - sample.people)[0, known[:shared]]
        np.testing.assert_allclose(inferred(sample).bias[0], errors.mean() if shared == 2 else np.nan)


def test_intervals_of_clusters_hold_where_those_of_independent_queries_do_not() -> None:
    """15 clusters of 8 queries, correlation 0.3 within; people judged half of the queries."""
    clusters, held = np.repeat(np.arange(15), 8), np.zeros(2)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        y, more = np.sqrt(0.3) * rng.standard_normal((2, 15))[:, clusters] + np.sqrt(0.7) * rng.standard_normal(
            (2, 120)
        )
        people = np.where(rng.permutation(120) < 60, y, np.nan)[None]
        judge = (0.8 * y + 0.6 * more)[None]
        for place, own in enumerate((None, clusters)):
            found = inferred(TwoPhaseSample(people, judge, own), flips=100).inference
            held[place] += found.low[0] <= 0 <= found.high[0]
        assert found.criticals[0] >= stats.t.ppf(0.975, 14) - 1e-9
    assert held[0] / 200 < 0.85
    assert held[1] / 200 >= 0.92
