"""Rankings joined with judgments: which hit has which grade, and what a query's labels allow at most."""

import re
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ragtrial.errors import CutoffError
from ragtrial.evaluation.bounds import attainable
from ragtrial.evaluation.grading import DocumentLabels, Scores, grade
from ragtrial.evaluation.metrics import Metric
from ragtrial.rankings import PADDING, from_rows
from ragtrial.records import Judgment, Query
from ragtrial.runs.qrels import Judgments
from scenarios import OF_DOCUMENTS, Scenario, hit_grades, hit_places, judged_grades, relevant_hits, scores
from strategies import labels, metric_called, rankings, scenarios


def query(name: str, *judgments: tuple[str, int], ordered: bool = False) -> Query:
    return Query(name, "?", tuple(Judgment(doc, relevance) for doc, relevance in judgments), ordered=ordered)


def test_places_follow_the_threshold_and_the_highest_grade_of_a_document() -> None:
    labels = query("q", ("a", 1), ("b", 2), ("c", 3))
    graded = grade(from_rows([[2, 1, 0]]), ["a", "b", "c"], [labels], depth=3, threshold=2)
    assert hit_places(graded) == [[1, 0, None]]
    assert relevant_hits(graded, 3) == [[True, True, False]]
    assert graded.relevant_counts.tolist() == [2]
    labels = query("q", ("a", 1), ("b", 1), ("a", 3), ("a", 2))
    graded = grade(from_rows([[1, 0]]), ["a", "b"], [labels], depth=2)
    assert hit_grades(graded) == [[1, 3]]
    assert hit_places(graded) == [[1, 0]]
    assert graded.relevant_counts.tolist() == [2]
    assert judged_grades(graded) == [[3, 1]]
    with pytest.raises(ValueError, match=re.escape("2 rankings for 1 queries")):
        grade(from_rows([[0], [0]]), ["a"], [query("q")], depth=1)


@pytest.mark.parametrize(
    ("grades", "relevant", "best"),
    [([], 0, 0), ([0, 0], 0, 0), ([-1, -2], 0, 0), ([-1, 0, 1], 1, 1), ([3, 1, 3], 3, 3)],
)
def test_zero_and_negative_grades_are_judged_and_not_relevant(grades: list[int], relevant: int, best: int) -> None:
    labels = query("q", *((f"d{index}", value) for index, value in enumerate(grades)))
    graded = grade(from_rows([[]]), [], [labels], depth=1)
    assert graded.relevant_counts.tolist() == [relevant]
    assert graded.judgments.best.tolist() == [best]
    assert judged_grades(graded) == [sorted(grades, reverse=True)]


def test_codes_are_joined_with_the_judgments_of_their_query_alone() -> None:
    rankings = from_rows([[4, 2, 9], [2, 4], [7, 8, 9, 10]])
    judged = np.array([2, 4, PADDING, 9, 2, 10], dtype=np.int32)
    judgments = Judgments(np.array([0, 3, 5, 6]), np.arange(6, dtype=np.int32), np.zeros(3, dtype=np.bool_))
    graded = DocumentLabels(judgments, judged).grade(rankings, 4)
    assert graded.starts.tolist() == [0, 2, 3, 4]
    assert graded.ranks.tolist() == [1, 2, 1, 4]
    assert graded.indices.tolist() == [1, 0, 4, 5]
    unjudged = Judgments(np.zeros(4, dtype=np.int64), np.empty(0, dtype=np.int32), np.zeros(3, dtype=np.bool_))
    assert DocumentLabels(unjudged, judged[:0]).grade(rankings, 4).starts.tolist() == [0, 0, 0, 0]


@given(scenarios(), st.integers(1, 12))
def test_the_join_is_a_look_up_of_each_name(case: Scenario, depth: int) -> None:
    graded = case.graded(depth)
    for index, (ranking, grades) in enumerate(zip(case.rankings, case.labels, strict=True)):
        kept = ranking[:depth]
        relevant = [name for name, value in grades.items() if value >= 1]
        assert hit_grades(graded)[index] == [grades.get(name) for name in kept]
        assert hit_places(graded)[index] == [relevant.index(name) if name in relevant else None for name in kept]
        assert graded.lengths[index] == len(kept)
        assert judged_grades(graded)[index] == sorted(grades.values(), reverse=True)
    assert (np.diff(graded.ranks)[np.diff(graded.rows) == 0] > 0).all()


@pytest.mark.parametrize("k", [0, -1])
def test_a_cutoff_below_one_is_refused(k: int) -> None:
    graded = grade(from_rows([[0]]), ["d"], [Query("q", "t", (Judgment("d"),))], depth=5)
    with pytest.raises(CutoffError, match=rf"^k is {k}; it must be at least 1\.$"):
        graded.within(k)
    with pytest.raises(CutoffError, match=rf"^k is {k}; it must be at least 1\.$"):
        graded.retrieved(k)


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
