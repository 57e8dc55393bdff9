"""Answers of a user's retriever are on the disk before the next is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpora import library_of
from ragtrial.components.retrievers.custom import Journal
from ragtrial.components.retrievers.external import place, read_hit
from ragtrial.dataset.library import Library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return library_of(tmp_path_factory.mktemp("library"), {"a": "one", "b": "two", "7": "three"})


def test_an_answer_is_on_the_disk_before_the_next_is_added(library: Library, tmp_path: Path) -> None:
    path, answer = tmp_path / "answers.jsonl", place([read_hit(("a", 0.5))], library, 1)
    journal = Journal(path, library)
    journal.add("first", answer)
    assert Journal(path, library).get("first", 1) == answer
    Journal(path, library).add("of another process", answer)
    journal.add("second", answer)
    assert len(Journal(path, library)) == 3
