"""Worker processes on this machine: several GPUs, or several models side by side on the cores."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import IO, Annotated, Any, Literal, cast

from pydantic import Field

from ragtrial.components.embedders.base import Embedder, Encode, Shard, Workers, shard_vectors
from ragtrial.components.executors.base import EXECUTORS, DiedError, Executor, Pool, thread_limits
from ragtrial.errors import ConfigError, EmbedderError, RagtrialError, counted
from ragtrial.rankings import Floats

_BEGIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from ragtrial.components.executors.processes import serve; serve()"
)
"""A separate program and no fork: its environment has its GPUs and its share of the cores before torch is loaded. Nor
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
        """The variables in which a worker's environment differs from this process's."""
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
    """A process that embeds. It ends with this process, when its input is closed."""

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
        """The vectors of each batch, as they come. Raises the error of the worker, and DiedError."""
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
            with suppress(OSError):  # the unsent rest
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


def serve() -> None:
    """Answer the messages of standard input on standard output, until the run closes it.

    Neither is left to the model: what a function of the user's prints goes to standard error.
    """
    questions, answers = os.fdopen(os.dup(0), "rb"), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    _close_in_forks(questions.fileno(), answers)
    with suppress(OSError, EOFError):  # the run is over
        embedder, gpus = pickle.load(questions)  # noqa: S301 - of the process that began this one
        encode: Encode | None = None
        while True:
            shard = pickle.load(questions)  # noqa: S301 - the same
            try:
                encode = encode or loaded(embedder, gpus)
                for vectors in shard_vectors(embedder, encode, shard):
                    _say(answers, vectors)
            except BrokenPipeError:
                return
            except Exception as error:  # noqa: BLE001 - raised in the process that asked
                _say(answers, as_sent(error))


def _close_in_forks(*descriptors: int) -> None:
    """Forks of the model must not keep the pipes open: the run would never notice that the worker has died."""

    def close() -> None:
        for descriptor in descriptors:
            os.close(descriptor)

    if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
        os.register_at_fork(after_in_child=close)


def loaded(embedder: Embedder, gpus: int) -> Encode:
    """The model. Raises EmbedderError if it cannot be loaded, or if there are fewer GPUs than were assigned."""
    if gpus:
        import torch

        if (seen := torch.cuda.device_count()) < gpus:
            assigned = os.environ.get("CUDA_VISIBLE_DEVICES")
            raise EmbedderError(
                f"a worker was assigned {counted(gpus, 'GPU')} (number {assigned}), and torch finds {seen}. Lower "
                "executor.workers, or remove executor.gpus."
            )
    return embedder.load()


def as_sent(error: Exception) -> Exception:
    """``error`` in a form that another process can read: an unknown class becomes its message and traceback."""
    if isinstance(error, RagtrialError):
        return error
    sent = RuntimeError(f"{type(error).__name__}: {error}")
    sent.add_note("".join(traceback.format_tb(error.__traceback__)))
    return sent


def _say(answers: int, answer: Any) -> None:
    left = memoryview(pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL))
    while left:
        left = left[os.write(answers, left) :]
