"""What a judge is worth: bias, order and needed labels are those of scipy and of a plain scan; and the sentences."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import stdtrit
from scipy.stats import kendalltau, ttest_1samp

from judged_world import METRIC, QUERIES, judged, tagged, world
from ragtrial.comparison.comparing import ComparisonOptions, compare_settings
from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.comparison_parts import Comparison
from ragtrial.comparison.judge import JudgePart, JudgeSide, judge_side, people_needed
from ragtrial.comparison.judgments import JudgmentsError, ModelJudgments, read_judgments
from ragtrial.comparison.statistics.power import detectable_difference, level_of
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Procedure
from ragtrial.comparison.statistics.two_phase import infer_two_phase
from ragtrial.records import DRAWN_AT_RANDOM, NOT_REVIEWED
from ragtrial.views.sections.evidence_view import judge_tables
from scored_runs import scored_report

PROCEDURE = Procedure(flips=100)


def sides(folder: Path, file: Path, drawn: int = 30) -> JudgeSide:
    report = tagged(world(folder), QUERIES[:drawn], DRAWN_AT_RANDOM)
    return judge_side(input_of([report]), read_judgments(file))


def part_of(side: JudgeSide) -> tuple[Comparison, JudgePart]:
    made = compare_settings(side.inputs, ComparisonOptions(procedure=PROCEDURE, judge=side))
    assert made.judge is not None
    return made, made.judge


def test_bias_is_the_judges_mean_score_less_peoples_with_students_interval(tmp_path: Path) -> None:
    side = sides(tmp_path, judged(tmp_path))
    made, judge = part_of(side)
    apart = side.scores(METRIC).values - side.inputs.scores(METRIC).values
    assert [part.setting for part in judge.bias] == list(side.inputs.names)
    for part, row in zip(judge.bias, apart, strict=True):
        known = row[~np.isnan(row)]
        assert len(known) == 30
        interval = ttest_1samp(known, 0).confidence_interval(0.95)
        assert part.bias == pytest.approx(known.mean(), abs=1e-12)
        assert part.ci == pytest.approx((interval.low, interval.high), abs=1e-9)
    most = max(judge.bias, key=lambda one: one.bias or -math.inf)
    assert any(line.startswith(f"The judge's largest bias in favour of a setting: {most.setting}, ")
               for line in judge.sentences)  # fmt: skip
    (comparison,) = judge.comparisons
    both = [side.scores(METRIC).differences([pair])[0] for pair in side.inputs.pairs()]
    assert abs(comparison.judge_difference or 0) == pytest.approx(abs(float(np.nanmean(both[0]))))
    assert made.comparisons[0].queries_needed == comparison.people_needed


@pytest.mark.parametrize("favourite", ["a", "b", "c", "d"])
def test_the_order_of_settings_is_compared_by_kendalls_tau_over_what_both_judged(
    tmp_path: Path, favourite: str
) -> None:
    rows = [{"query": query, "doc": doc, "grade": 3 if doc == favourite else 0} for query in QUERIES for doc in "abcd"]
    side = sides(tmp_path, judged(tmp_path, rows))
    _, judge = part_of(side)
    means = [values[:, :30].mean(axis=1) for values in (side.inputs.scores(METRIC).values, side.scores(METRIC).values)]
    assert judge.order_alike == pytest.approx(kendalltau(*means).statistic)


@pytest.mark.parametrize("margin", [0.02, 0.1, 0.3])
def test_people_needed_is_the_first_number_that_detects_the_margin(tmp_path: Path, margin: float) -> None:
    side = sides(tmp_path, judged(tmp_path))
    pairs = side.inputs.pairs()
    (two,) = infer_two_phase([side.sample(side.inputs.scores(METRIC), pairs)], PROCEDURE)
    (found,) = people_needed(two, margin)
    residual, fixed = float(two.residual[0]), float(two.fixed[0])
    level = float(level_of(two.inference.criticals, two.inference.n)[0])

    def detects(n: int) -> bool:
        deviation, critical = np.array([math.sqrt(residual + fixed * n)]), np.array([-stdtrit(n - 2, level / 2)])
        return bool(detectable_difference(deviation, np.array([n]), critical)[0] <= margin)

    if found is None:
        assert not any(detects(n) for n in (10, 100, 10_000, 2**20))
    else:
        assert found == next(n for n in range(LEAST_DIFFERENCES, 20_000) if detects(n))
    assert people_needed(two, 0.0) == [None]


def test_sentences_say_what_more_questions_are_worth_and_needed(tmp_path: Path) -> None:
    _, judge = part_of(sides(tmp_path, judged(tmp_path, right=0.9)))
    text = " ".join(judge.sentences)
    assert "People judged 30 questions, drawn at random; the judge, m, judged 60." in text
    (one,) = judge.comparisons
    assert one.basis == "both"
    assert one.worth is not None
    assert (
        f"The 30 questions that only the judge judged narrow the intervals as much as {round(one.worth)} more" in text
    )
    assert f"The correlation between the judge's differences and people's is {one.correlation:.2f}." in text
    needed = one.people_needed
    said = "people need to judge" in text
    assert said == (needed is not None and needed > judge.people)


def test_where_people_judged_enough_no_more_are_said_to_be_needed(tmp_path: Path) -> None:
    side = sides(tmp_path, judged(tmp_path))
    made = compare_settings(side.inputs, ComparisonOptions(margin=0.9, procedure=PROCEDURE, judge=side)).judge
    assert made is not None
    (one,) = made.comparisons
    assert one.people_needed is not None
    assert one.people_needed <= made.people
    assert "people need to judge" not in " ".join(made.sentences)


def test_replies_without_a_grade_are_counted_in_a_sentence(tmp_path: Path) -> None:
    rows = [{"query": query, "doc": doc, "grade": None if doc == "d" else 1} for query in QUERIES for doc in "abcd"]
    _, judge = part_of(sides(tmp_path, judged(tmp_path, rows)))
    assert "60 of the judge's 240 replies have no grade." in judge.sentences


def test_a_query_for_which_nothing_was_found_is_not_covered_and_needs_a_judgment(tmp_path: Path) -> None:
    labels = {f"q{number}": {"a": 1} for number in range(3)}
    runs = {name: {"q0": "a b", "q1": "b a"} for name in ("one", "two")}
    report = scored_report(tmp_path, labels, runs, "--metrics", METRIC)
    rows = [{"query": query, "doc": doc, "grade": 1} for query in ("q0", "q1") for doc in "ab"]
    side = judge_side(input_of([report]), read_judgments(judged(tmp_path, rows)))
    assert dict(zip((query.id for query in side.inputs.queries), side.covered.tolist(), strict=True)) == {
        "q0": True, "q1": True, "q2": False,
    }  # fmt: skip


def test_where_the_judge_finds_nothing_relevant_every_setting_has_0(tmp_path: Path) -> None:
    rows = [{"query": query, "doc": doc, "grade": 3 * (query != "q00")} for query in QUERIES for doc in "abcd"]
    side = sides(tmp_path, judged(tmp_path, rows))
    assert side.scores(METRIC).values[:, 0].tolist() == [0.0, 0.0]
    assert (side.scores(METRIC).values[:, 1:] == 1).all()


def test_a_query_that_the_judge_has_not_judged_is_not_among_peoples(tmp_path: Path) -> None:
    rows = [{"query": query, "doc": doc, "grade": 1} for query in QUERIES[5:] for doc in "abcd"]
    side = sides(tmp_path, judged(tmp_path, rows))
    assert side.people.sum() == 25
    assert not side.people[:5].any()


def test_drafts_that_nobody_reviewed_are_not_judged_by_people(tmp_path: Path) -> None:
    report = tagged(world(tmp_path), QUERIES[:20], NOT_REVIEWED)
    side = judge_side(input_of([report]), read_judgments(judged(tmp_path)))
    assert side.people.tolist() == [False] * 20 + [True] * 40


def test_where_people_judged_all_that_the_judge_did_nothing_need_be_drawn(tmp_path: Path) -> None:
    side = judge_side(input_of([world(tmp_path)]), read_judgments(judged(tmp_path)))
    assert [warning.code for warning in side.warnings] == []
    drawn = judge_side(input_of([tagged(world(tmp_path / "drawn"), QUERIES, DRAWN_AT_RANDOM)]), side.judgments)
    assert [warning.code for warning in drawn.warnings] == []


def test_the_scale_is_that_of_peoples_highest_grade(tmp_path: Path) -> None:
    assert sides(tmp_path, judged(tmp_path)).highest == 1


def test_of_a_text_that_was_judged_twice_the_first_counts_and_costs_add_up(tmp_path: Path) -> None:
    rows = [{"query": "q00", "doc": "a", "grade": grade, "cost": 0.25} for grade in (2, 0)]
    found = read_judgments(judged(tmp_path, rows))
    assert found.grades == {"q00": {"a": 2}}
    assert found.cost == 0.5
    unknown = ModelJudgments(found.file, [*found.rows, found.rows[0].model_copy(update={"cost": None})])
    assert unknown.cost is None


def test_other_parameters_are_another_judge(tmp_path: Path) -> None:
    rows = [{"query": "q00", "doc": "a", "grade": 1, "parameters": {"seed": seed}} for seed in (0, 1)]
    with pytest.raises(JudgmentsError, match=r"2 judges: m \(prompt 0+, seed 0\), m \(prompt 0+, seed 1\)"):
        read_judgments(judged(tmp_path, rows))


def test_columns_of_words_are_aligned_to_the_left(tmp_path: Path) -> None:
    _, judge = part_of(sides(tmp_path, judged(tmp_path)))
    for _, table in judge_tables(judge):
        cells = list(zip(*table.rows, strict=True))
        words = [any(map(str.isalpha, "".join(column))) for column in cells]
        first, *others = (column.is_text for column in table.columns)
        assert first
        assert others == words[1:]
