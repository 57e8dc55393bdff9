"""What is looked into beside a comparison: only where it is asked for, of the settings that it should be."""

from pathlib import Path

import numpy as np
import pytest

import experiments
from expectations import present
from experiments import write_experiment
from hand_made import contest_between, contest_over, report_of, setting_of
from ragtrial import run_experiment
from ragtrial.comparison.comparing import ComparisonOptions, compare_settings
from ragtrial.comparison.comparison_input import ComparisonInput, input_of
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.scoring.query_details import load_query
from ragtrial.views.analysis import Analysis, analyse
from ragtrial.views.comparison_tables import looked_into_lines
from ragtrial.views.page.blocks import FoundHits, deep_ranks
from ragtrial.views.sections import details
from ragtrial.views.sections.details import SELECTION, UNJUDGED
from ragtrial.views.sections.queries_view import QUERIES
from scored_runs import scored_report

AIM = ComparisonOptions(procedure=Procedure(flips=199))


def contest() -> ComparisonInput:
    base = np.linspace(0.2, 0.6, 30)
    return contest_between({"low": base, "high": base + 0.2, "middle": base + 0.15})


def test_an_analysis_has_its_parts_and_the_best_of_all_as_winner() -> None:
    made, compared = analyse(contest(), AIM), compare_settings(contest(), AIM)
    assert {name: getattr(made, name) for name in type(compared).model_fields} == dict(compared)
    for baseline in (None, "low"):
        made = analyse(contest(), ComparisonOptions(baseline, procedure=AIM.procedure))
        selection = present(SELECTION.of(made))
        assert selection.setting == "high"
    named = analyse(contest(), ComparisonOptions("high", procedure=AIM.procedure))
    assert SELECTION.of(named) is None, "the user chose it, not these questions"
    assert not any("used to pick it" in line for line in looked_into_lines(named))


def test_no_winner_is_looked_for_where_reports_are_compared_name_by_name() -> None:
    values = np.linspace(0.2, 0.6, 30)
    before = report_of([setting_of("dense", values), setting_of("bm25", values / 2)], run_id="before")
    after = report_of([setting_of("dense", values + 0.1), setting_of("bm25", values)], run_id="after")

    def made(baseline: str) -> Analysis:
        return analyse(contest_over(before, after), ComparisonOptions(baseline, procedure=AIM.procedure))

    assert SELECTION.of(made("before")) is None
    assert [(part.baseline, part.setting) for part in made("before").comparisons] == [
        ("before:dense", "after:dense"),
        ("before:bm25", "after:bm25"),
    ]
    assert SELECTION.of(made("before:dense")) is not None


def ranked(folder: Path) -> ComparisonInput:
    """The answer first with high, second with middle, third with low."""
    runs = {"low": "x y a", "high": "a x y", "middle": "x a y"}
    labels = {f"q{place}": {"a": 1} for place in range(12)}
    rankings = {name: dict.fromkeys(labels, hits) for name, hits in runs.items()}
    return input_of([scored_report(folder, labels, rankings, "--metrics", "rr@3,hit_rate@1")], ["rr@3"])


def test_each_part_is_there_where_it_is_asked_for(tmp_path: Path) -> None:
    made = analyse(ranked(tmp_path), AIM, slices=True, axes=True, queries=True)
    shown = made.model_dump(mode="json")
    assert None not in [shown[name] for name in ("slices", "won_and_lost", "shared_queries")]
    assert shown["axes"] is None  # no parameter was swept
    others = analyse(contest(), AIM).model_dump(mode="json")
    assert [others[name] for name in ("slices", "axes", "won_and_lost", "shared_queries")] == [None] * 4


@pytest.mark.parametrize(("baseline", "pair"), [(None, ("high", "middle")), ("low", ("low", "high"))])
def test_queries_are_of_the_settings_of_row_one(tmp_path: Path, baseline: str | None, pair: tuple[str, str]) -> None:
    made = analyse(ranked(tmp_path), ComparisonOptions(baseline, procedure=AIM.procedure), queries=True)
    queries = present(QUERIES.of(made))
    assert (queries.won_and_lost.baseline, queries.won_and_lost.setting) == pair


def test_the_option_lifts_the_limit_on_unjudged_hits_that_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details, "MOST_QUERIES", 1)
    assert [len(UNJUDGED.of(analyse(contest(), AIM, unjudged=asked)) or ()) for asked in (False, True)] == [1, 2]


def test_chunks_have_their_ranks_in_the_stored_rankings(tmp_path: Path) -> None:
    """Under unit: span, where the same document has many chunks."""
    made = write_experiment(
        tmp_path, queries=experiments.QUOTED, evaluators={"unit": "span"},
        chunker={"kind": "fixed", "size": 20, "overlap": 0, "unit": "characters"},
        retrievers={"dense": {"kind": "dense", "top_k": 40}, "words": {"kind": "bm25", "top_k": 40}},
    )  # fmt: skip
    contest = input_of([str(run_experiment(made.config()).folder)])
    deep, compared = deep_ranks(contest.queries, FoundHits(contest)), 0
    for place, query in enumerate(experiments.QUERIES):
        rankings = load_query(contest.report, contest.report.settings, query["id"])
        for own, ranking in zip(deep, rankings, strict=True):
            ranks = {(hit.doc, hit.start, hit.end): hit.rank for hit in ranking.hits}
            assert own[place].items() <= ranks.items()
            compared += len(own[place])
    assert compared >= 10
