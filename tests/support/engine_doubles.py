"""The search interfaces of Elasticsearch, OpenSearch, Weaviate and Pinecone over HTTP, by comparing all vectors.

Each request is checked against the vendor's documentation: what is not there is answered with status 400, a wrong
secret with 401.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from ragtrial.rankings import Floats

SECRET = "s3cr3t-of-the-engine"
_FIELDS = ["doc", "start", "end"]
_BASIC = base64.b64encode(f"me:{SECRET}".encode()).decode()


@dataclass(frozen=True)
class Items:
    """Chunks, each with ``doc``, ``start`` and ``end``; their vectors have the length 1."""

    chunks: Sequence[Mapping[str, Any]]
    vectors: Floats

    def nearest(self, vector: Sequence[float], depth: int) -> list[tuple[Mapping[str, Any], float]]:
        """The chunks with the highest cosines, and these."""
        query = np.asarray(vector, dtype=np.float64)
        cosines = self.vectors @ (query / np.linalg.norm(query))
        return [(self.chunks[row], float(cosines[row])) for row in np.argsort(-cosines, kind="stable")[:depth]]


class RefusedError(Exception):
    """A request that the vendor does not document; a status, and why."""


def exactly(found: Any, *names: str) -> list[Any]:
    """The values of an object that has these keys and no others."""
    if not isinstance(found, dict) or set(found) != set(names):
        raise RefusedError(400, f"expected {sorted(names)}, not {found!r:.200}")
    return [found[name] for name in names]


def _search_hits(items: Items, vector: Any, body: Mapping[str, Any], *, shift: float) -> dict[str, Any]:
    if body["_source"] != _FIELDS or not isinstance(body["size"], int):
        raise RefusedError(400, "size and _source")
    found = items.nearest(vector, body["size"])
    hits = [
        {"_id": str(at), "_score": (cosine + 1) * shift, "_source": chunk} for at, (chunk, cosine) in enumerate(found)
    ]
    return {"took": 1, "timed_out": False, "_shards": {"total": 1, "failed": 0}, "hits": {"hits": hits}}


def _script(query: Any) -> Any:
    (scored,) = exactly(query, "script_score")
    inner, script = exactly(scored, "query", "script")
    if inner != {"match_all": {}}:
        raise RefusedError(400, "query")
    return script


def elasticsearch(items: Items, body: Any) -> Any:
    """`POST /INDEX/_search`, with `knn`, or with a script that compares all vectors."""
    if "knn" in body:
        knn, *_ = exactly(body, "knn", "size", "_source")
        field, vector, k, candidates = exactly(knn, "field", "query_vector", "k", "num_candidates")
        if field != "embedding" or not k <= candidates <= 10_000:
            raise RefusedError(400, "[num_candidates] cannot be less than [k]")
        return _search_hits(items, vector, body, shift=0.5)
    query, *_ = exactly(body, "query", "size", "_source")
    source, params = exactly(_script(query), "source", "params")
    (vector,) = exactly(params, "vector")
    if source != "cosineSimilarity(params.vector, 'embedding') + 1.0":
        raise RefusedError(400, "compile error")
    return _search_hits(items, vector, body, shift=1.0)


def opensearch(items: Items, body: Any) -> Any:
    """`POST /INDEX/_search`, with a `knn` query, or with the script of its plug-in."""
    query, *_ = exactly(body, "query", "size", "_source")
    if "knn" in query:
        (field,) = exactly(query["knn"], "embedding")
        vector, _, parameters = exactly(field, "vector", "k", "method_parameters")
        exactly(parameters, "ef_search")
        return _search_hits(items, vector, body, shift=0.5)
    language, source, params = exactly(_script(query), "lang", "source", "params")
    field, vector, space = exactly(params, "field", "query_value", "space_type")
    if (language, source, field, space) != ("knn", "knn_score", "embedding", "cosinesimil"):
        raise RefusedError(400, "script")
    return _search_hits(items, vector, body, shift=1.0)


_GRAPHQL = re.compile(
    r"\{ Get \{ Docs\(nearVector: \{vector: (?P<vector>\[.*\])\}, limit: (?P<limit>\d+)\) "
    r"\{ doc start end _additional \{ distance \} \} \} \}"
)


def weaviate(items: Items, body: Any) -> Any:
    """`POST /v1/graphql`; an error in the query has status 200."""
    (query,) = exactly(body, "query")
    match = _GRAPHQL.fullmatch(query)
    if match is None:
        return {"data": {"Get": {"Docs": None}}, "errors": [{"message": "Cannot query field on type GetObjectsObj"}]}
    found = items.nearest(json.loads(match["vector"]), int(match["limit"]))
    return {"data": {"Get": {"Docs": [{**chunk, "_additional": {"distance": 1 - cosine}} for chunk, cosine in found]}}}


def pinecone(items: Items, body: Any) -> Any:
    """`POST /query`; numbers of metadata come back as floats."""
    namespace, vector, depth, with_metadata, with_values = exactly(
        body, "namespace", "vector", "topK", "includeMetadata", "includeValues"
    )
    if (with_metadata, with_values) != (True, False):
        raise RefusedError(400, "includeMetadata")
    matches = [
        {
            "id": str(at),
            "score": cosine,
            "metadata": {**chunk, **{name: float(chunk[name]) for name in ("start", "end")}},
        }
        for at, (chunk, cosine) in enumerate(items.nearest(vector, depth))
    ]
    return {"matches": matches, "namespace": namespace, "usage": {"readUnits": 5}}


ENGINES: Mapping[str, tuple[Any, str, Mapping[str, str], Mapping[str, str]]] = {
    "elasticsearch": (
        elasticsearch,
        "/docs/_search?allow_partial_search_results=false",
        {"Authorization": f"ApiKey {SECRET}"},
        {"ELASTICSEARCH_URL": "", "ELASTICSEARCH_API_KEY": SECRET},
    ),
    "opensearch": (
        opensearch,
        "/docs/_search?allow_partial_search_results=false",
        {"Authorization": f"Basic {_BASIC}"},
        {"OPENSEARCH_URL": "", "OPENSEARCH_USER": "me", "OPENSEARCH_PASSWORD": SECRET},
    ),
    "weaviate": (
        weaviate,
        "/v1/graphql",
        {"Authorization": f"Bearer {SECRET}"},
        {"WEAVIATE_URL": "", "WEAVIATE_API_KEY": SECRET},
    ),
    "pinecone": (
        pinecone,
        "/query",
        {"Api-Key": SECRET, "X-Pinecone-Api-Version": "2026-07"},
        {"PINECONE_INDEX_HOST": "", "PINECONE_API_KEY": SECRET},
    ),
}
"""By engine: what answers, the path, the headers, and the variables that reach it; an empty one becomes its address."""


@contextmanager
def engine_double(name: str, items: Items) -> Iterator[dict[str, str]]:
    """The environment variables that reach a double of the engine called ``name``."""
    answer, path, headers, variables = ENGINES[name]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = 200
            try:
                if any(self.headers[key] != value for key, value in headers.items()):
                    raise RefusedError(401, "unauthorized")
                if self.path != path or self.headers["Content-Type"] != "application/json":
                    raise RefusedError(404, urlsplit(self.path).path)
                found = answer(items, body)
            except RefusedError as error:
                status, found = error.args[0], {"error": error.args[1]}
            sent = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        yield {key: value or address for key, value in variables.items()}
        server.shutdown()
