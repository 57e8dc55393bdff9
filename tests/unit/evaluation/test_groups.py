"""Labels in groups are alternatives: a group is found with any member, counts once, and ends at its best member."""

import json
from collections.abc import Sequence
from dataclasses import replace
from math import log2
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from experiments import write_experiment
from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.judged_rankings import JudgedRankings
from ragtrial.dataset.library import NamedDocuments
from ragtrial.dataset.spans import ChunkSpans
from ragtrial.errors import MetricError
from ragtrial.evaluation.bounds import tie_range, ties_that_matter
from ragtrial.evaluation.grading import GradedRankings, grade, grade_spans
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.evaluation.spans import Overlaps, span_labels, whole_warnings
from ragtrial.experiment import run_experiment
from ragtrial.rankings import from_rows
from ragtrial.records import Judgment, Query, Span
from ragtrial.runs.qrels import Groups, Judgments
from ragtrial.scoring.as_report import write_score_report
from ragtrial.scoring.score_runs import score
from scenarios import scores
from small_experiment import Capture, ragtrial

DOCUMENTS = "ABCDEFG"
Label = tuple[str, int, str | None]


def graded(ranking: Sequence[str], labels: Sequence[Label], threshold: int = 1, queries: int = 1) -> GradedRankings:
    judgments = tuple(Judgment(doc, value, group=group) for doc, value, group in labels)
    codes = from_rows([[DOCUMENTS.index(doc) for doc in ranking]] * queries)
    return grade(codes, list(DOCUMENTS), [Query("q", "?", judgments)] * queries, depth=20, threshold=threshold)


def value(metric: str, ranking: Sequence[str], labels: Sequence[Label], threshold: int = 1) -> float:
    return float(scores(metric, graded(ranking, labels, threshold))[0])


TWO_PARTS: list[Label] = [("A", 2, "g1"), ("B", 1, "g1"), ("C", 1, "g2")]
GUIDE_AND_NOTE: list[Label] = [("A", 3, "g"), ("B", 1, "g")]
WORKED: list[tuple[Sequence[Label], str, str, float]] = [
    (TWO_PARTS, "BGAC", "ndcg@4", (1 + 1 / log2(4) + 1 / log2(5)) / (2 + 1 / log2(3))),  # 0.7338
    (TWO_PARTS, "BGAC", "ap@4", 0.75), (TWO_PARTS, "BGAC", "recall@1", 0.5), (TWO_PARTS, "BGAC", "complete@4", 1),
    (TWO_PARTS, "BGAC", "complete@3", 0), (TWO_PARTS, "BGAC", "precision@4", 0.75),
    (TWO_PARTS, "BGAC", "f1@4", 2 * 0.75 * 1 / 1.75), (TWO_PARTS, "GBAC", "rr@4", 0.5),
    (TWO_PARTS, "BGAC", "hit_rate@1", 1), (TWO_PARTS, "BGAC", "judged@4", 0.75),
    (TWO_PARTS, "BGAC", "unjudged@4", 0.25), (TWO_PARTS, "BAGC", "r_precision", 0.5),
    (TWO_PARTS, "BGAC", "rbp(p=0.5)@4", 0.5 * (1 + 0.125)), (TWO_PARTS, "BGAC", "capped_recall@1", 1),
    (GUIDE_AND_NOTE, "BA", "ndcg", (1 + 2 / log2(3)) / 3),  # 0.754
    (GUIDE_AND_NOTE, "AB", "ndcg", 1), (GUIDE_AND_NOTE, "BA", "ap(rel=2)", 0.5),
    (GUIDE_AND_NOTE, "BA", "ndcg(gain=exp)", (1 + 6 / log2(3)) / 7),
    (GUIDE_AND_NOTE, "BA", "ndcg(3=0)", 1),  # the best gain is that of B
    # D answers both parts: they are found at positions 1 and 2, and A counts at position 3
    ([("D", 1, "g1"), ("D", 1, "g2"), ("A", 1, "g3")], "DA", "dcg", 1 + 1 / log2(3) + 1 / log2(4)),
    ([("D", 1, "g1"), ("D", 1, "g2"), ("A", 1, "g3")], "DA", "precision@2", 1),
    ([("D", 1, "g1"), ("D", 1, "g2"), ("A", 1, "g3")], "DA", "recall@1", 2 / 3),
    ([("D", 1, "g1"), ("D", 1, "g2")], "DA", "rbp_residual(p=0.5)@2", 0.5),
    # a label without a group is a group of its own, also of a document that is in one
    ([("A", 1, "g"), ("B", 1, "g"), ("A", 2, None)], "BA", "recall@1", 0.5),
    ([("A", 1, None), ("B", 1, "A")], "B", "recall@1", 0.5),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "ranking", "metric", "expected"), WORKED)
