"""What may be said of a winner, and the next step that a search advises where nothing is shown."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from expectations import present
from gate_scenarios import part
from hand_made import contest_over, query_of, report_of, setting_of
from ragtrial.comparison.comparing import ComparisonOptions
from ragtrial.comparison.comparison_parts import Verdict
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.search.searched import Choice, SearchResult, WinnerPart, decide, sentences_of

AIM = ComparisonOptions(procedure=Procedure(flips=500))
NOISE = np.random.default_rng(2).normal(0, 0.05, (3, 40))
BASE = np.random.default_rng(3).uniform(0.2, 0.6, 40)


def choice_of(values: Mapping[str, np.ndarray], held_out: Sequence[str] = ()) -> Choice:
    """A search that tried settings with these scores, the first of which is the baseline."""
    parts = [setting_of(name, row) for name, row in values.items()]
    inputs = contest_over(report_of(parts))
    searched = np.array(
        [np.mean([value for place, value in enumerate(row) if f"q{place}" not in held_out]) for row in values.values()]
    )
    return Choice(inputs, searched, held_out, next(iter(values)))


HELD_OUT = [f"q{place}" for place in range(20, 40)]


def test_a_winner_is_judged_by_held_out_queries_or_a_corrected_verdict() -> None:
    """It is far better on those that chose it, and equal but for noise on the others."""
    lead = np.where(np.arange(40) < 20, 0.3, 0.0)
    found = decide(choice_of({"base": BASE, "lucky": BASE + lead + NOISE[0]}, HELD_OUT), AIM)
    winner, verdict = present(found.winner), present(found.verdict)
    assert (winner.setting, verdict.n) == ("lucky", 20)
    assert verdict.verdict not in ("better", "worse")
    assert present(winner.expected).mean == pytest.approx((BASE + NOISE[0])[20:].mean())
    assert winner.optimism == pytest.approx(winner.searched - present(winner.expected).mean)
    values = {"base": BASE, "one": BASE + 0.02 + NOISE[0], "two": BASE + NOISE[1], "three": BASE + NOISE[2]}
    many, few = (decide(choice_of(one), AIM) for one in (values, {name: values[name] for name in ("base", "one")}))
    assert (many.compared_with, few.compared_with) == (3, 1)
    of_many, of_few = present(many.verdict), present(few.verdict)
    assert of_many.setting == of_few.setting == "one"
    assert present(of_many.p_corrected) > present(of_few.p_corrected)


@pytest.mark.parametrize("share", [0, 20])
def test_a_question_asked_several_times_in_a_cluster_counts_once(share: int) -> None:
    """For the verdict, and for the score that is expected of the winner, with held-out queries and without."""
    findings = []
    for times in (1, 3):
        values = {name: np.repeat(row, times) for name, row in {"base": BASE, "one": BASE + 0.05 + NOISE[0]}.items()}
        queries = [query_of(place, cluster=f"c{place // times}") for place in range(40 * times)]
        inputs = contest_over(report_of([setting_of(name, row) for name, row in values.items()], queries))
        held_out = [f"q{place}" for place in range(share * times)]
        found = decide(Choice(inputs, np.array([0.4, 0.5]), held_out, "base"), AIM)
        findings.append((present(found.verdict).ci, present(present(found.winner).expected).ci))
    assert [ends == pytest.approx(once) for ends, once in zip(findings[1], findings[0], strict=True)] == [True, True]


@pytest.mark.parametrize(("settling", "verdict", "step"), [
    (None, "inconclusive", "Next: keep the config as it is."),
    (59, "inconclusive", "Next: keep the config as it is."),
    (60, "inconclusive", "Next: label about 1 more question to settle the two, or keep the config as it is."),
    (359, "inconclusive", "Next: label about 300 more questions to settle the two, or keep the config as it is."),
    (360, "inconclusive", "Next: keep the config as it is."),  # nobody labels 301 questions
    (None, "no worse", "Next: keep the config as it is, or take the winner if it is cheaper."),
])  # fmt: skip
def test_no_more_questions_than_people_label_are_asked_for(settling: int | None, verdict: Verdict, step: str) -> None:
    result = SearchResult(
        method="random", seed=0, metric="ndcg@10", settings=4, possible=None, refused=[], ended="", searched=59,
        held_out=0, baseline="base", winner=WinnerPart(setting="new", searched=0.61, expected=None, optimism=None),
        verdict=part("new", 0.01, (-0.05, 0.07), queries_to_settle=settling, verdict=verdict), compared_with=4,
        trials=[], sentences=[],
    )  # fmt: skip
    assert list(sentences_of(result))[-1] == step
