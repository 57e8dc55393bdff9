"""The HTTP client of all endpoints: limits concurrency, retries busy servers, and keeps keys out of messages."""

from __future__ import annotations

import json
import random
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from threading import BoundedSemaphore, Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ragtrial.components.endpoints.options import EndpointOptions
from ragtrial.errors import EndpointError
from ragtrial.report.environment import without_secrets

if TYPE_CHECKING:
    import httpx

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 60.0
_LONGEST_ASKED = 300.0
"""The longest wait that a server may ask for, in seconds; a quota that opens tomorrow is an error today."""

_UNREACHED = 2
"""Retries while no server has answered yet: the address is more likely wrong than the server busy."""

_SPENT = ("insufficient_quota", "billing_hard_limit_reached")
"""Error codes with status 429 that waiting does not change."""

_ADVICE = {
    400: " If a batch is too large for it, lower batch_size or batch_tokens.",
    404: " Check base_url and model.",
    413: " Lower batch_size or batch_tokens.",
    422: " Check base_url and model. If a batch is too large, lower batch_size.",
}


_SLOW = " If it is slow, raise timeout, or lower concurrency or batch_size."


@dataclass(frozen=True)
class _Refusal:
    """Why a request has no answer yet, and the seconds that the server asked to wait (None: it did not say)."""

    reason: str
    wait: float | None = None
    is_unreached: bool = False
    advice: str = ""


class _Requests:
    """How many requests were sent, by whatever client of this process."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = Lock()

    def note(self) -> None:
        with self._lock:
            self.count += 1


_REQUESTS = _Requests()


def requests_sent() -> int:
    """How many requests this process has sent to endpoints, repeated ones included."""
    return _REQUESTS.count


class Client:
    """Sends requests to the endpoint of ``options``. Safe for threads. Close it, or use it as a context manager.

    ``sleep`` waits for a number of seconds. Raises ModelNotFoundError if the variable of the key is not set.
    """

    def __init__(self, options: EndpointOptions, sleep: Callable[[float], None] = time.sleep) -> None:
        import httpx

        self.options = options
        self._key = options.key()
        self._sleep = sleep
        self._slots = BoundedSemaphore(options.concurrency)
        self._lock = Lock()
        self._not_before = 0.0
        self._has_answered = False
        self._random = random.Random()  # noqa: S311 - jitter
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        limits = httpx.Limits(max_connections=options.concurrency, max_keepalive_connections=options.concurrency)
        self._http = httpx.Client(
            headers={**headers, "User-Agent": "ragtrial"}, limits=limits, timeout=httpx.Timeout(options.timeout)
        )

        self._closing = weakref.finalize(self, self._http.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. They are also closed when nothing refers to the client any more."""
        self._closing()

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON value that ``base_url/path`` answers to ``body``. Raises EndpointError.

        The request is repeated, up to ``retries`` times, after 408, 429, any 5xx, a broken connection, a truncated body
        and a timeout.
        """
        tries = 0
        while True:
            found = self._once(path, body)
            if not isinstance(found, _Refusal):
                return found
            most = min(self.options.retries, _UNREACHED) if found.is_unreached else self.options.retries
            if tries >= most:
                raise EndpointError(f"{self._place(path)} {found.reason}, {_times(tries + 1)}.{found.advice}")
            if found.wait is not None and found.wait > _LONGEST_ASKED:
                raise EndpointError(f"{self._place(path)} {found.reason} and asks to wait for {found.wait:,.0f} s.")
            self._wait(found.wait, tries)
            tries += 1

    def _once(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer, or a refusal that is worth a retry. Raises EndpointError for one that is not."""
        import httpx

        request = self._http.build_request("POST", f"{self.options.base_url}/{path}", json=body)
        with self._slots:
            pause = self._not_before - time.monotonic()
            if pause > 0:  # another request was asked to wait; the limit applies to all
                self._sleep(pause)
            _REQUESTS.note()
            try:
                status, headers, content = self._exchange(request)
            except httpx.TimeoutException as error:
                is_unreached = isinstance(error, httpx.ConnectTimeout) and not self._has_answered
                reason = f"did not answer completely within {self.options.timeout:g} s"
                return _Refusal(reason, is_unreached=is_unreached, advice=_SLOW)
            except httpx.HTTPError as error:
                is_unreached = isinstance(error, httpx.ConnectError) and not self._has_answered
                return _Refusal(f"cannot be reached ({self._shown(str(error))})", is_unreached=is_unreached)
        self._has_answered = True
        if status == httpx.codes.OK:
            try:
                return json.loads(content)
            except ValueError:
                return _Refusal("answered with something that is not JSON")
        said = self._said(content)
        is_spent = any(code in said[0] for code in _SPENT)
        if (status in (408, 429) and not is_spent) or status >= 500:
            return _Refusal(f"answered {status}{said[1]}", _asked_wait(headers))
        raise EndpointError(f"{self._place(path)} answered {status}{said[1]}.{self._advice(status)}")

    def _exchange(self, request: httpx.Request) -> tuple[int, httpx.Headers, bytes]:
        """Status, headers and body. The timeout applies to all of it, however slowly the body arrives."""
        import httpx

        deadline = time.monotonic() + self.options.timeout
        response = self._http.send(request, stream=True)
        with closing(response):
            parts = []
            for part in response.iter_bytes():
                parts.append(part)
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the body drips", request=request)
            return response.status_code, response.headers, b"".join(parts)

    def _wait(self, asked: float | None, tries: int) -> None:
        """Wait as long as the server asked, or twice as long each time; jitter keeps requests from coming at once."""
        with self._lock:
            jitter = self._random.uniform(0.5, 1.0)
            if asked is not None:
                self._not_before = max(self._not_before, time.monotonic() + asked)
                wait = asked + jitter * _FIRST_WAIT / 5
            else:
                wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2**tries) * jitter
        self._sleep(wait)

    def _place(self, path: str) -> str:
        return f"the endpoint {self.options.base_url}/{path} (model {self.options.model!r})"

    def _advice(self, status: int) -> str:
        if status in (401, 403):
            name = self.options.key_variable
            return (
                f" Check the key in {name}." if name else " Name the variable that holds the key: `api_key: ${NAME}`."
            )
        return _ADVICE.get(status, "")

    def _said(self, content: bytes) -> tuple[str, str]:
        """The text of a failed answer, and a short form of it for a message."""
        text = content.decode("utf-8", "replace")
        message: Any = text
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if isinstance(found, dict):
            error = found.get("error")
            inner = error.get("message") if isinstance(error, dict) else error
            message = inner or found.get("message") or found.get("detail") or text
        short = self._shown(message if isinstance(message, str) else json.dumps(message)).rstrip(".")
        return text, f": {short}" if short else ""

    def _shown(self, text: str) -> str:
        """``text`` on one line, shortened, and without the key, which some servers repeat."""
        if self._key:
            text = text.replace(self._key, f"${{{self.options.key_variable}}}")
        text = " ".join(without_secrets(text).split())
        return text if len(text) <= 300 else text[:297] + "..."


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _asked_wait(headers: Mapping[str, str]) -> float | None:
    """The seconds that a server asks to wait: a number, or a date (RFC 9110, 10.2.3)."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) * scale
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
