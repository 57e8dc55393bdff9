"""The client of endpoints: patient with busy servers, exact about what they answer, silent about keys."""

import json
import logging
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import endpoint_double
from endpoint_double import EndpointDouble, Fault, vector_of
from expectations import message_of
from ragtrial.components.embedders.endpoint import embed
from ragtrial.components.endpoints.client import Client, asked_wait
from ragtrial.components.endpoints.options import EndpointOptions
from ragtrial.components.refiners.rerankers import rerank
from ragtrial.config.strict_yaml import parse_yaml
from ragtrial.engines.batching import as_they_come
from ragtrial.errors import EndpointError, ModelNotFoundError, RefusedError

TEXTS = ["blue whales", "ships", "a blue boat on the sea"]


def options_of(double: EndpointDouble, **more: object) -> EndpointOptions:
    return EndpointOptions.model_validate({"model": "m", "base_url": double.url, **more})


def embedded(double: EndpointDouble, waits: list[float], **more: object) -> list[list[float]]:
    """The vectors of TEXTS; what the client waits is noted instead."""
    with Client(options_of(double, **more), waits.append) as client:
        return list(embed(client, TEXTS, {})[0].tolist())


RIGHT = [vector_of(text).tolist() for text in TEXTS]

PASSING: dict[str, Fault] = {
    "429": endpoint_double.soon(),
    "408": endpoint_double.status(408),
    "500": endpoint_double.status(500),
    "529": endpoint_double.status(529, "overloaded"),
    "cut body": endpoint_double.cut,
    "closed connection": endpoint_double.hang_up,
    "no JSON": endpoint_double.not_json,
    "dripping body": endpoint_double.drip,
    "silence": endpoint_double.silent,
}


@pytest.mark.parametrize("name", PASSING)
def test_what_may_pass_is_asked_again(name: str) -> None:
    waits, before = list[float](), Client.requests_sent
    with EndpointDouble(faults=[PASSING[name], PASSING[name]]) as double:
        assert embedded(double, waits, timeout=0.3) == RIGHT
        assert len(double.asked) == 3
        assert Client.requests_sent - before == 3
    assert len(waits) >= 2


@pytest.mark.parametrize("name", PASSING)
def test_what_does_not_pass_is_an_error_after_the_last_retry(name: str) -> None:
    with EndpointDouble(default=PASSING[name]) as double:
        with pytest.raises(EndpointError, match=r"^the endpoint http://127.0.0.1:\d+/v1/embeddings .*, 2 times\."):
            embedded(double, [], timeout=0.2, retries=1)
        assert len(double.asked) == 2


def gemini(handler: Any, _: Any) -> None:
    """An error as Gemini has it in OpenAI's form: in a list."""
    handler.reply(400, json.dumps([{"error": {"code": 400, "message": "API key expired.", "status": "INVALID"}}]))


@pytest.mark.parametrize(("fault", "said"), [
    (endpoint_double.one_less, "answered with 2 results for 3; expected one for each."),
    (endpoint_double.one_more, "answered with 4 results for 3; expected one for each."),
    (endpoint_double.twice, "answered with the indexes [0, 0, 0]; expected each of 0 to 2 once."),
    (endpoint_double.not_a_number, "answered with JSON that cannot be used: it has the number NaN"),
    (gemini, "answered 400: API key expired. "),
    (endpoint_double.status(404, "no such model"), "answered 404: no such model. Check base_url and model."),
    (endpoint_double.status(400, "too\n long"), "answered 400: too long. If a text is too long for it, use"),
    (endpoint_double.status(429, "pay: insufficient_quota"), "answered 429: pay: insufficient_quota."),
    (endpoint_double.status(429, "tomorrow", retry_after="86400"), "and asks to wait for 86,400 s."),
])  # fmt: skip
def test_an_answer_that_no_repetition_mends_is_an_error_at_once(fault: Fault, said: str) -> None:
    with EndpointDouble(default=fault) as double:
        assert said in message_of(EndpointError, embedded, double, [])
        assert len(double.asked) == 1


