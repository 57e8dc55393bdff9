"""JSON, JSONL and dicts are read as they are written, and every fault has its line and column or its ids."""

import gzip
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from corpora import write_files, write_rows
from expectations import message_of
from forms import qrels_rows, run_rows, told
from ragtrial.errors import LabelsError, RunFileError
from ragtrial.runs.inputs import read_qrels, read_runs

ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
scores = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)
runs = st.dictionaries(ids, st.dictionaries(ids, scores, max_size=6), min_size=1, max_size=6)
judgments = st.dictionaries(
    ids, st.dictionaries(ids, st.integers(-1_000_000, 1_000_000), max_size=6), min_size=1, max_size=6
)


def as_rows(run: dict[str, dict[str, float]]) -> dict[str, list[tuple[str, float]]]:
    return {query: list(row.items()) for query, row in run.items()}


@given(runs, st.booleans(), st.sampled_from([None, 1]))
def test_a_run_of_objects_is_read_as_written(
    tmp_path_factory: pytest.TempPathFactory, run: dict[str, dict[str, float]], ascii_alone: bool, indent: int | None
) -> None:
    path = tmp_path_factory.mktemp("json") / "mine.json.gz"
    path.write_bytes(gzip.compress(json.dumps(run, ensure_ascii=ascii_alone, indent=indent).encode(), mtime=0))
    (read,) = read_runs(path, form="json")
    assert (read.name, read.by_rank) == ("mine", False)
    assert run_rows(read) == as_rows(run) == run_rows(read_runs(run)[0])


@given(judgments)
def test_qrels_objects_are_read(tmp_path_factory: pytest.TempPathFactory, qrels: dict[str, dict[str, int]]) -> None:
    path = tmp_path_factory.mktemp("json") / "a.json"
    path.write_text(json.dumps(qrels), encoding="utf-8")
    assert qrels_rows(read_qrels(path, form="json")) == qrels == qrels_rows(read_qrels(qrels))


@given(st.dictionaries(ids, st.lists(ids, max_size=6), min_size=1, max_size=6))
def test_a_list_is_a_ranking_with_its_duplicates_left_in(lists: dict[str, list[str]]) -> None:
    (run,) = read_runs(lists)
    assert run.values is None
    assert {query: [document for document, _ in row] for query, row in run_rows(run).items()} == lists


def test_ids_and_numbers_may_be_of_any_type_and_lists_have_grade_1() -> None:
    assert qrels_rows(read_qrels({"q": ["b", "a"], "none": []})) == {"q": {"b": 1, "a": 1}, "none": {}}
    run: dict[Any, dict[Any, Any]] = {
        1: {2: np.float32(0.5), np.int64(3): np.float64(0.25)},
        "x": {4.0: Fraction(1, 2), "5": 2**60},
    }
    assert run_rows(read_runs(run)[0]) == {"1": [("2", 0.5), ("3", 0.25)], "x": [("4", 0.5), ("5", float(2**60))]}
    assert qrels_rows(read_qrels({1: {2: np.int16(3)}})) == {"1": {"2": 3}}


@given(runs.filter(lambda run: any(run.values())))
def test_jsonl_is_read_as_written(tmp_path_factory: pytest.TempPathFactory, run: dict[str, dict[str, float]]) -> None:
    rows = [{"q_id": query, "pid": doc, "sim": score} for query, row in run.items() for doc, score in row.items()]
    path = write_rows(tmp_path_factory.mktemp("jsonl") / "a.jsonl", rows)
    assert run_rows(read_runs(path)[0]) == {query: row for query, row in as_rows(run).items() if row}


def test_jsonl_may_have_other_keys_line_ends_and_named_columns(tmp_path: Path) -> None:
    first, second = '{"qid": 1, "doc": "a\u2028b", "label": 0, "text": {"x": []}}', '{"doc": 2, "label": 1, "qid": 1}'
    content = f"\ufeff{first}\r\n\r\n{second}"
    write_files(tmp_path, {"a.jsonl": content})
    assert qrels_rows(read_qrels(tmp_path / "a.jsonl", form="jsonl")) == {"1": {"a\u2028b": 0, "2": 1}}
    path = write_rows(tmp_path / "a.jsonl", [{"question": "q", "hit": "d", "place": 1}])
    columns = {"query": "question", "document": "hit", "rank": "place"}
    (run,) = read_runs(path, columns=columns)
    assert (run.by_rank, run_rows(run)) == (True, {"q": [("d", 1.0)]})


UNREADABLE = "a.json: has a number too long, or is nested too deeply, to be qrels or a run."

