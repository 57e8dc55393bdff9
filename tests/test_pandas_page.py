"""The page on pandas tells the truth: what the recipe gives, and what ragtrial gives for the same DataFrames."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragtrial
from pages import assert_prints_what_it_shows


@pytest.mark.skipif("score" not in ragtrial.__all__, reason="there is no score() yet")
def test_the_page_prints_what_it_shows(root: Path) -> None:
    assert_prints_what_it_shows(root / "docs" / "pandas.md")
