"""Expected scores: files that are read and written, what is refused, and what comes of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gate_scenarios import HOSTILE, METRICS, findings, setting
from ragtrial.comparison.gates import ExpectedOutcome, ExpectedScore, expected_text, judge_expected, read_expected
from ragtrial.errors import ConfigError, GateError
from ragtrial.report.schema import MeanPart, SettingPart
from ragtrial.views.findings_files import gate_lines

SETTINGS = ("dense", "hybrid")


def written(folder: Path, text: str) -> Path:
    path = folder / "expected.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def messages(folder: Path, text: str) -> list[str]:
    path = written(folder, text)
    with pytest.raises(GateError) as raised:
        read_expected(path, SETTINGS, METRICS)
    return [str(fault).removeprefix(str(path) + ":") for fault in raised.value.faults]


def test_a_score_is_a_number_or_has_tolerances_of_its_own(tmp_path: Path) -> None:
    text = (
        "report: 2026\ntolerance: 0.002\nsettings:\n  dense:\n    NDCG@10: 0.6631\n"
        "    recall@10: {value: 1, tolerance: 0.05}\n    rr@10: {value: 0.5, nearly: 0.1}\n"
    )
    with pytest.raises(GateError, match="report is 2026; it must be a text"):
        read_expected(written(tmp_path, text))
    assert read_expected(written(tmp_path, text.replace("2026", "r1")), SETTINGS, METRICS) == [
        ExpectedScore("dense", "ndcg@10", 0.6631, 0.002, 0.01),
        ExpectedScore("dense", "recall@10", 1.0, 0.05, 0.05),
        ExpectedScore("dense", "rr@10", 0.5, 0.002, 0.1),
    ]


def test_what_is_wrong_with_values_is_told_at_once_with_line_and_column(tmp_path: Path) -> None:
    text = (
        "tolerence: 0.1\n"
        "settings:\n"
        "  dense:\n"
        "    ndcg@10: no\n"
        "    rr@10: {value: 0.5, tolerance: -1}\n"
        "    recall@10: {tolerance: 0.1}\n"
        "  hybrid: {}\n"
    )
    assert messages(tmp_path, text) == [
        "1:1: unknown key 'tolerence'. Did you mean 'tolerance'? Allowed here: report, tolerance, nearly, settings.",
        "4:5: settings.dense.ndcg@10 is 'no'; it must be a number.",
        "5:25: settings.dense.rr@10.tolerance is -1; it must be at least 0.0.",
        "6:5: settings.dense.recall@10.value is missing; it is required.",
        "7:3: settings.hybrid has 0 entries; it must have at least 1.",
    ]


def test_unknown_and_duplicate_names_are_told_at_once_with_line_and_column(tmp_path: Path) -> None:
    text = "settings:\n  dens:\n    ndcg@10: 1\n  dense:\n    ndgc@10: 0.5\n    ndcg@10: 0.5\n    NDCG@10: 0.5\n"
    assert [line.partition(" Known:")[0] for line in messages(tmp_path, text)] == [
        "2:3: there is no setting 'dens'. Did you mean 'dense'? There are: dense, hybrid.",
        "5:5: 'ndgc@10': there is no metric 'ndgc'. Did you mean 'ndcg'?",
        "7:5: 'NDCG@10' is ndcg@10, which has a score already; keep one of them.",
    ]


def test_what_is_no_yaml_or_no_file_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected\.yaml:1:12: "):
        read_expected(written(tmp_path, "settings: {"))
    with pytest.raises(GateError, match=r"nowhere\.yaml"):
        read_expected(tmp_path / "nowhere.yaml")


def outcome(
    value: float | None, *, expected: float = 0.7, tolerance: float = 0.001, nearly: float = 0.01
) -> ExpectedOutcome:
    score = ExpectedScore("dense", "ndcg@10", expected, tolerance, nearly)
    (made,) = judge_expected([score], {"dense": setting("dense", ndcg_10=value)})
    return made


@pytest.mark.parametrize(
    ("value", "agreement"),
    [(0.7, "OK"), (0.701, "OK"), (0.699, "OK"), (0.7011, "nearly"), (0.71, "nearly"), (0.69, "nearly"),
     (0.6899, "FAIL"), (0.7101, "FAIL"), (None, "FAIL")],
)  # fmt: skip
def test_a_score_is_ok_within_its_tolerance_and_nearly_within_the_next(value: float | None, agreement: str) -> None:
    assert outcome(value).outcome == agreement


@given(st.floats(0, 1), st.floats(0, 1))
def test_too_high_is_as_unexpected_as_too_low(expected: float, off: float) -> None:
    above, below = (outcome(expected + sign * off, expected=expected).outcome for sign in (1, -1))
    assert above == below or abs(off - 0.001) < 1e-9 or abs(off - 0.01) < 1e-9


def test_a_line_says_what_was_found_and_by_how_much_it_is_off() -> None:
    lines = gate_lines(findings(expected=(outcome(0.65), outcome(0.700001, tolerance=0.0), outcome(None))))
    assert lines[:3] == [
        "expected FAIL: dense ndcg@10 is 0.6500, expected 0.7000 (0.05 lower; OK within 0.001, nearly within 0.01)",
        "expected nearly: dense ndcg@10 is 0.7000, expected 0.7000 (1e-06 higher; OK within 0, nearly within 0.01)",
        "expected FAIL: dense ndcg@10 is over no query, expected 0.7000",
    ]


def test_a_score_of_a_setting_that_could_not_be_run_is_not_checked() -> None:
    (one,) = judge_expected([ExpectedScore("dense", "ndcg@10", 0.7)], {}, ["dense"])
    assert (one.outcome, one.found) == ("not checked", None)
    assert findings(expected=(one,)).exit_code == 4


def named(name: str, **scores: float | None) -> SettingPart:
    made = setting(name)
    return made.model_copy(update={"scores": {key: MeanPart(mean=value, n=1) for key, value in scores.items()}})


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(HOSTILE),
        st.dictionaries(st.sampled_from(METRICS), st.floats(0, 100) | st.just(None), min_size=1).filter(
            lambda scores: any(value is not None for value in scores.values())
        ),
        min_size=1,
        max_size=4,
    )
)
def test_what_is_written_is_read_again_whatever_settings_are_called(
    tmp_path_factory: pytest.TempPathFactory, scores: dict[str, dict[str, float | None]]
) -> None:
    of_run = [named(name, **values) for name, values in scores.items()]
    path = written(tmp_path_factory.mktemp("expected"), expected_text("r1", of_run, METRICS))
    read = read_expected(path, list(scores), METRICS)
    expected = {
        (name, metric): value for name, one in scores.items() for metric, value in one.items() if value is not None
    }
    assert {(one.setting, one.metric): one.value for one in read} == {
        place: pytest.approx(value, abs=5e-7) for place, value in expected.items()
    }
    assert {outcome.outcome for outcome in judge_expected(read, {one.name: one for one in of_run})} == {"OK"}


def test_tolerances_that_were_chosen_are_kept_when_scores_are_written_anew() -> None:
    kept = [ExpectedScore("dense", "ndcg@10", 0.1, 0.05, 0.2), ExpectedScore("dense", "rr@10", 0.1)]
    text = expected_text("r1", [named("dense", **{"ndcg@10": 0.25, "rr@10": 1.0})], METRICS, kept)
    assert text == (
        "report: r1\ntolerance: 0.001\nnearly: 0.01\nsettings:\n  dense:\n"
        "    ndcg@10:\n      value: 0.25\n      tolerance: 0.05\n      nearly: 0.2\n    rr@10: 1.0\n"
    )
