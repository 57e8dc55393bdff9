"""The command line in a pseudo-terminal, typed at."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pytest

from ragtrial.cli.outcome import run

PATIENCE = 60


@dataclass
class Typed:
    """A command that runs in a terminal of its own; ``seen`` is what it printed and nobody awaited yet."""

    process: subprocess.Popen[bytes]
    terminal: int
    seen: str = ""

    def await_text(self, awaited: str) -> str:
        """Read until a text has come; what came before it."""
        deadline = time.monotonic() + PATIENCE
        while awaited not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self.terminal], [], [], 1)[0]:
                self.seen += os.read(self.terminal, 4096).decode("utf-8", "replace")
        before, _, self.seen = self.seen.partition(awaited)
        return before

    def await_key(self) -> None:
        """Wait until the program reads single keys: what is typed before is thrown away."""
        import termios

        deadline = time.monotonic() + PATIENCE
        while termios.tcgetattr(self.terminal)[3] & termios.ICANON:
            assert time.monotonic() < deadline, "no key is read"

    def type(self, *awaited_keys: tuple[str, str]) -> None:
        """Await each text, then press the key."""
        for awaited, key in awaited_keys:
            self.await_text(awaited)
            self.await_key()
            os.write(self.terminal, key.encode())

    def ended(self) -> int:
        """The exit code, once it has ended."""
        return self.process.wait(timeout=PATIENCE)


@contextmanager
def in_terminal(*arguments: str) -> Iterator[Typed]:
    """Run ``ragtrial`` with ``arguments`` in a terminal; it is gone when the block ends."""
    pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ragtrial", *arguments]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    try:
        yield Typed(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(theirs)
        os.close(ours)


def shown(*arguments: str) -> tuple[int, bytes]:
    """The exit code of a command line in this process, and the bytes that its terminal got."""
    import termios

    pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
    ours, theirs = pty.openpty()
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST  # a line feed stays one
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    parts: list[bytes] = []

    def read() -> None:
        with suppress(OSError):  # it is closed
            while part := os.read(ours, 65_536):
                parts.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with os.fdopen(theirs, "w", encoding="utf-8") as terminal, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", terminal)
            patch.setattr(sys, "stderr", terminal)
            code = run(arguments)
    finally:
        reader.join()
        os.close(ours)
        for number, handler in before.items():
            signal.signal(number, handler)
    return code, b"".join(parts)
