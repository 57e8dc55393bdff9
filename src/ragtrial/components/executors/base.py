"""Executors, and the pool of workers that most of them use."""

from __future__ import annotations

import os
import traceback
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from threading import RLock
from typing import Annotated, Literal, Protocol

from ragtrial import __version__
from ragtrial.components.embedders.base import Embedder, Encode, Shard, Workers, blaming_a_text, shard_vectors
from ragtrial.errors import EmbedderError, RagtrialError, counted
from ragtrial.options import Options
from ragtrial.rankings import Floats
from ragtrial.registry import AnyOf, Registry


class Executor(Options):
    """Decides which processes embed the texts of documents. Changes no vector, and no fingerprint."""

    kind: str

    @abstractmethod
    def start(self, embedder: Embedder) -> Workers | None:
        """Workers for the model of ``embedder``; None if this process embeds. Loads no model."""


EXECUTORS: Registry[type[Executor]] = Registry("executor", __package__)

AnyExecutor = Annotated[Executor, AnyOf(EXECUTORS)]


@EXECUTORS.register("serial")
class SerialExecutor(Executor):
    """The run's own process embeds, with one model on all cores or on one GPU."""

    kind: Literal["serial"] = "serial"
    """The run's own process embeds."""

    def start(self, embedder: Embedder) -> None:
        return None


_MOST_DEATHS = 3
"""How many workers may die over one batch before its texts are tried one by one."""


class DiedError(EmbedderError):
    """A worker ended before it had answered."""


class Worker(Protocol):
    """A worker that embeds one shard at a time, as the run sees it."""

    number: int

    def embed(self, shard: Shard) -> Iterator[Floats | Exception]:
        """The vectors of each batch, as they come, or an error of the model. Raises DiedError."""
        ...

    def end(self) -> None: ...


class Pool:
    """``count`` workers; ``begin`` starts one, given its number.

    A dead worker is replaced, and the work continues. A batch over which several workers die is an error.
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
        """The result of a worker for each batch, as it arrives. Afterwards the worker is idle, or has ended."""
        with self._lock:
            if not self._idle:
                self._idle.append(self._begin(self._unused[0]))
                self._all.update(self._idle)
                del self._unused[0]
            worker, is_well = self._idle.pop(), False
        try:
            for answer in worker.embed(shard):
                if isinstance(answer, Exception):
                    is_well = isinstance(answer, EmbedderError)
                    raise answer
                yield answer
            is_well = True
        finally:
            if not is_well:
                worker.end()
            with self._lock:
                if is_well:
                    self._idle.append(worker)
                else:
                    self._all.discard(worker)
                    self._unused.append(worker.number)


class ModelWorker:
    """The model of ``embedder`` in a worker's own process, loaded at the first shard."""

    def __init__(self, embedder: Embedder, gpus: int) -> None:
        self._embedder = embedder
        self._gpus = gpus
        self._encode: Encode | None = None

    def version(self) -> str:
        return __version__

    def embed(self, shard: Shard) -> Iterator[Floats | Exception]:
        """The vectors of each batch, or the error, in a form that another process can read."""
        try:
            self._encode = self._encode or self._loaded()
            yield from shard_vectors(self._embedder, self._encode, shard)
        except RagtrialError as error:
            yield error
        except Exception as error:  # noqa: BLE001 - raised in the process that asked, which may not know its class
            sent = RuntimeError(f"{type(error).__name__}: {error}")
            sent.add_note("".join(traceback.format_tb(error.__traceback__)))
            yield sent

    def _loaded(self) -> Encode:
        """The model. Raises EmbedderError if it cannot be loaded, or if there are fewer GPUs than were assigned."""
        if self._gpus:
            import torch

            if (seen := torch.cuda.device_count()) < self._gpus:
                assigned = os.environ.get("CUDA_VISIBLE_DEVICES")
                raise EmbedderError(
                    f"a worker was assigned {counted(self._gpus, 'GPU')} (number {assigned}), and torch finds {seen}. "
                    "Lower executor.workers, or remove executor.gpus."
                )
        return self._embedder.load()
