"""The page on labelling tells the truth: its commands run, in the order in which they stand."""

import http.client
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ragtrial.cli.label_command import command as label
from small_experiment import CONFIG, Capture, small_experiment, succeeded
from terminals import in_terminal

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
    command = [sys.executable, "-m", "ragtrial", *arguments, "--no-browser", "-q"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    host, _, path = process.stderr.readline().removeprefix("label here: http://").strip().partition("/")
    state = {"revision": 0, "total": 1, "graded": 0}
    while True:
        name = "grade" if state["graded"] < state["total"] else "finish"
        connection = http.client.HTTPConnection(host, timeout=30)
        body = json.dumps({"revision": state["revision"], "grade": 1})
        connection.request("POST", f"/{path}{name}", body, {"Content-Type": "application/json"})
        reply = json.loads(connection.getresponse().read())
        connection.close()
        assert "error" not in reply
        state = reply["state"]
        if name == "finish":
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
