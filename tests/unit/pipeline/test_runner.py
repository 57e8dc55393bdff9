"""Equal stages of many settings are one stage, made once, behind all that it needs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from experiments import Experiment, write_experiment
from ragtrial.pipeline.corpus import Graph
from ragtrial.pipeline.run import Run
from ragtrial.pipeline.stage import Stage, all_needs

SWEPT = {
    "dense": {"kind": "dense", "top_k": 3},
    "words": {"kind": "bm25", "top_k": 3, "score": False},
    "hybrid": {"kind": "fusion", "inputs": ["dense", "words"], "top_k": 3},
    "whole": {"kind": "parent", "inputs": "dense", "top_k": 2},
    "asked": {"kind": "expand", "inputs": "dense", "templates": ["About {query}"], "top_k": 3},
}


@pytest.fixture
def swept(tmp_path: Path) -> Experiment:
    return write_experiment(
        tmp_path, retrievers=SWEPT, sweep={"matrix": {"chunker.size": [40, 60, 90]}}, store={"kind": "exact"}
    )


def run_of(experiment: Experiment) -> Run:
    return Run.prepare(experiment.config())


def stages_of(graph: Graph) -> list[Stage[Any]]:
    """The stages up to the rankings of all settings, each once, behind what they need."""
    ends = [graph.run_of(setting).ranking for setting in graph.settings]
    return list(dict.fromkeys(stage for end in ends for stage in all_needs(end)))


def test_equal_stages_of_settings_are_one_stage_behind_all_that_it_needs(swept: Experiment) -> None:
    stages = stages_of(run_of(swept).graph)
    assert len({stage.definition_fingerprint for stage in stages}) == len(stages)
    for position, stage in enumerate(stages):
        assert set(stage.needs) <= set(stages[:position])
    kinds = Counter(stage.kind for stage in stages)
    # Of each size: rankings of dense, words, hybrid, whole and asked, and those of the wordings that asked asks dense.
    assert kinds == {
        "documents": 1, "chunks": 3, "surroundings": 3, "lengths": 3, "embeddings": 3, "indexes": 3, "rankings": 18,
    }  # fmt: skip
