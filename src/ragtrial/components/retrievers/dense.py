"""Nearest vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from ragtrial.cache.fingerprints import Digest
from ragtrial.components.chroma_collection import CollectionOptions, Conditions, held_collection
from ragtrial.components.retrievers.base import (
    RETRIEVERS,
    Candidates,
    Facts,
    OpenRetriever,
    RetrieverContext,
    VectorRetriever,
)
from ragtrial.components.retrievers.existing import OpenCollection, check_collection, warnings_of
from ragtrial.components.stores import Store
from ragtrial.records import Question, ReportWarning

_OF_COLLECTIONS = ("collection", "where", "where_document")


@RETRIEVERS.register("dense")
class DenseRetriever(VectorRetriever):
    """The chunks whose vectors are nearest to the query's."""

    inputs_are: ClassVar[str] = "collection"

    kind: Literal["dense"] = "dense"
    """The chunks whose vectors are nearest to the query's."""

    collection: CollectionOptions | None = None
    """An existing Chroma collection to search, instead of chunks and a new index."""

    where: dict[str, JsonValue] | None = Field(default=None, min_length=1)
    """Search only items of the collection with such metadata, as Chroma writes it: `{lang: en}`; with a query's own."""

    where_document: dict[str, JsonValue] | None = Field(default=None, min_length=1)
    """Search only items of the collection with such a text, as Chroma writes it: `{$contains: hub}`."""

    @model_validator(mode="after")
    def _is_built_or_there(self) -> Self:
        given = [name for name in ("chunker", "context", "store") if getattr(self, name) is not None]
        if self.collection is not None and given:
            raise ValueError(f"collection is searched as it is; remove {' and '.join(given)}, or collection.")
        if self.collection is None and (self.where or self.where_document):
            raise ValueError("where and where_document need collection; add that, or remove them.")
        return self

    @property
    def reached_by(self) -> frozenset[str]:
        return frozenset({"embedder"}) if self.collection is not None else super().reached_by

    def identity(self) -> dict[str, Any]:
        identity = super().identity()
        if self.collection is None:
            return {name: value for name, value in identity.items() if name not in _OF_COLLECTIONS}
        return {**identity, "collection": self.collection.identity()}

    def inputs(self, digest: Digest) -> Any:
        if self.collection is None:
            return None
        held = held_collection(self.collection)
        return {"id": held.id, "content": held.content, "graph": dict(held.graph)}

    def width(self, store: Store, depth: int) -> int | None:
        return super().width(store, depth) if self.collection is None else held_collection(self.collection).width(depth)

    @property
    def asks_the_text_alone(self) -> bool:
        return self.collection is None

    def asked(self, question: Question) -> Any:
        return [question.text, *self._conditions.joined(question)] if self.collection is not None else question.text

    def check(self, context: RetrieverContext, questions: Sequence[Question]) -> None:
        if self.collection is not None:
            check_collection(self.collection, self._conditions, context, questions)

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        if self.collection is not None:
            yield from warnings_of(setting, facts)

    def open(self, context: RetrieverContext) -> OpenRetriever:
        if self.collection is not None:
            return OpenCollection(self.collection, self._conditions, context)
        return _OpenDense(context)

    @property
    def _conditions(self) -> Conditions:
        return Conditions(self.where, self.where_document)


@dataclass(frozen=True)
class _OpenDense:
    context: RetrieverContext

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        vectors = self.context.embed_queries([question.text for question in questions])
        return Candidates.of(self.context.chunks(), self.context.index().search(vectors, depth))
