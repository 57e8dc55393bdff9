"""Executors, and the pool of workers that most of them use."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from threading import RLock
from typing import Literal, Protocol

from ragtrial.components.embedders.base import Embedder, Shard, Workers, blaming_a_text
from ragtrial.errors import EmbedderError
from ragtrial.options import Options
from ragtrial.rankings import Floats
from ragtrial.registry import Registry


class Executor(Options):
    """Who embeds the texts of documents. Changes no vector, and no fingerprint."""

    kind: str

    @abstractmethod
    def start(self, embedder: Embedder) -> Workers | None:
        """Workers for the model of ``embedder``; None if this process embeds. Loads no model."""


EXECUTORS: Registry[type[Executor]] = Registry("executor", __package__)


@EXECUTORS.register("serial")
class SerialExecutor(Executor):
    """The run's own process embeds, with one model on all cores or on one GPU."""

    kind: Literal["serial"] = "serial"
    """The run's own process embeds."""

    def start(self, embedder: Embedder) -> None:
        return None


_MOST_DEATHS = 3
"""How many workers may die over one batch before it is looked for a text that kills them."""

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
"""The environment variables that torch, its matrix products and the tokenizers read."""


class DiedError(EmbedderError):
    """A worker ended before it had answered."""


class Worker(Protocol):
    """A worker that embeds one shard at a time."""

    number: int

    def embed(self, shard: Shard) -> Iterator[Floats]:
        """The vectors of each batch, as they come. Raises the error of the worker, and DiedError."""
        ...

    def end(self) -> None: ...


class Pool:
    """``count`` workers; ``begin`` starts one, given its number.

    A worker that dies is replaced, and the work continues where it was. A batch over which several die is given up.
    """

    def __init__(self, count: int, begin: Callable[[int], Worker]) -> None:
        self.count = count
        self._begin = begin
        self._lock = RLock()  # garbage may be collected, and this released, while workers are
        self._unused = list(range(self.count))
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()

    def embed(self, shard: Shard) -> list[Floats]:
        made: list[Floats] = []
        deaths = 0
        while (done := len(made)) < len(shard):
            try:
                if deaths < _MOST_DEATHS:
                    for vectors in self._by_a_worker(shard[done:]):
                        made.append(vectors)  # noqa: PERF402 - an extended list would lose what came before a death
                else:
                    made.append(blaming_a_text(self._alone, shard[done]))
                    deaths = 0
            except EmbedderError as error:
                if not isinstance(error, DiedError) or deaths == _MOST_DEATHS:
                    raise error.moved(sum(map(len, shard[:done]))) from error
                deaths = deaths + 1 if len(made) == done else 1
        return made

    def release(self) -> None:
        self.release_idle()
        with self._lock:
            for worker in self._all:
                worker.end()

    def release_idle(self) -> None:
        """End the workers that embed nothing now."""
        with self._lock:
            for worker in self._idle:
                worker.end()
            self._unused += [worker.number for worker in self._idle]
            self._all.difference_update(self._idle)
            self._idle.clear()

    def _alone(self, texts: Sequence[str]) -> Floats:
        (vectors,) = self._by_a_worker([texts])
        return vectors

    def _by_a_worker(self, shard: Shard) -> Iterator[Floats]:
        """The result of a worker for each batch, as it arrives. The worker is idle afterwards, or ended."""
        worker, is_well = self._taken(), False
        try:
            yield from worker.embed(shard)
            is_well = True
        except EmbedderError as error:
            is_well = not isinstance(error, DiedError)
            raise
        finally:
            if not is_well:
                worker.end()
            with self._lock:
                if is_well:
                    self._idle.append(worker)
                else:
                    self._all.discard(worker)
                    self._unused.append(worker.number)

    def _taken(self) -> Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            worker = self._begin(self._unused[0])
            del self._unused[0]
            self._all.add(worker)
            return worker


def thread_limits(workers: int) -> dict[str, str]:
    """The environment in which each of ``workers`` uses its share of the cores."""
    share, limit = max(1, _cores() // workers), os.environ.get(_THREADS[0], "")
    threads = min(share, int(limit)) if limit.isdigit() else share
    return dict.fromkeys(_THREADS, str(max(1, threads)))


def _cores() -> int:
    """How many this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1
