"""A document that is the question itself does not count as found, as BEIR scores ArguAna and Quora."""

import json
from pathlib import Path
from typing import Any

import pytest

from corpora import write_files, write_rows
from ragtrial import RetrievalEvaluator, load_config
from ragtrial.pipeline.run import Run

ARGUMENT, REPLY = "homework harms sleep", "homework harms no sleep and trains discipline"


def found(folder: Path, unit: str = "document", text: str = ARGUMENT, title: str = "", **dataset: Any) -> list[str]:
    """The documents found for the question a1, best first, and whether its own document is reported."""
    write_rows(
        folder / "corpus.jsonl",
        [{"_id": "a1", "title": title, "text": ARGUMENT}, {"_id": "a2", "text": REPLY}, {"_id": "a3", "text": "zoos"}],
    )
    write_rows(folder / "queries.jsonl", [{"_id": "a1", "text": text}, {"_id": "of no document", "text": "zoos"}])
    write_files(folder, {"qrels/test.tsv": "a1\ta2\t1\nof no document\ta3\t1\n"})
    cut = {"k": [1]}
    config = {
        "experiment": "own",
        "dataset": {"beir": str(folder), **dataset},
        "workspace": str(folder / "cache"),
        "chunker": {"kind": "document"},
        "retrievers": {
            "bm25": {"kind": "bm25", "top_k": 1},
            "both": {"kind": "fusion", "inputs": ["bm25", "words"], "top_k": 1},
            "words": {"kind": "bm25", "stemmer": "none", "top_k": 1},
        },
        "evaluators": {"unit": unit, "graded": cut, "order_unaware": cut, "order_aware": cut},
    }
    (folder / "experiment.yaml").write_text(json.dumps(config), encoding="utf-8")
    loaded = load_config(folder / "experiment.yaml")
    retrieved = RetrievalEvaluator(loaded).retrieve()
    ids = {hit.doc for results in retrieved for query in results.results if query.id == "a1" for hit in query.hits}
    is_reported = any(one.code == "own-documents" for one in Run.of(loaded).warnings)
    assert is_reported == (ids != {"a1"} and "a1" not in ids and dataset.get("drop_query_document") is not False)
    return sorted(ids)


@pytest.mark.parametrize(("options", "documents"), [
    ({}, ["a2"]), ({"unit": "span"}, ["a2"]), ({"text": f" {ARGUMENT}\n"}, ["a2"]),
    ({"title": "School", "text": f"School {ARGUMENT}"}, ["a2"]), ({"drop_query_document": True}, ["a2"]),
    ({"drop_query_document": True, "text": "homework sleep"}, ["a2"]), ({"drop_query_document": False}, ["a1"]),
    ({"text": "harms of homework"}, ["a1"]),
])  # fmt: skip
def test_the_hit_that_is_the_question_is_dropped(tmp_path: Path, options: dict[str, Any], documents: list[str]) -> None:
    """The ranking is still as deep as top_k. An equal id alone is a coincidence, unless the config says otherwise."""
    assert found(tmp_path, **options) == documents
