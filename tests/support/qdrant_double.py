"""A double of Qdrant's HTTP interface over the local mode of its client: no Qdrant server can be installed by pip.

It checks what is sent over the wire with the models of Qdrant's own client, and answers by comparing all vectors: what
a graph loses is tried on Edge, which is the engine of the server.
"""

from __future__ import annotations

import json
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Double:
    """What is answered, by method and path below the collection."""

    def __init__(self) -> None:
        from qdrant_client import QdrantClient

        self.local = QdrantClient(":memory:")
        self._actions: dict[tuple[str, str], Callable[[str, dict[str, Any]], Any]] = {
            ("GET", "/exists"): lambda name, _: {"exists": self.local.collection_exists(name)},
            ("PUT", ""): self._create,
            ("DELETE", ""): lambda name, _: self.local.delete_collection(name),
            ("GET", ""): lambda name, _: self.local.get_collection(name),
            ("PUT", "/points"): self._upsert,
            ("POST", "/points/count"): lambda name, _: self.local.count(name, exact=True),
            ("POST", "/points"): self._retrieve,
            ("POST", "/points/scroll"): self._scroll,
            ("POST", "/points/query/batch"): self._query,
        }

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """Raises LookupError for a collection that there is not."""
        if path == "/":
            return None
        if path == "/collections":
            return self.local.get_collections()
        name = path.split("/")[2]
        action = (method, path.removeprefix(f"/collections/{name}"))
        if action[1] not in ("", "/exists") and not self.local.collection_exists(name):
            raise LookupError(name)
        return self._actions[action](name, body)

    def _create(self, name: str, body: dict[str, Any]) -> Any:
        from qdrant_client import models

        asked = models.CreateCollection(**body)
        assert isinstance(asked.vectors, models.VectorParams)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the local mode has no index
            return self.local.create_collection(name, vectors_config=asked.vectors)

    def _upsert(self, name: str, body: dict[str, Any]) -> Any:
        from qdrant_client import models

        return self.local.upsert(name, points=models.PointsBatch(**body).batch)

    def _retrieve(self, name: str, body: dict[str, Any]) -> Any:
        return self.local.retrieve(name, body["ids"], with_vectors=body.get("with_vector") or False)

    def _scroll(self, name: str, body: dict[str, Any]) -> Any:
        from qdrant_client import models

        asked = models.ScrollRequest(**body)
        points, offset = self.local.scroll(
            name, asked.filter, asked.limit or 10, offset=asked.offset, with_vectors=asked.with_vector or False
        )
        return {"points": [_plain(one) for one in points], "next_page_offset": offset}

    def _query(self, name: str, body: dict[str, Any]) -> Any:
        from qdrant_client import models

        searches = [models.QueryRequest(**{**one, "params": None}) for one in body["searches"]]
        return self.local.query_batch_points(name, searches)


@contextmanager
def qdrant_double(sent: list[tuple[str, dict[str, Any]]] | None = None) -> Iterator[str]:
    """The address of a double on this machine; ``sent`` gets the path and the body of each request."""
    double, lock = _Double(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            read = self.rfile.read(size)
            if len(read) < size:  # who asked has ended meanwhile
                self.close_connection = True
                return
            body = json.loads(read or b"{}")
            path = re.sub(r"\?.*", "", self.path)
            if sent is not None:
                sent.append((path, body))
            text: dict[str, Any]
            try:
                with lock:
                    found, status = double.answer(self.command, path, body), 200
            except LookupError as error:
                found, status = None, 404
                text = {"status": {"error": f"Not found: Collection `{error}` doesn't exist!"}}
            if status == 200:
                rows = [_plain(one) for one in found] if isinstance(found, list) else _plain(found)
                text = {"title": "qdrant", "version": "1.20.0"} if path == "/" else {"result": rows, "status": "ok"}
            answer = json.dumps(text).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_POST = do_DELETE = _do  # noqa: N815 - as the library calls them

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
    double.local.close()


def _plain(found: Any) -> Any:
    return found.model_dump(mode="json") if hasattr(found, "model_dump") else found
