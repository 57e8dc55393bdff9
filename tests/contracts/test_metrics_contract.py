"""What every metric owes, from the moment it is registered."""

import inspect
import math
import re
import typing
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from ragtrial.errors import CutoffError, MetricError
from ragtrial.evaluation.grading import GradedRankings
from ragtrial.evaluation.metrics import METRICS, Metric, parse_metric
from ragtrial.evaluation.metrics.base import MetricFamily, Needs
from scenarios import OF_DOCUMENTS, SCALE, Scenario, example, judged_grades, scenario, scores
from strategies import one_of_each_metric, scenarios

every_metric = pytest.mark.parametrize("name", OF_DOCUMENTS)


def worth(metric: Metric, judged: list[int]) -> list[float]:
    """The gains of judged documents, best first, at most as many as the cutoff."""
    exponential = dict(metric.parameters).get("gain") == "exp"
    given = dict(metric.gains)
    usual = {grade: 2.0**grade - 1 if exponential else float(grade) for grade in range(SCALE + 1)} | given
    return sorted((usual.get(grade, 0.0) for grade in judged), reverse=True)[: metric.k]


def ideal_gain(metric: Metric, judged: list[int]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(worth(metric, judged), start=1))


def ideal_reciprocal_rank(metric: Metric, judged: list[int]) -> float:
    total, unsatisfied = 0.0, 1.0
    for rank, gain in enumerate(worth(metric, judged), start=1):
        content = (2**gain - 1) / 2 ** float(dict(metric.parameters)["max"])
        total += unsatisfied * content / rank
        unsatisfied *= 1 - content
    return total


STATED_MAXIMUM: dict[str, Callable[[Metric, list[int]], float]] = {
    "dcg": ideal_gain,
    "err": ideal_reciprocal_rank,
    "rbp": lambda metric, _: 1 - float(dict(metric.parameters)["p"]) ** (metric.k or 0),
}
"""The maximum of each metric that has another one than 1, from the metric and the query's grades."""

SAYS_WHAT_IS_NOT_KNOWN = ("unjudged", "rbp_residual")
"""What is lower for better judged rankings."""
NEVER_QUITE_ONE = ("infap",)


def maximum(metric: Metric, graded: GradedRankings) -> list[float]:
    stated = STATED_MAXIMUM.get(metric.name)
    return [stated(metric, judged) if stated else 1.0 for judged in judged_grades(graded)]


@pytest.mark.slow
@given(metrics=one_of_each_metric(), case=scenarios(), threshold=st.integers(0, 3))
def test_one_finite_float64_per_query_up_to_the_maximum(metrics: list[Metric], case: Scenario, threshold: int) -> None:
    graded = case.graded(threshold=threshold)
    for metric in metrics:
        values = scores(metric, graded)
        assert values.dtype == np.float64, metric
        assert values.shape == (len(case),), metric
        assert np.isfinite(values).all(), metric
        assert (values >= 0).all(), metric
        assert (values <= np.array(maximum(metric, graded)) * (1 + 1e-12) + 1e-15).all(), metric


@pytest.mark.parametrize(
    "name", [name for name in OF_DOCUMENTS if name not in SAYS_WHAT_IS_NOT_KNOWN and METRICS[name].better == "higher"]
)
@pytest.mark.parametrize("k", [1, 2, 3, 7, 17, 20])
def test_the_ideal_ranking_reaches_the_stated_maximum(name: str, k: int) -> None:
    """As many relevant documents as hits, each grade lower than the one before, found in the order of the labels."""
    known = {f"d{number}": k - number for number in range(k)}
    graded = scenario((" ".join(known), known)).graded()
    metric = example(name, k)
    reached = pytest.approx(maximum(metric, graded), rel=1e-5 if name in NEVER_QUITE_ONE else 1e-14)
    assert scores(metric, graded) == reached


@pytest.mark.parametrize("name", [name for name in OF_DOCUMENTS if METRICS[name].highest == 1])
def test_no_metric_with_a_maximum_of_one_exceeds_it_by_even_the_last_bit(name: str) -> None:
    """Long ideal rankings, where sums in different order would differ by rounding."""
    rng = np.random.default_rng(1)
    known = []
    for _ in range(200):
        falling = sorted(rng.integers(0, 5, rng.integers(1, 60)).tolist(), reverse=True)
        known.append({f"d{number}": grade for number, grade in enumerate(falling)})
    graded = scenario(*((" ".join(judged), judged) for judged in known)).graded(depth=60)
    assert max(float(scores(example(name, k), graded).max()) for k in range(1, 61)) <= 1


