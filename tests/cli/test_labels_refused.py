"""``labels convert`` refuses what it would otherwise get wrong without a word."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from foreign_labels import RED, WHITE, Conversions, label, lines, written
from small_experiment import Capture, ragtrial, succeeded


@pytest.fixture
def convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Conversions:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return Conversions(tmp_path, capsys)


def own(**answer: Any) -> dict[str, Any]:
    return {"queries": [{"id": "a", "text": "?", "relevant_docs": [answer]}]}


def test_a_document_that_is_not_there_is_not_looked_for_as_a_passage(convert: Conversions) -> None:
    """`ring` is in the documents, but is the name of none."""
    for content in ([{"question": "?", "doc": "ring"}], "question,doc\n?,ring\n", own(doc="ring", start=3, end=9)):
        assert "'ring' of query" in convert.faults(content)[0]
        assert convert.faults(content, "--fuzzy", "0.5")[0].endswith(" is not the id of any of the 4 documents.")


def test_a_likeness_that_is_no_number_is_refused(convert: Conversions) -> None:
    (told,) = convert.faults(own(doc=RED), "--fuzzy", "nan")
    assert "nan is no likeness" in told


def test_questions_without_an_id_get_one_that_no_other_has(convert: Conversions) -> None:
    rows = [{"question": "?", "quote": RED}, {"id": "q1", "question": "why?", "quote": WHITE}]
    assert [query["id"] for query in convert.rows(lines(rows))] == ["q1-2", "q1"]


def test_a_column_that_is_there_twice_is_refused(convert: Conversions) -> None:
    assert convert.faults(f"question,quote,question\n?,{RED},why?\n") == [
        ":1: has more than one column 'question'; which one counts is not known."
    ]


def test_a_dash_writes_the_labels_alone_to_standard_output(convert: Conversions, capsys: Capture) -> None:
    written(convert.source, own(doc=RED))
    made = succeeded(capsys, "labels", "convert", "labels", "--corpus", "documents", "-o", "-")
    (query,) = json.loads(made.out)["queries"]
    assert query["relevant_docs"][0].items() >= label("hub/lights.md", RED).items()
    assert "wrote standard output: 1 query with 1 label" in made.err
    assert not Path("-").exists()
    both = ragtrial(capsys, "labels", "convert", "labels", "--corpus", "documents", "-o", "-", "--json")
    assert (both.code, "would both go to standard output" in both.err) == (2, True)


def test_a_pipe_is_written_to_and_stays_one(convert: Conversions, capsys: Capture) -> None:
    written(convert.source, own(doc=RED))
    os.mkfifo("pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_text(encoding="utf-8")), daemon=True)
    reader.start()
    succeeded(capsys, "labels", "convert", "labels", "--corpus", "documents", "-o", "pipe")
    assert Path("pipe").is_fifo()
    reader.join(10)
    assert json.loads(read[0])["queries"][0]["id"] == "a"
