"""Runs of the command in processes that are watched, and killed, from outside.

They are forked from this process, which has imported the libraries and uses none of them: a run takes as long as its
work.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

PARTIAL = ".partial-"

STAGES: dict[str, str] = {
    "documents": "workspace/documents/",
    "chunks": "documents",
    "embeddings": "chunks",
    "index": "embeddings",
    "retrieval": "index",
    "latency": "retrieval (approximate)",
    "audit": "latency (approximate)",
    "exact setting": "audit (approximate)",
    "words": "latency (exact)",
    "mine": "latency (words)",
    "made": "latency (mine)",
    "theirs": "retrieval (made)",
    "fused": "latency (theirs)",
    "wordings": "latency (fused)",
    "unlike": "latency (wordings)",
    "whole": "latency (unlike)",
    "reranked": "latency (whole)",
    "report": "results/killed/",
}
"""Each stage, in order, and what shows that it begins: the line of the one before it, or a half-made folder there."""


def forked(work: Callable[[], object], out: int = 1, err: int = 2) -> int:
    """A process that does this ``work`` and ends; its id. Called before this process has threads of its own."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
        work()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001  # whatever it is, this copy of the process goes no further
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def import_libraries() -> None:
    """What runs would import one by one, and each time look through for garbage."""
    import bm25s  # noqa: F401
    import chromadb.api.rust  # noqa: F401
    import numpy.ma  # noqa: F401
    import sentence_transformers  # noqa: F401
    import transformers.models.bert.modeling_bert  # noqa: F401

    import ragtrial.cli.gating
    import ragtrial.experiment
    import ragtrial.views.comparison_tables  # noqa: F401

    gc.freeze()


def apart(work: Callable[[], Iterator[str]]) -> list[str]:
    """What ``work`` yields in a process of its own, and what it says on stderr if it fails."""
    read, write = os.pipe()
    process = forked(lambda: print("\n".join(work())), write, write)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as told:
        lines = [line.rstrip("\n") for line in told]
    os.waitpid(process, 0)
    return [line for line in lines if line]


def run_command(config: Path) -> None:
    from ragtrial.__main__ import main as ragtrial

    sys.argv = ["ragtrial", "run", str(config)]
    ragtrial()


class Run:
    """The command in a process of its own, watched from outside: the process is the run itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self._code: int | None = None
        read, write = os.pipe()
        with (folder / "stdout.txt").open("w") as out:
            self._process = forked(partial(run_command, folder / "config.json"), out.fileno(), write)
        os.close(write)
        self._reader = threading.Thread(target=self._read, args=(read,), daemon=True)
        self._reader.start()

    def _read(self, pipe: int) -> None:
        with os.fdopen(pipe, encoding="utf-8", errors="replace") as told:
            for line in told:
                self.lines.append(line.rstrip("\n"))

    @property
    def is_over(self) -> bool:
        if self._code is None:
            process, status = os.waitpid(self._process, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if process else None
        return self._code is not None

    def begun(self, stage: str) -> bool:
        """Whether ``stage`` has begun."""
        sign = STAGES[stage]
        if sign.endswith("/"):
            return any(True for _ in half_made(self.folder / sign, deep=False))
        return any(line.startswith(f"{sign}: ") for line in self.lines)

    def wait_for(self, stage: str) -> bool:
        """Wait until ``stage`` begins; False if the run ends before."""
        while not self.begun(stage):
            if self.is_over:
                return False
            time.sleep(0.0005)
        return True

    def end(self, number: int | None = None) -> int:
        """Wait for the end, which a signal brings; the exit code."""
        if number is not None and not self.is_over:
            os.kill(self._process, number)
        while not self.is_over:
            time.sleep(0.002)
        self._reader.join()
        assert self._code is not None
        return self._code


def half_made(folder: Path, *, deep: bool = True) -> Iterator[str]:
    """What stands half-made in ``folder``, in all folders below it if ``deep``."""
    if not folder.is_dir():
        return
    for path in folder.rglob(f"{PARTIAL}*") if deep else folder.iterdir():
        if path.name.startswith(PARTIAL):
            yield path.relative_to(folder).as_posix()
