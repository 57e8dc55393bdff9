"""The terminal: where things are printed, how much, in which colours; progress, and streams that are closed or full."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, TextIO

import click

from ragtrial.cache.atomic import write_bytes
from ragtrial.cache.untrusted import for_json, for_terminal, visible
from ragtrial.errors import Fault, InputError, RunError, counted, without_secrets
from ragtrial.progress import Listener, Progress, Silent, stage
from ragtrial.records import ReportWarning
from ragtrial.views.table import Table, best_cells, cell_kind, duration, wrapped

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from ragtrial.report.schema import WarningPart


_PIECES = 10_000
"""Pieces of a JSON document (names, values, brackets) that are written at a time."""


def write(text: str, stream: TextIO) -> None:
    """Print lines; nothing in them steers the terminal, or the job that keeps a log. Raises as ``write_as_is``."""
    write_as_is(for_terminal(text), stream)


def write_as_is(text: str, stream: TextIO, end: str = "\n") -> None:
    """Print lines with our own escape sequences.

    Once the reader of a pipe has gone (``| head``) further lines are dropped; the work goes on. Raises RunError if
    standard output cannot be written, for example if the disk is full.
    """
    try:
        print(text, file=stream, end=end, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError) and stream is not sys.stderr:
            message = f"cannot be written: {error.strerror or error}."
            raise RunError(Fault("standard output", message=message)) from error


def save(target: Path, content: str | bytes) -> None:
    """Write a file, whole or not at all. Raises InputError if it cannot be written."""
    try:
        write_bytes(target, content.encode("utf-8") if isinstance(content, str) else content)
    except OSError as error:
        raise InputError(Fault(str(target), message=f"cannot be written: {error.strerror or error}.")) from error


def write_json(value: Any, stream: TextIO) -> None:
    """Print one JSON document, in the encoding of ``stream``, block by block.

    Models of pydantic in it become JSON when they are reached, so that a long list of them is never in memory twice.
    """
    is_utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    encoder = json.JSONEncoder(
        ensure_ascii=not is_utf8, allow_nan=False, indent=1, default=lambda model: model.model_dump(mode="json")
    )
    pieces = encoder.iterencode(value)
    while block := "".join(islice(pieces, _PIECES)):
        write_as_is(for_json(block), stream, end="")
    write_as_is("", stream)


def _coloured(table: Table) -> str:
    """The table with its titles and the best numbers in bold, and verdicts in colour."""
    colours, best = {"better": "green", "worse": "red", "undecided": "yellow"}, best_cells(table)
    titles, *rows = table.aligned()
    lines = [[click.style(title, bold=True) for title in titles]]
    for number, (row, texts) in enumerate(zip(table.rows, rows, strict=True)):
        kinds = [cell_kind(column, cell) for column, cell in zip(table.columns, row, strict=True)]
        cells = enumerate(zip(texts, kinds, strict=True))
        lines.append([click.style(text, bold=(number, place) in best or None, fg=colours.get(kind))
                      for place, (text, kind) in cells])  # fmt: skip
    return "\n".join(map("  ".join, lines))


class _Log(logging.Handler):
    """Messages of the library on stderr, as all else is printed."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            write(without_secrets(self.format(record)), sys.stderr)
        except Exception:  # noqa: BLE001 - as logging has it: a message that cannot be made ends no run
            self.handleError(record)


class Line(str):
    """A line that is not wrapped: it has a path, or a command to copy."""


@dataclass(frozen=True)
class Answer:
    """The result of a command: ``content`` for programs, ``blocks`` for people, ``errors`` below all else on stderr.

    A mapping gets the exit code as its first field, and ``warnings``, unless they are None, as its last.
    """

    content: Any = None
    blocks: Iterable[str | Table] = ()
    warnings: Sequence[ReportWarning | WarningPart] | None = None
    errors: Iterable[str] = ()
    code: int = 0

    def json(self) -> Any:
        if not isinstance(self.content, dict):
            return self.content
        answer = {"exit_code": self.code, **self.content}
        if self.warnings is not None:
            answer["warnings"] = [{"code": str(warning.code), "message": warning.message} for warning in self.warnings]
        return answer


class Stopped(KeyboardInterrupt):
    """An interruption with a message of the command: the work that is kept, and the way to resume."""


