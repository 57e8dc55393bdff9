"""The page on pages tells the truth: its commands run, its plots are those that there are, its pictures are small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import run_script
from small_experiment import CONFIG, small_experiment


@pytest.fixture(scope="module")
def text(root: Path) -> str:
    return (root / "docs" / "report-page.md").read_text(encoding="utf-8")


def test_every_command_of_the_page_writes_what_it_says(text: str, tmp_path: Path) -> None:
    two = CONFIG.replace("top_k: 3}", "top_k: 10}\n  bm25: {kind: bm25, top_k: 10}")
    small_experiment(tmp_path, config=two.replace("{kind: document}", "{kind: recursive, unit: characters}"))
    scripts = re.findall(r"^```sh\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    commands = [line for script in scripts for line in script.splitlines()]
    assert len(commands) == 4
    done = run_script("ragtrial run experiment.yaml -q\n" + "\n".join(commands), tmp_path)
    assert done.code == 0, done.err
    written = ["report.html", "differences.svg", "differences.png", "recall.svg"]
    assert done.out.splitlines()[-len(written) :] == written
    assert all((tmp_path / name).stat().st_size > 1000 for name in written)
