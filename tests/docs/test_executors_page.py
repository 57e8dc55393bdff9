"""The page on executors: its configs are valid, and its tables of keys are those of the options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ragtrial.components.executors.processes import ProcessExecutor
from ragtrial.components.executors.ray import RayExecutor


@pytest.mark.parametrize(("place", "options"), [(0, ProcessExecutor), (1, RayExecutor)])
def test_the_config_it_shows_is_valid_and_all_its_keys_are_explained(
    root: Path, place: int, options: type[ProcessExecutor | RayExecutor]
) -> None:
    page = (root / "docs" / "executors.md").read_text(encoding="utf-8").split("\n## ")[place]
    (shown,) = (yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    options.model_validate(shown["executor"])
    explained = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert set(explained) == set(options.model_fields) - {"kind"}
