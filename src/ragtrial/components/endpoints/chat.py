"""Chat models behind endpoints: prompts, requests, the text of replies, and a budget."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.journal import append_row, read_rows
from ragtrial.components.endpoints.client import Client, Refusals, answer_budget, billed, member, named
from ragtrial.components.endpoints.options import EndpointOptions, Price
from ragtrial.components.tokenizers import estimated_tokens, most_tokens
from ragtrial.dataset.texts import read_text, without_unseen
from ragtrial.engines.batching import as_they_come
from ragtrial.errors import EndpointError, Fault, InputError, RefusedError
from ragtrial.progress import Advance
from ragtrial.records import Question, Written


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
        """The maximum number of tokens of a reply; None if no limit is sent."""
        sent = {"max_tokens": self.max_tokens, **self.fields}
        limits = [sent.get(name) for name in ("max_completion_tokens", "max_tokens", "max_output_tokens")]
        return next((limit for limit in limits if isinstance(limit, int) and limit > 0), None)

    def cost(self, replies: Iterable[ChatReply]) -> float | None:
        """The cost of ``replies``; None without a price, or if a reply does not report its tokens.

        A request that was refused costs nothing.
        """
        tokens = [(reply.input_tokens, reply.output_tokens) for reply in replies if reply.refusal is None]
        if any(None in pair for pair in tokens):
            return None
        return self.cost_of(sum(read or 0 for read, _ in tokens), sum(written or 0 for _, written in tokens))

    def cost_of(self, read: float, written: float) -> float | None:
        """The cost of reading and writing a number of tokens; None without a price."""
        if self.price is None:
            return None
        output_price = self.price if self.output_price is None else self.output_price
        return (read * self.price + written * output_price) / 1e6


@dataclass(frozen=True)
class ChatMessage:
    """One message; ``role`` is system, user or assistant."""

    role: str
    content: str


_CUT = ("length", "max_tokens", "model_length", "max_output_tokens")
"""The names that services have for the end of a reply at a limit of tokens."""

ChatRequest = tuple[ChatMessage, ...]


@dataclass(frozen=True)
class ChatReply:
    """A reply of the model; empty if the model refused, or used up its tokens on reasoning.

    ``finish`` is the reason for its end ("stop"; "length" if it was truncated), ``model`` the name that the endpoint
    reports; tokens are as billed. Each is None if the endpoint does not report it.
    """

    text: str
    finish: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    refusal: str | None = None
    """The reason of a refusal, None if the endpoint answered; refusals are kept in no file."""

    @property
    def is_cut(self) -> bool:
        """True if it ended at a limit of tokens, so that its last line is incomplete."""
        return (self.finish or "").lower() in _CUT


def chat(client: Client, options: ChatOptions, request: ChatRequest) -> ChatReply:
    """The model's reply to one request, from the endpoint, without its thoughts. Raises EndpointError."""
    most_bytes = answer_budget([message.content for message in request])
    answer = client.post("chat/completions", _body(options, request), most_bytes)
    who = named(client)
    choices = member(answer, "choices", list, who)
    first = choices[0] if choices and isinstance(choices[0], Mapping) else {}
    finish, model = first.get("finish_reason"), answer.get("model")
    text = "" if finish == "content_filter" and "message" not in first else message_text(first.get("message"))
    if text is None:
        raise EndpointError(f"{who} answered without a message of text.")
    finish, model = (value if isinstance(value, str) else None for value in (finish, model))
    read, written = (billed(answer, "usage", (name,)) for name in ("prompt_tokens", "completion_tokens"))
    return ChatReply(text, finish, model, read, written)


def _body(options: ChatOptions, request: ChatRequest) -> dict[str, Any]:
    messages = [asdict(message) for message in request]
    chosen = {"temperature": options.temperature, "seed": options.seed, "max_tokens": options.max_tokens}
    return {"model": options.model, "messages": messages, **chosen, **options.fields}


_REPLY = TypeAdapter(ChatReply)


