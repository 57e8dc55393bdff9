"""Worker processes on this machine: several GPUs, or several models side by side on the cores."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import IO, Annotated, Literal, cast

from pydantic import Field

from ragtrial.components.embedders.base import Embedder, Shard, Workers
from ragtrial.components.executors.base import EXECUTORS, DiedError, Executor, ModelWorker, Pool
from ragtrial.errors import ConfigError, counted
from ragtrial.rankings import Floats

_BEGIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from ragtrial.components.executors.processes import serve; serve()"
)
"""A separate program and no fork: its environment has its GPUs and its share of the cores before torch is loaded. Nor
does it import the user's script again, as multiprocessing would."""

_GPUS = "CUDA_VISIBLE_DEVICES"
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
"""The environment variables that torch, its matrix products and the tokenizers read."""


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
        environments = [self.environment(number) for number in range(self.workers)]
        return Pool(self.workers, lambda number: _Process(number, embedder, environments[number], self.gpus or 0))

    def environment(self, number: int) -> dict[str, str]:
        """The variables in which a worker's environment differs from this process's: its threads and its GPUs."""
        allowed, limit = getattr(os, "sched_getaffinity", None), os.environ.get(_THREADS[0], "")
        cores = len(allowed(0)) if allowed else os.cpu_count() or 1
        share = max(1, cores // self.workers)
        threads = dict.fromkeys(_THREADS, str(max(1, min(share, int(limit))) if limit.isdigit() else share))
        if self.gpus is None:
            return threads
        wanted, named = self.workers * self.gpus, os.environ.get(_GPUS)
        devices = list(map(str, range(wanted))) if named is None else [name for name in named.split(",") if name]
        if len(devices) < wanted:
            raise ConfigError(
                f"executor needs {counted(wanted, 'GPU')} ({self.workers} workers x {self.gpus}); {_GPUS} names "
                f"{len(devices)}. Lower executor.workers or executor.gpus."
            )
        return {**threads, _GPUS: ",".join(devices[number * self.gpus : (number + 1) * self.gpus])}


class _Process:
    """A process that embeds. It ends with this process, when its input is closed."""

    def __init__(self, number: int, embedder: Embedder, environment: Mapping[str, str], gpus: int) -> None:
        self.number = number
        self._model = embedder, gpus
        self._process = subprocess.Popen(  # noqa: S603 - this Python
            [sys.executable, "-c", _BEGIN, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            start_new_session=True,  # an interruption is for the run, which ends its workers
        )
        self._questions = cast("IO[bytes]", self._process.stdin)
        self._answers = cast("IO[bytes]", self._process.stdout)

    def embed(self, shard: Shard) -> Iterator[Floats | Exception]:
        """The vectors of each batch, as they come, or an error of the model. Raises DiedError."""
        try:
            pickle.dump((*self._model, shard), self._questions, protocol=pickle.HIGHEST_PROTOCOL)
            self._questions.flush()
            for _ in shard:
                yield pickle.load(self._answers)  # noqa: S301 - of our own process
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            code = self._process.wait()
            cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            hint = " (is there enough memory for all workers?)" if cause == "SIGKILL" else ""
            raise DiedError(f"a worker process was ended by {cause}{hint} while it embedded.") from error

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._questions, self._answers):
            with suppress(OSError):  # the unsent rest
                pipe.close()


def serve() -> None:
    """Answer the shards of standard input on standard output, until the run closes it.

    Neither is left to the model: what a function of the user's prints goes to standard error.
    """
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
        for pipe in (questions, answers):  # open in a fork of the model, the run would not notice that the worker died
            os.register_at_fork(after_in_child=pipe.close)
    worker: ModelWorker | None = None
    with suppress(OSError, EOFError):  # the run is over
        while True:
            embedder, gpus, shard = pickle.load(questions)  # noqa: S301 - of the process that began this one
            worker = worker or ModelWorker(embedder, gpus)
            for answer in worker.embed(shard):
                pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
                answers.flush()
