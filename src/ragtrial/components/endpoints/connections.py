"""HTTP connections with one deadline for each exchange. Only clients load this, with httpcore and OpenSSL."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING, Any

import httpcore

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
    """Limit all exchanges of this thread to ``seconds``; after that they raise httpx.TimeoutException."""
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
