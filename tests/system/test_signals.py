"""An interrupted run ends soon, with 130, says where it was and how to go on; the same command then goes on there."""

import json
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from commands import Command, Outcome, commands_of
from experiments import Experiment, write_experiment
from forked import forked_command

EMBEDDING = """
import json
import threading
import time
from pathlib import Path

CALLS = Path(__file__).with_name("calls.jsonl")
HOLD = Path(__file__).with_name("hold.json")


def embed(texts):
    with CALLS.open("a", encoding="utf-8") as calls:
        calls.write(json.dumps(texts) + "\\n")
    if HOLD.exists():
        hold = json.loads(HOLD.read_text())
        seen = [len(json.loads(line)) for line in CALLS.read_text().splitlines()]
        queries, alone = all("?" in text for text in texts), len(texts) == 1
        if sum(seen) > hold["after"] and (queries, alone) == (hold["queries"], hold["alone"]):
            stand_still(hold["deaf"])
    return [[float(len(text)), 1.0, *(float(text.count(letter)) for letter in "aeionst")] for text in texts]


def stand_still(deaf):
    while True:
        try:
            HOLD.with_name("held").touch()
            for _ in range(1200):
                time.sleep(0.05)  # a signal that comes just before a sleep does not end it
        except KeyboardInterrupt:
            if not deaf:
                raise
            for thread in threading.enumerate():
                if deaf == "for ever" and isinstance(thread, threading.Timer):
                    thread.cancel()
            HOLD.with_name("interrupted").touch()
"""
"""Stands still at a call of one kind, after so many texts; deaf: an interruption does not reach the program, as when a
library swallows it, and for ever: nor does any timer end it."""

QUERIES = [
    {"id": f"q{number}", "text": f"How long is loaf {number} baked?", "relevant_docs": [{"doc": f"{number}.txt"}]}
    for number in range(4)
]
SOON = 40.0
"""Seconds: less than a function stands still, and long enough for a machine that is busy."""
KEPT = "Everything that was finished is kept, every batch of embeddings, too; run the same command again to go on."
SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    with commands_of(tmp_path / "logs") as start:
        yield start


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """Four chunks at a time, in an index of Chroma."""
    texts = {f"{number}.txt": f"Loaf number {number} is baked for {number * 7} minutes." for number in range(40)}
    made = write_experiment(tmp_path / "experiment", texts, QUERIES, latency=True, store={"kind": "chroma"})
    (made.folder / "embedding.py").write_text(EMBEDDING, encoding="utf-8")
    return made


def hold(experiment: Experiment, *, after: int = 0, queries: bool = False, alone: bool = False, deaf: str = "") -> None:
    said = {"after": after, "queries": queries, "alone": alone, "deaf": deaf}
    (experiment.folder / "hold.json").write_text(json.dumps(said))


def held(experiment: Experiment, start: Callable[..., Command]) -> Command:
    """A run that stands still in the embedder."""
    command = start(experiment.folder, "run", "config.yaml", "--json")
    command.wait_until((experiment.folder / "held").exists)
    return command


def signalled(command: Command, *numbers: signal.Signals) -> Outcome:
    """The end of a command after signals, which comes soon."""
    began = time.monotonic()
    for number in numbers:
        command.process.send_signal(number)
    ended = command.ended()
    assert time.monotonic() - began < SOON
    return ended


def assert_interrupted(ended: Outcome, where: str) -> None:
    """Exit code 130, one JSON document on stdout, and the same words last on stderr; ``where`` is a pattern."""
    assert ended.code == 130
    assert "Traceback" not in ended.err
    (error,) = ended.json["errors"]
    assert ended.json == {"exit_code": 130, "errors": [{"file": "", "line": 0, "column": 0, **error}]}
    assert re.fullmatch(f"interrupted{where}\\. {re.escape(KEPT)}", error["message"]), error["message"]
    assert ended.err.splitlines()[-1] == error["message"]
    assert ended.err.count("interrupted") == 1


def goes_on(experiment: Experiment) -> list[str]:
    """What the same command embeds for the documents and for all queries at once, when it is run again to its end."""
    (experiment.folder / "hold.json").unlink(missing_ok=True)
    before = len(experiment.embedded())
    ended = forked_command(experiment.folder, "run", "config.yaml", "--json")
    assert (ended.code, ended.json["exit_code"]) == (0, 0), ended.err
    assert not list(experiment.folder.rglob(".partial-*"))
    return experiment.embedded()[before:]


@pytest.mark.parametrize("number", SIGNALS, ids=["SIGINT", "SIGTERM"])
def test_embedding_keeps_every_batch(
    number: signal.Signals, experiment: Experiment, start: Callable[..., Command]
) -> None:
    hold(experiment, after=20)
    assert_interrupted(signalled(held(experiment, start), number), r" at embeddings \(20 of 40 chunks done\)")
    first = experiment.embedded()[:20]
    again = [text for text in goes_on(experiment) if "?" not in text]
    assert len(first) == len(set(first)) == 20
    assert len([text for text in again if text in first]) == 1  # to see whether the embedder is still the same
    assert len(again) == 21


@pytest.mark.parametrize(
    ("stage", "alone"),
    [(r"retrieval \(dense\) \(0 of 4 queries done\)", False), (r"latency \(dense\) \(0 of 4 queries done\)", True)],
)
def test_a_search_is_taken_up_again(
    stage: str, alone: bool, experiment: Experiment, start: Callable[..., Command]
) -> None:
    hold(experiment, queries=True, alone=alone)
    assert_interrupted(signalled(held(experiment, start), signal.SIGINT), f" at {stage}")
    again = goes_on(experiment)
    assert len([text for text in again if "?" not in text]) <= 1  # the one that tells the function from another
    assert {text for text in again if "?" in text} == {query["text"] for query in QUERIES}


@pytest.mark.parametrize("numbers", [(), SIGNALS[:1]], ids=["patience", "SIGINT"])
def test_a_run_that_does_not_stop_ends_at_the_second_signal_or_after_a_while(
    numbers: Sequence[signal.Signals], experiment: Experiment, start: Callable[..., Command]
) -> None:
    hold(experiment, after=20, deaf="for ever" if numbers else "for a while")
    command = held(experiment, start)
    command.process.send_signal(signal.SIGTERM)
    if numbers:
        command.wait_until((experiment.folder / "interrupted").exists)
    assert_interrupted(signalled(command, *numbers), "")
    again = [text for text in goes_on(experiment) if "?" not in text]
    assert len(again) == 21


@pytest.mark.parametrize("pause", [0.0, 0.02])
def test_two_signals_are_told_once(pause: float, experiment: Experiment, start: Callable[..., Command]) -> None:
    """Whenever the second one comes: while the first is handled, told, or while the process goes down."""
    hold(experiment, after=20)
    command = held(experiment, start)
    command.process.send_signal(signal.SIGINT)
    time.sleep(pause)
    assert_interrupted(signalled(command, signal.SIGTERM), r"( at embeddings \(20 of 40 chunks done\))?")


def test_what_is_interrupted_before_it_begins_is_130_too(experiment: Experiment, start: Callable[..., Command]) -> None:
    command = start(experiment.folder, "run", "config.yaml")
    command.wait_until((experiment.workspace / "in-use").exists)
    assert signalled(command, signal.SIGINT).code == 130
