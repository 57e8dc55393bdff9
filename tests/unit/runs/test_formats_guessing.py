"""A file's form is known by its name and its first lines, or the message says what was seen."""

import gzip
import shutil
from pathlib import Path

import pytest

from corpora import write_files
from expectations import message_of
from forms import told
from ragtrial.dataset.qrels_text import Kind
from ragtrial.errors import InputError, LabelsError, ReportError, RunFileError
from ragtrial.runs.formats.guessing import FORMS_OF, Form, guess
from ragtrial.runs.inputs import read_runs

KNOWN: list[tuple[Kind, str, str, Form]] = [
    ("run", "a.txt", "q1 Q0 d1 1 0.5 tag\nq1 Q0 d2 2 0.4 tag\n", "trec"),
    ("run", "a.trec", "q1\tQ0\td1\t1\t0.5\ttag", "trec"),
    ("run", "a", "\n# made today\nq1 Q0 d1 1 0.5 tag\n", "trec"),
    ("run", "a.tsv", "1048585\t7187158\t1\n1048585\t7187157\t2\n", "msmarco"),
    ("run", "a.json", '{"q1": {"d1": 0.5}}', "json"),
    ("run", "a.json", '{\n "q1":\n {\n', "json"),
    ("run", "a.json", '{"q1": ["d1", "d2"]}', "json"),
    ("run", "a.json", '{"docs": {"d": 1}, "query": {"e": 2}}', "json"),
    ("run", "a.json", "{}", "json"),
    ("run", "a.jsonl", '{"qid": 1, "docid": "d", "score": 1}\n{"qid": 2, "docid": "d", "score": 1}\n', "jsonl"),
    ("run", "a.txt", '\ufeff{"qid": "q", "docid": "d", "score": 1}', "jsonl"),
    ("run", "a.parquet", "", "parquet"),
    ("run", "a.parquet.gz", "", "parquet"),
    ("run", "a.bin", "PAR1\0\1", "parquet"),
    ("run", "a.jsonl", '{"query": "q\\"1", "docs": ["d"], "scores": [1.0]}\n', "rankings"),
    ("run", "a.jsonl", '{"query": "q", "docs": ["' + "d" * 70_000 + '"], "scores": [1.0]}\n', "rankings"),
    ("run", "a.json", '[{"results": [{"query": "x", "contexts": []}], "model": "m"}]', "results"),
    ("run", "a.json", '[\n {\n  "name": "m", "parameters": {},\n  "results": [', "results"),
    ("run", "a.json", '{"mteb_model_meta": {"model_name": "m"}, "default": {', "mteb"),
    ("run", "a.jsonl", '{"resourceSpans":[{"resource":{"attributes":[]},"scopeSpans":[', "spans"),
    ("run", "a.txt", '{\n "name": "retrieval",\n "context": {"trace_id": "0x1"},\n "attributes": {', "spans"),
    ("run", "a.json", '[{"context.trace_id": "1", "attributes.input.value": "x"}]', "spans"),
    ("run", "a.jsonl", '{"qid": "\\"trace_id\\": \\"attributes\\"", "docid": "d", "score": 1}\n', "jsonl"),
    ("qrels", "a.txt", "q1 0 d1 1\n", "trec"),
    ("qrels", "a.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n", "beir"),
    ("qrels", "a.tsv", "q1\td1\t1\nq2\td1\thigh\n", "beir"),
    ("qrels", "a.tsv", "q 1\td 1\t1\n", "beir"),
    ("qrels", "a.txt", "q1 d1 -1\n", "beir"),
    ("qrels", "a.txt", "q1 d1\t1\n", "beir"),
    ("run", "a.txt", "q1\td1 1\n", "msmarco"),
    ("run", "a.csv", "query_id,doc_id,score\nq1,d1,0.5\n", "csv"),
    ("run", "a.csv", '\n"qid";"docno";"rank"\n"q1";"d1";"1"\n', "csv"),
    ("run", "a.tsv", "score\tquery-id\tcorpus-id\n0.5\tq1\td1\n", "csv"),
    ("run", "a.txt", "qid Q0 docno rank score tag\nq1 Q0 d1 1 0.5 t\n", "csv"),
    ("qrels", "a.json", '{"q1": {"d1": 2}}', "json"),
    ("qrels", "a.jsonl", '{"qid": 1, "docid": "d", "grade": 1}\n', "jsonl"),
    ("qrels", "a.parquet", "", "parquet"),
    ("qrels", "prompt_queries.json", "anything", "labels"),
    ("qrels", "prompts_queries.json", "anything", "labels"),
    ("qrels", "a.json", '{"prompt": "{query}", "queries": [\n {"id": 1', "labels"),
    ("qrels", "a.json", '{"queries": []}', "labels"),
]


