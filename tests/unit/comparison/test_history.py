"""The history of an experiment: steps from the last accepted run, whose levels add up, and the sentences about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import ttest_1samp

from contests import setting_of
from hand_made import METRIC, Values, query_of, report_of, written
from ragtrial.comparison.comparison_input import PairedScores
from ragtrial.comparison.history import HistoryPart, Steps, experiment_runs, history_of
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import Family, Procedure
from ragtrial.errors import ComparisonError, MetricError
from ragtrial.report.model import Report

COUNT = 40
RANDOM = np.random.default_rng(5)
BASE = RANDOM.uniform(0.3, 0.6, COUNT)
NOISE = RANDOM.normal(0.0, 0.05, (8, COUNT))
FEW = np.where(np.arange(COUNT) < 9, 0.1, 0.0)
BETTER = BASE + 0.1 + NOISE[7]


def run_id(number: int) -> str:
    return f"202611{number + 1:02}T020000Z-{number:06x}"


def reports_of(*runs: Mapping[str, Values], **more: Any) -> list[Report]:
    return [
        report_of(
            [setting_of(name, METRIC, list(values)) for name, values in run.items()], run_id=run_id(number), **more
        )
        for number, run in enumerate(runs)
    ]


def outcomes(steps: Steps, rows: Sequence[Values]) -> list[tuple[int, int] | None]:
    """The accepted row and the claim of each run of a single line; None where the line begins."""
    scores = PairedScores(METRIC, np.array(rows))
    found = [own.get("a") for own in steps.follow(scores, [{"a": row} for row in range(len(rows))], None)]
    return [None if outcome is None else (outcome.accepted, outcome.claim) for outcome in found]


def test_levels_of_a_sequence_add_up_to_the_level_and_have_draws_enough() -> None:
    procedures = [Procedure(0.05).with_alpha_spending(number) for number in range(1, 3_001)]
    levels = np.array([procedure.level for procedure in procedures])
    rest = 0.05 * 2 / 2.612375 / np.sqrt(3_000)  # the integral of the levels that follow
    assert 0.0499 < levels.sum() + rest <= 0.05 + 1e-6
    assert levels.sum() < 0.05
    assert all(procedure.flips * procedure.level >= 5 for procedure in procedures)


@pytest.mark.parametrize("number", [1, 4, 12])
@pytest.mark.parametrize(("share", "claim"), [(0.4, 1), (2.5, 0)])
def test_a_comparison_has_the_level_of_its_number(number: int, share: float, claim: int) -> None:
    """Normal differences: a step is shown where Student's p is clearly below the level, and is not clearly above."""
    level = Procedure().with_alpha_spending(number).level
    noise = np.random.default_rng(1).standard_normal(100)
    noise -= noise.mean()
    shifts = np.linspace(0.0, 0.6, 301)
    p = np.array([ttest_1samp(noise + shift, 0.0).pvalue for shift in shifts])
    shift = shifts[np.argmin(np.abs(np.log(p / (share * level))))]
    assert outcomes(Steps(Procedure(), number - 1), [np.zeros(100), noise + shift]) == [None, (0, claim)]


def test_a_step_is_accepted_and_repeated_scores_are_no_new_comparison() -> None:
    noisy, few = BASE + NOISE[0], BASE + FEW
    rows = [BASE, BASE, noisy, noisy, few, BETTER, BETTER, noisy, BASE]
    steps = Steps(Procedure())
    assert outcomes(steps, rows) == [None, (0, 0), (0, 0), (0, 0), (0, 0), (0, 1), (5, 0), (5, -1), (7, 0)]
    assert steps.number == 5  # BASE against the accepted run 7, the first one after a step
    steps = Steps(Procedure())
    outcomes(steps, rows[:5])
    assert steps.number == 1  # neither repeats, nor nine differing questions, spend anything


@given(st.lists(st.sampled_from([BASE, *(BASE + NOISE[:3]), BETTER]), min_size=2, max_size=5), st.integers(1, 4))
@settings(max_examples=10)
def test_more_runs_change_no_verdict_of_those_before(rows: list[Values], shown: int) -> None:
    assert outcomes(Steps(Procedure()), rows[:shown]) == outcomes(Steps(Procedure()), rows)[:shown]


