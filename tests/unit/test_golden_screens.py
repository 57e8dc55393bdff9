"""Screens that are kept are compared whole, and a difference is shown where it is."""

from pathlib import Path

import pytest

from golden_screens import GoldenScreen


def test_another_screen_is_shown_as_a_diff(tmp_path: Path) -> None:
    (tmp_path / "table.txt").write_text("setting  n\ndense    2\n", encoding="utf-8")
    kept = GoldenScreen("table", update=False, folder=tmp_path)
    kept.check("setting  n\ndense    2\n")
    with pytest.raises(AssertionError, match=r"-dense    2\n\+dense    3\n"):
        kept.check("setting  n\ndense    3\n")
    with pytest.raises(AssertionError, match="no line end"):
        kept.check("setting  n\ndense    2")


def test_a_screen_that_is_missing_is_no_success_and_an_update_writes_it(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"table\.txt is missing"):
        GoldenScreen("table", update=False, folder=tmp_path).check("dense\n")
    GoldenScreen("table", update=True, folder=tmp_path).check("dense\n")
    GoldenScreen("table", update=False, folder=tmp_path).check("dense\n")
