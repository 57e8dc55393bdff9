"""A refusal costs the text that it is about, fields are the user's, and waits are kept, for every kind of endpoint."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import endpoint_double
from endpoint_double import EndpointDouble, Fault, vector_of
from ragtrial.components.embedders.base import EMBEDDERS
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.endpoint import embed
from ragtrial.components.endpoints.chat import ChatMessage, ChatOptions, KeptReplies, replies
from ragtrial.components.endpoints.client import Client
from ragtrial.components.endpoints.options import EndpointOptions
from ragtrial.components.refiners.rerankers import EndpointReranker, RerankEndpoint, TextPairs
from ragtrial.errors import EmbedderError, EndpointError, RefusedError

REFUSALS: dict[str, tuple[int, Any]] = {
    "Azure's filter": (400, {"error": {"message": "filtered by the content policy", "code": "content_filter"}}),
    "vLLM": (400, {"object": "error", "message": "This model's maximum context length is 512 tokens.", "code": 400}),
    "TEI": (413, {"error": "Input validation error: `inputs` must have less than 512 tokens", "error_type": "x"}),
    "Mistral": (422, {"detail": [{"loc": ["body", "input"], "msg": "too long"}]}),
    "OpenRouter": (403, {"error": {"message": "flagged by moderation", "code": 403, "metadata": {"reasons": ["x"]}}}),
    "in a body of 200": (200, {"error": {"message": "content filtered", "code": 400}}),
    "by law": (451, {"message": "not here"}),
    "a plain text": (400, "too long"),
}
"""Status and body with which services refuse one text."""


def refusing(name: str, *words: str) -> Fault:
    """Refuses each request with one of ``words`` in it."""
    status, body = REFUSALS[name]

    def fault(handler: Any, answer: Any) -> Any:
        if not any(word in json.dumps(handler.double.asked[-1].body) for word in words):
            return answer
        handler.reply(status, body if isinstance(body, str) else json.dumps(body))
        return None

    return fault


def cached(double: EndpointDouble, folder: Path, **options: Any) -> CachedEmbedder:
    return CachedEmbedder(
        EMBEDDERS["openai"].model_validate({"model": "m", "base_url": double.url, "concurrency": 1, **options}), folder
    )


@pytest.mark.parametrize("name", REFUSALS)
def test_a_text_that_is_refused_is_named_and_all_others_are_embedded(tmp_path: Path, name: str) -> None:
    texts = [f"text {number} " + "word " * number for number in range(20)]
    with EndpointDouble(default=refusing(name, "text 7 ", "text 12 ")) as double:
        embedder = cached(double, tmp_path)
        with pytest.raises(EmbedderError, match=r"2 texts were refused, the longest 'text 12 .* All others are"):
            embedder.embed_documents(texts)
        sound = [text for text in texts if not text.startswith(("text 7 ", "text 12 "))]
        double.default = endpoint_double.status(500)
        assert embedder.embed_documents(sound).shape == (18, 16), "they are kept"


@pytest.mark.parametrize("name", REFUSALS)
def test_a_pair_that_is_refused_has_no_score_and_the_others_have_theirs(tmp_path: Path, name: str) -> None:
    texts = ["a ship", "a whale", "a forbidden thing", "the sea"]
    pairs = TextPairs(["which ship?"], texts, np.zeros(4, dtype=np.int64), np.arange(4))
    with EndpointDouble(default=refusing(name, "forbidden")) as double:
        endpoint = RerankEndpoint(model="m", base_url=double.url, concurrency=1)
        scores = EndpointReranker(endpoint)
        values = scores.scores(pairs, pairs.lengths(None), lambda _: None, tmp_path / "pairs.sqlite")[:, 0]
    assert np.isnan(values).tolist() == [False, False, True, False]
    assert scores.refusal is not None
    assert " answered " in scores.refusal


@pytest.mark.parametrize("name", REFUSALS)
def test_a_chat_request_that_is_refused_costs_nothing_but_its_reply(tmp_path: Path, name: str) -> None:
    requests = [(ChatMessage("user", f"number {number}."),) for number in range(6)]
    with EndpointDouble(default=refusing(name, "number 0.", "number 4.")) as double:
        options = ChatOptions(model="m", base_url=double.url, concurrency=1, price=1.0)
        kept = KeptReplies(tmp_path / "replies")
        found = dict(replies(options, requests, kept))
        assert [found[request].refusal is not None for request in requests] == [True, False, False, False, True, False]
        assert options.cost(found.values()) == pytest.approx(
            options.cost(found[request] for request in requests[1:4] + requests[5:])
        )
        double.default, before = None, len(double.asked)
        again = dict(replies(options, requests, KeptReplies(tmp_path / "replies")))
        assert all(reply.refusal is None for reply in again.values())
        assert len(double.asked) == before + 2, "a refusal is kept in no file: it may pass"


ASKS: dict[str, Callable[[EndpointDouble, Path], object]] = {
    "embedding": lambda double, folder: cached(double, folder).embed_documents([f"text {n}" for n in range(40)]),
    "chat": lambda double, folder: list(
        replies(
            ChatOptions(model="m", base_url=double.url),
            [(ChatMessage("user", str(n)),) for n in range(40)],
            KeptReplies(None),
        )
    ),
    "chat, one request": lambda double, folder: list(
        replies(ChatOptions(model="m", base_url=double.url), [(ChatMessage("user", "1"),)], KeptReplies(None))
    ),
}


@pytest.mark.parametrize("kind", ASKS)
def test_a_server_that_refuses_everything_is_an_error_soon(tmp_path: Path, kind: str) -> None:
    with EndpointDouble(default=endpoint_double.status(400, "Unsupported parameter: 'speed'")) as double:
        with pytest.raises(RefusedError, match="answered 400: Unsupported parameter"):
            ASKS[kind](double, tmp_path)
        assert len(double.asked) < 40


@pytest.mark.parametrize(
    "message", ["Your credit balance is low", "Billing is inactive", "Invalid API key", "no quota"]
)
def test_a_refusal_that_is_about_the_account_is_about_no_text(message: str) -> None:
    with EndpointDouble(default=endpoint_double.status(400, message)) as double, pytest.raises(EndpointError) as error:
        list(replies(ChatOptions(model="m", base_url=double.url), [(ChatMessage("user", "1"),)], KeptReplies(None)))
    assert not isinstance(error.value, RefusedError)


def sent(kind: str, double: EndpointDouble, folder: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The body that a kind of endpoint is sent with some ``fields``."""
    if kind == "chat":
        options = ChatOptions(model="m", base_url=double.url, seed=1, max_tokens=9, fields=dict(fields))
        list(replies(options, [(ChatMessage("user", "a"),)], KeptReplies(None)))
    elif kind == "rerank":
        endpoint = RerankEndpoint(model="m", base_url=double.url, fields=dict(fields))
        pairs = TextPairs(["q"], ["a"], np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
        EndpointReranker(endpoint).scores(pairs, pairs.lengths(None), lambda _: None)
    else:
        embedder = EMBEDDERS[kind].model_validate({"model": "m", "base_url": double.url, "fields": dict(fields)})
        CachedEmbedder(embedder, folder).embed_documents(["a"])
    return double.asked[-1].body


FIELDS: list[tuple[str, str, Any]] = [
    ("chat", "temperature", 0.0), ("chat", "seed", 1), ("chat", "max_tokens", 9),
    ("chat", "max_completion_tokens", None),
    ("openai", "encoding_format", "base64"), ("openai", "user", None), ("cohere", "truncate", "END"),
    ("cohere", "input_type", "search_document"), ("cohere", "embedding_types", ["float"]),
    ("voyage", "truncation", True), ("voyage", "input_type", "document"), ("voyage", "encoding_format", "base64"),
    ("rerank", "truncate_prompt_tokens", None), ("rerank", "top_n", None),
]  # fmt: skip
"""Kinds of endpoints, fields, and what is sent where the user says nothing."""


@pytest.mark.parametrize(("kind", "field", "usual"), FIELDS)
def test_every_field_is_the_users_to_set_and_to_leave_out(tmp_path: Path, kind: str, field: str, usual: Any) -> None:
    with EndpointDouble() as double:
        assert sent(kind, double, tmp_path / "usual", {}).get(field) == usual
        assert field not in sent(kind, double, tmp_path / "none", {field: None})
        chosen = ["float"] if field == "embedding_types" else "float" if field == "encoding_format" else 7
        assert sent(kind, double, tmp_path / "own", {field: chosen})[field] == chosen


@pytest.mark.parametrize("name", ["max_tokens", "temperature", "seed"])
def test_a_refusal_that_names_a_field_says_how_to_leave_it_out(name: str) -> None:
    fault = endpoint_double.status(400, f"Unsupported parameter: '{name}'")
    options: dict[str, Any] = {"model": "m", "seed": 1, "max_tokens": 5}
    with EndpointDouble(default=fault) as double, pytest.raises(EndpointError) as error:
        list(replies(ChatOptions(base_url=double.url, **options), [(ChatMessage("user", "a"),)], KeptReplies(None)))
    assert f"`fields: {{{name}: null}}` (of a command: --field {name}=null)." in str(error.value)


def test_the_usual_retries_outlast_a_limit_per_minute() -> None:
    waits: list[float] = []
    with EndpointDouble(default=endpoint_double.status(429)) as double:
        options = EndpointOptions(model="m", base_url=double.url)
        with Client(options, waits.append) as client, pytest.raises(EndpointError, match="raise retries or lower conc"):
            embed(client, ["a"], {})
    assert sum(waits) > 60


def test_a_limit_uses_up_no_retry_while_other_requests_are_answered() -> None:
    with EndpointDouble(default=endpoint_double.status(429)) as double:
        options = EndpointOptions(model="m", base_url=double.url, retries=2)
        turns: list[float] = []

        def others(seconds: float) -> None:
            """While this request waits, another is answered, ten times; then it is itself."""
            turns.append(seconds)
            double.default = None
            if len(turns) < 10:
                embed(client, ["b"], {})
                double.default = endpoint_double.status(429)

        with Client(options, others) as client:
            assert embed(client, ["a"], {})[0][0].tolist() == vector_of("a").tolist()
    assert len(turns) == 10
