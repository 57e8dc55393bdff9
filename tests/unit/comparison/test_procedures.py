"""The procedures on request equal those of scipy and statsmodels, and none contradicts its own numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from family_strategies import against_first, families
from ragtrial.comparison.statistics import samples
from ragtrial.comparison.statistics.procedures import PROCEDURES, infer, infer_by
from ragtrial.comparison.statistics.samples import DEFAULT, LEAST_DIFFERENCES, Family, Inference, Procedure
from ragtrial.errors import ReportError

Floats = npt.NDArray[np.float64]
FLIPS = Procedure(flips=2000)


def family(seed: int, settings_: int = 6, queries: int = 40) -> Family:
    """Settings that are better by 0, 0.1, 0.2 and so on, over queries of which some are harder."""
    rng = np.random.default_rng(seed)
    columns = rng.random(queries) + rng.normal(0, 0.3, (settings_, queries))
    return Family(columns + 0.08 * np.arange(settings_)[:, None], against_first(settings_ - 1))


def one(name: str, given_family: Family, procedure: Procedure = FLIPS) -> Inference:
    (made,) = infer_by([given_family], replace(procedure, name=name))
    return made


def t_tests(given_family: Family) -> Floats:
    return np.array([stats.ttest_1samp(row, 0).pvalue for row in given_family.differences()])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_t_tests_and_their_corrections_are_those_of_scipy_and_statsmodels(seed: int) -> None:
    given_family = family(seed)
    found, p = one("t-holm", given_family), t_tests(given_family)
    np.testing.assert_allclose(found.p, p)
    refused, corrected, *_ = multipletests(p, 0.05, "holm")
    np.testing.assert_allclose(found.p_corrected, corrected)
    np.testing.assert_array_equal(found.claims != 0, refused)


def test_intervals_beside_holm_are_bonferronis() -> None:
    given_family = family(1)
    found = one("t-holm", given_family)
    for row, differences in enumerate(given_family.differences()):
        theirs = stats.ttest_1samp(differences, 0).confidence_interval(1 - 0.05 / 5)
        assert (found.low[row], found.high[row]) == pytest.approx((theirs.low, theirs.high))


def test_bootstrap_intervals_are_scipys_bca() -> None:
    given_family = family(3)
    found = one("bootstrap", given_family)
    for row, differences in enumerate(given_family.differences()):
        theirs = stats.bootstrap(
            (differences,), np.mean, n_resamples=2000, method="BCa", rng=np.random.default_rng(0)
        ).confidence_interval
        assert (found.low[row], found.high[row]) == pytest.approx((theirs.low, theirs.high))
    assert np.isnan(found.p_corrected).all()
    np.testing.assert_array_equal(found.claims, (found.low > 0).astype(int) - (found.high < 0))


def test_bootstrap_of_equal_differences_has_an_interval_of_no_width_and_no_warning() -> None:
    found = one("bootstrap", Family(np.full((1, 12), -0.5)))
    assert (found.low[0], found.high[0], found.claims[0]) == (-0.5, -0.5, -1)


@pytest.mark.parametrize("name", sorted(PROCEDURES))
@settings(max_examples=25, deadline=None)
@given(given_family=families(most_queries=25), seed=st.integers(0, 3))
def test_no_procedure_contradicts_its_own_numbers(name: str, given_family: Family, seed: int) -> None:
    procedure = Procedure(level=0.1, flips=199, seed=seed)
    found = one(name, given_family, procedure)
    untested = found.differing < LEAST_DIFFERENCES
    assert (found.claims[untested] == 0).all()
    for numbers in (found.p, found.p_corrected, found.low, found.high, found.criticals):
        assert numbers.shape == found.n.shape
        assert np.isnan(numbers[untested]).all()
    left_out = np.where((found.low > 0) | (found.high < 0), np.sign(found.mean), 0)
    if name == "max-t":
        np.testing.assert_array_equal(found.claims != 0, found.p_corrected <= procedure.level)
        np.testing.assert_array_equal(found.claims, left_out)
    elif name == "bootstrap":
        np.testing.assert_array_equal(found.claims, left_out)
    else:
        assert (found.p_corrected[found.claims != 0] <= procedure.level).all()
        assert (found.claims[left_out != 0] == left_out[left_out != 0]).all()
    again = one(name, given_family, procedure)
    np.testing.assert_array_equal(found.low, again.low)
    np.testing.assert_array_equal(found.p_corrected, again.p_corrected)


@pytest.mark.parametrize("name", PROCEDURES)
def test_comparisons_without_an_interval_change_nothing_for_the_others(name: str) -> None:
    whole = family(2)
    few = np.random.default_rng(2).normal(size=(4, 40)) * (np.arange(40) < LEAST_DIFFERENCES - 1)
    family_and_few = Family(np.vstack([whole.differences(), few]))
    beside, alone = one(name, family_and_few), one(name, whole)
    assert np.isnan(beside.low[5:]).all()
    for numbers in ("low", "high", "p", "p_corrected"):
        np.testing.assert_allclose(getattr(beside, numbers)[:5], getattr(alone, numbers))


def test_an_unknown_procedure_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ReportError) as caught:
        infer_by([], replace(FLIPS, name="bootstrp"))
    assert str(caught.value) == (
        "no procedure is called 'bootstrp'. Did you mean 'bootstrap'? There are: max-t, t-holm, bootstrap."
    )


def test_the_default_is_max_t_and_every_procedure_says_what_it_is() -> None:
    given_family = family(7)
    np.testing.assert_array_equal(one(DEFAULT, given_family).p_corrected, infer([given_family], FLIPS)[0].p_corrected)
    for name, card in PROCEDURES.items():
        assert name == card.name
        assert all(text.endswith(".") for text in (card.sentence, card.caveat))


def test_the_page_on_statistics_has_every_procedure_as_it_describes_itself(root: Path) -> None:
    page = (root / "docs" / "statistics.md").read_text(encoding="utf-8")
    for card in PROCEDURES.values():
        assert f"| `{card.name}` | {card.sentence} | {card.caveat} |" in page


@pytest.mark.parametrize("name", sorted(PROCEDURES))
@pytest.mark.parametrize("values_at_once", [1, 100])
def test_how_many_comparisons_are_looked_at_at_once_changes_no_number(
    name: str, values_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_family = family(5, settings_=8)
    whole = one(name, given_family)
    monkeypatch.setattr(samples, "_BLOCK_VALUES", values_at_once)
    assert len(list(given_family.blocks())) == {1: 7, 100: 4}[values_at_once]
    in_blocks = one(name, given_family)
    for field in ("n", "differing", "mean", "deviation", "skewness", "p", "p_corrected", "low", "high", "claims"):
        np.testing.assert_array_equal(getattr(in_blocks, field), getattr(whole, field))
