"""A client of an endpoint: sends requests, repeats them after passing failures, and reads answers."""

from __future__ import annotations

import json
import math
import random
import re
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard, TypeVar

from ragtrial.cache.untrusted import load_json
from ragtrial.components.endpoints.options import EndpointOptions
from ragtrial.errors import EndpointError, RefusedError, counted, with_name_for_value

if TYPE_CHECKING:
    import httpx

_ENVELOPE = 4_000_000
"""Bytes of an answer in addition to the requested content."""

_NUMBER_BYTES = 25
_CHARACTER_BYTES = 12
"""The longest form of a character in JSON: two escapes."""

_ROW_BYTES = 2_000
_MOST_LISTS = 100_000
"""Lists and objects of an answer: each takes up to 30 times the memory of its bytes."""


class BodyError(Exception):
    """A body is no answer; the message begins with a verb. ``is_cut``: another try may bring the whole body."""

    def __init__(self, message: str, *, is_cut: bool = False) -> None:
        super().__init__(message)
        self.is_cut = is_cut


def answer_budget(texts: Sequence[str], numbers: int = 0) -> int:
    """The maximum bytes of an answer with this count of ``numbers``, which may repeat ``texts``, as some servers do.

    The envelope holds more than 100,000 tokens of thoughts in the longest form.
    """
    return _ENVELOPE + numbers * _NUMBER_BYTES + sum(_ROW_BYTES + len(text) * _CHARACTER_BYTES for text in texts)


def collected(parts: Iterable[bytes], encoding: str, most: int, *, is_whole: bool = True) -> bytes:
    """The body that arrives in ``parts``, inflated. Raises BodyError for more than ``most`` bytes.

    If it need not be whole, as for an error, it is cut there.
    """
    if encoding not in ("", "identity", "gzip"):
        raise BodyError(f"answered in the encoding {encoding[:40]!r}, which was not asked for")
    inflater = zlib.decompressobj(31) if encoding == "gzip" else None
    body = bytearray()
    for part in parts:
        try:
            body += part if inflater is None else inflater.decompress(part, most + 1 - len(body))
        except zlib.error as error:
            raise BodyError("answered with a body that is not gzip", is_cut=True) from error
        if len(body) > most:
            if is_whole:
                raise BodyError(f"answered with more than {most / 1e6:,.1f} MB, more than the answer can take")
            return bytes(body[:most])
    if inflater is not None and is_whole and not inflater.eof:
        raise BodyError("answered with a body that is cut", is_cut=True)
    return bytes(body)


