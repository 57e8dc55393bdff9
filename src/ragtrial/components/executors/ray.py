"""Actors of a Ray cluster, and the connection to it."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from importlib.util import find_spec
from threading import RLock, current_thread, main_thread
from typing import Annotated, Any, Literal
from weakref import WeakSet

import numpy as np
from pydantic import Field, field_validator

from ragtrial import __version__
from ragtrial.components.embedders.base import Embedder, Shard, Workers
from ragtrial.components.executors.base import EXECUTORS, DiedError, Executor, ModelWorker, Pool
from ragtrial.errors import ConfigError, EmbedderError, counted
from ragtrial.rankings import Floats

_SECONDS_TO_ANSWER = 5.0

_QUIET = {
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # it prints to standard output that an actor died
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",  # it prints addresses of the stack at an interruption
    "RAY_NUM_REDIS_GET_RETRIES": "1",  # it asks twenty times whether a wrong token is right
}

_LOCK = RLock()
_JOINED: list[str] = []
"""The address of the cluster that was joined for ``_POOLS``; empty where the user's own script has joined one."""
_POOLS: WeakSet[Pool] = WeakSet()


def _join(pool: Pool, address: str) -> None:
    """Join the cluster at ``address`` until the last pool is released. Raises ConfigError.

    A connection that the user's own script has opened is used as it is, and stays open.
    """
    import ray

    with _LOCK:
        _POOLS.add(pool)  # first: garbage that is collected at any line below may release other pools
        if not ray.is_initialized():
            os.environ.update(_QUIET)
            _probe(address)
            _connect(address)
            _JOINED[:] = [address]
        elif _JOINED and address not in _JOINED:
            raise ConfigError("this process uses another Ray cluster. Start one run after the other.")


def _probe(address: str) -> None:
    """Raise ConfigError if nothing answers: Ray would try for minutes."""
    import ray

    host, _, port = address.rpartition(":")
    if host in ("localhost", "127.0.0.1"):
        host = ray.util.get_node_ip_address()  # as Ray does
    try:
        socket.create_connection((host, int(port)), timeout=_SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"no Ray cluster answers at {address} ({getattr(error, 'strerror', None) or error}). Start it with "
            "`ray start --head`, or correct executor.address."
        ) from error


def _connect(address: str) -> None:
    """Raise ConfigError if Ray refuses. Ray replaces the handler of SIGTERM in the main thread, where it is put back.

    Ray is not joined in another thread: garbage collected there may release a pool, which would wait for this one.
    """
    import ray
    from ray.exceptions import RayError

    handler = signal.getsignal(signal.SIGTERM)
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (RayError, OSError, RuntimeError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].split(". ")[0].rstrip(".")
        raise ConfigError(
            f"the Ray cluster at {address} cannot be joined: {reason}. If it requires a token, set "
            "RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to that token."
        ) from error
    finally:
        if current_thread() is main_thread():
            signal.signal(signal.SIGTERM, handler)


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
        actors = _Actors(self.workers, lambda number: _Actor(number, embedder, self, actors))
        _join(actors, self.address)  # before any work: there may be no such cluster
        return actors


class _Actors(Pool):
    def release(self) -> None:
        super().release()
        with _LOCK:
            _POOLS.discard(self)
            if _JOINED and not _POOLS:
                import ray

                _JOINED.clear()
                ray.shutdown()


class _Actor:
    """An actor, as the run sees it. Ray starts it as soon as a machine has the resources."""

    def __init__(self, number: int, embedder: Embedder, executor: RayExecutor, actors: Pool) -> None:
        _join(actors, executor.address)
        import ray

        self.number = number
        self._executor = executor
        self._is_ended = False
        self._is_placed = False
        gpus = executor.gpus or 0
        self._reserved = {"CPU": 1, "GPU": gpus}
        remote: Any = ray.remote(ModelWorker)
        self._actor = remote.options(num_cpus=1, num_gpus=gpus, max_restarts=0).remote(embedder, gpus)

    def embed(self, shard: Shard) -> Iterator[Floats | Exception]:
        """The vectors of each batch, as they come, or an error of the model. Raises DiedError."""
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            self._wait_until_placed()
            for reference in self._actor.embed.remote(shard):
                answer = ray.get(reference)
                yield answer if isinstance(answer, Exception) else np.array(answer)  # Ray's own is lost with it
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
        small; a busy cluster is waited for.
        """
        import ray

        if self._is_placed:
            return
        version, deadline = self._actor.version.remote(), time.monotonic() + _SECONDS_TO_GROW
        while not ray.wait([version], timeout=_SECONDS_BETWEEN)[0]:
            for pool in list(_POOLS):
                pool.release_idle()
            if time.monotonic() > deadline:
                self._refuse_small_cluster()
        if (found := ray.get(version)) != __version__:
            raise EmbedderError(
                f"the Ray cluster at {self._executor.address} has ragtrial {found}, this machine {__version__}. "
                "Install the same version on all machines."
            )
        self._is_placed = True

    def _refuse_small_cluster(self) -> None:
        import ray

        workers, total = self._executor.workers, ray.cluster_resources()
        for resource, each in self._reserved.items():
            if (found := int(total.get(resource, 0))) < workers * each:
                raise EmbedderError(
                    f"executor needs {counted(workers * each, resource)} ({workers} workers x {each}); the Ray cluster "
                    f"at {self._executor.address} has {found}. Lower executor.workers, or add machines to the cluster."
                )
