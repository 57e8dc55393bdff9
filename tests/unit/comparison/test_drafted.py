"""Drafted questions in a comparison: how many there are, who reviewed them, and whom they favour."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import ttest_ind

from contests import changed_queries, report_of
from ragtrial.comparison.comparing import compare
from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.drafted import DraftedPart, drafted_part
from ragtrial.dataset.resolution import drafted_share
from ragtrial.records import DRAFTED, NOT_REVIEWED, PromptQueries, Query
from ragtrial.report.model import Report

RNG = np.random.default_rng(7)
VALUES = {name: RNG.random(40).round(3).tolist() for name in ("bm25", "titles", "dense", "hybrid")}
KINDS = {"bm25": "bm25", "titles": "bm25", "dense": "dense", "hybrid": "fusion"}


def world(values: dict[str, list[float | None]], drafted: Sequence[int], unseen: Sequence[int] = ()) -> Report:
    """The report, with the kinds of its settings, and tags of the queries with these numbers."""
    report = report_of(values)
    kinds = [one.model_copy(update={"parameters": {"retriever": {"kind": KINDS[one.name]}}}) for one in report.settings]
    tags = {f"q{number}": {"tags": [DRAFTED, *([NOT_REVIEWED] if number in unseen else [])]} for number in drafted}
    return changed_queries(report.model_copy(update={"settings": kinds}), **tags)


def part_of(report: Report) -> DraftedPart | None:
    inputs = input_of([report])
    return drafted_part(inputs, inputs.scores(inputs.primary))


def test_the_gap_and_its_interval_are_those_of_scipys_welch_test() -> None:
    values = {**VALUES, "dense": [None, *VALUES["dense"][1:]]}
    part = part_of(world(values, range(1, 16), unseen=(3, 4)))
    assert part is not None
    contrast = (np.array(VALUES["bm25"]) + VALUES["titles"]) / 2 - VALUES["dense"]
    expected = ttest_ind(contrast[1:15], contrast[15:], equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert part.gap == pytest.approx(contrast[1:15].mean() - contrast[15:].mean(), abs=1e-12)
    assert part.gap_ci == pytest.approx((interval.low, interval.high), abs=1e-9)
    assert (part.queries, part.drafted, part.reviewed) == (40, 15, 13)
    assert (part.words, part.vectors) == (["bm25", "titles"], ["dense"])
    assert part.on_drafted == pytest.approx(contrast[1:15].mean())
    assert part.on_people == pytest.approx(contrast[15:].mean())


def test_it_is_a_warning_of_the_comparison_and_nothing_is_said_without_drafts() -> None:
    made = compare(world(VALUES, range(1, 11)))
    assert made.drafted is not None
    assert made.drafted.gap is not None
    (warning,) = [one for one in made.warnings if one.code == "drafted-questions"]
    assert warning.message == made.drafted.sentence
    assert warning.message.startswith(
        "10 of 40 questions were drafted by a model; people reviewed 10 of these (100%). Questions made from passages "
        "share their words, which favours lexical retrievers. Measured here: the mean of bm25, titles minus dense is "
    )
    assert f"a change of {made.drafted.gap:+.3f} (95% interval of the change " in warning.message
    without = compare(world(VALUES, ()))
    assert without.drafted is None
    assert "drafted-questions" not in [one.code for one in without.warnings]


@pytest.mark.parametrize(
    ("names", "drafted", "lacking"),
    [
        (("bm25", "dense"), range(1, 41), "without people's questions"),
        (("bm25", "hybrid"), range(1, 9), "without a BM25 and a dense setting"),
        (("dense", "hybrid"), range(1, 9), "without a BM25 and a dense setting"),
    ],
)
def test_what_cannot_be_measured_is_said(names: Sequence[str], drafted: range, lacking: str) -> None:
    part = part_of(world({name: VALUES[name] for name in names}, drafted))
    assert part is not None
    assert (part.gap, part.gap_ci) == (None, None)
    assert part.sentence.endswith(f"The effect cannot be measured here {lacking}.")


def test_drafted_questions_that_do_not_count_measure_nothing() -> None:
    values = {name: [None, *VALUES[name][1:]] for name in ("bm25", "dense")}
    part = part_of(world(values, [1]))
    assert part is not None
    assert (part.on_drafted, part.gap) == (None, None)
    assert part.on_people is not None
    assert part.sentence.endswith("The effect cannot be measured here without drafted questions that count.")


def test_one_question_of_a_kind_has_a_gap_and_no_interval() -> None:
    part = part_of(world({name: VALUES[name] for name in ("bm25", "dense")}, [5]))
    assert part is not None
    assert part.gap is not None
    assert math.isfinite(part.gap)
    assert part.gap_ci is None
    assert "interval" not in part.sentence


def test_labels_say_how_many_questions_were_drafted_and_reviewed() -> None:
    drafted = [Query(f"d{number}", "?", tags=(DRAFTED, *([NOT_REVIEWED] if number else []))) for number in range(4)]
    warning = drafted_share(PromptQueries((Query("own", "?"), *drafted)))
    assert warning is not None
    assert warning.message.startswith("4 of 5 questions were drafted by a model; people reviewed 1 of these (25%).")
    assert drafted_share(PromptQueries((Query("own", "?"),))) is None
