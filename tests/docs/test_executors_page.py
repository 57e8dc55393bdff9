"""The page on executors: its config is valid, and its table of keys is that of the options."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from ragtrial.components.executors.processes import ProcessExecutor


def test_the_config_it_shows_is_valid_and_all_its_keys_are_explained(root: Path) -> None:
    page = (root / "docs" / "executors.md").read_text(encoding="utf-8")
    (shown,) = (yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    ProcessExecutor.model_validate(shown["executor"])
    explained = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert set(explained) == set(ProcessExecutor.model_fields) - {"kind"}
