"""Flips and resamples together: p, interval and critical value agree with one another, and with plain loops."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from family_strategies import against_first, families
from ragtrial.comparison.statistics import flips, samples
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Family, Inference, Procedure

Floats = npt.NDArray[np.float64]
QUICK = Procedure(flips=400)


def one(family: Family, procedure: Procedure = QUICK) -> Inference:
    (made,) = infer([family], procedure)
    return made


def of(differences: Sequence[Sequence[float]] | Floats) -> Family:
    made = np.atleast_2d(np.asarray(differences, dtype=np.float64))
    return Family(made)


def same(left: Inference, right: Inference) -> None:
    for name in ("n", "differing", "mean", "deviation", "p", "p_corrected", "low", "high", "claims", "criticals"):
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=1e-7, err_msg=name)


@pytest.mark.parametrize("queries", [30, 60, 300])
@pytest.mark.parametrize("shift", [0.0, 0.4, 4.0])
def test_one_comparison_has_nearly_the_t_interval(queries: int, shift: float) -> None:
    differences = np.random.default_rng(queries).normal(shift, 1, queries)
    found, theirs = one(of(differences), Procedure()), stats.ttest_1samp(differences, 0).confidence_interval()
    assert found.high[0] - found.low[0] == pytest.approx(theirs.high - theirs.low, rel=0.06)
    assert (found.high[0] + found.low[0]) / 2 == pytest.approx(differences.mean())


def test_columns_differences_and_queries_that_do_not_count_lead_to_the_same_numbers() -> None:
    rng = np.random.default_rng(4)
    columns = rng.random((5, 50))
    columns[3] = columns[1]
    columns[3, :12] += 1e-5 * rng.standard_normal(12)
    pairs = np.vstack([against_first(4), [[1, 3]]])
    whole = one(Family(columns, pairs))
    same(whole, one(of(columns[pairs[:, 0]] - columns[pairs[:, 1]])))
    wider = np.insert(columns, 7, np.nan, axis=1)
    shorter = np.delete(columns, range(20), axis=1)
    holed = columns.copy()
    holed[:, :20] = np.nan
    gone = one(Family(holed, pairs))
    assert gone.n.tolist() == [30] * 5
    np.testing.assert_allclose(gone.mean, one(Family(shorter, pairs)).mean)
    assert one(Family(wider, pairs)).n.tolist() == [50] * 5
    scattered = holed.copy()
    scattered[4, 30] = np.nan
    some = one(Family(scattered, pairs))
    assert some.n.tolist() == [30, 30, 30, 29, 30]
    np.testing.assert_allclose(some.p[:3], gone.p[:3])


@settings(max_examples=150, deadline=None)
@given(families(), st.sampled_from([0.05, 0.2, 0.01]))
def test_p_corrected_is_at_most_the_level_exactly_where_the_interval_leaves_out_0(family: Family, level: float) -> None:
    found = one(family, Procedure(level=level, flips=400))
    tested = found.differing >= LEAST_DIFFERENCES
    assert (np.isnan(found.p_corrected) == ~tested).all()
    assert (np.isnan(found.low) == ~tested).all()
    leaves_out = (found.low > 0) | (found.high < 0)
    assert ((found.p_corrected <= level) == leaves_out)[tested].all()
    assert (found.claims == np.where(leaves_out, np.sign(found.mean), 0)).all()
    assert (found.p <= found.p_corrected)[tested].all()
    assert (found.p > 0)[tested].all()
    assert (found.p_corrected <= 1)[tested].all()
    assert ((found.low <= found.mean) & (found.mean <= found.high))[tested].all()


@settings(max_examples=60, deadline=None)
@given(families(), st.sampled_from([2.0**-900, 1e-7, 3.0, 1e120]))
def test_another_unit_changes_ends_and_means_in_proportion_and_no_p(family: Family, unit: float) -> None:
    largest = np.nanmax(np.abs(family.columns), initial=0.0)
    if not 1e-250 < largest * unit < 1e250:
        unit = 1 / 3
    left, right = one(family), one(Family(family.columns * unit, family.pairs))
    np.testing.assert_allclose(left.p, right.p, atol=2.1 / 400)
    np.testing.assert_allclose(left.p_corrected, right.p_corrected, atol=2.1 / 400)
    np.testing.assert_allclose(left.mean * unit, right.mean, rtol=1e-6, atol=largest * unit * 1e-11)


@settings(max_examples=60, deadline=None)
@given(families())
def test_the_other_way_round_each_comparison_mirrors(family: Family) -> None:
    assert family.pairs is not None
    left, right = one(family), one(Family(family.columns, family.pairs[:, ::-1]))
    np.testing.assert_array_equal(left.p, right.p)
    np.testing.assert_array_equal(left.p_corrected, right.p_corrected)
    np.testing.assert_allclose(left.low, -right.high)
    np.testing.assert_array_equal(left.claims, -right.claims)


def test_a_seed_gives_the_same_numbers_in_any_blocks_and_families(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    family, other = of(rng.normal(0.2, 1, (4, 70))), of(rng.normal(0, 1, (9, 70)))
    alone = one(family)
    beside = infer([other, family, of(np.zeros((2, 70)))], QUICK)
    same(alone, beside[1])
    monkeypatch.setattr(flips, "_BLOCK_VALUES", 700)
    monkeypatch.setattr(flips, "_CACHED_VALUES", 1000)
    same(alone, one(family))
    changed = one(family, Procedure(flips=400, seed=1))
    assert (changed.p_corrected != alone.p_corrected).any()


@pytest.mark.parametrize("differing", [0, 1, LEAST_DIFFERENCES - 1, LEAST_DIFFERENCES])
def test_fewer_than_ten_differences_are_neither_tested_nor_part_of_the_family(differing: int) -> None:
    rng = np.random.default_rng(9)
    whole = rng.normal(0.5, 1, 50)
    few = np.zeros(50)
    few[:differing] = 1.0
    found = one(of(np.array([whole, few])))
    assert found.differing.tolist() == [50, differing]
    assert np.isnan(found.p[1]) == np.isnan(found.high[1]) == (differing < LEAST_DIFFERENCES)
    assert found.mean[1] == pytest.approx(differing / 50)
    if differing < LEAST_DIFFERENCES:
        np.testing.assert_allclose(found.p_corrected[0], one(of(whole)).p[0])


def test_no_and_one_query_are_no_test_and_equal_differences_have_no_width() -> None:
    nothing = one(Family(np.full((2, 6), np.nan), against_first(1)))
    assert (nothing.n[0], nothing.differing[0]) == (0, 0)
    assert np.isnan([nothing.mean[0], nothing.low[0], nothing.p[0]]).all()
    empty = one(Family(np.empty((2, 0)), against_first(1)))
    assert empty.n.tolist() == [0]
    single = one(Family(np.array([[0.0], [1.0]]), against_first(1)))
    assert (single.n[0], single.mean[0]) == (1, 1.0)
    assert np.isnan([single.deviation[0], single.low[0], single.p[0]]).all()
    assert infer([], QUICK) == []
    found = one(of(np.full((1, 20), 0.25)))
    assert (found.low[0], found.high[0], found.deviation[0], found.claims[0]) == (0.25, 0.25, 0.0, 1)
    assert found.p[0] == pytest.approx(1 / 401)


@pytest.mark.parametrize("seed", range(5))
def test_the_skewness_is_that_of_scipy_over_the_queries_that_count(seed: int) -> None:
    values = np.random.default_rng(seed).exponential(size=(2, 40))
    values[0, :9] = np.nan
    (found,) = infer([Family(1e-9 * np.vstack([values, np.full(40, 0.25)]))], Procedure(flips=99))
    assert found.skewness[:2] == pytest.approx(stats.skew(values, axis=1, nan_policy="omit"))
    assert found.skewness[2] == 0.0


@pytest.mark.parametrize(("values_at_once", "blocks"), [(1, 7), (100, 4)])
def test_the_size_of_blocks_is_no_matter(values_at_once: int, blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    family = Family(np.random.default_rng(5).random((8, 40)), against_first(7))
    whole = one(family)
    monkeypatch.setattr(samples, "_BLOCK_VALUES", values_at_once)
    assert len(list(family.blocks())) == blocks
    same(whole, one(family))
