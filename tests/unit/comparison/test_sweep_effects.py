"""The effects of a sweep's parameters."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from expectations import present
from hand_made import METRIC, contest_over, query_of, report_of, setting_of
from ragtrial.comparison.comparison_input import ComparisonInput, input_of
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import Family, Procedure
from ragtrial.comparison.sweep_effects import EffectPart, EffectsPart, sweep_effects
from ragtrial.config.load import load_config
from ragtrial.experiment import run_experiment
from ragtrial.report.schema import SettingPart
from ragtrial.views.sections.details import effect_table
from small_experiment import CONFIG, small_experiment

Values = npt.NDArray[np.float64]
SIZE, RANK, STEM = "chunker.size", "retrievers.hybrid.rank_constant", "retrievers.bm25.stemmer"


def swept(entry: str, values: Mapping[str, Any], scores: Values | Sequence[float | None], **more: Any) -> SettingPart:
    name = "-".join([entry, *(f"{key.rpartition('.')[2]}{value}" for key, value in values.items())])
    return setting_of(name, scores, parameters={"entry": entry, "values": dict(values), **more})


def contest_with(made: Sequence[SettingPart], config: Mapping[str, Any] | None = None) -> ComparisonInput:
    return contest_over(report_of(made, config=dict(config or {})))


def effects_of(made: Sequence[SettingPart], config: Mapping[str, Any] | None = None) -> EffectsPart:
    return present(sweep_effects(contest_with(made, config), Procedure(flips=300)))


def effect(found: EffectsPart, parameter: str, level: object) -> EffectPart:
    return next(one for one in found.effects if (one.levels.parameter, one.levels.level) == (parameter, level))


def test_effects_of_a_table_worked_by_hand_are_one_family() -> None:
    """Size 20 adds 0.1 at rank constant 10 and 0.3 at 60; each query has its own level, which cancels out."""
    base = np.linspace(0, 0.4, 12)
    added = {(10, 10): 0.0, (20, 10): 0.1, (10, 60): 0.2, (20, 60): 0.5}
    found = effects_of([swept("hybrid", {SIZE: size, RANK: rank}, base + one) for (size, rank), one in added.items()])
    size, rank = effect(found, SIZE, 20), effect(found, RANK, 60)
    assert (size.difference, rank.difference) == pytest.approx((0.2, 0.3))
    assert (size.mean_reference, size.mean) == pytest.approx((base.mean() + 0.1, base.mean() + 0.3))
    assert (size.matched, size.n, size.differing, size.levels.reference) == (2, 12, 12, 10)
    assert len(found.effects) == 2
    values = np.random.default_rng(4).random((4, 30))
    cells = list(product((10, 20), (1, 2)))
    found = effects_of([swept("a", {SIZE: s, RANK: r}, one) for (s, r), one in zip(cells, values, strict=True)])
    mains = np.array([[-1, -1, 1, 1], [-1, 1, -1, 1]]) / 2
    (of_mains,) = infer([Family(mains @ values)], Procedure(flips=300))
    for row, part in enumerate(found.effects):
        assert part.ci == pytest.approx((of_mains.low[row], of_mains.high[row]), abs=1e-12)
        assert part.p_corrected == pytest.approx(of_mains.p_corrected[row])
        assert part.difference == pytest.approx((mains @ values)[row].mean())


def brute_force(
    cells: list[tuple[str, dict[str, int]]], means: list[float]
) -> dict[tuple[str, int], tuple[int, float]]:
    """For each parameter and level: how many pairs differ in it alone, and their mean difference; by plain loops."""
    found = {}
    for name in ("a", "b"):
        levels = sorted({values[name] for _, values in cells})
        for level in levels[1:]:
            pairs = [
                mean - other
                for (entry, values), mean in zip(cells, means, strict=True)
                for (entry2, values2), other in zip(cells, means, strict=True)
                if entry == entry2 and values[name] == level and values2 == {**values, name: levels[0]}
            ]
            found[name, level] = len(pairs), sum(pairs) / len(pairs) if pairs else 0.0
    return found


@settings(max_examples=25)
@given(st.sets(st.tuples(st.sampled_from("xy"), st.integers(1, 3), st.integers(1, 3)), min_size=1), st.integers(0, 99))
def test_whatever_is_missing_only_matched_pairs_count(chosen: set[tuple[str, int, int]], seed: int) -> None:
    cells = [(entry, {"a": a, "b": b}) for entry, a, b in sorted(chosen)]
    values = np.random.default_rng(seed).random((len(cells), 3))
    made = [swept(entry, levels, one) for (entry, levels), one in zip(cells, values, strict=True)]
    found = sweep_effects(contest_with(made), Procedure(flips=100))
    expected = brute_force(cells, values.mean(axis=1).tolist())
    parts = [] if found is None else [one for one in found.effects if one.levels.parameter != "retriever"]
    assert {(one.levels.parameter, one.levels.level): one.matched for one in parts} == {
        key: matched for key, (matched, _) in expected.items()
    }
    for one in parts:
        assert isinstance(one.levels.level, int)
        matched, mean = expected[one.levels.parameter, one.levels.level]
        assert one.difference == (pytest.approx(mean) if matched else None)


def test_the_retriever_is_a_parameter_matched_by_what_reaches_both() -> None:
    """bm25 is not reached by the rank constant: each of its settings goes with both of hybrid at its size."""
    flat = np.zeros(3)
    bm25 = [swept("bm25", {SIZE: size}, flat + score) for size, score in ((10, 0.1), (20, 0.2))]
    hybrid = [
        swept("hybrid", {SIZE: size, RANK: rank}, flat + score)
        for size, rank, score in ((10, 1, 0.3), (10, 2, 0.5), (20, 1, 0.9), (20, 2, 0.7))
    ]
    found = effects_of(bm25 + hybrid)
    part = effect(found, "retriever", "hybrid")
    assert (part.levels.reference, part.matched) == ("bm25", 4)
    assert part.difference == pytest.approx((0.2 + 0.4 + 0.7 + 0.5) / 4)
    size = effect(found, SIZE, 20)
    assert size.by_retriever == pytest.approx({"bm25": 0.1, "hybrid": 0.4})
    assert effect(found, RANK, 2).by_retriever == pytest.approx({"hybrid": 0.0})


def test_equal_numbers_are_one_level_and_effects_need_a_sweep() -> None:
    made = [swept("a", {SIZE: 10, RANK: 1}, [0.1] * 3), swept("a", {SIZE: 20, RANK: 2}, [0.2] * 3)]
    found = effects_of(made)
    assert [(one.matched, one.difference, one.ci, one.n) for one in found.effects] == [(0, None, None, 0)] * 2
    assert [row[-1] for row in effect_table(found).cells[1:]] == ["no settings match in all else"] * 2
    found = effects_of([swept("a", {SIZE: 1, RANK: 1}, [0.1]), swept("a", {SIZE: 1.0, RANK: 2}, [0.2]),
                        swept("a", {SIZE: True, RANK: 2}, [0.4])])  # fmt: skip
    assert effect(found, RANK, 2).difference == pytest.approx(0.1)
    assert effect(found, SIZE, True).difference == pytest.approx(0.2)
    assert sweep_effects(contest_with([setting_of("one", [0.5]), setting_of("two", [0.6])]), Procedure()) is None
    assert sweep_effects(contest_with([swept("a", {SIZE: 10}, [0.5])]), Procedure()) is None
    made = [swept("a", {SIZE: 1}, [0.1, 0.2, None]), swept("a", {SIZE: 2}, [0.4, None, 0.3])]
    [part] = effects_of(made).effects
    assert (part.n, part.difference) == pytest.approx((1, 0.3))
    assert (part.mean_reference, part.mean) == pytest.approx((0.1, 0.4))
    [none] = effects_of([swept("a", {SIZE: 1}, [0.1, None]), swept("a", {SIZE: 2}, [None, 0.3])]).effects
    assert (none.matched, none.n, none.difference, none.mean, none.by_retriever) == (1, 0, None, None, {})


def test_what_only_rounding_or_reports_keep_apart_is_not_matched() -> None:
    base = np.random.default_rng(1).random(20)
    sizes = {10: 0.1, 20: 0.3, 30: 0.7}
    made = [swept("a", {SIZE: size, RANK: rank}, base + one) for size, one in sizes.items() for rank in (1, 2)]
    found = effects_of(made)
    assert (effect(found, RANK, 2).differing, effect(found, RANK, 2).difference, effect(found, RANK, 2).ci) == (
        0,
        0.0,
        None,
    )
    titles = [f"effect on {METRIC}", "from", "to", "pairs", "mean", "difference", "interval", "p"]
    assert effect_table(found).cells[0][:8] == titles
    assert effect_table(found).cells[-1][1:] == [
        "1", "2", "3", f"{base.mean() + 1.1 / 3:.3f}", "0.000", "-", "-", "questions that differ: 0 of 20",
    ]  # fmt: skip
    one = report_of([swept("a", {SIZE: 1}, [0.1]), swept("a", {SIZE: 2}, [0.2])], run_id="one")
    two = report_of([swept("a", {SIZE: 1}, [0.5]), swept("a", {SIZE: 2}, [0.8])], run_id="two")
    both = present(sweep_effects(contest_over(one, two), Procedure(flips=100)))
    assert (both.effects[0].matched, both.effects[0].difference) == pytest.approx((2, 0.2))
    lone = present(sweep_effects(contest_over(one, report_of([swept("a", {SIZE: 3}, [0.5])])), Procedure(flips=100)))
    assert [part.matched for part in lone.effects] == [1, 0]
    apart = [report_of([swept(entry, {SIZE: 1}, [0.1]), swept(entry, {SIZE: 2}, [0.2])]) for entry in "ab"]
    other = present(sweep_effects(contest_over(*apart), Procedure(flips=100)))
    assert effect(other, "retriever", "b").matched == 0


@pytest.mark.parametrize(("levels", "expected"), [
    ([100, 20, 3], [3, 20, 100]), ([0.5, 2, 1.0], [0.5, 1, 2]), (["large", "base"], ["large", "base"]),
    ([True, False], [True, False]), ([None, 5, 1], [None, 5, 1]), ([[2, 1], [1, 2]], [[1, 2], [2, 1]]),
    ([{"kind": "document"}, {"kind": "fixed", "size": 5}], [{"kind": "document"}, {"kind": "fixed", "size": 5}]),
])  # fmt: skip
def test_numbers_are_levels_by_size_and_others_as_they_come(levels: list[Any], expected: list[Any]) -> None:
    found = effects_of([swept("a", {SIZE: level}, [0.5]) for level in levels])
    assert [found.effects[0].levels.reference, *(one.levels.level for one in found.effects)] == expected


def test_keys_that_move_together_are_one_parameter_and_shares_matched_as_such() -> None:
    config = {"sweep": {"matrix": {"chunker.size, chunker.overlap": [[20, 2], [10, 5]], RANK: [1, 2]}}}
    made = [
        swept("a", {SIZE: size, "chunker.overlap": overlap, RANK: rank}, [score])
        for size, overlap, rank, score in ((20, 2, 1, 0.4), (20, 2, 2, 0.6), (10, 5, 1, 0.1), (10, 5, 2, 0.2))
    ]
    found = effects_of(made, config)
    part = effect(found, "chunker.size, chunker.overlap", [20, 2])
    assert part.levels.reference == [10, 5]
    assert (part.matched, part.difference) == pytest.approx((2, 0.35))
    assert [one.levels.parameter for one in found.effects] == ["chunker.size, chunker.overlap", RANK]
    config = {"sweep": {"matrix": {SIZE: [15, 25], "chunker.overlap": {"share": [0.1, 0.3], "of": SIZE}}}}
    made = [
        swept("a", {SIZE: size, "chunker.overlap": overlap}, [score])
        for size, overlap, score in ((15, 2, 0.1), (15, 5, 0.2), (25, 3, 0.4), (25, 8, 0.7))
    ]  # 1.5, 4.5, 2.5 and 7.5, halves up
    found = effects_of(made, config)
    part = effect(found, "chunker.overlap", {"share": 0.3, "of": SIZE})
    assert (part.matched, part.difference) == pytest.approx((2, 0.2))
    assert (effect(found, SIZE, 25).matched, effect(found, SIZE, 25).difference) == pytest.approx((2, 0.4))
    assert effect_table(found).cells[2][:3] == ["chunker.overlap", "0.1 of chunker.size", "0.3 of chunker.size"]


def test_a_sweep_that_was_run_has_effects_of_what_reaches_each_retriever(tmp_path: Path) -> None:
    config = CONFIG.replace(
        "chunker: {kind: document}", "chunker: {kind: fixed, size: 40, overlap: 0, unit: characters}"
    )
    config += "sweep:\n  matrix:\n    chunker.size: [40, 20]\n    retrievers.words.k1: [0.9, 1.2]\n"
    config = config.replace(
        "  dense: {kind: dense, top_k: 3}\n", "  near: {kind: dense, top_k: 3}\n  words: {kind: bm25, top_k: 3}\n"
    )
    report = run_experiment(load_config(small_experiment(tmp_path, config=config)))
    found = present(sweep_effects(input_of([report]), Procedure()))
    matched = {(one.levels.parameter, one.levels.reference, one.levels.level): one.matched for one in found.effects}
    assert matched == {(SIZE, 20, 40): 3, ("retrievers.words.k1", 0.9, 1.2): 2, ("retriever", "near", "words"): 4}
    assert effect(found, SIZE, 40).by_retriever.keys() == {"near", "words"}


def test_effects_take_each_cluster_as_a_whole() -> None:
    """Each question asked three times, in a cluster: the intervals as asked once."""
    values, intervals = np.random.default_rng(6).random((3, 24)), []
    for times in (1, 3):
        made = [swept("a", {SIZE: size}, np.repeat(row, times)) for size, row in enumerate(values)]
        queries = [query_of(place, cluster=f"c{place // times}") for place in range(24 * times)]
        found = present(sweep_effects(contest_over(report_of(made, queries)), Procedure(flips=300)))
        intervals.append([part.ci for part in found.effects])
    assert intervals[1] == [pytest.approx(ci) for ci in intervals[0]]
