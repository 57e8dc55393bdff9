"""Quality against latency, context and index size."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hand_made import METRIC, contest_over, report_of, setting_of
from ragtrial.comparison.tradeoffs import TradeoffsPart, pareto, weigh_costs
from ragtrial.report.schema import SettingPart
from ragtrial.views.sections.details import tradeoff_table


def priced(
    name: str,
    mean: float | None,
    latency: float | None = None,
    context: tuple[float, float | None] | None = None,
    index: int | None = None,
    machine: str = "m",
) -> SettingPart:
    """A setting; ``context`` is characters and tokens of its first ten hits."""
    more: dict[str, Any] = {"costs": {"embedding_seconds": None, "indexing_seconds": None, "index_bytes": index}}
    if latency is not None:
        more["latency"] = {"p50": latency, "p95": 9.0, "n": 50, "machine": machine, "date": ""}
    if context is not None:
        sizes = {"characters": context[0], "tokens": context[1]}
        more["context"] = [{"k": 5, "characters": 1.0, "tokens": 1.0}, {"k": 10, **sizes}]
    return setting_of(name, [mean], **more)


def weighed(*settings: SettingPart) -> TradeoffsPart:
    return weigh_costs(contest_over(report_of(settings)))


def test_a_table_worked_by_hand() -> None:
    made = weighed(
        priced("slow", 0.7, 0.3, (900, 300), 5_000_000),
        priced("best", 0.8, 0.2, (900, 400), 4_000_000),
        priced("short", 0.6, 0.25, (300, 100), 6_000_000),
        priced("cheap", 0.5, 0.1, (900, 400), 4_000_000),
    )
    assert [one.setting for one in made.settings] == ["best", "slow", "short", "cheap"]
    assert {one.setting: one.undominated for one in made.settings} == {
        "best": {"latency": True, "context": True, "index": True},
        "slow": {"latency": False, "context": True, "index": False},
        "short": {"latency": False, "context": True, "index": False},
        "cheap": {"latency": True, "context": False, "index": False},
    }
    assert {one.setting: one.undominated_in_all for one in made.settings} == dict.fromkeys(
        ("best", "slow", "short", "cheap"), True
    )
    assert tradeoff_table(made).cells == [
        ["quality and costs", METRIC, "ms p50", "tokens@10", "index MB", "all"],
        ["best", "0.800", "200.0*", "400*", "4.0*", "*"],
        ["slow", "0.700", "300.0 ", "300*", "5.0 ", "*"],
        ["short", "0.600", "250.0 ", "100*", "6.0 ", "*"],
        ["cheap", "0.500", "100.0*", "400 ", "4.0 ", "*"],
    ]


def test_what_is_not_known_neither_beats_nor_is_beaten() -> None:
    made = weighed(
        priced("unknown", 0.9, None, None, 10), priced("known", 0.7, 0.1, None, 10), priced("worse", 0.6, 0.2, None, 20)
    )
    assert [one.undominated for one in made.settings] == [
        {"latency": None, "index": True}, {"latency": True, "index": False}, {"latency": False, "index": False}
    ]  # fmt: skip
    assert [one.undominated_in_all for one in made.settings] == [None, True, False]
    assert [row[2:] for row in tradeoff_table(made).cells[1:]] == [
        ["-", "0.0*", "-"], ["100.0*", "0.0 ", "*"], ["200.0 ", "0.0 ", ""]
    ]  # fmt: skip


def test_without_a_quality_nothing_is_said_and_it_stands_last() -> None:
    made = weighed(priced("none", None, 0.1), priced("some", 0.2, 0.3))
    assert [(one.setting, one.mean, one.n) for one in made.settings] == [("some", 0.2, 1), ("none", None, 0)]
    assert [one.undominated for one in made.settings] == [{"latency": True}, {"latency": None}]
    assert tradeoff_table(made).cells[2] == ["none", "-", "100.0 ", "-"]


def test_characters_stand_where_tokens_are_not_known_of_all() -> None:
    made = weighed(priced("one", 0.5, context=(900, 300)), priced("two", 0.4, context=(800, None)))
    assert made.context_unit == "characters"
    assert [(one.context, one.undominated["context"]) for one in made.settings] == [(900, True), (800, True)]
    assert tradeoff_table(made).cells[0] == ["quality and costs", METRIC, "characters@10", "all"]
    with_none = weighed(priced("one", 0.5, context=(900, 300)), priced("two", 0.4))
    assert (with_none.context_unit, [one.context for one in with_none.settings]) == ("tokens", [300, None])


def test_the_context_is_that_at_the_cutoff_of_the_metric() -> None:
    context = [{"k": k, "characters": 100.0 * k, "tokens": None} for k in (1, 5, 20)]
    assert weighed(setting_of("one", [0.5], context=context)).settings[0].context is None
    context += [{"k": 10, "characters": 7.0, "tokens": None}]
    assert weighed(setting_of("one", [0.5], context=context)).settings[0].context == 7.0


def test_without_any_cost_there_is_no_table() -> None:
    made = weighed(priced("one", 0.5), setting_of("two", [0.4]))
    assert (made.costs, [one.undominated_in_all for one in made.settings]) == ([], [None, None])
    assert tradeoff_table(made).cells == []


def test_latencies_of_several_machines_are_told() -> None:
    made = weighed(priced("one", 0.5, 0.1, machine="old"), priced("two", 0.5, 0.1, machine="new"))
    assert [warning.message for warning in made.warnings] == [
        "latencies were measured on different machines, and do not compare: old; new."
    ]
    assert weighed(priced("one", 0.5, 0.1), priced("two", 0.5, 0.1), priced("three", 0.1)).warnings == []


small = st.one_of(st.integers(0, 3).map(float), st.just(float("nan")))


@given(st.lists(st.tuples(small, small, small), max_size=7))
def test_the_front_is_what_plain_loops_find(rows: list[tuple[float, float, float]]) -> None:
    def dominates(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
        gains = [one[0] - other[0], other[1] - one[1], other[2] - one[2]]
        return all(gain >= 0 for gain in gains) and any(gain > 0 for gain in gains)

    quality, first, second = np.array(rows).reshape(len(rows), 3).T
    assert pareto(quality, [first, second]).tolist() == [not any(dominates(one, row) for one in rows) for row in rows]
