"""Two settings query by query: who wins which, what a hit is worth, and where the parts of a setting have it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from expectations import message_of
from experiments import DOCUMENTS, QUERIES, write_experiment
from ragtrial.comparison.comparing import ComparisonOptions, compare_settings
from ragtrial.comparison.comparison_input import ComparisonInput, Pair, input_of
from ragtrial.comparison.query_differences import (
    GainShare,
    kept_parts,
    query_differences,
    rank_in_row,
    shared_queries,
    why_no_shares,
)
from ragtrial.errors import ReportError
from ragtrial.experiment import run_experiment
from ragtrial.report.model import OTHER_QUERIES, Report, write_rows
from ragtrial.scoring.query_details import load_query
from ragtrial.views.sections.queries_view import differences_line, differences_table, shared_lines
from scored_runs import scored_report

LABELS = {
    "up": {"a": 3, "b": 1, "n": 0}, "down": {"a": 3, "b": 1, "n": 0}, "far": {"a": 2}, "same": {"a": 1},
    "lost": {"a": 1},
}  # fmt: skip
RUNS = {
    "old": {"up": "n x a", "down": "a b n", "far": "a", "same": "a", "lost": "x y"},
    "new": {"up": "a b y", "down": "b n a", "far": "x a", "same": "a", "lost": "z"},
}
METRICS = ("ndcg@3", "dcg@2", "precision@2", "recall@2", "capped_recall@2", "f1@3", "rbp(p=0.8)@3",
           "ndcg(gain=exp)@2", "ap@3", "rr@3", "hit_rate@1", "ndcg(judged_only=true)@3")  # fmt: skip


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return scored_report(tmp_path_factory.mktemp("scored"), LABELS, RUNS, "--metrics", ",".join(METRICS))


def inputs(report: Report, metric: str | None = None) -> ComparisonInput:
    return input_of([report], [metric or report.primary_metric])


def test_queries_stand_by_gain_and_what_all_settings_fail_is_listed(scored: Report) -> None:
    found = query_differences(inputs(scored), Pair(0, 1))
    assert [(one.id, one.outcome) for one in found.queries] == [
        ("far", "lost"), ("down", "lost"), ("same", "tied"), ("lost", "tied"), ("up", "won"),
    ]  # fmt: skip
    assert found.queries[0].difference == pytest.approx(0.63093 - 1, abs=1e-5)
    assert (found.won, found.tied, found.lost, found.not_counted) == (1, 2, 2, 0)
    assert differences_line(found) == "new against old by ndcg@3: 1 won, 2 lost, 2 tied"
    assert [row[0] for row in differences_table(found, 1).cells] == ["query", "far", "up"]
    assert [row[0] for row in differences_table(found, None).cells[1:]] == ["far", "down", "up", "same", "lost"]
    own = [
        query.model_copy(update={"text": text}) for query, text in zip(found.queries, ["far", "far up"], strict=False)
    ]
    table = differences_table(found.model_copy(update={"queries": own}), None)
    assert [row[-1] for row in table.cells[1:]] == ["", "far up"]
    (part,) = compare_settings(inputs(scored), ComparisonOptions("old")).comparisons
    assert (part.wins, part.ties, part.losses) == (found.won, found.tied, found.lost)
    shared = shared_queries(inputs(scored))
    assert ([one.id for one in shared.failed], shared.failed_count) == (["lost"], 1)
    assert ([(one.id, one.value) for one in shared.equal], shared.equal_count) == ([("same", 1.0)], 1)
    assert (shared.settings, shared.queries) == (2, 5)
    assert shared_lines(shared) == [
        "Queries that fail with all settings (ndcg@3): 1 of 5", "  lost",
        "Queries on which all settings score the same: 1 more", "  1.000  same",
    ]  # fmt: skip
    gains = GainShare.of("dcg@2", scored.queries[1], scored)
    ranks = [("a", 1), ("a", 3), ("b", 1), ("b", 2), ("n", 1), ("unjudged", 1)]
    assert [gains.at(doc, rank) for doc, rank in ranks] == [3, 0, 1, pytest.approx(0.63093, abs=1e-5), 0, 0]


def test_a_query_that_does_not_count_for_both_is_counted_as_left_out(tmp_path: Path) -> None:
    labels = {"q": {"a": 1}, "empty": {"n": 0}}
    report = scored_report(tmp_path, labels, {"one": {"q": "a"}, "two": {"q": "n a"}}, "--metrics", "rr@2")
    found = query_differences(inputs(report), Pair(0, 1))
    assert ([one.id for one in found.queries], found.not_counted) == (["q"], 1)
    assert differences_line(found).endswith("0 won, 1 lost, 0 tied; 1 not counted")


def test_no_query_fails_where_lower_values_are_better(tmp_path: Path) -> None:
    labels = {"q": {"a": 1, "n": -1}, "clean": {"a": 1, "n": -1}}
    runs = {name: {"q": "n a", "clean": "a"} for name in ("one", "two")}
    report = scored_report(tmp_path, labels, runs, "--metrics", "forbidden@2")
    shared = shared_queries(inputs(report))
    assert (shared.failed, shared.failed_count) == ([], None)
    assert shared_lines(shared) == ["Queries on which all settings score the same: 2", "  1.000  q", "  0.000  clean"]


REASONS = {
    "ap@3": "ap@3 is no sum over documents.",
    "rr@3": "rr@3 is no sum over documents.",
    "hit_rate@1": "hit_rate@1 is no sum over documents.",
    "ndcg(judged_only=true)@3": "ndcg(judged_only=true)@3 drops hits that nobody judged, and others move up.",
}


@pytest.mark.parametrize("metric", METRICS)
def test_the_gains_of_hits_sum_to_the_score_or_there_is_a_reason_why_they_do_not(scored: Report, metric: str) -> None:
    assert why_no_shares(metric, "document") == REASONS.get(metric)
    assert why_no_shares(metric, "document", has_groups=True) == "some labels are alternatives, which count once."
    assert why_no_shares(metric, "span") == "passages count, which may be found in several chunks together."
    if metric in REASONS:
        return
    for query in scored.queries:
        gains = GainShare.of(metric, query, scored)
        for ranking in load_query(scored, scored.settings, query.id):
            total = sum(gains.at(hit.doc, hit.rank) for hit in ranking.hits)
            assert total == pytest.approx(ranking.evaluations[metric], abs=1e-12)


HYBRID: dict[str, dict[str, Any]] = {
    "dense": {"kind": "dense", "top_k": 2},
    "words": {"kind": "bm25", "top_k": 2, "score": False},
    "both": {"kind": "fusion", "inputs": ["dense", "words"], "top_k": 4},
    "few": {"kind": "fusion", "inputs": ["dense", "words"], "top_k": 4, "rank_constant": 1},
    "shallow": {"kind": "fusion", "inputs": ["dense", "both"], "candidates": 2, "top_k": 2},  # kept as settings
    "varied": {"kind": "mmr", "inputs": "both", "top_k": 4},
    "worded": {"kind": "expand", "inputs": "dense", "templates": ["Recipe: {query}"], "top_k": 4},
}


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run_experiment(write_experiment(tmp_path_factory.mktemp("hybrid"), retrievers=HYBRID).config())


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The parts by themselves, all of their hits as settings."""
    alone = {name: {**HYBRID[name], "top_k": len(DOCUMENTS), "score": True} for name in ("dense", "words")}
    return run_experiment(write_experiment(tmp_path_factory.mktemp("deep"), retrievers=alone).config())


