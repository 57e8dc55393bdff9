"""The connection of this process to Ray: there can be one."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import RLock, current_thread, main_thread

from ragtrial.components.executors.pool import Pool
from ragtrial.errors import ConfigError

_SECONDS_TO_ANSWER = 5.0

_QUIET = {
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # it prints to standard output that an actor died
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",  # it prints addresses of the stack at an interruption
    "RAY_NUM_REDIS_GET_RETRIES": "1",  # it asks twenty times whether a wrong token is right
}


class _Connection:
    """Opened for the first pool of actors that needs it, and closed when the last one is released.

    A connection that the user's own script has opened is used as it is, and stays open.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # a pool may be released while its garbage is collected, at any line below
        self._pools: set[Pool] = set()
        self._opened_for: str | None = None

    def join(self, pool: Pool, address: str) -> None:
        """Connect to the cluster at ``address``. Raises ConfigError."""
        with self._lock:
            if not self._pools and not _is_connected():
                with _environment(_QUIET):
                    _probe(address)
                    _connect(address)
                self._opened_for = address
            elif self._opened_for not in (None, address):
                raise ConfigError("this process uses another Ray cluster. Start one run after the other.")
            self._pools.add(pool)

    def leave(self, pool: Pool) -> None:
        with self._lock:
            self._pools.discard(pool)
            if not self._pools and self._opened_for is not None:
                self._opened_for = None
                import ray

                ray.shutdown()

    def make_room(self) -> None:
        """End the actors that embed nothing, for one that has no place."""
        with self._lock:
            pools = list(self._pools)
        for pool in pools:
            pool.release_idle()


CONNECTION = _Connection()


def _is_connected() -> bool:
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


def _probe(address: str) -> None:
    """Raise ConfigError if nothing answers: Ray would try for minutes."""
    import ray

    host, _, port = address.rpartition(":")
    if host in ("localhost", "127.0.0.1"):
        host = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]  # as Ray does
    try:
        socket.create_connection((host, int(port)), timeout=_SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"no Ray cluster answers at {address} ({getattr(error, 'strerror', None) or error}). Start it with "
            "`ray start --head`, or correct executor.address."
        ) from error


def _connect(address: str) -> None:
    """Raise ConfigError if Ray refuses."""
    import ray
    from ray.exceptions import RayError

    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        with _same_sigterm():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (RayError, OSError, RuntimeError, ValueError) as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0].split(". ")[0].rstrip(".")
        raise ConfigError(
            f"the Ray cluster at {address} cannot be joined: {said}. If it requires a token, set RAY_AUTH_MODE=token, "
            "and RAY_AUTH_TOKEN to that token."
        ) from error


@contextmanager
def _same_sigterm() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces in the main thread.

    Ray is not joined in another thread: garbage collected there may release a pool, which would wait for this one.
    """
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if current_thread() is main_thread():
            signal.signal(signal.SIGTERM, handler)


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
