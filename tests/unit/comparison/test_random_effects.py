"""Effects over data sets: as statsmodels combines them, and intervals that hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from statsmodels.stats.meta_analysis import combine_effects

from ragtrial.comparison.statistics.estimates import combined_effect

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


@pytest.mark.parametrize("data_sets", [2, 3, 6])
def test_intervals_hold_the_mean_of_data_sets_like_these(data_sets: int) -> None:
    rng, held = np.random.default_rng(data_sets), 0
    for _ in range(2000):
        variances = rng.uniform(0.0002, 0.001, data_sets)
        effects = rng.normal(rng.normal(0.02, 0.03, data_sets), np.sqrt(variances))
        found = combined_effect(effects, variances, 0.05)
        held += found.low <= 0.02 <= found.high
    assert held / 2000 >= 0.935


def test_effects_that_agree_are_combined_as_fixed_ones() -> None:
    """By hand: weights 100 and 300 give (100 * 0.1 + 300 * 0.1) / 400, and a standard error of 1 / 20."""
    found = combined_effect(np.array([0.1, 0.1]), np.array([0.01, 1 / 300]), 0.05)
    assert found.mean == pytest.approx(0.1)
    assert found.spread == 0
    assert found.high - found.mean == pytest.approx(12.706205 / 20)  # Student's t with one degree of freedom
