"""Best, better and worse follow the direction of each metric of the registry, wherever a result is shown."""

from pathlib import Path

import numpy as np
import pytest

from contests import report_of
from hand_made import query_of
from ragtrial.comparison.comparing import ComparisonOptions, close_comparisons, compare_settings
from ragtrial.comparison.comparison_input import ComparisonInput, Pair, input_of
from ragtrial.comparison.comparison_parts import Comparison
from ragtrial.comparison.gates import GateEvidence, Subject, judge_gates, parse_gates
from ragtrial.comparison.judged_rankings import could_be_undone
from ragtrial.comparison.query_differences import query_differences
from ragtrial.comparison.selection import select_winner
from ragtrial.comparison.slices import compare_slices
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.evaluation.metrics import METRICS, parse_metric
from ragtrial.evaluation.metrics.base import Definition
from ragtrial.report.model import Report, write_folder
from ragtrial.search.search_run import Trial
from ragtrial.views.analysis import analyse
from ragtrial.views.page.verdict import plot_of
from ragtrial.views.report_tables import lowest_queries, score_table
from ragtrial.views.sections.plots import best_first, claimed
from ragtrial.views.table import best_cells

QUICK = Procedure(0.05, 999, 0)
REQUIRED = {"err": "err(max=3)@3"}


def spelled(name: str, definition: Definition) -> str:
    return REQUIRED.get(name, name if definition.cut == "none" else f"{name}@3")


COMPARED = [spelled(name, one) for name, one in METRICS.members()]
LOWER = {"forbidden@3", "unjudged@3", "rbp_residual@3"}


def contest(metric: str, folder: Path) -> tuple[Report, ComparisonInput, Comparison]:
    """Two settings on 24 questions, ``good`` better than ``bad`` on each by 0.2 or 0.3, whichever values are better."""
    sign = -1 if metric.partition("(")[0] + metric[metric.rfind("@") :] in LOWER or metric in LOWER else 1
    middle = 0.5 + np.linspace(-0.1, 0.1, 24)
    values = {"bad": list(middle - sign * 0.1), "good": list(middle + sign * np.tile([0.1, 0.2], 12))}
    report = write_folder(report_of(values, metric), folder / "report", {}, [], {})
    made = input_of([report], [metric], baseline="bad")
    return report, made, compare_settings(made, ComparisonOptions("bad", procedure=QUICK))


def test_the_metrics_of_which_lower_values_are_better_are_these() -> None:
    assert {spelled(name, one) for name, one in METRICS.members() if one.better == "lower"} == LOWER


@pytest.mark.parametrize("metric", COMPARED)
def test_the_better_setting_is_better_on_every_way(metric: str, tmp_path: Path) -> None:
    report, made, compared = contest(str(parse_metric(metric)), tmp_path)
    primary = report.primary_metric
    (part,) = compared.comparisons
    assert (part.setting, part.verdict, part.wins, part.losses) == ("good", "better", 24, 0)
    assert compared.conclusion.verdicts == {"better": ["good"]}
    of_all = compare_settings(made, ComparisonOptions(procedure=QUICK)).conclusion
    assert (of_all.kind, of_all.top, of_all.verdicts) == ("best", ["good"], {"worse": ["bad"]})
    assert close_comparisons(compared)[0].gain == pytest.approx(0.25)
    # sorting and colours
    assert [one.name for one in report.ranked_settings()] == list(best_first(made)) == ["good", "bad"]
    assert claimed(part) == 1
    table = score_table(report, 200)
    assert best_cells(table) in ({(0, 1)}, set())
    # the questions on which it wins, slices, the winner
    assert query_differences(made, Pair(0, 1)).won == 24
    assert all(one.wins == one.n and not one.contradicts for one in compare_slices(made, [part], QUICK).comparisons)
    values, sign = made.scores(primary).values, report.sign(primary)
    assert select_winner(values, made.names, primary, sign=sign).setting == "good"
    # gates
    settings = {one.name: one for one in report.settings}
    for gate, about, outcome in (
        ("worse than baseline", "good", "passed"), ("not within 0.02 of baseline", "good", "passed"),
        ("worse than baseline", "bad", "failed"), ("not within 0.02 of baseline", "bad", "failed"),
    ):  # fmt: skip
        other = "bad" if about == "good" else "good"
        inputs = input_of([report], [primary], baseline=other)
        against = compare_settings(inputs, ComparisonOptions(other, procedure=QUICK))
        gates = parse_gates([f"{about}: {primary} {gate}"], Subject(("good", "bad"), (primary,), other))
        (found,) = judge_gates(gates, GateEvidence(settings, primary, (), other, {primary: against}))
        assert found.outcome == outcome, gate
    # the worst question of a setting is where to look first
    worst = query_of(0 if report.sign(primary) > 0 else 23).id.removeprefix("q")
    assert f" q{int(worst) + 1} " in lowest_queries(report, report.setting("bad"), 200).splitlines()[1]


@pytest.mark.parametrize("metric", ["ndcg@3", *sorted(LOWER)])
def test_scenarios_limits_of_a_search_and_the_page_follow_the_direction(metric: str, tmp_path: Path) -> None:
    report, made, compared = contest(metric, tmp_path)
    sign = report.sign(metric)
    assert could_be_undone("better", -0.1, 0.2, 0.02) is True
    (part,) = compared.comparisons
    assert part.gain == pytest.approx(sign * (part.difference or 0.0))
    low, high = part.gain_ci or (0, 0)
    assert 0 < low < (part.gain or 0) < high
    assert part.better == ("higher" if sign > 0 else "lower")
    drawn = plot_of(made, analyse(made, ComparisonOptions("bad", procedure=QUICK)), made.names)
    assert drawn is not None
    assert {row.name: row.mark for row in drawn.rows} == {"good": "good", "bad": "top"}
    trials = [
        Trial(setting=None, point=None, mean=mean, queries=1, costs={}, is_within=True, seconds=0.0,  # type: ignore[arg-type]
              is_given=True, sign=sign)
        for mean in (0.4, 0.6)
    ]  # fmt: skip
    assert max(trials, key=lambda trial: trial.score).mean == (0.6 if sign > 0 else 0.4)
