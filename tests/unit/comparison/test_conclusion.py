"""What a comparison comes to, in situations of all kinds: tests/golden/conclusions.txt is the specification."""

import re
from pathlib import Path

import pytest

from golden_screens import GoldenScreen
from ragtrial import compare
from ragtrial.comparison.commands import Commands
from ragtrial.comparison.comparison_parts import Comparison
from ragtrial.comparison.evidence import MOST_LABELLED, MOST_TIMES
from ragtrial.views.comparison_tables import comparison_text
from scored_runs import scored_report
from situations import SITUATIONS, Situation
from small_experiment import Capture, ragtrial


def _shown(number: int, situation: Situation, comparison: Comparison) -> str:
    made = comparison.conclusion
    against = "all pairs" if made.baseline is None else f"against {made.baseline}"
    settings = f"{len(comparison.settings)} setting{'s' if len(comparison.settings) > 1 else ''}"
    return "\n".join(
        [
            f"{number}. {situation.title}",
            f"[{made.kind}: {settings}, {made.scored.sentence}, {against}]",
            *made.sentences,
        ]
    )


@pytest.fixture(scope="module")
def comparisons(tmp_path_factory: pytest.TempPathFactory) -> list[Comparison]:
    made = []
    with pytest.MonkeyPatch.context() as patch:
        for situation in SITUATIONS:
            folder = tmp_path_factory.mktemp("situation")
            patch.chdir(folder)
            made.append(situation.compared(folder))
    return made


def test_each_situation_has_its_conclusion(comparisons: list[Comparison], request: pytest.FixtureRequest) -> None:
    """At least sixty, each read by hand against the grammar of docs/reading-the-result.md."""
    pairs = zip(SITUATIONS, comparisons, strict=True)
    text = "\n\n".join(_shown(number, *pair) for number, pair in enumerate(pairs, 1)) + "\n"
    assert len(SITUATIONS) >= 60
    text = re.sub(r"/\S*/situation\d+/", "", text)
    GoldenScreen("conclusions", update=request.config.getoption("--update-golden")).check(text)


def test_labelling_and_cheaper_settings_are_advised_within_reason(comparisons: list[Comparison]) -> None:
    advised = 0
    for made in comparisons:
        for number in re.findall(r"label about ([0-9,]+) more", made.conclusion.next_step.action):
            advised += 1
            more = int(number.replace(",", ""))
            assert more == made.conclusion.next_step.questions
            text = comparison_text(made, 10_000)  # the column is about the margin, the advice about this difference
            assert ("The next step asks for fewer" in text) == (" too many" in text)
            assert more <= min(MOST_LABELLED, MOST_TIMES * made.conclusion.scored.scored)
    assert advised >= 5
    cheaper = [made.conclusion for made in comparisons if "cheapest" in made.conclusion.next_step.action]
    assert len(cheaper) >= 4
    for conclusion in cheaper:
        assert not conclusion.verdicts.keys() & {"inconclusive", "too few differences"}
    assert Commands(("one", "two")).show("--costs") == "ragtrial show one --costs"


def test_settings_of_one_score_may_find_different_numbers_of_answers(tmp_path: Path, capsys: Capture) -> None:
    labels = {f"q{number}": {"right": 1, "wrong": -1} for number in range(12)}
    runs = {"one": dict.fromkeys(labels, "right"), "two": {**dict.fromkeys(labels, "right"), "q0": "other"}}
    report = scored_report(tmp_path, labels, runs, "--metrics", "hit_rate@2,forbidden@2")
    headline = compare(report, metric="forbidden@2").conclusion.sentences[0]
    assert "one and two, forbidden@2 0.000: they find an answer in the first 2 for 11 to 12 of 12" in headline
    gated = ragtrial(capsys, "compare", report.folder, "--fail-if", "one: forbidden@2 > 0", "--json").json
    assert gated["gates"][0]["findings"][0]["found"] == "0.0000 over 12 questions"
