"""Answers of endpoints are on the disk before the worker that got them asks again, whatever the program does then."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Condition, Event
from typing import Any

import numpy as np
import pytest

from commands import LONGEST
from endpoint_double import EndpointDouble
from ragtrial.cache.journal import read_rows
from ragtrial.cache.vectors import VectorCache
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.endpoint import OpenAIEmbedder
from ragtrial.components.endpoints.chat import ChatMessage, ChatOptions, KeptReplies, replies
from ragtrial.components.refiners.rerankers import EndpointReranker, RerankEndpoint, TextPairs

TEXTS = [f"text {number} {'word ' * (number % 7)}".strip() for number in range(50)]
AT_ONCE = 4
KILLS = 4

Advance = Callable[[int], None]
Ask = Callable[[str, Path, Advance], None]
"""Asks the endpoint at a URL about each of ``TEXTS``, one in a request, with the answers in a folder."""


def embed(url: str, folder: Path, advance: Advance, at_once: int = AT_ONCE) -> None:
    embedder = OpenAIEmbedder(model="m", base_url=url, batch_size=1, concurrency=at_once)
    CachedEmbedder(embedder, folder).embed_documents(TEXTS, advance)


def rerank(url: str, folder: Path, advance: Advance) -> None:
    endpoint = RerankEndpoint(model="m", base_url=url, batch_size=1, concurrency=AT_ONCE)
    places = np.arange(len(TEXTS))
    pairs = TextPairs(["word"], TEXTS, np.zeros_like(places), places)
    EndpointReranker(endpoint).scores(pairs, pairs.lengths(None), advance, folder / "scores.sqlite")


def chat(url: str, folder: Path, advance: Advance) -> None:
    options = ChatOptions(model="m", base_url=url, concurrency=AT_ONCE)
    requests = [(ChatMessage("user", text),) for text in TEXTS]
    list(replies(options, requests, KeptReplies(folder / "replies.jsonl"), advance))


def kept_in(folder: Path) -> int:
    """How many answers are in the files of ``folder``."""
    rows = sum(len(list(read_rows(path))) for path in folder.glob("*.jsonl"))
    for path in folder.glob("*.sqlite"):
        with VectorCache(path) as cache:
            rows += len(cache)
    return rows


@pytest.mark.parametrize("ask", [embed, rerank, chat])
def test_an_answer_is_kept_before_its_worker_asks_again_even_if_the_program_waits(ask: Ask, tmp_path: Path) -> None:
    waiting: list[int] = []
    are_many = Event()

    def noting(_: Any, answer: Any) -> Any:
        received = len(double.asked)
        waiting.append(received - kept_in(tmp_path))
        if received >= 2 * AT_ONCE:
            are_many.set()
        return answer

    def stop_until_there_are_many(done: int) -> None:
        if done:
            assert are_many.wait(LONGEST)

    with EndpointDouble(default=noting) as double:
        ask(double.url, tmp_path, stop_until_there_are_many)
    assert len(waiting) == kept_in(tmp_path) == len(TEXTS)
    assert max(waiting) <= AT_ONCE


class OneByOne:
    """Answers the first request at once, and another one whenever ``at_once`` are waiting, up to ``most``.

    So whatever was answered before was kept before, and at the end nothing moves.
    """

    def __init__(self, at_once: int, most: int) -> None:
        self.answered = 0
        self._received = 0
        self._at_once, self._most, self._is_over = at_once, most, False
        self._changed = Condition()

    def __call__(self, handler: Any, answer: Any) -> Any:
        with self._changed:
            ticket = self._received
            self._received += 1
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._is_over or self._is_next(ticket), LONGEST)
            if self._is_over:
                handler.close_connection = True
                return None
            self.answered += 1
            self._changed.notify_all()
        return answer

    def _is_next(self, ticket: int) -> bool:
        is_enough = self._received - self.answered >= self._at_once or ticket == 0
        return ticket == self.answered < self._most and is_enough

    def end(self) -> None:
        """Nobody is there any more: requests on their way are not answered."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


PROGRAM = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[4:]
import test_kept_answers
test_kept_answers.embed(sys.argv[1], Path(sys.argv[2]), lambda _: None, int(sys.argv[3]))
"""


@pytest.mark.parametrize("at_once", [1, AT_ONCE])
@pytest.mark.slow
def test_a_run_killed_after_each_tenth_batch_asks_again_for_one_that_arrived_and_those_on_their_way(
    at_once: int, tmp_path: Path
) -> None:
    with EndpointDouble() as double:
        command = [sys.executable, "-c", PROGRAM, double.url, str(tmp_path), str(at_once), *sys.path]
        for number in range(KILLS):
            probed = min(number, 1)  # each run but the first asks for one known text, to see that the model is the same
            double.default = gate = OneByOne(at_once, 10 + probed)
            with subprocess.Popen(command) as running:
                deadline = time.monotonic() + LONGEST
                while gate.answered < 10 + probed and time.monotonic() < deadline:
                    assert running.poll() is None
                    time.sleep(0.001)
                running.kill()
            gate.end()
        double.default = None
        assert subprocess.run(command, check=False).returncode == 0
    (vectors,) = tmp_path.glob("*.sqlite")
    with VectorCache(vectors) as cache:
        probe = cache.probe()
        assert len(cache) == len(TEXTS)
    assert probe is not None
    answered_again = sum(double.answered[text] - 1 for text in TEXTS if text != probe[0])
    assert answered_again <= KILLS, "of each ten answers the last alone may not have been kept"
    on_their_way = len(double.asked) - double.answered.total()
    assert on_their_way <= KILLS * at_once
