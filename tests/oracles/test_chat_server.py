"""A real chat server, transformers' own, is asked as any endpoint: for grades, for drafts, and its errors are told.

Its model has random weights, so what it says is noise: no reply has a grade or a question, and each counts as such.
It takes a while to start, so `make endpoints` runs this.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chat_server import chat_server, random_model
from contests import run_into
from ragtrial.comparison.judge import read_judgments
from small_experiment import ragtrial, small_experiment

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("RAGTRIAL_CHAT_SERVER" not in os.environ, reason="starts a real chat server: make endpoints"),
]

Capture = pytest.CaptureFixture[str]
SHORT = ("--max-tokens", "8", "--concurrency", "2")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chat_server(tmp_path_factory.mktemp("server") / "log.txt") as url:
        yield url


def test_grades_are_asked_for_kept_and_missing_where_the_reply_has_none(
    server: str, model: Path, tmp_path: Path, capsys: Capture
) -> None:
    report = run_into(tmp_path, "report")
    file = tmp_path / "judgments.jsonl"
    command = ("judge", report, "--endpoint", server, "--model", str(model), "--queries", "1", "--price", "1", *SHORT)
    made = ragtrial(capsys, *command, "-o", file, "--json")
    assert made.code == 0, made.err
    rows = read_judgments(file).rows
    assert len(rows) == made.json["judgments"] > 0
    for row in rows:
        assert row.grade is None
        assert row.reply
        assert (row.input_tokens or 0) > 500  # a token is a byte, and our prompt is in it
        assert row.output_tokens == 8
        assert row.cost == pytest.approx(((row.input_tokens or 0) + 8) * 1e-6)
    planned = ragtrial(capsys, *command, "-o", file, "--plan", "--json").json
    assert (planned["calls"], planned["kept"]) == (0, len(rows))


def test_drafts_are_asked_for_and_noise_makes_none(
    server: str, model: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small_experiment(tmp_path)
    made = ragtrial(
        capsys, "questions", "experiment.yaml", "--endpoint", server, "--model", str(model), *SHORT, "--json"
    )
    assert made.code == 0, made.err
    assert (made.json["replies"], made.json["unparsable"], made.json["drafts"]) == (3, 3, 0)
    assert json.loads(Path("prompt_queries.json").read_text())["queries"][2:] == []


def test_a_model_that_the_server_does_not_have_is_an_error_in_a_sentence(
    server: str, tmp_path: Path, capsys: Capture
) -> None:
    report = run_into(tmp_path, "report")
    made = ragtrial(capsys, "judge", report, "--endpoint", server, "--model", str(tmp_path / "none"), "--queries", "1",
                    "--retries", "0", "-o", tmp_path / "j.jsonl")  # fmt: skip
    assert made.code == 3
    assert f"error: the endpoint {server}/chat/completions (model '{tmp_path / 'none'}') answered" in made.err
    assert "Traceback" not in made.err
