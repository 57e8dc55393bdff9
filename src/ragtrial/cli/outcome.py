"""Messages and exit codes for every outcome of a command; a crash never looks like another outcome."""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from typing import NoReturn, TextIO

import click

from ragtrial import __version__
from ragtrial.cli.group import group
from ragtrial.cli.terminal import Stopped, write, write_json
from ragtrial.errors import Fault, RagtrialError, RunError, without_secrets

_MISUSED = 2
_INTERRUPTED = 130
_CRASHED = 3
_KEPT = "Everything that was finished is kept, every batch of embeddings, too; run the same command again to go on."
_BRIEF = ("score", "export", "explain")
_WORKERS = "ragtrial_"
"""How the names of threads begin that make stages side by side."""

_RUNNING = threading.Lock()
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_MOST_SECONDS = 3.0
"""Seconds until an interrupted run is ended anywhere; as after a kill, finished work is kept."""


def run(arguments: Sequence[str]) -> int:
    """Run a command line; its exit code. Errors go to stderr, and with ``--json`` as one document to stdout, too.

    Raises RunError in a process that runs one already.
    """
    if not _RUNNING.acquire(blocking=False):
        raise RunError("ragtrial runs in this process already; its command line cannot be a function of a config.")
    try:
        return _run(arguments)
    finally:
        _RUNNING.release()


def _run(arguments: Sequence[str]) -> int:
    out = sys.stdout
    interruption = _Interruption(arguments, out)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a text that the terminal cannot show is no crash
    try:
        with interruption.awaited():
            return int(group.main(args=list(arguments), prog_name="ragtrial", standalone_mode=False) or 0)
    except RagtrialError as error:
        return _failed(error.exit_code, error.faults, arguments)
    except click.ClickException as error:
        label = "" if isinstance(error, click.exceptions.NoArgsIsHelpError) else "error: "
        return _failed(_MISUSED, [Fault(message=_usage(error))], arguments, label)
    except (KeyboardInterrupt, click.Abort) as error:
        if isinstance(error.__cause__, EOFError):  # click takes the end of any file for the end of the input
            return _failed(_CRASHED, [Fault(message=_crash(error.__cause__))], arguments)
        return interruption.report(error.__cause__ or error)
    except SystemExit as error:
        # Click has put its own stdout in place: the reader of the help has gone. Or a shell has asked for completions.
        if sys.stdout is not out or "_RAGTRIAL_COMPLETE" in os.environ:
            return int(error.code or 0) if sys.stdout is out else 0
        message = f"something that was called, such as a function of the config, ended the process (exit {error.code})"
        return _failed(_CRASHED, [Fault(message=_where(f"interrupted: {message}"))], arguments)
    except BaseException as error:  # noqa: BLE001 - the last resort: whatever it is, it is reported without a traceback
        return _failed(_CRASHED, [Fault(message=_crash(error))], arguments)


def leave(code: int) -> NoReturn:
    """End the process with an exit code that ``run`` gave, which a signal no longer changes."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if code == _INTERRUPTED:
        os._exit(code)  # a Python that shuts down ignores handlers: another signal would end it
    if any(thread.name.startswith(_WORKERS) for thread in threading.enumerate()):
        # A run that --fail-fast ended may have another stage at work, for which Python would wait.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    gc.freeze()  # or a Python that shuts down looks for cycles among all objects, several times
    sys.exit(code)


def _usage(error: click.ClickException) -> str:
    message = error.format_message()
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return message
    end = "" if message.endswith((".", "?")) else "."
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{message}{end} Try '{context.command_path} --help'." if context else f"{message}{end}"


class _Interruption:
    """The first signal stops the work in good order; the second one, or time, ends it wherever it is.

    Either way it is reported once, to the ``out`` that the process began with: commands put another in its place.
    """

    def __init__(self, arguments: Sequence[str], out: TextIO) -> None:
        self._arguments = arguments
        self._out = out
        self._reporting = threading.Lock()

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Signals are handled inside the block; after one has come, until the process is gone."""
        before = {number: signal.signal(number, self._at_first_signal) for number in _SIGNALS}
        try:
            yield
        finally:
            if signal.getsignal(signal.SIGTERM) == self._at_first_signal:
                for number, handler in before.items():
                    signal.signal(number, handler)

    def report(self, error: BaseException | None = None) -> int:
        """Print once that the command was interrupted; the exit code."""
        if self._reporting.acquire(blocking=False):
            keeps_nothing = bool(self._arguments) and self._arguments[0] in _BRIEF
            message = "interrupted." if keeps_nothing else _where("interrupted", error)
            if isinstance(error, Stopped):
                message = str(error)
            _failed(_INTERRUPTED, [Fault(message=message)], self._arguments, "", self._out)
        return _INTERRUPTED

    def _at_first_signal(self, _number: int, _frame: object) -> None:
        for number in _SIGNALS:
            signal.signal(number, self._at_second_signal)
        watch = threading.Timer(_MOST_SECONDS, self._exit)
        watch.daemon = True
        watch.start()
        raise KeyboardInterrupt

    def _at_second_signal(self, _number: int, _frame: object) -> None:
        if not self._reporting.locked():  # else the report is written to its end, which is the end of the process
            self._exit()

    def _exit(self) -> None:
        os._exit(self.report())


def _where(what: str, error: BaseException | None = None) -> str:
    """The event and its stage, the work that is kept, and the way to resume."""
    return f"{what} {getattr(error, '__notes__', [''])[0]}".strip() + f". {_KEPT}"


def _failed(
    code: int, faults: Sequence[Fault], arguments: Sequence[str], label: str = "error: ", out: TextIO | None = None
) -> int:
    faults = [replace(fault, message=without_secrets(fault.message)) for fault in faults]
    for fault in faults:
        write(f"{label}{fault}", sys.stderr)
    if "--json" in arguments:
        write_json({"exit_code": code, "errors": [asdict(fault) for fault in faults]}, out or sys.stdout)
    return code


def _crash(error: BaseException) -> str:
    """Keep the traceback in a file of the workspace, or in a temporary folder; a sentence that names the file."""
    if isinstance(error, MemoryError):
        return _where("out of memory", error)
    summary = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":")  # notes follow in a traceback
    message = f"ragtrial failed in a way it should not ({summary}). Everything that was finished is kept."
    workspace = sys.modules.get("ragtrial.cache.workspace")
    folder = workspace.Workspace.opened if workspace else None
    folder = folder if folder and folder.is_dir() else None
    try:
        with tempfile.NamedTemporaryFile("w", prefix="ragtrial-crash-", suffix=".log", delete=False, dir=folder,
                                         encoding="utf-8", errors="backslashreplace") as log:  # fmt: skip
            command = without_secrets(" ".join(sys.argv))
            log.write(f"ragtrial {__version__}, Python {sys.version}\n{command}\n\n{''.join(_frames(error))}")
    except OSError:
        return f"{message} Please report it."
    return f"{message} The details are in {log.name}; please report them."


def _frames(error: BaseException | None) -> Iterator[str]:
    """Where each exception of a chain was raised, the last first; without messages, which may quote documents."""
    while error is not None:
        yield f"{type(error).__qualname__}, raised from\n"
        yield from traceback.format_tb(error.__traceback__)
        error = error.__cause__ or error.__context__