@pytest.mark.slow
@given(metrics=one_of_each_metric(), case=scenarios())
def test_nothing_retrieved_scores_zero(metrics: list[Metric], case: Scenario) -> None:
    empty = replace(case, rankings=((),) * len(case)).graded()
    for metric in metrics:
        if metric.name != "rbp_residual":
            assert scores(metric, empty).tolist() == [0] * len(case), metric


@every_metric
def test_no_queries_have_no_scores_and_bad_cutoffs_are_refused_first(name: str) -> None:
    values = scores(example(name), scenario().graded())
    assert values.shape == (0,)
    assert values.dtype == np.float64
    graded = scenario(("a b", "a")).graded()
    cut = METRICS[name].cut
    if cut == "required":
        with pytest.raises(MetricError, match=r" has no cutoff; write .*@k\.$"):
            scores(example(name, None), graded)
    if cut == "none":
        with pytest.raises(MetricError, match=rf": {name} has no cutoff; write {name}"):
            scores(Metric(name, 3), graded)
    if cut == "optional":
        assert scores(example(name, None), graded).shape == scores(example(name, 3), graded).shape == (1,)


@given(data=st.data(), metrics=one_of_each_metric(), case=scenarios(least_queries=1))
def test_another_relevant_hit_never_lowers_a_score(data: st.DataObject, metrics: list[Metric], case: Scenario) -> None:
    place = data.draw(st.integers(0, len(case.labels[0])))
    known = list(case.labels[0].items())
    grade = data.draw(st.integers(1, 5))
    known.insert(place, ("appended", grade))
    before = replace(case, labels=(dict(known), *case.labels[1:]))
    after = replace(before, rankings=((*case.rankings[0], "appended"), *case.rankings[1:]))
    graded_before, graded_after = before.graded(), after.graded()
    for metric in metrics:
        if int(dict(metric.parameters).get("rel", 1)) > grade:
            continue  # what was appended is not relevant to this metric
        scored_before, scored_after = scores(metric, graded_before), scores(metric, graded_after)
        if metric.name == "rbp_residual":
            assert scored_after[0] <= scored_before[0], metric
        else:
            assert scored_after[0] >= scored_before[0] - 1e-12, metric
        np.testing.assert_array_equal(scored_after[1:], scored_before[1:], err_msg=str(metric))


@every_metric
def test_a_query_scores_the_same_to_the_last_bit_whatever_is_scored_beside_it(name: str) -> None:
    rng = np.random.default_rng(3)
    names = [f"d{number}" for number in range(40)]
    queries = []
    for _ in range(37):
        ranking = " ".join(rng.permutation(names)[: rng.integers(0, 30)].tolist())
        queries.append((ranking, {doc: int(rng.integers(0, 4)) for doc in rng.permutation(names)[:15].tolist()}))
    for k in (3, 10, 29):
        metric = example(name, k)
        together = scores(metric, scenario(*queries).graded(depth=30))
        assert together.tolist() == [float(scores(metric, scenario(one).graded(depth=30))[0]) for one in queries]


@given(metrics=one_of_each_metric(), case=scenarios(ordered=st.just(True)))
def test_a_query_for_which_a_metric_is_not_defined_scores_zero(metrics: list[Metric], case: Scenario) -> None:
    graded = case.graded()
    for metric in metrics:
        if metric.name not in ("judged", *SAYS_WHAT_IS_NOT_KNOWN):  # whose values rest on judgments of any grade
            defined = metric.eligible(metric.prepared(graded))
            assert not scores(metric, graded)[~defined].any(), metric


@given(case=scenarios(), threshold=st.integers(1, 3))
def test_a_metric_is_defined_where_the_labels_have_what_it_needs(case: Scenario, threshold: int) -> None:
    relevant = [any(value >= threshold for value in known.values()) for known in case.labels]
    gain = [any(value > 0 for value in known.values()) for known in case.labels]
    order = [some and ordered for some, ordered in zip(relevant, case.ordered, strict=True)]
    forbidden = [any(value < 0 for value in known.values()) for known in case.labels]
    graded = case.graded(threshold=threshold)
    for name, definition in METRICS.members():
        expected = {"relevant": relevant, "gain": gain, "order": order, "forbidden": forbidden}[definition.needs]
        assert definition.eligible(graded).tolist() == expected, name


