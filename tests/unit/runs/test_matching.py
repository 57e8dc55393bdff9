"""A run file, or a run in memory, becomes its judged hits; what is wrong with it is reported with file and line."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from expectations import message_of
from ragtrial.errors import InputError, LabelsError, RunFileError
from ragtrial.runs.inputs import read_qrels
from ragtrial.runs.joins import match, read_run
from ragtrial.runs.qrels import Order, PackedIds, Run, RunHits
from run_files import QRELS, columns_of, hits_of, outcome

ROWS = b"""q1 Q0 d9 1 3.0 t
q1 Q0 d3 2 2.5 t
q1 Q0 d1 3 2.5 t
q2 Q0 d1 1 1 t
q9 Q0 d1 1 1 t
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.run"


def read(file: Path, content: bytes, **options: Any) -> RunHits:
    file.write_bytes(content)
    settings: dict[str, Any] = {"form": "trec", "order": "score", "duplicates": "error", **options}
    return read_run(file, QRELS, **settings)


def refusal(file: Path, content: bytes, **options: Any) -> list[str]:
    with pytest.raises(RunFileError) as caught:
        read(file, content, **options)
    return [line.replace(str(file), "FILE") for line in str(caught.value).splitlines()]


def test_a_run_is_read_as_it_is_meant_wherever_its_rows_lie(file: Path) -> None:
    hits = read(file, ROWS)
    assert columns_of(hits) == {
        "starts": ("<i8", [0, 2, 3, 3]), "ranks": ("<i4", [2, 3, 1]), "judgments": ("<i8", [2, 0, 3]),
        "tie_first": ("<i4", [2, 2, 1]), "tie_last": ("<i4", [3, 3, 1]), "lengths": ("<i8", [3, 1, 0]),
        "tied": ("|b1", [True, False, False]), "contradicted": ("|b1", [False, False, False]), "rows": 5,
        "duplicates": 0, "unknown": 1, "unknown_names": ("q9",),
    }  # fmt: skip
    messy = (
        b"\xef\xbb\xbf# made by x\r\n\r\n \t q1\tQ0  d#9 \v1\f3.0 t\r\n  # q1 Q0 d2 2 2 t\n"
        b"q1 Q0 d3 2 2.5 #t\nq1 Q0 #d1 3 2.5 t\nq2 Q0 d1 1 1 t"
    )
    hits = read(file, messy)
    assert hits_of(hits) == [[(2, 2)], [(1, 3)], []]
    assert hits.lengths.tolist() == [3, 1, 0]
    lines = ROWS.splitlines(keepends=True)
    scattered = b"".join([lines[3], lines[2], lines[4], b"# c\n", lines[0], lines[1].rstrip()])
    by_hand = {**columns_of(read(file, ROWS)), "judgments": ("<i8", [0, 2, 3])}  # the tie is in file order
    assert columns_of(read(file, scattered)) == by_hand
    for size in (16, 40, 64):
        assert columns_of(read(file, scattered, block_size=size)) == by_hand


@pytest.mark.parametrize(
    ("order", "expected"),
    [("score", [(2, 2), (3, 0)]), ("trec", [(2, 2), (3, 0)]), ("rank", [(1, 0), (3, 2)]), ("file", [(1, 0), (3, 2)])],
)
def test_a_run_is_ordered_as_asked(file: Path, order: Order, expected: list[tuple[int, int]]) -> None:
    content = b"q1 Q0 d1 1 2.5 t\nq1 Q0 d9 2 3.0 t\nq1 Q0 d3 3 2.5 t\n"
    swapped = content if order != "score" else b"q1 Q0 d3 3 2.5 t\nq1 Q0 d9 2 3.0 t\nq1 Q0 d1 1 2.5 t\n"
    hits = read(file, swapped, order=order)
    assert hits_of(hits)[0] == expected
    assert hits.contradicted.tolist() == [True, False, False]
    assert hits.tied.tolist() == [True, False, False]
    ties = [2, 2] if order in ("score", "trec") else [rank for rank, _ in expected]
    assert hits.tie_first.tolist() == ties


ONCE = "a query may retrieve a document once (duplicates 'first' drops the later ones)."


