"""Chat through an endpoint: each reply is kept when it arrives, and no request is paid for twice."""

from __future__ import annotations

from pathlib import Path

import pytest

import endpoint_double
from endpoint_double import EndpointDouble
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


def test_a_reply_of_no_tokens_costs_what_was_read() -> None:
    empty = {"choices": [{"message": {"content": ""}}], "usage": {"prompt_tokens": 7, "completion_tokens": 0}}
    with EndpointDouble(default=lambda *_: empty) as double:
        options = options_of(double, price=2.0)
        ((_, reply),) = replies(options, asking("a"), KeptReplies(None))
    assert options.cost([reply]) == pytest.approx(14 / 1e6)


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


def test_what_arrived_before_a_failure_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    with EndpointDouble(faults=[None, None, endpoint_double.status(400)], default=None) as double:
        options = options_of(double, concurrency=1)
        with pytest.raises(EndpointError, match="answered 400"):
            list(replies(options, asking(*"abcdefgh"), KeptReplies(file)))
        begun = len(double.asked)
        assert len(dict(replies(options, asking(*"abcdefgh"), KeptReplies(file)))) == 8
        assert len(double.asked) == begun + 8 - (begun - 1)


def test_a_model_that_wrote_nothing_is_no_failure() -> None:
    refusal = {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}
    with EndpointDouble(default=lambda *_: refusal) as double:
        ((_, reply),) = replies(options_of(double, price=1.0), asking("a"), KeptReplies(None))
        assert reply == ChatReply("", "content_filter")
        assert options_of(double, price=1.0).cost([reply]) is None


@pytest.mark.parametrize("answer", [{}, {"choices": []}, {"choices": [{"message": {"content": 5}}]}, [], "text"])
def test_an_answer_of_another_form_is_an_error(answer: object) -> None:
    said = r"^the model 'm' at http://127.0.0.1:\d+/v1 answered without"
    with EndpointDouble(default=lambda *_: answer) as double, pytest.raises(EndpointError, match=said):
        list(replies(options_of(double), asking("a"), KeptReplies(None)))