def test_settings_of_a_run_are_one_family_and_a_break_spends_on() -> None:
    """The intervals are those of `infer` at the level of the number, over breaks; a run without a test has none."""
    runs = [{"a": BASE, "b": BASE}, {"a": BASE + NOISE[0], "b": BASE + NOISE[1]}]
    later = [{"a": BASE, "b": BASE}, {"a": BASE + FEW, "b": BASE + NOISE[2]}]
    reports = reports_of(*runs, *later)
    queries = [query_of(place, "changed" if place == 3 else "") for place in range(COUNT)]
    first = [query_of(place, "as it was" if place == 3 else "") for place in range(COUNT)]
    reports = [report.model_copy(update={"queries": own}) for report, own in
               zip(reports, [first, first, queries, queries], strict=True)]  # fmt: skip
    history = history_of(reports, [])
    for number, (run, differences) in enumerate([(1, NOISE[:2]), (3, np.array([FEW, NOISE[2]]))], 1):
        (inference,) = infer([Family(differences)], Procedure().with_alpha_spending(number))
        points = history.runs[run].points
        assert [point.ci is None for point in points] == np.isnan(inference.low).tolist()
        ends = [point.ci or (np.nan, np.nan) for point in points]
        np.testing.assert_allclose(ends, np.transpose([inference.low, inference.high]), atol=1e-9)
    assert [len(run.breaks) for run in history.runs] == [0, 0, 1, 0]
    assert "another text" in history.runs[2].breaks[0]
    assert [point.accepted for point in history.runs[3].points] == [run_id(2)] * 2
    assert [point.accepted for point in history.runs[2].points] == [None] * 2


def changed(report: Report, **changes: Any) -> Report:
    return report.model_copy(update=changes)


def with_formula(report: Report) -> Report:
    metric = report.metrics[METRIC].model_copy(update={"formula": "another"})
    return changed(report, metrics={METRIC: metric})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_formula, "other formula (ndcg@10)"),
        (lambda report: changed(report, unit="span", span_coverage=0.5), "other unit"),
        (lambda report: reports_of({"a": BASE[:-1]})[0], "only in the runs before ('q39')"),
        (lambda report: changed(report, queries=[query_of(place, relevant=[{"doc": "d", "relevance": 1}])
                                                 for place in range(COUNT)]), "other labels"),
    ],
    ids=["formula", "unit", "questions", "labels"],
)  # fmt: skip
def test_runs_that_are_not_comparable_break_the_line(change: Any, reason: str) -> None:
    before, after = reports_of({"a": BASE}, {"a": BETTER})
    history = history_of([before, changed(change(after), run_id=after.run_id)], [])
    assert reason in " ".join(history.runs[1].breaks)
    assert history.sentences[0].startswith("The newest run is not comparable with the runs before: ")
    assert history.runs[1].points[0].step is None


def test_a_renamed_setting_keeps_its_line_and_others_begin_their_own() -> None:
    runs = reports_of({"old": BASE, "x": BASE}, {"new": BETTER, "x": BASE}, {"new": BETTER, "y": BASE})
    same = [setting.model_copy(update={"fingerprint": "f"}) if setting.name in ("old", "new") else setting
            for report in runs for setting in report.settings]  # fmt: skip
    runs = [changed(report, settings=same[2 * row : 2 * row + 2]) for row, report in enumerate(runs)]
    points = [{point.setting: point.accepted for point in run.points} for run in history_of(runs, []).runs]
    assert points == [{"new": None, "x": None}, {"new": run_id(0), "x": run_id(0)}, {"new": run_id(1), "y": None}]


def test_clusters_and_the_direction_of_the_metric_are_honoured() -> None:
    runs = {"a": BASE}, {"a": BASE + np.repeat([0.11, -0.02, 0.1, -0.01, 0.12] * 2, 4)}
    alone = reports_of(*runs)
    queries = [query_of(place, cluster=f"c{place // 4}") for place in range(COUNT)]
    assert history_of(alone, []).runs[1].points[0].step == "better"
    assert history_of([changed(report, queries=queries) for report in alone], []).runs[1].points[0].step is None
    lower = {METRIC: alone[0].metrics[METRIC].model_copy(update={"better": "lower"})}
    history = history_of([changed(report, metrics=lower) for report in alone], [])
    assert (history.better, history.runs[1].points[0].step) == ("lower", "worse")
    assert f"a is worse than in run {run_id(0)}: ndcg@10 +0.060 (95% CI +0." in history.sentences[0]


