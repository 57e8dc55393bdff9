"""Servers of Milvus on this machine: Milvus Lite's, and the packaged Milvus 2.3.5 where it is installed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chroma_databases import free_port
from ragtrial.components.stores.milvus_client import server_client
from ragtrial.errors import StoreServerError


@contextmanager
def lite_server(folder: Path, port: int | None = None) -> Iterator[dict[str, Any]]:
    """The options that reach a server of Milvus Lite, which has its data in ``folder``. It knows no passwords."""
    at = port or free_port()
    program = str(Path(sys.executable).with_name("milvus-lite"))
    process = subprocess.Popen(
        [program, "server", "--host", "127.0.0.1", "--port", str(at), "--data-dir", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{at}"
        wait_until_up(url, process)
        yield {"url": url}
    finally:
        process.kill()
        process.wait()


def wait_until_up(url: str, process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    """Wait until the server that ``process`` is answers. Raises StoreServerError if it ends, or takes too long."""
    until = time.monotonic() + seconds
    while True:
        try:
            server_client(url, "", "default", 10).close()
            return
        except StoreServerError:
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.1)