def json_value(body: bytes) -> Any:
    """The JSON value of a body, perhaps with halves of surrogate pairs. Raises BodyError."""
    if body.count(b"[") + body.count(b"{") > _MOST_LISTS:
        raise BodyError(f"answered with more than {_MOST_LISTS:,} lists and objects, more than the answer can take")
    try:
        return load_json(body.decode(json.detect_encoding(body), "surrogatepass"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BodyError("answered with something that is not JSON", is_cut=True) from error
    except ValueError as error:
        raise BodyError(f"answered with JSON that cannot be used: {error}") from error


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every string changed, including names."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): mapped(member, change) for name, member in value.items()}
    if isinstance(value, list) and not {*map(type, value)} <= {int, float}:  # a vector
        return [mapped(member, change) for member in value]
    return value


def whole_characters(text: str) -> str:
    """``text`` with U+FFFD for each half of a surrogate pair, which can be neither written nor hashed.

    Servers leave such halves that cut a reply within an emoji.
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_FIRST_WAIT = 0.5
_FIRST_WAIT_OF_LIMIT = 2.0
"""The first wait after a 429 without a Retry-After: the waits of six retries together exceed a limit per minute."""

_LONGEST_WAIT = 60.0
_LONGEST_ASKED = 300.0
"""The longest wait that a server may ask for, in seconds; a quota that opens tomorrow is an error today."""

_UNREACHED = 2
"""Retries before a server has ever answered: a wrong address is more likely than a busy server."""

_SPENT = ("insufficient_quota", "billing_hard_limit_reached")
"""Error codes with status 429 that waiting does not change."""

_ERROR_BYTES = 100_000
"""How much of a failed answer is read; a message shows 300 characters of it."""

_REFUSALS = (400, 403, 413, 422, 451)
"""Statuses that blame the contents of a request, so that other requests may succeed."""

_OF_ACCOUNTS = re.compile(r"billing|quota|credit|balance|payment|api.?key|permission", re.IGNORECASE)
"""Words of messages that blame the account instead."""

_CONTENTS = ("model", "input", "texts", "messages", "query", "documents")

_TOO_LONG = " If a text is too long for it, use smaller chunks, or a field that lets the service cut it (`fields`)."
_ADVICE = {400: _TOO_LONG, 404: " Check base_url and model.", 413: _TOO_LONG, 422: _TOO_LONG}
_LIMITED = " If the limit is one per minute, raise retries or lower concurrency; the same command continues."

_NO_KEY = " Name the variable that holds the key: `api_key: ${NAME}`."
_SLOW = " If it is slow, raise timeout, or lower concurrency or batch_size."


@dataclass(frozen=True)
class _Refusal:
    """The reason why a request has no answer yet, and the seconds that the server asks to wait (None: not given)."""

    reason: str
    wait: float | None = None
    is_unreached: bool = False
    is_limit: bool = False
    advice: str = ""


class Client:
    """Sends requests to the endpoint of ``options``. Safe for threads. Close it, or use it as a context manager.

    ``sleep`` waits for a number of seconds. Raises ModelNotFoundError if the variable of the key is not set.
    """

    requests_sent: ClassVar[int] = 0
    """The number of requests that all clients of this process have sent, including repeated requests."""
    _counting: ClassVar[Lock] = Lock()

    def __init__(self, options: EndpointOptions, sleep: Callable[[float], None] = time.sleep) -> None:
        from ragtrial.components.endpoints.connections import http_client

        self.options = options
        self._key = options.key()
        self._sleep = sleep
        self._lock = Lock()
        self._not_before = 0.0
        self._has_answered = False
        self._answers = 0
        self._random = random.Random()  # noqa: S311 - jitter
        headers = {"User-Agent": "ragtrial", "Accept-Encoding": "gzip"}
        headers |= {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._http = http_client(headers, options.concurrency)
        self.close = weakref.finalize(self, self._http.close)
        """Closes the connections; they are also closed when nothing refers to the client any more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def post(self, path: str, body: Mapping[str, Any], most_bytes: int) -> Any:
        """The JSON answer of ``base_url/path`` to ``body``, of at most ``most_bytes``, without the key.

        Fields that are None are not sent. The request is repeated, up to ``retries`` times, after 408, 429, any 5xx, a
        broken connection, a truncated body and a timeout. After 429 the count starts again whenever another request
        was answered in between. Raises RefusedError if the content of the request is the cause, else EndpointError.
        """
        tries, answers = 0, self._answers
        body = {name: value for name, value in body.items() if value is not None}
        while True:
            found = self._once(path, body, most_bytes)
            if not isinstance(found, _Refusal):
                self._answers += 1
                return found
            if found.is_limit and self._answers != answers:
                tries, answers = 0, self._answers
            most = min(self.options.retries, _UNREACHED) if found.is_unreached else self.options.retries
            if tries >= most:
                times = "once" if tries == 0 else f"{tries + 1} times"
                raise EndpointError(f"{self._place(path)} {found.reason}, {times}.{found.advice}")
            if found.wait is not None and found.wait > _LONGEST_ASKED:
                raise EndpointError(f"{self._place(path)} {found.reason} and asks to wait for {found.wait:,.0f} s.")
            self._wait(found.wait, tries, _FIRST_WAIT_OF_LIMIT if found.is_limit else _FIRST_WAIT)
            tries += 1

    def _once(self, path: str, body: Mapping[str, Any], most_bytes: int) -> Any:
        """The answer, or a refusal that is worth a retry. Raises EndpointError for invalid JSON."""
        import httpx

        request = self._http.build_request("POST", f"{self.options.base_url}/{path}", json=body)
        pause = self._not_before - time.monotonic()
        if pause > 0:  # another request was asked to wait; the limit applies to all
            self._sleep(pause)
        with Client._counting:
            Client.requests_sent += 1
        try:
            status, headers, content = self._exchange(request, most_bytes)
            answer = self._cleaned(json_value(content)) if status == httpx.codes.OK else None
        except httpx.HTTPError as error:
            is_unreached = isinstance(error, httpx.ConnectTimeout | httpx.ConnectError) and not self._has_answered
            if isinstance(error, httpx.TimeoutException):
                reason = f"did not answer completely within {self.options.timeout:g} s"
                return _Refusal(reason, is_unreached=is_unreached, advice=_SLOW)
            return _Refusal(f"cannot be reached ({self._shown(str(error))})", is_unreached=is_unreached)
        except BodyError as error:
            if error.is_cut:
                return _Refusal(str(error))
            raise EndpointError(f"{self._place(path)} {error}.") from error
        self._has_answered = True
        code = status if status != httpx.codes.OK else _code_of_error(answer)
        if code is None:
            return answer
        text, said = self._said(content)
        said = f"{status}{said}" if code == status else f"{status} with the error {code}{said}"
        is_spent = any(spent in text for spent in _SPENT)
        if (code in (408, 429) and not is_spent) or code >= 500:
            advice = _LIMITED if code == 429 else ""
            return _Refusal(f"answered {said}", asked_wait(headers, text), is_limit=code == 429, advice=advice)
        is_refusal = code in _REFUSALS and not is_spent and not _OF_ACCOUNTS.search(text)
        kind = RefusedError if is_refusal else EndpointError
        variable = self.options.key_variable
        key = f" Check the key in {variable}." if variable else _NO_KEY
        advice = _of_fields(text, body) or {401: key, 403: key, **_ADVICE}.get(code, "")
        raise kind(f"{self._place(path)} answered {said}.{advice}")

    def _exchange(self, request: httpx.Request, most_bytes: int) -> tuple[int, httpx.Headers, bytes]:
        """Status, headers and body, inflated. The timeout applies to all of it, however slowly it arrives.

        Raises HTTPError, and BodyError for a body of more than ``most_bytes``; the body of an error is cut.
        """
        from ragtrial.components.endpoints.connections import deadline

        with deadline(self.options.timeout), closing(self._http.send(request, stream=True)) as response:
            is_whole = response.status_code == 200
            most = most_bytes if is_whole else _ERROR_BYTES
            encoding = response.headers.get("content-encoding", "").strip().lower()
            content = collected(response.iter_raw(), encoding, most, is_whole=is_whole)
            return response.status_code, response.headers, content

    def _cleaned(self, answer: Any) -> Any:
        """``answer`` in whole characters, with the name of its variable for the key, which some servers repeat."""
        name, key = self.options.key_variable or "", self._key or ""
        return mapped(answer, lambda text: with_name_for_value(whole_characters(text), name, key))

    def _wait(self, asked: float | None, tries: int, first: float) -> None:
        """Wait as long as the server asked, or twice as long each time; jitter keeps requests from coming at once."""
        with self._lock:
            jitter = self._random.uniform(0.5, 1.0)
            if asked is not None:
                self._not_before = max(self._not_before, time.monotonic() + asked)
                wait = asked + jitter * _FIRST_WAIT / 5
            else:
                wait = min(_LONGEST_WAIT, first * 2**tries) * jitter
        self._sleep(wait)

    def _place(self, path: str) -> str:
        return f"the endpoint {self.options.base_url}/{path} (model {self.options.model!r})"

    def _said(self, content: bytes) -> tuple[str, str]:
        """The text of a failed answer, and a short form of it for a message."""
        text = content.decode("utf-8", "replace")
        message: Any = text
        with suppress(BodyError):
            answer = json_value(content)
            answer = answer[0] if isinstance(answer, list) and answer else answer  # as Gemini has it
            if isinstance(answer, dict):
                error = answer.get("error")
                inner = error.get("message") if isinstance(error, dict) else error
                message = inner or answer.get("message") or answer.get("detail") or text
        short = self._shown(message if isinstance(message, str) else json.dumps(message)).rstrip(".")
        return text, f": {short}" if short else ""

    def _shown(self, text: str) -> str:
        """``text`` on one line, shortened, and without the key, whole or not."""
        text = " ".join(self._cleaned(text).split())
        return text if len(text) <= 300 else text[:297] + "..."


_WORDS_OF_CODES = (
    (429, re.compile(r"rate.?limit|too.?many.?requests|exhausted|throttl", re.IGNORECASE)),
    (503, re.compile(r"overload|unavailable|server.?error|internal|time.?out|timed.?out", re.IGNORECASE)),
)
"""The statuses of errors that have a word for a code."""


def _code_of_error(answer: Any) -> int | None:
    """The status of the error that a body of status 200 reports, None for an answer without one."""
    if not isinstance(answer, Mapping):
        return None
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    error = answer.get("error") or (first.get("error") if isinstance(first, Mapping) else None)
    error = error or (answer if answer.get("object") == "error" else None)
    if not error:
        return None
    said = [error.get(name) for name in ("code", "status", "type")] if isinstance(error, Mapping) else [error]
    numbers = [int(str(code)) for code in said if re.fullmatch("[45][0-9][0-9]", str(code))]
    words = [status for status, pattern in _WORDS_OF_CODES if pattern.search(" ".join(map(str, said)))]
    return next(iter([*numbers, *words]), 400)


def _of_fields(text: str, body: Mapping[str, Any]) -> str:
    """Advice for a refusal that names fields of the request."""
    named = [name for name in body if name not in _CONTENTS and re.search(rf"\b{re.escape(name)}\b", text)]
    if not named:
        return ""
    other = ", or try `encoding: float`" if "encoding_format" in named else ""
    left_out = ", ".join(f"{name}: null" for name in named)
    return f" To leave out what is refused: `fields: {{{left_out}}}` (of a command: --field {named[0]}=null){other}."


_MOST_TOKENS = 2**53


def named(client: Client) -> str:
    """The model and its address, for messages."""
    return f"the model {client.options.model!r} at {client.options.base_url}"


def member(answer: Any, name: str, kind: type, who: str) -> Any:
    """The value of an answer under ``name``. Raises EndpointError if it is not of the given kind."""
    found = answer.get(name) if isinstance(answer, Mapping) else None
    if not isinstance(found, kind):
        has = sorted(answer) if isinstance(answer, Mapping) else type(answer).__name__
        raise EndpointError(f"{who} answered without {name!r}; the answer has {str(has)[:100]}.")
    return found


def in_order(rows: Sequence[Any], count: int, who: str) -> list[Mapping[str, Any]]:
    """The rows of an answer to ``count`` texts, in the order of the texts.

    Raises EndpointError unless there is exactly one for each.
    """
    if len(rows) != count or not all(isinstance(row, Mapping) for row in rows):
        raise EndpointError(f"{who} answered with {counted(len(rows), 'result')} for {count:,}; expected one for each.")
    indexes = [row.get("index", position) for position, row in enumerate(rows)]
    if sorted(index for index in indexes if type(index) is int) != list(range(count)):
        message = f"{who} answered with the indexes {str(indexes)[:60]}; expected each of 0 to {count - 1} once."
        raise EndpointError(message)
    placed = dict(zip(indexes, rows, strict=True))
    return [placed[position] for position in range(count)]


def billed(answer: Any, *path: str | tuple[str, ...]) -> int | None:
    """The first number under the names of ``path``; None if the answer has none."""
    *steps, names = path
    for step in steps:
        answer = answer.get(step) if isinstance(answer, Mapping) else None
    values = [answer.get(name) for name in names] if isinstance(answer, Mapping) else []
    return next((int(value) for value in values if is_number(value) and 0 <= value <= _MOST_TOKENS), None)


def is_number(value: Any) -> TypeGuard[int | float]:
    """True if ``value`` is a finite number; booleans are not numbers."""
    return type(value) in (int, float) and math.isfinite(value)


T = TypeVar("T")
R = TypeVar("R")

_MOST_IN_A_ROW = 16


class Refusals:
    """The refusals of one endpoint, counted by several threads.

    ``is_known`` is true if the endpoint has answered such requests before.
    """

    def __init__(self, *, is_known: bool = False) -> None:
        self._lock = Lock()
        self._is_known = is_known
        self.first: RefusedError | None = None
        """The first refusal, if there is one."""

        self._in_a_row = 0

    def note_answer(self) -> None:
        with self._lock:
            self._is_known = True
            self._in_a_row = 0

    def note(self, error: RefusedError) -> None:
        """Count a refusal. Raises ``error`` after too many refusals in a row, since no single text is the cause."""
        with self._lock:
            self.first = self.first or error
            self._in_a_row += 1
            if self._in_a_row >= _MOST_IN_A_ROW:
                raise error

    def check(self) -> None:
        """Raise the first refusal if nothing else was ever answered."""
        if self.first is not None and not self._is_known:
            raise self.first

    def by_halves(self, items: Sequence[T], ask: Callable[[Sequence[T]], R]) -> Iterator[tuple[Sequence[T], R | None]]:
        """``items`` in parts, each with the result of ``ask``; None for an item that is refused on its own.

        The last half is asked first. Raises RefusedError if everything is refused.
        """
        try:
            answer = ask(items)
        except RefusedError as error:
            if len(items) == 1:
                self.note(error)
                yield items, None
                return
        else:
            self.note_answer()
            yield items, answer
            return
        middle = len(items) // 2
        for half in (items[middle:], items[:middle]):
            yield from self.by_halves(half, ask)


_ASKED = re.compile(
    r"(?:again in|retry in|retry after|retrydelay[\"']*:)[\s\"']*((?:\d+(?:\.\d+)?\s*(?:ms|h|m|s)[a-z]*\s*)+)",
    re.IGNORECASE,
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|h|m|s)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def asked_wait(headers: Mapping[str, str], text: str = "") -> float | None:
    """The seconds that a server asks to wait, in a header or in the ``text`` of its error; None if it names no time.

    The headers are Retry-After, in seconds or as a date, and Azure's in milliseconds.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(ValueError):
            seconds = float(headers.get(name, "")) * unit
            return seconds if 0 <= seconds < math.inf else None
    with suppress(ValueError, OverflowError):
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time())
    asked = _ASKED.search(text)
    found = _DURATION.findall(asked[1]) if asked else []
    return sum(float(number) * _SECONDS[unit.lower()] for number, unit in found) if found else None
