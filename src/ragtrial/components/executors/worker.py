"""The program of a worker process: loads the model once, and answers each shard with the vectors of its batches."""

from __future__ import annotations

import os
import pickle
import traceback
from contextlib import suppress
from typing import Any

from ragtrial.components.embedders.base import Embedder, Encode
from ragtrial.components.embedders.encoding import shard_vectors
from ragtrial.errors import EmbedderError, RagtrialError, counted


def serve() -> None:
    """Answer what comes through standard input, on standard output, until the run closes it.

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
    """What the model forks must not keep the pipes open: the run would never learn that the worker has died."""

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
    """``error`` as another process can read it; of a class that it may not know, what it says and where it was."""
    if isinstance(error, RagtrialError):
        return error
    sent = RuntimeError(f"{type(error).__name__}: {error}")
    sent.add_note("".join(traceback.format_tb(error.__traceback__)))
    return sent


def _say(answers: int, answer: Any) -> None:
    left = memoryview(pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL))
    while left:
        left = left[os.write(answers, left) :]
