"""The command line in processes of their own, watched from outside."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONGEST = 120.0
"""Seconds after which a command that should have ended, or come to something, hangs."""


@dataclass(frozen=True)
class Outcome:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Command:
    """``ragtrial`` with ``arguments``, at work in ``folder``; what it prints goes to files, so that no pipe fills."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        log: Path,
        under: Sequence[str] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        log.mkdir(parents=True, exist_ok=True)
        self._files = [log / "stdout.txt", log / "stderr.txt"]
        self._log = log
        command = [*under, sys.executable, "-m", "ragtrial", *arguments]
        variables = {**os.environ, "COLUMNS": "160", **(environment or {})}
        with self._files[0].open("w") as out, self._files[1].open("w") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err, cwd=folder, env=variables)

    @property
    def err(self) -> str:
        """What it has printed to stderr so far."""
        return self._files[1].read_text(encoding="utf-8")

    def wait_until(self, happened: Callable[[], bool]) -> None:
        """Wait for something; AssertionError if the command ends before."""
        deadline = time.monotonic() + LONGEST
        while not happened():
            assert self.process.poll() is None, f"ended too early: {self.ended()}"
            assert time.monotonic() < deadline, f"it does not happen: {self.err}"
            time.sleep(0.005)

    def ended(self) -> Outcome:
        """Wait for the end of it."""
        code = self.process.wait(timeout=LONGEST)
        out, err = (file.read_text(encoding="utf-8") for file in self._files)
        return Outcome(code, out, err)


@contextmanager
def commands_of(logs: Path) -> Iterator[Callable[..., Command]]:
    """A way to start commands; those that are still at work at the end are killed."""
    started: list[Command] = []

    def start(folder: Path, *arguments: str, **options: Any) -> Command:
        made = Command(folder, *arguments, log=logs / str(len(started)), **options)
        started.append(made)
        return made

    try:
        yield start
    finally:
        for command in started:
            if command.process.poll() is None:
                command.process.kill()
                command.process.wait()


def hooked(folder: Path, source: str) -> dict[str, str]:
    """The environment of a command that runs ``source`` before anything else, as a sitecustomize in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(source, encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))}
