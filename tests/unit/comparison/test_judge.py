"""A judge next to people: both sides of a comparison, and the worth of the judge, by scipy and by hand."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import stdtrit
from scipy.stats import ttest_1samp

from contests import changed_queries
from expectations import message_of, present
from judged_world import METRIC, QUERIES, judged, tagged, world
from ragtrial import compare
from ragtrial.comparison.comparing import ComparisonOptions, compare_settings
from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.comparison_parts import Comparison, JudgePart
from ragtrial.comparison.judge import (
    JudgeSide,
    JudgmentsError,
    ModelJudgments,
    judge_side,
    on_scale,
    people_needed,
    read_judgments,
)
from ragtrial.comparison.statistics.estimates import detectable_difference, level_of
from ragtrial.comparison.statistics.procedures import TwoPhaseSample, infer_two_phase
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Procedure
from ragtrial.errors import InputError
from ragtrial.records import CHOSEN_BY_STAKES, DRAWN_AT_RANDOM, NOT_REVIEWED
from ragtrial.views.sections.details import judge_tables
from scored_runs import scored_report


def test_people_draw_30_the_judge_has_60_and_a_perfect_judge_is_not_believed(tmp_path: Path) -> None:
    report = tagged(world(tmp_path), QUERIES[:30], DRAWN_AT_RANDOM)
    made = compare(report, judge=judged(tmp_path))
    (part,), judge = made.comparisons, present(made.judge)
    assert (part.n, judge.people, judge.judged) == (30, 30, 60)
    alone = compare_settings(input_of([report]), ComparisonOptions())
    assert part.ci is not None
    assert judge.drawn_at_random
    assert judge.comparisons[0].basis == "both"
    assert alone.comparisons[0].n == 60
    assert [warning.code for warning in made.warnings] == ["not-drawn-at-random"]  # the other 30 have labels, too
    judge = present(compare(report, judge=judged(tmp_path, right=1.0)).judge)
    assert judge.comparisons[0].basis == "too few errors"
    assert any(line.startswith("Based on people's labels alone: all comparisons") for line in judge.sentences)


def test_the_judges_scores_are_the_ordinary_ones_by_its_grades(tmp_path: Path) -> None:
    report = world(tmp_path / "people")
    file = judged(tmp_path)
    side = judge_side(input_of([report]), read_judgments(file))
    labels = {query: {doc: on_scale(grade or 0, 1) for doc, grade in own.items() if isinstance(doc, str)}
              for query, own in read_judgments(file).grades.items()}  # fmt: skip
    runs = {name: {query: " ".join(map(str, found)) for query, found in
                   zip(QUERIES, side.rankings.hits(place), strict=True)}
            for place, name in enumerate(side.inputs.names)}  # fmt: skip
    expected = input_of([scored_report(tmp_path / "judge", labels, runs, "--metrics", METRIC)]).scores(METRIC).values
    assert side.scores(METRIC).values == pytest.approx(np.nan_to_num(expected), abs=1e-12)


def test_without_peoples_labels_there_is_no_verdict(tmp_path: Path) -> None:
    report = world(tmp_path)
    bare = changed_queries(report, **{name: {"relevant_docs": []} for name in QUERIES})
    made = compare(bare, judge=judged(tmp_path))
    (part,) = made.comparisons
    assert (part.ci, part.p, part.difference, part.verdict) == (None, None, None, "too few differences")
    judge = present(made.judge)
    assert judge.comparisons[0].judge_difference is not None
    assert judge.sentences[0] == "No verdict: people judged no question. The judge, m, judged 60."
    assert [warning.code for warning in made.warnings] == ["judge-alone"]


def test_queries_that_were_chosen_by_stakes_are_refused_and_the_reason_said(tmp_path: Path) -> None:
    report = tagged(world(tmp_path), QUERIES[:30], CHOSEN_BY_STAKES)
    with pytest.raises(
        JudgmentsError, match=r"30 queries that people judged .* were chosen because the settings disagree"
    ):
        compare(report, judge=judged(tmp_path))


def test_a_query_drawn_at_random_and_judged_in_part_is_left_out(tmp_path: Path) -> None:
    report = tagged(world(tmp_path), QUERIES[:30], DRAWN_AT_RANDOM)
    (first, *_) = report.queries
    part = changed_queries(report, q00={"relevant_docs": first.relevant_docs[:1]})
    made = compare(part, judge=judged(tmp_path))
    assert made.comparisons[0].n == 29
    assert "judged-in-part" in [warning.code for warning in made.warnings]


def test_labels_of_unknown_origin_few_people_and_a_judge_inside_are_warned_of(tmp_path: Path) -> None:
    report = world(tmp_path)
    few = changed_queries(report, **{name: {"relevant_docs": []} for name in QUERIES[12:]})
    codes = [warning.code for warning in compare(few, judge=judged(tmp_path)).warnings]
    assert codes == ["not-drawn-at-random", "few-people"]
    first, *rest = report.settings
    inside = first.model_copy(update={"parameters": {"rerank": [{"model": "m"}]}})
    made = compare(report.model_copy(update={"settings": [inside, *rest]}), judge=judged(tmp_path))
    assert "judge-in-pipeline" in [warning.code for warning in made.warnings]


def test_a_query_without_a_text_or_a_grade_is_not_judged(tmp_path: Path) -> None:
    report = world(tmp_path)
    rows = [{"query": query, "doc": doc, "grade": 0} for query in QUERIES for doc in "abcd"]
    side = judge_side(input_of([report]), read_judgments(judged(tmp_path, rows[:-4])))
    assert side.covered.tolist() == [True] * 59 + [False]
    rows = [{"query": query, "doc": doc, "grade": None if doc == "b" else 3} for query in QUERIES for doc in "abcd"]
    side = judge_side(input_of([report]), read_judgments(judged(tmp_path, rows)))
    assert side.covered.all()
    assert all(theirs is not None for theirs in side.pairs_of_grades())
    assert side.rankings.grade(0, "b") is None
    assert side.judgments.unparsable == 60


def test_a_query_for_which_nothing_was_found_is_not_covered_and_needs_a_judgment(tmp_path: Path) -> None:
    labels = {f"q{number}": {"a": 1} for number in range(3)}
    runs = {name: {"q0": "a b", "q1": "b a"} for name in ("one", "two")}
    report = scored_report(tmp_path, labels, runs, "--metrics", METRIC)
    rows = [{"query": query, "doc": doc, "grade": 1} for query in ("q0", "q1") for doc in "ab"]
    side = judge_side(input_of([report]), read_judgments(judged(tmp_path, rows)))
    assert dict(zip((query.id for query in side.inputs.queries), side.covered.tolist(), strict=True)) == {
        "q0": True, "q1": True, "q2": False,
    }  # fmt: skip


@pytest.mark.parametrize(("line", "said"), [
    ("[]", "judgments.jsonl:1: is not a JSON object"),
    ("[" * 100_000, "judgments.jsonl:1: is not a JSON object"),
    ('{"query": "q", "doc": "d", "grade": 4, "model": "m", "prompt": "p"}', "judgments.jsonl:1: grade is 4"),
    ("", "has no judgments. Make some: ragtrial judge"),
])  # fmt: skip
def test_faults_of_a_file_name_their_line(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "judgments.jsonl"
    file.write_text(line + "\n", encoding="utf-8")
    assert said in message_of(JudgmentsError, read_judgments, file)


def test_judgments_of_another_report_and_of_two_judges_are_refused(tmp_path: Path) -> None:
    report = world(tmp_path)
    with pytest.raises(InputError, match="has no judgments of the compared queries"):
        compare(report, judge=judged(tmp_path, [{"query": "other", "doc": "a", "grade": 1}]))
    rows = [{"query": "q00", "doc": "a", "grade": 1, "parameters": {"seed": seed}} for seed in (0, 1)]
    with pytest.raises(JudgmentsError, match=r"2 judges: m \(prompt 0+, seed 0\), m \(prompt 0+, seed 1\)"):
        read_judgments(judged(tmp_path, rows))


def test_agreement_counts_the_texts_that_both_graded(tmp_path: Path) -> None:
    side = judge_side(input_of([world(tmp_path)]), read_judgments(judged(tmp_path)))
    made = present(compare_settings(side.inputs, ComparisonOptions(procedure=Procedure(flips=100), judge=side)).judge)
    agreement = made.agreement
    assert (agreement.n, agreement.grades) == (240, [0, 1])
    assert agreement.alike == sum(row[place] for place, row in enumerate(agreement.confusion))
    low, high = present(agreement.kappa_ci)
    assert low < present(agreement.kappa) < high


PROCEDURE = Procedure(flips=100)


def sides(folder: Path, file: Path, drawn: int = 30) -> JudgeSide:
    report = tagged(world(folder), QUERIES[:drawn], DRAWN_AT_RANDOM)
    return judge_side(input_of([report]), read_judgments(file))


def part_of(side: JudgeSide) -> tuple[Comparison, JudgePart]:
    made = compare_settings(side.inputs, ComparisonOptions(procedure=PROCEDURE, judge=side))
    return made, present(made.judge)


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


def test_people_needed_counts_degrees_of_freedom_by_cluster(tmp_path: Path) -> None:
    """Each question asked three times in a cluster: three times as many, but for people's part of the freedom."""
    side = sides(tmp_path, judged(tmp_path, right=0.9))
    sample = side.sample(side.inputs.scores(METRIC), side.inputs.pairs())
    people, judge = (np.repeat(values, 3, axis=1) for values in (sample.people, sample.judge))
    thrice = TwoPhaseSample(people, judge, np.repeat(np.arange(sample.people.shape[1]), 3))
    for margin in (0.2, 0.25, 0.3):
        once, often = (people_needed(infer_two_phase([one], PROCEDURE)[0], margin)[0] or 0 for one in (sample, thrice))
        assert 0 < 3 * once <= often <= 3.3 * once


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
    _, table = next(iter(judge_tables(judge)))
    assert table.cells[1][7] == f"{one.worth:,.0f}"
    assert [column.title for column in table.columns if column.is_text] == ["setting", "against", "labels"]
    needed = one.people_needed
    said = "people need to judge" in text
    assert said == (needed is not None and needed > judge.people)


