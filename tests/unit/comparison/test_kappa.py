"""Agreement of raters, checked against scikit-learn and statsmodels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa

from ragtrial.comparison.statistics.estimates import confusion, weighted_kappa

GRADES = (0, 1, 2, 3)
pairs_of_grades = st.lists(st.tuples(st.sampled_from(GRADES), st.sampled_from(GRADES)), min_size=2, max_size=60)


@given(pairs_of_grades)
def test_kappa_is_that_of_scikit_learn_and_its_interval_that_of_statsmodels(pairs: list[tuple[int, int]]) -> None:
    one, other = zip(*pairs, strict=True)
    assume(len(set(one)) > 1 and len(set(other)) > 1)
    found = weighted_kappa(confusion(pairs, GRADES), GRADES)
    assert found is not None
    assert found.value == pytest.approx(cohen_kappa_score(one, other, weights="quadratic", labels=GRADES), abs=1e-9)
    theirs: Any = cohens_kappa(confusion(pairs, GRADES), wt="quadratic")
    assert (found.value, found.low, found.high) == pytest.approx(
        (theirs.kappa, theirs.kappa_low, theirs.kappa_upp), abs=1e-6 if theirs.var_kappa < 1e-12 else 1e-9
    )


def test_one_grade_for_everything_leaves_no_kappa() -> None:
    assert weighted_kappa(confusion([(0, 1), (0, 2), (0, 0)], GRADES), GRADES) is None


def test_a_confusion_has_the_first_rater_in_rows() -> None:
    assert confusion([(0, 2), (0, 2), (1, 1)], (0, 1, 2)).tolist() == [[0, 0, 2], [0, 1, 0], [0, 0, 0]]


def test_grades_that_are_missing_in_between_count_by_their_distance() -> None:
    found = weighted_kappa(np.array([[5, 1], [2, 4]]), (0, 3))
    binary = weighted_kappa(np.array([[5, 1], [2, 4]]), (0, 1))
    assert found == binary
