"""BEIR folders are read with and without header, plain or gzipped, or refused with file and line."""

import gzip
from pathlib import Path

import pytest

from corpora import write_files, write_rows
from expectations import message_of
from forms import qrels_rows
from ragtrial.dataset.datasets import DatasetOptions, beir_labels, corpus_of
from ragtrial.errors import CorpusError, LabelsError
from ragtrial.records import Judgment, PromptQueries, Query
from ragtrial.runs.inputs import read_qrels

HEADER = "query-id\tcorpus-id\tscore\n"
QRELS = "q2\td1\t2\nq1\td9\t1\nq1\td3\t0\n"
READ = PromptQueries(
    (
        Query("q1", "first caf\u00e9", (Judgment("d9", 1), Judgment("d3", 0))),
        Query("q2", "second", (Judgment("d1", 2),)),
    )
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_rows(
        tmp_path / "queries.jsonl",
        [
            {"_id": "q1", "text": "first cafe\u0301", "metadata": {}},
            {"_id": "q2", "text": "second"},
            {"_id": "train-only", "text": "not judged in this split"},
        ],
    )
    (tmp_path / "qrels").mkdir()
    return tmp_path


def with_qrels(folder: Path, content: str | bytes, split: str = "test") -> Path:
    write_files(folder / "qrels", {f"{split}.tsv": content})
    return folder


def faults_of(folder: Path, split: str = "test") -> list[str]:
    return [line.replace(f"{folder}/", "") for line in message_of(LabelsError, beir_labels, folder, split).splitlines()]


@pytest.mark.parametrize("content", [
    HEADER + QRELS, QRELS, "\ufeff" + HEADER + QRELS, (HEADER + QRELS).replace("\n", "\r\n"),
    HEADER + "\n" + QRELS.replace("\n", "\n\n"), QRELS.replace("\t", " "), HEADER + QRELS + "q2\td1\t2\n",
])  # fmt: skip
def test_judged_queries_come_in_their_order_with_or_without_header(folder: Path, content: str) -> None:
    assert beir_labels(with_qrels(folder, content), "test").labels == READ


def test_gzipped_files_read_as_plain_ones_do(folder: Path) -> None:
    queries = (folder / "queries.jsonl").read_bytes()
    (folder / "queries.jsonl").unlink()
    write_files(
        folder,
        {
            "queries.jsonl.gz": gzip.compress(queries, mtime=0),
            "qrels/test.tsv.gz": gzip.compress((HEADER + QRELS).encode(), mtime=0),
            "corpus.jsonl.gz": gzip.compress(b'{"_id": "d1", "text": "x"}', mtime=0),
        },
    )
    assert beir_labels(folder, "test").labels == READ
    assert corpus_of(DatasetOptions(beir=str(folder))) == folder / "corpus.jsonl.gz"


def test_ids_may_hold_spaces_be_numbers_and_stand_under_id(folder: Path) -> None:
    write_rows(folder / "queries.jsonl", [{"_id": "q 1", "text": "x"}])
    assert beir_labels(with_qrels(folder, "q 1\td 1\t-2\n"), "test").labels.queries == (
        Query("q 1", "x", (Judgment("d 1", -2),)),
    )
    write_rows(folder / "queries.jsonl", [{"id": 7, "text": "x"}])
    assert beir_labels(with_qrels(folder, "7\t31\t1\n"), "test").labels.queries == (Query("7", "x", (Judgment("31"),)),)


def test_bad_rows_and_judged_queries_without_text_are_refused(folder: Path) -> None:
    with_qrels(folder, HEADER + "q1\td1\thigh\nq1\td2\nq1\td3\t1\nq1 0 d4 1\nq1\td5\t1.5\nq1\td3\t2\nq2\td1\t\n")
    assert faults_of(folder) == [
        "qrels/test.tsv:2: the grade 'high' must be a whole number.",
        "qrels/test.tsv:3: must be 3 fields, as the header has; found 2 fields.",
        "qrels/test.tsv:5: must be 3 fields, as the header has; found 4 fields.",
        "qrels/test.tsv:6: the grade '1.5' must be a whole number.",
        "qrels/test.tsv:7: gives 'd3' the grade 2 for query 'q1'; it was 1 before.",
        "qrels/test.tsv:8: the grade '' must be a whole number.",
    ]
    with_qrels(folder, HEADER + QRELS + "q7\td1\t1\nq8\td1\t1\n")
    assert faults_of(folder) == ["qrels/test.tsv: judges 2 queries not in queries.jsonl, 'q7' first."]
    with_qrels(folder, QRELS, "test")
    with_qrels(folder, QRELS, "train")
    (folder / "qrels" / "dev.tsv.gz").write_bytes(gzip.compress(QRELS.encode(), mtime=0))
    assert faults_of(folder, "tset") == [
        "qrels: has no tset.tsv (nor tset.tsv.gz); `dataset.beir` names a BEIR folder. Did you mean 'test.tsv'? "
        "It has: dev.tsv, test.tsv, train.tsv."
    ]


@pytest.mark.parametrize("grade", ["0.5", "", "+-1", "0x1"])
def test_a_bad_grade_in_the_first_line_is_not_taken_for_the_header(folder: Path, grade: str) -> None:
    with_qrels(folder, f"q1\td1\t{grade}\n{QRELS}")
    assert faults_of(folder) == [f"qrels/test.tsv:1: the grade {grade!r} must be a whole number."]


@pytest.mark.parametrize("content", ["", "\n\n", HEADER])
def test_qrels_without_a_judgment_are_refused(folder: Path, content: str) -> None:
    with_qrels(folder, content)
    assert faults_of(folder) == ["qrels/test.tsv: has no judgments."]


def test_every_bad_query_is_refused_with_its_line(folder: Path) -> None:
    content = (
        b'{"_id": "q1", "text": "x"}\n{"_id": "q1", "text": "y"}\n{"_id": "q2", "text": " "}\n{"_id": "q3"}\n[]\n{'
    )
    write_files(with_qrels(folder, QRELS), {"queries.jsonl": content})
    assert faults_of(folder) == [
        "queries.jsonl:2: query id 'q1' is taken already.",
        "queries.jsonl:3: query 'q2' is empty.",
        "queries.jsonl:4: must have a text under `_id` and under `text`.",
        "queries.jsonl:5: must be a JSON object, in {}.",
        "queries.jsonl:6:2: is not JSON: Expecting property name enclosed in double quotes.",
    ]


def test_a_folder_without_the_files_is_refused_with_what_is_missing(folder: Path, tmp_path: Path) -> None:
    assert faults_of(folder) == ["qrels: has no test.tsv (nor test.tsv.gz); `dataset.beir` names a BEIR folder."]
    (with_qrels(folder, QRELS) / "queries.jsonl").unlink()
    assert message_of(LabelsError, beir_labels, folder, "test") == (
        f"{folder}: has no queries.jsonl (nor queries.jsonl.gz); `dataset.beir` names a BEIR folder."
    )
    assert message_of(CorpusError, corpus_of, DatasetOptions(beir=str(folder))) == (
        f"{folder}: has no corpus.jsonl (nor corpus.jsonl.gz); `dataset.beir` names a BEIR folder."
    )


@pytest.mark.parametrize(
    ("name", "split", "queries", "judgments"),
    [("scifact", "test", 300, 339), ("cranfield", "test", None, None), ("xquad_en", "test", 1185, 1185)],
)
def test_public_data_sets_are_read_whole(
    shared_data: Path, name: str, split: str, queries: int | None, judgments: int | None
) -> None:
    labels = beir_labels(shared_data / name, split).labels
    rows = (shared_data / name / "qrels" / f"{split}.tsv").read_text(encoding="utf-8").strip().splitlines()[1:]
    assert sum(len(query.relevant_docs) for query in labels.queries) == (judgments or len(rows))
    assert len(labels.queries) == (queries or len({row.split("\t")[0] for row in rows}))


HEADERS = {
    "BEIR": "query-id\tcorpus-id\tscore\nq1\td1\t2\n",
    "in another order": "query-id\tscore\tcorpus-id\nq1\t2\td1\n",
    "after blank lines": "\n \nquery_id\tcorpus_id\tscore\nq1\td1\t2\n",
    "PyTerrier": "qid,docno,label\nq1,d1,2\n",
    "TREC": "topic\titer\tdocno\trel\nq1\t0\td1\t2\n",
    "quoted": '"query-id"\t"corpus-id"\t"score"\n"q1"\t"d1"\t"2"\n',
    "semicolons of a spreadsheet": "Query-ID;Document_ID;Grade\nq1;d1;2\n",
    "MTEB by pandas": ",query-id,corpus-id,score\n0,q1,d1,2.0\n",
    "Quepid": "query,docid,rating\nq1,d1,2\n",
    "PyTerrier's two ids": "qid,docid,docno,label\nq1,7,d1,2\n",
    "Excel": 'sep=;\r\n"Query ID";"Document ID";"Relevance"\r\n"q1";"d1";"2"\r\n',
    "Google Sheets": "Query ID,Passage ID,Relevance grade,\n,,,\nq1,d1,2,\n",
    "comments": "# judged by hand\n\ndoc_id,queryId,judgment\nd1,q1,2\n",
    "none, with commas": "q1,d1,2\n",
    "commas in quotes": '"query","document","relevance"\n"q1","d1","2"\n',
}


@pytest.mark.parametrize("content", HEADERS.values(), ids=HEADERS)
def test_a_header_names_the_columns_in_any_order(folder: Path, content: str) -> None:
    """In a BEIR folder and where qrels are scored."""
    labels = beir_labels(with_qrels(folder, content), "test").labels
    assert [(one.doc, one.relevance) for query in labels.queries for one in query.relevant_docs] == [("d1", 2)]
    assert qrels_rows(read_qrels(folder / "qrels" / "test.tsv")) == {"q1": {"d1": 2}}


@pytest.mark.parametrize(("header", "message"), [
    ("query-id\tcorpus-id\tquality", "has no column for the grade"),
    ("query-id\tname\tscore", "has no column for the document"),
    ("frage\tcorpus-id\tscore", "has no column for the query"),
    ("query-id\tqid\tscore", "the query may be any of the columns 'query-id', 'qid'"),
    ("вопрос\tдокумент\tоценка", "the grade 'оценка' must be a whole number. If this line is a header"),
    ("query-id\tcorpus-id\tscore\tnote", "must be 4 fields, as the header has; found 3 fields"),
])  # fmt: skip
def test_a_header_without_the_columns_is_an_error_of_the_header(folder: Path, header: str, message: str) -> None:
    with_qrels(folder, f"{header}\nq1\td1\t1\n")
    assert message in faults_of(folder)[0]


@pytest.mark.parametrize("grade", ["1.0", "1.", "+1", "01"])
def test_a_whole_number_is_a_grade_however_it_is_written(folder: Path, grade: str) -> None:
    labels = beir_labels(with_qrels(folder, f"q1\td1\t{grade}\nq1\td1\t1\n"), "test").labels
    assert [one.relevance for query in labels.queries for one in query.relevant_docs] == [1]


@pytest.mark.parametrize("row", ["\td1\t1", "q1\t\t1", "\t\t1"])
def test_an_empty_id_is_an_error(folder: Path, row: str) -> None:
    with_qrels(folder, f"{HEADER}{row}\n")
    (fault,) = faults_of(folder)
    assert "is empty; an id is a text or a whole number." in fault


@pytest.mark.parametrize(("rows", "repeated"), [
    ("q1\td1\t1\nq1\td2\t0\n", 0),
    ("q1\td1\t1\nq1\td1\t1\n", 1),
    ("q1\td1\t1\nq1\td1\t1.0\nq1\td2\t1\nq1\td1\t1\n", 2),
    ("query-id\tcorpus-id\tscore\nq1\tдок\t1\nq2\tдок\t1\nq1\tдок\t1\n", 1),
    ("q1\td1\t1\nq1\td1\t2\n", None),
    ("q1\td1\t1\nq1\td1\t1\nq1\td1\t2\n", None),
])  # fmt: skip
def test_equal_rows_are_one_and_two_grades_always_an_error(folder: Path, rows: str, repeated: int | None) -> None:
    path = with_qrels(folder, rows) / "qrels" / "test.tsv"
    if repeated is None:
        for read in (lambda: beir_labels(folder, "test"), lambda: read_qrels(path)):
            with pytest.raises(LabelsError):
                read()
        return
    labels, qrels = beir_labels(folder, "test"), read_qrels(path)
    assert (len(labels.repeated), qrels.repeated) == (repeated, repeated)
    assert qrels_rows(qrels) == {
        query.id: {one.doc: one.relevance for one in query.relevant_docs} for query in labels.labels.queries
    }
