"""What is attainable is reached by an ideal ranking and beaten by none."""

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrial.evaluation.bounds import attainable
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import Metric
from scenarios import OF_DOCUMENTS, Scenario, scores
from strategies import labels, metric_called, rankings

LOWER_IS_BETTER = {"forbidden", "unjudged", "rbp_residual"}


def of(metric: Metric, case: Scenario, threshold: int = 1, *, skips_negatives: bool = False) -> Scores:
    return attainable(metric, case.graded().judgments, threshold, skips_negatives=skips_negatives)


@st.composite
def promising(draw: st.DrawFn) -> tuple[tuple[str, ...], dict[str, int]]:
    """Labels, and a ranking that is anything or puts judged documents first, the best at the top."""
    known = draw(labels())
    ranking = draw(rankings())
    judged = sorted((name for name in known if draw(st.booleans())), key=lambda name: -known[name])
    return draw(
        st.sampled_from((ranking, tuple(judged), (*judged, *(doc for doc in ranking if doc not in judged))))
    ), known


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_DOCUMENTS)
@given(data=st.data(), drawn=promising(), threshold=st.integers(1, 3), skips_negatives=st.booleans())
def test_no_ranking_beats_what_is_attainable(
    name: str, data: st.DataObject, drawn: tuple[tuple[str, ...], dict[str, int]], threshold: int, skips_negatives: bool
) -> None:
    metric = data.draw(metric_called(name))
    case = Scenario((drawn[0],), (drawn[1],), (True,))
    most = of(metric, case, threshold, skips_negatives=skips_negatives)
    (score,) = scores(metric, replace(case.graded(threshold=threshold), skips_negatives=skips_negatives))
    if name in LOWER_IS_BETTER:
        assert score >= most[0] - 1e-12
    else:
        assert score <= most[0] + 1e-12


@pytest.mark.parametrize("name", OF_DOCUMENTS)
@given(data=st.data(), known=labels(), threshold=st.integers(1, 3), skips_negatives=st.booleans())
def test_the_best_of_all_rankings_of_judged_documents_reaches_it(
    name: str, data: st.DataObject, known: dict[str, int], threshold: int, skips_negatives: bool
) -> None:
    metric = data.draw(metric_called(name))
    known = dict(list(known.items())[:4])
    tried = [order for size in range(len(known) + 1) for order in permutations(known, size)]
    case = Scenario(tuple(tried), (known,) * len(tried), (True,) * len(tried))
    reached = scores(metric, replace(case.graded(threshold=threshold), skips_negatives=skips_negatives))
    most = of(metric, case, threshold, skips_negatives=skips_negatives)
    assert (reached.min() if name in LOWER_IS_BETTER else reached.max()) == pytest.approx(most[0], abs=1e-12)
