"""Many ways in which an endpoint misbehaves: each is a named error in time, in little memory, without the key."""

import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from misbehaving import KEY, REPLY, SCORES, SERVICES, SOUND, TEXTS, TRANSPORT, VECTORS, misbehaving, wrong_modes
from ragtrial.components.embedders.endpoint import embed
from ragtrial.components.endpoints.chat import ChatMessage, ChatOptions, chat
from ragtrial.components.endpoints.client import Client
from ragtrial.components.endpoints.options import EndpointOptions
from ragtrial.components.refiners.rerankers import rerank
from ragtrial.errors import EndpointError

RIGHT = {"embeddings": VECTORS, "rerank": SCORES, "chat": REPLY}
TIMEOUT = 0.5


def answer(service: str, url: str, timeout: float) -> Any:
    """What is taken for the answer of a service, and the tokens that it billed."""
    given = {"model": "m", "base_url": url, "api_key": "${MY_OWN}", "timeout": timeout, "retries": 0}
    with Client((ChatOptions if service == "chat" else EndpointOptions).model_validate(given)) as client:
        if service == "embeddings":
            vectors, tokens = embed(client, TEXTS, {})
            return vectors.tolist(), tokens
        if service == "rerank":
            ranked = rerank(client, "a blue ship", TEXTS)
            return ranked.scores.tolist(), ranked.tokens
        assert isinstance(client.options, ChatOptions)
        reply = chat(client, client.options, (ChatMessage("user", TEXTS[0]),))
        assert KEY not in repr(reply)
        return reply.text, reply.input_tokens


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_OWN", KEY)


def peak() -> int:
    """The most memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@pytest.mark.parametrize("service", SERVICES)
def test_whatever_an_endpoint_does_is_a_named_error_in_time_and_in_little_memory(service: str) -> None:
    modes = wrong_modes(service)
    before = peak()

    def wrong(numbered: tuple[int, str]) -> str | None:
        number, name = numbered
        timeout = TIMEOUT if name in TRANSPORT else 20.0
        begin = time.monotonic()
        try:
            taken = answer(service, url(number, service), timeout)
        except EndpointError as error:
            took = time.monotonic() - begin
            message = str(error)
            if KEY in message or not message.startswith("the ") or message.endswith(("().", ": .")):
                return f"{name}: {message}"
            return f"{name}: {took:.1f} s" if took > timeout + 2 else None
        except Exception as error:  # noqa: BLE001 - the claim is that there is no other
            return f"{name}: {error!r}"
        return f"{name}: accepted {str(taken)[:80]}"

    with misbehaving(list(modes.values())) as url, ThreadPoolExecutor(6) as pool:
        assert [fault for fault in pool.map(wrong, enumerate(modes)) if fault] == []
    assert peak() - before < 300e6


@pytest.mark.parametrize("service", SERVICES)
def test_an_odd_answer_that_is_sound_in_all_that_counts_is_taken(service: str) -> None:
    with misbehaving(list(SOUND.values())) as url:
        for number, name in enumerate(SOUND):
            value, tokens = answer(service, url(number, service), 20.0)
            assert value == RIGHT[service], name
            assert tokens in (None, 7, 10), name
            assert tokens is None or not name.startswith(("tokens", "no usage", "usage")), name
