"""An existing collection on a Qdrant server, read and never written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from uuid import UUID

import numpy as np
from pydantic import Field

from ragtrial.engines.base import (
    IndexUse,
    Space,
)
from ragtrial.engines.collection import (
    COLLECTIONS,
    PAGE,
    Collection,
    Fact,
    Found,
    Item,
    NamedCollectionOptions,
    not_there,
    opening,
)
from ragtrial.engines.filters import ALL, Comparison, Conditions, parsed, translated
from ragtrial.engines.servers import ServerUrl
from ragtrial.errors import InputError, listed
from ragtrial.options import Secret
from ragtrial.rankings import Floats

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

from ragtrial.engines.qdrant import _QUERIES, client_errors, connect, index_use, scores_of

_SPACES: Mapping[str, Space] = {"Cosine": "cosine", "Dot": "ip", "Euclid": "l2"}


@COLLECTIONS.register("qdrant")
class QdrantCollectionOptions(NamedCollectionOptions):
    """A collection of a Qdrant server."""

    engine: ClassVar[str] = "Qdrant"
    filter_type: ClassVar[type[str | dict[str, Any]] | None] = dict
    advice_for_low_recall: ClassVar[str] = "Raise ef, or build the graph with larger m and ef_construct."
    advice_for_few_hits: ClassVar[str] = "Raise ef, or index the fields of the filter in Qdrant."
    advice_for_unused: ClassVar[str] = "The scores are those of exact search."
    search_options: ClassVar[frozenset[str]] = frozenset({"ef", "exact"})
    unhashed: ClassVar[frozenset[str]] = frozenset({"check", "api_key", "timeout"})
    packages: ClassVar[Mapping[str, str]] = {"qdrant-client": "qdrant"}

    kind: Literal["qdrant"] = "qdrant"
    """A collection on a Qdrant server."""

    url: ServerUrl
    """The URL of the server, like `http://localhost:6333`."""

    api_key: Secret | None = None
    """The server's API key, like `${QDRANT_API_KEY}`."""

    id: str | None = None
    """The payload key with an item's id (default: the point's own id)."""

    text: str = "text"
    """The payload key with an item's text."""

    vector: str | None = None
    """The name of the vector, if the collection has several."""

    ef: Annotated[int, Field(ge=1)] | None = None
    """`hnsw_ef` for searches (default: Qdrant's own)."""

    exact: bool = False
    """Compare all vectors instead of searching the graph."""

    timeout: Annotated[float, Field(gt=0)] = 60.0
    """The time limit for a request, in seconds."""

    @property
    def address(self) -> str:
        return self.url

    def open(self) -> QdrantCollection:
        with opening(self.kind) as stack, client_errors(f"Qdrant at {self.url}"):
            client = connect(self.url, self.api_key, self.timeout)
            stack.callback(client.close)
            if not client.collection_exists(self.name):
                raise not_there(self, [one.name for one in client.get_collections().collections])
            return QdrantCollection(self, client, stack.pop_all())


