"""`ragtrial score`: runs that other tools made, scored from files."""

import csv
import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from commands import Outcome
from corpora import write_files
from ragtrial import load_report
from ragtrial.comparison.comparison_input import input_of
from report_hits import hits_of
from small_experiment import Capture, ragtrial, refused, succeeded

QRELS = "q1 0 a 1\nq1 0 b 0\nq1 0 c 2\nq2 0 a 1\nq3 0 z 0\nq4 0 d 1\n"
RUN = (
    "q1 Q0 c 1 3.0 bm25\nq1 Q0 x 2 2.0 bm25\nq1 Q0 a 3 1.0 bm25\n"
    "q2 Q0 x 1 2.0 bm25\nq2 Q0 a 2 1.0 bm25\nq3 Q0 z 1 1.0 bm25\nq9 Q0 a 1 1.0 bm25\n"
)
"""q1 finds c and a at 1 and 3, q2 its one at 2; q3 has nothing relevant, q4 is not in the run, q9 not judged."""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    Path("qrels.txt").write_text(QRELS)
    Path("bm25.run").write_text(RUN)


def score(capsys: Capture, *arguments: str) -> Outcome:
    return ragtrial(capsys, "score", "qrels.txt", *arguments)


def test_the_answer_has_means_and_on_request_queries_also_as_a_table(capsys: Capture) -> None:
    done = score(capsys, "bm25.run", "--metrics", "rr,precision@2", "--json", "-q")
    assert (done.code, done.err) == (0, "")
    (run,) = done.json["runs"]
    assert run["name"] == "bm25"
    assert run["scores"] == {"rr": {"mean": 0.5, "n": 3}, "precision@2": {"mean": pytest.approx(1 / 3), "n": 3}}
    assert "queries" not in run
    done = score(capsys, "bm25.run", "--metrics", "rr,precision@2", "--json", "--per-query", "-")
    assert done.json["runs"][0]["queries"] == {
        "q1": {"rr": 1.0, "precision@2": 0.5}, "q2": {"rr": 0.5, "precision@2": 0.5},
        "q3": {"rr": None, "precision@2": None}, "q4": {"rr": 0.0, "precision@2": 0.0},
    }  # fmt: skip
    score(capsys, "bm25.run", "--metrics", "rr,ap", "--per-query", "q.csv", "-q")
    rows = list(csv.reader(io.StringIO(Path("q.csv").read_text())))
    assert rows[0] == ["setting", "query", "metric", "value"]
    assert len(rows) == 1 + 4 * 2
    assert rows[1:3] == [["bm25", "q1", "rr", "1.0"], ["bm25", "q1", "ap", repr((1 + 2 / 3) / 2)]]
    assert rows[5] == ["bm25", "q3", "rr", ""]


def test_a_person_sees_a_table_the_mismatch_and_where_the_time_went(capsys: Capture) -> None:
    done = score(capsys, "bm25.run", "--metrics", "ndcg@10,rr,precision@2")
    assert done.out == (
        "run              ndcg@10      rr  precision@2  n\n"
        "bm25              0.5271  0.5000       0.3333  3\n"
        "(best possible)   1.0000  1.0000       0.6667\n"
    )
    assert "bm25: 1 of 4 judged queries are missing in the run; they score 0 and are counted: q4." in done.err
    assert "bm25: queries of the run without judgments are left out, 1 in number: q9." in done.err
    last = next(line for line in done.err.splitlines() if line.startswith("bm25: 7 rows in "))
    assert all(f"{stage} " in last for stage in ("qrels", "read", "metrics"))


def test_faults_of_all_runs_and_a_missing_folder_are_told_at_once(capsys: Capture) -> None:
    Path("one.run").write_text("q1 Q0 a 1 nan t\nq1 Q0 b 2\n")
    Path("two.run").write_text("q1 Q0 a 1 1 t\nq1 Q0 a 2 0.5 t\n")
    done = score(capsys, "one.run", "two.run", "--metrics", "rr", "--format", "trec")
    assert done.code == 2
    assert done.out == ""
    told = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert [line.split(": ")[1] for line in told] == ["one.run:1", "one.run:2", "two.run:2"]
    done = score(capsys, "two.run", "--metrics", "rr", "--duplicates", "first", "--json", "-q")
    assert done.json["runs"][0]["counts"]["duplicates"] == 1
    Path("bad.run").write_text("q1 Q0 a 1 nan t\n")
    no_folder = "no/means.csv: cannot be written: there is no folder no"
    done = refused(capsys, "score", "qrels.txt", "bad.run", "--per-query", "no/means.csv", says=no_folder)
    assert "nan" not in done.err


