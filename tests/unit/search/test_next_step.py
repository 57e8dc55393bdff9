"""The next step that a search advises after a verdict that shows nothing."""

from __future__ import annotations

import pytest

from gate_scenarios import part
from ragtrial.search.parts import SearchResult, WinnerPart
from ragtrial.search.sentences import sentences_of


@pytest.mark.parametrize(
    ("needed", "step"),
    [
        (None, "Next: keep the config as it is, or take the winner if it is cheaper."),
        (58, "Next: keep the config as it is, or take the winner if it is cheaper."),
        (59, "Next: keep the config as it is, or take the winner if it is cheaper."),
        (60, "Next: label about 1 more questions, or keep the config as it is."),
        (1_259, "Next: label about 1,200 more questions, or keep the config as it is."),
    ],
)
def test_questions_are_asked_for_only_if_some_are_missing(needed: int | None, step: str) -> None:
    result = SearchResult(
        method="random", seed=0, metric="ndcg@10", settings=4, possible=None, refused=[], ended="", searched=59,
        held_out=0, baseline="base", winner=WinnerPart(setting="new", searched=0.61, expected=None, optimism=None),
        verdict=part("new", 0.01, (-0.05, 0.07), queries_needed=needed), compared_with=4, finalists=[],
        between_finalists=[], pareto=[], importance=[], screen=None, trials=[], sentences=[],
    )  # fmt: skip
    assert list(sentences_of(result))[-1] == step
