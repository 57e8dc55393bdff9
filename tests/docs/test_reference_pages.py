"""The tutorial and the reference pages are true: their commands run, and their lists are complete."""

import re
from pathlib import Path

import click
import pytest

from pages import fenced
from ragtrial.cli.group import COMMANDS, group
from scripts import run_script

DOCS = Path(__file__).parents[2] / "docs"


def test_the_tutorial_runs(tmp_path: Path) -> None:
    """All but the installation: init, labels from a CSV, three retrievers, the comparison and the page."""
    install, start, convert, compare = fenced(DOCS / "tutorial.md", "sh")
    assert "pip install -c constraints/cpu.txt" in install
    (table,) = fenced(DOCS / "tutorial.md", "text")
    (retrievers,) = fenced(DOCS / "tutorial.md", "yaml")
    run_script(start, tmp_path, COLUMNS="90")
    trial = tmp_path / "trial"
    (trial / "questions.csv").write_text(table, encoding="utf-8")
    assert "experiment.yaml is valid" in run_script(convert, trial, COLUMNS="90").out
    config = trial / "mine" / "experiment.yaml"
    text = config.read_text(encoding="utf-8")
    replaced = re.sub(r"^retrievers:.*\n(?:(?: .*)?\n)+", retrievers, text, flags=re.MULTILINE)
    config.write_text(replaced, encoding="utf-8")
    assert "bm25-titles" in run_script(compare, config.parent, COLUMNS="90").out
    assert (config.parent / "report.html").is_file()


def test_the_page_on_the_command_line_has_every_command_and_its_options_exist() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    head, _, options = text.partition("## Common options")
    named = {name for row in re.findall(r"^\| (`.*?) \|", head, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert named == set(COMMANDS)
    known: set[str] = set()
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        known |= {spelling for one in command.params for spelling in one.opts}
    assert set(re.findall(r"`(-{1,2}[a-z-]+)", options.partition("## Exit codes")[0])) <= known


@pytest.mark.parametrize("page", ["index.md", "tutorial.md"])
def test_a_first_page_is_short(page: str) -> None:
    assert len((DOCS / page).read_text(encoding="utf-8").split()) < 800
