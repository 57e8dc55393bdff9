"""`ragtrial labels list | add | remove`: labels without an editor, and with their history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from small_experiment import Capture, ragtrial, small_experiment, succeeded


@pytest.fixture(autouse=True)
def _here(tmp_path: Path) -> None:
    small_experiment(tmp_path)


def labels() -> dict[str, Any]:
    rows = json.loads(Path("prompt_queries.json").read_text(encoding="utf-8"))["queries"]
    return {row["id"]: row for row in rows}


def history() -> list[tuple[str, str]]:
    lines = Path("prompt_queries.history.jsonl").read_text(encoding="utf-8").splitlines()
    return [(row["query"], row["action"]) for row in map(json.loads, lines)]


def test_queries_are_listed_with_their_judgments(capsys: Capture) -> None:
    listed = succeeded(capsys, "labels", "list")
    assert listed.out.splitlines()[0].split() == ["query", "judgments", "relevant", "tags", "text"]
    rows = ragtrial(capsys, "labels", "list", "--json").json["queries"]
    known = labels().values()
    assert [(row["id"], row["judgments"]) for row in rows] == [(row["id"], len(row["relevant_docs"])) for row in known]


def test_an_answer_is_added_to_a_new_question_and_to_one_that_is_there(capsys: Capture) -> None:
    add = ["labels", "add", "Who pays the parcel?", "--doc", "returns.md"]
    made = succeeded(capsys, *add, "--relevance", "3", "--tag", "money", "--id", "pays")
    assert made.out.endswith("prompt_queries.json: 1 query added, 1 judgment added; it has 3 queries\n")
    succeeded(capsys, "labels", "add", "Who pays the parcel?", "--doc", "shipping.txt")
    assert labels()["pays"] == {
        "id": "pays", "text": "Who pays the parcel?", "tags": ["money"],
        "relevant_docs": [{"doc": "returns.md", "relevance": 3}, {"doc": "shipping.txt", "relevance": 1}],
    }  # fmt: skip
    assert history() == [("pays", "query"), ("pays", "add"), ("pays", "add")]


def test_a_query_and_single_judgments_are_removed(capsys: Capture) -> None:
    doc = labels()["q2"]["relevant_docs"][0]["doc"]
    succeeded(capsys, "labels", "remove", "q2", "--doc", doc)
    assert doc not in [label["doc"] for label in labels()["q2"]["relevant_docs"]]
    made = ragtrial(capsys, "labels", "remove", "q2")
    assert made.out.endswith("prompt_queries.json: 1 query removed; it has 1 query\n")
    assert list(labels()) == ["q1"]
    assert history()[-1] == ("q2", "remove query")


def test_a_file_of_labels_keeps_its_permissions(capsys: Capture) -> None:
    Path("prompt_queries.json").chmod(0o664)
    succeeded(capsys, "labels", "add", "Who pays?", "--doc", "returns.md")
    assert Path("prompt_queries.json").stat().st_mode & 0o777 == 0o664
