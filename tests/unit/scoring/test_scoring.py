"""From files to scores, end to end: trec_eval's numbers, the same from every form; queries not shared are named."""

import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import pytrec_eval
from hypothesis import HealthCheck, given, settings, strategies as st

from expectations import message_of
from ragtrial import compare, score
from ragtrial.errors import InputError, MetricError, RunFileError
from ragtrial.evaluation.metrics import METRICS, Metric, parse_metrics
from ragtrial.report.schema import JudgmentPart, QueryPart, SpanPart
from ragtrial.scoring import score_runs as scoring
from ragtrial.scoring.as_report import write_score_report
from ragtrial.scoring.query_details import grade_of_chunk
from ragtrial.scoring.score_runs import Protocol, RunCounts, document_warning, guessed_reason, mismatch_warnings
from scenarios import OF_DOCUMENTS

Table = dict[str, dict[str, float]]
Grades = dict[str, dict[str, int]]

SAME = {
    "map": "ap", "ndcg": "ndcg", "recip_rank": "rr", "Rprec": "r_precision", "bpref": "bpref", "P_5": "precision@5",
    "recall_5": "recall@5", "ndcg_cut_5": "ndcg@5", "map_cut_5": "ap@5", "success_5": "hit_rate@5",
    "infAP": "infap",
}  # fmt: skip
"""trec_eval's measures and ours."""

documents = st.sampled_from([f"d{number}" for number in range(14)] + ["D#1", "é", "d10-x"])
queries = st.sampled_from(["1", "2", "10", "q#3", "Q4"])


def runs() -> st.SearchStrategy[Table]:
    """Scores with many ties, all of them the same in single precision as in double."""
    scores = st.integers(-6, 6).map(lambda number: number / 4)
    return st.dictionaries(queries, st.dictionaries(documents, scores, min_size=1, max_size=12), min_size=1)


def judgments(least: int = -2) -> st.SearchStrategy[Grades]:
    """Grades of which each query has one of at least 0: a query with negative ones alone ends pytrec_eval."""
    some = st.dictionaries(documents, st.integers(least, 3), max_size=10)
    return st.dictionaries(queries, st.builds(lambda known, grade: {**known, "sure": grade}, some, st.integers(0, 2)),
                           min_size=1)  # fmt: skip


def written(folder: Path, qrels: Grades, run: Table, order: list[int]) -> tuple[Path, Path]:
    """TREC files, the lines of the run in any order, with ranks that say nothing."""
    lines = [f"{query} Q0 {doc} 0 {value} tag" for query, row in run.items() for doc, value in row.items()]
    mixed = [lines[index % len(lines)] for index in order if index < len(lines)]
    rest = [line for line in lines if line not in set(mixed)]
    (folder / "run").write_text("\n".join([*dict.fromkeys(mixed), *rest]) + "\n", encoding="utf-8")
    (folder / "qrels").write_text(
        "".join(f"{query} 0 {doc} {grade}\n" for query, row in qrels.items() for doc, grade in row.items()),
        encoding="utf-8",
    )
    return folder / "qrels", folder / "run"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(judgments(), runs(), st.integers(1, 3), st.permutations(range(60)))
def test_files_as_trec_eval_does(tmp_path: Path, qrels: Grades, run: Table, level: int, order: list[int]) -> None:
    paths = written(tmp_path, qrels, run, order)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {name.replace("_5", ".5") for name in SAME}, level).evaluate(run)
    scored = score(*paths, list(SAME), trec_compat=True, relevance_threshold=level).runs[0]
    ours = scored.per_query()
    assert list(ours) == list(qrels)
    for query in qrels:
        expected = theirs.get(query) or dict.fromkeys(SAME, 0.0)
        for measure, metric in SAME.items():
            assert ours[query][metric] == pytest.approx(expected[measure], abs=1e-9), (query, measure)


