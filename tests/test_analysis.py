"""What is looked into beside a comparison: only where it is asked for, and of the settings that it should be."""

from __future__ import annotations

import numpy as np

from hand_made import contest_between, contest_over, report_of, setting_of
from ragtrial.comparison.analysis import Analysis, Wanted, analyse
from ragtrial.comparison.comparing import Aim, compare_settings
from ragtrial.comparison.contest import Contest
from ragtrial.comparison.samples import Procedure

AIM = Aim(procedure=Procedure(flips=199))


def contest() -> Contest:
    base = np.linspace(0.2, 0.6, 30)
    return contest_between({"low": base, "high": base + 0.2, "middle": base + 0.15})


def test_an_analysis_has_all_of_the_comparison() -> None:
    made, compared = analyse(contest(), AIM, Wanted()), compare_settings(contest(), AIM)
    assert {name: getattr(made, name) for name in type(compared).model_fields} == dict(compared)


def test_nothing_is_looked_into_that_was_not_asked_for() -> None:
    made = analyse(contest(), AIM, Wanted())
    beside = ["slices", "axes", "costs", "won_and_lost", "shared_queries", "query"]
    assert [getattr(made, name) for name in beside] == [None] * 6


def test_each_part_is_there_where_it_is_asked_for() -> None:
    assert analyse(contest(), AIM, Wanted(slices=True)).slices is not None
    assert analyse(contest(), AIM, Wanted(costs=True)).costs is not None
    queries = analyse(contest(), AIM, Wanted(queries=True))
    assert queries.won_and_lost is not None
    assert queries.shared_queries is not None
    assert analyse(contest(), AIM, Wanted(axes=True)).axes is None  # no parameter was swept


def test_queries_are_won_and_lost_between_the_settings_of_the_first_row() -> None:
    lost = analyse(contest(), AIM, Wanted(queries=True)).won_and_lost
    assert lost is not None
    assert (lost.baseline, lost.setting) == ("high", "middle")
    won = analyse(contest(), Aim("low", procedure=AIM.procedure), Wanted(queries=True)).won_and_lost
    assert won is not None
    assert (won.baseline, won.setting) == ("low", "high")


def test_the_winner_is_the_best_of_all_whatever_the_baseline() -> None:
    for baseline in (None, "low", "high"):
        made = analyse(contest(), Aim(baseline, procedure=AIM.procedure), Wanted())
        assert made.selection is not None
        assert made.selection.setting == "high"


def test_no_winner_is_looked_for_where_reports_are_compared_name_by_name() -> None:
    values = np.linspace(0.2, 0.6, 30)
    before = report_of([setting_of("dense", values), setting_of("bm25", values / 2)], run_id="before")
    after = report_of([setting_of("dense", values + 0.1), setting_of("bm25", values)], run_id="after")

    def made(baseline: str) -> Analysis:
        return analyse(contest_over(before, after), Aim(baseline, procedure=AIM.procedure), Wanted())

    assert made("before").selection is None
    assert [(part.baseline, part.setting) for part in made("before").comparisons] == [
        ("before:dense", "after:dense"),
        ("before:bm25", "after:bm25"),
    ]
    assert made("before:dense").selection is not None


def test_unjudged_hits_are_counted_for_each_close_comparison() -> None:
    made = analyse(contest(), AIM, Wanted())
    assert [(part.baseline, part.setting) for part in made.unjudged] == [
        ("high", "middle"),
        ("middle", "low"),
        ("high", "low"),
    ]
