"""What was kept is used only as long as it is what a fresh workspace would hold."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from experiments import Experiment, write_experiment
from ragtrial.experiment import run_experiment
from ragtrial.report import Report
from ragtrial.storage.seals import SEAL
from ragtrial.storage.upkeep import Upkeep
from test_custom_runs import SEARCH, asked

MINE = {"kind": "custom", "function": "my_search:search", "top_k": 3, "on_error": "skip"}
WORDS = {"kind": "bm25", "top_k": 3, "stemmer": "none"}


def experiment(folder: Path, retrievers: dict[str, Any], **changes: object) -> Experiment:
    made = write_experiment(folder, retrievers=retrievers, **changes)
    (folder / "my_search.py").write_text(SEARCH)
    return made


def numbers(report: Report) -> dict[str, Any]:
    """All that the settings found, without times and without what they took."""
    return {part.name: part.model_dump(exclude={"timings", "costs", "latency", "index"}) for part in report.settings}


def test_the_sizes_of_what_was_found_follow_an_answer_that_came_later(tmp_path: Path, tiny_model: Path) -> None:
    embedder = {"kind": "sentence-transformer", "model": str(tiny_model)}
    made = experiment(tmp_path / "one", {"mine": MINE}, embedder=embedder)
    (made.folder / "trouble").write_text("raise")
    run_experiment(made.config())
    (made.folder / "trouble").unlink()
    later = run_experiment(made.config())
    shutil.rmtree(made.workspace)
    fresh = run_experiment(made.config())
    assert numbers(later) == numbers(fresh)


def test_a_question_that_was_skipped_is_asked_again_of_deeper_rankings_too(tmp_path: Path) -> None:
    made = experiment(tmp_path, {"mine": MINE})
    (made.folder / "trouble").write_text("raise")
    run_experiment(made.config("retrievers.mine.top_k=2", "evaluators.primary_metric=recall@1"))
    run_experiment(made.config())
    (made.folder / "trouble").unlink()
    report = run_experiment(made.config("retrievers.mine.top_k=2", "evaluators.primary_metric=recall@1"))
    assert report.setting("mine").scores["recall@1"].n == 3


def test_a_retriever_that_fails_at_another_wording_is_still_asked_the_question(tmp_path: Path) -> None:
    mine = {**MINE, "on_error": "stop"}
    more = {"kind": "expand", "of": "mine", "templates": ["smooth {query}"], "phrasings": False, "top_k": 3}
    made = experiment(tmp_path, {"more": more, "mine": mine})
    made.write_queries([{"id": "rye", "text": "rye bread", "relevant_docs": [{"doc": "bread/rye.md"}]}])
    (made.folder / "trouble").write_text("raise")
    report = run_experiment(made.config())
    assert [failure.name for failure in report.failures] == ["more"]
    assert report.setting("mine").scores["recall@3"].mean == 1.0
