"""What a comparison comes to: how sure the best setting is, and the one thing to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gate_scenarios import part
from ragtrial.comparison.comparison_parts import ComparisonPart, ProcedurePart
from ragtrial.comparison.conclusion import conclusion_of
from ragtrial.comparison.statistics.selection import SelectionPart

BEST = SelectionPart(metric="ndcg@10", setting="base", mean=0.6, corrected=0.58, ci=(0.5, 0.66), optimism=0.02,
                     chosen={}, n=26, draws=1, seed=0, sentence="")  # fmt: skip


def pair(
    setting: str, baseline: str, differing: int, ci: tuple[float, float] | None = None, **more: Any
) -> ComparisonPart:
    more = {"verdict": "identical", **more} if not differing else more
    return part(setting, -0.1, ci, baseline=baseline, wins=0, losses=differing, ties=26 - differing, n=26, **more)


def sentences(*parts: ComparisonPart) -> list[str]:
    """Of a comparison of all pairs, whose best setting is ``base``."""
    procedure = ProcedurePart(name="max-t", confidence=0.95, margin=0.02, flips=100, seed=0, baseline=None,
                              comparisons=len(parts), sentence="")  # fmt: skip
    names = list(dict.fromkeys(name for one in parts for name in (one.baseline, one.setting)))
    return conclusion_of(parts, procedure, names, names, BEST).sentences


def test_a_best_setting_that_differs_from_the_others_on_too_few_questions_is_best_so_far() -> None:
    first, _, next_step = sentences(pair("one", "base", 8), pair("two", "base", 4), pair("two", "one", 3))
    assert (
        first == "Best so far: base (ndcg@10 0.600; expect about 0.580 on new questions); too few questions to be sure."
    )
    # 26 * 10 / 4 questions: as many as have ten on which the two differ.
    assert next_step == (
        "Next: label about 39 more questions: two and base differ on only 4 of 26; at least 10 are needed to compare "
        "them."
    )


def test_two_others_that_can_be_compared_say_nothing_of_the_best() -> None:
    *_, next_step = sentences(
        pair("one", "base", 8), pair("two", "base", 9), pair("two", "one", 12, (-0.1, 0.1), queries_needed=20)
    )
    assert next_step.startswith("Next: label about 7 more questions: one and base differ on only 8 of 26")


@pytest.mark.parametrize(
    ("differing", "ci", "needed", "said"),
    [
        (12, (-0.1, 0.1), 500, "Next: label about 474 more questions to detect a difference of 0.02"),
        (12, (-0.01, 0.01), 20, "no difference that matters was found"),
        (0, None, None, "they score the same on every question"),
    ],
)
def test_the_next_step_is_what_would_settle_it(
    differing: int, ci: tuple[float, float] | None, needed: int | None, said: str
) -> None:
    first, *_, next_step = sentences(pair("one", "base", differing, ci, queries_needed=needed))
    assert first.startswith("Best: base ")
    assert said in next_step


def test_a_claim_that_labels_could_take_back_is_not_clear() -> None:
    """The claim that counts is the one against the best setting, if there is one."""
    worse = {"verdict": "worse"}
    parts = [
        pair("one", "base", 12, (-0.2, -0.1), **worse), pair("two", "base", 12, (-0.3, -0.1), **worse),
        pair("two", "one", 12, (-0.3, -0.1), **worse),
    ]  # fmt: skip
    procedure = ProcedurePart(name="max-t", confidence=0.95, margin=0.02, flips=100, seed=0, baseline=None,
                              comparisons=3, sentence="")  # fmt: skip
    asked: list[tuple[str, str]] = []

    def depend(claims: Sequence[ComparisonPart]) -> list[bool]:
        asked.extend((one.setting, one.baseline) for one in claims)
        return [one.setting == "two" for one in claims]

    made = conclusion_of(parts, procedure, ["base"], ["base", "one", "two"], BEST, depend)
    assert asked == [("one", "base"), ("two", "base")]
    assert (made.worse, made.depends_on_unjudged) == (["one", "two"], ["two"])
    assert made.sentences[1:] == [
        "Clearly worse: one.", "Worse by the labels so far (labels for unlabelled hits could change this): two.",
        "Next: label the hits that could change these verdicts: ragtrial pool, then ragtrial label.",
    ]  # fmt: skip