A, B, NOISY = {"a": BASE}, {"a": BETTER}, {"a": BASE + NOISE[0]}
SINCE = "2 November 2026, 02:00 UTC"


@pytest.mark.parametrize(("runs", "sentences"), [
    ([A], ["One run so far, of 1 November 2026, 02:00 UTC: a step needs two."]),
    ([A, NOISY, A], ["No step is shown in the 2 runs since 1 November 2026, 02:00 UTC."]),
    ([A, B], [f"Step in the newest run: a is better than in run {run_id(0)}: ndcg@10 +0."]),
    ([A, B, B], [f"No step is shown in the run since {SINCE}.", f"Last step, {SINCE}: a is better than"]),
    ([A, {"a": BASE + FEW}], ["No step is shown in the run", "In 1 of 1 comparison since then fewer than ten"]),
    ([A, {"a": [None] * COUNT}], ["No step is shown in the run", "In 1 of 1 comparison since then fewer than"]),
])  # fmt: skip
def test_the_state_is_told_as_it_is(runs: Sequence[Mapping[str, Values]], sentences: Sequence[str]) -> None:
    history = history_of(reports_of(*runs), [])
    assert len(history.sentences) == len(sentences)
    assert all(own.startswith(start) for own, start in zip(history.sentences, sentences, strict=True))


def changes_of(**after: Any) -> list[str]:
    before, other = reports_of(A, A, config={"a": {"k": 1, "b": [1]}}, environment={"python": "3.1", "packages": {}})
    history: HistoryPart = history_of([before, changed(other, **after)], [])
    return history.runs[1].changes


def test_changes_name_config_documents_labels_versions_and_other_inputs() -> None:
    (report,) = reports_of(A)
    data = report.dataset.model_copy(update={"documents": 10, "documents_fingerprint": "e" * 32})
    config, environment = {"a": {"k": 2, "b": [1]}, "c": "x" * 99}, {"python": "3.2", "packages": {"numpy": "2"}}
    assert changes_of(config=config) == ["a.k: 1 → 2", f'c: none → "{"x" * 56}...']
    assert changes_of(dataset=data) == ["documents: 9 (dddddd) → 10 (eeeeee)"]
    assert changes_of(environment=environment) == ["Python: 3.1 → 3.2", "numpy: none → 2"]
    (setting,) = report.settings
    (other,) = changes_of(settings=[setting.model_copy(update={"fingerprint": "z"})])
    assert other.startswith("other inputs of a")
    assert changes_of(config={f"k{number}": 1 for number in range(20)})[-1] == "14 more"
    assert changes_of() == []


def test_runs_are_read_in_order_with_reasons_for_those_that_are_left_out(tmp_path: Path) -> None:
    """A run that was scored again counts in its place, whatever its labels are by now."""
    first, second, third = reports_of(A, B, NOISY)
    again = changed(first, run_id=run_id(8), parent=first.run_id)
    hostile = changed(first, run_id="../../x")
    for folder, report in {"1": second, "2": first, "3": third, "4": hostile, "5": again, "6": third}.items():
        written(report, tmp_path / "e" / folder, [])
    (tmp_path / "e" / "7").mkdir()
    (tmp_path / "e" / "7" / "report.json").write_text("{", encoding="utf-8")
    reports, left_out = experiment_runs(tmp_path / "e")
    assert [report.run_id for report in reports] == [again.run_id, second.run_id, third.run_id]
    assert [next(name for name in ("4", "6", "7") if f"{name}: " in line or f"/{name}/" in line)
            for line in left_out] == ["4", "6", "7"]  # fmt: skip
    history = history_of(reports, left_out)
    assert [run.time[:2] for run in history.runs] == ["1 ", "2 ", "3 "]
    with pytest.raises(ComparisonError, match="no run has 'ndcg@5'; the newest one has: ndcg@10"):
        history_of(reports, [], metric="ndcg@5")
    with pytest.raises(MetricError):
        history_of(reports, [], metric="nonsense@5")
