"""The page on labels that count tells the truth of the pool: its commands run, and what it shows is what is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from contests import run_into
from ragtrial.labelling.worklist import read_worklist
from small_experiment import Capture, ragtrial, succeeded

PAGE = (Path(__file__).parents[2] / "docs" / "labelling.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("## Which labels would move the verdict") : PAGE.index("## Labelling a worklist")]
COMMANDS = re.findall(r"^ragtrial (.*)$", SECTION, re.MULTILINE)
SHOWN = next(block for block in re.findall(r"^```text\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL))


@pytest.fixture
def kitchen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    retrievers = {"dense": {"kind": "dense", "top_k": 10}, "bm25": {"kind": "bm25", "top_k": 10}}
    run_into(tmp_path, "copy", retrievers=retrievers, chunker={"kind": "document"})
    monkeypatch.chdir(tmp_path / "experiment-copy")
    Path("config.yaml").rename("experiment.yaml")
    return tmp_path / "experiment-copy"


def as_shape(text: str) -> list[str]:
    """The words of a text, whatever the numbers and paths in it."""
    return re.sub(r"\S*prompt_queries\.json", "LABELS", re.sub(r"\d[\d,.]*", "N", text)).split()


def test_the_commands_of_the_page_run_one_after_another(kitchen: Path, capsys: Capture) -> None:
    assert [command.split()[0] for command in COMMANDS] == ["pool", "pool", "pool", "rescore"]
    for command in COMMANDS:
        succeeded(capsys, *command.split())
    assert all(read_worklist(kitchen / name).items for name in ("worklist.json", "more.json", "one-setting.json"))


def test_what_the_page_shows_is_what_is_printed(kitchen: Path, capsys: Capture) -> None:
    made = ragtrial(capsys, "pool", "latest", "--repeat", "2", "--baseline", "dense")
    assert as_shape(made.out) == as_shape(SHOWN)
