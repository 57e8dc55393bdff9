"""Actors of a Ray cluster, and the connection to it."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from threading import RLock, current_thread, main_thread
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator

from ragtrial import __version__
from ragtrial.components.embedders.base import Embedder, Encode, Shard, Workers, shard_vectors
from ragtrial.components.executors.base import EXECUTORS, DiedError, Executor, Pool
from ragtrial.components.executors.processes import as_sent, loaded
from ragtrial.errors import ConfigError, EmbedderError, counted
from ragtrial.rankings import Floats

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
        """End idle actors, to make room for an actor that waits."""
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


_SECONDS_TO_GROW = 300.0
"""How long a cluster that is too small may take to add machines."""
_SECONDS_BETWEEN = 2.0


@EXECUTORS.register("ray")
class RayExecutor(Executor):
    """Actors of a Ray cluster, each with its own copy of the model."""

    kind: Literal["ray"] = "ray"
    """Actors of a Ray cluster embed, each with its own copy of the model."""

    workers: Annotated[int, Field(ge=1)]
    """The number of actors. Each takes the memory of one model and reserves a core."""

    gpus: Annotated[int, Field(ge=1)] | None = None
    """The number of GPUs of each actor, which no other one uses (default: no GPUs are reserved)."""

    address: str
    """The cluster, as the host:port of its head node. `ray start --head` starts one."""

    @field_validator("address")
    @classmethod
    def _has_host_and_port(cls, address: str) -> str:
        if not re.fullmatch(r"[^\s:/@]+:[1-9]\d{0,4}", address):
            raise ValueError(f"is {address!r}; it must be the host:port of the head node, like 10.0.0.7:6379.")
        return address

    def start(self, embedder: Embedder) -> Workers:
        if find_spec("ray") is None:
            raise ConfigError("executor.kind: ray needs a package: pip install 'ragtrial[ray]'.")
        actors = _Actors(embedder, self)
        actors.connect()  # before any work: there may be no such cluster
        return actors

    @property
    def reserved(self) -> dict[str, int]:
        """The resources that Ray reserves for each worker."""
        return {"CPU": 1, "GPU": self.gpus or 0}


class _Actors(Pool):
    def __init__(self, embedder: Embedder, executor: RayExecutor) -> None:
        super().__init__(executor.workers, lambda number: _Actor(number, embedder, executor, self))
        self._executor = executor

    def connect(self) -> None:
        CONNECTION.join(self, self._executor.address)

    def release(self) -> None:
        super().release()
        CONNECTION.leave(self)


class _Actor:
    """An actor, as the run sees it. Ray starts it as soon as a machine has the resources."""

    def __init__(self, number: int, embedder: Embedder, executor: RayExecutor, actors: _Actors) -> None:
        actors.connect()
        import ray

        self.number = number
        self._executor = executor
        self._is_ended = False
        self._is_placed = False
        remote: Any = ray.remote(_Embedding)
        placed = remote.options(num_cpus=executor.reserved["CPU"], num_gpus=executor.reserved["GPU"], max_restarts=0)
        self._actor = placed.remote(embedder, executor.gpus or 0)

    def embed(self, shard: Shard) -> Iterator[Floats]:
        """The vectors of each batch, as they come. Raises the error of the actor, and DiedError."""
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            self._wait_until_placed()
            for reference in self._actor.embed.remote(shard):
                answer = ray.get(reference)
                if isinstance(answer, Exception):
                    raise answer
                yield np.array(answer)  # a copy: Ray's own is lost with the connection
        except RayError as error:
            if self._is_ended:
                raise EmbedderError("the Ray worker was ended, since the run ends.") from error
            if isinstance(error, RayTaskError) or "creation task" in str(error):
                raise EmbedderError(f"the Ray worker cannot work: {str(error).strip().splitlines()[-1]}") from error
            message = "a Ray worker died (is there enough memory for all workers?) while it embedded."
            raise DiedError(message) from error

    def end(self) -> None:
        import ray

        self._is_ended = True
        if ray.is_initialized():
            ray.kill(self._actor)

    def _wait_until_placed(self) -> None:
        """Wait for a machine with the resources that the actor needs. Raises EmbedderError if the cluster is too
        small.
        """
        import ray

        if self._is_placed:
            return
        version, deadline = self._actor.version.remote(), time.monotonic() + _SECONDS_TO_GROW
        while not ray.wait([version], timeout=_SECONDS_BETWEEN)[0]:
            CONNECTION.make_room()
            if time.monotonic() > deadline:
                self._refuse_small_cluster(ray.cluster_resources())  # type: ignore[no-untyped-call]
        if (found := ray.get(version)) != __version__:
            raise EmbedderError(
                f"the Ray cluster at {self._executor.address} has ragtrial {found}, this machine {__version__}. "
                "Install the same version on all machines."
            )
        self._is_placed = True

    def _refuse_small_cluster(self, total: Mapping[str, float]) -> None:
        """A busy cluster is waited for."""
        workers = self._executor.workers
        for resource, each in self._executor.reserved.items():
            if (found := int(total.get(resource, 0))) < workers * each:
                raise EmbedderError(
                    f"executor needs {counted(workers * each, resource)} ({workers} workers x {each}); the Ray cluster "
                    f"at {self._executor.address} has {found}. Lower executor.workers, or add machines to the cluster."
                )


class _Embedding:
    """The actor itself, in a process of Ray's. It loads the model when it is asked for the first time."""

    def __init__(self, embedder: Embedder, gpus: int) -> None:
        self._embedder = embedder
        self._gpus = gpus
        self._encode: Encode | None = None

    def version(self) -> str:
        return __version__

    def embed(self, shard: Shard) -> Iterator[Floats | Exception]:
        """The vectors of each batch, or the error."""
        try:
            self._encode = self._encode or loaded(self._embedder, self._gpus)
            yield from shard_vectors(self._embedder, self._encode, shard)
        except Exception as error:  # noqa: BLE001 - raised in the process that asked
            yield as_sent(error)
