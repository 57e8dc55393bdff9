"""What the difference of two settings would be if somebody judged what they found: two extreme gradings."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from experiments import write_experiment
from ragtrial.comparison.comparing import ComparisonOptions, compare_settings
from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.comparison_parts import Comparison, Verdict
from ragtrial.comparison.judged_rankings import UnjudgedPart, could_be_undone, unjudged_parts
from ragtrial.errors import DamagedReportError
from ragtrial.experiment import run_experiment
from ragtrial.report.model import OTHER_QUERIES, Report, write_rows
from ragtrial.views.sections.details import UnjudgedView, unjudged_table
from report_hits import hits_of
from scored_runs import scored_report


def compared(report: Report, metric: str) -> tuple[Comparison, list[UnjudgedPart]]:
    inputs = input_of([report], [metric])
    made = compare_settings(inputs, ComparisonOptions(report.settings[0].name))
    return made, unjudged_parts(inputs, made.comparisons, margin=0.02)


def part_of(folder: Path, judged: Mapping[str, int], old: str, new: str, metric: str) -> UnjudgedPart:
    """One query, two rankings."""
    report = scored_report(folder, {"q": judged}, {"old": {"q": old}, "new": {"q": new}}, "--metrics", metric)
    return compared(report, metric)[1][0]


@pytest.mark.parametrize(("metric", "old", "new", "judged", "low", "high"), [
    ("rbp(p=0.5)@2", "x a", "a x", {"a": 1}, 0, 1 / 4),
    # R is 1, and 2 once x is relevant.
    ("recall@2", "x", "a", {"a": 1}, 0, 1),
    # Below the cutoff of both: not graded.
    ("recall@1", "n x", "a x", {"a": 1, "n": 0}, 1, 1),
    # The highest grade of the labels.
    ("dcg@1", "x", "a", {"a": 3, "b": 5}, 3 - 5, 3),
    # Those that favour the other setting are judged, and not relevant.
    ("bpref", "x a", "y a", {"a": 1}, -1, 1),
])  # fmt: skip
def test_the_hits_that_favour_one_of_the_two_are_relevant_and_no_others(
    tmp_path: Path, metric: str, old: str, new: str, judged: dict[str, int], low: float, high: float
) -> None:
    part = part_of(tmp_path, judged, old, new, metric)
    assert (part.low, part.high) == pytest.approx((low, high), abs=1e-12)


NAMES = list("abcdefgh")


@given(
    old=st.permutations(NAMES), new=st.permutations(NAMES), deep=st.integers(1, 8),
    judged=st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3), min_size=1, max_size=4),
    metric=st.sampled_from(["ndcg@5", "ap@4", "precision@3", "err(max=3)@5", "rr@8", "r_precision", "infap"]),
)  # fmt: skip
@settings(max_examples=15)
def test_both_ends_are_the_ordinary_scores_by_those_labels(
    tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str], deep: int, judged: dict[str, int],
    metric: str,
) -> None:  # fmt: skip
    judged = {**judged, "elsewhere": 2}
    old, new = old[:deep], new[:5]
    k = int(metric.partition("@")[2] or 8)
    rankings = {"old": old, "new": new}
    runs = {name: {"q": " ".join(ranking)} for name, ranking in rankings.items()}
    part = part_of(tmp_path_factory.mktemp("report"), judged, runs["old"]["q"], runs["new"]["q"], metric)
    for end, own, other in ((part.low, old, new), (part.high, new, old)):
        ranks = [{one: rank for rank, one in enumerate(ranking[:k])} for ranking in (own, other)]
        favoured = {one for one in ranks[0] if ranks[0][one] < ranks[1].get(one, 99)}
        graded = {one: max(judged.values()) if one in favoured else 0 for one in {**ranks[0], **ranks[1]}}
        labels = {"q": {**graded, **judged}}
        report = scored_report(tmp_path_factory.mktemp("scenario"), labels, runs, "--metrics", metric)
        means = {setting.name: setting.scores[metric].mean or 0.0 for setting in report.settings}
        assert end == pytest.approx(means["new"] - means["old"], abs=1e-9)


def test_hits_below_those_that_report_json_shows_count(tmp_path: Path) -> None:
    long = " ".join(f"m{number}" for number in range(24))
    judged = {"a": 1, **{f"m{number}": 0 for number in range(24)}}
    part = part_of(tmp_path, judged, "m0", f"a {long} x", "ap")
    assert (part.low, part.high) == pytest.approx((1, (1 + 2 / 26) / 2), abs=1e-12)  # x at rank 26


@pytest.mark.parametrize(("verdict", "low", "high", "expected"), [
    ("better", 0.01, 0.2, False), ("better", 0.0, 0.2, True), ("better", -0.1, 0.2, True),
    ("worse", -0.2, -0.01, False), ("worse", -0.2, 0.0, True), ("worse within the margin", -0.01, -0.001, False),
    ("worse within the margin", -0.03, -0.001, True), ("worse within the margin", -0.01, 0.001, True),
    ("no worse", -0.01, 0.5, False), ("no worse", -0.02, 0.5, True), ("inconclusive", -1.0, 1.0, None),
    ("identical", -1.0, 1.0, None), ("too few differences", -1.0, 1.0, None), (None, -1.0, 1.0, None),
])  # fmt: skip
def test_a_verdict_depends_on_hits(verdict: Verdict | None, low: float, high: float, expected: bool | None) -> None:
    assert could_be_undone(verdict, low, high, 0.02) is expected


def test_a_verdict_that_other_grades_could_undo_says_so_in_words_and_in_the_table(tmp_path: Path) -> None:
    labels = {f"q{number}": {"a": 1} for number in range(12)}
    runs = {"old": dict.fromkeys(labels, "x y"), "new": dict.fromkeys(labels, "a")}
    made, (part,) = compared(scored_report(tmp_path, labels, runs, "--metrics", "hit_rate@2,recall@1"), "hit_rate@2")
    assert made.comparisons[0].verdict == "better"
    assert (part.low, part.high, part.depends_on_unjudged) == (0, 1, True)
    assert unjudged_table([part]).cells[1] == ["new", "old", "0.000", "+1.000", "+1.000", "24", "depends"]


def test_grades_below_0_are_open_where_trec_eval_takes_them_for_not_judged(tmp_path: Path) -> None:
    labels = {"q": {"a": 1, "p": -1}}
    runs = {"one": {"q": "a"}, "two": {"q": "p a"}}
    _, (part,) = compared(scored_report(tmp_path / "plain", labels, runs, "--metrics", "rr@2"), "rr@2")
    assert part.high == -0.5
    report = scored_report(tmp_path / "trec", labels, runs, "--metrics", "rr@2", "--trec-compat")
    _, (part,) = compared(report, "rr@2")
    assert part.high == 0


def changed(report: Report, name: str, row: dict[str, object]) -> None:
    write_rows(report.folder / "rankings" / f"{name}.jsonl.gz", [row])


def test_rankings_that_do_not_give_the_scores_are_told_and_no_range_is_made_up(tmp_path: Path) -> None:
    runs = {"one": {"q": "a"}, "two": {"q": "n a"}}
    report = scored_report(tmp_path, {"q": {"a": 1, "n": 0}}, runs, "--metrics", "rr@2")
    changed(report, "two", {"query": "q", "docs": ["a"]})
    with pytest.raises(DamagedReportError, match=r"two\.jsonl\.gz: has other bytes than were written"):
        compared(report, "rr@2")
    report = report.model_copy(update={"files": {}})  # as it was before files had checksums
    changed(report, "two", {"query": "q", "docs": ["a"]})
    _, (part,) = compared(report, "rr@2")
    assert part.low is part.high is part.depends_on_unjudged is part.unjudged is None
    assert list(UnjudgedView().blocks([part], 80, everything=False))[1:] == [
        "rr@2: what unjudged hits could change is not known: the rankings and labels that the report keeps do not give "
        "its scores (queries that differ: 1); it was changed, or scored in another way. Run it again."
    ]
    changed(report, "two", {"query": "other", "docs": ["a"]})
    _, (part,) = compared(report, "rr@2")
    assert (part.why_not_known or "").endswith(OTHER_QUERIES)
    (report.folder / "rankings" / "two.jsonl.gz").unlink()
    _, (part,) = compared(report, "rr@2")
    assert (part.why_not_known or "").endswith("cannot be read: No such file or directory.")


def test_a_chunk_that_nobody_judged_is_a_passage_of_its_own(tmp_path: Path) -> None:
    queries = [
        {"id": "rye", "text": "How long do I bake rye bread?",
         "relevant_docs": [{"doc": "bread/rye.md", "quote": "Bake it for an hour"}]},
        {"id": "keep", "text": "How long does soup keep?",
         "relevant_docs": [{"doc": "storage.txt", "quote": "Soup keeps for three days"}]},
    ]  # fmt: skip
    evaluators = {"unit": "span", "primary_metric": "precision@3", "order_unaware": {"k": [3]}, "graded": {"k": [3]}}
    retrievers = {"dense": {"kind": "dense", "top_k": 3}, "words": {"kind": "bm25", "top_k": 3}}
    report = run_experiment(
        write_experiment(tmp_path / "quoted", queries=queries, retrievers=retrievers, evaluators=evaluators).config()
    )
    _, (part,) = compared(report, "precision@3")
    higher = [0, 0]
    for sides in zip(*(hits_of(report, setting.name).values() for setting in report.settings), strict=True):
        ranks = [{hit.chunk: hit.rank for hit in side if hit.grade is None} for side in sides]
        for own, other in ((0, 1), (1, 0)):
            favoured = [chunk for chunk, rank in ranks[own].items() if rank < ranks[other].get(chunk, 99)]
            shared = [chunk for chunk in favoured if chunk in ranks[other]]
            higher[own] += len(favoured) - len(shared)
    assert part.difference is not None
    assert (part.low, part.high) == pytest.approx((part.difference - higher[0] / 6, part.difference + higher[1] / 6))
    _, (part,) = compared(report, "ndcg@3")
    assert part.low is not None
    del queries[0]["relevant_docs"][0]["quote"]  # type: ignore[attr-defined]
    report = run_experiment(
        write_experiment(tmp_path / "whole", queries=queries, retrievers=retrievers, evaluators=evaluators).config()
    )
    _, (part,) = compared(report, "precision@3")
    assert part.low is not None
    before = report.model_copy(update={"dataset": report.dataset.model_copy(update={"judged_whole": {}})})
    _, (part,) = compared(before, "precision@3")
    assert part.why_not_known == (
        "labels without a quote are of whole documents, and a report that was written before has not kept their "
        f"lengths. Write it again: ragtrial rescore {report.folder}"
    )