def test_worked_by_hand(labels: Sequence[Label], ranking: str, metric: str, expected: float) -> None:
    assert value(metric, ranking, labels) == pytest.approx(expected, rel=1e-14)


def plainly(ranking: Sequence[str], labels: Sequence[Label], k: int, threshold: int) -> dict[str, float]:
    """The definitions, group by group and rank by rank."""
    groups: dict[object, dict[str, int]] = {}
    for doc, value_, group in labels:
        members = groups.setdefault(group or (doc,), {})
        members[doc] = max(value_, members.get(doc, value_))
    best = {name: max(members.values()) for name, members in groups.items()}
    wanted = [name for name in groups if best[name] >= threshold]
    levels = dict.fromkeys(groups, 0)
    found: list[tuple[int, int]] = []  # rank and position of each group that is found
    reached: list[tuple[int, int]] = []  # position and rise
    known = set[object]()
    for rank, doc in enumerate(ranking, 1):
        for name in sorted((name for name in groups if doc in groups[name]), key=lambda name: -groups[name][doc]):
            grade_ = groups[name][doc]
            if grade_ >= threshold and name not in known:
                known.add(name)
                found.append((rank, max(rank, found[-1][1] + 1) if found else rank))
            if max(grade_, 0) > levels[name]:
                reached.append((max(rank, reached[-1][0] + 1) if reached else rank, grade_ - levels[name]))
                levels[name] = grade_
    hits = sum(any(label[0] == doc and label[1] >= threshold for label in labels) for doc in ranking[:k])
    ideal = sorted((max(level, 0) for level in best.values()), reverse=True)
    number = len(wanted)
    dcg = sum(rise / log2(position + 1) for position, rise in reached if position <= k)
    perfect = sum(level / log2(place + 1) for place, level in enumerate(ideal[:k], 1))
    precisions = sum(count / position for count, (rank, position) in enumerate(found, 1) if rank <= k)
    recall = sum(rank <= k for rank, _ in found) / number if number else 0.0
    precision = hits / k
    return {
        "recall": recall, "complete": float(number > 0 and recall == 1), "precision": precision,
        "f1": 2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        "ap": precisions / number if number else 0.0, "dcg": dcg, "ndcg": dcg / perfect if perfect else 0.0,
        "rbp(p=0.5)": sum(0.5**position for _, position in found if position <= k),
        "rr": next((1 / rank for rank, _ in found if rank <= k), 0.0), "hit_rate": float(recall > 0),
    }  # fmt: skip


documents = st.sampled_from(DOCUMENTS[:5])
groups = st.sampled_from([None, "g1", "g2", "g3"])
label_lists = st.lists(st.tuples(documents, st.integers(0, 3), groups), max_size=7)
rankings = st.permutations(DOCUMENTS).map(lambda docs: docs[:6])


@given(rankings, label_lists, st.integers(1, 7), st.integers(1, 2))
def test_metrics_are_their_definitions(ranking: Sequence[str], labels: Sequence[Label], k: int, threshold: int) -> None:
    together = graded(ranking, labels, threshold, queries=3)
    for metric, expected in plainly(ranking, labels, k, threshold).items():
        found = scores(f"{metric}@{k}", together).tolist()
        assert found == pytest.approx([expected] * 3, abs=1e-12), metric
        assert metric == "dcg" or max(found) <= 1
        parts = [scores(f"{metric}@{k}", part).tolist() for part in together.parts(2)]
        assert [one for part in parts for one in part] == found


@given(rankings, label_lists, st.data(), st.integers(1, 7))
def test_an_alternative_no_better_than_its_group_never_lowers_a_score(
    ranking: Sequence[str], labels: Sequence[Label], data: st.DataObject, k: int
) -> None:
    """Every document is in one group; the new one was not judged."""
    once = list({doc: (doc, value_, group or doc) for doc, value_, group in labels if value_ > 0}.values())
    if not once:
        return
    group = data.draw(st.sampled_from([label[2] for label in once]))
    most = max(value_ for _, value_, own in once if own == group)
    new = data.draw(st.sampled_from("FG"))
    more = [*once, (new, data.draw(st.integers(0, most)), group)]
    for metric in plainly(ranking, once, k, 1):
        before, after = (value(f"{metric}@{k}", ranking, known) for known in (once, more))
        assert after >= before - 1e-12, metric


