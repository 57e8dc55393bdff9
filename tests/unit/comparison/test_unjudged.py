"""What the difference of two settings could be if somebody judged what they found: extremes over all gradings."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments import write_experiment
from joint import WITH_JOINT_BOUNDS, Case, all_labellings, differences, joined, metrics_of, pairs
from ragtrial.comparison.comparing import ComparisonOptions, compare_settings
from ragtrial.comparison.comparison_parts import Comparison, Verdict
from ragtrial.comparison.contest import contest_of
from ragtrial.comparison.unjudged import joint_ap, joint_bounds, joint_hits
from ragtrial.comparison.unjudged.joint_bounds import as_judged
from ragtrial.comparison.unjudged.sensitivity import UnjudgedPart, depends_on_unjudged, unjudged_parts
from ragtrial.evaluation.metrics import METRICS, Metric, parse_metric
from ragtrial.experiment import run_experiment
from ragtrial.report.model import Report
from ragtrial.views.sections.unjudged_view import unjudged_reasons, unjudged_table
from scenarios import OF_DOCUMENTS
from scored_runs import scored_report

PRECISIONS = ("ap", "capped_ap")


def bounds(metric: Metric | str, case: Case, threshold: int = 1) -> tuple[float, float]:
    made = parse_metric(metric) if isinstance(metric, str) else metric
    found = joint_bounds.joint_bounds(made, joined([case], threshold))
    return float(found.low[0]), float(found.high[0])


def case_of(first: str, second: str, **judged: int) -> Case:
    return first.split(), second.split(), judged


@pytest.mark.slow
@given(case=pairs(3), metrics=metrics_of(WITH_JOINT_BOUNDS), threshold=st.integers(1, 2))
@settings(max_examples=25)
def test_bounds_are_the_extremes_over_every_way_of_grading_the_open_hits(
    case: Case, metrics: list[Metric], threshold: int
) -> None:
    ways = all_labellings(case, max([0, *case[2].values()]))
    for metric in metrics:
        reached = differences(metric, case, ways, threshold)
        assert bounds(metric, case, threshold) == pytest.approx((reached.min(), reached.max()), abs=1e-10), metric


@given(case=pairs(4), metrics=metrics_of(("ndcg", *PRECISIONS)))
@settings(max_examples=12)
def test_bounds_that_are_told_apart_by_counts_alone_leave_no_grading_out(case: Case, metrics: list[Metric]) -> None:
    ways = all_labellings(case, max([0, *case[2].values()]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint_ap, "MOST_TRIED", -1)
        for metric in metrics:
            reached = differences(metric, case, ways)
            low, high = bounds(metric, case)
            assert low <= reached.min() + 1e-12, metric
            assert high >= reached.max() - 1e-12, metric


@given(cases=st.lists(pairs(4), min_size=1, max_size=6), metrics=metrics_of(WITH_JOINT_BOUNDS))
@settings(max_examples=12)
def test_queries_do_not_touch_each_other_however_they_are_cut_into_blocks(
    cases: list[Case], metrics: list[Metric]
) -> None:
    # The highest grade is that of all labels, so each has it.
    cases = [(one, other, {**judged, "top": 3}) for one, other, judged in cases]
    for metric in metrics:
        alone = np.array([bounds(metric, case) for case in cases])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(joint_hits, "BLOCK", 3)
            patch.setattr(joint_ap, "BLOCK", 3)
            found = joint_bounds.joint_bounds(metric, joined(cases))
        assert found.low == pytest.approx(alone[:, 0], abs=1e-12), metric
        assert found.high == pytest.approx(alone[:, 1], abs=1e-12), metric


@given(case=pairs(8), metrics=metrics_of(WITH_JOINT_BOUNDS))
@settings(max_examples=12)
def test_the_difference_as_labels_have_it_is_that_of_the_scores_and_within_its_bounds(
    case: Case, metrics: list[Metric]
) -> None:
    for metric in metrics:
        now = float(differences(metric, case, [case[2]])[0])
        low, high = bounds(metric, case)
        assert as_judged(metric, joined([case]))[0] == pytest.approx(now, abs=1e-12), metric
        assert low - 1e-12 <= now <= high + 1e-12, metric
        mirrored = bounds(metric, (case[1], case[0], case[2]))
        assert mirrored == pytest.approx((-high, -low), abs=1e-12), metric


@given(case=pairs(2, (0, 2, 7)), k=st.integers(1, 6), exponential=st.booleans())
@settings(max_examples=12)
def test_grades_that_no_label_has_bring_no_more_than_those_that_one_has(
    case: Case, k: int, *, exponential: bool
) -> None:
    metric = Metric("ndcg", k, (("gain", "exp"),) if exponential else ())
    reached = differences(metric, case, all_labellings(case, max([0, *case[2].values()])))
    assert bounds(metric, case) == pytest.approx((reached.min(), reached.max()), abs=1e-10)


@pytest.mark.parametrize(
    ("metric", "case", "expected"),
    [
        # x is open: in both lists at one rank it changes nothing, in one alone it may be relevant there.
        ("precision@2", case_of("a x", "b x", a=1, b=1), (0, 0)),
        ("precision@2", case_of("a", "b x", a=1, b=1), (0, 1 / 2)),
        ("hit_rate@1", case_of("x", "y", a=1), (-1, 1)),
        ("hit_rate@1", case_of("x", "x", a=1), (0, 0)),
        # In both it is one more to be found, and found, in both.
        ("recall@1", case_of("x", "x", a=1), (0, 0)),
        ("f1@1", case_of("x", "x y", a=1), (0, 0)),
        ("rr@3", case_of("n a x", "x n a", a=1, n=0), (1 / 3 - 1 / 2, 1 - 1 / 2)),
        ("rbp(p=0.5)@2", case_of("x a", "a x", a=1), (0, 1 / 4)),
        # R is 1, and 2 once x is relevant, which the first has and the second has not.
        ("recall@2", case_of("x", "a", a=1), (0, 1)),
        # Below the cutoff, in both: R alone.
        ("recall@1", case_of("n x", "a x", a=1, n=0), (1 / 2, 1)),
        ("dcg@1", case_of("x", "a", a=3), (0, 3)),
        ("dcg@1", case_of("x", "a", a=3, b=5), (3 - 5, 3)),
        # x as good as a: (1 + 1 / log2(3)) / ideal of two, less 1; and as it is, 1 / log2(3) less 1 for the second.
        ("ndcg@2", case_of("a x", "x a", a=1), (1 / np.log2(3) - 1, 0)),
        ("ap@2", case_of("a x", "x a", a=1), (-1 / 2, 0)),
    ],
)
def test_bounds_worked_by_hand(metric: str, case: Case, expected: tuple[float, float]) -> None:
    assert bounds(metric, case) == pytest.approx(expected, abs=1e-12)


def test_where_no_grade_of_the_labels_is_relevant_none_can_become_so() -> None:
    case = case_of("x", "a y", a=1)
    assert bounds("precision(rel=3)@2", case) == (0, 0)
    assert bounds("precision@2", case, threshold=2) == (0, 0)


def test_every_metric_has_bounds_or_a_reason_why_not() -> None:
    """A new metric: name the structure of its value, or say in ``unbounded`` why it has no bounds."""
    for name in set(OF_DOCUMENTS) - set(WITH_JOINT_BOUNDS):
        metric = Metric(name, None if METRICS[name].cut == "none" else 2)
        with pytest.raises(ValueError, match=r"\.$"):
            joint_bounds.joint_bounds(metric, joined([case_of("a", "b", a=1)]))


def test_a_metric_that_drops_unjudged_hits_has_no_bounds() -> None:
    assert joint_bounds.why_unbounded(parse_metric("ap(judged_only=true)@2")) == (
        "judged_only drops the unjudged hits; what they would score can be said of the metric without it."
    )


def compared(report: Report, metric: str) -> tuple[Comparison, list[UnjudgedPart]]:
    contest = contest_of([report], [metric])
    made = compare_settings(contest, ComparisonOptions(report.settings[0].name))
    return made, unjudged_parts(contest, made.comparisons, margin=0.02)


LABELS = {f"q{number}": {"a": 2, "b": 1, "n": 0} for number in range(12)}
RUNS = {
    "plain": dict.fromkeys(LABELS, "n x a"),
    "better": dict.fromkeys(LABELS, "a b y"),
    "odd": {query: "a b" if number < 11 else "z" for number, query in enumerate(LABELS)},
}


def test_the_mean_of_a_report_has_the_means_of_its_queries_bounds(tmp_path: Path) -> None:
    report = scored_report(tmp_path, LABELS, RUNS, "--metrics", "ndcg@2,ap@3,recall@1,err(max=2)@2")
    for metric in ("ndcg@2", "ap@3", "recall@1"):
        _, (better, odd) = compared(report, metric)
        one = bounds(metric, case_of("n x a", "a b y", a=2, b=1, n=0))
        other = bounds(metric, case_of("n x a", "a b", a=2, b=1, n=0))
        last = bounds(metric, case_of("n x a", "z", a=2, b=1, n=0))
        assert (better.low, better.high) == pytest.approx(one, abs=1e-12)
        mean = [(11 * end + its_last) / 12 for end, its_last in zip(other, last, strict=True)]
        assert (odd.low, odd.high) == pytest.approx(mean, abs=1e-12)
        assert (better.n, better.highest_grade, better.is_exact, better.inexact_queries) == (12, 2, True, 0)
    _, (better, odd) = compared(report, "ap@3")
    assert (better.unjudged, better.queries_with_unjudged) == (24, 12)
    assert (odd.unjudged, odd.queries_with_unjudged) == (13, 12)
    _, (better, _) = compared(report, "recall@1")
    assert better.unjudged == 0
    _, parts = compared(report, "err(max=2)@2")
    assert [part.low for part in parts] == [None, None]
    assert unjudged_reasons(parts) == [
        "err(max=2)@2: what unjudged hits could change is not known: no way to its extremes is known here but to try "
        "all grades."
    ]


def test_hits_below_those_that_report_json_shows_count(tmp_path: Path) -> None:
    long = " ".join(f"m{number}" for number in range(24))
    judged = {"a": 1, **{f"m{number}": 0 for number in range(24)}}
    report = scored_report(
        tmp_path, {"q": judged}, {"one": {"q": "m0"}, "two": {"q": f"a {long} x"}}, "--metrics", "ap"
    )
    _, (part,) = compared(report, "ap")
    # x at rank 26: AP may be (1 + 2 / 26) / 2.
    assert (part.low, part.high) == pytest.approx(((1 + 2 / 26) / 2, 1), abs=1e-12)


@pytest.mark.parametrize(
    ("verdict", "low", "high", "expected"),
    [
        ("better", 0.01, 0.2, False),
        ("better", 0.0, 0.2, True),
        ("better", -0.1, 0.2, True),
        ("worse", -0.2, -0.01, False),
        ("worse", -0.2, 0.0, True),
        ("worse within the margin", -0.01, -0.001, False),
        ("worse within the margin", -0.03, -0.001, True),
        ("worse within the margin", -0.01, 0.001, True),
        ("no worse", -0.01, 0.5, False),
        ("no worse", -0.02, 0.5, True),
        ("cannot tell", -1.0, 1.0, None),
        ("identical", -1.0, 1.0, None),
        ("too few differences", -1.0, 1.0, None),
        (None, -1.0, 1.0, None),
    ],
)
def test_a_verdict_hangs_on_what_could_undo_it(
    verdict: Verdict | None,
    low: float,
    high: float,
    expected: bool | None,
) -> None:
    assert depends_on_unjudged(verdict, low, high, 0.02) is expected


def test_a_verdict_that_other_grades_could_undo_says_so_in_words_and_in_the_table(tmp_path: Path) -> None:
    labels = {f"q{number}": {"a": 1} for number in range(12)}
    runs = {"old": dict.fromkeys(labels, "x y"), "new": dict.fromkeys(labels, "a")}
    made, (part,) = compared(scored_report(tmp_path, labels, runs, "--metrics", "hit_rate@2,recall@1"), "hit_rate@2")
    assert made.comparisons[0].verdict == "better"
    assert (part.low, part.high, part.hangs_on_unjudged) == (0, 1, True)
    assert part.sentence == (
        "24 hits nobody judged: with other grades the difference could be from +0.0000 to +1.0000; the verdict hangs "
        "on them"
    )
    assert unjudged_table([part]).cells[1] == ["new", "old", "+0.0000", "+1.0000", "+1.0000", "24", "hangs on them"]


def test_where_all_is_judged_there_is_one_difference(tmp_path: Path) -> None:
    runs = {"one": {"q": "a n"}, "two": {"q": "n a"}}
    _, (part,) = compared(scored_report(tmp_path, {"q": {"a": 2, "n": 0}}, runs, "--metrics", "ndcg@2"), "ndcg@2")
    assert part.low == part.high == part.difference
    assert part.sentence == "every hit that counts is judged"


def test_grades_below_0_are_open_where_trec_eval_takes_them_for_not_judged(tmp_path: Path) -> None:
    labels = {"q": {"a": 1, "p": -1}}
    runs = {"one": {"q": "a"}, "two": {"q": "p a"}}
    _, (part,) = compared(scored_report(tmp_path / "plain", labels, runs, "--metrics", "rr@2"), "rr@2")
    assert part.high == -0.5
    report = scored_report(tmp_path / "trec", labels, runs, "--metrics", "rr@2", "--trec-compat")
    _, (part,) = compared(report, "rr@2")
    assert part.high == 0


def changed(report: Report, name: str, row: dict[str, object]) -> None:
    with gzip.open(report.folder / "rankings" / f"{name}.jsonl.gz", "wt") as file:
        file.write(json.dumps(row) + "\n")


def test_rankings_that_do_not_give_the_scores_are_told_and_no_range_is_made_up(tmp_path: Path) -> None:
    runs = {"one": {"q": "a"}, "two": {"q": "n a"}}
    report = scored_report(tmp_path, {"q": {"a": 1, "n": 0}}, runs, "--metrics", "rr@2")
    changed(report, "two", {"query": "q", "docs": ["a"]})
    _, (part,) = compared(report, "rr@2")
    assert part.low is part.high is part.hangs_on_unjudged is None
    assert part.why_not_known == (
        "the rankings and labels that the report keeps do not give its scores (1 queries differ); it was changed, or "
        "scored in another way."
    )
    changed(report, "two", {"query": "other", "docs": ["a"]})
    _, (part,) = compared(report, "rr@2")
    assert (part.why_not_known or "").endswith("is damaged: it lacks what report.json names.")
    (report.folder / "rankings" / "two.jsonl.gz").unlink()
    _, (part,) = compared(report, "rr@2")
    assert (part.why_not_known or "").startswith("the rankings that the report keeps cannot be read: ")


def test_of_chunks_precision_has_bounds_and_other_metrics_a_reason(tmp_path: Path) -> None:
    queries = [
        {"id": "rye", "text": "How long do I bake rye bread?",
         "relevant_docs": [{"doc": "bread/rye.md", "quote": "Bake it for an hour"}]},
        {"id": "keep", "text": "How long does soup keep?",
         "relevant_docs": [{"doc": "storage.txt", "quote": "Soup keeps for three days"}]},
    ]  # fmt: skip
    experiment = write_experiment(
        tmp_path,
        queries=queries,
        retrievers={"dense": {"kind": "dense", "top_k": 3}, "words": {"kind": "bm25", "top_k": 3}},
        evaluators={"unit": "span", "primary_metric": "precision@3", "order_unaware": {"k": [3]}, "graded": {"k": [3]}},
    )
    report = run_experiment(experiment.config())
    _, (part,) = compared(report, "precision@3")
    edges = [0, 0]
    for one, other in zip(*(setting.queries for setting in report.settings), strict=True):
        places = [{hit.chunk for hit in side.hits if hit.grade is None} for side in (one, other)]
        edges[0] += len(places[0] - places[1])
        edges[1] += len(places[1] - places[0])
    assert part.difference is not None
    expected = part.difference - edges[0] / 6, part.difference + edges[1] / 6
    assert part.baseline == "dense"
    assert (part.low, part.high) == pytest.approx(expected)
    assert not part.is_exact
    assert unjudged_table([part]).cells[1][2].startswith(">= ")
    _, (part,) = compared(report, "ndcg@3")
    assert part.why_not_known == (
        "a relevant passage that nobody labelled may lie anywhere in a chunk, and in several at once."
    )
