"""The pages for a start: their commands run in the folder of the demo, and print what the pages show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import run_script

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_commands_of_comparing_two_runs_print_what_the_page_shows(tmp_path: Path) -> None:
    text = (ROOT / "docs/compare-two-runs.md").read_text(encoding="utf-8")
    commands = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert run_script("ragtrial demo", tmp_path).code == 0
    done = run_script("".join(commands), tmp_path / "ragtrial-demo")
    assert done.code == 0, done.err
    (shown,) = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert shown in done.out


def test_the_commands_in_words_exist() -> None:
    """What a page says in a sentence is a command with options that there are."""
    pages = [
        ROOT / "docs" / f"{name}.md"
        for name in ("compare-two-runs", "install", "troubleshooting", "how-many-questions")
    ]
    commands = [
        found for page in pages for found in re.findall(r"`ragtrial ((?:cache )?\w+)([^`]*)`", page.read_text())
    ]
    assert len(commands) > 10
    for command, arguments in commands:
        helped = run_script(f"ragtrial {command} --help", ROOT)
        assert helped.code == 0, command
        assert set(re.findall(r"--[\w-]+", arguments)) <= set(re.findall(r"--[\w-]+", helped.out)), arguments
