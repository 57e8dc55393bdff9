"""Nearest vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from ragtrial.cache.fingerprints import Digest
from ragtrial.components.interfaces import (
    RETRIEVERS,
    Candidates,
    Facts,
    OpenRetriever,
    Ranker,
    RetrieverContext,
    VectorRetriever,
)
from ragtrial.components.retrievers.collection_search import OpenCollection, check_collection, exact_search, warnings_of
from ragtrial.engines import AnyCollection, CollectionOptions, Conditions, Store, opened
from ragtrial.options import shown
from ragtrial.records import Question, ReportWarning

_OF_COLLECTIONS = ("collection", "where", "where_document", "filter")


@RETRIEVERS.register("dense")
class DenseRetriever(VectorRetriever):
    """The chunks whose vectors are nearest to the query's."""

    matches_by: ClassVar[Literal["words", "vectors"] | None] = "vectors"
    inputs_are: ClassVar[str] = "collection"

    kind: Literal["dense"] = "dense"
    """The chunks whose vectors are nearest to the query's."""

    collection: AnyCollection | None = None
    """An existing collection to search, instead of chunks and a new index; a Chroma collection unless `kind` is set."""

    where: dict[str, JsonValue] | None = Field(default=None, min_length=1)
    """Search only items with matching metadata: `{lang: en}`, `{year: {$gte: 2024}}`. A query's own `where` applies as
    well."""

    where_document: dict[str, JsonValue] | None = Field(default=None, min_length=1)
    """Search only items of a Chroma collection with matching text, in Chroma's syntax: `{$contains: hub}`."""

    filter: dict[str, JsonValue] | str | None = Field(default=None, min_length=1)
    """Search only items that pass this filter, in the filter language of the collection's engine, if it has one."""

    @model_validator(mode="after")
    def _is_built_or_there(self) -> Self:
        given = [name for name in ("chunker", "context", "store") if getattr(self, name) is not None]
        if self.collection is not None and given:
            raise ValueError(f"collection is searched as it is; remove {' and '.join(given)}, or collection.")
        conditions = [name for name in _OF_COLLECTIONS[1:] if getattr(self, name) is not None]
        if self.collection is None and conditions:
            verb, them = ("needs", "it") if len(conditions) == 1 else ("need", "them")
            raise ValueError(f"{' and '.join(conditions)} {verb} collection; add that, or remove {them}.")
        return self

    @model_validator(mode="after")
    def _can_be_asked_so(self) -> Self:
        collection = self.collection
        if collection is not None and self.where_document is not None and not collection.searches_texts:
            raise ValueError(f"where_document: {collection.engine} has no conditions on texts; remove it.")
        if collection is not None and self.filter is not None:
            if collection.filter_type is None:
                raise ValueError(f"filter: {collection.engine} has no filters beside where; remove it.")
            if not isinstance(self.filter, collection.filter_type):
                expected = "text" if collection.filter_type is str else "mapping"
                raise ValueError(f"filter is {shown(self.filter)}; {collection.engine} has it as a {expected}.")
        return self

    @property
    def reached_by(self) -> frozenset[str]:
        return frozenset({"embedder"}) if self.collection is not None else super().reached_by

    @property
    def packages(self) -> Mapping[str, str]:  # type: ignore[override]  # those of the collection, if it searches one
        return {} if self.collection is None else self.collection.packages

    @property
    def searched_collection(self) -> CollectionOptions | None:
        return self.collection

    def by_exact_search(self) -> Ranker | None:
        if self.collection is None:
            return None
        return _ExactOverCollection.model_construct(self.model_fields_set, **dict(self))

    def identity(self) -> dict[str, Any]:
        identity = super().identity()
        if self.collection is None:
            return {name: value for name, value in identity.items() if name not in _OF_COLLECTIONS}
        if self.filter is None:
            del identity["filter"]
        return {**identity, "collection": self.collection.identity()}

    def inputs(self, digest: Digest) -> Any:
        if self.collection is None:
            return None
        return dict(opened(self.collection).inputs())

    def width(self, store: Store, depth: int) -> int | None:
        return super().width(store, depth) if self.collection is None else opened(self.collection).width(depth)

    def asked(self, question: Question) -> Any:
        if self.collection is None:
            return question.text
        where, where_document, _ = self._conditions.joined(question)  # the filter is the same for all
        return [question.text, where, where_document]

    def check(self, context: RetrieverContext, questions: Sequence[Question]) -> None:
        if self.collection is not None:
            check_collection(self.collection, self._conditions, context, questions)

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        if self.collection is not None:
            yield from warnings_of(self.collection, setting, facts)

    def open(self, context: RetrieverContext) -> OpenRetriever:
        if self.collection is not None:
            return OpenCollection(opened(self.collection), self.collection, self._conditions, context)
        return _OpenDense(context)

    @property
    def _conditions(self) -> Conditions:
        return Conditions(self.where, self.where_document, self.filter)


class _ExactOverCollection(DenseRetriever):
    """Exact search over the stored vectors of a collection: what an audit compares its engine with."""

    def identity(self) -> dict[str, Any]:
        identity, options = super().identity(), self._there
        there = {name: value for name, value in options.identity().items() if name not in options.search_options}
        return {**identity, "collection": there, "search": "exact"}

    def width(self, store: Store, depth: int) -> int | None:
        return None

    def by_exact_search(self) -> Ranker | None:
        return None

    def open(self, context: RetrieverContext) -> OpenRetriever:
        return OpenCollection(exact_search(opened(self._there), context), self._there, self._conditions, context)

    @property
    def _there(self) -> CollectionOptions:
        if self.collection is None:
            raise TypeError("only a retriever over a collection is compared so")
        return self.collection


@dataclass(frozen=True)
class _OpenDense:
    context: RetrieverContext

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        vectors = self.context.embed_queries([question.text for question in questions])
        return Candidates.of(self.context.chunks(), self.context.index().search(vectors, depth))
