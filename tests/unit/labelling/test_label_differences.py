"""What somebody else did to labels meanwhile, and what one who graded the same query is reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragtrial.config import load_config
from ragtrial.labelling.answers import AnswerSheet
from ragtrial.labelling.changes import Grade
from ragtrial.labelling.write_back import LabelsConflictError, differences
from small_experiment import small_experiment


def label(doc: str, relevance: int = 1, **more: object) -> dict[str, object]:
    return {"doc": doc, "relevance": relevance, **more}


@pytest.mark.parametrize(
    ("was", "stands", "found"),
    [
        ([], [], []),
        ([label("a"), label("b")], [label("b"), label("a")], []),
        ([label("a")], [label("a"), label("a")], ['added {"doc": "a", "relevance": 1}']),
        ([label("a"), label("b", 2)], [label("a")], ['removed {"doc": "b", "relevance": 2}']),
        (
            [label("a"), label("b"), label("c")],
            [label("d"), label("c", 0), label("a")],
            ['added {"doc": "d", "relevance": 1}',
             'changed {"doc": "c", "relevance": 1} to {"doc": "c", "relevance": 0}',
             'removed {"doc": "b", "relevance": 1}'],
        ),
        (
            [label("a", quote="x")],
            [label("a", quote="y")],
            ['added {"doc": "a", "relevance": 1, "quote": "y"}', 'removed {"doc": "a", "relevance": 1, "quote": "x"}'],
        ),
        ([], [label("a", quote="x" * 61)], [f'added {{"doc": "a", "relevance": 1, "quote": "{"x" * 57}..."}}']),
    ],
)  # fmt: skip
def test_what_somebody_else_did_is_what_was_added_changed_and_removed(
    was: list[dict[str, object]], stands: list[dict[str, object]], found: list[str]
) -> None:
    assert differences(was, stands) == found


def test_a_search_whose_query_somebody_else_judged_meanwhile_says_so_and_what_to_do(tmp_path: Path) -> None:
    small_experiment(tmp_path)
    query = json.loads((tmp_path / "prompt_queries.json").read_text(encoding="utf-8"))["queries"][0]
    sheet = AnswerSheet(load_config(tmp_path / "experiment.yaml"), query["text"])
    file = tmp_path / "prompt_queries.json"
    labels = json.loads(file.read_text(encoding="utf-8"))
    labels["queries"][0]["relevant_docs"].append({"doc": "shipping.txt", "relevance": 0})
    file.write_text(json.dumps(labels), encoding="utf-8")
    with pytest.raises(LabelsConflictError) as error:
        sheet.write([Grade(query["id"], "warranty.md", 1)], "ada")
    assert str(error.value).splitlines() == [
        f"{file}: query 'q1', meanwhile: added {json.dumps(label('shipping.txt', 0))}. "
        f"Yours: {json.dumps(label('warranty.md'))}.",
        f"{file}: was changed by somebody else since it was read; nothing was written.",
        f"{file}: Look at what is there now, and label these queries again.",
    ]