def test_ties_and_contradicting_ranks_are_told(capsys: Capture) -> None:
    Path("tied.run").write_text("q1 Q0 x 1 1.0 t\nq1 Q0 a 2 1.0 t\n")
    Path("one.qrels").write_text("q1 0 a 1\n")
    done = ragtrial(capsys, "score", "one.qrels", "tied.run", "--metrics", "rr,precision@1", "--ties", "--json")
    (run,) = done.json["runs"]
    assert run["ties"] == {"rr": {"low": 0.5, "high": 1.0}, "precision@1": {"low": 0.0, "high": 1.0}}
    assert "tied: queries with equal scores of documents that are judged unlike: 1; their order may change" in done.err
    done = ragtrial(capsys, "score", "one.qrels", "tied.run", "--metrics", "rr", "--ties", "-q")
    assert done.out.splitlines()[-2:] == [
        "tied: equal scores  lowest    mean  highest",
        "rr                  0.5000  0.5000   1.0000",
    ]
    Path("odd.run").write_text("q1 Q0 a 2 9.0 t\nq1 Q0 b 1 3.0 t\n")
    done = score(capsys, "odd.run", "--metrics", "rr")
    assert "odd: the rank column says another order than the scores, in queries: 1 ('q1' first); " in done.err


def test_a_report_is_made_shown_and_keeps_lines_that_only_trec_eval_reads(capsys: Capture) -> None:
    done = score(capsys, "bm25.run", "--metrics", "ndcg@10,rr", "-o", "reports/bm25", "-q")
    assert done.out.splitlines()[-1] == "report: reports/bm25/report.json"
    shown = ragtrial(capsys, "show", "reports/bm25", "--json")
    assert shown.json["settings"][0]["scores"]["rr"] == {"mean": 0.5, "n": 3}
    query = ragtrial(capsys, "show", "reports/bm25", "--query", "q1")
    assert query.out == (
        "query q1\n  label: grade 1  a\n  label: grade 2  c\n\nbm25: ndcg@10 0.9502, first answer at rank 1\n"
        "  1  grade 2  3.0000  c\n  2  grade -  2.0000  x\n  3  grade 1  1.0000  a\n"
    )
    there = "reports/bm25: is there already; a report is a new folder. Name another one."
    refused(capsys, "score", "qrels.txt", "bm25.run", "-o", "reports/bm25", says=there)
    assert json.loads(Path("reports/bm25/config.yaml").read_text())["score"]["runs"] == ["bm25.run"]
    Path("tags.run").write_text("q1 Q0 c 1 3.0 a tag\nq1 Q0 x - 2.0 a tag\n")
    score(capsys, "tags.run", "--trec-compat", "--metrics", "rr", "-o", "kept", "-q")
    rows = gzip.decompress(Path("kept/rankings/tags.jsonl.gz").read_bytes()).decode().splitlines()
    wanted = {"query": "q1", "docs": ["c", "x"], "grades": [2, None], "scores": [3.0, 2.0]}
    assert json.loads(rows[0]) == wanted


def test_what_a_killed_run_left_of_a_report_goes_and_nothing_else(capsys: Capture) -> None:
    """Beside the report there are a user's own folders, with whatever names."""
    for name in (".partial-r[e]p-x1y2", ".partial-rep-x1y2", ".partial-other-x1y2", ".partial-repeated", ".partial-"):
        Path(name).mkdir()
    score(capsys, "bm25.run", "-o", "r[e]p", "-q")
    assert sorted(path.name for path in Path().glob(".partial*")) == [
        ".partial-", ".partial-other-x1y2", ".partial-rep-x1y2", ".partial-repeated",
    ]  # fmt: skip


def test_a_name_that_leads_elsewhere_stays_in_the_report(capsys: Capture) -> None:
    found, names = [{"id": "q1", "hits": [{"doc": "c"}]}], ["../../evil", "a/b", "a b"]
    results = [{"name": name, "results": found} for name in names]
    Path("results.json").write_text(json.dumps(results))
    done = score(capsys, "results.json", "--metrics", "rr", "-o", "sub/rep", "--json", "-q")
    assert [run["name"] for run in done.json["runs"]] == names
    assert sorted(path.name for path in Path().rglob("*.jsonl.gz")) == [
        "a-b-2.jsonl.gz", "a-b.jsonl.gz", "evil.jsonl.gz", "texts.jsonl.gz",
    ]  # fmt: skip
    assert {path.parent.as_posix() for path in Path().rglob("*.jsonl.gz")} == {"sub/rep", "sub/rep/rankings"}
    succeeded(capsys, "show", "sub/rep", "--query", "q1")


