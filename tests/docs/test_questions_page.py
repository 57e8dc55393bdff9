"""The page on drafting questions says the numbers, the styles and the keys of the code."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from drafting_double import DRAFTING
from endpoint_double import EndpointDouble
from ragtrial.cli.questions_command import command
from ragtrial.labelling.drafting import COPIED, DRAFT_PLACES, PASSAGE_SIZE, STYLES
from ragtrial.records import DRAFTED, NOT_REVIEWED, UNANSWERABLE
from small_experiment import ragtrial, small_experiment

PAGE = (Path(__file__).parents[2] / "docs" / "questions.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^ragtrial (questions .*)$", PAGE, re.MULTILINE)


def test_the_page_says_the_numbers_and_names_of_the_code() -> None:
    assert f"at most {PASSAGE_SIZE:,} characters" in PAGE
    assert f"at least {COPIED:.0%} of its content words" in PAGE
    for name in (*STYLES, *DRAFT_PLACES, DRAFTED, NOT_REVIEWED, UNANSWERABLE):
        assert f"`{name}`" in PAGE
    options = {name for one in command.params if isinstance(one, click.Option) for name in one.opts}
    assert set(re.findall(r"^\| `(--[a-z-]+)`", PAGE, re.MULTILINE)) <= options


def test_the_commands_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small_experiment(tmp_path)
    with EndpointDouble(default=DRAFTING) as double:
        for one in COMMANDS:
            made = ragtrial(capsys, *one.replace("http://localhost:8000/v1", double.url).split())
            assert made.code == 0, made.err
    assert "next: ragtrial label drafts.json" in made.out
