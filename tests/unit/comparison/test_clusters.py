"""Questions that belong together count once: which ones do, and every number about them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

from contests import report_of as plain_report
from experiments import QUERIES, write_experiment
from gate_scenarios import METRICS
from hand_made import Values, contest_between, query_of, report_of, setting_of
from ragtrial.comparison.across import compare_across
from ragtrial.comparison.comparing import ComparisonOptions, compare_settings
from ragtrial.comparison.comparison_input import ComparisonInput, input_of
from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart
from ragtrial.comparison.gates import GateEvidence, Subject, judge_gates, parse_gates
from ragtrial.comparison.selection import select_winner
from ragtrial.comparison.slices import compare_slices
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.evaluation.clusters import clusters_of, linearised
from ragtrial.experiment import run_experiment
from ragtrial.report.model import Report, load_report, write_folder
from ragtrial.scoring.rescore import rescore
from ragtrial.views.comparison_tables import comparison_text

QUICK = Procedure(flips=999)


def judged(*docs: str, grade: int = 1) -> list[dict[str, Any]]:
    return [{"doc": doc, "relevance": grade} for doc in docs]


@pytest.mark.parametrize(("queries", "by_document", "expected"), [
    ([("x", "a"), ("x", "b"), (None, "a"), ("y", "c")], False, [0, 0, 1, 2]),
    ([("x", "a"), ("x", "b"), (None, "a"), ("y", "c")], True, [0, 0, 0, 1]),  # by name, and by document a
    ([(None, "a"), (None, "b"), (None, "ab"), (None, "c")], True, [0, 0, 0, 1]),  # by another question
    ([(None, "c"), (None, "a"), (None, "b"), (None, "ab")], True, [0, 1, 1, 1]),
    ([(None, "a"), (None, "a")], False, None),
    ([("x", "a"), ("y", "b"), (None, ""), (None, "")], True, None),  # without a document, alone
    ([], True, None),
])  # fmt: skip
def test_queries_belong_together_by_name_and_by_relevant_documents(
    queries: Sequence[tuple[str | None, str]], by_document: bool, expected: list[int] | None
) -> None:
    parts = [query_of(place, relevant=judged(*docs), cluster=name) for place, (name, docs) in enumerate(queries)]
    found = clusters_of(parts, by_document=by_document)
    assert (None if found is None else found.tolist()) == expected


def test_documents_above_the_threshold_join_queries_in_all_reports() -> None:
    parts = [query_of(place, relevant=judged("a", grade=1)) for place in range(3)]
    assert clusters_of(parts, by_document=True, threshold=2) is None
    assert clusters_of(parts, by_document=True, threshold=1) is not None

    def report(run: str, names: Sequence[str | None]) -> Report:
        queries = [query_of(place, f"text {place}", cluster=name) for place, name in enumerate(names)]
        return report_of([setting_of(run, [0.5] * len(names))], queries, run_id=run)

    without, first, other = report("r1", [None] * 4), report("r2", list("aabb")), report("r3", list("abab"))
    for reports, told in (([without, first], 0), ([first, without], 0), ([without, first, other], 1)):
        inputs = input_of(reports)
        assert [query.cluster for query in inputs.queries] == list("aabb")
        assert [warning.code for warning in inputs.warnings].count("other-clusters") == told


@pytest.mark.parametrize("seed", range(3))
def test_values_of_clusters_have_the_means_and_the_cluster_robust_errors_of_statsmodels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    clusters = rng.integers(0, 14, 60)
    values = rng.standard_normal((3, 60)) + rng.standard_normal((3, 14))[:, clusters]
    values[1, :4] = np.nan
    found, known = linearised(values, clusters), np.arange(60) >= 4
    for row, own in zip(found, values[:, known], strict=True):
        fit = sm.OLS(own, np.ones(56)).fit(cov_type="cluster", cov_kwds={"groups": clusters[known]})
        assert row.mean() == pytest.approx(own.mean(), abs=1e-12)
        assert row.std(ddof=1) / np.sqrt(len(row)) == pytest.approx(fit.bse[0], rel=1e-9)
    np.testing.assert_array_equal(linearised(values[:1], np.arange(60)), values[:1])


def compared(inputs: ComparisonInput, baseline: str | None = None, **options: Any) -> Comparison:
    return compare_settings(inputs, ComparisonOptions(baseline, procedure=QUICK, **options))


def repeated(scores: dict[str, Values], times: int, tags: Sequence[str] = ()) -> ComparisonInput:
    """Each question ``times`` times, in a cluster of its own."""
    count = len(next(iter(scores.values())))
    queries = [
        query_of(place, tags=tags[place // times : place // times + 1], cluster=f"c{place // times}")
        for place in range(count * times)
    ]
    return contest_between({name: np.repeat(np.asarray(own), times) for name, own in scores.items()}, queries)


def scores_of(count: int, *gains: float, seed: int = 0) -> dict[str, Values]:
    rng = np.random.default_rng(seed)
    base = rng.random(count)
    return {"old": base, **{f"new{place}": base + rng.normal(gain, 0.1, count) for place, gain in enumerate(gains)}}


@pytest.mark.parametrize("count", [12, 30])
def test_a_question_asked_several_times_in_a_cluster_counts_once_everywhere(count: int) -> None:
    scores, tags = scores_of(count, 0.02, 0.1), (["x"] * 14 + ["y"] * 16)[:count]
    queries = [query_of(place, tags=[tag]) for place, tag in enumerate(tags)]
    once, often = contest_between(scores, queries), repeated(scores, 4, tags)
    for left, right in zip(compared(once).comparisons, compared(often).comparisons, strict=True):
        for name in ("difference", "ci", "p", "p_corrected", "skewness", "detectable", "mean"):
            assert getattr(right, name) == pytest.approx(getattr(left, name), rel=1e-6), name
        assert (right.verdict, right.caution) == (left.verdict, left.caution)
        assert (right.n, right.clusters, right.differing_clusters) == (4 * count, count, count)
        assert (left.n, left.clusters, left.units, left.differing) == (count, None, count, count)
        if left.queries_to_settle is not None:
            assert right.queries_to_settle == 4 * left.queries_to_settle
    slices = [compare_slices(one, compared(one, "old").comparisons, QUICK).comparisons for one in (once, often)]
    for left_slice, right_slice in zip(*slices, strict=True):
        assert right_slice.ci == pytest.approx(left_slice.ci, rel=1e-6)
    winners = [
        select_winner(one.scores(one.primary).values, one.names, one.primary, one.clusters) for one in (once, often)
    ]
    assert winners[1].corrected == pytest.approx(winners[0].corrected)
    assert winners[1].ci == pytest.approx(winners[0].ci)


def test_data_sets_are_combined_by_the_errors_of_clusters(tmp_path: Path) -> None:
    """Each question asked three times, in a cluster: the same interval as asked once."""
    intervals = []
    for times in (1, 3):
        for number in range(3):
            values = scores_of(20, 0.05, seed=number)
            report = plain_report({name: np.repeat(np.asarray(own), times).tolist() for name, own in values.items()})
            queries = [query.model_copy(update={"cluster": f"c{place // times}"})
                       for place, query in enumerate(report.queries)]  # fmt: skip
            own = report.dataset.model_copy(update={"documents_fingerprint": str(number)})
            report = report.model_copy(update={"queries": queries, "dataset": own})
            write_folder(report, tmp_path / f"{times}-{number}", {}, [], {})
        (part,) = compare_across([tmp_path / f"{times}-{number}" for number in range(3)], baseline="old").settings
        intervals.append(part.ci)
    assert intervals[1] == pytest.approx(intervals[0])


def of_clusters(differing: int, clusters: int, size: int = 5) -> ComparisonPart:
    """``new`` loses by 0.5 on every question of so many clusters."""
    gains = np.repeat(np.where(np.arange(clusters) < differing, -0.5, 0.0), size)
    gains[::size] *= 0.8
    queries = [query_of(place, cluster=f"c{place // size}") for place in range(clusters * size)]
    made = compared(contest_between({"old": np.full(clusters * size, 0.6), "new": 0.6 + gains}, queries), "old")
    (part,) = made.comparisons
    gates = parse_gates(["ndcg@10 worse than baseline"], Subject(("new",), METRICS, "old"))
    setting = contest_between({"new": [0.5]}).settings[0].part
    evidence = GateEvidence({"new": setting}, "ndcg@10", baseline="old", comparisons={"ndcg@10": made})
    (outcome,) = judge_gates(gates, evidence)
    codes = [warning.code for warning in made.warnings]
    assert ("few-clusters" in codes) == (clusters < 15)
    assert (outcome.outcome == "undecided") == (part.verdict == "too few differences")
    if part.verdict == "too few differences":
        assert f"{differing} of {clusters} clusters of questions differ" in outcome.findings[0].found
        assert f"only {differing} of {clusters} clusters of questions differ, fewer than 10" in part.sentence
    return part


def test_too_few_differing_clusters_have_no_interval_and_are_told() -> None:
    few = of_clusters(9, 20)
    assert (few.losses, few.ci, few.verdict) == (45, None, "too few differences")
    assert of_clusters(10, 20).verdict == "worse"
    assert of_clusters(10, 14).verdict == "worse"
    comparison = compare_settings(repeated(scores_of(9, 0.1), 3), ComparisonOptions(procedure=Procedure(flips=500)))
    assert "fewer than 10 clusters of questions; no interval is given" in comparison_text(comparison, 160)
    queries = [query_of(place, cluster=f"c{place // 2}") for place in range(40)]
    made = compared(contest_between({"old": np.full(40, 0.5), "new": np.tile([0.25, 0.75], 20)}, queries), "old")
    (part,) = made.comparisons
    assert (part.verdict, part.wins, part.losses, part.differing_clusters) == ("too few differences", 20, 20, 0)
    assert part.sentence == "only 0 of 20 clusters of questions differ, fewer than 10; no interval is given"


@pytest.mark.parametrize(("clusters", "is_told"), [(9, True), (3, True), (20, False)])
def test_a_verdict_gives_clusters_as_the_reason_if_enough_questions_differ(clusters: int, is_told: bool) -> None:
    made = compared(repeated(scores_of(clusters, 0.1), 5), "old")
    reason = f"; {5 * clusters} questions differ, but {clusters} of {clusters} clusters, fewer than 10)"
    assert (reason in " ".join(made.conclusion.sentences)) == is_told
    few = compared(repeated(scores_of(8, 0.1), 1), "old")  # the questions themselves are too few
    assert "differ, but" not in " ".join(few.conclusion.sentences)
    if is_told:
        (warning,) = [one for one in made.warnings if one.code == "few-clusters"]
        assert f"are in {clusters} clusters, and an interval takes 10 that differ. Add" in warning.message
        assert "more questions in other clusters (old and new0 differ on" in " ".join(made.conclusion.sentences)


def test_the_procedure_counts_the_clusters_of_scored_questions() -> None:
    whole = repeated(scores_of(12, 0.1), 3)
    extra = [query_of(place, cluster=f"c{place // 5}") for place in range(36, 40)]
    values = {
        name: [*row, *[None] * 4] for name, row in zip(whole.names, whole.scores(whole.primary).values, strict=True)
    }
    inputs = contest_between(values, [*whole.queries, *extra])
    made = compare_settings(inputs, ComparisonOptions(procedure=Procedure(flips=5000)))
    assert made.procedure.sentence.startswith(
        "Paired sign-flip test and balanced bootstrap-t over 12 clusters of 36 questions, the largest of 3 (max-t, "
        "all 4,096 flips, "
    )
    assert (made.procedure.clusters, made.procedure.largest_cluster) == (12, 3)


def alike(size: int, correlation: float, gain: float = 0.05, docs: int = 30, seed: int = 4) -> ComparisonInput:
    """Questions of ``docs`` documents whose differences have this correlation within a document."""
    rng = np.random.default_rng(seed)
    document = np.repeat(np.arange(docs), size)
    noise = np.sqrt(correlation) * rng.standard_normal(docs)[document]
    noise += np.sqrt(1 - correlation) * rng.standard_normal(len(document))
    noise -= noise.mean()
    queries = [query_of(place, relevant=judged(f"d{doc}")) for place, doc in enumerate(document.tolist())]
    return contest_between({"old": np.full(len(document), 0.5), "new": 0.5 + gain + 0.2 * noise}, queries)


def test_questions_of_a_document_are_told_of_and_advice_is_to_name_clusters() -> None:
    strong = compared(alike(8, 0.9), "old")
    (told,) = [warning for warning in strong.warnings if warning.code == "clusters-not-named"]
    assert strong.comparisons[0].verdict == "better"
    assert "in 30 clusters, the 240 questions for new against old count as about " in told.message
    assert "and the verdict is inconclusive, not better. Set evaluators.clusters: document" in told.message
    for inputs in (alike(8, 0.9, gain=0.9), alike(8, 0.0), alike(8, 0.9, docs=12), alike(1, 0.0)):
        assert not [one for one in compared(inputs, "old").warnings if one.code == "clusters-not-named"]
    joined = compared(joined_by_document(alike(8, 0.9)), "old")
    assert (joined.comparisons[0].verdict, joined.comparisons[0].clusters) == ("inconclusive", 30)
    assert joined.comparisons[0].effect_size == pytest.approx(strong.comparisons[0].effect_size)
    assert joined.warnings == []
    advice = "leave the key out, and name clusters yourself (`cluster` of a query in the labels)."
    named = repeated(scores_of(9, 0.1), 3)
    for inputs, is_advised in ((joined_by_document(alike(8, 0.9, docs=12)), True), (named, False)):
        (warning,) = [one for one in compared(inputs).warnings if one.code == "few-clusters"]
        assert (advice in warning.message) == is_advised


def joined_by_document(inputs: ComparisonInput) -> ComparisonInput:
    report = inputs.report.model_copy(update={"clusters": "document"})
    return replace(inputs, settings=tuple(replace(setting, report=report) for setting in inputs.settings))


def test_labels_and_config_name_clusters_which_runs_and_rescored_reports_keep(tmp_path: Path) -> None:
    queries = [{**query, **({"cluster": 7} if place < 2 else {})} for place, query in enumerate(QUERIES)]
    report = run_experiment(write_experiment(tmp_path, queries=queries).config())
    alone = list(range(2, len(QUERIES)))
    assert [query.cluster for query in load_report(report.folder).queries] == ["7", "7", *[None] * len(alone)]
    assert input_of([report], may_be_one=True).clusters == pytest.approx([0, 0, *(place - 1 for place in alone)])
    text = (report.folder / "report.json").read_text(encoding="utf-8")
    assert text.count('"cluster":') == 2  # a query that stands alone has none, as before there were any
    again = rescore(report, overrides=["evaluators.clusters=document"])
    assert (again.clusters, [query.cluster for query in again.queries]) == (
        "document", [query.cluster for query in report.queries],
    )  # fmt: skip
    assert [one.scores for one in again.settings] == [one.scores for one in report.settings]
