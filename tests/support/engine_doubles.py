"""The search interfaces of Elasticsearch, OpenSearch, Weaviate and Pinecone over HTTP, by comparing all vectors.

A wrong path or secret is answered with status 401.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from local_servers import Handler, serving
from ragtrial.rankings import Floats

SECRET = "s3cr3t-of-the-engine"
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


def _vector_and_depth(body: Any) -> tuple[list[float], int]:
    """The vector that a request asks for, and how many hits, wherever they are in its JSON."""
    if "query" in body and isinstance(body["query"], str):  # Weaviate's own language
        vector, depth = re.findall(r"vector: (\[.*\])\}, limit: (\d+)", body["query"])[0]
        return json.loads(vector), int(depth)
    depth = next(body[name] for name in ("size", "topK") if name in body)
    places = [body]
    while not isinstance(place := places.pop(0), list):
        places += [inner for inner in place.values() if isinstance(inner, dict) or _is_vector(inner)]
    return place, depth


def _is_vector(value: Any) -> bool:
    return isinstance(value, list) and isinstance(value[0], float)


def _search(rows: Sequence[tuple[Mapping[str, Any], float]]) -> Any:
    return {"hits": {"hits": [{"_score": (cosine + 1) / 2, "_source": chunk} for chunk, cosine in rows]}}


def _weaviate(rows: Sequence[tuple[Mapping[str, Any], float]]) -> Any:
    return {"data": {"Get": {"Docs": [{**chunk, "_additional": {"distance": 1 - cosine}} for chunk, cosine in rows]}}}


def _pinecone(rows: Sequence[tuple[Mapping[str, Any], float]]) -> Any:
    """Numbers of metadata come back as floats."""
    floats = [({**chunk, "start": float(chunk["start"]), "end": float(chunk["end"])}, score) for chunk, score in rows]
    return {"matches": [{"score": score, "metadata": chunk} for chunk, score in floats]}


ENGINES: Mapping[str, tuple[Any, str, Mapping[str, str], Mapping[str, str]]] = {
    "elasticsearch": (_search, "/docs/_search?allow_partial_search_results=false",
     {"Authorization": f"ApiKey {SECRET}"}, {"ELASTICSEARCH_URL": "", "ELASTICSEARCH_API_KEY": SECRET}),
    "opensearch": (_search, "/docs/_search?allow_partial_search_results=false", {"Authorization": f"Basic {_BASIC}"},
     {"OPENSEARCH_URL": "", "OPENSEARCH_USER": "me", "OPENSEARCH_PASSWORD": SECRET}),
    "weaviate": (_weaviate, "/v1/graphql", {"Authorization": f"Bearer {SECRET}"},
     {"WEAVIATE_URL": "", "WEAVIATE_API_KEY": SECRET}),
    "pinecone": (_pinecone, "/query", {"Api-Key": SECRET, "X-Pinecone-Api-Version": "2026-07"},
     {"PINECONE_INDEX_HOST": "", "PINECONE_API_KEY": SECRET}),
}  # fmt: skip
"""By engine: what answers, the path, the headers, and the variables that reach it; an empty one becomes its address."""


@contextmanager
def engine_double(name: str, items: Items) -> Iterator[dict[str, str]]:
    """The environment variables that reach a double of the engine called ``name``."""
    answer, path, headers, variables = ENGINES[name]

    class Engine(Handler):
        def do_POST(self) -> None:  # noqa: N802 - the name of http.server
            is_right = self.path == path and all(self.headers[key] == value for key, value in headers.items())
            found = answer(items.nearest(*_vector_and_depth(json.loads(self.body()))))
            self.reply(200 if is_right else 401, json.dumps(found), {"Content-Type": "application/json"})

    with serving(Engine) as address:
        yield {key: value or address for key, value in variables.items()}
