"""What several requests at once gain in filling and searching servers of vectors.

    python benchmarks/server_requests.py [STORE ...] [--vectors 100000] [--dimension 384] [--queries 1000]
                                         [--concurrency 1 4] [--latency 0.05] [--index JSON]

Every place of tests/support/store_kinds.py that has a server is filled and searched with each `concurrency`; the server
is started here, on 127.0.0.1. With `--latency` a relay delivers everything half of these seconds later, in both
directions, as a remote server's network does; it limits no throughput. "sent" are the seconds until the last vector has
arrived, "built" those until searches use the index. Qdrant's server is a double in this process, which is no engine: it
is measured if it is named.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from urllib.parse import parse_qs, urlsplit

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from quiet import refuse_if_busy

from ragtrial.cache.remote import REMOTE, open_remote
from ragtrial.engines import Store, Vectors
from ragtrial.engines.servers import StoreServers
from ragtrial.rankings import Floats
from store_kinds import KINDS
from vector_oracles import like_embeddings, vectors_of

DEPTH = 10
PATIENCE = 900.0
SERVED = [name for name, kind in KINDS.items() if kind.server is not None and name != "qdrant-server"]


@contextmanager
def far_away(url: str, latency: float) -> Iterator[str]:
    """The address of a relay to ``url``, an address of this machine, that adds ``latency`` seconds to a round trip."""
    target = urlsplit(url)

    def serve() -> None:
        with suppress(OSError):  # it was closed
            while True:
                client, _ = listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                server = reached(target.hostname, target.port, parse_qs(target.query).get("host"))
                relay(client, server, latency / 2)
                relay(server, client, latency / 2)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        user = f"{target.username}@" if target.username else ""
        yield f"{target.scheme}://{user}127.0.0.1:{listener.getsockname()[1]}{target.path.rstrip('/')}"
        listener.shutdown(socket.SHUT_RDWR)


def reached(host: str | None, port: int | None, folder: Sequence[str] | None) -> socket.socket:
    """A connection to a port, or to PostgreSQL's socket in a folder."""
    if folder is None:
        return socket.create_connection((host or "", port or 0))
    made = socket.socket(socket.AF_UNIX)
    made.connect(f"{folder[0]}/.s.PGSQL.5432")
    return made


def relay(source: socket.socket, target: socket.socket, delay: float) -> None:
    """Deliver what ``source`` sends ``delay`` seconds later, in threads of its own."""
    arrived: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

    def read() -> None:
        piece = b"begin"
        while piece:
            try:
                piece = source.recv(262_144)
            except OSError:
                piece = b""
            arrived.put((time.monotonic() + delay, piece))

    def write() -> None:
        with suppress(OSError):
            while True:
                at, piece = arrived.get()
                time.sleep(max(0.0, at - time.monotonic()))
                if not piece:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(piece)

    for one in (read, write):
        threading.Thread(target=one, daemon=True).start()


def measure(name: str, store: Store, vectors: Vectors, queries: Floats) -> str:
    load, sent = os.getloadavg()[0], [0.0]
    with tempfile.TemporaryDirectory(prefix="ragtrial-servers-") as made:
        folder, start = Path(made), time.perf_counter()
        store.build(vectors, folder, lambda _: sent.append(time.perf_counter() - start))
        built = time.perf_counter() - start
        index = store.open(vectors, folder)
        index.search(queries[:8], DEPTH)  # connections are open, and the collection is in memory
        start = time.perf_counter()
        index.search(queries, DEPTH)
        searched = time.perf_counter() - start
        index.close()
        open_remote(folder / REMOTE, [StoreServers(lambda: [store], lambda _: True)]).drop()
    at_once = getattr(store, "concurrency", 1)
    return f"| {name} | {at_once} | {load:.0f} | {max(sent):.1f} | {built:.1f} | {searched:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stores", nargs="*", default=SERVED, metavar="STORE", help=", ".join(SERVED))
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--index", type=json.loads, default=None, help='such as {"kind": "flat"}')
    given = parser.parse_args()
    drawn = like_embeddings(given.vectors + given.queries, given.dimension, 0)
    vectors, queries = vectors_of(drawn[: given.vectors]), drawn[given.vectors :]
    options: dict[str, Any] = {"timeout": PATIENCE, **({"index": given.index} if given.index else {})}
    print(f"| store | concurrency | load | sent s | built s | {given.queries:,} queries s |")
    print("|---|--:|--:|--:|--:|--:|")
    for name in given.stores:
        kind = KINDS[name]
        with tempfile.TemporaryDirectory() as folder:
            assert kind.server is not None
            with (
                kind.server(Path(folder)) as depends_on,
                far_away(depends_on["url"], given.latency) if given.latency else nullcontext(depends_on["url"]) as url,
            ):
                for at_once in given.concurrency:
                    store = kind.store({**depends_on, "url": url}, concurrency=at_once, **options)
                    print(measure(name, store, vectors, queries), flush=True)


if __name__ == "__main__":
    refuse_if_busy()
    main()
