"""Servers on the loopback, in this process or in one of their own, which end with the block that uses them."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler
from threading import Thread
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

LONGEST = 180.0


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are what tests are about."""


class Handler(BaseHTTPRequestHandler):
    """Answers with texts, and says nothing."""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def reply(self, status: int, content: str, headers: Mapping[str, str] | None = None) -> None:
        raw = content.encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(raw)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(handler: type[StreamRequestHandler]) -> Iterator[str]:
    """The address of a server in this process whose requests are handled so."""
    with _Server(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


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
