"""Servers on the loopback in processes of their own, which end with the block that uses them."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

LONGEST = 180.0


@contextmanager
def local_server(
    command: Callable[[int], Sequence[str]],
    log: Path,
    environment: Mapping[str, str] | None = None,
    answers: str = "health",
) -> Iterator[str]:
    """The address of what ``command`` starts on a port, once this path ``answers``; what it prints goes to ``log``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with log.open("w") as out:
        server = subprocess.Popen(command(port), stdout=out, stderr=out, start_new_session=True, cwd=log.parent,
                                  env={**os.environ, **(environment or {})})  # fmt: skip
    try:
        deadline = time.monotonic() + LONGEST
        while not _is_ready(f"http://127.0.0.1:{port}/{answers}"):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server does not start: {log.read_text()}")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _is_ready(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
