"""How the command line shows progress: bars in a terminal, lines in a file or a pipe."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from ragtrial.cache.untrusted import visible
from ragtrial.cli.output import write
from ragtrial.errors import counted
from ragtrial.views.plain_text import duration

if TYPE_CHECKING:
    from rich.progress import Progress as Bars


class _Stages(threading.local):
    """The stages that a thread has begun and not ended, each within the one before it."""

    def __init__(self) -> None:
        self.begun: list[Any] = []


class _Work:
    """A stage at work: how far it is, and since when."""

    def __init__(self, stage: str, total: int | None, unit: str) -> None:
        self.stage, self.total, self.unit = stage, total, unit
        self.done = 0
        self.ended = threading.Event()
        self._start = time.monotonic()
        self._first: tuple[float, int] | None = None

    def advance(self, count: int) -> None:
        self.done += count
        if self._first is None:  # the first step is what the cache has: it says nothing about the speed
            self._first = time.monotonic(), self.done

    def so_far(self) -> str:
        """``embeddings: 1,200 of 5,738 chunks, about 9 min left``"""
        now = time.monotonic()
        if not self.total:
            return f"{self.stage}: running for {duration(now - self._start)}"
        amount = f"{self.stage}: {self.done:,} of {self.total:,} {self.unit}"
        start, before = self._first or (now, self.done)
        if self.done == before:
            return f"{amount}, running for {duration(now - self._start)}"
        left = (now - start) / (self.done - before) * (self.total - self.done)
        return f"{amount}, about {duration(left)} left"

    def at_the_end(self) -> str:
        one = {"queries": "query"}.get(self.unit, self.unit.removesuffix("s"))
        amount = "" if self.total is None else f"{counted(self.total, one, self.unit)}, "
        return f"{self.stage}: {amount}{time.monotonic() - self._start:.1f} s"


class LineProgress:
    """One line per finished stage, and for a long one how far it is: for files and pipes.

    The first such line comes ``first`` seconds after the stage began, others ``every`` seconds after it. Several
    threads may each have a stage.
    """

    def __init__(self, first: float = 10, every: float = 30) -> None:
        self._first, self._every = first, every
        self._mine = _Stages()

    def begin(self, stage: str, total: int | None, unit: str) -> None:
        work = _Work(stage, total, unit)
        self._mine.begun.append(work)
        threading.Thread(target=self._watch, args=[work], daemon=True).start()

    def advance(self, count: int) -> None:
        if self._mine.begun:
            self._mine.begun[-1].advance(count)

    def abandon(self) -> None:
        self._mine.begun.pop().ended.set()

    def finish(self) -> None:
        work = self._mine.begun.pop()
        work.ended.set()
        write(work.at_the_end(), sys.stderr)

    def _watch(self, work: _Work) -> None:
        wait = self._first
        while not work.ended.wait(wait):
            write(work.so_far(), sys.stderr)
            wait = self._every


class BarProgress:
    """A bar for each stage at work; a line stays for each finished one."""

    def __init__(self, *, no_color: bool) -> None:
        self._no_color = no_color
        self._bars: Bars | None = None
        self._at_work = 0
        self._lock = threading.Lock()
        self._mine = _Stages()

    def begin(self, stage: str, total: int | None, unit: str) -> None:
        with self._lock:
            if self._bars is None:
                self._bars = _new_bars(no_color=self._no_color)
                self._bars.start()
            self._at_work += 1
            self._mine.begun.append(self._bars.add_task(visible(f"{stage} ({unit})" if unit else stage), total=total))

    def advance(self, count: int) -> None:
        if self._bars:
            self._bars.advance(self._mine.begun[-1], count)

    def abandon(self) -> None:
        self.finish()

    def finish(self) -> None:
        with self._lock:
            self._at_work -= 1
            if self._bars:
                self._bars.stop_task(self._mine.begun.pop())
                if not self._at_work:
                    self._bars.stop()
                    self._bars = None


def _new_bars(*, no_color: bool) -> Bars:
    from rich import progress as bars
    from rich.console import Console

    text = bars.TextColumn("{task.description}", markup=False)
    columns = [text, bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn(), bars.TimeRemainingColumn()]
    return bars.Progress(*columns, console=Console(stderr=True, no_color=no_color, highlight=False))
