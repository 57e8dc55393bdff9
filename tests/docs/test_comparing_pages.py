"""The pages on comparing name commands that run, and each part that they explain by the option that shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from contests import run_into
from experiments import QUERIES
from small_experiment import ragtrial

Capture = pytest.CaptureFixture[str]

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "comparing-sweeps": {"--slices": "queries by", "--axes": "effect on", "--costs": "quality and costs"},
    "query-by-query": {"--queries": " won, ", "--unjudged": "all against"},
}
"""What each option adds to the output, by page."""


@pytest.fixture
def _kitchen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    words = {"kind": "bm25", "top_k": 10}
    retrievers = {"dense": {"kind": "dense", "top_k": 10}, "bm25": {**words, "stemmer": "none"}, "words": words}
    queries = [{**query, "id": f"q{number}"} for number, query in enumerate(QUERIES, 1)]
    sweep = {"matrix": {"retrievers.words.k1": [0.9, 1.2]}}
    run_into(tmp_path, "swept", queries, retrievers=retrievers, chunker={"kind": "document"}, sweep=sweep)
    monkeypatch.chdir(tmp_path / "experiment-swept")


@pytest.mark.usefixtures("_kitchen")
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_runs_and_shows_what_its_options_are_said_to_show(page: str, capsys: Capture) -> None:
    commands = re.findall(r"^ragtrial (.*)$", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert commands
    named = set()
    for command in commands:
        made = ragtrial(capsys, *command.split())
        assert made.code == 0, f"{command}: {made.err}"
        for option in set(command.split()) & PAGES[page].keys():
            assert PAGES[page][option] in made.out, command
            named.add(option)
    assert named == PAGES[page].keys()


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md", "docs/sweeps.md", "docs/guides/chunk-size.md"])
def test_a_page_from_which_a_sweep_is_run_names_what_reads_it(root: Path, page: str) -> None:
    assert "ragtrial compare --axes" in (root / page).read_text(encoding="utf-8")
