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
from typing import TYPE_CHECKING, Any

from local_servers import Handler, serving

if TYPE_CHECKING:
    from qdrant_client import QdrantClient


Answer = Callable[[str, str, dict[str, Any]], Any]


def _answers(local: QdrantClient) -> Answer:
    """What is answered to a method, a path and a body; raises LookupError for a collection that there is not."""
    from qdrant_client import models

    def create(name: str, body: dict[str, Any]) -> Any:
        asked = models.CreateCollection(**body)
        assert asked.vectors is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the local mode has no index
            return local.create_collection(name, vectors_config=asked.vectors)

    def scroll(name: str, body: dict[str, Any]) -> Any:
        asked = models.ScrollRequest(**body)
        points, offset = local.scroll(
            name, asked.filter, asked.limit or 10, offset=asked.offset, with_vectors=asked.with_vector or False
        )
        return {"points": [_plain(one) for one in points], "next_page_offset": offset}

    def query(name: str, body: dict[str, Any]) -> Any:
        searches = [models.QueryRequest(**{**one, "params": None}) for one in body["searches"]]
        return local.query_batch_points(name, searches)

    actions: dict[tuple[str, str], Callable[[str, dict[str, Any]], Any]] = {
        ("GET", "/exists"): lambda name, _: {"exists": local.collection_exists(name)},
        ("PUT", ""): create,
        ("DELETE", ""): lambda name, _: local.delete_collection(name),
        ("GET", ""): lambda name, _: local.get_collection(name),
        ("PUT", "/points"): lambda name, body: local.upsert(name, points=models.PointsBatch(**body).batch),
        ("POST", "/points/count"): lambda name, _: local.count(name, exact=True),
        ("POST", "/points"): lambda name, body: local.retrieve(
            name, body["ids"], with_vectors=body.get("with_vector") or False
        ),
        ("POST", "/points/scroll"): scroll,
        ("POST", "/points/query/batch"): query,
    }

    def answer(method: str, path: str, body: dict[str, Any]) -> Any:
        if path in ("/", "/collections"):
            return None if path == "/" else local.get_collections()
        name = path.split("/")[2]
        action = (method, path.removeprefix(f"/collections/{name}"))
        if action[1] not in ("", "/exists") and not local.collection_exists(name):
            raise LookupError(name)
        return actions[action](name, body)

    return answer


@contextmanager
def qdrant_double(sent: list[tuple[str, dict[str, Any]]] | None = None) -> Iterator[str]:
    """The address of a double on this machine; ``sent`` gets the path and the body of each request."""
    from qdrant_client import QdrantClient

    local, lock = QdrantClient(":memory:"), threading.Lock()
    answer_to = _answers(local)

    class Qdrant(Handler):
        def _do(self) -> None:
            read = self.body()
            if len(read) < int(self.headers["Content-Length"] or 0):  # who asked has ended meanwhile
                self.close_connection = True
                return
            body = json.loads(read or b"{}")
            path = re.sub(r"\?.*", "", self.path)
            if sent is not None:
                sent.append((path, body))
            text: Any
            try:
                with lock:
                    found = answer_to(self.command, path, body)
                rows, status = [_plain(one) for one in found] if isinstance(found, list) else _plain(found), 200
                text = {"title": "qdrant", "version": "1.20.0"} if path == "/" else {"result": rows, "status": "ok"}
            except LookupError as error:
                text, status = {"status": {"error": f"Not found: Collection `{error}` doesn't exist!"}}, 404
            self.reply(status, json.dumps(text), {"Content-Type": "application/json"})

        do_GET = do_PUT = do_POST = do_DELETE = _do  # noqa: N815 - as the library calls them

    with serving(Qdrant) as address:
        yield address
    local.close()


def _plain(found: Any) -> Any:
    return found.model_dump(mode="json") if hasattr(found, "model_dump") else found