@given(rankings, st.lists(st.tuples(documents, st.integers(-1, 3)), max_size=6), st.integers(1, 7))
def test_groups_of_one_document_are_as_none(ranking: Sequence[str], labels: Sequence[tuple[str, int]], k: int) -> None:
    without: list[Label] = [(doc, value_, None) for doc, value_ in labels]
    named: list[Label] = [(doc, value_, f"of {doc}") for doc, value_ in labels]
    assert graded(ranking, named).judgments.groups is None
    for metric in plainly(ranking, without, k, 1):
        assert value(f"{metric}@{k}", ranking, without) == value(f"{metric}@{k}", ranking, named)


@pytest.mark.parametrize("metric", ["bpref", "infap", "err@3"])
def test_metrics_of_single_documents_are_an_error_where_a_group_has_two_members(metric: str) -> None:
    with pytest.raises(MetricError, match=r"is not defined for labels that are alternatives .* Use ndcg, ap, recall"):
        scores(metric, graded("AB", TWO_PARTS))


def test_a_run_with_such_a_metric_is_an_error_before_anything_is_embedded(tmp_path: Path) -> None:
    labels = [{"doc": doc, "group": "g"} for doc in ("storage.txt", "oven.txt")]
    made = write_experiment(
        tmp_path, queries=[{"id": "q", "text": "?", "relevant_docs": labels}], evaluators={"primary_metric": "err@3"}
    )
    with pytest.raises(MetricError, match=r"^err\(max=4\)@3 is not defined for labels that are alternatives"):
        run_experiment(made.config())
    assert made.embedded() == []


def test_a_group_is_on_the_line_of_its_label_whatever_its_name(tmp_path: Path, capsys: Capture) -> None:
    labels = [{"doc": "oven.txt", "group": "two\nlines"}]
    experiment = write_experiment(tmp_path, queries=[{"id": "q", "text": "?", "relevant_docs": labels}])
    report = run_experiment(experiment.config())
    shown = ragtrial(capsys, "show", report.folder, "--query", "q").out
    assert "  label: grade 1  oven.txt  (group: two lines)\n" in shown


def test_runs_are_scored_by_the_groups_of_a_labels_file(tmp_path: Path, capsys: Capture) -> None:
    labels = [{"doc": "A", "relevance": 2, "group": 1}, {"doc": "B", "group": 1}, {"doc": "C"}]
    file = tmp_path / "labels.json"
    file.write_text(json.dumps({"queries": [{"id": "q", "text": "?", "relevant_docs": labels}]}))
    runs = {"run": {"q": {"B": 4.0, "X": 3.0, "A": 2.0, "C": 1.0}}, "other": {"q": {"C": 1.0}}}
    scored = score(file, runs, "ndcg@4,ap@4,recall@1,complete@4")
    means = {name: mean.mean for name, mean in scored.runs[0].scores.items()}
    assert means == pytest.approx({"ndcg@4": 0.7338, "ap@4": 0.75, "recall@1": 0.5, "complete@4": 1}, abs=5e-5)
    assert scored.attainable == {}
    exported = ragtrial(capsys, "export", file, tmp_path / "out.qrels", "--qrels")
    assert "3 judgments of 1 query; qrels have no groups, so alternatives count one by one" in exported.err
    report = write_score_report(scored, tmp_path / "report")
    again = score(tmp_path / "report", runs, "ndcg@4,ap@4").runs[0]
    assert {name: mean.mean for name, mean in again.scores.items()} == {name: means[name] for name in again.scores}
    judged = JudgedRankings(input_of([str(report.folder)], ["ndcg@4"]))
    assert judged.scores_now(0, parse_metric("ndcg@4")).tolist() == [means["ndcg@4"]]
    (more,) = judged.scores(0, parse_metric("complete@2"), [(0, {"X": 1})])
    assert more == 0
    shown = ragtrial(capsys, "show", report.folder, "--query", "q").out
    assert "  label: grade 2  A  (group: 1)\n  label: grade 1  B  (group: 1)\n  label: grade 1  C\n" in shown


FORBIDDEN: list[tuple[str, str, float]] = [
    ("forbidden@1", "BA", 0), ("forbidden@2", "BA", 1), ("ndcg@2", "AB", 1 / log2(3)), ("precision@2", "AB", 0.5),
    ("judged@2", "AB", 1),
]  # fmt: skip


