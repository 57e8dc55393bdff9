"""The next step that a search advises after a verdict that shows nothing."""

import pytest

from gate_scenarios import part
from ragtrial.comparison.comparison_parts import Verdict
from ragtrial.search.search_result import SearchResult, WinnerPart, sentences_of


@pytest.mark.parametrize(
    ("settling", "verdict", "step"),
    [
        (None, "inconclusive", "Next: keep the config as it is."),
        (59, "inconclusive", "Next: keep the config as it is."),
        (60, "inconclusive", "Next: label about 1 more question to settle the two, or keep the config as it is."),
        (359, "inconclusive", "Next: label about 300 more questions to settle the two, or keep the config as it is."),
        (360, "inconclusive", "Next: keep the config as it is."),  # nobody labels 301 questions
        (None, "no worse", "Next: keep the config as it is, or take the winner if it is cheaper."),
    ],
)
def test_no_more_questions_than_people_label_are_asked_for(settling: int | None, verdict: Verdict, step: str) -> None:
    result = SearchResult(
        method="random", seed=0, metric="ndcg@10", settings=4, possible=None, refused=[], ended="", searched=59,
        held_out=0, baseline="base", winner=WinnerPart(setting="new", searched=0.61, expected=None, optimism=None),
        verdict=part("new", 0.01, (-0.05, 0.07), queries_to_settle=settling, verdict=verdict), compared_with=4,
        trials=[], sentences=[],
    )  # fmt: skip
    assert list(sentences_of(result))[-1] == step