@pytest.mark.parametrize(("kind", "name", "content", "form"), KNOWN)
@pytest.mark.parametrize("packed", [False, True])
def test_lines_tell_the_form(tmp_path: Path, kind: Kind, name: str, content: str, form: Form, packed: bool) -> None:
    if packed and form not in ("labels", "parquet"):
        write_files(tmp_path, {f"{name}.gz": gzip.compress(content.encode(), mtime=0)})
        name = f"{name}.gz"
    else:
        write_files(tmp_path, {name: content})
    assert guess(tmp_path / name, kind) == form


def test_every_form_is_known_and_one_that_is_said_is_not_guessed(tmp_path: Path) -> None:
    for kind, forms in FORMS_OF.items():
        assert {form for own, _, _, form in KNOWN if own == kind} | {"report"} == set(forms)
    write_files(tmp_path, {"a.txt": "q1 d1 1\n"})
    lines = told(tmp_path, RunFileError, read_runs, tmp_path / "a.txt", form="json")
    assert lines == ["a.txt:1:1: is not JSON: Expecting value."]
    assert message_of(RunFileError, read_runs, tmp_path / "a.txt", form="labels") == (
        "'labels' is not a form of a run; it may be: trec, msmarco, csv, json, jsonl, parquet, report, rankings, "
        "results, spans, mteb."
    )


@pytest.mark.parametrize(("kind", "content", "form"), [
    ("run", "q1 Q0 d1 1 0.5 t\nq1 Q0 d1 1 0.5\n", "trec"), ("run", "q1 Q0 d1 1 0.5 my tag\n", "trec"),
    ("run", "q1 Q0 d1 1 0.5\n", "trec"), ("run", "q1 d1 1\nq1 d2\nq1 d3 3\n", "msmarco"),
    ("qrels", "q1 0 d1 1\nq1 0 d1\nq1 0 d2 1\n", "trec"), ("qrels", "q1 0 d1 1 more\n", "trec"),
    ("qrels", "q1 d1 1\nq1 d2\nq1 d3 3\n", "beir"),
    ("run", "q1 d1 2\nq1 d2 1\nq1 d3 3\n", "msmarco"),  # ranks in another order
    ("run", "q1 d1 7\nq2 d2 1\n", "msmarco"), ("run", "q1 Q0 d1 1 0.5 tag\n" * 10_000, "trec"),
])  # fmt: skip
def test_lines_unlike_the_most_are_left_to_the_reader(tmp_path: Path, kind: Kind, content: str, form: str) -> None:
    write_files(tmp_path, {"a": content})
    assert guess(tmp_path / "a", kind) == form


SCORED = [
    ("1 7 95\n1 8 80\n", "95"), ("1\t7\t95\n2\t8\t80\n", "95"), ("1 7 3\n1 8 2\n1 9 1\n2 7 1\n", "3"),
    ("1 7 5\n1 8 5\n", "5"), ("q1 d1 0.5\n", "0.5"), ("q1 d1 1\nq1 d2 -2e-3\n", "-2e-3"), ("q1 d1 high\n", "high"),
]  # fmt: skip
REFUSED = [
    ("run", "q1 0 d1 1\n", "has 4 columns, such as 'q1 0 d1 1': it looks like qrels. "
     "Are qrels and run the wrong way round?"),
    ("qrels", "q1 Q0 d1 1 0.5 t\n", "has 6 columns, such as 'q1 Q0 d1 1 0.5 t': it looks like a run. "
     "Are qrels and run the wrong way round?"),
    ("qrels", "q1 d1 high\n", "has 3 columns, of which the last is no grade: 'high'."),
    ("run", "q1,d1,0.5\n", "has 3 columns, such as 'q1,d1,0.5', and no header; name the columns in a first line, like "
     "query,document,score."),
    ("run", "q1,0.5\n", "has lines of 1 columns, such as 'q1,0.5'."),
    ("run", "q1 Q0\nq1 Q0 d1 1\nq1\nq2\n", "has lines of 1 columns, such as 'q1 Q0'."),
    ("run", "[1, 2]", "is JSON of no known form; it begins '[1, 2]'."),
    ("run", '{"prompt": "x", "q', "is JSON of no known form; it begins '{\"prompt\": \"x\", \"q'."),
    ("run", "a\0b", "is neither text nor Parquet."),
    ("run", '{"queries": [{"id": 1}]}', "looks like the form 'labels'."),
    ("qrels", '[{"results": []}]', "looks like the form 'results'."),
    ("qrels", '{"query": "q", "docs": []}\n', "looks like the form 'rankings'."),
    *(("run", content, f"has 3 columns, of which the last is no rank: '{value}'. Write query, document and score as "
       "TREC (query Q0 document rank score tag) or JSONL; ranks that fall are read with --format msmarco.")
      for content, value in SCORED),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "content", "seen"), REFUSED)
