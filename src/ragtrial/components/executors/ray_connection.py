"""The connection of this process to Ray: there can be one."""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import IO, cast

from ragtrial.components.executors.pool import Pool
from ragtrial.errors import ConfigError, EmbedderError

_HEAD = """
import json, sys, tempfile
import ray
folder = tempfile.TemporaryDirectory(prefix="ragtrial-ray-", dir=json.loads(sys.argv[2]), ignore_cleanup_errors=True)
with folder:
    try:
        ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="error",
                 object_store_memory=128 * 2**20, _temp_dir=folder.name, **json.loads(sys.argv[1]))
        said = {"address": ray.get_runtime_context().gcs_address}
    except Exception as error:
        said = {"error": (str(error).strip() or type(error).__name__).splitlines()[0]}
    print(json.dumps(said), flush=True)
    sys.stdin.read()
    ray.shutdown()
"""
"""A program of its own, which ends Ray in good order when the run closes its input or is killed.

What Ray starts is killed by Linux with the thread that has started it, and two agents of Ray's then wait a minute for
others that are gone. Its folder is in /tmp, since the paths of sockets must be short.
"""

_SECONDS_TO_ANSWER = 5.0
_SECONDS_TO_END = 30.0

_QUIET = {
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # it prints to standard output that an actor died
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",  # it prints addresses of the stack at an interruption
    "RAY_NUM_REDIS_GET_RETRIES": "1",  # it asks twenty times whether a wrong token is right
}

_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}
"""The environment in which Ray, on Linux too, listens on 127.0.0.1 alone. It sends nothing, and asks for a token."""


class _Connection:
    """Opened for the first pool of actors that needs it, and closed when the last one is released.

    A connection that the user's own script has opened is used as it is, and stays open.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # a pool may be released while its garbage is collected, at any line below
        self._pools: set[Pool] = set()
        self._opened_for: tuple[str | None, int] | None = None
        self._head: subprocess.Popen[bytes] | None = None

    def join(self, pool: Pool, address: str | None, workers: int, gpus: int) -> None:
        """Connect to the cluster at ``address``, or to Ray on this machine, for so many workers of so many ``gpus``.

        Raises ConfigError, and EmbedderError if Ray does not start on this machine.
        """
        needed = address, 0 if address else workers * gpus
        with self._lock:
            if not self._pools and not _is_connected():
                self._open(address, workers, gpus)
                self._pools.add(pool)
                self._opened_for = needed
            elif self._opened_for not in (None, needed):
                raise ConfigError("this process uses Ray with another executor. Start one run after the other.")
            self._pools.add(pool)

    def leave(self, pool: Pool) -> None:
        with self._lock:
            self._pools.discard(pool)
            if not self._pools and self._opened_for is not None:
                self._opened_for = None
                self._close()

    def make_room(self) -> None:
        """End the actors that embed nothing, for one that has no place."""
        with self._lock:
            pools = list(self._pools)
        for pool in pools:
            pool.release_idle()

    def _open(self, address: str | None, workers: int, gpus: int) -> None:
        if address is not None:
            with _environment(_QUIET):
                _probe(address)
                _connect(address)
            return
        environment = {**_LOOPBACK, "RAY_AUTH_TOKEN": _token()}
        with _environment({**_QUIET, **environment}):
            _refuse_other_addresses()
            self._head, here = _started(environment, num_cpus=workers, num_gpus=workers * gpus)
            try:
                _connect(here)
            except ConfigError:
                self._close()
                raise

    def _close(self) -> None:
        import ray

        ray.shutdown()
        if self._head is not None:
            cast("IO[bytes]", self._head.stdin).close()
            cast("IO[bytes]", self._head.stdout).close()
            try:
                self._head.wait(_SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                self._head.kill()
                self._head.wait()
            self._head = None


CONNECTION = _Connection()


def _is_connected() -> bool:
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


def _refuse_other_addresses() -> None:
    """Raise EmbedderError if this process would listen on more than the loopback: Ray has read its environment."""
    import ray

    if not ray.util.get_node_ip_address().startswith("127."):  # type: ignore[no-untyped-call]
        raise EmbedderError(
            "Ray was imported before and would listen on all addresses of this machine. Set the environment variable "
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER to 0, or call ray.init yourself."
        )


def _started(environment: Mapping[str, str], **resources: int) -> tuple[subprocess.Popen[bytes], str]:
    """Ray on this machine, and its address. Raises EmbedderError."""
    folder = None if os.name == "nt" else "/tmp"  # noqa: S108 - a new folder in it
    head = subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, "-c", _HEAD, json.dumps(resources), json.dumps(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
        start_new_session=True,  # an interruption is for the run, which ends Ray
    )
    line = cast("IO[bytes]", head.stdout).readline()
    said = json.loads(line) if line else {"error": f"it ended with exit code {head.wait()}"}
    if "error" in said:
        head.kill()
        head.communicate()
        raise EmbedderError(f"Ray cannot be started on this machine: {said['error']}")
    return head, said["address"]


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
            "`ray start --head`, correct executor.address, or remove that key to embed on this machine."
        ) from error


def _connect(address: str) -> None:
    """Raise ConfigError if Ray refuses."""
    import ray
    from ray.exceptions import RayError

    def join() -> None:
        logging.getLogger("ray").setLevel(logging.ERROR)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)

    try:
        with ThreadPoolExecutor(1) as thread:  # in the main thread, Ray would replace the run's handler of SIGTERM
            thread.submit(join).result()
    except (RayError, OSError, RuntimeError, ValueError) as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0].split(". ")[0].rstrip(".")
        raise ConfigError(
            f"the Ray cluster at {address} cannot be joined: {said}. If it requires a token, set RAY_AUTH_MODE=token, "
            "and RAY_AUTH_TOKEN to that token."
        ) from error


@cache
def _token() -> str:
    """The user's, else one for this process: Ray reads it once."""
    return os.environ.get("RAY_AUTH_TOKEN") or secrets.token_hex(32)


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
