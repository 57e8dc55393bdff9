"""`ragtrial compare`, as a reader, a program and Python code meet it."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ragtrial as package
from commands import Outcome
from contests import RUN, changed_queries, report_of
from hand_made import contest_between
from ragtrial.comparison.comparing import ComparisonOptions
from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.report.model import write_folder
from ragtrial.views.analysis import analyse
from ragtrial.views.comparison_tables import descriptive_table, verdict_table
from ragtrial.views.sections.details import UNJUDGED
from small_experiment import Capture, ragtrial, refused
from terminals import in_terminal

FIELDS = ["metric", "family", "baseline", "setting", "mean_baseline", "mean", "difference", "ci", "p", "p_corrected",
          "wins", "ties", "losses", "effect_size", "skewness", "n", "caution", "verdict", "detectable",
          "queries_needed"]  # fmt: skip

HALF = [0.5] * 12
VALUES = {"old": HALF, "new": [0.75, 0.7] * 6, "same": list(HALF), "few": [1.0, *HALF[1:]]}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    write_folder(report_of(VALUES), tmp_path / "small", {}, [], {})
    return tmp_path


def compare(capsys: Capture, *options: str) -> Outcome:
    return ragtrial(capsys, "compare", *options)


# The critical value of 12 equal steps is sqrt(11/3) = 1.915, which 9 of them one way just reach; 0 is far off.
def test_the_text_of_a_small_comparison(
    small: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, golden: Callable[[str, str], None]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    made = compare(capsys, "small", "--baseline", "old")
    assert (made.code, made.err) == (0, "")
    golden("compare-few-differences", made.out)


def test_the_json_has_the_documented_fields_and_python_says_the_same(small: Path, capsys: Capture) -> None:
    made = json.loads(compare(capsys, "small", "--json").out)
    assert all(set(FIELDS) <= set(part) for part in made["comparisons"])
    assert [name for name in made["comparisons"][0] if name in FIELDS] == FIELDS
    assert set(ComparisonPart.model_fields) - set(FIELDS) == {
        "better", "sentence", "queries_to_settle", "judged_baseline", "judged", "clusters", "differing_clusters",
    }  # fmt: skip
    assert made["conclusion"]["top"] == ["new"]
    assert made["procedure"]["seed"] == 0
    assert made["procedure"]["baseline"] is None
    options = ["--baseline", "old", "--flips", "500", "--seed", "7", "--confidence", "0.9", "--margin", "0.1"]
    told = json.loads(compare(capsys, "small", *options, "--json").out)
    made = package.compare("small", baseline="old", flips=500, seed=7, confidence=0.9, margin=0.1)
    assert made.model_dump(mode="json").items() <= told.items()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--margin", "2"], "ndcg@3 lies between 0 and 1; a margin of 2 says nothing. Did you mean 0.02?"),
        (["--confidence", "0.4"], "0.4 is not in the range 0.5<=x<=0.9999"),
        (["--baseline", "old", "--all-pairs"], "--baseline and --all-pairs say two things; give one of them."),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_a_line(small: Path, capsys: Capture, options: list[str], said: str) -> None:
    made = refused(capsys, "compare", "small", *options, says=said)
    assert (made.out, len(made.err.splitlines())) == ("", 1)


def test_common_axes_and_results_do_what_they_say(small: Path, capsys: Capture) -> None:
    other = changed_queries(report_of(VALUES, experiment="other"), q1={"relevant_docs": []})
    write_folder(other, small / "other", {}, [], {})
    assert compare(capsys, "small", "other").code == 2
    assert compare(capsys, "small", "other", "--common", "--json").json["queries"] == 11
    assert "No axes: these settings are no sweep" in compare(capsys, "small", "--axes").out
    assert "No axes" not in compare(capsys, "small").out
    (small / "small").rename(small / "elsewhere")
    write_folder(report_of(VALUES), small / "kept" / "kitchen" / RUN, {}, [], {})
    assert compare(capsys, RUN, "--json").code == 2
    assert compare(capsys, RUN, "--results", "kept", "--json").json["settings"] == list(VALUES)


def test_numbers_are_never_minus_nought_and_p_is_never_nought(small: Path) -> None:
    steps = np.linspace(0.4, 0.6, 60)
    report = report_of({"a": list(steps), "b": list(steps - 1e-6 * steps)})
    made = package.compare(report, baseline="a", flips=100_000)
    (row,) = [row for row in verdict_table(made, made.comparisons).rows if row[0] == "b"]
    assert row[2:5] == ["0.000", "0.000 0.000", "<0.0001"]
    assert row[9] == "enough"
    assert verdict_table(made, made.comparisons, 200).notes == [
        "no worse, or within the margin: the margin is 0.02.",
        "detectable: the difference that these questions detect 80% of the time. questions needed: in all, to detect "
        "0.02 (the margin).",
    ]


@pytest.mark.parametrize(
    ("width", "header", "told"),
    [
        (109, "mean, difference, 95% interval, p, won, tied, lost, detectable, questions needed", ""),
        (108, "mean, difference, 95% interval, p, won, tied, lost", "detectable, questions needed"),
        (70, "mean, difference, 95% interval, p", "won, tied, lost, detectable, questions needed"),
        (20, "difference, 95% interval", "mean, p, won, tied, lost, detectable, questions needed"),
    ],
)
def test_a_narrow_terminal_gets_the_columns_that_matter_most(width: int, header: str, told: str) -> None:
    made = package.compare(report_of({"old": HALF, "new": VALUES["new"]}), baseline="old")
    table = verdict_table(made, made.comparisons[:1], width)
    assert table.titles == ["setting", *header.split(", "), "verdict"]
    assert {len(row) for row in table.rows} == {len(table.titles)}
    assert [row[-1] for row in table.cells] == ["verdict", "better", "(baseline)"]
    _, *notes = table.notes  # the first is about few differences
    assert [note.startswith("detectable: ") for note in notes] == [not told]
    assert not told or notes == [f"Too wide for {width} columns: {told} (--json has all)."]


def test_numbers_of_questions_and_the_first_of_many_verdicts_are_shown() -> None:
    made = package.compare(report_of({"old": HALF, "new": VALUES["new"]}), baseline="old", margin=0)
    table = verdict_table(made, made.comparisons[:1], 200)
    _, no_margin, line = table.notes
    assert no_margin.startswith("no margin is set")
    assert table.titles[-3:] == ["lost", "detectable", "verdict"]
    assert {len(row) for row in table.rows} == {len(table.titles)}
    assert line == "detectable: the difference that these questions detect 80% of the time."
    made = package.compare(report_of(VALUES), baseline="old")
    row = made.comparisons[0]
    fewer = [
        row.model_copy(update={"metric": metric, "n": n, "difference": difference})
        for metric, n, difference in (("rr@3", row.n, 0.25), ("rbo@3", 5, -0.125), ("err@3", 0, None))
    ]
    both = made.model_copy(update={"comparisons": [row, *fewer]})
    (cells,) = descriptive_table(both, ["rr@3", "rbo@3", "err@3"], [row]).rows
    assert cells[-3:] == ["+0.250", "-0.125 (5)", "-"]
    unjudged = UNJUDGED.of(analyse(contest_between({"b": HALF, "s": [0.9] * 12}), ComparisonOptions("b")))
    assert unjudged is not None
    (one,) = unjudged
    changes = {"low": -0.25, "high": 0.5, "unjudged": 1, "depends_on_unjudged": True}
    parts = [one.model_copy(update={**changes, "setting": f"s{place}"}) for place in range(9)]
    (line,) = UNJUDGED.summary_lines(parts)
    assert line.endswith("s1 -0.250 or +0.500 (1 hit), s2 -0.250 or +0.500 (1 hit), and 6 more.")
    assert UNJUDGED.summary_lines([part.model_copy(update={"depends_on_unjudged": False}) for part in parts]) == []


def test_means_over_other_questions_than_the_first_line_has_are_announced() -> None:
    """The score of the first line is over all questions of its setting, a row of the table over those of both."""
    old = [0.1 * place for place in range(12)]
    missing = [None, None, *[0.9] * 10]
    for new, is_noted in ((missing, True), ([0.9] * 12, False)):
        made = package.compare(report_of({"old": old, "new": new}), baseline="old")
        assert made.conclusion.sentences[0].startswith("Baseline: old, ndcg@3 0.550")
        assert (f"{made.comparisons[0].mean_baseline:.3f}" == "0.550") != is_noted
        notes = verdict_table(made, made.comparisons[:1], 200).notes
        assert (
            any(note.startswith("means here: over the n questions that count for both") for note in notes) == is_noted
        )


def test_a_terminal_has_colours_and_a_pipe_none(small: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with in_terminal("compare", "small", "--baseline", "old") as typed:
        typed.await_text("\x1b[1msetting")
        typed.await_text("\x1b[32mbetter")
    for options, (name, value) in ((["--no-color"], ("X", "")), ([], ("NO_COLOR", "1")), ([], ("TERM", "dumb"))):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            with in_terminal("compare", "small", "--baseline", "old", *options) as typed:
                typed.await_text("better\r\n")
    assert "\x1b" not in compare(capsys, "small", "--baseline", "old").out
