"""A config says in one way where documents and labels are; anything else is refused."""

import json
from pathlib import Path

import pytest

from corpora import write_files, write_rows
from expectations import message_of
from ragtrial.dataset.datasets import Dataset, DatasetOptions, load_dataset
from ragtrial.errors import ConfigError, Fault
from ragtrial.options import dotted, validate
from ragtrial.records import Judgment, PromptQueries, Query


def options(**written: object) -> DatasetOptions:
    return validate(
        DatasetOptions,
        written,
        ConfigError,
        lambda path, message: Fault("c.yaml", message=f"@{dotted(path)} {message}"),
    )


@pytest.mark.parametrize(("written", "fault"), [
    ({}, "c.yaml: @ corpus and queries must be given (or beir: a BEIR folder)."),
    ({"corpus": "docs"}, "c.yaml: @ corpus and queries must be given (or beir: a BEIR folder)."),
    ({"beir": "b", "corpus": "docs"}, "c.yaml: @ give either beir, or corpus, queries and match; not both."),
    ({"beir": "b", "match": "content"}, "c.yaml: @ give either beir, or corpus, queries and match; not both."),
    ({"corpus": "c", "queries": "q", "split": "dev"}, "c.yaml: @ split and overlay belong to beir; leave them out."),
])  # fmt: skip
def test_what_is_said_in_no_way_or_in_two_is_refused(written: dict[str, object], fault: str) -> None:
    assert message_of(ConfigError, options, **written) == fault


def test_documents_and_labels_are_found_with_the_labels_as_written(tmp_path: Path) -> None:
    rows = {"queries": [{"id": 1, "text": "x", "relevant_docs": [{"doc": "not looked up yet"}]}]}
    (tmp_path / "prompts_queries.json").write_text(json.dumps(rows), encoding="utf-8")
    asked = str(tmp_path / "prompt_queries.json")
    assert load_dataset(options(corpus=str(tmp_path / "docs"), queries=asked, match="content")) == Dataset(
        corpus=tmp_path / "docs",
        labels=PromptQueries((Query("1", "x", (Judgment("not looked up yet"),)),)),
        labels_file=str(tmp_path / "prompts_queries.json"),
    )


def test_a_beir_folder_is_scored_on_its_test_split_unless_another_is_named(tmp_path: Path) -> None:
    write_rows(tmp_path / "queries.jsonl", [{"_id": "q1", "text": "x"}])
    files = {"corpus.jsonl": "", "qrels/test.tsv": "q1\td1\t1\n", "qrels/dev.tsv": "q1\td2\t3\n"}
    folder = write_files(tmp_path, files)
    assert load_dataset(options(beir=str(folder))) == Dataset(
        folder / "corpus.jsonl", PromptQueries((Query("q1", "x", (Judgment("d1", 1),)),)), f"{folder}/qrels/test.tsv"
    )
    assert load_dataset(options(beir=str(folder), split="dev")) == Dataset(
        folder / "corpus.jsonl", PromptQueries((Query("q1", "x", (Judgment("d2", 3),)),)), f"{folder}/qrels/dev.tsv"
    )
