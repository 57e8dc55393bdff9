"""What fails: one setting of several, told at once and at the end, while the others go on."""

import json
from pathlib import Path
from typing import Any

import pytest

from commands import Outcome
from experiments import Experiment, write_experiment
from ragtrial.report.model import Report, load_report
from small_experiment import Capture, ragtrial

MINE = '''
"""Finds the same for all. What it is asked for is noted; what `trouble` beside it names goes wrong."""

import json
import logging
import os
from pathlib import Path

HERE = Path(__file__).parent


def trouble():
    return json.loads((HERE / "mine-trouble.json").read_text()) if (HERE / "mine-trouble.json").exists() else {}


def find(queries, top_k, key):
    with (HERE / "asked.jsonl").open("a") as asked:
        asked.write(json.dumps(key) + "\\n")
    what = trouble().get(key)
    if what == "secret":
        logging.getLogger("ragtrial.mine").warning("asks with %s", os.environ["SEARCH_API_KEY"])
        raise ConnectionError("refused the key " + os.environ["SEARCH_API_KEY"])
    if what == "raise":
        raise ConnectionError("no route")
    return [[{"doc": "bread/rye.md", "score": 1.0}, {"doc": "storage.txt", "score": 0.5}] for _ in queries]


def chunk(text):
    if trouble().get("chunk"):
        raise TypeError("no such text")
    return [(0, len(text))]


def embed(texts):
    if trouble().get("embed"):
        raise TypeError("no such model")
    return [[float(len(text)), 1.0] for text in texts]
'''
OF_MINE = {"kind": "custom", "function": "mine:find", "top_k": 3}
ALL = ("a", "b", "c")


@pytest.fixture
def kitchen(tmp_path: Path) -> Experiment:
    return experiment(tmp_path)


def experiment(folder: Path, **changes: Any) -> Experiment:
    """`mine` with three keys, `dense`, and a fusion of both."""
    retrievers = {
        "mine": {**OF_MINE, "options": {"key": "a"}},
        "dense": {"kind": "dense", "top_k": 3},
        "both": {"kind": "fusion", "inputs": ["dense", "mine"], "top_k": 3},
    }
    options = {"retrievers": retrievers, "sweep": {"matrix": {"retrievers.mine.options.key": list(ALL)}}, **changes}
    made = write_experiment(folder, **options)
    (folder / "mine.py").write_text(MINE)
    return made


def trouble(made: Experiment, **what: str) -> None:
    (made.folder / "mine-trouble.json").write_text(json.dumps(what))


def asked(made: Experiment) -> list[str]:
    path = made.folder / "asked.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(capsys: Capture, made: Experiment, *more: str) -> Outcome:
    return ragtrial(capsys, "run", made.file, *more)


def report_of(made: Experiment) -> Report:
    return load_report("latest", str(made.folder / "results"))


NO_ROUTE = (
    "mine:find raised ConnectionError for 4 queries at once, from 'How long do I bake rye bread?' to "
    "'Where do you grow coffee?': no route"
)


def test_a_failure_is_told_at_once_and_at_the_end_others_are_scored(kitchen: Experiment, capsys: Capture) -> None:
    trouble(kitchen, b="raise")
    ended = run(capsys, kitchen)
    assert ended.code == 4
    lines = ended.err.splitlines()
    of_mine = f"error: setting 'mine-key-b' failed: {NO_ROUTE}"
    of_both = f"error: setting 'both-key-b' failed: its part 'mine': {NO_ROUTE}"
    summary = "2 of 7 settings failed: mine-key-b, both-key-b. The same command runs only these again."
    assert lines.count(of_mine) == lines.count(of_both) == 2
    (later,) = (line for line in lines if line.startswith("retrieval (mine-key-c): 4 queries, "))
    assert lines.index(of_mine) < lines.index(later) < lines.index(summary)
    assert lines[lines.index(summary) + 1 :][:2] == [of_mine, of_both]
    report = report_of(kitchen)
    assert {one.name for one in report.settings} == {*("mine-key-a", "dense", "both-key-a", "mine-key-c", "both-key-c")}
    failed = {one.name: (one.error, one.details) for one in report.failures}
    assert failed == {"mine-key-b": (NO_ROUTE, None), "both-key-b": (f"its part 'mine': {NO_ROUTE}", None)}
    assert asked(kitchen) == ["a", "b", "c"], "what failed is not tried again by what is made of it"


def test_the_same_command_runs_only_what_failed(kitchen: Experiment, capsys: Capture) -> None:
    trouble(kitchen, b="raise")
    run(capsys, kitchen)
    stages, embedded = kitchen.stages(), kitchen.embedded()
    trouble(kitchen)
    assert run(capsys, kitchen).code == 0
    assert asked(kitchen) == ["a", "b", "c", "b"]
    assert kitchen.embedded() == embedded
    assert {kind for kind, _ in kitchen.stages() - stages} == {"rankings"}
    assert len(kitchen.stages() - stages) == 2
    assert (len(report_of(kitchen).settings), report_of(kitchen).failures) == (7, [])


