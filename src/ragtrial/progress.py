"""Progress of stages: the command line shows it, the library is silent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Told of each stage once (``begin``), of every step (``advance``), and of its end (``finish``, ``abandon``).

    Stages may stand within one another: what is reported is of the last that began and has not ended.
    """

    def begin(self, stage: str, total: int | None, unit: str) -> None:
        return

    def advance(self, count: int) -> None:
        return

    def finish(self) -> None:
        return

    def abandon(self) -> None:
        return


class Silent(Progress):
    """Says nothing: the default of the library."""


@contextmanager
def stage(progress: Progress, name: str, total: int | None = None, unit: str = "") -> Iterator[Progress]:
    """Announce a stage around a block; one that raises leaves it unfinished, and notes where it was interrupted."""
    progress.begin(name, total, unit)
    counted = _Counted(progress)
    try:
        yield counted
    except BaseException as error:
        progress.abandon()
        if isinstance(error, KeyboardInterrupt | MemoryError):
            error.add_note(f"at {name}" + (f" ({counted.done:,} of {total:,} {unit} done)" if total else ""))
        raise
    progress.finish()


class _Counted:
    """Passes everything on, and knows how far it is."""

    def __init__(self, progress: Progress) -> None:
        self.done = 0
        self.begin, self.finish, self.abandon = progress.begin, progress.finish, progress.abandon
        self._advance = progress.advance

    def advance(self, count: int) -> None:
        self.done += count
        self._advance(count)


@contextmanager
def timed(timings: dict[str, float], name: str) -> Iterator[None]:
    """Add the seconds that the block takes to those of ``name``."""
    start = time.perf_counter()
    yield
    timings[name] = timings.get(name, 0.0) + time.perf_counter() - start
