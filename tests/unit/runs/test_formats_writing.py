"""What is written is read by others as it was meant: trec_eval keeps our order, tables keep every digit."""

import csv
import gzip
import json
import math
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, strategies as st

from forms import qrels_rows
from limits import full_disk
from ragtrial.errors import InputError, LabelsError, RunError, RunFileError
from ragtrial.runs.formats.writing import Column, write_table, write_trec_qrels, write_trec_run
from ragtrial.runs.inputs import read_qrels, read_runs
from ragtrial.runs.qrels import PackedIds, Qrels, Run

names = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=4).filter(
    lambda name: not name.startswith("#")
)
runs = st.dictionaries(names, st.lists(names, unique=True, max_size=8), min_size=1, max_size=4)
scores = st.floats(width=32) | st.floats() | st.sampled_from([0.1, 0.1 + 1e-12, 1e300, 5e-324, -0.0, 0.0])


@st.composite
def ranked_runs(draw: st.DrawFn) -> Run:
    """Documents best first, with scores that fall, or not, or without any."""
    lists = draw(runs)
    run = read_runs(lists, name="mine")[0]
    kind = draw(st.sampled_from(["none", "any", "falling"]))
    if kind == "none":
        return run
    values = [draw(st.lists(scores, min_size=len(row), max_size=len(row))) for row in lists.values()]
    if kind == "falling":
        values = [sorted(row, reverse=True) for row in values]
    flat = np.array([value for row in values for value in row], dtype=np.float64)
    return Run("mine", run.queries, run.starts, run.documents, flat)


def orders(run: Run) -> dict[str, list[str]]:
    documents = list(run.documents)
    return {query: documents[run.starts[index] : run.starts[index + 1]] for index, query in enumerate(run.queries)}


@given(ranked_runs())
def test_trec_eval_finds_every_document_at_our_rank(tmp_path_factory: pytest.TempPathFactory, run: Run) -> None:
    path = tmp_path_factory.mktemp("trec") / "run.txt"
    how = write_trec_run(path, run)
    with path.open(encoding="utf-8", newline="\n") as file:
        read = pytrec_eval.parse_run(file)
    expected = {query: row for query, row in orders(run).items() if row}
    assert {query: list(row) for query, row in read.items()} == expected
    for query, row in expected.items():
        for rank, document in enumerate(row, 1):
            evaluator = pytrec_eval.RelevanceEvaluator({query: {document: 1}}, {"recip_rank"})
            assert evaluator.evaluate({query: read[query]})[query]["recip_rank"] == 1 / rank
    values = [score for row in read.values() for score in row.values()]
    if how == "own":
        assert run.values is not None
        assert values == run.values.tolist()
    else:
        assert values == [float(left) for row in expected.values() for left in range(len(row), 0, -1)]


def written(tmp_path: Path, values: list[float] | None, *, by_rank: bool = False) -> tuple[str, str]:
    own = None if values is None else np.array(values, dtype=np.float64)
    run = Run("mine", ("q",), np.array([0, 3]), PackedIds.of(["b", "a", "c"]), own, by_rank)
    said = write_trec_run(tmp_path / "run.txt", run)
    return said, (tmp_path / "run.txt").read_text(encoding="utf-8")


def test_scores_are_the_runs_own_only_where_they_say_the_order_in_32_bits(tmp_path: Path) -> None:
    own = "q Q0 b 1 0.30000000000000004 mine\nq Q0 a 2 0.2 mine\nq Q0 c 3 -1.0 mine\n"
    by_rank = "q Q0 b 1 3 mine\nq Q0 a 2 2 mine\nq Q0 c 3 1 mine\n"
    assert written(tmp_path, [0.1 + 0.2, 0.2, -1.0]) == ("own", own)
    assert written(tmp_path, [0.1 + 0.2, 0.3, 0.2])[0] == "own", "b comes before a where scores are equal"
    others: list[list[float] | None] = [
        [3, 0.1 + 0.2, 0.3], [3, 2, 2], [1, 2, 3], [math.inf, 1, 0], [1e39, 1, 0], [1, math.nan, 0], None,
    ]  # fmt: skip
    for values in others:
        assert written(tmp_path, values) == ("by rank", by_rank)
    assert written(tmp_path, [3.5, 2.5, 1.5], by_rank=True) == ("by rank", by_rank)
    assert written(tmp_path, None) == ("by rank", by_rank)


@pytest.mark.parametrize("bad", ["a b", "a\tb", "a\n", "\u00a0", "a\u2028b", "a\0b", "\x1c"])
def test_ids_and_names_that_columns_cannot_hold_are_refused(tmp_path: Path, bad: str) -> None:
    run = replace(read_runs({bad: [bad, "d"]})[0], name=bad)
    with pytest.raises(RunFileError) as caught:
        write_trec_run(tmp_path / "run.txt", run)
    assert [fault.message for fault in caught.value.faults] == [
        f"the run's name {bad!r} is empty or has white space, which ends a column; give it another.",
        f"the query {bad!r} is empty or has white space, which ends a column in TREC text.",
        f"the document {bad!r} (query {bad!r}) is empty or has white space, which ends a column in TREC text.",
    ]
    with pytest.raises(LabelsError) as qrels:
        write_trec_qrels(tmp_path / "qrels.txt", read_qrels({bad: {bad: 1}}))
    assert [fault.message for fault in qrels.value.faults] == [fault.message for fault in caught.value.faults[1:]]
    assert list(tmp_path.iterdir()) == []