def test_the_first_of_duplicates_counts_and_lines_are_named(file: Path) -> None:
    content = b"q1 Q0 d1 1 1 t\nq1 Q0 d9 2 2 t\nq1 Q0 d1 3 3 t\nq1 Q0 d3 4 0 t\nq1 Q0 d9 4 2 t\n"
    hits = read(file, content, duplicates="first")
    assert hits_of(hits)[0] == [(1, 0), (3, 2)]
    assert (hits.duplicates, hits.rows, hits.lengths.tolist()) == (2, 5, [3, 0, 0])
    assert not hits.tied.any()
    assert hits_of(read(file, content, duplicates="first", order="file"))[0] == [(1, 0), (3, 2)]
    assert refusal(file, content) == [
        f"FILE:3: retrieves document 'd1' for query 'q1', as line 1 does; {ONCE}",
        f"FILE:5: retrieves document 'd9' for query 'q1', as line 2 does; {ONCE}",
    ]
    assert refusal(file, b"q1 Q0 d1 1 1 t\nq2 Q0 d1 1 1 t\n\nq1 Q0 d1 3 3 t\n", block_size=16) == [
        f"FILE:4: retrieves document 'd1' for query 'q1', as line 1 does; {ONCE}"
    ]


def test_every_fault_is_told_with_its_line_what_was_found_and_what_was_expected(file: Path) -> None:
    content = b"""q1 Q0 d1 1 1.5
# fine
q1 Q0 d2 first 2 t
q1 Q0 d3 1 1,5 t
q1 Q0 d4 1 nan t
q1 Q0 d5 1 1 t t
q1
q1 Q0 d6 1.5 1 t
q1 Q0 d7 1 0x10 t
q1 Q0 d8 1_0 1e4 t
"""
    columns = (
        "a TREC run has 6 (more with trec_compat): query, Q0, document, rank, score, tag, with white space between."
    )
    rank = "must be a whole number; the fourth column of a TREC run is the rank."
    assert refusal(file, content) == [
        f"FILE:1: has 5 columns; {columns}",
        f"FILE:3: the rank 'first' {rank}",
        "FILE:4: the score '1,5' must be a decimal number, inf or -inf.",
        "FILE:5: the score 'nan' is not a number, so it has no place in an order; give every hit a score.",
        f"FILE:6: has 7 columns; {columns}",
        f"FILE:7: has 1 column; {columns}",
        f"FILE:8: the rank '1.5' {rank}",
        "FILE:9: the score '0x10' must be a decimal number, inf or -inf.",
    ]


def test_lenient_reading_and_twenty_faults(file: Path) -> None:
    content = b"q1 Q0 d2 first 2 my tag\nq1 Q0 d1 - 3 t\n"
    assert hits_of(read(file, content, lenient=True))[0] == [(1, 0), (2, 1)]
    assert len(refusal(file, content, lenient=True, order="rank")) == 2
    assert len(refusal(file, b"q1 Q0 d2 1 2\n", lenient=True)) == 1
    told = refusal(file, b"q1 Q0 d1 1 x t\n" * 1234, block_size=64)
    assert [line.split(":")[1] for line in told[:20]] == [str(line) for line in range(1, 21)]
    assert told[20:] == ["FILE: and 1,214 more like these."]
    hits = read(file, b"".join(b"u%d Q0 d1 1 1 t\n" % number for number in range(30)), block_size=32)
    assert hits.unknown == 30
    assert hits.unknown_names == tuple(f"u{number}" for number in range(10))


def test_an_ms_marco_run_is_ordered_by_its_whole_ranks(file: Path) -> None:
    hits = read(file, b"q1\td3\t2\nq1\td1\t1\nq2 d1 10\n", form="msmarco", order="rank")
    assert hits_of(hits) == [[(1, 0), (2, 2)], [(1, 3)], []]
    assert not hits.tied.any()
    with pytest.raises(ValueError, match="an MS MARCO run has no scores to order by"):
        read(file, b"", form="msmarco")
    content = b"q1 d3 2\nq1 d1 2\nq1 d2 0\nq1 d4 +1\nq1 d5 1.0\nq1 Q0 d6 3\nq1 d7 02\n"
    rank = "must be a whole number from 1 on; the third column of an MS MARCO run is the rank."
    assert refusal(file, content, form="msmarco", order="rank") == [
        "FILE:2: has rank 2 for query 'q1', as line 1 does; give each document its own.",
        f"FILE:3: the rank '0' {rank}",
        f"FILE:4: the rank '+1' {rank}",
        f"FILE:5: the rank '1.0' {rank}",
        "FILE:6: has 4 columns; an MS MARCO run has 3: query, document, rank, with white space between.",
        "FILE:7: has rank 2 for query 'q1', as line 2 does; give each document its own.",
    ]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# q1 Q0 d1 1 1 t\n", b"\xef\xbb\xbf"])
