"""Progress, notices and failures of a run: the command line shows them, the library is silent."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

logger = logging.getLogger(__name__)

Advance = Callable[[int], None]
"""Takes the number of steps that are done since the last call."""


class Progress(Protocol):
    """Receives one ``begin`` per stage, an ``advance`` per step, and at the end ``finish`` or ``abandon``.

    Stages nest: a report is about the innermost stage that has not ended.
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
    """Shows nothing: the default of the library."""


class Listener:
    """Follows a run: progress of stages, notices, and failures of settings. This one writes to the log."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.progress = progress or Silent()

    def notice(self, message: str) -> None:
        """Receive a message to know before work begins, or the score of a setting that took work."""
        logger.info(message)

    def failed(self, setting: str, reason: str) -> None:
        """Receive the name of a setting as soon as it fails."""
        logger.debug("setting %s failed: %s", setting, reason)


@contextmanager
def stage(progress: Progress, name: str, total: int | None = None, unit: str = "") -> Iterator[Progress]:
    """Announce a stage around a block. An error abandons the stage; an interrupt notes its place."""
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
    """Forwards everything, and counts the steps."""

    def __init__(self, progress: Progress) -> None:
        self.done = 0
        self.begin, self.finish, self.abandon = progress.begin, progress.finish, progress.abandon
        self._advance = progress.advance

    def advance(self, count: int) -> None:
        self.done += count
        self._advance(count)


@contextmanager
def timed(timings: dict[str, float], name: str) -> Iterator[None]:
    """Add the seconds of the block to the entry ``name``."""
    start = time.perf_counter()
    yield
    timings[name] = timings.get(name, 0.0) + time.perf_counter() - start
