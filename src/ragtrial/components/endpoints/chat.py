"""Chat completions from OpenAI-compatible endpoints; each reply is kept the moment it arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.journal import append_row, read_rows
from ragtrial.components.endpoints.answers import billed, member, named
from ragtrial.components.endpoints.bodies import chat_budget, whole_characters
from ragtrial.components.endpoints.chat_text import message_text, spoken
from ragtrial.components.endpoints.client import Client
from ragtrial.components.endpoints.concurrency import as_they_come
from ragtrial.components.endpoints.options import EndpointOptions, Price
from ragtrial.components.endpoints.refusals import Refusals
from ragtrial.errors import EndpointError, RefusedError, without_secrets


class ChatOptions(EndpointOptions):
    """A chat model behind an OpenAI-compatible endpoint."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    """The sampling temperature (empty: not sent, for models that do not accept one)."""

    seed: int | None = None
    """The seed to send with each request; some endpoints then repeat their answers."""

    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """The maximum number of tokens in a reply (default: the endpoint's; reasoning models need `fields:
    {max_completion_tokens: 2000}` instead)."""

    output_price: Price | None = None
    """The price of a million output tokens (default: `price`)."""

    @property
    def reply_limit(self) -> int | None:
        """The most tokens of a reply, None where none is sent."""
        sent = {"max_tokens": self.max_tokens, **self.fields}
        limits = [sent.get(name) for name in ("max_completion_tokens", "max_tokens", "max_output_tokens")]
        return next((limit for limit in limits if isinstance(limit, int) and limit > 0), None)

    def cost(self, replies: Iterable[ChatReply]) -> float | None:
        """The cost of ``replies``; None without a price, or where a reply does not say its tokens.

        A request that was refused costs nothing.
        """
        read = written = 0
        for reply in replies:
            if reply.refusal is not None:
                continue
            if reply.input_tokens is None or reply.output_tokens is None:
                return None
            read, written = read + reply.input_tokens, written + reply.output_tokens
        return self.cost_of(read, written)

    def cost_of(self, read: float, written: float) -> float | None:
        """The cost of reading and writing a number of tokens; None without a price."""
        if self.price is None:
            return None
        return (read * self.price + written * (self.price if self.output_price is None else self.output_price)) / 1e6


@dataclass(frozen=True)
class ChatMessage:
    """One message; ``role`` is system, user or assistant."""

    role: str
    content: str


_CUT = ("length", "max_tokens", "model_length", "max_output_tokens")
"""What services call the end of a reply at a limit of tokens."""

ChatRequest = tuple[ChatMessage, ...]


@dataclass(frozen=True)
class ChatReply:
    """A reply of the model; empty where it refused, or used up its tokens on reasoning.

    ``finish`` is why it ended ("stop"; "length" where it was truncated), ``model`` the name under which it answered;
    tokens are as billed. None where the endpoint does not say.
    """

    text: str
    finish: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    refusal: str | None = None
    """Why the endpoint refused to answer, None if it answered; such a reply is kept in no file."""

    @property
    def is_cut(self) -> bool:
        """Whether it ended at a limit of tokens: its last line is not whole, and nothing in it is the last word."""
        return (self.finish or "").lower() in _CUT


def chat(client: Client, options: ChatOptions, request: ChatRequest) -> ChatReply:
    """The model's reply to one request, from the endpoint, without its thoughts. Raises EndpointError."""
    most = chat_budget(sum(len(message.content) for message in request))
    answer = client.post("chat/completions", _body(options, request), most)
    who = named(client)
    choices = member(answer, "choices", list, who)
    first = choices[0] if choices and isinstance(choices[0], Mapping) else {}
    text = message_text(first.get("message"))
    if text is None:
        raise EndpointError(f"{who} answered without a message of text.")
    finish, model = first.get("finish_reason"), answer.get("model")
    return ChatReply(
        text,
        finish if isinstance(finish, str) else None,
        model if isinstance(model, str) else None,
        billed(answer, "usage", ("prompt_tokens",)),
        billed(answer, "usage", ("completion_tokens",)),
    )


def _body(options: ChatOptions, request: ChatRequest) -> dict[str, Any]:
    chosen = {"temperature": options.temperature, "seed": options.seed, "max_tokens": options.max_tokens}
    return {
        "model": options.model,
        "messages": [asdict(message) for message in request],
        **{name: value for name, value in chosen.items() if value is not None},
        **options.fields,
    }


class KeptReplies:
    """Replies by model and request, in the file ``path``; with None nothing is read or kept.

    Raises WorkspaceError if the file cannot be read or written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        rows = read_rows(path) if path is not None else ()
        self._replies = dict(pair for row in rows if (pair := _kept(row)) is not None)

    @property
    def has_answers(self) -> bool:
        """Whether there is a reply that is no refusal."""
        return any(reply.refusal is None for reply in self._replies.values())

    def get(self, options: ChatOptions, request: ChatRequest) -> ChatReply | None:
        """The reply to an equal request, None if none is kept."""
        return self._replies.get(_key(options, request))

    def add(self, options: ChatOptions, request: ChatRequest, reply: ChatReply) -> None:
        """Keep a reply: it is on the disk when this returns. A refusal is kept in memory only: it may pass."""
        key = _key(options, request)
        if self._path is not None and reply.refusal is None:
            append_row(self._path, {"key": key, "reply": {**asdict(reply), "refusal": None}})
        self._replies[key] = reply


def _kept(row: Any) -> tuple[str, ChatReply] | None:
    """The key and the reply in a row of the file, None for what is no such row; as clean as they come in today."""
    try:
        key, reply = row["key"], ChatReply(**row["reply"])
    except (TypeError, KeyError):
        return None
    texts = (key, reply.text, reply.finish or "", reply.model or "")
    tokens = (reply.input_tokens or 0, reply.output_tokens or 0)
    if not (all(isinstance(text, str) for text in texts) and all(type(count) is int for count in tokens)):
        return None
    return key, replace(reply, text=spoken(without_secrets(whole_characters(reply.text))))


def _key(options: ChatOptions, request: ChatRequest) -> str:
    return fingerprint([options.answered_by(), _body(options, request)])


def replies(
    options: ChatOptions,
    requests: Iterable[ChatRequest],
    kept: KeptReplies,
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[tuple[ChatRequest, ChatReply]]:
    """Each different request with its reply: first those that are ``kept``, then the others as they arrive.

    A new reply is kept before the next request is sent; the endpoint is asked only for what is missing, and its key
    needed only then. ``advance`` counts the requests that are done. A request that is refused has a reply with a
    ``refusal``. Raises EndpointError when those on their way are in, also where all are refused or too many in a row,
    and ModelNotFoundError if the variable of the key is not set.
    """
    missing: list[ChatRequest] = []
    for request in dict.fromkeys(requests):
        reply = kept.get(options, request)
        if reply is None:
            missing.append(request)
        else:
            advance(1)
            yield request, reply
    if not missing:
        return
    refusals = Refusals(is_known=kept.has_answers)
    with Client(options) as client:

        def ask(request: ChatRequest) -> ChatReply:
            try:
                reply = chat(client, options, request)
                refusals.note_answer()
            except RefusedError as error:
                refusals.note(error)
                reply = ChatReply("", refusal=str(error))
            kept.add(options, request, reply)
            return reply

        for request, reply in as_they_come(ask, missing, options.concurrency):
            advance(1)
            yield request, reply
    refusals.check()
