"""A judge beside people: whose queries count, what is refused or warned of, and what is said of its worth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from contests import changed_queries
from judged_world import METRIC, QUERIES, judged, tagged, world
from ragtrial import compare
from ragtrial.comparison.comparing import ComparisonOptions, compare_settings
from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.judge import judge_side
from ragtrial.comparison.judgments import JudgmentsError, on_scale, read_judgments
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.errors import ComparisonError, InputError
from ragtrial.records import CHOSEN_BY_STAKES, DRAWN_AT_RANDOM
from scored_runs import scored_report


def test_people_draw_30_the_judge_has_60_and_both_make_the_interval(tmp_path: Path) -> None:
    report = tagged(world(tmp_path), QUERIES[:30], DRAWN_AT_RANDOM)
    made = compare(report, judge=judged(tmp_path))
    (part,) = made.comparisons
    assert (part.n, made.judge and made.judge.people, made.judge and made.judge.judged) == (30, 30, 60)
    alone = compare_settings(input_of([report]), ComparisonOptions())
    assert part.ci is not None
    assert made.judge is not None
    assert made.judge.drawn_at_random
    assert made.judge.comparisons[0].basis == "both"
    assert alone.comparisons[0].n == 60
    assert [warning.code for warning in made.warnings] == ["not-drawn-at-random"]  # the other 30 have labels, too


def test_the_judges_scores_are_the_ordinary_ones_by_its_grades(tmp_path: Path) -> None:
    report = world(tmp_path / "people")
    file = judged(tmp_path)
    side = judge_side(input_of([report]), read_judgments(file))
    labels = {query: {doc: on_scale(grade or 0, 1) for doc, grade in own.items() if isinstance(doc, str)}
              for query, own in read_judgments(file).grades.items()}  # fmt: skip
    runs = {name: {query: " ".join(map(str, found)) for query, found in
                   zip(QUERIES, side.rankings.found(place), strict=True)}
            for place, name in enumerate(side.inputs.names)}  # fmt: skip
    expected = input_of([scored_report(tmp_path / "judge", labels, runs, "--metrics", METRIC)]).scores(METRIC).values
    assert side.scores(METRIC).values == pytest.approx(np.nan_to_num(expected), abs=1e-12)


def test_without_peoples_labels_there_is_no_verdict(tmp_path: Path) -> None:
    report = world(tmp_path)
    bare = changed_queries(report, **{name: {"relevant_docs": []} for name in QUERIES})
    made = compare(bare, judge=judged(tmp_path))
    (part,) = made.comparisons
    assert (part.ci, part.p, part.difference, part.verdict) == (None, None, None, "too few differences")
    assert made.judge is not None
    assert made.judge.comparisons[0].judge_difference is not None
    assert made.judge.sentences[0] == "No verdict: people judged no question. The judge, m, judged 60."
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


def test_queries_of_nobody_knows_where_and_few_of_them_are_warned_of(tmp_path: Path) -> None:
    report = world(tmp_path)
    few = changed_queries(report, **{name: {"relevant_docs": []} for name in QUERIES[12:]})
    codes = [warning.code for warning in compare(few, judge=judged(tmp_path)).warnings]
    assert codes == ["not-drawn-at-random", "few-people"]


def test_a_model_that_works_inside_of_a_setting_is_warned_of(tmp_path: Path) -> None:
    report = world(tmp_path)
    first, *rest = report.settings
    inside = first.model_copy(update={"parameters": {"rerank": [{"model": "m"}]}})
    made = compare(report.model_copy(update={"settings": [inside, *rest]}), judge=judged(tmp_path))
    assert "judge-in-pipeline" in [warning.code for warning in made.warnings]


def test_a_query_of_which_the_judge_lacks_a_text_is_not_judged(tmp_path: Path) -> None:
    report = world(tmp_path)
    rows = [{"query": query, "doc": doc, "grade": 0} for query in QUERIES for doc in "abcd"]
    side = judge_side(input_of([report]), read_judgments(judged(tmp_path, rows[:-4])))
    assert side.covered.tolist() == [True] * 59 + [False]


def test_a_reply_without_a_grade_is_no_judgment_and_no_0(tmp_path: Path) -> None:
    report = world(tmp_path)
    rows = [{"query": query, "doc": doc, "grade": None if doc == "b" else 3} for query in QUERIES for doc in "abcd"]
    side = judge_side(input_of([report]), read_judgments(judged(tmp_path, rows)))
    assert side.covered.all()
    assert all(theirs is not None for theirs in side.pairs_of_grades())
    assert side.rankings.grade(0, "b") is None
    assert side.judgments.unparsable == 60


def test_two_judges_in_a_file_are_refused(tmp_path: Path) -> None:
    rows = [{"query": "q00", "doc": "a", "grade": 1}, {"query": "q01", "doc": "a", "grade": 1, "prompt": "1" * 16}]
    with pytest.raises(JudgmentsError, match=r"has judgments of 2 judges: m \(prompt 0+\), m \(prompt 1+\)"):
        read_judgments(judged(tmp_path, rows))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[]", "judgments.jsonl:1: is not a JSON object"),
        ('{"query": "q", "doc": "d", "grade": 4, "model": "m", "prompt": "p"}', "judgments.jsonl:1: grade is 4"),
        ("", "has no judgments. Make some: ragtrial judge"),
    ],
)
def test_faults_of_a_file_name_their_line(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "judgments.jsonl"
    file.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(JudgmentsError) as caught:
        read_judgments(file)
    assert said in str(caught.value)


def test_judgments_of_another_report_and_other_procedures_are_refused(tmp_path: Path) -> None:
    report = world(tmp_path)
    with pytest.raises(InputError, match="has no judgments of the compared queries"):
        compare(report, judge=judged(tmp_path, [{"query": "other", "doc": "a", "grade": 1}]))
    with pytest.raises(ComparisonError, match="--judge has a procedure of its own; leave out --procedure t-holm"):
        compare(report, judge=judged(tmp_path), procedure="t-holm")


def test_grades_come_onto_peoples_scale() -> None:
    assert [[on_scale(grade, highest) for grade in range(4)] for highest in (0, 1, 2, 3, 5)] == [
        [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3],
    ]  # fmt: skip


def test_the_worth_of_a_perfect_judge_is_not_believed(tmp_path: Path) -> None:
    report = tagged(world(tmp_path), QUERIES[:30], DRAWN_AT_RANDOM)
    made = compare(report, judge=judged(tmp_path, right=1.0))
    assert made.judge is not None
    assert made.judge.comparisons[0].basis == "too few errors"
    assert any(line.startswith("Based on people's labels alone: all comparisons") for line in made.judge.sentences)


def test_agreement_counts_the_texts_that_both_graded(tmp_path: Path) -> None:
    side = judge_side(input_of([world(tmp_path)]), read_judgments(judged(tmp_path)))
    made = compare_settings(side.inputs, ComparisonOptions(procedure=Procedure(flips=100), judge=side)).judge
    assert made is not None
    agreement = made.agreement
    assert (agreement.n, agreement.grades) == (240, [0, 1])
    assert agreement.alike == sum(row[place] for place, row in enumerate(agreement.confusion))
    assert agreement.kappa is not None
    assert agreement.kappa_ci is not None
    assert agreement.kappa_ci[0] < agreement.kappa < agreement.kappa_ci[1]
