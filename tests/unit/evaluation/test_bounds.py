"""Bounds under unjudged hits are the extremes over all ways in which those hits could have been judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtrial.errors import CutoffError, MetricError
from ragtrial.evaluation.bounds import Bounds, bounds, why_unbounded
from ragtrial.evaluation.grading import GradedRankings
from ragtrial.evaluation.metrics import METRICS, Metric, parse_metric
from scenarios import OF_DOCUMENTS, Scenario, scenario, scores
from strategies import DOCUMENTS, UNRETRIEVABLE, parameters_of, scenarios

BOUNDED = [name for name in OF_DOCUMENTS if not METRICS[name].unbounded]
UNBOUNDED = [name for name in OF_DOCUMENTS if METRICS[name].unbounded]

MOST_HITS = 8
cutoffs = st.integers(1, MOST_HITS + 2)


def of(metric: Metric, graded: GradedRankings) -> Bounds:
    found = bounds(metric, graded)
    assert found is not None
    return found


@st.composite
def metrics_with_bounds(draw: st.DrawFn) -> list[Metric]:
    """Each metric that has bounds, with any parameters, with and without a cutoff where it can be either."""
    k = draw(cutoffs)
    metrics = []
    for name in BOUNDED:
        definition = METRICS[name]
        given = tuple(one for one in draw(parameters_of(definition)) if one[0] != "judged_only")
        cuts = {"required": (k,), "optional": (k, None), "none": (None,)}[definition.cut]
        metrics += [Metric(name, cut, given) for cut in cuts]
    return metrics


@st.composite
def partly_judged(draw: st.DrawFn) -> tuple[Scenario, int]:
    """One query, labels with one grade above 0, and that grade; relevant hits on top now and then."""
    ranking = tuple(draw(st.permutations(DOCUMENTS))[: draw(st.integers(0, MOST_HITS))])
    grade = draw(st.integers(1, 3))
    names = draw(st.lists(st.sampled_from(ranking + UNRETRIEVABLE), unique=True, max_size=4))
    on_top = dict.fromkeys(ranking[: draw(st.integers(0, 3))], grade)
    labels = {**{name: draw(st.sampled_from((-1, 0, grade))) for name in names}, **on_top}
    return Scenario((ranking,), (labels,), (True,)), grade


def every_labelling(case: Scenario, free: Sequence[str], grade: int) -> Scenario:
    """The query once for each way of giving the free documents the grade or leaving them as they are."""
    return labelled(
        case,
        [
            {name: grade for name, is_relevant in zip(free, chosen, strict=True) if is_relevant}
            for chosen in product((False, True), repeat=len(free))
        ],
    )


def labelled(case: Scenario, more: Sequence[Mapping[str, int]]) -> Scenario:
    """The one query of a scenario once for each of these further labels."""
    return Scenario(case.rankings * len(more), tuple({**case.labels[0], **one} for one in more), (True,) * len(more))


@pytest.mark.slow
@settings(max_examples=150)
@given(drawn=partly_judged(), metrics=metrics_with_bounds(), pooled=st.booleans(), threshold=st.integers(-1, 3))
def test_bounds_are_the_extremes(
    drawn: tuple[Scenario, int], metrics: list[Metric], pooled: bool, threshold: int
) -> None:
    case, grade = drawn
    graded = replace(case.graded(threshold=threshold), pooled=pooled)
    (ranking,), (labels,) = case.rankings, case.labels
    unjudged_hits = [name for name in ranking if name not in labels or (pooled and labels[name] < 0)]
    for metric in metrics:
        assumed = grade if metric.name == "ndcg" else int(dict(metric.parameters).get("rel", threshold))
        completed = every_labelling(case, unjudged_hits, assumed).graded(threshold=threshold)
        all_scores = scores(metric, replace(completed, pooled=pooled))
        found = of(metric, graded)
        assert found.low == pytest.approx([all_scores.min()], abs=1e-12), metric
        assert found.high == pytest.approx([all_scores.max()], abs=1e-12), metric


@pytest.mark.slow
@pytest.mark.parametrize("spelling", [f"{name}@{k}" for name in ("ap", "ndcg") for k in (10, 45, 58, 60)])
@settings(max_examples=25)
@given(
    relevant=st.sets(st.integers(0, 59), max_size=3), failed=st.sets(st.integers(0, 59), max_size=9),
    top=st.integers(0, 4), some=st.sets(st.integers(0, 59)),
)  # fmt: skip
def test_in_long_rankings_the_extremes_lie_where_the_highest_or_the_lowest_hits_are_relevant(
    spelling: str, relevant: set[int], failed: set[int], top: int, some: set[int]
) -> None:
    """The turn between few and many relevant hits comes late; any other labelling lies between."""
    ranking = tuple(f"d{place}" for place in range(60))
    known = {**{f"d{place}": 0 for place in failed}, **{f"d{place}": 1 for place in relevant | set(range(top))}}
    case = Scenario((ranking,), (known,), (True,))
    free = [name for name in ranking if name not in known]
    highest = [dict.fromkeys(free[:most], 1) for most in range(len(free) + 1)]
    lowest = [dict.fromkeys(free[least:], 1) for least in range(len(free) + 1)]
    metric = parse_metric(spelling)
    found = of(metric, case.graded(depth=60))
    assert found.low == pytest.approx([scores(metric, labelled(case, lowest).graded(depth=60)).min()], abs=1e-12)
    assert found.high == pytest.approx([scores(metric, labelled(case, highest).graded(depth=60)).max()], abs=1e-12)
    other = labelled(case, [{f"d{place}": 1 for place in some if f"d{place}" in free}]).graded(depth=60)
    assert found.low[0] - 1e-12 <= scores(metric, other)[0] <= found.high[0] + 1e-12


@given(case=scenarios(grades=st.sampled_from((-1, 0, 2))), metrics=metrics_with_bounds())
def test_where_every_hit_is_judged_both_ends_are_the_score(case: Scenario, metrics: list[Metric]) -> None:
    judged = replace(case, labels=tuple({**dict.fromkeys(DOCUMENTS, 0), **labels} for labels in case.labels))
    graded = judged.graded()
    for metric in metrics:
        found, score = of(metric, graded), scores(metric, graded)
        assert found.low.tolist() == score.tolist() == found.high.tolist(), metric


def test_hits_below_a_cut_of_the_ranking_were_not_retrieved() -> None:
    graded = scenario(("a x y z", "a")).graded()
    assert of(parse_metric("recall@1"), graded).low.tolist() == [1 / 4]
    assert of(parse_metric("recall@1"), graded.cut(2)).low.tolist() == [1 / 2]


def test_every_metric_has_bounds_or_a_reason_why_not() -> None:
    """A new metric: name the structure of its value, or say in ``unbounded`` why it has no bounds."""
    for name in OF_DOCUMENTS:
        assert (METRICS[name].structure is None) <= bool(METRICS[name].unbounded), name


@pytest.mark.parametrize("name", UNBOUNDED)
def test_a_metric_without_bounds_has_none_and_a_sentence_that_says_why(name: str) -> None:
    metric = Metric(name, None if METRICS[name].cut == "none" else 2)
    graded = scenario(("a x", "a")).graded()
    assert bounds(metric, graded) is None
    assert why_unbounded(metric, graded) == METRICS[name].unbounded
    assert METRICS[name].unbounded.endswith(".")


@pytest.mark.parametrize(
    ("spelling", "why"),
    [
        ("ndcg@2", "the labels have more than one gain, and which of them an unjudged hit would get is not known."),
        ("ap(judged_only=true)@2",
         "judged_only drops the unjudged hits; what they would score can be said of the metric without it."),
        ("ap@2", None),
    ],
)  # fmt: skip
def test_several_gains_and_dropped_hits_leave_no_bounds(spelling: str, why: str | None) -> None:
    graded = scenario(("a x", {"a": 1}), ("b", {"b": 2})).graded()
    assert (bounds(parse_metric(spelling), graded) is None, why_unbounded(parse_metric(spelling), graded)) == (
        why is not None, why,
    )  # fmt: skip


def test_a_cutoff_that_the_score_could_not_have_has_no_bounds_either() -> None:
    graded = scenario(("a x", "a")).graded(depth=2)
    with pytest.raises(CutoffError):
        bounds(parse_metric("ap@3"), graded)
    with pytest.raises(MetricError):
        bounds(parse_metric("precision"), graded)
