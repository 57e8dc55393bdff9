"""HTTP connections with one deadline for each exchange, and limits for the size of its body."""

from __future__ import annotations

import json
import ssl
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING, Any

import httpcore

from ragtrial.cache.untrusted import load_json

if TYPE_CHECKING:
    import httpx


class _Deadline(local):
    """When the exchange of this thread ends, by the monotonic clock."""

    at = float("inf")

    def left(self, error: type[Exception]) -> float:
        """The seconds until then. Raises ``error`` when they are over."""
        seconds = self.at - time.monotonic()
        if seconds <= 0:
            raise error("the exchange takes too long")
        return seconds


_DEADLINE = _Deadline()


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """All that the clients of this module do in this thread ends after ``seconds``, by an httpx.TimeoutException."""
    _DEADLINE.at = time.monotonic() + seconds
    try:
        yield
    finally:
        _DEADLINE.at = float("inf")


class _Stream(httpcore.NetworkStream):
    """Bytes to and from a server. A timeout of httpx limits each read, even one of a few bytes."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _DEADLINE.left(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _DEADLINE.left(httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, _DEADLINE.left(httpcore.ConnectTimeout)))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.SyncBackend):
    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *more: Any, **options: Any
    ) -> httpcore.NetworkStream:
        return _Stream(super().connect_tcp(host, port, _DEADLINE.left(httpcore.ConnectTimeout), *more, **options))


def http_client(headers: dict[str, str], connections: int) -> httpx.Client:
    """A client with at most ``connections`` connections, through the proxies of the environment."""
    import httpx

    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    client = httpx.Client(headers=headers, limits=limits, timeout=None)  # noqa: S113 - see ``deadline``
    for transport in (client._transport, *client._mounts.values()):  # noqa: SLF001 - httpx has no other way to it
        if isinstance(transport, httpx.HTTPTransport):
            transport._pool._network_backend = _Backend()  # noqa: SLF001
    return client


_ENVELOPE = 4_000_000
"""Bytes of an answer in addition to the requested content."""

_NUMBER_BYTES = 25
_CHARACTER_BYTES = 12
"""The longest form of a character in JSON: two escapes."""

_ROW_BYTES = 2_000
_MOST_LISTS = 100_000
"""Lists and objects of an answer: each takes up to 30 times the memory of its bytes."""


class BodyError(Exception):
    """A body is no answer; the message begins with a verb. ``is_cut`` says that another try may bring a whole one."""

    def __init__(self, message: str, *, is_cut: bool = False) -> None:
        super().__init__(message)
        self.is_cut = is_cut


def answer_budget(texts: Sequence[str], numbers: int = 0) -> int:
    """The most bytes of an answer about ``texts``, which some servers repeat, with a count of ``numbers`` in it.

    The envelope holds more than 100,000 tokens of thoughts in the longest form.
    """
    return _ENVELOPE + numbers * _NUMBER_BYTES + sum(_ROW_BYTES + len(text) * _CHARACTER_BYTES for text in texts)


def collected(parts: Iterable[bytes], encoding: str, most: int, *, is_whole: bool = True) -> bytes:
    """The body that arrives in ``parts``, inflated. Raises BodyError for more than ``most`` bytes.

    Where it need not be whole, as of an error, it is cut there.
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