def hits_of(report: Report, setting: str, query: str) -> list[str]:
    (row,) = report.rankings(setting, [query])
    return list(row["docs"])


def parts_of(report: Report, name: str, query: str = "rye") -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """The rows of a query in the parts of a setting, by part, and the notes."""
    compared = inputs(report)
    parts, notes = kept_parts(compared.settings[compared.setting_index(name)], [query])
    return {part.name: part.rows[query] for part in parts}, notes


def test_the_rows_of_a_part_are_its_ranking_when_run_by_itself(hybrid: Report, deep: Report) -> None:
    assert parts_of(hybrid, "dense") == ({}, [])
    for query in QUERIES:
        rows, _ = parts_of(hybrid, "both", query["id"])
        assert list(rows) == ["dense", "words"]
        assert {name: row["docs"] for name, row in rows.items()} == {
            name: hits_of(deep, name, query["id"]) for name in rows
        }
        assert len(rows["dense"]["docs"]) > HYBRID["dense"]["top_k"], "a fusion reads more hits than are scored"


def test_parts_of_parts_are_named_kept_once_and_only_for_the_same_words(hybrid: Report) -> None:
    rows, notes = parts_of(hybrid, "varied")
    assert list(rows) == ["both", "both > dense", "both > words"]
    assert list(parts_of(hybrid, "both")[0].values()) == [rows["both > dense"], rows["both > words"]]
    assert len(rows["both"]["scores"]) == len(rows["both"]["docs"])
    assert parts_of(hybrid, "both")[1] == ["both: fuses dense and words (rrf); a hit's score is the fused one."]
    assert notes == [
        "varied: picks from the first 50 hits of both, each unlike those above it; a hit's score is its value when it "
        "was picked."
    ]
    files = sorted(path.name.rsplit("-", 1)[0] for path in (hybrid.folder / "rankings" / "parts").iterdir())
    assert files == ["both", "dense", "words"]
    assert parts_of(hybrid, "worded") == (
        {},
        ["worded: fuses what dense finds for several wordings of the question (rrf).",
         "worded: dense was asked other wordings of the question; what it found for them is not kept."],
    )  # fmt: skip


