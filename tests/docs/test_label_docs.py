"""The page on labelling tells the truth: its commands run, in the order in which they stand."""

import json
import re
import shlex
from pathlib import Path

import pytest

from ragtrial.cli.label_command import command as label
from small_experiment import CONFIG, Capture, small_experiment, succeeded
from terminals import in_terminal
from worklists import post, start_page

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "labelling.md").read_text(encoding="utf-8")
LABELLING = PAGE[PAGE.index("## Labelling a worklist") :]
PATH = LABELLING[LABELLING.index("## From no labels to a verdict") :]


def commands(text: str) -> list[list[str]]:
    """The commands in blocks of shell, in their order."""
    found = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [shlex.split(line)[1:] for block in found for line in block.splitlines()]


def label_on_page(arguments: list[str]) -> str:
    """Grade everything on the page of a command with 1, and finish; what the command says then."""
    process, url = start_page(*arguments)
    state = {"revision": 0, "total": 1, "graded": 0}
    while state["graded"] < state["total"]:
        state = post(url, "grade", revision=state["revision"], grade=1)["state"]
    assert "error" not in post(url, "finish", revision=state["revision"])
    return process.communicate(timeout=60)[0]


def test_the_way_to_a_verdict_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    small_experiment(tmp_path, config=CONFIG.replace("latency", "  words: {kind: bm25, top_k: 3}\nlatency"))
    (tmp_path / "prompt_queries.json").unlink()
    said = {}
    for arguments in commands(PATH):
        if "--label" in arguments:
            with in_terminal(*arguments) as typed:
                typed.type(("hit 1, 0 graded:", "2"), ("hit 2, 1 graded:", "q"))
                typed.await_text("1 judgment written")
                assert typed.ended() == 0
        elif arguments[0] == "label":
            said["label"] = label_on_page(arguments)
        else:
            made = succeeded(capsys, *arguments)
            said[arguments[0]] = made.out
    assert list(said) == ["run", "pool", "label", "rescore", "compare"]
    assert "next: ragtrial label worklist.json" in said["pool"]
    shown = re.search(r"^(\d) of \1 graded\n.*: (\d) judgments written", said["label"].strip(), re.DOTALL)
    assert shown, said["label"]
    labels = json.loads((tmp_path / "prompt_queries.json").read_text())["queries"]
    assert sum(len(query["relevant_docs"]) for query in labels) == 2 + int(shown[2])


def test_every_option_and_key_that_is_named_is_there() -> None:
    options = {name for option in label.params for name in [*option.opts, *option.secondary_opts]}
    named = set(re.findall(r"`(--[a-z-]+)", LABELLING[: LABELLING.index("## From no labels")]))
    assert named <= options
    assert {"--highest", "--skipped", "--port", "--no-browser", "--labels", "--who"} <= named