class QdrantCollection(Collection):
    """A collection, open for reading."""

    options: QdrantCollectionOptions
    queries_at_once: ClassVar[int] = _QUERIES

    def __init__(self, options: QdrantCollectionOptions, client: QdrantClient, resources: ExitStack) -> None:
        super().__init__(options, resources)
        self._client = client
        self.id = ""
        info = client.get_collection(options.name)
        vectors: Any = info.config.params.vectors
        if isinstance(vectors, Mapping):
            if options.vector not in vectors:
                raise InputError(f"{self} has several vectors: set `vector` to one of {listed(vectors)}.")
            vectors = vectors[options.vector]
        elif options.vector is not None:
            raise InputError(f"{self} has one vector without a name; remove `vector`.")
        self._size = int(vectors.size)
        distance = str(getattr(vectors.distance, "value", vectors.distance))
        if distance not in _SPACES:
            raise InputError(f"{self} compares by {distance}; it must be one of {listed(_SPACES)}.")
        self.space = _SPACES[distance]
        self._graph = info.config.hnsw_config

    @cached_property
    def count(self) -> int:
        with self._failing():
            return int(self._client.count(self.options.name, exact=True).count)

    @property
    def dimension(self) -> int:
        return self._size

    def inputs(self) -> Mapping[str, Any]:
        return {**super().inputs(), "graph": [self._graph.m, self._graph.ef_construct]}

    def facts(self) -> Mapping[str, Fact]:
        with self._failing():
            return {"server": f"Qdrant {self._client.info().version}", "m": self._graph.m}

    def width(self, depth: int) -> int | None:
        return None if self.options.exact else max(self.options.ef or int(self._graph.ef_construct or 0), depth)

    def pages(self, conditions: Conditions = ALL) -> Iterator[list[Item]]:
        for points in self._scrolled(self._filter(conditions)):
            yield [self._item(point) for point in points]

    def _scrolled(self, chosen: Any, vectors: bool | list[str] = False) -> Iterator[list[Any]]:  # noqa: FBT001, FBT002 - Qdrant's
        """The points that pass a filter, page by page; no page is empty."""
        offset: Any = None
        while True:
            with self._failing():
                points, offset = self._client.scroll(
                    self.options.name, scroll_filter=chosen, limit=PAGE, offset=offset, with_payload=True,
                    with_vectors=vectors,
                )  # fmt: skip
            if points:
                yield points
            if offset is None:
                return

    def get(self, ids: Sequence[str]) -> tuple[list[Item], Floats]:
        wanted: Any = self.options.vector is None or [self.options.vector]
        with self._failing():
            if self.options.id is None:
                points: list[Any] = list(self._client.retrieve(
                    self.options.name, [one for name in ids if (one := _point_id(name)) is not None],
                    with_payload=True, with_vectors=wanted,
                ))  # fmt: skip
            else:
                points = list(chain.from_iterable(self._scrolled(self._with_ids(ids), wanted))) if ids else []
        rows = [one.vector[self.options.vector] if isinstance(one.vector, Mapping) else one.vector for one in points]
        return [self._item(one) for one in points], np.array(rows, dtype=np.float32).reshape(len(rows), self._size)

    def search(self, queries: Floats, depth: int, conditions: Conditions) -> Iterator[Found]:
        from qdrant_client import models

        params = models.SearchParams(hnsw_ef=self.options.ef, exact=self.options.exact)
        chosen, using = self._filter(conditions), self.options.vector
        requests = [
            models.QueryRequest(
                query=query.tolist(), limit=depth, filter=chosen, params=params, using=using, with_payload=True
            )
            for query in queries
        ]
        with self._failing():
            answers = self._client.query_batch_points(self.options.name, requests)
        for answer in answers:
            yield Found([self._item(point) for point in answer.points], scores_of(answer.points, self.space))

    def use(self) -> IndexUse:
        if self.options.exact:
            return IndexUse(is_used=True, evidence="Qdrant compares all vectors, as chosen (exact).")
        with self._failing():
            info = self._client.get_collection(self.options.name)
        scan, threshold = info.config.hnsw_config.full_scan_threshold, info.config.optimizer_config.indexing_threshold
        return index_use(self.count, info.indexed_vectors_count or 0, self._size, scan, threshold)

    def _item(self, point: Any) -> Item:
        payload = dict(point.payload or {})
        text = payload.pop(self.options.text, None)
        name = str(point.id) if self.options.id is None else str(payload.pop(self.options.id, point.id))
        return Item(name, payload, None if text is None else str(text))

    def _with_ids(self, ids: Sequence[str]) -> Any:
        from qdrant_client import models

        match = models.MatchAny(any=list(ids))
        return models.Filter(must=[models.FieldCondition(key=str(self.options.id), match=match)])

    def _filter(self, conditions: Conditions) -> Any:
        """The conditions as a filter of Qdrant: https://qdrant.tech/documentation/concepts/filtering/."""
        from qdrant_client import models

        must: list[Any] = []
        if conditions.where is not None:
            must.append(translated(parsed(conditions.where), _comparison, _joined))
        if conditions.filter is not None:
            must.append(models.Filter.model_validate_json(json.dumps(conditions.filter)))
        return models.Filter(must=must) if must else None

    def _failing(self) -> Any:
        return client_errors(f"Qdrant at {self.options.url}")


def _comparison(one: Comparison) -> Any:
    from qdrant_client import models

    key = one.field
    if one.operator in ("$gt", "$gte", "$lt", "$lte"):
        bounds: dict[str, Any] = {one.operator.removeprefix("$"): one.value}
        return models.Filter(must=[models.FieldCondition(key=key, range=models.Range(**bounds))])
    equal: list[Any] = []
    for value in one.values:
        if isinstance(value, bool | str):
            equal.append(models.FieldCondition(key=key, match=models.MatchValue(value=value)))
        else:  # Qdrant matches only whole numbers; any number is in a range from itself to itself
            equal.append(models.FieldCondition(key=key, range=models.Range(gte=value, lte=value)))
    is_not = one.operator in ("$ne", "$nin")
    return models.Filter(must_not=equal) if is_not else models.Filter(should=equal)


def _joined(every: bool, parts: Sequence[Any]) -> Any:  # noqa: FBT001 - as `translated` calls it
    from qdrant_client import models

    return models.Filter(must=list(parts)) if every else models.Filter(should=list(parts))


def _point_id(name: str) -> int | str | None:
    """The id of a point, a whole number or a UUID; None for any other text."""
    if name.isdecimal():
        return int(name)
    try:
        return str(UUID(name))
    except ValueError:
        return None