def test_waits_double_or_are_as_told_for_all_requests() -> None:
    waits: list[float] = []
    with EndpointDouble(faults=[endpoint_double.status(500)] * 4) as double:
        embedded(double, waits)
    assert all(0.25 * 2**number <= wait <= 0.5 * 2**number for number, wait in enumerate(waits))
    asked: list[float] = []
    with EndpointDouble(faults=[endpoint_double.status(429, retry_after="7")]) as double:
        embedded(double, asked)
    assert 7 <= asked[0] <= 7.2
    waits.clear()
    fault = endpoint_double.status(429, retry_after="20")
    with EndpointDouble(faults=[fault]) as double, Client(options_of(double), waits.append) as client:
        embed(client, TEXTS, {})
        embed(client, TEXTS, {})
    assert len(waits) == 3, "the one asked to wait, its second try, and the other request"
    assert all(wait > 15 for wait in waits)


WAITS: dict[str, tuple[dict[str, str], str, float | None]] = {
    "a header": ({"retry-after": "7"}, "Please try again in 9s.", 7),
    "Azure's header": ({"retry-after-ms": "1500", "retry-after": "2"}, "", 1.5),
    "a date": ({"retry-after": "in an hour"}, "", 3600),
    "OpenAI": ({}, "Rate limit reached for requests. Limit: 3 / min. Please try again in 20s.", 20),
    "OpenAI, milliseconds": ({}, "Please try again in 350ms.", 0.35),
    "OpenAI, a day's limit": ({}, "Please try again in 6h0m0s.", 21_600),
    "Groq": ({}, "Please try again in 1m12.5s. Need more tokens?", 72.5),
    "Azure": ({}, "Please retry after 24 seconds.", 24),
    "Gemini": ({}, '[{"error": {"details": [{"@type": "RetryInfo", "retryDelay": "34s"}]}}]', 34),
    "Gemini, in words": ({}, "You exceeded your quota. Please retry in 34.25s.", 34.25),
    "LiteLLM": ({}, "No deployments available. Try again in 5 seconds.", 5),
    "minutes": ({}, "Try again in 2 minutes", 120),
    "no time": ({"retry-after": "nan"}, "Limit: 10s per 1 minute. Try again later.", None),
}


@pytest.mark.parametrize("service", WAITS)
def test_the_wait_that_a_service_names_is_read(service: str) -> None:
    headers, text, seconds = WAITS[service]
    if service == "a date":
        headers = {"retry-after": formatdate(time.time() + 3600, usegmt=True)}
    near = None if seconds is None else pytest.approx(seconds, abs=60 if service == "a date" else 0.01)
    assert asked_wait(headers, text) == near


CODES: dict[str, tuple[object, int]] = {
    "OpenRouter": ({"error": {"message": "slow down", "code": 429}}, 429),
    "a number in a text": ({"error": {"code": "503"}}, 503),
    "OpenAI": ({"error": {"message": "x", "type": "requests", "code": "rate_limit_exceeded"}}, 429),
    "Gemini": ({"error": {"code": 8, "status": "RESOURCE_EXHAUSTED"}}, 429),
    "Anthropic": ({"error": {"type": "overloaded_error", "message": "Overloaded"}}, 503),
    "vLLM": ({"object": "error", "message": "x", "type": "InternalServerError", "code": 500}, 500),
    "FastChat": ({"object": "error", "message": "x", "code": 40303}, 400),
    "Ollama": ({"error": "model is overloaded"}, 503),
    "of a choice": ({"choices": [{"error": {"code": 502}}]}, 502),
    "of the content": ({"error": {"code": "content_filter"}}, 400),
}


@pytest.mark.parametrize("service", CODES)
def test_an_error_in_a_body_of_status_200_has_the_status_of_its_code(service: str) -> None:
    body, status = CODES[service]
    with EndpointDouble(default=lambda *_: body) as double:
        with pytest.raises(EndpointError, match=f"answered 200 with the error {status}") as error:
            embedded(double, [], retries=1)
        assert len(double.asked) == (1 if status == 400 else 2)
    assert isinstance(error.value, RefusedError) == (status == 400)