@pytest.mark.parametrize(("metric", "ranking", "expected"), FORBIDDEN)
def test_a_grade_below_0_gains_nothing_and_is_counted(metric: str, ranking: str, expected: float) -> None:
    labels: list[Label] = [("B", 1, None), ("A", -1, None)]
    assert value(metric, ranking, labels) == pytest.approx(expected, rel=1e-14)


def test_groups_of_passages_and_trec_eval_without_forbidden_grades() -> None:
    one = replace(graded("A", [("A", -1, None)]), skips_negatives=True)
    assert scores("forbidden@1", one).tolist() == [0]
    assert parse_metric("forbidden@1").eligible(one).tolist() == [False]
    one = graded("AB", [("A", 1, "g"), ("B", 1, "g")])
    tied = replace(one, ties=np.array([[1, 2], [1, 2]], dtype=np.int32))
    assert tie_range(parse_metric("ndcg@2"), tied) is None
    assert ties_that_matter(tied).tolist() == [True]
    labels = ("A", 0, 10, 2, "g"), ("B", 0, 8, 1, "g"), ("C", 0, 4, 1, None)
    one = spans_graded([2, 0, 3], *labels)
    expected = {
        "recall@1": 1 / 2, "recall@3": 1, "complete@2": 0, "complete@3": 1, "precision@3": 1,
        "ndcg@3": (1 + 1 / log2(3) + 1 / 2) / (2 + 1 / log2(3)), "ap@3": (1 + 2 / 3) / 2,
        "span_recall@1": 8 / 12, "span_precision@1": 8 / 10, "span_recall@3": 1, "span_precision@3": 12 / 30,
    }  # fmt: skip
    assert {name: float(scores(name, one)[0]) for name in expected} == pytest.approx(expected, rel=1e-14)
    one = spans_graded([0, 2], ("A", 0, 10, 0, "g"), ("B", 0, 8, 1, "g"), ("C", 0, 4, 0, None))
    assert [float(scores(f"span_recall@{k}", one)[0]) for k in (1, 2)] == [0, 1]
    assert float(scores("span_precision@2", one)[0]) == 8 / 20
    one = spans_graded([3, 0], ("A", 0, 5, 1, None), ("A", 4, 9, -1, None))
    assert [float(scores(f"forbidden@{k}", one)[0]) for k in (1, 2)] == [0, 1]


SPANS = [(0, 0, 10), (0, 10, 20), (1, 0, 10), (2, 0, 10)]
"""Chunks of documents A, B and C."""

SpanLabel = tuple[str, int, int, int, str | None]


def spans_graded(
    ranking: Sequence[int], *labels: SpanLabel, chunks: Sequence[tuple[int, int, int]] = SPANS, threshold: int = 1
) -> GradedRankings:
    judgments = tuple(Judgment(doc, value_, None, (Span(a, b),), None, group) for doc, a, b, value_, group in labels)
    known = span_labels([Query("q", "?", judgments)], NamedDocuments(list(DOCUMENTS)))
    assert whole_warnings(known) == []
    columns = from_rows([list(column) for column in zip(*chunks, strict=True)]).codes
    places = ChunkSpans(columns[0], columns[1].astype("int64"), columns[2].astype("int64"))
    overlaps = Overlaps(from_rows([list(ranking)]).codes, places, known.passages, known.judgments, 0.5, is_whole=True)
    return grade_spans(overlaps, known.judgments, depth=10, threshold=threshold)


@given(rankings, label_lists, st.integers(1, 7), st.integers(1, 2))
def test_whole_passages_are_documents(ranking: Sequence[str], labels: Sequence[Label], k: int, threshold: int) -> None:
    known = {(doc, group or doc): (doc, value_, group) for doc, value_, group in labels}.values()
    whole = [(number, 0, 10) for number in range(len(DOCUMENTS))]
    chunks = [DOCUMENTS.index(doc) for doc in ranking]
    passages = [(doc, 0, 10, value_, group) for doc, value_, group in known]
    one = spans_graded(chunks, *passages, chunks=whole, threshold=threshold)
    for metric, expected in plainly(ranking, list(known), k, threshold).items():
        assert float(scores(f"{metric}@{k}", one)[0]) == pytest.approx(expected, abs=1e-12), metric


def test_labels_of_judgments_name_no_group_of_one() -> None:
    groups = Groups.of([[(0, 1, "a"), (1, 2, "a"), (1, 2, "b"), (2, 3, "c")]])
    judgments = Judgments(np.array([0, 3]), np.array([1, 2, 3], dtype=np.int32), np.array([False]), groups)
    assert list(judgments.labels()) == [(0, 1, "0"), (1, 2, "0"), (1, 2, "1"), (2, 3, None)]