def test_what_scoring_refuses_is_not_exported(capsys: Capture) -> None:
    Path("bad.run").write_text("q1 Q0 a 1 3 t\nq1 Q0 b x 2 t\nq1 Q0 c 3 nan t\nq1 Q0 d 4\n")
    done = refused(capsys, "export", "bad.run", "out.run", says="error: bad.run:2: ")
    told = [line.split(": ")[1] for line in done.err.splitlines() if line.startswith("error: ")]
    assert told == ["bad.run:2", "bad.run:3", "bad.run:4"]
    Path("twice.run").write_text("q1 Q0 a 1 3 t\nq1 Q0 a 2 2 t\n")
    twice = "query 'q1', hit 2: retrieves document 'a', as hit 1 does"
    refused(capsys, "export", "twice.run", "out.run", says=twice)
    assert not Path("out.run").exists()
    succeeded(capsys, "export", "twice.run", "out.run", "--duplicates", "first")
    assert Path("out.run").read_text() == "q1 Q0 a 1 3.0 twice\n"
    Path("none.run").write_text("# nothing\n")
    done = ragtrial(capsys, "export", "none.run", "out.run", "--format", "trec")
    assert "none.run: has no rows; a run has at least one." in done.err


def test_of_a_document_that_stands_twice_the_first_keeps_its_place(capsys: Capture) -> None:
    """What is exported, and what a report shows, is in the order in which it was scored: a, b, c."""
    lines = ["q1 Q0 a 1 5 t", "q1 Q0 b 2 4 t", "q1 Q0 a 3 3 t", "q1 Q0 c 4 2 t", "q1 Q0 b 5 1 t", ""]
    Path("twice.run").write_text("\n".join(lines))
    succeeded(capsys, "export", "twice.run", "out.run", "--duplicates", "first")
    assert Path("out.run").read_text() == "q1 Q0 a 1 5.0 twice\nq1 Q0 b 2 4.0 twice\nq1 Q0 c 3 2.0 twice\n"
    arguments = ("--metrics", "rr", "--duplicates", "first", "-o", "rep", "-q")
    score(capsys, "twice.run", *arguments)
    hits = hits_of(load_report("rep"), "twice")["q1"]
    assert [(hit.rank, hit.doc, hit.score) for hit in hits] == [(1, "a", 5), (2, "b", 4), (3, "c", 2)]


def test_a_report_has_rankings_by_rank_and_to_the_depth(capsys: Capture) -> None:
    Path("ms.tsv").write_text("q1\tx\t2\nq1\tc\t1\nq1\ta\t3\n")
    score(capsys, "ms.tsv", "--metrics", "rr", "--depth", "2", "-o", "rep", "--format", "msmarco", "-q")
    (query, *_) = ragtrial(capsys, "show", "rep", "--query", "q1", "--json").json
    assert [(hit["rank"], hit["doc"], hit["score"]) for hit in query["hits"]] == [(1, "c", None), (2, "x", None)]
    (setting,) = ragtrial(capsys, "show", "rep", "--json").json["settings"]
    assert setting["per_query"]["short"] == [False, True, True, True]


def test_a_report_of_scores_may_join_questions_by_their_documents(capsys: Capture) -> None:
    Path("pairs.qrels").write_text("".join(f"q{place} 0 d{place // 2} 1\n" for place in range(8)))
    Path("pairs.run").write_text("".join(f"q{place} Q0 d{place // 2} 1 {place} run\n" for place in range(8)))
    succeeded(capsys, "score", "pairs.qrels", "pairs.run", "--clusters", "document", "-o", "pairs", "-q")
    assert input_of(["pairs"], may_be_one=True).clusters == pytest.approx([0, 0, 1, 1, 2, 2, 3, 3])
    refused(capsys, "score", "pairs.qrels", "pairs.run", "--clusters", "document", says="add --output REPORT")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("options", [(), ("--json",), ("--per-query", "-")])
