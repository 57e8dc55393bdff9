"""Differences by kind of query."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hand_made import METRIC, contest_between, contest_over, query_of, report_of, setting_of
from ragtrial.comparison.comparing import ComparisonOptions, compare_settings
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.slices import MOST_SLICED, SlicePart, SlicesPart, compare_slices, slices_of
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import Family, Procedure
from ragtrial.report.schema import QueryPart
from ragtrial.views.sections.details import SlicesView, slice_heading, slice_overview


def sliced(inputs: ComparisonInput, baseline: str | None = None, procedure: Procedure | None = None) -> SlicesPart:
    procedure = procedure or Procedure()
    return compare_slices(
        inputs, compare_settings(inputs, ComparisonOptions(baseline, procedure=procedure)).comparisons, procedure
    )


def members(inputs: ComparisonInput, slicing: str) -> dict[str, list[int]]:
    counted = np.ones(len(inputs.queries), dtype=np.bool_)
    found = [one for one in slices_of(inputs, counted) if one.slicing == slicing]
    return {one.name: np.flatnonzero(one.members).tolist() for one in found}


def between(queries: Sequence[QueryPart], **more: Any) -> ComparisonInput:
    flat = [0.5] * len(queries)
    return contest_between({"a": flat, "b": flat}, queries, **more)


def labels(*grades: int) -> list[dict[str, Any]]:
    return [{"doc": f"d{place}", "relevance": grade} for place, grade in enumerate(grades)]


def test_queries_are_parted_by_tags_and_lengths() -> None:
    queries = [query_of(0, tags=["x"]), query_of(1, tags=["y", "x"]), query_of(2), query_of(3, tags=["y"])]
    assert members(between(queries), "tag") == {"x": [0, 1], "y": [1, 3], "no tag": [2]}
    assert members(between([query_of(0, tags=["x"]), query_of(1, tags=["x", "y"])]), "tag") == {"y": [1]}
    assert sliced(between([query_of(place, "two words") for place in range(4)])).comparisons == []
    lengths = [1, 2, 3, 4, 5, 6, 7, 8, 30]
    texts = [query_of(place, " ".join(["word"] * length)) for place, length in enumerate(lengths)]
    assert members(between(texts), "query length") == {
        "1-3 words": [0, 1, 2], "4-6 words": [3, 4, 5], "7-30 words": [6, 7, 8]
    }  # fmt: skip
    skewed = [query_of(place, " ".join(["word"] * length)) for place, length in enumerate([1, 1, 1, 1, 1, 9])]
    assert members(between(skewed), "query length") == {"1 word": [0, 1, 2, 3, 4], "9 words": [5]}
    queries = [query_of(0, "one"), query_of(1, "one two"), query_of(2)]
    assert members(between(queries), "query length") == {"1 word": [0], "2 words": [1], "unknown": [2]}


def test_relevant_documents_or_passages_are_counted_once_from_the_threshold_on() -> None:
    queries = [
        query_of(0, relevant=labels(2, 1, 0)),
        query_of(1, relevant=[{"doc": "d", "relevance": 2}, {"doc": "d", "relevance": 3}]),
        query_of(2, relevant=labels(2, 2, 2, 1)),
        query_of(3, relevant=labels(3, 3, 3, 3)),
        query_of(4, relevant=labels(1, 0)),
    ]
    assert members(between(queries, relevance_threshold=2), "relevant documents") == {
        "0": [4], "1": [0, 1], "2-3": [2], "4 and more": [3]
    }  # fmt: skip
    assert members(between(queries), "relevant documents") == {"1": [1, 4], "2-3": [0], "4 and more": [2, 3]}
    twice = [{"doc": "d", "relevance": 1, "spans": [{"start": place, "end": place + 2}]} for place in (0, 5)]
    queries = [query_of(0, relevant=twice), query_of(1, relevant=twice[:1])]
    assert members(between(queries, unit="span"), "relevant passages") == {"1": [1], "2-3": [0]}


def tagged(*tags: str) -> list[QueryPart]:
    return [query_of(place, tags=[tag]) for place, tag in enumerate(tags)]


def test_intervals_hold_for_all_slices_of_a_pair_with_their_own_means() -> None:
    random = np.random.default_rng(3)
    one, two = random.random((2, 13)).round(2)
    inputs = contest_between({"one": one, "two": two}, tagged(*["x"] * 10, *["y"] * 3))
    parts = {part.name: part for part in sliced(inputs, "one").comparisons}
    alone = infer([Family(np.where(np.arange(13) < 10, two - one, np.nan)[None])], Procedure())[0]
    assert parts["x"].ci == pytest.approx((alone.low[0], alone.high[0]), abs=1e-12)
    assert parts["x"].difference == pytest.approx((two - one)[:10].mean())
    assert (parts["x"].mean_baseline, parts["x"].mean) == pytest.approx((one[:10].mean(), two[:10].mean()))
    wins = int((two > one)[:10].sum())
    assert (parts["x"].wins, parts["x"].ties, parts["x"].losses) == (wins, 0, 10 - wins)
    assert (parts["x"].queries, parts["x"].n, parts["y"].n, parts["y"].ci) == (10, 10, 3, None)
    assert parts["y"].difference == pytest.approx((two - one)[10:].mean())
    one, two = random.random((2, 24))
    queries = tagged(*["x"] * 12, *["y"] * 12)
    parts = {part.name: part for part in sliced(contest_between({"one": one, "two": two}, queries), "one").comparisons}
    rows = np.tile(two - one, (2, 1))
    rows[0, 12:], rows[1, :12] = np.nan, np.nan
    together = infer([Family(rows)], Procedure())[0]
    for place, name in enumerate("xy"):
        assert parts[name].ci == pytest.approx((together.low[place], together.high[place]), abs=1e-12)
        single = infer([Family(rows[place : place + 1])], Procedure())[0]
        assert together.low[place] < single.low[0]


@pytest.mark.parametrize(("sign", "of_all", "here"), [(1, "better", "worse"), (-1, "worse", "better")])
def test_a_slice_that_contradicts_the_whole_is_told(sign: int, of_all: str, here: str) -> None:
    """Forty queries on which ``new`` is better (or worse), twelve on which it is the other way round."""
    step = sign * np.repeat([1, -1], [40, 12]) * (0.2 + 0.001 * np.arange(52))
    inputs = contest_between({"old": [0.5] * 52, "new": 0.5 + step}, tagged(*["many"] * 40, *["few"] * 12))
    made = sliced(inputs, "old")
    few = next(part for part in made.comparisons if part.name == "few")
    assert few.ci is not None
    assert [warning.message for warning in made.warnings] == [
        f"new is {of_all} than old over all questions, and {here} over the 12 of tag few: "
        f"{few.difference:+.3f}, {few.ci[0]:+.3f} to {few.ci[1]:+.3f}."
    ]
    assert [part.name for part in made.comparisons if part.contradicts] == ["few"]
    section = SlicesView().section(made)
    assert section is not None
    assert section.finding == "new differs for tag many, new differs for tag few"


def test_slices_that_show_nothing_and_those_of_many_settings() -> None:
    step = np.full(50, 0.2) + 0.001 * np.arange(50)
    step[38:] = np.array([-0.3, 0.28] * 6) - 0.01  # lower in the slice, but not shown to be
    inputs = contest_between({"old": [0.5] * 50, "new": 0.5 + step}, tagged(*["x"] * 38, *["y"] * 12))
    made = sliced(inputs, "old")
    assert [(part.difference or 0) < 0 for part in made.comparisons] == [False, True]
    assert made.warnings == []
    made = sliced(between(tagged(*["x", "y"] * 12)))
    assert (made.comparisons != [], SlicesView().section(made)) == (True, None)
    made = sliced(contest_between({"a": [0.1], "b": [0.2]}, tagged("x")))
    assert (made.comparisons, slice_overview(made, 80).cells) == ([], [])
    assert slice_heading(made) == ("No slices: by tag, relevant documents and length all questions are of one kind.")
    chance = np.random.default_rng(0)
    queries = [query_of(number, tags=["a" if number % 2 else "b"]) for number in range(30)]
    values = {f"s{number:02}": chance.random(30).tolist() for number in range(25)}
    found = sliced(contest_between(values, queries), baseline="s00")
    assert found.settings_left_out == 24 - MOST_SLICED == 4
    assert len({part.setting for part in found.comparisons}) == MOST_SLICED
    assert " 4 more settings are left out." in slice_heading(found)
    alone = sliced(contest_between({name: values[name] for name in ("s00", "s07")}, queries), baseline="s00")
    assert [part for part in found.comparisons if part.setting == "s07"] == alone.comparisons
    assert (alone.settings_left_out, "left out" in slice_heading(alone)) == (0, False)


def test_pairs_with_the_best_or_with_the_baseline_are_sliced() -> None:
    values = {"low": [0.1, 0.2, 0.3], "high": [0.7, 0.8, 0.9], "mid": [0.4, 0.5, 0.6]}
    made = sliced(contest_between(values, tagged("x", "x", "y")))
    assert [(part.baseline, part.setting, part.name) for part in made.comparisons] == [
        ("high", "low", "x"), ("high", "low", "y"), ("high", "mid", "x"), ("high", "mid", "y")
    ]  # fmt: skip
    reports = [
        report_of([setting_of(name, values) for name in ("a", "b")], tagged("x", "y"), run_id=run)
        for run, values in (("main", [0.1, 0.2]), ("branch", [0.3, 0.1]))
    ]
    found = sliced(contest_over(*reports), "main")
    assert [(part.baseline, part.setting) for part in found.comparisons] == [
        *[("main:a", "branch:a")] * 2, *[("main:b", "branch:b")] * 2
    ]  # fmt: skip
    assert slice_heading(found).startswith("Differences in ndcg@10 from the baseline of each, by kind of question.")


def test_slices_count_queries_of_both_settings_and_may_have_none() -> None:
    one, two = np.full(12, 0.5), np.linspace(0, 1, 12)
    two[1], one[2], one[3], two[3] = np.nan, np.nan, np.nan, np.nan
    inputs = contest_between({"one": one, "two": two}, tagged(*["x"] * 5, *["y"] * 7))
    first = sliced(inputs, "one").comparisons[0]
    assert (first.name, first.queries, first.n) == ("x", 4, 2)
    assert first.mean == pytest.approx((two[0] + two[4]) / 2)
    inputs = contest_between({"one": [None, 0.5, 0.4], "two": [0.3, 0.1, None]}, tagged("x", "y", "y"))
    first = sliced(inputs, "one").comparisons[0]
    assert (first.n, first.mean_baseline, first.mean, first.difference, first.ci) == (0, None, None, None, None)
    for inputs in (contest_between({"one": [0.5, 0.6]}, tagged("x", "y")), contest_between({"one": [], "two": []})):
        made = sliced(inputs)
        assert (made.comparisons, made.warnings) == ([], [])
        assert slice_overview(made, 80).cells == []


def part(name: str, setting: str, difference: float | None, ci: tuple[float, float] | None, **more: Any) -> SlicePart:
    given: dict[str, Any] = {"n": 12, "contradicts": False, "queries": 12, "slicing": "tag", **more}
    mean = None if difference is None else 0.5 + difference
    return SlicePart(
        name=name, baseline="old", setting=setting, mean_baseline=0.5, mean=mean, difference=difference, ci=ci, wins=3,
        ties=4, losses=5, **given,
    )  # fmt: skip


def test_the_tables_mark_what_is_shown_and_what_contradicts() -> None:
    parts = [
        part("x", "new", 0.1, (0.01, 0.19)),
        part("y", "new", -0.2, (-0.3, -0.1), contradicts=True),
        part("1", "new", None, None, n=0, slicing="relevant documents"),
        part("x", "other", -0.00001, None),
        part("y", "other", 0.0, (-0.1, 0.1)),
        part("1", "other", 0.25, (-0.1, 0.6), slicing="relevant documents"),
    ]
    made = SlicesPart(
        metric=METRIC, least_differences=10, slicings=["tag"], comparisons=parts, settings_left_out=0, warnings=[]
    )
    assert slice_overview(made, 68).cells == [
        ["questions by", "slice", "questions", "new", "other"],
        ["tag", "x", "12", "+0.100 ±0.090*", "0.000        "],
        ["", "y", "12", "-0.200 ±0.100!", "0.000 ±0.100 "],
        ["relevant documents", "1", "12", "-", "+0.250 ±0.350 "],
    ]
    assert slice_overview(made, 67).cells == [
        ["questions by", "slice", "questions", "new", "other"],
        ["tag", "x", "12", "+0.100*", "0.000 "],
        ["", "y", "12", "-0.200!", "0.000 "],
        ["relevant documents", "1", "12", "-", "+0.250 "],
    ]
    assert [row[3:] for row in slice_overview(made, 52).cells] == [["new"], ["+0.100*"], ["-0.200!"], ["-"]]
    alone = made.model_copy(update={"comparisons": parts[:3]})
    assert slice_overview(alone, 47).cells == [row[:4] for row in slice_overview(made, 67).cells]
    assert slice_heading(made) == (
        "Differences in ndcg@10 from old, by kind of question. ± half-width of the interval; * significant; ! "
        "significant and opposite to the overall result"
    )
