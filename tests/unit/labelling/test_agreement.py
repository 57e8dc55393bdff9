"""How alike two people grade: worked by hand, and as scikit-learn has it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from ragtrial.labelling.session.ending import FEWEST, agreement

GRADE = st.integers(0, 3)


@given(st.lists(st.tuples(GRADE, GRADE), min_size=FEWEST, max_size=30))
def test_kappa_is_that_of_another_library(pairs: list[tuple[int, int]]) -> None:
    found = agreement(pairs)
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    assert (found.n, found.alike) == (len(pairs), sum(map(int.__eq__, first, second)))
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert found.kappa is None
    else:
        labels = list(range(4))
        assert found.kappa == pytest.approx(cohen_kappa_score(first, second, labels=labels, weights="quadratic"))
    assert found.is_weighted == (len({*first, *second}) > 2)


def test_few_pairs_or_one_grade_alone_have_no_kappa() -> None:
    assert agreement([(0, 0), (1, 1)]).kappa is None
    assert agreement([(1, 1)] * 20).kappa is None
