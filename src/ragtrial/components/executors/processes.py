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
from typing import IO, Annotated, Any, Literal, cast

from pydantic import Field

from ragtrial.components.embedders.base import Embedder
from ragtrial.components.embedders.encoding import Shard, Workers
from ragtrial.components.executors.base import EXECUTORS, Executor
from ragtrial.components.executors.pool import DiedError, Pool, thread_limits
from ragtrial.errors import ConfigError, counted
from ragtrial.rankings import Floats

_BEGIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from ragtrial.components.executors.worker import serve; serve()"
)
"""A program of its own and no fork: its environment has its GPUs and its share of the cores before torch is loaded. Nor
does it import the user's script again, as multiprocessing would."""

_GPUS = "CUDA_VISIBLE_DEVICES"


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
        """What differs from this process's environment in that of a worker."""
        made = thread_limits(self.workers)
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


class _Process:
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
        """The vectors of each batch, as they come. Raises what the worker raised, and DiedError."""
        try:
            self._send(shard)
            for _ in shard:
                answer = pickle.load(self._answers)  # noqa: S301 - of our own process
                if isinstance(answer, Exception):
                    raise answer
                yield answer
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise DiedError(f"a worker process was ended by {self._ended_by()} while it embedded.") from error

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