def test_comments_twice_and_what_no_table_can_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFileError) as caught:
        write_trec_run(tmp_path / "run.txt", read_runs({"#1": ["c", "d", "d"]}, name="r")[0])
    assert str(caught.value).splitlines() == [
        "r: the query '#1' begins like a comment; TREC text has no way to write it.",
        "r: query '#1' has document 'd' twice; trec_eval would refuse it.",
    ]
    with pytest.raises(InputError) as form:
        write_table(tmp_path / "a.xlsx", {})
    assert str(form.value) == (f"{tmp_path}/a.xlsx: ends in no form of table; it may end in .csv, .jsonl, .md.")
    with pytest.raises(InputError, match="an infinite number cannot be written as JSON; write the table as CSV"):
        write_table(tmp_path / "a.jsonl", {"x": [math.inf]})
    with pytest.raises(ValueError, match=r"columns of \[1, 2\] rows are in no table"):
        write_table(tmp_path / "a.jsonl", {"x": [1], "y": [1, 2]})
    assert list(tmp_path.iterdir()) == []


grades = st.integers(-1_000_000, 1_000_000)


@given(st.dictionaries(names, st.dictionaries(names, grades, min_size=1), min_size=1, max_size=5))
def test_written_qrels_are_read(tmp_path_factory: pytest.TempPathFactory, judged: dict[str, dict[str, int]]) -> None:
    path = tmp_path_factory.mktemp("trec") / "qrels.txt"
    write_trec_qrels(path, read_qrels(judged))
    with path.open(encoding="utf-8", newline="\n") as file:
        assert pytrec_eval.parse_qrel(file) == judged


def test_bytes_that_are_no_utf8_are_written_as_they_were(tmp_path: Path) -> None:
    run = Run("m", ("q\udce9",), np.array([0, 1]), PackedIds.of(["d\udcff"]), None)
    write_trec_run(tmp_path / "run.txt", run)
    assert (tmp_path / "run.txt").read_bytes() == b"q\xe9 Q0 d\xff 1 1 m\n"
    assert qrels_rows(Qrels.of([("q\udce9", [("d\udcff", 1)], False)])) == {"q\udce9": {"d\udcff": 1}}


def test_bytes_of_ids_that_are_no_utf8_are_kept_or_refused(tmp_path: Path) -> None:
    columns: dict[str, Column] = {"query": ["q\udce9", "\u00e4"], "value": [1.0, 2.0]}
    write_table(tmp_path / "a.csv", columns)
    assert (tmp_path / "a.csv").read_bytes() == b"query,value\r\nq\xe9,1.0\r\n\xc3\xa4,2.0\r\n"
    write_table(tmp_path / "a.jsonl", columns)
    lines = (tmp_path / "a.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["query"] for line in lines] == ["q\udce9", "\u00e4"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.jsonl"]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
tables = st.integers(0, 7).flatmap(
    lambda rows: st.fixed_dictionaries(
        {
            "setting": st.lists(texts, min_size=rows, max_size=rows),
            "n|\\": st.lists(st.integers(-(2**62), 2**62), min_size=rows, max_size=rows),
            "value": st.lists(st.floats(allow_infinity=False) | st.none(), min_size=rows, max_size=rows),
        }
    )
)


def without_nan(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [{key: None if value != value else value for key, value in row.items()} for row in rows]


@given(tables)
def test_json_and_csv_say_every_value(tmp_path_factory: pytest.TempPathFactory, columns: dict[str, list[Any]]) -> None:
    folder = tmp_path_factory.mktemp("tables")
    write_table(folder / "a.jsonl.gz", columns)
    lines = gzip.decompress((folder / "a.jsonl.gz").read_bytes()).decode().split("\n")
    assert [json.loads(line) for line in lines[:-1]] == without_nan(columns)
    path = tmp_path_factory.mktemp("tables") / "a.csv"
    write_table(path, columns)
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == list(columns)
    read = [dict(zip(head, row, strict=True)) for row in rows]
    numbers = [{"n|\\": int(row["n|\\"]), "value": float(row["value"]) if row["value"] else None} for row in read]
    assert numbers == [{name: row[name] for name in ("n|\\", "value")} for row in without_nan(columns)]
    texts = [row["setting"] for row in without_nan(columns)]
    assert [row["setting"].removeprefix("'") for row in read] == [text.removeprefix("'") for text in texts]
    assert path.read_bytes().endswith(b"\r\n")


def test_markdown_is_what_a_reader_expects(tmp_path: Path) -> None:
    columns: dict[str, Column] = {
        "setting": ["a|b", "c\nd\\"],
        "ndcg@10": np.array([1 / 3, np.nan]),
        "n": np.array([3, 4]),
    }
    write_table(tmp_path / "a.md", columns)
    assert (tmp_path / "a.md").read_text(encoding="utf-8").split("\n") == [
        "| setting | ndcg&#64;10 | n |",
        "|---|---:|---:|",
        "| a&#124;b | 0.3333333333333333 | 3 |",
        "| c&#65533;d&#92; |  | 4 |",
        "",
    ]


def test_standard_output_takes_csv_or_what_is_asked_for(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_table("-", {"x": [1]})
    write_table("-", {"x": [1]}, form="jsonl")
    write_trec_qrels("-", read_qrels({"q": {"d": 1}}))
    assert capfdbinary.readouterr().out == b'x\r\n1\r\n{"x": 1}\nq 0 d 1\n'


def test_an_old_file_stays_and_a_pipe_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_table(path, {"x": ["old"]})
    with full_disk(10_000), pytest.raises(RunError, match=r"a\.csv: cannot be written: File too large"):
        write_table(path, {"x": ["new"] * 50_000})
    assert path.read_bytes() == b"x\r\nold\r\n"
    assert [one.name for one in tmp_path.iterdir()] == ["a.csv"]
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    write_table(path, {"x": [1]})
    reader.join()
    assert read == [b"x\r\n1\r\n"]
    assert path.is_fifo()