def test_a_run_without_rows_is_refused(file: Path, content: bytes) -> None:
    assert refusal(file, content) == ["FILE: has no rows; a run has at least one."]


@pytest.mark.parametrize("kind", ["run", "qrels"])
def test_files_that_cannot_be_read_say_why(tmp_path: Path, kind: str) -> None:
    whole = gzip.compress(ROWS * 1000, mtime=0)
    contents = {"cut.gz": whole[: len(whole) // 2], "text.gz": ROWS, "bad.gz": whole[:40] + b"xxxx" + whole[44:]}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    error = RunFileError if kind == "run" else LabelsError
    said = {}
    for name in [*contents, "none", "."]:
        path = tmp_path / name
        with pytest.raises(error) as caught:
            read_qrels(path, form="trec") if kind == "qrels" else outcome(path, raises=True)
        said[name] = str(caught.value).removeprefix(str(path)).removeprefix(": ")
    assert said["none"] == "there is no such file."
    assert said["."] == "is a folder; a file is needed here."
    assert said["cut.gz"] == "ends in the middle of its gzip data; it was cut off, fetch it again."
    assert said["text.gz"] == (
        "has no sound gzip data (Not a gzipped file (b'q1')); fetch it again, or name it without .gz."
    )
    assert said["bad.gz"].startswith("has no sound gzip data (Error -3 ")


def test_qrels_are_read_in_their_order_and_every_fault_is_told(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf# c\nq2 0 d1 1\r\n\nq1\t0\td#2 -1\nq2 0 d3 +2")
    qrels = read_qrels(file, form="trec")
    assert qrels.queries == ("q2", "q1")
    assert list(qrels.documents) == ["d1", "d3", "d#2"]
    assert qrels.judgments.grades.tolist() == [1, 2, -1]
    assert qrels.judgments.starts.tolist() == [0, 2, 3]
    assert qrels.judgments.ordered.tolist() == [False, False]
    assert [column.dtype.str for column in (qrels.judgments.grades, qrels.judgments.starts)] == ["<i4", "<i8"]
    file.write_bytes(b"q1 0 d1 0.5\nq1 0 d1 1.0\nq1 d1 1\nq1 0 d1 2\nq1 0 d2 2147483648\nq1 0 d3 1 1\n")
    message = message_of(LabelsError, read_qrels, file, form="trec")
    columns = "qrels have 4: query, iteration, document, grade, with white space between."
    grade = "must be a whole number, such as 1."
    assert message.replace(str(file), "FILE").splitlines() == [
        f"FILE:1: the grade '0.5' {grade}",
        f"FILE:3: has 3 columns; {columns}",
        "FILE:4: judges document 'd1' for query 'q1', as line 2 does; give each pair one grade.",
        "FILE:5: the grade 2147483648 is beyond 1,000,000; is it one?",
        f"FILE:6: has 5 columns; {columns}",
    ]


def run_of(values: list[float] | None, *, by_rank: bool = False, documents: str = "d9 d3 d1 d1") -> Run:
    column = None if values is None else np.array(values)
    return Run("a run", ("q1", "q2"), np.array([0, 3, 4]), PackedIds.of(documents.split()), column, by_rank)


def test_faults_in_memory_are_by_query_and_hit() -> None:
    def told(run: Run, order: Order = "score") -> str:
        return message_of(InputError, match, run, QRELS, order=order, duplicates="error")

    assert told(run_of([1, 2, 3, float("nan")])) == "a run: query 'q2', hit 1: the score is not a number (NaN)."
    assert (
        told(run_of([1, 2, 3, 4], documents="d9 d1 d1 d1"))
        == "a run: query 'q1', hit 3: retrieves document 'd1', as hit 2 does."
    )
    assert told(run_of([5, 1, 5, 4], by_rank=True)) == "a run: query 'q1', hit 3: has rank 5, as hit 1 does."
    with pytest.raises(ValueError, match="run 'a run' has scores, not ranks"):
        told(run_of([1, 2, 3, 4]), "rank")
