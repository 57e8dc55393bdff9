"""What may be said of a winner, and who beats whom; intervals and effects of axes against known truths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from hand_made import contest_over, report_of, setting_of
from ragtrial.comparison.comparing import ComparisonOptions
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.report.schema import CostsPart
from ragtrial.search.findings import Choice, decide, pareto_set
from ragtrial.search.importance import importance_of


def test_the_axis_that_moves_the_score_comes_first_with_its_effect() -> None:
    rng = np.random.default_rng(1)
    settings = [{"size": size, "k1": float(k1)} for size in (100, 200) for k1 in rng.uniform(0.5, 2.0, 20)]
    effect = np.array([0.2 if one["size"] == 200 else 0.0 for one in settings])
    values = 0.4 + effect[:, None] + rng.normal(0, 0.02, (40, 50)) + rng.normal(0, 0.2, 50)
    first, second = importance_of(settings, values, Procedure(flips=500))
    assert (first.axis, first.reference, first.level) == ("size", 100, 200)
    assert first.difference == pytest.approx(0.2, abs=0.01)
    assert first.ci is not None
    assert first.ci[0] < 0.2 < first.ci[1]
    assert second.difference < 0.02


def test_few_settings_say_nothing_of_axes() -> None:
    assert importance_of([{"size": 100}, {"size": 200}], np.zeros((2, 30)), Procedure()) == []


AIM = ComparisonOptions(procedure=Procedure(flips=500))
NOISE = np.random.default_rng(2).normal(0, 0.05, (3, 40))
BASE = np.random.default_rng(3).uniform(0.2, 0.6, 40)


def choice_of(
    values: Mapping[str, np.ndarray], held_out: Sequence[str] = (), sizes: Mapping[str, int] | None = None
) -> Choice:
    """A search that tried settings with these scores and index sizes, the first of which is the baseline."""
    parts = [
        setting_of(
            name,
            row,
            costs=CostsPart(embedding_seconds=None, indexing_seconds=None, index_bytes=(sizes or {}).get(name)),
        )
        for name, row in values.items()
    ]
    inputs = contest_over(report_of(parts))
    searched = np.array(
        [np.mean([value for place, value in enumerate(row) if f"q{place}" not in held_out]) for row in values.values()]
    )
    return Choice(inputs, searched, held_out, next(iter(values)), 3)


HELD_OUT = [f"q{place}" for place in range(20, 40)]


def test_a_winner_is_judged_by_held_out_queries_alone() -> None:
    """It is far better on those that chose it, and equal but for noise on the others."""
    lead = np.where(np.arange(40) < 20, 0.3, 0.0)
    found = decide(choice_of({"base": BASE, "lucky": BASE + lead + NOISE[0]}, HELD_OUT), AIM)
    assert found.winner is not None
    assert found.verdict is not None
    assert found.winner.setting == "lucky"
    assert found.verdict.n == 20
    assert found.verdict.verdict not in ("better", "worse")
    assert found.winner.expected is not None
    assert found.winner.expected.mean == pytest.approx((BASE + NOISE[0])[20:].mean())
    assert found.winner.optimism == pytest.approx(found.winner.searched - found.winner.expected.mean)


def test_without_held_out_queries_the_verdict_is_corrected_for_all_settings() -> None:
    values = {"base": BASE, "one": BASE + 0.02 + NOISE[0], "two": BASE + NOISE[1], "three": BASE + NOISE[2]}
    many, few = (decide(choice_of(one), AIM) for one in (values, {name: values[name] for name in ("base", "one")}))
    assert (many.compared_with, few.compared_with) == (3, 1)
    assert many.verdict is not None
    assert few.verdict is not None
    assert many.verdict.setting == few.verdict.setting == "one"
    assert many.verdict.p_corrected is not None
    assert few.verdict.p_corrected is not None
    assert many.verdict.p_corrected > few.verdict.p_corrected


def test_nothing_is_claimed_of_finalists_where_the_verdict_claims_nothing() -> None:
    """Two settings that differ clearly; the better one is the baseline's equal, the third has nothing to do with it."""
    values = {"base": BASE + 0.2, "best": BASE + 0.21 + NOISE[0], "worst": BASE}
    found = decide(choice_of(values), AIM)
    assert found.verdict is not None
    assert found.verdict.verdict not in ("better", "worse")
    assert len(found.between_finalists) == 3
    assert [part.verdict for part in found.between_finalists] == [None] * 3
    shown = decide(choice_of(values | {"best": BASE + 0.4 + NOISE[0]}), AIM)
    assert any(part.verdict is not None for part in shown.between_finalists)


def test_a_setting_is_beaten_only_by_one_that_costs_no_more_and_is_clearly_better() -> None:
    values = {
        "plain": BASE,
        "dear": BASE + 0.2 + NOISE[0],
        "cheap": BASE + 0.1 + NOISE[1],
        "alike": BASE + NOISE[2] / 9,
    }
    found = pareto_set(choice_of(values, sizes={"plain": 100, "dear": 200, "cheap": 50, "alike": 300}), AIM)
    assert {one.setting: one.beaten_by for one in found} == {
        "plain": "cheap",  # dear is better still, and costs more
        "dear": None,
        "cheap": None,
        "alike": "dear",
    }
