"""The page on searching: its config is valid, and its lists are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragtrial.config import load_config

_OPTION = re.compile(r"`((?:held_out|within|baseline): [^`]+)`")
PAGE = (Path(__file__).parents[2] / "docs" / "search.md").read_text(encoding="utf-8")
_SEARCH = re.compile(r"^```yaml\nsearch: (.*)\n```$", re.MULTILINE)
_OVERRIDES = ["search.settings=10", *_OPTION.findall(PAGE), *(f"search={text}" for text in _SEARCH.findall(PAGE))]


@pytest.mark.parametrize("override", _OVERRIDES)
def test_its_config_and_each_option_that_it_shows_are_valid(tmp_path: Path, override: str) -> None:
    config, *_ = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "experiment.yaml").write_text(config.replace(", score: false", ""), encoding="utf-8")
    name, _, value = override.partition(": ")
    wanted = override if override.startswith("search") else f"search.{name}={value}"
    assert load_config(tmp_path / "experiment.yaml", [wanted]).search
