"""The procedure does not contradict its own numbers, however the comparisons are divided."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from family_strategies import against_first, families
from ragtrial.comparison.statistics import samples
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Family, Inference, Procedure

FLIPS = Procedure(flips=2000)


def family(seed: int, settings_: int = 6, queries: int = 40) -> Family:
    """Settings that are better by 0, 0.1, 0.2 and so on, over queries of which some are harder."""
    rng = np.random.default_rng(seed)
    columns = rng.random(queries) + rng.normal(0, 0.3, (settings_, queries))
    return Family(columns + 0.08 * np.arange(settings_)[:, None], against_first(settings_ - 1))


def inferred(given_family: Family, procedure: Procedure = FLIPS) -> Inference:
    (inference,) = infer([given_family], procedure)
    return inference


@settings(max_examples=25, deadline=None)
@given(given_family=families(most_queries=25), seed=st.integers(0, 3))
def test_the_procedure_does_not_contradict_its_own_numbers(given_family: Family, seed: int) -> None:
    procedure = Procedure(level=0.1, flips=199, seed=seed)
    found = inferred(given_family, procedure)
    untested = found.differing < LEAST_DIFFERENCES
    assert (found.claims[untested] == 0).all()
    for numbers in (found.p, found.p_corrected, found.low, found.high, found.criticals):
        assert numbers.shape == found.n.shape
        assert np.isnan(numbers[untested]).all()
    left_out = np.where((found.low > 0) | (found.high < 0), np.sign(found.mean), 0)
    np.testing.assert_array_equal(found.claims != 0, found.p_corrected <= procedure.level)
    np.testing.assert_array_equal(found.claims, left_out)
    again = inferred(given_family, procedure)
    np.testing.assert_array_equal(found.low, again.low)
    np.testing.assert_array_equal(found.p_corrected, again.p_corrected)


def test_comparisons_without_an_interval_change_nothing_for_the_others() -> None:
    whole = family(2)
    few = np.random.default_rng(2).normal(size=(4, 40)) * (np.arange(40) < LEAST_DIFFERENCES - 1)
    beside, alone = inferred(Family(np.vstack([whole.differences(), few]))), inferred(whole)
    assert np.isnan(beside.low[5:]).all()
    for numbers in ("low", "high", "p", "p_corrected"):
        np.testing.assert_allclose(getattr(beside, numbers)[:5], getattr(alone, numbers))


@pytest.mark.parametrize("values_at_once", [1, 100])
def test_how_many_comparisons_are_looked_at_at_once_changes_no_number(
    values_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_family = family(5, settings_=8)
    whole = inferred(given_family)
    monkeypatch.setattr(samples, "_BLOCK_VALUES", values_at_once)
    assert len(list(given_family.blocks())) == {1: 7, 100: 4}[values_at_once]
    in_blocks = inferred(given_family)
    for field in ("n", "differing", "mean", "deviation", "skewness", "p", "p_corrected", "low", "high", "claims"):
        np.testing.assert_array_equal(getattr(in_blocks, field), getattr(whole, field))