def test_where_the_judge_finds_nothing_relevant_every_setting_has_0(tmp_path: Path) -> None:
    rows = [{"query": query, "doc": doc, "grade": 3 * (query != "q00")} for query in QUERIES for doc in "abcd"]
    side = sides(tmp_path, judged(tmp_path, rows))
    assert side.scores(METRIC).values[:, 0].tolist() == [0.0, 0.0]
    assert (side.scores(METRIC).values[:, 1:] == 1).all()


def test_drafts_that_nobody_reviewed_are_not_judged_by_people(tmp_path: Path) -> None:
    report = tagged(world(tmp_path), QUERIES[:20], NOT_REVIEWED)
    side = judge_side(input_of([report]), read_judgments(judged(tmp_path)))
    assert side.people.tolist() == [False] * 20 + [True] * 40


def test_grades_come_onto_peoples_scale() -> None:
    assert [[on_scale(grade, highest) for grade in range(4)] for highest in (0, 1, 2, 3, 5)] == [
        [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3],
    ]  # fmt: skip


def test_of_a_text_that_was_judged_twice_the_first_counts_and_costs_add_up(tmp_path: Path) -> None:
    rows = [{"query": "q00", "doc": "a", "grade": grade, "cost": 0.25} for grade in (2, 0)]
    found = read_judgments(judged(tmp_path, rows))
    assert found.grades == {"q00": {"a": 2}}
    assert found.cost == 0.5
    unknown = ModelJudgments(found.file, [*found.rows, found.rows[0].model_copy(update={"cost": None})])
    assert unknown.cost is None


def test_with_clusters_people_s_and_the_judge_s_sides_count_whole_clusters(tmp_path: Path) -> None:
    report, file = tagged(world(tmp_path), QUERIES[:30], DRAWN_AT_RANDOM), judged(tmp_path)
    alone = compare(report, judge=file)
    named = changed_queries(report, **{name: {"cluster": f"c{place // 2}"} for place, name in enumerate(QUERIES)})
    made = compare(named, judge=file)
    (part,), (before,) = made.comparisons, alone.comparisons
    assert (part.n, part.clusters, before.clusters) == (30, 15, None)
    assert (part.difference, part.ci != before.ci) == (before.difference, True)
    for own, other in zip(present(made.judge).bias, present(alone.judge).bias, strict=True):
        assert own.bias == pytest.approx(other.bias)
        assert own.ci != other.ci
    assert "on the judge's over 15 clusters of 30 questions, the largest of 2 (" in made.procedure.sentence
