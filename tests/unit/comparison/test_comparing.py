"""Comparisons of small contests, against scipy, by hand, and where the truth is known."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

import contests
from expectations import present
from hand_made import Values, contest_between, query_of
from ragtrial.comparison.comparing import (
    MOST_DESCRIBED,
    ComparisonOptions,
    close_comparisons,
    compare,
    compare_settings,
    primary_comparisons,
)
from ragtrial.comparison.comparison_input import Pair, input_of
from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart
from ragtrial.comparison.evidence import Evidence
from ragtrial.comparison.query_differences import query_differences
from ragtrial.comparison.slices import compare_slices
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.views.comparison_tables import descriptive_table

QUICK = Procedure(flips=999)


def compared(scores: dict[str, Values], baseline: str | None = None) -> Comparison:
    return compare_settings(contest_between(scores), ComparisonOptions(baseline, procedure=QUICK))


def shifted(*shifts: float, n: int = 40) -> dict[str, Values]:
    """Settings a, b, ... whose true means differ by ``shifts``, far more than chance does."""
    random = np.random.default_rng(5)
    base = random.uniform(0.3, 0.5, n)
    return {chr(97 + place): base + shift + random.normal(0, 0.02, n) for place, shift in enumerate(shifts)}


def only(comparison: Comparison) -> ComparisonPart:
    (part,) = comparison.comparisons
    return part


def test_a_comparison_worked_by_hand_and_its_sentence() -> None:
    part = only(compared({"old": [0.5, 0.5, 0.5, None], "new": [1.0, 0.25, 0.5, 1.0]}, "old"))
    assert (part.baseline, part.setting, part.n) == ("old", "new", 3)
    assert (part.wins, part.ties, part.losses) == (1, 1, 1)
    assert part.mean_baseline == pytest.approx(0.5)
    assert part.mean == pytest.approx(1.75 / 3)
    assert part.difference == pytest.approx(0.25 / 3)
    # differences 1/2, -1/4 and 0 have the mean 1/12 and the variance (25 + 16 + 1) / 144 / 2
    assert part.effect_size == pytest.approx((1 / 12) / np.sqrt(42 / 288))
    assert (part.ci, part.p, part.p_corrected, part.verdict) == (None, None, None, "too few differences")
    one, two, three = np.random.default_rng(1).random((3, 40))
    three[:15] = np.nan
    for part in compared({"one": one, "two": two, "three": three}).comparisons:
        assert part.n == (25 if "three" in (part.setting, part.baseline) else 40) == part.wins + part.ties + part.losses
        assert part.difference == pytest.approx(present(part.mean) - present(part.mean_baseline))
    assert compared(shifted(0, 0.1, 0.2)).procedure.sentence == (
        "Paired sign-flip test and balanced bootstrap-t (max-t, 999 flips, 999 resamples, seed 0); 95% "
        "intervals, simultaneous for 3 comparisons."
    )
    small = contest_between({"a": np.zeros(12), "b": np.linspace(0.1, 0.3, 12)})
    made = compare_settings(small, ComparisonOptions(procedure=Procedure(0.001, 5000, 1)))
    assert made.procedure.sentence.endswith("(max-t, all 4,096 flips, 5,000 resamples, seed 1); 99.9% intervals.")


def test_the_procedure_is_that_of_the_metric_that_decides() -> None:
    """By another metric, of which nothing is claimed, more questions may differ."""
    few, many = np.array([0.9] * 9 + [0.5] * 31), np.linspace(0.6, 0.9, 40)
    report = contests.report_of({"a": [0.5] * 40, "b": list(few)})
    report = contests.with_metric(report, "recall@3", {"a": [0.5] * 40, "b": list(many)})
    by_few, by_many = (compare(report, metric=name).procedure.sentence for name in ("ndcg@3", "recall@3"))
    assert by_few == "Too little data to compare by ndcg@3: no two settings differ on 10 or more questions."
    assert by_many.startswith("Paired sign-flip test")
    same = compare(contests.report_of({"a": [0.5] * 40, "b": [0.5] * 40}))
    assert same.procedure.sentence == "No two settings differ on any question: there is nothing to test."
    assert (same.selection, "(identical)" in str(same)) == (None, True)


@pytest.mark.parametrize("baseline", [None, "b"])
def test_the_comparisons_by_the_primary_metric_are_those_of_the_whole_comparison(baseline: str | None) -> None:
    inputs, options = contest_between(shifted(0.0, 0.1, 0.05)), ComparisonOptions(baseline, procedure=QUICK)
    whole = [part for part in compare_settings(inputs, options).comparisons if part.metric == inputs.primary]
    assert primary_comparisons(inputs, options) == whole


def test_what_rounding_keeps_apart_ties_and_questions_settle_with_power() -> None:
    sum_of_parts, queries = 0.1 + 0.2, [query_of(place, tags=["x"] if place < 6 else []) for place in range(12)]
    assert sum_of_parts > 0.3
    inputs = contest_between({"old": [0.3] * 12, "new": [sum_of_parts] * 11 + [0.6]}, queries)
    part = only(compare_settings(inputs, ComparisonOptions("old", procedure=QUICK)))
    assert (part.wins, part.ties, part.losses) == (1, 11, 0)
    assert part.sentence.startswith("only 1 of 12 questions differ")
    found = query_differences(inputs, Pair(0, 1))
    assert (found.won, found.tied, found.lost) == (1, 11, 0)
    tagged, untagged = compare_slices(inputs, [part], QUICK).comparisons
    assert (tagged.wins, tagged.ties, tagged.losses) == (0, 6, 0)
    assert (untagged.wins, untagged.ties, untagged.losses) == (1, 5, 0)
    random = np.random.default_rng(8)
    differences = random.normal(0.05, 0.25, 60)
    part = only(compared({"old": np.full(60, 0.4), "new": 0.4 + differences}))
    assert part.verdict == "inconclusive"
    drawn = random.choice(differences, (2000, present(part.queries_to_settle)))
    shown = stats.ttest_1samp(drawn, 0, axis=1).pvalue < 0.05
    assert shown.mean() == pytest.approx(0.8, abs=0.05)


def test_the_conclusion_is_the_tables_and_of_many_pairs_the_best_counts() -> None:
    """One rule: lists and table have the same comparisons, those with the top setting, or with the baseline."""
    scores = shifted(0, 0.3, 0.29, 0.2)
    scores["twin"] = scores["b"]
    for baseline in (None, "a", "c"):
        made = compared(scores, baseline)
        reference = baseline or "b"
        in_table = {part.setting: part.verdict for part in made.comparisons if part.baseline == reference}
        in_lists = {setting: verdict for verdict, names in made.conclusion.verdicts.items() for setting in names}
        assert in_lists == in_table
        assert len(in_table) == 4
    # 46 settings are 1,035 pairs: all of them by the metric that decides, 45 by the other.
    values = {f"s{number}": [(number * 7 + query * 5) % 11 / 10 for query in range(12)] for number in range(46)}
    both = contests.with_metric(contests.report_of(values), "rr@3", values)
    made = compare_settings(input_of([both]), ComparisonOptions(None, procedure=QUICK))
    rows = [part for part in made.comparisons if part.metric == "ndcg@3"]
    others = [part for part in made.comparisons if part.metric == "rr@3"]
    best = close_comparisons(made)[0].baseline
    assert len(rows) == MOST_DESCRIBED + 35
    assert [part.setting for part in others] == [part.setting for part in rows if part.baseline == best]
    assert {part.baseline for part in others} == {best}
    table = descriptive_table(made, ["rr@3"], rows)
    assert sum(row[-1] == "-" for row in table.rows) == len(rows) - len(others)


def test_pairs_with_the_best_are_close_and_ranked_by_size_or_baseline() -> None:
    scores = shifted(0.1, 0.4, 0.3, 0.0, 0.05, 0.15)
    scores["b"], scores["c"] = [0.9] * 28 + [0.5] * 12, [0.6] * 28 + [0.95] * 12
    close = close_comparisons(compared({**scores, "easy": [None] * 28 + [0.1] * 12}))
    assert {part.baseline for part in close} == {"c"}
    assert {part.setting for part in close} == {"a", "b", "d", "e", "f", "easy"}
    close = close_comparisons(compared({**shifted(0, 0.2), "none": np.full(40, np.nan)}), everything=True)
    assert [(part.baseline, part.setting) for part in close] == [("b", "a"), ("a", "none"), ("b", "none")]
    assert [part.difference is None for part in close] == [False, True, True]
    made, pairs = compared(shifted(0, 0.3, -0.2, 0.1)), list(combinations("bdac", 2))
    for everything, shown in ((True, pairs), (False, pairs[:3])):
        rows = close_comparisons(made, everything=everything)
        assert [(part.baseline, part.setting) for part in rows] == shown
    made = compared(shifted(0, 0.3, -0.2, 0.1, 0.2, 0.15, 0.05), baseline="d")
    assert [part.setting for part in close_comparisons(made)] == list("befgac")


def skewed(queries: int) -> dict[str, Values]:
    """A third of the queries gains much more than the others; the skewness of the differences is 1 / sqrt(2)."""
    return {"old": np.full(queries, 0.2), "new": 0.2 + np.tile([0.6, 0.1, 0.1], queries // 3)}


def test_claims_from_few_skewed_differences_are_told_and_nothing_else() -> None:
    (told,) = compared(skewed(12), "old").warnings  # 25 / 2 = 12.5
    assert told.code == "skewed-differences"
    assert told.message == (
        "a few questions make most of the difference, so these verdicts are less certain than stated: new against old "
        "(skewness +0.7: 12 questions, 13 needed). Look at these questions (--queries), or add others."
    )
    assert compared(skewed(15), "old").warnings == []
    assert only(compared(skewed(12), "old")).caution == "skewed"
    assert only(compared(skewed(15), "old")).caution == "few differences"
    assert compared({name: -np.asarray(values) for name, values in skewed(12).items()}, "old").warnings
    gains = np.array([0.9, 0.8, *[-0.1] * 18])
    made = compared({"old": np.full(20, 0.1), "new": 0.1 + gains}, "old")
    assert stats.skew(gains) ** 2 * 25 > 20
    assert only(made).verdict == "inconclusive"
    assert made.warnings == []


@pytest.mark.parametrize(("n", "differing", "skewness", "caution"), [
    (60, 60, 0.0, None), (60, 60, 1.5, None), (60, 60, 1.6, "skewed"), (60, 60, -1.6, "skewed"),
    (300, 16, 0.5, None), (300, 15, 0.5, "few differences"), (300, 10, 3.4, "few differences"),
    (300, 15, 3.5, "skewed"), (15, 15, 0.0, "few differences"),
])  # fmt: skip
def test_an_interval_has_its_caution(n: int, differing: int, skewness: float, caution: str | None) -> None:
    evidence = Evidence(n, differing, 0.1, 0.2, None, None, skewness=skewness)
    assert evidence.caution == caution
    assert replace(evidence, low=None, high=None).caution is None


@pytest.mark.parametrize(
    ("settings_", "queries", "baseline", "warned"),
    [(11, 60, None, True), (11, 61, None, False), (10, 60, None, False), (11, 60, "s0", False), (21, 30, None, True)],
)
def test_many_pairs_on_few_questions_are_told(settings_: int, queries: int, baseline: str | None, warned: bool) -> None:
    values = np.random.default_rng(0).random((settings_, queries))
    made = compared({f"s{row}": one for row, one in enumerate(values)}, baseline)
    messages = [one.message for one in made.warnings if one.code == "many-pairs"]
    assert bool(messages) == warned
    pairs = settings_ * (settings_ - 1) // 2
    assert not warned or messages[0].endswith(f"Compare with a baseline (--baseline NAME): {settings_ - 1} intervals, "
                                              f"not {pairs}.")  # fmt: skip
