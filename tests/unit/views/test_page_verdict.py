"""The top of the page says what the comparison shows: levels of intervals, directions, and every caution."""

import re
from pathlib import Path

import numpy as np
import pytest

from contests import report_of
from ragtrial.comparison.comparing import ComparisonOptions
from ragtrial.comparison.comparison_input import ComparisonInput, input_of
from ragtrial.comparison.comparison_parts import VerdictLinePart
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.comparison.sweep_effects import EffectPart, EffectsPart, LevelsPart
from ragtrial.report.model import write_folder
from ragtrial.views.analysis import Analysis, analyse
from ragtrial.views.page import page
from ragtrial.views.page.verdict import MOST_NAMED_ROWS, Axis, axis_over, effects_of, verdict_of

QUICK = Procedure(flips=500)


def analysed(
    folder: Path, settings: int, baseline: str | None = None, step: float = 0.01
) -> tuple[ComparisonInput, Analysis]:
    """Settings of which each is worse by about ``step`` than the one before, on 30 questions."""
    random = np.random.default_rng(0)
    hard = random.uniform(0.3, 0.7, 30)
    noise = random.normal(0, 0.01, (settings, 30)) * step / 0.01
    values = {f"s{place:02}": list(hard - step * place + noise[place]) for place in range(settings)}
    report = write_folder(report_of(values, "ndcg@3"), folder / "report", {}, [], {})
    contest = input_of([report], ["ndcg@3"], baseline=baseline)
    return contest, analyse(contest, ComparisonOptions(baseline, procedure=QUICK))


@pytest.mark.parametrize(("step", "badge"), [(0.01, "Best"), (0.0, "All identical")])
def test_lines_of_few_settings_are_those_of_the_terminal(tmp_path: Path, step: float, badge: str) -> None:
    _, analysis = analysed(tmp_path, 5, step=step)
    shown = verdict_of(analysis, None)
    terminal = [re.sub(r" {2,}", " ", line.strip()) for line in analysis.conclusion.sentences[1:-1]]
    assert [f"{label} {text}" for label, text in shown.lines] == terminal
    assert shown.badge == badge
    assert f"{shown.badge}: {shown.headlines[0]}" == analysis.conclusion.sentences[0]


def test_the_line_about_other_pairs_names_no_option_of_the_terminal() -> None:
    rows = [{"question": f"q{row}", **{name: 0.1 * place for place, name in enumerate("abcde")}} for row in range(12)]
    text = page(input_of([rows]), ComparisonOptions(procedure=QUICK)).decode()
    assert "All 10 pairs were compared; shown are those with e, the best mean.</p>" in text


@pytest.mark.parametrize("baseline", [None, "s05"])
def test_lines_of_many_settings_count_each_once_and_keep_their_caution(tmp_path: Path, baseline: str | None) -> None:
    _, analysis = analysed(tmp_path, MOST_NAMED_ROWS + 4, baseline)
    lines = analysis.conclusion.lines
    split = [
        VerdictLinePart(label=line.label, settings=some, detail="", depends_on_unjudged=depends)
        for line in lines
        for some, depends in ((line.settings[:1], False), (line.settings[1:], True))
        if some
    ]
    conclusion = analysis.conclusion.model_copy(update={
        "lines": split,
        "sentences": [analysis.conclusion.sentences[0], *["  a  b"] * len(split), analysis.conclusion.sentences[-1]],
    })  # fmt: skip
    shown = verdict_of(analysis.model_copy(update={"conclusion": conclusion}), None)
    assert [label for label, _ in shown.lines] == [line.label for line in split]
    counts = [int(match[1]) for _, text in shown.lines if (match := re.match(r"(?:all )?(\d+) ", text))]
    assert sum(counts) == MOST_NAMED_ROWS + 3 == len(analysis.settings) - 1
    assert ["with the current labels" in text for _, text in shown.lines] == [
        line.depends_on_unjudged for line in split
    ]


@pytest.mark.parametrize(
    ("ci", "sign", "verdict"),
    [
        ((0.01, 0.3), 1, "better"), ((-0.3, -0.1), 1, "worse"), ((-0.3, 0.1), 1, "inconclusive"),
        ((0.01, 0.3), -1, "worse"), ((-0.01, 0.3), 1, "no worse"),
    ],
)  # fmt: skip
def test_the_verdict_of_an_effect_is_that_of_its_interval(ci: tuple[float, float], sign: int, verdict: str) -> None:
    effect = EffectPart(
        levels=LevelsPart(parameter="chunker.size", reference=10, level=20), matched=2, mean_reference=0.3, mean=0.4,
        difference=sum(ci) / 2, ci=ci, p_corrected=None, n=30, differing=30, by_retriever={},
    )  # fmt: skip
    assert effects_of(EffectsPart(metric="m", effects=[effect]), sign, 0.02, 0.95).rows[0].verdict.startswith(verdict)


@pytest.mark.parametrize("values", [[0.03, -0.2], [0.0], [-1e-4, 2e-4], [0.5], [12.0, -3.0]])
def test_an_axis_has_all_values_and_0_between_at_most_eight_ticks(values: list[float]) -> None:
    axis = axis_over(values)
    assert axis.low <= min(0, *values)
    assert axis.high >= max(0, *values)
    assert 2 <= len(axis.ticks) <= 8
    assert np.diff(axis.ticks) == pytest.approx(axis.ticks[1] - axis.ticks[0])
    assert len(set(map(axis.label, axis.ticks))) == len(axis.ticks)


def test_the_band_of_the_margin_ends_with_the_axis() -> None:
    assert Axis(-0.1, 0.1, [-0.1, 0.0, 0.1]).band(0.02) == ("40.0%", "20.0%")
    assert Axis(-0.08, 0.0, [-0.08, 0.0]).band(0.02) == ("75.0%", "25.0%")
