"""Servers of Milvus on this machine: Milvus Lite's, and the packaged Milvus 2.3.5 where it is installed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from chroma_databases import free_port
from ragtrial.engines.milvus import MilvusLogin, server_client
from ragtrial.errors import StoreServerError

PACKAGED = os.environ.get("RAGTRIAL_MILVUS")
"""The Python that has the package milvus==2.3.5, the server itself; `make milvus` sets it. Without it tests start the
server of Milvus Lite."""

_PACKAGED = """
import sys
from milvus import MilvusServer, MilvusServerConfig
server = MilvusServer(MilvusServerConfig(proxy_port=int(sys.argv[2])), wait_for_started=False)
server.set_base_dir(sys.argv[1])
server.start()
print(server.server_proc.pid, flush=True)
server.server_proc.wait()
"""


@contextmanager
def milvus_server(folder: Path) -> Iterator[dict[str, Any]]:
    """The options that reach a server which has its data in ``folder``: Milvus Lite's, or the packaged one."""
    at = free_port()
    lite = [str(Path(sys.executable).with_name("milvus-lite")), "server", "--host", "127.0.0.1"]
    command = [*lite, "--port", str(at), "--data-dir", str(folder)]
    if PACKAGED:
        command = [PACKAGED, "-c", _PACKAGED, str(folder), str(at)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE if PACKAGED else subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    server = int(process.stdout.readline()) if process.stdout else process.pid
    try:
        url = f"http://127.0.0.1:{at}"
        wait_until_up(url, process)
        yield {"url": url}
    finally:
        with suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)  # the packaged one heeds no other signal
        process.wait()
        if process.stdout:
            process.stdout.close()


def wait_until_up(url: str, process: subprocess.Popen[bytes], seconds: float = 180) -> None:
    """Wait until the server that ``process`` is answers. Raises StoreServerError if it ends, or takes too long."""
    until = time.monotonic() + seconds
    while not _answers(url):
        if process.poll() is not None or time.monotonic() > until:
            raise StoreServerError(f"no Milvus server came up at {url}.")
        time.sleep(0.1)


def _answers(url: str) -> bool:
    from pymilvus import MilvusException

    try:
        client = server_client(MilvusLogin(url=url))
        client.list_collections(timeout=10)
        client.close()
    except (StoreServerError, MilvusException):
        return False
    return True