RUN_FAULTS = [
    ('{"q": {"d": 0.5}', ["a.json:1:17: is not JSON: Expecting ',' delimiter."]),
    ('{"q":\n {"d": NaN}}', ["a.json:2:8: is not JSON: NaN is not JSON."]),
    ('{"q": {"d": 1, "d": 2},\n "q": {}}',
     ["a.json:1:16: duplicate key 'd' in one object.", "a.json:2:2: duplicate key 'q' in one object."]),
    ("[1]", ["a.json: must be an object in objects, {query: {document: score}}; found [1]."]),
    ("7", ["a.json: must be an object in objects, {query: {document: score}}; found 7."]),
    ("{}", ["a.json: has no queries."]),
    ("{" + '"a":' * 1 + "1" * 5000 + "}", [UNREADABLE]),
    ("[" * 100_000, [UNREADABLE]),
    ('{"q": {"d": true, "e": "0.5", "f": null},\n "p": 3,\n "o": ["d"], "n": {"d": [1]}, "m": {"d": 1}}',
     ["a.json:1:13: query 'q', document 'd': the score True is no number, or none of 64 bits.",
      "a.json:1:24: query 'q', document 'e': the score '0.5' is no number, or none of 64 bits.",
      "a.json:1:36: query 'q', document 'f': the score null is no number, or none of 64 bits.",
      "a.json:2:7: query 'p' must be an id, come once, and have documents as an object; found 3.",
      "a.json:3:7: query 'o' must be an id, come once, and have documents as an object; found ['d'].",
      "a.json:3:25: query 'n', document 'd': the score [1] is no number, or none of 64 bits."]),
    ('{"q": ["d", 1.5, null]}',
     ["a.json:1:13: query 'q', document 1.5: the document is 1.5; an id is a string or a whole number.",
      "a.json:1:18: query 'q', document null: the document is null; an id is a string or a whole number."]),
    ('{"q": {"d": 1' + "0" * 400 + "}}",
     ["a.json:1:13: query 'q', document 'd': the score 1" + "0" * 99 + "... is no number, or none of 64 bits."]),
    ('{"\\ud800": {"d": 1}}',
     ["a.json: the query '\\ud800' has half of a surrogate pair; no text can be written with it."]),
    ('{"q": {"\\ud800": 1}}',
     ["a.json: the document '\\ud800' has half of a surrogate pair; no text can be written with it."]),
    (" \n", ["a.json: is empty."]),
]  # fmt: skip


QRELS_FAULTS = [
    ('{"q": {"d": 0.5, "e": true, "f": "1"},\n "p": {"d": 1000001}, "o": {"d": null}}',
     ["a.json:1:13: query 'q', document 'd': the grade 0.5 must be a whole number, such as 1.",
      "a.json:1:23: query 'q', document 'e': the grade True is no number, or none of 64 bits.",
      "a.json:1:34: query 'q', document 'f': the grade '1' is no number, or none of 64 bits.",
      "a.json:2:13: query 'p', document 'd': the grade 1000001 is beyond 1,000,000; is it one?",
      "a.json:2:34: query 'o', document 'd': the grade null is no number, or none of 64 bits."]),
    ('{"q": {"d": 1' + "0" * 400 + "}}",
     ["a.json:1:13: query 'q', document 'd': the grade 1" + "0" * 99 + "... is beyond 1,000,000; is it one?"]),
]  # fmt: skip


def test_faults_of_dicts_and_pairs_judged_twice_are_told(tmp_path: Path) -> None:
    with pytest.raises(RunFileError) as caught:
        read_runs({1: {"d": 0.5}, "1": {}, None: {}, 1.5: {}, "q": {float("nan"): 1, "2": float("nan")}})
    assert sorted(str(caught.value).splitlines()) == [
        "the given dict: query '1' must be an id, come once, and have documents as an object; found {}.",
        "the given dict: query 'q', document '2': the score nan is no number, or none of 64 bits.",
        "the given dict: query 'q', document nan: the document is nan; an id is a string or a whole number.",
        "the given dict: query 1.5 must be an id, come once, and have documents as an object; found {}.",
        "the given dict: query None must be an id, come once, and have documents as an object; found {}.",
    ]
    lines = message_of(RunFileError, read_runs, {f"q{number}": {"d": "x"} for number in range(1_500)}).splitlines()
    assert lines[19] == "the given dict: query 'q19', document 'd': the score 'x' is no number, or none of 64 bits."
    assert lines[20:] == ["the given dict: and 1,480 more like these."]
    row = {"qid": "q", "docid": "d", "rel": 1}
    path = write_rows(tmp_path / "a.jsonl", [row, {**row, "docid": "e"}, {**row, "rel": 0}, {**row, "rel": 1.5}, row])
    twice = "judges document 'd' for query 'q', as line 1 does; give each pair one grade."
    assert told(tmp_path, LabelsError, read_qrels, path) == [
        f"a.jsonl:3: {twice}",
        "a.jsonl:4: the grade 1.5 must be a whole number, such as 1.",
        f"a.jsonl:4: {twice}",
    ]


JSONL_FAULTS = [
    ('{"qid": 1, "docid": 1, "score": 1}\n[]\n{"qid": 1\n\n' + "9" * 5000,
     ["a.jsonl:2: must be a JSON object, in {}.",
      "a.jsonl:3:10: is not JSON: Expecting ',' delimiter.",
      "a.jsonl:5: has a number too long, or is nested too deeply, to be read."]),
    ('{"qid": 1, "docid": 1, "score": 1}\n\n{"qid": 1, "docid": 2}\n{"qid": 1, "score": 2, "docid": 1}\n',
     ["a.jsonl:3: must have the keys qid, docid, score; found {'qid': 1, 'docid': 2}."]),
    ('{"qid": null, "docid": 1, "score": 1}\n{"qid": 1, "docid": true, "score": "x"}\n',
     ["a.jsonl:1: the query is null; an id is a string or a whole number.",
      "a.jsonl:2: the score 'x' is no number, or none of 64 bits.",
      "a.jsonl:2: the document is True; an id is a string or a whole number."]),
    ("[" * 100_000, ["a.jsonl:1: has a number too long, or is nested too deeply, to be read."]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "messages"), [
    *(("a.json", *fault) for fault in RUN_FAULTS), *(("qrels.json", *fault) for fault in QRELS_FAULTS),
    *(("a.jsonl", *fault) for fault in JSONL_FAULTS),
])  # fmt: skip
def test_every_fault_is_told_with_its_place(tmp_path: Path, name: str, content: str, messages: list[str]) -> None:
    write_files(tmp_path, {name: content})
    read: Callable[..., object] = read_qrels if name == "qrels.json" else read_runs
    error = LabelsError if name == "qrels.json" else RunFileError
    lines = told(tmp_path, error, read, tmp_path / name, form="jsonl" if name == "a.jsonl" else "json")
    assert lines == [message.replace("a.json:", f"{name}:") for message in messages]