@pytest.mark.slow
@given(judgments(0), runs(), st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_form_of_a_run_scores_alike(tmp_path: Path, qrels: Grades, run: Table, data: st.DataObject) -> None:
    metrics = ["ndcg@5", "ap", "rr", "bpref", "judged@3"]
    expected = score(qrels, run, metrics).runs[0]
    rows = [(query, doc, value) for query, row in run.items() for doc, value in row.items()]
    columns = {name: [row[index] for row in rows] for index, name in enumerate(("qid", "docno", "score"))}
    judged = [(query, doc, grade) for query, row in qrels.items() for doc, grade in row.items()]
    frame = pd.DataFrame(judged, columns=["query_id", "doc_id", "relevance"])
    (tmp_path / "run.json").write_text(json.dumps(run), encoding="utf-8")
    (tmp_path / "run.jsonl").write_text(
        "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows), encoding="utf-8"
    )
    trec_qrels, trec_run = written(tmp_path, qrels, run, list(range(200)))
    forms = [rows, pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns), tmp_path / "run.json",
             tmp_path / "run.jsonl", trec_run]  # fmt: skip
    one = data.draw(st.sampled_from(range(len(forms))))
    for judgment_form in (frame, trec_qrels, pl.from_pandas(frame), judged):
        found = score(judgment_form, forms[one], metrics).runs[0]
        assert found.per_query() == expected.per_query()
        assert found.scores == expected.scores


@pytest.mark.slow
@given(judgments(), runs(), st.integers(1, 3))
def test_queries_scored_a_few_at_a_time_have_the_same_scores(qrels: Grades, run: Table, size: int) -> None:
    metrics = [name if METRICS[name].cut == "none" else f"{name}@3" for name in OF_DOCUMENTS]
    whole = score(qrels, run, metrics, judged_only=False, depth=5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "_BLOCK", size)
        parts = score(qrels, run, metrics, judged_only=False, depth=5)
    assert parts.runs[0].per_query() == whole.runs[0].per_query()
    assert parts.runs[0].scores == whole.runs[0].scores
    assert parts.runs[0].counts == whole.runs[0].counts
    assert parts.attainable == whole.attainable