def test_a_part_that_is_not_kept_has_the_ranking_of_the_equal_setting_whatever_a_sweep_calls_it(tmp_path: Path) -> None:
    retrievers = {name: HYBRID[name] for name in ("dense", "words", "both")}
    experiment = write_experiment(tmp_path, retrievers=retrievers, sweep={"matrix": {"chunker.size": [60, 90]}})
    report = run_experiment(experiment.config())
    for path in (report.folder / "rankings" / "parts").iterdir():
        path.unlink()
    rows, notes = parts_of(report, "both-size60")
    assert {name: row["docs"] for name, row in rows.items()} == {"dense": hits_of(report, "dense-size60", "rye")}
    assert notes[1] == (
        "both-size60: words is not a setting of the report, which has no ranking of it. Run the experiment again."
    )


def test_a_file_of_a_part_that_lacks_the_query_is_damaged(tmp_path: Path) -> None:
    report = run_experiment(write_experiment(tmp_path, retrievers=HYBRID).config())
    (path,) = (report.folder / "rankings" / "parts").glob("words-*")
    write_rows(path, [{"query": "other", "docs": []}] * len(report.queries))
    unsealed = report.model_copy(update={"files": {}})
    damaged = "it is damaged, or was edited. Run the experiment again."
    for checked, message in ((report, damaged), (unsealed, f"{path}: {OTHER_QUERIES}")):
        assert message_of(ReportError, parts_of, checked, "both").endswith(message)


@pytest.mark.parametrize(
    ("place", "rank"), [((5, 15), 2), ((6, 9), 1), ((12, 20), 2), ((15, 20), None), ((None, None), 1)]
)
def test_a_chunk_has_its_rank_or_the_first_overlapping(place: tuple[int | None, int | None], rank: int | None) -> None:
    row = {"docs": ["a", "a", "b"], "starts": [0, 5, 0], "ends": [10, 15, 99]}
    assert rank_in_row(row, ("a", *place), [0, 1]) == rank
    assert rank_in_row(row, ("c", *place), []) is None