class KeptReplies:
    """Replies by model and request, in the file ``path``; with None nothing is read or kept.

    Raises WorkspaceError if the file cannot be read or written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._replies: dict[str, ChatReply] = {}
        for row in read_rows(path) if path is not None else ():
            with suppress(ValidationError, LookupError, TypeError):  # a row that is no reply
                self._replies[str(row["key"])] = _REPLY.validate_python(row["reply"])

    @property
    def has_answers(self) -> bool:
        """True if there is a reply that is no refusal."""
        return any(reply.refusal is None for reply in self._replies.values())

    def get(self, options: ChatOptions, request: ChatRequest) -> ChatReply | None:
        """The reply to an equal request, None if none is kept."""
        return self._replies.get(_key(options, request))

    def add(self, options: ChatOptions, request: ChatRequest, reply: ChatReply) -> None:
        """Keep a reply: it is on the disk when this returns. A refusal stays in memory, since it may pass."""
        key = _key(options, request)
        if self._path is not None and reply.refusal is None:
            append_row(self._path, {"key": key, "reply": {**asdict(reply), "refusal": None}})
        self._replies[key] = reply


def _key(options: ChatOptions, request: ChatRequest) -> str:
    return fingerprint([options.answered_by(), _body(options, request)])


def replies(
    options: ChatOptions, requests: Iterable[ChatRequest], kept: KeptReplies, advance: Advance = lambda _: None
) -> Iterator[tuple[ChatRequest, ChatReply]]:
    """Each different request with its reply: first the ``kept`` replies, then the others as they arrive.

    A new reply is kept before the next request is sent. The endpoint is asked only for missing replies, and its key is
    needed only then. ``advance`` counts the requests that are done. A refused request has a reply with a ``refusal``.
    Raises EndpointError after the requests on their way are answered, also if all or too many in a row are refused,
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


_TEXT_PARTS = ("text", "output_text")