def test_fail_fast_stops_at_the_first_and_writes_no_report(kitchen: Experiment, capsys: Capture) -> None:
    trouble(kitchen, a="raise")
    ended = run(capsys, kitchen, "--fail-fast")
    assert ended.code == 3
    assert asked(kitchen) == ["a"]
    assert f"error: setting 'mine-key-a': {NO_ROUTE}" in ended.err
    assert not (kitchen.folder / "results").exists()


def test_where_all_fail_there_is_no_report_and_each_is_told(tmp_path: Path, capsys: Capture) -> None:
    made = experiment(tmp_path, retrievers={"mine": {**OF_MINE, "options": {"key": "a"}}})
    trouble(made, **dict.fromkeys(ALL, "raise"))
    ended = run(capsys, made, "--json")
    assert ended.code == ended.json["exit_code"] == 3
    assert [one["message"] for one in ended.json["errors"]] == [f"setting 'mine-key-{key}': {NO_ROUTE}" for key in ALL]
    assert not (made.folder / "results").exists()


@pytest.mark.parametrize(("part", "function"), [("chunker", "chunk"), ("embedder", "embed")])
def test_a_broken_part_fails_what_is_made_of_it(tmp_path: Path, capsys: Capture, part: str, function: str) -> None:
    retrievers = {
        "odd": {"kind": "dense", "top_k": 3, part: {"kind": "custom", "function": f"mine:{function}"}},
        "whole": {"kind": "parent", "inputs": "odd", "top_k": 3},
        "both": {"kind": "fusion", "inputs": ["dense", "whole"], "top_k": 3},
        "dense": {"kind": "dense", "top_k": 3},
    }
    made = experiment(tmp_path, retrievers=retrievers, sweep=None)
    trouble(made, **{function: "yes"})
    assert run(capsys, made).code == 4
    report = report_of(made)
    assert [one.name for one in report.settings] == ["dense"]
    failed = {one.name: one.error for one in report.failures}
    assert f"mine:{function} raised TypeError" in failed["odd"]
    assert failed["whole"] == f"its part 'odd': {failed['odd']}"
    assert failed["both"].endswith(failed["odd"])
    assert "its part" in failed["both"]


def test_what_nobody_expected_fails_one_setting_and_its_traceback_is_in_the_report(
    kitchen: Experiment, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    import bm25s

    def broken(*_: object, **__: object) -> None:
        raise TypeError("unhashable type, key 0123456789abcdef")

    monkeypatch.setattr(bm25s.BM25, "index", broken)
    monkeypatch.setattr(bm25s.BM25, "build_index_from_ids", broken, raising=False)
    monkeypatch.setenv("SEARCH_API_KEY", "0123456789abcdef")
    entries = {
        "words": {"kind": "bm25", "top_k": 3},
        "both": {"kind": "fusion", "inputs": ["dense", "words"], "top_k": 3},
        "dense": {"kind": "dense", "top_k": 3},
    }
    config = json.loads(kitchen.file.read_text())
    kitchen.file.write_text(json.dumps({**config, "retrievers": entries, "sweep": None}))
    ended = run(capsys, kitchen)
    assert ended.code == 4
    report = report_of(kitchen)
    assert [one.name for one in report.settings] == ["dense"]
    assert {one.name: one.error for one in report.failures} == dict.fromkeys(
        ["words", "both"], "it broke (TypeError: unhashable type, key ${SEARCH_API_KEY})"
    )
    for failure in report.failures:
        assert failure.details is not None
        assert "Traceback" in failure.details
        assert "in broken" in failure.details
    assert "0123456789abcdef" not in ended.err + (report.folder / "report.json").read_text()


@pytest.mark.parametrize("more", [[], ["--fail-fast"]])
def test_no_secret_gets_out(
    kitchen: Experiment, capsys: Capture, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    monkeypatch.setenv("SEARCH_API_KEY", "sk-verysecret")
    trouble(kitchen, b="secret")
    ended = run(capsys, kitchen, "--json", *more)
    assert ended.code == (3 if more else 4)
    assert "refused the key ${SEARCH_API_KEY}" in ended.err
    assert "asks with ${SEARCH_API_KEY}" in ended.err
    assert "refused the key ${SEARCH_API_KEY}" in ended.out
    written = [path.read_bytes() for path in (kitchen.folder / "results").rglob("*.*") if path.is_file()]
    assert not any(b"sk-verysecret" in text for text in [ended.err.encode(), ended.out.encode(), *written])