def test_what_looks_like_no_form_is_refused_as_seen(tmp_path: Path, kind: Kind, content: str, seen: str) -> None:
    write_files(tmp_path, {"a": content})
    error = LabelsError if kind == "qrels" else RunFileError
    end = {
        "run": "If it is a run, say which form with --format: "
        "trec, msmarco, csv, json, jsonl, parquet, report, rankings, results, spans, mteb.",
        "qrels": "If it is qrels, say which form with --qrels-format (of export: --format): "
        "trec, beir, json, jsonl, parquet, labels, report.",
    }
    assert told(tmp_path, error, guess, tmp_path / "a", kind) == [f"a: {seen} {end[kind]}"]


@pytest.mark.parametrize("kind", ["run", "qrels"])
@pytest.mark.parametrize("content", ["", " \n\n", "\ufeff", "# one two three\n\n  # x\n"])
def test_comments_are_passed_over_and_nothing_else_is_no_rows(tmp_path: Path, kind: Kind, content: str) -> None:
    row = {"run": "q1 Q0 d1 1 0.5 t", "qrels": "q1 0 d1 1"}[kind]
    write_files(tmp_path, {"a": content, "b": f"# c\n#\n \n{row}"})
    assert guess(tmp_path / "b", kind) == "trec"
    with pytest.raises(InputError, match=r"a: is empty, or has only comments \(lines that begin with #\)\. If it is"):
        guess(tmp_path / "a", kind)


def test_what_is_not_there_or_a_folder_or_cut_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path, {"beir/qrels/test.tsv": "x", "beir/qrels/dev.tsv.gz": "x", "plain/file": "x"})
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"q1 Q0 d1 1 0.5 tag\n" * 100, mtime=0)[:-9])
    names = ("absent.json", "grades.XLSX", "beir", "plain", "cut.gz")
    assert {name: told(tmp_path, InputError, guess, tmp_path / name, "qrels") for name in names} == {
        "absent.json": ["absent.json: there is no such file, nor a report of that id."],
        "grades.XLSX": [
            "grades.XLSX: is a spreadsheet; save it as CSV, with a header such as query,document,grade: in Excel by "
            "File > Save As > CSV UTF-8, in Google Sheets by File > Download, in LibreOffice by File > Save As > "
            "Text CSV."
        ],
        "beir": [
            "beir: is a folder, and not one of a report (no report.json). Name one of its files: "
            "qrels/dev.tsv.gz, qrels/test.tsv."
        ],
        "plain": ["plain: is a folder, and not one of a report (no report.json)."],
        "cut.gz": ["cut.gz: ends in the middle of its gzip data; it was cut off, fetch it again."],
    }


def test_a_report_is_known_by_its_folder_its_file_or_an_id(root: Path, tmp_path: Path) -> None:
    for path in (root / "results" / "sample", root / "results" / "sample" / "report.json"):
        assert guess(path, "run") == "report"
    for reference in ("latest", "quickstart/latest", "20260131T235959Z-0a1b2c", "20260131T235959Z"):
        assert guess(tmp_path / reference, "qrels") == "report"
    shutil.copytree(root / "results" / "sample", tmp_path / "quickstart" / "one")
    (tmp_path / "quickstart" / "latest").write_text("one\n")
    assert guess(tmp_path / "quickstart" / "latest", "run") == "report"
    with pytest.raises(ReportError):
        read_runs("latest", directory=tmp_path / "elsewhere")
