"""Worker processes on this machine: several GPUs, or several models side by side on the cores."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import IO, Annotated, Any, Literal, cast

from pydantic import Field

from ragtrial.components.embedders.base import Embedder
from ragtrial.components.embedders.encoding import Shard, Workers, blaming_a_text
from ragtrial.components.executors.base import EXECUTORS, Executor
from ragtrial.errors import ConfigError, EmbedderError, counted
from ragtrial.rankings import Floats

_MOST_DEATHS = 3
"""How many workers may die over one batch before it is looked for a text that kills them."""

_BEGIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from ragtrial.components.executors.worker import serve; serve()"
)
"""A program of its own and no fork: its environment has its GPUs and its share of the cores before torch is loaded. Nor
does it import the user's script again, as multiprocessing would."""

_GPUS = "CUDA_VISIBLE_DEVICES"
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
"""What torch, its matrix products and the tokenizers go by."""


@EXECUTORS.register("processes")
class ProcessExecutor(Executor):
    """Worker processes on this machine, each with its own copy of the model."""

    kind: Literal["processes"] = "processes"
    """Worker processes on this machine embed, each with its own copy of the model."""

    workers: Annotated[int, Field(ge=1)]
    """The number of worker processes; they share the cores. Each takes the memory of one model."""

    gpus: Annotated[int, Field(ge=1)] | None = None
    """The number of GPUs of each worker, which no other worker uses (default: no GPUs are assigned)."""

    def start(self, embedder: Embedder) -> Workers | None:
        return Processes(embedder, [self.environment(number) for number in range(self.workers)], self.gpus or 0)

    def environment(self, number: int) -> dict[str, str]:
        """What differs from this process's environment in that of a worker."""
        share, limit = max(1, _cores() // self.workers), os.environ.get(_THREADS[0], "")
        threads = min(share, int(limit)) if limit.isdigit() else share
        made = dict.fromkeys(_THREADS, str(max(1, threads)))
        if self.gpus is None:
            return made
        wanted, named = self.workers * self.gpus, os.environ.get(_GPUS)
        devices = [str(one) for one in range(wanted)] if named is None else [one for one in named.split(",") if one]
        if len(devices) < wanted:
            raise ConfigError(
                f"executor needs {counted(wanted, 'GPU')} ({self.workers} workers x {self.gpus}); {_GPUS} names "
                f"{len(devices)}. Lower executor.workers or executor.gpus."
            )
        return {**made, _GPUS: ",".join(devices[number * self.gpus : (number + 1) * self.gpus])}


class Processes:
    """Worker processes, one for each of ``environments``, begun when they are needed; each may use so many ``gpus``.

    One that dies is replaced, and goes on where it was. A batch over which several die is given up.
    """

    def __init__(self, embedder: Embedder, environments: Sequence[Mapping[str, str]], gpus: int) -> None:
        self.count = len(environments)
        self._embedder = embedder
        self._environments = environments
        self._gpus = gpus
        self._lock = Lock()
        self._unused = list(range(self.count))
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()

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
                if not isinstance(error, _DiedError) or deaths == _MOST_DEATHS:
                    raise error.moved(sum(map(len, shard[:done]))) from error
                deaths = deaths + 1 if len(made) == done else 1
        return made

    def release(self) -> None:
        with self._lock:
            for worker in self._all:
                worker.end()
            self._unused += [worker.number for worker in self._idle]
            self._all.difference_update(self._idle)
            self._idle.clear()

    def _alone(self, texts: Sequence[str]) -> Floats:
        (vectors,) = self._by_a_worker([texts])
        return vectors

    def _by_a_worker(self, shard: Shard) -> Iterator[Floats]:
        """What a worker makes of each batch, as it comes. The worker is idle afterwards, or ended."""
        worker, is_well = self._taken(), False
        try:
            yield from worker.embed(shard)
            is_well = True
        except EmbedderError as error:
            is_well = not isinstance(error, _DiedError)
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

    def _taken(self) -> _Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            number = self._unused.pop(0)
            worker = _Worker(number, self._embedder, self._environments[number], self._gpus)
            self._all.add(worker)
            return worker


class _DiedError(EmbedderError):
    """A worker ended before it had answered."""


class _Worker:
    """A process that embeds. It ends when this one does: nobody writes to it any more."""

    def __init__(self, number: int, embedder: Embedder, environment: Mapping[str, str], gpus: int) -> None:
        self.number = number
        self._unsent: list[Any] = [(embedder, gpus)]
        self._process = subprocess.Popen(  # noqa: S603 - this Python
            [sys.executable, "-c", _BEGIN, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            start_new_session=True,  # an interruption is for the run, which ends its workers
        )
        self._questions = cast("IO[bytes]", self._process.stdin)
        self._answers = cast("IO[bytes]", self._process.stdout)

    def embed(self, shard: Shard) -> Iterator[Floats]:
        """The vectors of each batch, as they come. Raises what the worker raised, and _DiedError."""
        try:
            self._send(shard)
            for _ in shard:
                answer = pickle.load(self._answers)  # noqa: S301 - of our own process
                if isinstance(answer, Exception):
                    raise answer
                yield answer
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise _DiedError(f"a worker process was ended by {self._ended_by()} while it embedded.") from error

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._questions, self._answers):
            with suppress(OSError):  # what was not sent
                pipe.close()

    def _send(self, message: Any) -> None:
        for one in (*self._unsent, message):
            pickle.dump(one, self._questions, protocol=pickle.HIGHEST_PROTOCOL)
        self._questions.flush()
        self._unsent.clear()

    def _ended_by(self) -> str:
        code = self._process.wait()
        if code >= 0:
            return f"exit code {code}"
        is_killed = -code == getattr(signal, "SIGKILL", 0)
        return signal.Signals(-code).name + (" (is there enough memory for all workers?)" if is_killed else "")


def _cores() -> int:
    """How many this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1