def test_an_output_that_is_full_is_told_without_a_traceback(options: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "ragtrial", "score", "qrels.txt", "bm25.run", *options]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert "error: standard output: cannot be written: No space left on device." in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_columns_of_tables_are_named(capsys: Capture) -> None:
    Path("run.jsonl").write_text('{"frage": "q1", "treffer": "c", "punkte": 2}\n')
    Path("qrels.jsonl").write_text('{"frage": "q1", "treffer": "c", "note": 1}\n')
    named = ("--columns", "query=frage,document=treffer,score=punkte")
    judged = ("--qrels-columns", "query=frage,document=treffer,grade=note")
    done = ragtrial(capsys, "score", "qrels.jsonl", "run.jsonl", *named, *judged, "--metrics", "rr", "--json", "-q")
    assert done.json["runs"][0]["scores"]["rr"] == {"mean": 1.0, "n": 1}
    wrong = "--columns is 'query:frage'; write it like query=NAME,document=NAME,score=NAME."
    refused(capsys, "score", "qrels.jsonl", "run.jsonl", "--columns", "query:frage", says=wrong)


def test_scoring_files_loads_nothing_heavy() -> None:
    code = (
        "import sys; from ragtrial.cli.outcome import run; run(['score', 'qrels.txt', 'bm25.run', '--json', '-q']);"
        "heavy = {'pydantic', 'rich', 'yaml', 'torch', 'chromadb', 'scipy', 'pandas', 'polars', 'pyarrow'};"
        "sys.exit(str(sorted(heavy & set(sys.modules))) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("qrels.txt",), "there is no RUN behind QRELS; with --labels FILE all files are runs."),
        (("-", "-"), "standard input can be read once; only one file may be `-`."),
        (("qrels.txt", "bm25.run", "--metrics", "ndgc@10"), "Did you mean 'ndcg'?"),
        (("qrels.txt", "bm25.run", "--depth", "0"), "the depth is 0"),
        (("qrels.txt", "bm25.run", "--relevance-threshold", "0"), "the relevance threshold is 0"),
        (("qrels.txt", "-", "-o", "r", "--format", "trec"), "a report cannot be made of standard input"),
        (("nowhere.txt", "bm25.run"), "nowhere.txt"),
        (("qrels.txt", "bm25.run", "--metrics", ""), "names no metric"),
        (("qrels.txt", "bm25.run", "--trec-compat", "--no-relevant", "skip"), "--trec-compat counts every query"),
        (("qrels.txt", "bm25.run", "--output", "-"), "--output is a folder"),
        (("qrels.txt", "bm25.run", "--columns", "query=q"), "bm25.run is text without names of columns (form trec)"),
        (("qrels.txt", "bm25.run", "--per-query", "q.foo"), "q.foo"),
    ],
)  # fmt: skip
def test_wrong_is_refused(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(RUN.encode())))
    refused(capsys, "score", *arguments, says=message)


def test_a_report_keeps_texts_tags_clusters_and_groups_of_the_labels(tmp_path: Path, capsys: Capture) -> None:
    north = [{"doc": doc, "relevance": grade, "group": "north"} for doc, grade in (("d1", 2), ("d2", 1))]
    labels = {"queries": [{"id": "a", "text": "first?", "tags": ["billing"], "cluster": "c1", "relevant_docs": north},
                          {"id": "b", "text": "second?", "tags": ["unanswerable"], "relevant_docs": []}]}  # fmt: skip
    write_files(tmp_path, {"labels.json": json.dumps(labels), "a.run": "a Q0 d2 1 2 t\nb Q0 d1 1 1 t\n"})
    scored = succeeded(capsys, "score", tmp_path / "labels.json", tmp_path / "a.run", "-o", tmp_path / "out", "--json")
    report = load_report(tmp_path / "out")
    first, second = report.queries
    assert (first.text, first.tags, first.cluster, second.tags) == ("first?", ["billing"], "c1", ["unanswerable"])
    judged = [(one.doc, one.relevance, one.group) for one in first.relevant_docs]
    assert judged == [("d1", 2, "north"), ("d2", 1, "north")]
    assert "2 questions (1 scored; 1 has no answer in the documents)" in succeeded(capsys, "show", tmp_path / "out").out
    again = succeeded(capsys, "score", tmp_path / "out", tmp_path / "a.run", "--json")
    assert [run["scores"] for run in again.json["runs"]] == [run["scores"] for run in scored.json["runs"]]
