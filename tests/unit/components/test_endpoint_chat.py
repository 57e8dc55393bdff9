"""Chat through an endpoint: each reply is kept when it arrives, and no request is paid for twice."""

import base64
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import endpoint_double
from endpoint_double import EndpointDouble, saying
from ragtrial.cache.journal import append_row, read_rows
from ragtrial.components.endpoints.chat import ChatMessage, ChatOptions, ChatReply, ChatRequest, KeptReplies, replies
from ragtrial.errors import EndpointError


def options_of(double: EndpointDouble, **more: object) -> ChatOptions:
    return ChatOptions.model_validate({"model": "m", "base_url": double.url, **more})


def asking(*texts: str) -> list[ChatRequest]:
    return [(ChatMessage("system", "be brief"), ChatMessage("user", text)) for text in texts]


def test_a_request_is_in_the_form_of_chat_completions_and_a_reply_says_what_was_used() -> None:
    with EndpointDouble() as double:
        options = options_of(double, seed=3, max_tokens=9, fields={"top_p": 0.5}, price=1.0, output_price=10.0)
        ((_, reply),) = replies(options, asking("whales"), KeptReplies(None))
        assert double.asked[0].path == "/v1/chat/completions"
        assert double.asked[0].body == {
            "model": "m",
            "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "whales"}],
            "temperature": 0.0,
            "seed": 3,
            "max_tokens": 9,
            "top_p": 0.5,
        }
    assert reply == ChatReply("about be brief | whales", "stop", "m-2026", 4, 5)
    assert options.cost([reply, reply]) == pytest.approx(2 * (4 + 50) / 1e6)
    same_price = ChatOptions(model="m", price=1.0)
    assert same_price.cost([reply]) == pytest.approx((4 + 5) / 1e6)


def test_a_reply_without_text_is_no_failure_and_costs_what_was_read() -> None:
    empty = {"choices": [{"message": {"content": ""}}], "usage": {"prompt_tokens": 7, "completion_tokens": 0}}
    with EndpointDouble(default=lambda *_: empty) as double:
        options = options_of(double, price=2.0)
        ((_, reply),) = replies(options, asking("a"), KeptReplies(None))
    assert options.cost([reply]) == pytest.approx(14 / 1e6)
    refusal = {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}
    with EndpointDouble(default=lambda *_: refusal) as double:
        ((_, reply),) = replies(options_of(double, price=1.0), asking("a"), KeptReplies(None))
        assert reply == ChatReply("", "content_filter")
        assert options_of(double, price=1.0).cost([reply]) is None


def test_replies_are_kept_and_equal_requests_asked_once(tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    with EndpointDouble() as double:
        options = options_of(double)
        first = dict(replies(options, asking("a", "b", "a"), KeptReplies(file)))
        assert len(double.asked) == 2
        again = dict(replies(options, asking("b", "a", "c"), KeptReplies(file)))
        assert len(double.asked) == 3
        assert {request: again[request] for request in first} == first
        list(replies(options_of(double, temperature=1.0), asking("a"), KeptReplies(file)))
        assert len(double.asked) == 4, "another temperature is another request"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("ferry \ud83d", "ferry \ufffd"), ("\udc00\ud800", "\ufffd\ufffd"), ("\ud83d\ude00 whole", "\U0001f600 whole"),
    ],
)  # fmt: skip
def test_half_an_emoji_is_replaced_before_a_reply_is_kept(tmp_path: Path, sent: str, kept: str) -> None:
    file = tmp_path / "replies.jsonl"
    with EndpointDouble(default=saying(lambda _: sent)) as double:
        ((_, reply),) = replies(options_of(double), asking("a"), KeptReplies(file))
    (row,) = read_rows(file)
    assert row["reply"]["text"] == reply.text == kept


@pytest.mark.parametrize(
    "row", [5, [], "key", {}, {"key": "k"}, {"key": "k", "reply": 5}, {"key": "k", "reply": {"text": 5}},
            {"key": [], "reply": {"text": "a"}}, {"key": "k", "reply": {"text": "a", "input_tokens": "many"}}],
)  # fmt: skip
def test_a_row_that_is_no_reply_is_passed_over(tmp_path: Path, row: Any) -> None:
    append_row(tmp_path / "replies.jsonl", row)
    with EndpointDouble() as double:
        ((_, reply),) = replies(options_of(double), asking("a"), KeptReplies(tmp_path / "replies.jsonl"))
    assert reply.text == "about be brief | a"


OWN_KEY = "sk-own/+key=0123456789"
REPEATED = {
    "as it is": OWN_KEY,
    "in base64": base64.b64encode(OWN_KEY.encode()).decode(),
    "within base64": base64.b64encode(f"x {OWN_KEY} and more".encode()).decode(),
    "in a URL": f"https://host/?key={quote(OWN_KEY, safe='')}",
}


@pytest.mark.parametrize("form", REPEATED)
def test_a_key_that_a_server_repeats_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """Its variable is called as no secret is."""
    monkeypatch.setenv("MY_OWN", OWN_KEY)
    encoded = base64.b64encode(OWN_KEY.encode()).decode()[4:-4]
    file = tmp_path / "replies.jsonl"

    def repeat(_: Any, answer: Any) -> Any:
        answer["choices"][0] |= {"message": {"content": f"it is {REPEATED[form]}."}, "finish_reason": REPEATED[form]}
        return {**answer, "model": REPEATED[form]}

    with EndpointDouble(faults=[repeat, endpoint_double.status(418, f"no {REPEATED[form]}")]) as double:
        options = options_of(double, api_key="${MY_OWN}", concurrency=1)
        with pytest.raises(EndpointError) as error:
            list(replies(options, asking("a", "b"), KeptReplies(file)))
    written = file.read_text()
    for text in (written, str(error.value)):
        assert "${MY_OWN}" in text
        assert not any(secret in text for secret in (OWN_KEY, encoded, quote(OWN_KEY, safe="")))