_TAG = r"(?:\w+:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad)>"
_THOUGHTS = [
    (re.compile(begin, re.IGNORECASE), re.compile(end, re.IGNORECASE))
    for begin, end in (
        ("<" + _TAG, "</" + _TAG),
        (r"\[THINK\]", r"\[/THINK\]"),
        ("\N{WHITE LEFT-POINTING TRIANGLE}think\N{WHITE RIGHT-POINTING TRIANGLE}",
         "\N{WHITE LEFT-POINTING TRIANGLE}/think\N{WHITE RIGHT-POINTING TRIANGLE}"),
        (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
        (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
        (r"<unused94>", r"<unused95>"),
        (r"<details type=.?reasoning[^>]*>", r"</details>"),
        (r"Here(?: is|'s) my thought process:", r"Here(?: is|'s) my response:"),
        (r"(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)<\|message\|>", r"<\|end\|>"),
    )
]  # fmt: skip
"""The marks around thoughts in the content of messages, as servers leave them."""

_MARKS = re.compile(
    r"(?:<\|start\|>assistant)?<\|channel\|>final<\|message\|>|<[|\uff5c][A-Za-z][\w\u2581]{1,30}[|\uff5c]>"
    r"|</s>\s*\Z|<(?:end_of_turn|eos)>\s*\Z"
)
"""The marks that such servers leave around the answer."""

_WRAPPED = re.compile(r"<(answer|final_answer|output|response)>(.*?)(?:</\1>)?", re.IGNORECASE | re.DOTALL)

_QUOTES = "\"'`\uff02\uff07\xab\xbb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2039\u203a"
_QUOTES += "\u3008\u3009\u300a\u300b\u300c\u300d\u300e\u300f\u3010\u3011\u301d\u301e\u301f"


def message_text(message: Any) -> str | None:
    """The text of a message, without thoughts: empty if the model wrote none, None if it is no message."""
    content = message.get("content", "") if isinstance(message, Mapping) else 0
    contents = [content] if isinstance(content, str) else [] if content is None else content
    if not isinstance(contents, list) or not all(isinstance(part, str | Mapping) for part in contents):
        return None
    parts = [{"text": part} if isinstance(part, str) else part for part in contents]
    texts = [part.get("text") for part in parts if part.get("type", "text") in _TEXT_PARTS]
    return spoken("".join(text for text in texts if isinstance(text, str)))


def spoken(text: str) -> str:
    """``text`` without thoughts between marks.

    If only the end is marked, all text before it is thought; if a text begins with a mark without an end, all of it is.
    """
    for begin, end in _THOUGHTS:
        *thoughts, rest = end.split(text)
        parts: list[str] = []
        for thought in thoughts:
            if opened := begin.search(thought):
                parts.append(thought[: opened.start()])
            else:
                parts.clear()
        opened = begin.search(rest)
        is_thought = opened is not None and not "".join([*parts, rest[: opened.start()]]).strip()
        text = "" if is_thought else "".join([*parts, rest])
    text = without_unseen(_MARKS.sub("", text)).strip()
    wrapped = _WRAPPED.fullmatch(text)
    return wrapped[2].strip() if wrapped else text


def unquoted(text: str) -> str:
    """``text`` without the quotation marks around it, of any language."""
    text = text.strip()
    while len(text) > 1 and text[0] in _QUOTES and text[-1] in _QUOTES:
        text = text[1:-1].strip()
    return text


def folded(text: str) -> str:
    """``text`` with the usual form of letters, digits and punctuation of any width, character by character."""
    if text.isascii():
        return text
    forms = ((char, unicodedata.normalize("NFKC", char)) for char in text.translate(_FOLDED))
    return "".join(form if len(form) == 1 else char for char, form in forms)


_FOLDED = str.maketrans("\u3002\u3001\u2236\ufe13\u060c\u061f", ".,::,?")
"""Full stops, commas, colons and question marks of other scripts."""


_REPLY_TOKENS = 150
"""The usual length of a reply."""

_LONGEST_REPLY = 2000
"""The length that is reserved for a reply without a limit."""

_MESSAGE_TOKENS = 16
"""The maximum number of tokens that services count in addition to the text of a message."""

_TOGETHER = 64

RequestGroup = Sequence[ChatRequest]
"""Requests that are useful only together."""


@dataclass(frozen=True)
class Budget:
    """The most that may be spent: requests, and money at the prices of the options; None for no limit."""

    calls: int | None = None
    money: float | None = None


@dataclass(frozen=True)
class CallPlan:
    """The size and cost of ``requests``, equal requests counted once; ``kept`` of them are already answered.

    ``tokens`` counts the tokens to read and to write, estimated for the script of each text; ``cost`` is None without
    prices.
    """

    requests: int
    kept: int
    tokens: tuple[int, int]
    cost: float | None

    @property
    def calls(self) -> int:
        return self.requests - self.kept


class BudgetedChat:
    """A chat model behind an endpoint; its replies are ``kept`` on the disk the moment they arrive."""

    def __init__(self, options: ChatOptions, kept: KeptReplies) -> None:
        self.options = options
        self._kept = kept

    def plan(self, requests: Iterable[ChatRequest]) -> CallPlan:
        """The cost of having all ``requests`` answered."""
        different = dict.fromkeys(requests)
        missing = self._missing(different)
        read = sum(round(sum(estimated_tokens(message.content) for message in request)) for request in missing)
        written = len(missing) * min(self.options.reply_limit or _REPLY_TOKENS, _REPLY_TOKENS)
        cost = self.options.cost_of(read, written)
        return CallPlan(len(different), len(different) - len(missing), (read, written), cost)

    def ask(self, groups: Sequence[RequestGroup], budget: Budget, advance: Advance) -> Iterator[list[ChatReply]]:
        """The replies of the first groups that can be answered completely within ``budget``, in their order.

        Raises EndpointError after it has yielded the replies until then, and ModelNotFoundError without a key.
        """
        left, waiting = _Left(self.options, budget), list(groups)
        while waiting:
            affordable, new = self._affordable(waiting, left)
            if not affordable:
                return
            answered = dict(replies(self.options, [*chain.from_iterable(affordable), *new], self._kept, advance))
            left.pay(answered[request] for request in new)
            for group in affordable:
                yield [answered[request] for request in group]
            waiting = waiting[len(affordable) :]

    def _affordable(self, groups: Sequence[RequestGroup], left: _Left) -> tuple[list[RequestGroup], list[ChatRequest]]:
        """The first ``groups`` that the budget covers, as many as are sent together, and their unanswered requests."""
        affordable: list[RequestGroup] = []
        new: dict[ChatRequest, None] = {}
        for group in groups:
            missing = [request for request in dict.fromkeys(self._missing(group)) if request not in new]
            if len(new) >= _TOGETHER or not left.reserve(missing):
                break
            affordable.append(group)
            new.update(dict.fromkeys(missing))
        return affordable, list(new)

    def kept(self, group: RequestGroup) -> list[ChatReply] | None:
        """The replies to ``group`` if all are kept; nothing is asked."""
        known = [reply for request in group if (reply := self._kept.get(self.options, request)) is not None]
        return known if len(known) == len(group) else None

    def _missing(self, requests: Iterable[ChatRequest]) -> list[ChatRequest]:
        return [request for request in requests if self._kept.get(self.options, request) is None]


@dataclass
class _Left:
    """The rest of a budget: the cost of requests, and the maximum that they can cost until they are answered."""

    options: ChatOptions
    budget: Budget
    calls: int = 0
    spent: float = 0.0
    reserved: float = 0.0

    def _most_cost(self, request: ChatRequest) -> float:
        """The maximum cost of a request: a token for each byte, in any script."""
        read = sum(most_tokens(message.content) + _MESSAGE_TOKENS for message in request)
        return self.options.cost_of(read, self.options.reply_limit or _LONGEST_REPLY) or 0.0

    def reserve(self, requests: Sequence[ChatRequest]) -> bool:
        """Reserve calls and money for ``requests`` if they fit; True if they do.

        Concurrent requests take at most half of the money, so that the cost of requests is known in time.
        """
        reserved = self.reserved + sum(map(self._most_cost, requests))
        if self.budget.calls is not None and self.calls + len(requests) > self.budget.calls:
            return False
        if self.budget.money is not None and requests:
            left = self.budget.money - self.spent
            if reserved > (left / 2 if self.reserved else left):
                return False
        self.calls += len(requests)
        self.reserved = reserved
        return True

    def pay(self, answered: Iterable[ChatReply]) -> None:
        """Replace the reservation by the actual cost; if an endpoint does not report it, the reservation stays."""
        cost = self.options.cost(answered)
        self.spent += self.reserved if cost is None else cost
        self.reserved = 0.0


PLACE = "{query}"

PROMPTS = {
    "rewrites": (
        "Write three other wordings of the search query below, as other people would ask for the same thing. Keep its "
        "language and its names. Answer with the three queries alone, one a line.\n\nQuery: {query}"
    ),
    "answer": (
        "Write a short passage, as it might be in a document, that answers the question below. Write it in the "
        "language of the question. Answer with the passage alone; if you do not know the answer, invent a likely one."
        "\n\nQuestion: {query}"
    ),
}
"""Prompts by name. The second follows Gao et al. 2023 (HyDE, https://aclanthology.org/2023.acl-long.99): the search is
for a text that looks like an answer."""

_MARK = re.compile(
    r"^\s*(?:[-*\u2022\u2023\u25aa\u25cf\u25e6\u2013\u2014]\s+|[\u30fb\u00b7]\s*|[(\uff08]?\d{1,2}(?:[.):]\s+|[\uff0e\uff09\u3001\uff1a]\s*)"
    r"|[\u2460-\u2473]\s*)"
)
"""A bullet or the number of a line: with white space behind it, or with a sign of full width."""

_DRAWN = re.compile(r"(?:```|~~~|#{1,6}\s).*|(?:[-*_=]\s*){3,}")
"""A line without a wording: a fence, a heading, a rule."""

_EMPHASIS = re.compile(r"(\*{1,3})(.+?)\1")

WORDINGS_VERSION = 2
"""Raise it whenever the same reply would be read as other wordings."""


def wordings_in(reply: str) -> list[str]:
    """The texts of a JSON list, or the lines of a reply, without numbers, bullets and marks around them.

    If several lines have a number or a bullet, only these are wordings; a line with a colon at its end introduces them.
    """
    lines = [line for line in map(str.strip, reply.splitlines()) if line and not _DRAWN.fullmatch(line)]
    with suppress(ValueError, RecursionError):
        value = json.loads("\n".join(lines))
        value = next(iter(value.values()), None) if isinstance(value, dict) and len(value) == 1 else value
        if isinstance(value, list):
            return [text.strip() for text in value if isinstance(text, str) and text.strip()]
    marked = [line for line in lines if _MARK.match(line)]
    found = marked if len(marked) > 1 else [line for line in lines if not folded(line).endswith(":")] or lines
    texts = (unquoted(_EMPHASIS.sub(r"\2", _MARK.sub("", line))) for line in found)
    return [text for text in texts if text]


@dataclass(frozen=True)
class WordingWriter:
    """A chat model with a prompt; with ``by_line`` each line of a reply is a separate wording."""

    endpoint: ChatOptions
    prompt: str
    by_line: bool

    @property
    def key(self) -> str:
        """Equal for writers whose replies are interchangeable."""
        one = self.endpoint
        asked = [one.temperature, one.seed, one.max_tokens, one.fields, PROMPTS.get(self.prompt, self.prompt)]
        return fingerprint([one.answered_by(), asked])

    def request(self, question: Question) -> ChatRequest:
        """The request to the model for ``question``."""
        return (ChatMessage("user", PROMPTS.get(self.prompt, self.prompt).replace(PLACE, question.text)),)

    def written(self, reply: ChatReply) -> Written:
        """``reply`` as a question keeps it."""
        text = reply.text
        if reply.is_cut and self.by_line:
            text = text.rpartition("\n")[0]  # the last wording is not whole
        return Written(self.key, text, reply.input_tokens, reply.output_tokens)

    def replies(self, question: Question) -> list[Written]:
        """The reply that this writer has already for ``question``, if any."""
        return [one for one in question.written if one.by == self.key]

    def texts(self, question: Question) -> Sequence[str]:
        """The wordings in its reply; the whole reply if it is not read by lines."""
        texts = [reply.text for reply in self.replies(question)]
        if self.by_line:
            return [wording for text in texts for wording in wordings_in(text)]
        return [text for text in map(str.strip, texts) if text]


@dataclass(frozen=True)
class ModelPrompt:
    """A ``template`` with places such as ``{query}``, among them ``{passage}``."""

    template: str

    @property
    def hash(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the template."""
        return hashlib.sha256(self.template.encode()).hexdigest()[:16]

    def filled(self, passage: str, **values: str) -> ChatRequest:
        """One message. The passage is between two marks made of its own hash, so it cannot contain them.

        All places are filled at once: a text that contains a place keeps it.
        """
        mark = hashlib.sha256("\n".join([*values.values(), passage]).encode()).hexdigest()[:16]
        enclosed = f"<passage id={mark}>\n{passage}\n</passage id={mark}>"
        places: Mapping[str, str] = {f"{{{name}}}": value for name, value in {**values, "passage": enclosed}.items()}
        parts = re.split(f"({'|'.join(map(re.escape, places))})", self.template)
        return (ChatMessage("user", "".join(places.get(part, part) for part in parts)),)


def read_prompt(path: Path | None, own: str, places: Sequence[str]) -> ModelPrompt:
    """The prompt of a file, or our ``own``. Raises InputError for a prompt without one of the ``places``."""
    if path is None:
        return ModelPrompt(own)
    template = read_text(path, InputError)
    lacking = [place for place in places if place not in template]
    if lacking:
        message = f"lacks {' and '.join(lacking)}; a prompt needs {' and '.join(places)}."
        raise InputError(Fault(str(path), message=message))
    return ModelPrompt(template)
