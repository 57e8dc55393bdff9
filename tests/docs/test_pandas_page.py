"""The page on pandas tells the truth: what the recipe gives, and what ragtrial gives for the same DataFrames."""

from __future__ import annotations

from pathlib import Path

from pages import assert_prints_what_it_shows


def test_the_page_prints_what_it_shows(root: Path) -> None:
    assert_prints_what_it_shows(root / "docs" / "pandas.md")
