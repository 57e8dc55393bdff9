"""What a search says before it begins: the difference that its questions can show."""

from __future__ import annotations

import pytest
from statsmodels.stats.power import TTestPower

from ragtrial.search.power import USUAL_DEVIATION, detectable_with


@pytest.mark.parametrize(("queries", "comparisons"), [(20, 1), (60, 1), (60, 40), (300, 100)])
def test_the_difference_is_that_of_a_t_test_corrected_for_the_comparisons(queries: int, comparisons: int) -> None:
    effect = TTestPower().solve_power(nobs=queries, alpha=0.05 / comparisons, power=0.8, alternative="two-sided")
    assert detectable_with(queries, comparisons) == pytest.approx(effect * USUAL_DEVIATION, rel=0.001)