class Terminal:
    """The answer goes to stdout; progress, logs and warnings go to stderr."""

    def __init__(self, *, as_json: bool, quiet: bool, verbose: bool, no_color: bool) -> None:
        self.out = sys.stdout
        self.as_json = as_json
        self.quiet = quiet
        self.verbose = verbose
        self.no_color = no_color or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        handler = _Log()
        logger = logging.getLogger("ragtrial")
        logger.handlers = [handler]
        logger.setLevel(logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING)
        logger.propagate = False

    @property
    def width(self) -> int:
        """The width in columns: the width of the terminal, or plenty for a file or a pipe."""
        return shutil.get_terminal_size(fallback=(160, 24)).columns

    @property
    def prose_width(self) -> int:
        """Where lines of prose end: nowhere in a file or a pipe, which programs read line by line."""
        return self.width if self.out.isatty() or "COLUMNS" in os.environ else sys.maxsize

    @property
    def styled(self) -> bool:
        return self.out.isatty() and not self.no_color

    def check_stdout(self, targets: Mapping[str, str | None]) -> None:
        """Raises UsageError if more than one of the files by option, and the document of ``--json``, are stdout."""
        options = [name for name, target in targets.items() if target == "-"] + ["--json"] * self.as_json
        if len(options) > 1:
            both = " and ".join(options)
            raise click.UsageError(f"{both} would both go to standard output; give all but one a file.")

    def say(self, text: str = "") -> None:
        """Print a line of the answer; nothing under ``--json``."""
        if not self.as_json:
            write(text, self.out)

    def tell(self, text: str) -> None:
        """Print prose, each line on as many lines as the terminal needs."""
        self.say(self._wrapped(text))

    def _wrapped(self, text: str) -> str:
        lines = text.split("\n")
        return text if isinstance(text, Line) else "\n".join(wrapped(line, self.prose_width) for line in lines)

    def note(self, text: str) -> None:
        """Print a line that is not the answer, on stderr; nothing when quiet."""
        if not self.quiet:
            write(text, sys.stderr)

    def finish(self, answer: Answer) -> int:
        """Print the answer in its form for people, or for programs; the exit code."""
        self.show(answer.blocks, before="")
        if self.as_json and answer.content is not None:
            write_json(answer.json(), self.out)
        self.warn(answer.warnings or ())
        for line in answer.errors:
            write(self._wrapped(line), sys.stderr)
        return answer.code

    def show(self, blocks: Iterable[str | Table], *, before: str = "\n") -> None:
        """Print lines and tables one below the other; a table that no line precedes is set off by ``before``."""
        for block in blocks:
            if isinstance(block, str):
                self.tell(block)
            else:
                self.table(block, before=before)
            before = "" if isinstance(block, str) else "\n"

    def table(self, table: Table, *, before: str = "") -> None:
        """Print a table, if it has rows, after the text ``before``, and its notes below it."""
        if self.as_json or not table.rows:
            return
        columns = [replace(column, title=visible(column.title)) for column in table.columns]
        shown = replace(table, columns=columns, rows=[[visible(cell) for cell in row] for row in table.rows])
        shown = shown.squeezed(self.prose_width)
        if self.styled:
            write_as_is(before + _coloured(shown), self.out)
        else:
            write(before + "\n".join("  ".join(row).rstrip() for row in shown.aligned()), self.out)
        for note in table.notes:
            write(wrapped(visible(note), self.prose_width), self.out)

    def warn(self, warnings: Sequence[ReportWarning | WarningPart]) -> None:
        """Print a warning of each kind on standard error, and the number of others; first what may change a verdict."""
        if self.quiet or not warnings:
            return
        kinds: dict[str, list[str]] = {}
        for warning in sorted(warnings, key=lambda warning: not warning.may_change_verdict):
            kinds.setdefault(warning.code, []).append(warning.message)
        shown = f", {len(kinds):,} shown" if len(kinds) < len(warnings) else ""
        write(f"\n{counted(len(warnings), 'warning')}{shown}:", sys.stderr)
        for code, (message, *others) in kinds.items():
            more = f" ({len(others):,} more {code}: --json shows all)" if others else ""
            write(indent(wrapped(message + more, self.prose_width - 2), "  "), sys.stderr)

    def progress(self) -> Progress:
        """Bars in a terminal; lines elsewhere; nothing when quiet."""
        return Silent() if self.quiet else _shown_progress(no_color=self.no_color)

    @contextlib.contextmanager
    def saving(self, name: str, total: int, unit: str, save: Callable[[], object]) -> Iterator[Callable[[int], None]]:
        """Progress of a model's replies; after an error or an interruption, ``save`` keeps the replies so far."""
        try:
            with stage(self.progress(), name, total, unit) as progress:
                yield progress.advance
        except BaseException:
            save()
            raise


class RunListener(Listener):
    """Shows progress, notices and failures; ``note`` prints a line on stderr."""

    def __init__(self, progress: Progress, note: Callable[[str], None]) -> None:
        super().__init__(progress)
        self._note = note

    def notice(self, message: str) -> None:
        self._note(message)

    def failed(self, setting: str, reason: str) -> None:
        self._note(f"error: setting {setting!r} failed: {reason}")


def python_listener(*, shows: bool | None) -> Listener:
    """The listener of a run in Python; if ``shows`` is None, it is silent but in a terminal and in a notebook."""
    if shows or (shows is None and (sys.stderr.isatty() or "ipykernel" in sys.modules)):
        return RunListener(_shown_progress(no_color="NO_COLOR" in os.environ), partial(write, stream=sys.stderr))
    return Listener()


def _shown_progress(*, no_color: bool) -> Progress:
    is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return BarProgress(no_color=no_color) if is_terminal else LineProgress()


class _Stages(threading.local):
    """The stages that a thread has begun and not ended, each within the one before it."""

    def __init__(self) -> None:
        self.begun: list[Any] = []


class _Work:
    """A stage at work: how far it is, and since when."""

    def __init__(self, stage: str, total: int | None, unit: str) -> None:
        self.stage, self.total, self.unit = stage, total, unit
        self.done = self._steps = 0
        self.ended = threading.Event()
        self._start = time.monotonic()
        self._first = self._start, 0

    def advance(self, count: int) -> None:
        self.done += count
        self._steps += 1
        if self._steps <= 2:  # read from the cache, then delayed by loading a model: neither shows the speed
            self._first = time.monotonic(), self.done

    def so_far(self) -> str:
        """``embeddings: 1,200 of 5,738 chunks, about 9 min left``"""
        now = time.monotonic()
        if not self.total:
            return f"{self.stage}: running for {duration(now - self._start)}"
        amount = f"{self.stage}: {self.done:,} of {self.total:,} {self.unit}"
        start, before = self._first
        if self.done == before:
            return f"{amount}, running for {duration(now - self._start)}"
        left = (now - start) / (self.done - before) * (self.total - self.done)
        return f"{amount}, about {duration(left)} left"

    def at_the_end(self) -> str:
        noun = {"queries": "query"}.get(self.unit, self.unit.removesuffix("s"))
        amount = "" if self.total is None else f"{counted(self.total, noun, self.unit)}, "
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