def test_an_unanswered_address_is_given_up_and_scores_come_in_order() -> None:
    with EndpointDouble() as double:
        options = options_of(double)
    waits: list[float] = []
    said = r"cannot be reached \(.*refused\), 3 times\.$"
    with Client(options, waits.append) as client, pytest.raises(EndpointError, match=said):
        embed(client, TEXTS, {})
    assert len(waits) == 2
    with EndpointDouble() as double, Client(options_of(double)) as client:
        reply = rerank(client, "a blue ship", TEXTS)
        assert double.asked[0].body == {"model": "m", "query": "a blue ship", "documents": TEXTS}
    assert reply.scores.tolist() == pytest.approx([1, 0, 2], abs=1e-4)
    assert reply.tokens == 9
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(50):
            taken.append(number)
            yield number

    found = as_they_come(lambda number: number * number, items(), 2)
    first = next(found)
    assert len(taken) <= 5
    assert dict([first, *found]) == {number: number * number for number in range(50)}


def test_a_key_is_sent_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("MY_OWN", "sk-very-secret")
    caplog.set_level(logging.DEBUG)
    fault = endpoint_double.status(401, "Incorrect API key provided: sk-very-secret.")
    with EndpointDouble(faults=[None, fault]) as double:
        options = options_of(double, api_key="${MY_OWN}")
        assert embedded(double, [], api_key="${MY_OWN}") == RIGHT
        with pytest.raises(EndpointError) as error:
            embedded(double, [], api_key="${MY_OWN}")
        assert double.asked[0].headers["Authorization"] == "Bearer sk-very-secret"
    assert "answered 401: Incorrect API key provided: ${MY_OWN}. Check the key in MY_OWN." in str(error.value)
    assert options.model_dump(mode="json")["api_key"] == "${MY_OWN}"
    assert "sk-very-secret" not in f"{options!r} {options.summary()} {options.model_dump_json()} {caplog.text}"


def test_a_key_is_named_by_its_variable_and_sent_to_its_own_host_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with EndpointDouble() as double:
        embedded(double, [])
        assert "Authorization" not in double.asked[0].headers
    assert EndpointOptions(model="m").key() == "sk-very-secret"
    monkeypatch.setenv("MY_OWN", "sk-very-secret")

    def read(key: str) -> EndpointOptions:
        return EndpointOptions.model_validate(parse_yaml(f"model: m\napi_key: {key}", "c.yaml", Path()).value)

    assert read("${MY_OWN}").key_variable == "MY_OWN"
    for wrong in ("sk-very-secret", "a${MY_OWN}", "${OTHER_ONE:-sk-very-secret}"):
        with pytest.raises(ValidationError) as error:
            read(wrong)
        assert error.value.errors()[0]["msg"].endswith("like ${OPENAI_API_KEY}; keys do not belong in files.")


@pytest.mark.parametrize(
    ("key", "fault"),
    [("", "is not set: it holds"), ("sk-\u00e9", "contains characters that no"), ("sk-a\nb", "contains characters")],
)
def test_a_key_that_cannot_be_sent_is_an_error_first(key: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ModelNotFoundError, match=f"^the environment variable OPENAI_API_KEY {fault}") as error:
        Client(EndpointOptions(model="m"))
    assert "sk-" not in str(error.value)


@pytest.mark.parametrize(
    "url", ["api.openai.com/v1", "ftp://host/v1", "https://", "http://u:p@host/v1", "http://h/?key=1"]
)
def test_a_url_is_one_and_holds_no_secret(url: str) -> None:
    with pytest.raises(ValidationError, match="must be a URL"):
        EndpointOptions(model="m", base_url=url)


@pytest.mark.parametrize("path", ["deployments/d", "v1?api-version=2024-02-01"])
def test_a_url_of_azure_s_old_api_is_an_error_that_names_the_new_one(path: str) -> None:
    with pytest.raises(ValidationError, match=r"must be https://me\.openai\.azure\.com/openai/v1 for Azure"):
        EndpointOptions(model="m", base_url=f"https://me.openai.azure.com/openai/{path}")


@pytest.mark.parametrize(
    "rows",
    [
        {"data": [{"index": 0, "relevance_score": 2}, {"index": 1, "relevance_score": 1}]},
        [{"index": 1, "score": 1}, {"index": 0, "score": 2}],
    ],
    ids=["Voyage", "TEI"],
)
def test_scores_in_the_forms_of_other_servers_are_read(rows: object) -> None:
    with EndpointDouble(default=lambda *_: rows) as double, Client(options_of(double)) as client:
        assert rerank(client, "q", ["a", "b"]).scores.tolist() == [2, 1]