@pytest.mark.parametrize("name", [name for name in OF_DOCUMENTS if METRICS[name].cut != "none"])
def test_a_cutoff_beyond_the_depth_is_refused_even_where_rows_are_shorter(name: str) -> None:
    graded = scenario(("a b", "a"), ("", "b")).graded(depth=3)
    assert scores(example(name), graded).shape == (2,)
    with pytest.raises(CutoffError) as caught:
        scores(example(name, 4), graded)
    assert str(caught.value) == "k is 4, but only the first 3 hits were kept (top_k); raise top_k or lower k."


@every_metric
def test_computing_changes_nothing_it_was_given(name: str) -> None:
    graded = scenario(("a x b", {"b": 2, "a": -1, "c": 1}), ("x", "a")).graded()
    judgments = graded.judgments
    given: list[npt.NDArray[Any]] = [
        graded.starts, graded.ranks, graded.indices, graded.lengths, graded.rows, graded.grades, graded.relevant,
        graded.is_judged, graded.relevant_counts, graded.label_positions, graded.relevant_so_far, judgments.starts,
        judgments.grades, judgments.ordered, judgments.rows, judgments.descending, judgments.best,
    ]  # fmt: skip
    for array in given:
        array.flags.writeable = False
    first = scores(example(name), graded)
    np.testing.assert_array_equal(scores(example(name), graded), first)
    assert not any(np.shares_memory(first, array) for array in given)


@given(one_of_each_metric(k=st.integers(1, 10**6)))
def test_the_spelling_parses_back_to_the_same_metric(metrics: list[Metric]) -> None:
    for metric in metrics:
        assert parse_metric(str(metric)) == metric
        assert str(parse_metric(str(metric))) == str(metric)


@every_metric
def test_a_metric_without_brackets_has_the_default_parameters_of_its_formula(name: str) -> None:
    definition = METRICS[name]
    of_formula = {
        parameter: value.default
        for parameter, value in inspect.signature(definition.compute).parameters.items()
        if parameter not in ("self", "k", "gains")
    }
    known = {key: value for key, value in definition.parameters.items() if key not in ("rel", "judged_only")}
    assert {key: parameter.default for key, parameter in known.items()} == of_formula
    shown = {key: parameter.default for key, parameter in definition.parameters.items() if parameter.always}
    assert dict(parse_metric(name).parameters) == shown
    for key, parameter in known.items():
        assert parameter.parse(str(parameter.default)) == parameter.default, key


def test_every_name_leads_to_one_metric_and_every_formula_is_registered() -> None:
    names = METRICS.names()
    for name, definition in METRICS.members():
        names += [alias.name for alias in definition.aliases if alias.name != name]
    assert len(set(names)) == len(names)
    formulas = {
        (formulas_class, name)
        for formulas_class in {definition.formulas for _, definition in METRICS.members()}
        for name, _ in inspect.getmembers(formulas_class, callable)
        if not name.startswith("_")
    }
    assert formulas == {(definition.formulas, name) for name, definition in METRICS.members()}


@every_metric
def test_every_definition_says_what_it_computes_and_aliases_resolve(name: str) -> None:
    definition = METRICS[name]
    for alias in definition.aliases:
        for written in (alias.name, alias.name.upper(), alias.name.replace("_", "-")):
            if alias.cut != "required":
                assert parse_metric(written) == Metric(name, None, tuple(alias.sets.items()))
            if alias.cut != "none" and definition.cut != "none":
                assert parse_metric(f"{written}@7") == Metric(name, 7, tuple(alias.sets.items()))
                assert parse_metric(f"{written}_7") == Metric(name, 7, tuple(alias.sets.items()))
    assert definition.name == name
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    for sentence in (definition.formula, definition.source):
        assert sentence.strip() == sentence != ""
        assert "\n" not in sentence
    assert definition.family in typing.get_args(MetricFamily)
    assert definition.needs in typing.get_args(Needs)
    assert getattr(definition.formulas, name) is definition.compute
    assert (definition.compute.__doc__ or "").strip()