def test_several_runs_are_told_apart_named_or_numbered(tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_text("q Q0 a 1 1.0 tag\n")
    qrels, run = {"q": {"a": 1, "b": 1}}, {"q": {"a": 1.0}, "p": {}}
    rows = [("q", "a", 1.0)]
    forms = {
        "dict": run,
        "ids": {"q": ["a"]},
        "file": tmp_path / "run.txt",
        "frame": pd.DataFrame(rows, columns=["query", "document", "score"]),
        "rows": rows,
    }
    scored = score(qrels, forms, "recall@10")
    assert [one.name for one in scored.runs] == list(forms)
    assert {name: scored[name].scores["recall@10"].mean for name in forms} == dict.fromkeys(forms, 0.5)
    assert repr(scored).startswith("Scoring(5 runs, 1 query, recall@10: dict 0.500, ids 0.500, ")
    assert repr(scored["ids"]) == "RunScores('ids', 1 query, recall@10: 0.500)"
    alone: list[Any] = [run, {"q": ["a"]}, {"q": {}}]
    assert [one.name for table in alone for one in score(qrels, table, "rr").runs] == ["run"] * 3
    qrels, run = {"q": {"a": 1}}, {"q": {"a": 1.0}}
    assert [one.name for one in score(qrels, [run, run], "rr").runs] == ["run", "run-2"]
    with pytest.raises(InputError, match="there are no runs to score: the list is empty"):
        score(qrels, [], "rr")
    with pytest.raises(RunFileError, match=r"^the given NoneType 'old': cannot be read; "):
        score(qrels, {"old": None, "new": run}, "rr")
    with pytest.raises(InputError, match=r"there is no rule 'trec_compatible'\. Did you mean 'trec_compat'\?"):
        score(qrels, run, "rr", trec_compatible=True)


def test_hits_of_a_run_are_counted_cut_and_compared_with_its_labels() -> None:
    """Ids that differ by upper and lower case: all of the run is missing, and the other setting wins."""
    qrels = {f"q{number}": {"a": 1} for number in range(12)}
    runs = {"lost": {query.upper(): {"a": 1.0} for query in qrels}, "found": {query: {"a": 1.0} for query in qrels}}
    found = compare(score(qrels, runs, "rr"))
    assert "few-queries-match" in [warning.code for warning in found.warnings]
    assert "The ids differ by upper and lower case: 'Q0' in the run, 'q0' in the qrels." in str(found)
    qrels, run = {"q": {"a": 1}}, {"q": {"x": 2.0, "a": 1.0}}
    assert score(qrels, run, "rr", depth=1, judged_only=True).runs[0].scores["rr"].mean == 1.0
    assert score(qrels, run, "rr", depth=1).runs[0].scores["rr"].mean == 0.0
    qrels, run = {"q": {"b": 1}}, {"q": {"a": 1.0, "b": 1.0}}
    assert score(qrels, run, "rr").runs[0].scores["rr"].mean == 0.5
    assert score(qrels, run, "rr", trec_compat=True).runs[0].scores["rr"].mean == 1.0
    qrels = {"1": {"a": 1, "b": 0}, "2": {"a": 1}, "3": {"z": 0}}
    run = {"1": {"a": 1.0, "x": 1.0, "b": 0.5}, "9": {"a": 1.0}}
    (scored,) = score(qrels, run, "rr").runs
    assert scored.as_json()["counts"] == {
        "rows": 4, "duplicates": 0, "tied": 1, "ties_that_matter": 1, "contradicted": 0, "judged": 3, "retrieved": 1,
        "missing_names": ("2", "3"), "unknown": 1, "unknown_names": ("9",), "missing": 2,
    }  # fmt: skip
    assert {warning.code for warning in scored.warnings} == {
        "queries-not-retrieved", "queries-not-judged", "few-queries-match", "ties",
    }  # fmt: skip


def test_a_ranking_may_be_empty_and_is_short_then(tmp_path: Path) -> None:
    runs: dict[str, dict[str, float]] = {"q1": {"a": 1.0, "c": 0.5}, "q2": {}}
    scored = score({"q1": {"a": 1}, "q2": {"b": 1}}, runs, "rr", depth=2)
    assert scored["run"].scores["rr"].mean == 0.5
    assert write_score_report(scored, tmp_path / "report").settings[0].per_query.short == [False, True]


@pytest.mark.parametrize(
    ("start", "end", "grade"), [(0, 10, None), (0, 11, 2), (19, 30, 2), (20, 30, None), (15, 15, None)]
)
def test_a_chunk_has_the_grade_of_a_passage_that_it_overlaps(start: int, end: int, grade: int | None) -> None:
    label = JudgmentPart(doc="a", relevance=2, spans=[SpanPart(start=10, end=20)])
    query = QueryPart(id="q", text="why", tags=[], relevant_docs=[label])
    assert (grade_of_chunk(query, "a", start, end), grade_of_chunk(query, "b", start, end)) == (grade, None)


def test_scored_runs_are_compared_as_the_report_of_them_is(tmp_path: Path) -> None:
    draw = random.Random(0)
    qrels = {f"q{number}": {f"d{number}": 1, f"e{number}": 2} for number in range(30)}
    runs = {
        name: {
            query: {document: draw.random() + bonus * (document in judged) for document in (*judged, "x", "y", "z")}
            for query, judged in qrels.items()
        }
        for name, bonus in (("BM25 (k1=1.2)", 0.0), ("dense", 0.6))
    }
    scored = score(iter([(q, d, g) for q, judged in qrels.items() for d, g in judged.items()]), runs, "ndcg@2,recall@3")
    found = compare(scored, baseline="BM25 (k1=1.2)")
    write_score_report(scored, tmp_path / "report")
    written = compare(tmp_path / "report", baseline="BM25-k1-1.2")
    ours, theirs = ([one.model_dump(exclude={"baseline"}) for one in each.comparisons] for each in (found, written))
    assert [{**one, "sentence": ""} for one in ours] == [{**one, "sentence": ""} for one in theirs]
    assert found.conclusion.kind == "baseline"
    assert found.conclusion.depends_on_unjudged == written.conclusion.depends_on_unjudged == ["dense"]
    assert found.conclusion.sentences[-1] == "Next: label the hits that could change this"
    assert [
        one.difference for one in compare(scored, score(qrels, {"dense": runs["dense"]}, "ndcg@2")).comparisons
    ] == [0]


@pytest.mark.parametrize(
    "metrics", ["nope@3,ap,precision@x,precision", ["nope@3", "ap,precision@x", Metric("precision")]]
)
def test_all_metrics_that_are_wrong_are_told_at_once(metrics: Any) -> None:
    told = message_of(MetricError, parse_metrics, metrics).splitlines()
    assert len(told) == 3
    assert told[0].startswith("'nope@3': there is no metric 'nope'.")
    assert told[1] == "'precision@x': k is 'x'; it must be a whole number from 1 to 1,000,000."
    assert told[2] == "precision has no cutoff; write precision@k."


@pytest.mark.parametrize(("rules", "message"), [
    ({"relevance_threshold": 0}, "the relevance threshold is 0; it must be a whole number of at least 1."),
    ({"relevance_threshold": "2"}, "the relevance threshold is '2'; it must be a whole number of at least 1."),
    ({"depth": 1.5}, "the depth is 1.5; it must be a whole number of at least 1."),
    ({"no_relevant": "foo"}, "no_relevant is 'foo'; it must be one of: skip, zero."),
    ({"duplicates": "last"}, "duplicates is 'last'; it must be one of: error, first."),
])  # fmt: skip
def test_rules_that_cannot_be_are_refused(rules: dict[str, Any], message: str) -> None:
    assert message_of(InputError, Protocol, tuple(parse_metrics("rr")), **rules) == message


TEN = tuple(f"q{number}" for number in range(10))


@pytest.mark.parametrize(("judged", "missing", "missing_names", "unknown", "unknown_names", "expected"), [
    (2, 0, (), 0, (), {}),
    (4, 1, ("q4",), 0, (), {
        "queries-not-retrieved":
        "bm25: 1 of 4 judged queries are missing in the run; they score 0 and are counted: q4.",
    }),
    (2_000, 500, TEN, 0, (), {
        "queries-not-retrieved":
        "bm25: 500 of 2,000 judged queries are missing in the run; they score 0 and are counted: "
        f"{', '.join(TEN)}, and 490 more.",
    }),
    (3, 0, (), 2, ("q8", "q9"),
     {"queries-not-judged": "bm25: queries of the run without judgments are left out, 2 in number: q8, q9."}),
    (4, 2, ("a", "b"), 0, (), {"queries-not-retrieved": None}),  # half is not fewer than half
    (4, 3, ("q2", "q3", "q4"), 0, (), {
        "queries-not-retrieved": None,
        "few-queries-match":
        "bm25: FEWER THAN HALF OF THE QUERIES MATCH: 4 are judged, 1 are in the run, 1 in both. "
        "Do the two belong together?",
    }),
    (2, 0, (), 3, ("x", "y", "z"), {"queries-not-judged": None, "few-queries-match": None}),
])  # fmt: skip
def test_queries_that_the_other_lacks_are_counted_and_named(
    judged: int, missing: int, missing_names: tuple[str, ...], unknown: int, unknown_names: tuple[str, ...],
    expected: dict[str, str | None],
) -> None:  # fmt: skip
    counts = RunCounts(0, 0, 0, 0, 0, judged, judged - missing, missing, missing_names, unknown, unknown_names)
    found = {warning.code: warning.message for warning in mismatch_warnings("bm25", counts, ("q1", "q2"))}
    assert found == {code: message or found[code] for code, message in expected.items()}


def test_a_run_none_of_whose_documents_is_judged_is_loud_and_says_why_where_it_can() -> None:
    known = document_warning("bm25", ["12", "13"], ["D12", "D13", "D99"])
    assert (known.code, known.message) == (
        "no-documents-match",
        "bm25: NOT ONE HIT IS JUDGED: no document of the run is in the qrels of its query, so all is 0. "
        "The ids of the run have 'D' before them: 'D12' for '12'.",
    )
    unknown = document_warning("bm25", ["a", "b"], ["x"])
    assert unknown.message.endswith("so all is 0. The run has x; the qrels have a, b.")


@pytest.mark.parametrize(("judged", "unknown", "reason"), [
    (("1", "2"), ("01", "02"), "The ids differ by zeros before the number: '01' in the run, '1' in the qrels."),
    (("q007",), ("q7",), "The ids differ by zeros before the number: 'q7' in the run, 'q007' in the qrels."),
    (("1",), ("1.0",),
     "The ids differ by numbers that were written as decimals, like 7.0 for 7: "
     "'1.0' in the run, '1' in the qrels."),
    (("Q1",), ("q1",), "The ids differ by upper and lower case: 'q1' in the run, 'Q1' in the qrels."),
    (("1", "2"), ("q1", "q2"), "The ids of the run have 'q' before them: 'q1' for '1'."),
    (("test-1", "test-2"), ("1", "2"),
     "The ids of the qrels have 'test-' before them: 'test-1' for '1'."),
    (("1", "2", "3", "4"), ("101", "205", "309"), ""), (("a",), ("b",), ""), ((), ("b",), ""), (("a",), (), ""),
])  # fmt: skip
def test_the_reason_is_guessed_from_the_names(judged: tuple[str, ...], unknown: tuple[str, ...], reason: str) -> None:
    assert guessed_reason(judged, unknown) == reason
