"""Our own forms become qrels and runs: BEIR qrels, labels, reports, rankings files and results, ours and published."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from corpora import write_files, write_rows
from experiments import write_experiment
from forms import qrels_rows, run_rows, told
from ragtrial import RetrievalEvaluator, load_prompt_queries, load_report
from ragtrial.errors import InputError, LabelsError, RunFileError
from ragtrial.records import ExperimentResults, Hit, Judgment, PromptQueries, Query, QueryResult
from ragtrial.runs.formats.own_files import read_results, results_run
from ragtrial.runs.inputs import read_qrels, read_runs
from report_hits import hits_of

HEADER = "query-id\tcorpus-id\tscore\n"


def faults_of(error: type[InputError], path: Path, **how: Any) -> list[str]:
    read: Callable[..., object] = read_qrels if error is LabelsError else read_runs
    return told(path.parent, error, read, path, **how)


@pytest.mark.parametrize("name", ["test.tsv", "test.tsv.gz"])
@pytest.mark.parametrize("header", ["", HEADER, "\ufeffquery_id doc_id relevance\r\n"])
def test_qrels_of_three_columns_are_read_with_and_without_header(tmp_path: Path, name: str, header: str) -> None:
    content = (header + "q2\td 1\t2\nq1\td9\t0\n\nq2\td3\t-1\r\n").encode()
    (tmp_path / name).write_bytes(gzip.compress(content, mtime=0) if name.endswith("gz") else content)
    assert qrels_rows(read_qrels(tmp_path / name, form="beir")) == {"q2": {"d 1": 2, "d3": -1}, "q1": {"d9": 0}}


RUNS_WITH_HEADERS = {
    "commas": "query_id,doc_id,score\nq1,d2,0.5\nq1,d1,9\nq2,d3,1e-3\n",
    "ranx": "q_id,doc_id,score\nq1,d2,0.5\nq1,d1,9.0\nq2,d3,.001\n",
    "other order": "score,query_id,rank,doc_id\n0.5,q1,2,d2\n9,q1,1,d1\n0.001,q2,1,d3\n",
    "pyterrier": 'qid,docid,docno,rank,score,query\nq1,7,d2,1,0.5,"a, b"\nq1,8,d1,0,9,"a, b"\nq2,9,d3,0,0.001,c\n',
    "semicolons": '\ufeff"qid";"docno";"sim"\r\n"q1";"d2";"0.5"\r\n"q1";"d1";"9"\r\n"q2";"d3";"0.001"\r\n',
    "Excel in German": "sep=;\r\nQuery ID;Document ID;Score\r\nq1;d2;0,5\r\nq1;d1;9\r\nq2;d3;1,0E-3\r\n",
    "a spreadsheet's own names": 'Query,URL,Score,Note\nq1,d2,.5,\nq1,d1,9,"two\nlines"\nq2,d3,0.001,\n',
    "JavaScript": "queryId\tdocumentId\tsimilarity\nq1\td2\t0.5\nq1\td1\t9\nq2\td3\t1E-3\n",
    "tabs": "query-id\tcorpus-id\tscore\nq1\td2\t0.5\n\nq1\td1\t9\n\t\t\nq2\td3\t0.001\n",
    "spaces": "# of a tool\n\ntopic Q0 docno rank score tag\nq1 Q0 d2 2 0.5 t\nq1 Q0 d1 1 9 t\nq2 Q0 d3 1 0.001 t\n",
    "pandas": ",qid,did,score\n0,q1,d2,0.5\n1,q1,d1,9.0\n2,q2,d3,0.001\n",
}


@pytest.mark.parametrize("name", RUNS_WITH_HEADERS)
def test_a_run_with_a_header_is_read_whatever_the_order_and_the_names_of_its_columns(tmp_path: Path, name: str) -> None:
    write_files(tmp_path, {"a.csv": RUNS_WITH_HEADERS[name]})
    (run,) = read_runs(tmp_path / "a.csv")
    assert run.values is not None
    assert (run.queries, list(run.documents)) == (("q1", "q2"), ["d2", "d1", "d3"])
    assert run.values.tolist() == [0.5, 9, 0.001]


def test_every_fault_of_a_run_with_a_header_is_told_with_its_line(tmp_path: Path) -> None:
    head = "qid,docno,score\n"
    files = {
        "a.csv": head + "q,a,high\nq,b\n", "b.csv": head + "q,a,high\n\nq,,1\nq,b,nan\n", "c.csv": head,
        "d.csv": "qid,text,score\nq,a,1\n", "e.csv": "qid,pid,doc_id,score\nq,a,b,1\n", "f.csv": "q,a,0.5\n",
        "g.csv": "qid,docno,score,note\nq,a,1,\"x\ny\"\nq,b,?,\n", "h.csv": "qid docno score\nq a 1\nq b\nq c 1 2\n",
    }  # fmt: skip
    write_files(tmp_path, files)
    assert faults_of(RunFileError, tmp_path / "a.csv") == ["a.csv:3: must be 3 fields, as the header has; found 2."]
    assert faults_of(RunFileError, tmp_path / "h.csv") == [
        "h.csv:3: must be 3 fields, as the header has; found 2.",
        "h.csv:4: must be 3 fields, as the header has; found 4.",
    ]
    assert faults_of(RunFileError, tmp_path / "b.csv") == [
        "b.csv:2: the score 'high' is no number, or none of 64 bits.",
        "b.csv:4: the document is empty; an id is a string or a whole number.",
        "b.csv:5: the score nan is no number, or none of 64 bits.",
    ]
    assert faults_of(RunFileError, tmp_path / "c.csv") == ["c.csv: has a header and no rows."]
    assert faults_of(RunFileError, tmp_path / "d.csv") == [
        "d.csv: has no column for the document; it has: 'qid', 'text', 'score'. Rename it, or say which it is: "
        "--columns document=NAME (in Python run_columns={'document': 'NAME'})."
    ]
    assert faults_of(RunFileError, tmp_path / "e.csv")[0].startswith("e.csv: the document may be any of the columns")
    assert faults_of(RunFileError, tmp_path / "f.csv")[0].startswith("f.csv: has 3 columns, such as 'q,a,0.5', and no")
    assert faults_of(RunFileError, tmp_path / "g.csv") == ["g.csv:4: the score '?' is no number, or none of 64 bits."]


GRADED = {
    "BEIR": "query-id\tcorpus-id\tscore\nq1\td1\t{}\n",
    "three columns": "q1 d1 {}\n",
    "TREC": "q1 0 d1 {}\n",
    "CSV of pandas": ",qid,docno,label\n0,q1,d1,{}\n",
    "a spreadsheet in German": "Query ID;Document ID;Relevance\nq1;d1;{}\n",
    "JSON of dicts": '{{"q1": {{"d1": {}}}}}',
    "JSON lines": '{{"query_id": "q1", "doc_id": "d1", "relevance": {}}}\n',
    "labels": '{{"queries": [{{"id": "q1", "text": "?", "relevant_docs": [{{"doc": "d1", "relevance": {}}}]}}]}}',
    "Parquet": "",
}


@pytest.mark.parametrize("form", GRADED)
def test_a_grade_of_1_0_is_1_and_one_of_0_5_is_an_error_in_every_form(tmp_path: Path, form: str) -> None:
    def grade_of(written: str) -> Any:
        path = tmp_path / f"{written}.{'parquet' if form == 'Parquet' else 'txt'}"
        if form == "Parquet":
            pa.parquet.write_table(pa.table({"qid": ["q1"], "docid": ["d1"], "score": [float(written)]}), path)
        else:
            path.write_text(GRADED[form].format(written.replace(".", ",") if "German" in form else written))
        return qrels_rows(read_qrels(path))

    assert grade_of("2.0") == {"q1": {"d1": 2}}
    assert grade_of("-1.00") == {"q1": {"d1": -1}}
    with pytest.raises(
        LabelsError, match=r"0[.,]5'? must be a whole number|0\.5; it must be a whole number|no grade: '0\.5'"
    ):
        grade_of("0.5")


def test_every_bad_row_of_qrels_is_told_with_its_line(tmp_path: Path) -> None:
    rows = "q\td\t1\nq\te\nq\tf\t1.5\nq\td\t2\nq\tg\t9999999\nq\t\n"
    write_files(tmp_path, {"a.tsv": HEADER + rows, "none.tsv": HEADER, "long.tsv": "q\td\tx\nq\td\t1\n" * 30})
    assert faults_of(LabelsError, tmp_path / "a.tsv", form="beir") == [
        "a.tsv:3: must be 3 fields, as the header has; found 2 fields.",
        "a.tsv:4: the grade '1.5' must be a whole number.",
        "a.tsv:5: judges document 'd' for query 'q', as line 2 does; give each pair one grade.",
        "a.tsv:6: the grade 9999999 is beyond 1,000,000; is it one?",
        "a.tsv:7: must be 3 fields, as the header has; found 2 fields.",
    ]
    assert faults_of(LabelsError, tmp_path / "none.tsv", form="beir") == ["none.tsv: has no judgments."]
    lines = faults_of(LabelsError, tmp_path / "long.tsv", form="beir")
    assert lines[1] == "long.tsv:3: the grade 'x' must be a whole number."
    assert lines[20:] == ["long.tsv: and 10 more like these."]


LABELS = {
    "queries": [
        {"id": 7, "text": "first", "ordered": True,
         "relevant_docs": [{"doc": "b", "relevance": 1, "quote": "x"}, {"doc": "a", "relevance": 0},
                           {"doc": "b", "relevance": 3, "quote": "y"}]},
        {"id": "none", "text": "second", "relevant_docs": []},
    ]
}  # fmt: skip


def test_labels_are_qrels_by_the_highest_grade_and_their_faults_those_of_labels(tmp_path: Path) -> None:
    write_files(tmp_path, {"prompt_queries.json": json.dumps(LABELS)})
    for source in (tmp_path / "prompt_queries.json", load_prompt_queries(tmp_path / "prompt_queries.json")):
        qrels = read_qrels(source)
        assert qrels_rows(qrels) == {"7": {"b": 3, "a": 0}, "none": {}}
        assert qrels.judgments.ordered.tolist() == [True, False]
    assert read_qrels(qrels) is qrels
    write_files(tmp_path, {"prompt_queries.json": '{"queries": []}'})
    assert faults_of(LabelsError, tmp_path / "prompt_queries.json") == [
        "prompt_queries.json:1:13: there is no query; an experiment needs at least one."
    ]
    with pytest.raises(LabelsError, match=r"^standard input: labels can only be read from a file: name it\.$"):
        read_qrels("-", form="labels")
    labels = PromptQueries((Query("q", "x", (Judgment("caf\u00e9\n", 1), Judgment("cafe\u0301\r\n", 2))),))
    assert qrels_rows(read_qrels(labels)) == {"q": {"caf\u00e9\n": 2}}


def test_settings_of_a_report_are_runs_in_its_order_and_it_has_qrels(root: Path, tmp_path: Path) -> None:
    sample = root / "results" / "sample"
    report = load_report(sample)
    runs = read_runs(sample)
    assert [run.name for run in runs] == [setting.name for setting in report.settings]
    for run, setting in zip(runs, report.settings, strict=True):
        rows = run_rows(run)
        hits = hits_of(report, setting.name)
        assert rows == {query: [(hit.doc, hit.score) for hit in found] for query, found in hits.items()}
        assert list(rows) == [query.id for query in report.queries]
    shutil.copytree(sample, tmp_path / report.experiment / report.run_id)
    by_id = read_runs(report.run_id[:18], directory=tmp_path, name="mine")
    assert [run_rows(run) for run in by_id] == [run_rows(run) for run in runs]
    assert by_id[0].name == ("mine" if len(runs) == 1 else f"mine:{runs[0].name}")
    qrels = read_qrels(root / "results" / "sample")
    labels = read_qrels(root / "prompt_queries.json")
    assert qrels_rows(qrels) == qrels_rows(labels)
    assert qrels.judgments.ordered.tolist() == labels.judgments.ordered.tolist()


def test_a_name_stands_before_those_of_several_settings(root: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(root / "results" / "sample", tmp_path / "two")
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    report["checksum"] = ""
    report["settings"] = [{**report["settings"][0], "name": name} for name in ("b", "a")]
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
    for name in ("a", "b"):
        shutil.copy(folder / "rankings" / "dense.jsonl.gz", folder / "rankings" / f"{name}.jsonl.gz")
    assert [run.name for run in read_runs(folder)] == ["b", "a"]
    assert [run.name for run in read_runs(folder, name="x")] == ["x:b", "x:a"]
    (folder / "rankings" / "a.jsonl.gz").unlink()
    assert told(folder, RunFileError, read_runs, folder) == ["rankings/a.jsonl.gz: there is no such file."]


def test_a_rankings_file_is_a_run_and_its_order_is_the_ranking(root: Path, tmp_path: Path) -> None:
    (path,) = (root / "results" / "sample" / "rankings").iterdir()
    (run,) = read_runs(path)
    assert (run.name, run_rows(run)) == ("dense", run_rows(read_runs(root / "results" / "sample")[0]))
    rows: list[dict[str, object]] = [
        {"query": "a", "docs": ["x", "y"], "scores": [0.5, 0.5]},
        {"query": "b", "docs": [], "scores": []},
    ]
    (equal,) = read_runs(write_rows(tmp_path / "equal.jsonl", rows))
    assert run_rows(equal) == {"a": [("x", 0.5), ("y", 0.5)], "b": []}
    rises: dict[str, object] = {"query": "c", "docs": ["x", "y"], "scores": [0.25, 0.5]}
    (kept,) = read_runs(write_rows(tmp_path / "rises.jsonl", [*rows, rises]))
    assert run_rows(kept) == {"a": [("x", None), ("y", None)], "b": [], "c": [("x", None), ("y", None)]}
    (bare,) = read_runs(write_rows(tmp_path / "bare.jsonl", [{"query": "a", "docs": ["x"]}]))
    assert run_rows(bare) == {"a": [("x", None)]}


def test_every_bad_row_of_a_rankings_file_is_told_with_its_line(tmp_path: Path) -> None:
    good: dict[str, object] = {"query": "a", "docs": ["x"], "scores": [1.0]}
    rows = [good, {**good, "query": 1}, {**good, "query": "b", "docs": [1]}, {**good, "query": "c", "scores": ["1"]},
            {**good, "query": "d", "scores": [1.0, 2.0]}, good]  # fmt: skip
    assert faults_of(RunFileError, write_rows(tmp_path / "a.jsonl", rows), form="rankings") == [
        *(
            f"a.jsonl:{line}: must have an id `query`, ids `docs`, and a number for each under `scores`; found {found}."
            for line, found in enumerate(map(str, rows[1:5]), 2)
        ),
        "a.jsonl:6: query 'a' has a row already.",
    ]


def test_results_that_were_written_are_read_again_and_are_runs(tmp_path: Path) -> None:
    evaluator = RetrievalEvaluator(write_experiment(tmp_path).config())
    results = evaluator.retrieve()
    elsewhere = ExperimentResults("elsewhere", (QueryResult("rye", (Hit("b"), Hit("a")), evaluations={"x@1": None}),))
    evaluator.write([*results, elsewhere], tmp_path / "scores.json")
    read = read_results(tmp_path / "scores.json")
    assert [[(hit.doc, hit.score) for hit in row.hits] for one in read for row in one.results] == [
        [(hit.doc, hit.score) for hit in row.hits] for one in (*results, elsewhere) for row in one.results
    ]
    runs = read_runs(tmp_path / "scores.json", name="mine")
    assert [run.name for run in runs] == [f"mine:{one.name}" for one in (*results, elsewhere)]
    for run, one in zip(runs, results, strict=False):
        assert run_rows(run) == {result.id: [(hit.doc, hit.score) for hit in result.hits] for result in one.results}
    assert run_rows(runs[-1]) == {"rye": [("b", None), ("a", None)]}
    assert run_rows(read_runs(elsewhere, name="again")[0]) == run_rows(runs[-1])


def published(*results: dict[str, Any], **more: Any) -> str:
    return json.dumps([{"results": list(results), "model": "gpt", "parameters": [{"size": 512}], **more}])


RETRIEVED = {"query": "What is caf\u00e9?", "contexts": ["one\r\ntwo", "other", "one\ntwo"], "prompt": "p",
             "response": "r", "evaluations": {"P@3": 0.5, "nested": {"x": 1}, "none": None}}  # fmt: skip
PASSAGES = PromptQueries(
    (
        Query("9", "unanswered", (Judgment("y"),)),
        Query("1", "What is caf\u00e9?", (Judgment("one\r\ntwo", 3), Judgment("x", 0))),
    )
)


def test_published_results_are_joined_by_ids_then_by_texts(tmp_path: Path) -> None:
    content = published({**RETRIEVED, "query": "What is cafe\u0301?"}, {"query": "stranger", "contexts": ["x"]})
    write_files(tmp_path, {"results_2024.json": content})
    (results,) = read_results(tmp_path / "results_2024.json")
    assert results.name == "gpt"
    assert results.results[0] == QueryResult("", (Hit("one\ntwo"), Hit("other")), "What is caf\u00e9?")
    (run,) = read_runs(tmp_path / "results_2024.json", labels=PASSAGES)
    assert run_rows(run) == {"1": [("one\r\ntwo", None), ("other", None)], "stranger": [("x", None)]}
    assert set(run_rows(run)["1"]) & {(name, None) for name in qrels_rows(read_qrels(PASSAGES))["1"]}
    write_files(tmp_path, {"a.json": published({**RETRIEVED, "id": 9})})
    for labels in (PASSAGES, None):
        (run,) = read_runs(tmp_path / "a.json", labels=labels)
        assert run_rows(run) == {"9": [("one\ntwo", None), ("other", None)]}
    row = {"results": [{"id": 1, "contexts": []}]}
    entries = [{**row, "model": "m"}, row, {**row, "model": {"llm": "x"}}, {**row, "model": "m"}, {**row, "name": "n"}]
    write_files(tmp_path, {"file.json": json.dumps(entries)})
    assert [one.name for one in read_results(tmp_path / "file.json")] == ["m", "file", "file-2", "m-2", "n"]


def test_results_that_cannot_be_joined_are_refused(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.json": published(RETRIEVED, RETRIEVED), "none.json": published()})
    assert faults_of(RunFileError, tmp_path / "a.json") == [
        f"gpt: results[{index}] has no `id`, so its query can only be found by its text: give labels "
        "(prompt_queries.json) as the qrels."
        for index in (0, 1)
    ] + ["gpt: results[1] has query 'What is caf\u00e9?', which an earlier one has, too; keep one of them."]
    assert faults_of(RunFileError, tmp_path / "a.json", labels=PASSAGES) == [
        "gpt: results[1] has query '1', which an earlier one has, too; keep one of them."
    ]
    twins = PromptQueries((Query("1", "same"), Query("2", " same")))
    with pytest.raises(RunFileError) as caught:
        results_run(ExperimentResults("x", (QueryResult("", (), "same"),)), twins)
    assert str(caught.value) == "x: results[0] has no `id`, and its text is that of the queries '1', '2'."
    with pytest.raises(RunFileError, match=r"the query '.ud800' has half of a surrogate pair"):
        results_run(ExperimentResults("x", (QueryResult("\ud800", (), ""),)), None)
    assert faults_of(RunFileError, tmp_path / "none.json", labels=PASSAGES) == ["gpt: has no results."]


def test_every_fault_of_results_is_told_with_its_path(tmp_path: Path) -> None:
    entries = [
        {"results": [7, {"id": True, "query": "x", "contexts": []}, {"contexts": []}, {"query": "x"},
                     {"query": "x", "contexts": "y"}, {"id": 1, "hits": {}},
                     {"id": 1, "hits": [{"doc": "d", "score": True}]},
                     {"id": 1, "hits": [{"doc": None}]}, {"id": 1, "hits": [], "contexts": []}]},
        {"result": []},
    ]  # fmt: skip
    write_files(tmp_path, {"a.json": json.dumps(entries), "b.json": "{}", "c.json": "[]"})
    assert faults_of(RunFileError, tmp_path / "a.json", form="results") == [
        "a.json:1:15: [0].results[0] is 7; it must be a mapping of keys to values.",
        "a.json:1:25: [0].results[1].id is true; it must be a text (put it in quotes) or a whole number.",
        "a.json:1:62: [0].results[2]: must have a text under `query`, or an `id`.",
        "a.json:1:80: [0].results[3]: must have `contexts` (texts, best first) or `hits`.",
        "a.json:1:123: [0].results[4].contexts is 'y'; it must be a list.",
        "a.json:1:147: [0].results[5].hits is a mapping; it must be a list.",
        "a.json:1:193: [0].results[6].hits[0].score is true; it must be a number.",
        "a.json:1:229: [0].results[7].hits[0].doc is null; it must be a text (put it in quotes) or a whole number. "
        "Leave the key out for its default.",
        "a.json:1:238: [0].results[8]: must have `contexts` (texts, best first) or `hits`.",
        "a.json:1:279: [1].results is missing; it is required.",
    ]
    for name, found in (
        ("b.json", "is a mapping; it must be a list"),
        ("c.json", "has 0 entries; it must have at least 1"),
    ):
        assert faults_of(RunFileError, tmp_path / name, form="results") == [f"{name}:1:1: the file {found}."]
