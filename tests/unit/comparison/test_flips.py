"""Sign flips: p and critical values agree with scipy, and with brute force."""

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from family_strategies import against_first
from ragtrial.comparison.statistics import flips
from ragtrial.comparison.statistics.samples import DrawResult, Family, Procedure, Sample

Floats = npt.NDArray[np.float64]


def bounds_of(family: Family) -> DrawResult:
    (bounds,) = flips.flipped([Sample(family)], Procedure())
    return bounds


def studentised(differences: Floats) -> Floats:
    """|t| of each row, by the book."""
    error = differences.std(axis=-1, ddof=1) / np.sqrt(differences.shape[-1])
    return np.asarray(np.abs(differences.mean(axis=-1)) / error)


def every_flip(differences: Floats) -> Floats:
    """|t| of each comparison in each of all flips, one flip at a time."""
    return np.array([studentised(differences * signs) for signs in product((1.0, -1.0), repeat=differences.shape[1])])


@pytest.mark.parametrize("seed", range(3))
def test_all_flips_give_the_p_of_scipys_permutation_test(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.normal(0.5, 1, 12), rng.normal(0, 1, 12)
    theirs = stats.permutation_test(
        (left, right),
        lambda first, second, axis: stats.ttest_rel(first, second, axis=axis).statistic,
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    )
    found = bounds_of(Family(np.array([right, left]), against_first(1)))
    assert found.p[0] == pytest.approx(theirs.pvalue, abs=1e-12)


@pytest.mark.parametrize("kind", ["normal", "hits"])
def test_p_corrected_is_the_share_of_all_flips_whose_largest_statistic_reaches_it(kind: str) -> None:
    rng = np.random.default_rng(3)
    differences = rng.normal(0.5, 1, (3, 10))
    if kind == "hits":
        differences = rng.choice([-1.0, 1.0], (3, 10), p=[0.3, 0.7])
    observed, found = studentised(differences), bounds_of(Family(differences))
    with np.errstate(divide="ignore"):
        plain = every_flip(differences)
        centred = every_flip(differences - differences.mean(axis=1, keepdims=True))
    np.testing.assert_allclose(found.p, (plain >= observed * (1 - 1e-9)).mean(axis=0))
    reached = [(flipped.max(axis=1) >= observed[:, None] * (1 - 1e-9)).mean(axis=1) for flipped in (plain, centred)]
    np.testing.assert_allclose(found.p_corrected, np.maximum(*reached))
    allowed = int(0.05 * 1024)
    critical = max(np.sort(flipped.max(axis=1))[-1 - allowed] for flipped in (plain, centred))
    np.testing.assert_allclose(found.criticals, critical, rtol=1e-6)


@pytest.mark.parametrize("shift", [0.1, 0.4, 0.8, 1.5, 1e4])
def test_one_comparisons_critical_value_goes_from_that_of_its_test_to_that_of_its_scatter(shift: float) -> None:
    differences = np.random.default_rng(0).normal(0, 1, (1, 12)) + shift
    plain, centred = (
        float(np.sort(every_flip(one_kind)[:, 0])[-1 - int(0.05 * 4096)])
        for one_kind in (differences, differences - differences.mean())
    )
    observed = float(studentised(differences)[0])
    between = observed * centred / (observed + centred - plain) if observed > plain else plain
    assert plain != pytest.approx(centred, rel=1e-3)
    assert bounds_of(Family(differences)).criticals[0] == pytest.approx(between, rel=1e-6)


@pytest.mark.parametrize("size", [2.0**-8, 2.0**-20, 2.0**-36 + 2.0**-52])
def test_near_clones_lose_no_digits_to_the_columns_they_differ_in(size: float) -> None:
    rng = np.random.default_rng(5)
    baseline, values = 1 + rng.random(12) / 2, rng.choice([-3.0, -1.0, 1.0, 2.0], 12)
    columns = np.array([np.zeros(12), baseline, values * size, values * size])
    found = bounds_of(Family(columns, np.array([[2, 0], [3, 0]])))
    whole = every_flip(values[None])[:, 0]
    expected = (whole >= studentised(values[None]) * (1 - 1e-9)).mean()
    np.testing.assert_allclose(found.p, expected)
    near = Family(np.array([baseline, baseline + values * size]), against_first(1))
    assert bounds_of(near).p[0] == pytest.approx(expected)


def test_flips_are_signs_each_as_often_as_the_other_and_without_repetition() -> None:
    drawn = np.vstack(list(flips._signs(100, Procedure(flips=5000), 700)))
    assert set(np.unique(drawn)) == {-1.0, 1.0}
    assert np.abs(drawn.mean(axis=0)).max() < 4.5 / np.sqrt(5000)
    assert np.abs(np.corrcoef(drawn.T) - np.eye(100)).max() < 5 / np.sqrt(5000)
    assert len({row.tobytes() for row in drawn}) == 5000
    every = np.vstack(list(flips._signs(8, Procedure(flips=256), 100)))
    assert len({tuple(row) for row in every}) == len(every) == 256
