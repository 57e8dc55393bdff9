"""A way to a server that counts what is sent to it, and ends a process of the sender's at a chosen point."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import parse_qs, urlsplit

_PIECE = 8_192


class WatchedServer:
    """Passes on, piece by piece, what comes to ``url``, an address of this machine, to the server at ``target``.

    ``pieces`` counts what was sent to the server since the last ``kill`` or ``count``.
    """

    def __init__(self, target: str, listener: socket.socket) -> None:
        self._target = urlsplit(target)
        self._listener = listener
        at = f"127.0.0.1:{listener.getsockname()[1]}"
        user = f"{self._target.username}@" if self._target.username else ""
        self.url = f"{self._target.scheme}://{user}{at}{self._target.path.rstrip('/')}"
        self.pieces = 0
        self._lock = threading.Lock()
        self._victim: tuple[int, subprocess.Popen[bytes]] | None = None

    def count(self) -> None:
        """Count from now on, and kill nothing."""
        with self._lock:
            self.pieces, self._victim = 0, None

    def kill(self, process: subprocess.Popen[bytes], piece: int) -> None:
        """Count from now on, and kill ``process`` at that piece, which reaches the server if its number is even."""
        with self._lock:
            self.pieces, self._victim = 0, (piece, process)

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # it was closed
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, suppress(OSError), self._connected() as server:
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            with suppress(OSError):  # a killed client resets its connection
                while piece := client.recv(_PIECE):
                    if self._may_pass():
                        server.sendall(piece)
            server.shutdown(socket.SHUT_WR)  # closing alone would not end it while the other thread reads from it
            back.join()

    def _may_pass(self) -> bool:
        with self._lock:
            self.pieces += 1
            if self._victim is None or self.pieces < self._victim[0]:
                return True
            self._victim[1].kill()
            return self.pieces == self._victim[0] and self.pieces % 2 == 0

    def _connected(self) -> socket.socket:
        folder = parse_qs(self._target.query).get("host")
        if folder is None:
            return socket.create_connection((self._target.hostname or "", self._target.port or 0))
        made = socket.socket(socket.AF_UNIX)
        made.connect(f"{folder[0]}/.s.PGSQL.5432")
        return made


def _copy(server: socket.socket, client: socket.socket) -> None:
    with suppress(OSError):
        while piece := server.recv(_PIECE):
            client.sendall(piece)
        client.shutdown(socket.SHUT_WR)


@contextmanager
def watched(url: str) -> Iterator[WatchedServer]:
    """The way to the server at ``url``, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = WatchedServer(url, listener)
        thread = threading.Thread(target=made.serve, daemon=True)
        thread.start()
        yield made
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
