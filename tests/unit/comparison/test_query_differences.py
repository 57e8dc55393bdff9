"""Two settings query by query: who wins which, what moved, what that is worth, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments import DOCUMENTS, QUERIES, write_experiment
from ragtrial.comparison.comparing import ComparisonOptions, compare_settings
from ragtrial.comparison.comparison_input import ComparisonInput, Pair, input_of
from ragtrial.comparison.side_by_side import SideBySide, query_differences, rank_in_row, shared_queries, side_by_side
from ragtrial.errors import ReportError
from ragtrial.experiment import run_experiment
from ragtrial.report.model import OTHER_QUERIES, Report
from ragtrial.report.rows import write_rows
from ragtrial.views.sections.queries_view import differences_line, differences_table, shared_lines, side_blocks
from scored_runs import scored_report

LABELS = {
    "up": {"a": 3, "b": 1, "n": 0},
    "down": {"a": 3, "b": 1, "n": 0},
    "far": {"a": 2},
    "same": {"a": 1},
    "lost": {"a": 1},
}
RUNS = {
    "old": {"up": "n x a", "down": "a b n", "far": "a", "same": "a", "lost": "x y"},
    "new": {"up": "a b y", "down": "b n a", "far": "x a", "same": "a", "lost": "z"},
}
METRICS = ("ndcg@3", "dcg@2", "precision@2", "recall@2", "capped_recall@2", "f1@3", "rbp(p=0.8)@3", "set_precision",
           "set_recall", "ndcg(gain=exp)@2", "ap@3", "rr@3", "hit_rate@1", "ndcg(judged_only=true)@3")  # fmt: skip


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return scored_report(tmp_path_factory.mktemp("scored"), LABELS, RUNS, "--metrics", ",".join(METRICS))


def inputs(report: Report, metric: str | None = None) -> ComparisonInput:
    return input_of([report], [metric or report.primary_metric])


def beside(report: Report, query: str, metric: str | None = None) -> SideBySide:
    return side_by_side(inputs(report, metric), Pair(0, 1), query)


def side_text(side: SideBySide, width: int) -> str:
    blocks = list(side_blocks(side, width))
    lines = [[one] if isinstance(one, str) else ["  ".join(row).rstrip() for row in one.aligned()] for one in blocks]
    return "\n".join(line for block in lines for line in block)


def test_queries_stand_from_the_largest_loss_to_the_largest_gain_and_all_are_counted(scored: Report) -> None:
    found = query_differences(inputs(scored), Pair(0, 1))
    assert [(one.id, one.outcome) for one in found.queries] == [
        ("far", "lost"), ("down", "lost"), ("same", "tied"), ("lost", "tied"), ("up", "won"),
    ]  # fmt: skip
    assert found.queries[0].difference == pytest.approx(0.63093 - 1, abs=1e-5)
    assert (found.won, found.tied, found.lost, found.not_counted) == (1, 2, 2, 0)
    assert differences_line(found) == "new against old by ndcg@3: 1 won, 2 lost, 2 tied"
    assert [row[0] for row in differences_table(found, 1).cells] == ["query", "far", "up"]
    assert [row[0] for row in differences_table(found, None).cells[1:]] == ["far", "down", "up", "same", "lost"]
    (part,) = compare_settings(inputs(scored), ComparisonOptions("old")).comparisons
    assert (part.wins, part.ties, part.losses) == (found.won, found.tied, found.lost)


def test_a_query_that_does_not_count_for_both_is_counted_as_left_out(tmp_path: Path) -> None:
    labels = {"q": {"a": 1}, "empty": {"n": 0}}
    report = scored_report(tmp_path, labels, {"one": {"q": "a"}, "two": {"q": "n a"}}, "--metrics", "rr@2")
    found = query_differences(inputs(report), Pair(0, 1))
    assert ([one.id for one in found.queries], found.not_counted) == (["q"], 1)
    assert differences_line(found).endswith("0 won, 1 lost, 0 tied; 1 not counted")


def test_what_all_settings_fail_and_what_none_separates_is_listed(scored: Report) -> None:
    found = shared_queries(inputs(scored))
    assert ([one.id for one in found.failed], found.failed_count) == (["lost"], 1)
    assert ([(one.id, one.value) for one in found.equal], found.equal_count) == ([("same", 1.0)], 1)
    assert (found.settings, found.queries) == (2, 5)
    assert shared_lines(found) == [
        "Queries that fail with all settings (ndcg@3): 1 of 5",
        "  lost",
        "Queries on which all settings score the same: 1 more",
        "  1.000  same",
    ]


def test_every_document_of_both_rankings_is_said_to_have_moved_from_where_to_where(scored: Report) -> None:
    side = beside(scored, "down")
    moved = {one.doc: (one.rank_baseline, one.rank, one.movement, one.grade) for one in side.moves}
    assert moved == {"a": (1, 3, "down", 3), "b": (2, 1, "up", 1), "n": (3, 2, "up", 0)}
    moved = {one.doc: (one.rank_baseline, one.rank, one.movement, one.grade) for one in beside(scored, "up").moves}
    assert moved == {
        "n": (1, None, "gone", 0), "x": (2, None, "gone", None), "a": (3, 1, "up", 3),
        "b": (None, 2, "new", 1), "y": (None, 3, "new", None),
    }  # fmt: skip
    assert [one.movement for one in beside(scored, "same").moves] == ["same"]


def test_shares_are_worked_out_as_by_hand(scored: Report) -> None:
    shares = {one.doc: one.share for one in beside(scored, "down", "dcg@2").moves}
    # a with grade 3 leaves rank 1 for one below the cutoff; b with grade 1 comes from rank 2.
    assert shares == {"a": -3.0, "b": pytest.approx(1 - 0.63093, abs=1e-5), "n": 0.0}
    assert beside(scored, "down", "dcg@2").moves[0].doc == "a"


@pytest.mark.parametrize("metric", METRICS)
def test_shares_sum_to_the_difference_or_it_is_said_why_there_are_none(scored: Report, metric: str) -> None:
    reasons = {
        "ap@3": "ap@3 is no sum over documents.",
        "rr@3": "rr@3 looks at the first relevant hit alone.",
        "hit_rate@1": "hit_rate@1 looks at the first relevant hit alone.",
        "ndcg(judged_only=true)@3": "ndcg(judged_only=true)@3 drops hits that nobody judged, and others move up.",
    }
    for query in LABELS:
        side = beside(scored, query, metric)
        assert side.why_no_shares == reasons.get(metric)
        if metric in reasons:
            assert {one.share for one in side.moves} == {None}
        else:
            assert sum(one.share or 0.0 for one in side.moves) == pytest.approx(side.difference, abs=1e-12)


def test_relevant_documents_that_neither_found_are_named(scored: Report) -> None:
    assert [one.doc for one in beside(scored, "lost").not_found] == ["a"]
    assert beside(scored, "up").not_found == []


def test_a_query_that_is_not_compared_is_refused_with_those_that_are(scored: Report) -> None:
    with pytest.raises(ReportError) as raised:
        beside(scored, "downn")
    assert str(raised.value) == (
        "no query 'downn' is compared. Did you mean 'down'? There are 5: up, down, far, same, lost."
    )


HYBRID: dict[str, dict[str, Any]] = {
    "dense": {"kind": "dense", "top_k": 2},
    "words": {"kind": "bm25", "top_k": 2, "score": False},
    "both": {"kind": "fusion", "inputs": ["dense", "words"], "top_k": 4},
    "few": {"kind": "fusion", "inputs": ["dense", "words"], "top_k": 4, "rank_constant": 1},
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


def side_of(report: Report, baseline: str, setting: str, query: str) -> SideBySide:
    made = inputs(report)
    return side_by_side(made, Pair(made.place(baseline), made.place(setting)), query)


def rank_of(docs: list[str], doc: str) -> int | None:
    return docs.index(doc) + 1 if doc in docs else None


def test_the_rank_in_each_part_is_that_of_the_part_run_by_itself(hybrid: Report, deep: Report) -> None:
    ranked_deeper = 0
    for query in QUERIES:
        side = side_of(hybrid, "dense", "both", query["id"])
        assert side.moves
        for move in side.moves:
            ranks = {one.part: one.rank for one in move.parts}
            assert ranks == {name: rank_of(hits_of(deep, name, query["id"]), move.doc) for name in ("dense", "words")}
            assert move.parts_baseline == []
            ranked_deeper += (ranks["dense"] or 0) > 2
    assert ranked_deeper


def test_parts_of_parts_are_named_after_what_they_are_parts_of(hybrid: Report) -> None:
    side = side_of(hybrid, "both", "varied", "rye")
    move = next(one for one in side.moves if one.rank is not None and one.rank_baseline is not None)
    assert [one.part for one in move.parts] == ["both", "both > dense", "both > words"]
    assert move.parts[0].rank == move.rank_baseline
    assert [one.rank for one in move.parts[1:]] == [one.rank for one in move.parts_baseline]
    assert side.notes == [
        "both: fuses dense and words (rrf); a hit's score is the fused one.",
        "varied: picks from the first 50 hits of both, each unlike those above it; a hit's score is its value when it "
        "was picked.",
    ]
    line = next(line for line in side_text(side, 100).splitlines() if line.startswith("             varied: both "))
    assert f"both {move.parts[0].rank} (" in line
    assert "both > dense" in line


def test_equal_parts_that_are_looked_at_equally_deep_are_kept_once(hybrid: Report) -> None:
    files = sorted(path.name.rsplit("-", 1)[0] for path in (hybrid.folder / "rankings" / "parts").iterdir())
    assert files == ["both", "dense", "words"]


def test_what_was_asked_in_other_words_is_not_kept_and_that_is_said(hybrid: Report) -> None:
    side = side_of(hybrid, "dense", "worded", "rye")
    assert {tuple(one.parts) for one in side.moves} == {()}
    assert side.notes == [
        "worded: fuses what dense finds for several wordings of the question (rrf).",
        "worded: dense was asked other wordings of the question; what it found for them is not kept.",
        "worded: asked beside the query: 'Recipe: How long do I bake rye bread?'",
    ]


def test_parts_that_are_not_kept_are_looked_for_among_the_settings_or_told_of(tmp_path: Path) -> None:
    report = run_experiment(write_experiment(tmp_path, retrievers=HYBRID).config())
    for path in (report.folder / "rankings" / "parts").iterdir():
        path.unlink()
    side = side_of(report, "dense", "both", "rye")
    found = hits_of(report, "dense", "rye")
    for move in side.moves:
        (rank,) = move.parts
        assert (rank.part, rank.rank, rank.kept) == ("dense", rank_of(found, move.doc), 2)
    assert side.notes[1] == (
        "both: words is not a setting of the report, which has no ranking of it. Run the experiment again."
    )
    assert "dense not in its first 2" in side_text(side, 100)


def test_a_file_of_a_part_that_lacks_the_query_is_damaged(tmp_path: Path) -> None:
    report = run_experiment(write_experiment(tmp_path, retrievers=HYBRID).config())
    (path,) = (report.folder / "rankings" / "parts").glob("words-*")
    write_rows(path, [{"query": "other", "docs": []}] * len(report.queries))
    with pytest.raises(ReportError) as raised:
        side_of(report, "dense", "both", "rye")
    assert str(raised.value).endswith("it is damaged, or was edited. Run the experiment again.")
    with pytest.raises(ReportError) as raised:  # without checksums
        side_of(report.model_copy(update={"files": {}}), "dense", "both", "rye")
    assert str(raised.value) == f"{path}: {OTHER_QUERIES}"


def test_a_part_of_a_sweep_s_setting_is_found_whatever_the_sweep_calls_it(tmp_path: Path) -> None:
    experiment = write_experiment(
        tmp_path,
        retrievers={name: HYBRID[name] for name in ("dense", "words", "both")},
        sweep={"matrix": {"chunker.size": [60, 90]}},
    )
    report = run_experiment(experiment.config())
    for path in (report.folder / "rankings" / "parts").glob("dense-*"):
        path.unlink()
    side = side_of(report, "dense-size60", "both-size60", "rye")
    found = hits_of(report, "dense-size60", "rye")
    assert {(one.doc, one.parts[0].rank) for one in side.moves} == {
        (one.doc, rank_of(found, one.doc)) for one in side.moves
    }


def test_of_chunks_moves_are_told_chunk_by_chunk_and_labels_passage_by_passage(tmp_path: Path) -> None:
    quoted = {"doc": "bread/rye.md", "quote": "Bake it for an hour in a hot oven"}
    queries = [{"id": "rye", "text": "How long do I bake rye bread?", "relevant_docs": [quoted]}]
    evaluators = {"unit": "span", "primary_metric": "ndcg@2", "graded": {"k": [2]}}
    experiment = write_experiment(tmp_path, queries=queries, retrievers=HYBRID, evaluators=evaluators)
    report = run_experiment(experiment.config())
    side = side_of(report, "dense", "both", "rye")
    ranked = [{(hit.doc, hit.start, hit.end): hit.rank for hit in hits} for hits in (side.hits_baseline, side.hits)]
    for move in side.moves:
        place = move.doc, move.start, move.end
        assert (move.rank_baseline, move.rank) == (ranked[0].get(place), ranked[1].get(place))
        assert [one.part for one in move.parts] == ["dense", "words"]
    assert len(side.moves) == len({*ranked[0], *ranked[1]})
    found = [(report.setting(name).per_query.passages or [[]])[0] for name in ("dense", "both")]
    assert side.passages is not None
    assert [(one.found_baseline, one.found) for one in side.passages] == [
        (found[0][0].found if found[0] else None, found[1][0].found if found[1] else None)
    ]
    assert side.why_no_shares == "passages count, which may be found in several chunks together."
    assert f"found at {found[0][0].found or '-' if found[0] else '-'} -> " in side_text(side, 100)


def test_reports_are_compared_by_their_own_files(scored: Report, tmp_path: Path) -> None:
    other = scored_report(tmp_path, LABELS, {"old": {**RUNS["old"], "down": "n b a"}}, "--metrics", "ndcg@3")
    made = input_of([scored, other], ["ndcg@3"])
    side = side_by_side(made, Pair(0, len(made.settings) - 1), "down")
    assert [hit.doc for hit in side.hits_baseline] == ["a", "b", "n"]
    assert [hit.doc for hit in side.hits] == ["n", "b", "a"]
    assert json.loads(side.model_dump_json())["moves"][0]["doc"] == "a"


@pytest.mark.parametrize(
    ("place", "rank"), [((5, 15), 2), ((6, 9), 1), ((12, 20), 2), ((15, 20), None), ((None, None), 1)]
)
def test_a_chunk_has_its_own_rank_in_a_part_or_that_of_the_first_that_overlaps_it(
    place: tuple[int | None, int | None], rank: int | None
) -> None:
    row = {"docs": ["a", "a", "b"], "starts": [0, 5, 0], "ends": [10, 15, 99]}
    assert rank_in_row(row, ("a", *place), [0, 1]) == rank
    assert rank_in_row(row, ("c", *place), []) is None
