"""What was kept is used only as long as it is what a fresh workspace would hold."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from custom_search import SEARCH, asked
from experiments import Experiment, write_experiment
from ragtrial.cache.upkeep import Upkeep
from ragtrial.experiment import run_experiment
from report_hits import numbers_of
from tiny_models import write_tiny_cross_encoder

MINE = {"kind": "custom", "function": "my_search:search", "top_k": 3, "on_error": "skip"}
WORDS = {"kind": "bm25", "top_k": 3, "stemmer": "none"}


def experiment(folder: Path, retrievers: dict[str, Any], **changes: Any) -> Experiment:
    made = write_experiment(folder, retrievers=retrievers, **changes)
    (folder / "my_search.py").write_text(SEARCH)
    return made


def test_the_sizes_of_what_was_found_follow_an_answer_that_came_later(tmp_path: Path, tiny_model: Path) -> None:
    embedder = {"kind": "sentence-transformer", "model": str(tiny_model)}
    made = experiment(tmp_path / "one", {"mine": MINE}, embedder=embedder)
    (made.folder / "trouble").write_text("raise")
    run_experiment(made.config())
    (made.folder / "trouble").unlink()
    later = run_experiment(made.config())
    shutil.rmtree(made.workspace)
    fresh = run_experiment(made.config())
    assert numbers_of(later) == numbers_of(fresh)


def test_numbers_of_passages_do_not_hang_on_how_deep_an_earlier_run_has_searched(tmp_path: Path) -> None:
    """Of hits whose chunks are not known, what these allow is not known either, however many were found."""
    alone = {"mine": {**MINE, "options": {"by": "sentence"}}, "words": WORDS}
    both = {"kind": "fusion", "inputs": ["mine", "words"], "top_k": 3}
    run_experiment(experiment(tmp_path, {**alone, "both": both}, evaluators={"unit": "span"}).config())
    made = experiment(tmp_path, alone, evaluators={"unit": "span"})
    later = run_experiment(made.config())
    shutil.rmtree(made.workspace)
    fresh = run_experiment(made.config())
    for name in alone:
        assert later.setting(name).scores == fresh.setting(name).scores
        assert later.setting(name).per_query == fresh.setting(name).per_query
    ceilings = {name: fresh.setting(name).scores["span_precision_ceiling"] for name in alone}
    assert (ceilings["mine"].mean, ceilings["mine"].n) == (None, 0)
    assert ceilings["words"].n == 3


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
    more = {"kind": "expand", "inputs": "mine", "templates": ["smooth {query}"], "phrasings": False, "top_k": 3}
    made = experiment(tmp_path, {"more": more, "mine": mine})
    made.write_queries([{"id": "rye", "text": "rye bread", "relevant_docs": [{"doc": "bread/rye.md"}]}])
    (made.folder / "trouble").write_text("raise")
    report = run_experiment(made.config())
    assert [failure.name for failure in report.failures] == ["more"]
    assert report.setting("mine").scores["recall@3"].mean == 1.0


def test_what_a_finished_experiment_stands_on_is_used_also_where_nobody_had_to_read_it(tmp_path: Path) -> None:
    retrievers = {
        "words": {**WORDS, "score": False},
        "mine": {**MINE, "score": False},
        "both": {"kind": "fusion", "inputs": ["words", "mine"], "top_k": 3},
        "various": {"kind": "mmr", "inputs": "mine", "top_k": 3},
    }
    made = experiment(tmp_path, retrievers)
    first = run_experiment(made.config())
    again = run_experiment(made.config())
    assert {"answers", "bm25", "terms", "rankings", "vectors"} <= {
        entry.kind for entry in Upkeep(made.workspace).entries()
    }
    assert Upkeep(made.workspace).prune(unused=True).removed == []
    assert [part.costs for part in again.settings] == [part.costs for part in first.settings]
    assert len(asked(made.folder)) == 1


@pytest.mark.parametrize(("before", "now"), [("device=cpu", "device=cpu:0"), ("batch_size=32", "batch_size=2")])
def test_latency_is_measured_for_other_devices(tmp_path: Path, minilm_folder: Path, before: str, now: str) -> None:
    model = write_tiny_cross_encoder(tmp_path / "cross", minilm_folder, seed=3)
    best = {"kind": "rerank", "inputs": "words", "model": str(model), "candidates": 4, "top_k": 3}
    made = experiment(tmp_path / "one", {"words": WORDS, "best": best}, latency=True)
    run_experiment(made.config(f"retrievers.best.{before}"))
    kept = {path.name for path in (made.workspace / "latency").iterdir()}
    rankings = {path.name for path in (made.workspace / "rankings").iterdir()}
    run_experiment(made.config(f"retrievers.best.{now}"))
    assert len({path.name for path in (made.workspace / "latency").iterdir()} - kept) == 1
    assert {path.name for path in (made.workspace / "rankings").iterdir()} == rankings
