"""Answers of endpoints are on the disk before the worker that got them asks again, whatever the program does then."""

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from commands import LONGEST
from endpoint_double import EndpointDouble
from ragtrial.cache.journal import read_rows
from ragtrial.cache.vectors import VectorCache
from ragtrial.components.batching import TextList
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.endpoint import OpenAIEmbedder
from ragtrial.components.endpoints.chat import ChatMessage, ChatOptions, KeptReplies, replies
from ragtrial.components.refiners.rerankers import EndpointReranker, RerankEndpoint, TextPairs

TEXTS = [f"text {number} {'word ' * (number % 7)}".strip() for number in range(50)]
AT_ONCE = 4

Advance = Callable[[int], None]
Ask = Callable[[str, Path, Advance], None]
"""Asks the endpoint at a URL about each of ``TEXTS``, one in a request, with the answers in a folder."""


def embed(url: str, folder: Path, advance: Advance) -> None:
    embedder = OpenAIEmbedder(model="m", base_url=url, batch_size=1, concurrency=AT_ONCE)
    cached, source = CachedEmbedder(embedder, folder), TextList(TEXTS)
    cached.embed(source, "", cached.lengths(source, ""), advance)


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
