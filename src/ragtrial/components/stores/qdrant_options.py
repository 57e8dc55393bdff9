"""The options of Qdrant, and what the embedded engine and the server share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ragtrial.components.secrets import Secret
from ragtrial.components.stores.base import IndexUse
from ragtrial.components.stores.batches import in_batches
from ragtrial.components.stores.server import SettlingStore
from ragtrial.options import Options
from ragtrial.rankings import Floats, Rankings, unfilled

DISTANCES = {"cosine": "COSINE", "ip": "DOT", "l2": "EUCLID"}
"""Qdrant's names of the spaces."""

_QUERY_BATCH = 64
_USUAL_SCAN = 10_000
_USUAL_EF = 100
"""Qdrant's own ef_construct, which is also its ef of searches."""


class QdrantHnswIndex(Options):
    """A graph. Source: Qdrant's documentation, "Indexing"."""

    kind: Literal["hnsw"] = "hnsw"
    """Qdrant's graph."""

    m: Annotated[int, Field(ge=1, le=256)] = 16
    """Links per vector; a higher value takes more memory and is more exact."""

    ef_construction: Annotated[int, Field(ge=4)] = _USUAL_EF
    """Candidates considered while building (`ef_construct`); a higher value is slower and more exact."""

    ef_search: Annotated[int, Field(ge=1)] | None = None
    """Candidates considered while searching (`hnsw_ef`), never fewer than the requested hits (default:
    ef_construction)."""

    full_scan_threshold: Annotated[int, Field(ge=1)] | None = None
    """The size of a segment's vectors, in kilobytes, below which Qdrant scans it instead of searching its graph
    (default: Qdrant's own, 10,000)."""

    indexing_threshold: Annotated[int, Field(ge=1)] | None = None
    """The size of a segment's vectors, in kilobytes, below which Qdrant builds no graph (default: Qdrant's own)."""


class QdrantFlatIndex(Options):
    """No index."""

    kind: Literal["flat"] = "flat"
    """No graph: Qdrant compares every vector (`exact`)."""


class ScalarQuantization(Options):
    """One byte per number."""

    kind: Literal["scalar"] = "scalar"
    """int8: a quarter of the memory."""

    quantile: Annotated[float, Field(ge=0.5, le=1)] | None = None
    """The share of numbers that the range of a byte covers (default: all)."""


class ProductQuantization(Options):
    """Codes for parts of a vector."""

    kind: Literal["product"] = "product"
    """Product quantization."""

    compression: Literal["x4", "x8", "x16", "x32", "x64"] = "x16"
    """The factor by which vectors become smaller."""


class BinaryQuantization(Options):
    """One bit per number."""

    kind: Literal["binary"] = "binary"
    """One bit per number: a thirty-second of the memory."""


AnyQuantization = Annotated[ScalarQuantization | ProductQuantization | BinaryQuantization, Field(discriminator="kind")]


class QdrantOptions(SettlingStore):
    """The options of Qdrant, embedded or on a server."""

    connected_by: ClassVar[tuple[str, ...]] = ("url", "api_key")
    unhashed: ClassVar[frozenset[str]] = SettlingStore.unhashed | {"api_key"}
    search_options: ClassVar[frozenset[str]] = frozenset({"index.ef_search", "rescore", "oversampling"})
    most_rows: ClassVar[int] = 1_000

    api_key: Secret | None = None
    """The server's API key, like `${QDRANT_API_KEY}`."""

    index: Annotated[QdrantHnswIndex | QdrantFlatIndex, Field(discriminator="kind")] = QdrantHnswIndex()
    """The index of the collection."""

    quantization: AnyQuantization | None = None
    """Smaller vectors to search first."""

    rescore: bool | None = None
    """Score the hits of quantized vectors again with the whole vectors (default: Qdrant's own choice)."""

    oversampling: Annotated[float, Field(ge=1)] | None = None
    """The number of hits to score again, as a multiple of the requested hits."""

    def width(self, depth: int) -> int | None:
        if isinstance(self.index, QdrantFlatIndex):
            return None if self.quantization is None else depth
        return max(self.index.ef_search or self.index.ef_construction, depth)


def use_of(
    index: QdrantHnswIndex | QdrantFlatIndex, count: int, indexed: int, dimension: int, threshold: int | None
) -> IndexUse:
    """Whether searches of a collection with this ``index`` go through its graph."""
    if isinstance(index, QdrantFlatIndex):
        return IndexUse(is_used=True, evidence="There is no graph: Qdrant compares every vector, as chosen.")
    return index_use(count, indexed, dimension, index.full_scan_threshold, threshold)


def index_use(count: int, indexed: int, dimension: int, scan: int | None, threshold: int | None) -> IndexUse:
    """Whether searches go through the graph, according to the vectors that Qdrant has indexed and its thresholds."""
    said = f"Qdrant counts {indexed:,} of {count:,} vectors as indexed"
    if indexed < count:
        why = f" (indexing_threshold: {threshold:,} kB)" if threshold else " (see indexing_threshold)"
        return IndexUse(is_used=False, evidence=f"{said}; it scans the others{why}.")
    scanned, kilobytes = scan or _USUAL_SCAN, count * dimension * 4 / 1024
    if kilobytes < scanned:
        below = f"less than full_scan_threshold ({scanned:,} kB)"
        return IndexUse(is_used=False, evidence=f"{said}, but scans {kilobytes:,.0f} kB of vectors, {below}.")
    return IndexUse(is_used=True, evidence=f"{said}.")


def rankings_of(
    search: Callable[[Floats, int], list[Any]], queries: Floats, depth: int, space: str, at_once: int = 1
) -> Rankings:
    """Rankings of scored points, ``at_once`` batches of queries at a time. For l2, Qdrant scores by the distance."""
    made = unfilled(len(queries), depth)

    def ask(rows: slice) -> None:
        batch = np.asarray(queries[rows], dtype=np.float32)
        for row, points in enumerate(search(batch, depth), rows.start):
            made.codes[row, : len(points)] = [int(point.id) for point in points]
            scores = np.array([point.score for point in points], dtype=np.float32)
            made.scores[row, : len(points)] = -np.square(scores) if space == "l2" else scores

    in_batches(ask, len(queries) if depth else 0, _QUERY_BATCH, at_once)
    return made


def member_of(family: Any, name: str) -> Any:
    """The member of an enumeration, whose names the packages spell differently."""
    return next(getattr(family, one) for one in dir(family) if one.upper() == name)
