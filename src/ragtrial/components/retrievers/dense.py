"""Nearest vectors: in an index of chunks, or in a collection that is there already."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast

from pydantic import Field, JsonValue, PrivateAttr, model_validator

from ragtrial.cache.fingerprints import Digest
from ragtrial.components.interfaces import RETRIEVERS, Candidates, Fact, Facts, RetrieverContext, VectorRetriever
from ragtrial.dataset.chunks import SpanCodes
from ragtrial.dataset.texts import short
from ragtrial.engines import AnyCollection, Collection, CollectionOptions, Conditions, Store, open_collection, placement
from ragtrial.engines.exact import ExactSearch
from ragtrial.engines.placement import ItemSpans, VectorAgreement
from ragtrial.errors import InputError
from ragtrial.options import shown
from ragtrial.progress import stage
from ragtrial.rankings import Floats, deeper, from_rows
from ragtrial.records import Question, ReportWarning

_OF_COLLECTIONS = ("collection", "where", "where_document", "filter")


@RETRIEVERS.register("dense")
class DenseRetriever(VectorRetriever):
    """The chunks whose vectors are nearest to the query's."""

    content_is: ClassVar[str] = "collection"

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

    _is_exact: bool = PrivateAttr(default=False)
    """True for exact search over the stored vectors of a collection: an audit compares its engine with that."""

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
    def depends_on(self) -> frozenset[str]:
        return frozenset({"embedder"}) if self.collection is not None else super().depends_on

    @property
    def packages(self) -> Mapping[str, str]:  # type: ignore[override]  # those of the collection, if it searches one
        return {} if self.collection is None else self.collection.packages

    @property
    def searched_collection(self) -> CollectionOptions | None:
        return self.collection

    def by_exact_search(self) -> DenseRetriever | None:
        if self.collection is None or self._is_exact:
            return None
        exact = self.model_copy()
        exact._is_exact = True  # noqa: SLF001 - of the same class
        return exact

    def hashed_options(self) -> dict[str, Any]:
        options = super().hashed_options()
        if self.collection is None:
            return {name: value for name, value in options.items() if name not in _OF_COLLECTIONS}
        if self.filter is None:
            del options["filter"]
        options["collection"] = collection = self.collection.hashed_options()
        if self._is_exact:
            for name in self.collection.search_options:
                collection.pop(name, None)
            options["search"] = "exact"
        return options

    def hashed_content(self, digest: Digest) -> Any:
        if self.collection is None:
            return None
        return dict(open_collection(self.collection).inputs())

    def width(self, store: Store, depth: int) -> int | None:
        if self.collection is None:
            return super().width(store, depth)
        return None if self._is_exact else open_collection(self.collection).width(depth)

    def asked(self, question: Question) -> Any:
        if self.collection is None:
            return question.text
        where, where_document, _ = self.conditions.joined(question)  # the filter is the same for all
        return [question.text, where, where_document]

    def check(self, context: RetrieverContext, questions: Sequence[Question]) -> None:
        if self.collection is not None:
            try:
                open_collection(self.collection, afresh=True)
            except InputError as error:
                raise InputError(*(f"{context.setting}: {fault.message}" for fault in error.faults)) from error
            _OpenCollection(self, context).check(questions)

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        if self.collection is None:
            return
        yield from self.collection.warnings(setting, facts)
        if not facts.get("vectors_agree"):
            checked = facts.get("checked")
            message = f"{setting}: whether the embedder is the one that made the collection's vectors: {checked}."
            yield ReportWarning("collection-not-checked", message)
        if facts.get("space") == "l2" and facts.get("normalised") is False:
            yield ReportWarning(
                "l2-lengths",
                f"{setting}: the collection compares by l2, and its vectors are of different lengths: how long a "
                "vector is counts beside its direction. Most models are trained for cosine.",
            )
        if facts.get("queries_without_items"):
            yield ReportWarning(
                "conditions-without-items",
                f"{setting}: queries whose where and where_document let no item of the collection through: "
                f"{facts['queries_without_items']:,}.",
            )

    def open(self, context: RetrieverContext) -> _OpenCollection | _OpenDense:
        if self.collection is None:
            return _OpenDense(context)
        return _OpenCollection(self, context, is_exact=self._is_exact)

    @property
    def conditions(self) -> Conditions:
        """The conditions of the config."""
        return Conditions(self.where, self.where_document, self.filter)


@dataclass(frozen=True)
class _OpenDense:
    context: RetrieverContext

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        vectors = self.context.embed_queries([question.text for question in questions])
        return Candidates.of(self.context.chunks(), self.context.index().search(vectors, depth))


_MOST_FAULTS = 20


class _OpenCollection:
    """An existing collection, open for search by its engine or by exact search.

    A hit of the engine becomes a hit of a ranking in three steps: the engine's module returns items with scores
    (``Collection.search``), ``ItemSpans`` finds the document and the characters of each item, and ``SpanCodes``
    gives each such span a code. Hits keep the engine's order, also for equal scores; several items in one span are
    one hit, at the first rank.
    """

    def __init__(self, retriever: DenseRetriever, context: RetrieverContext, *, is_exact: bool = False) -> None:
        self._context, self._conditions, self._is_exact = context, retriever.conditions, is_exact
        self._options = cast("CollectionOptions", retriever.collection)
        self._collection = open_collection(self._options)
        self._items = ItemSpans(context.library, self._options)
        self._spans = SpanCodes(context.library)

    @cached_property
    def _searched(self) -> Collection | ExactSearch:
        """The collection itself, or exact search over its vectors, which are read again when its content changes."""
        collection, context = self._collection, self._context
        if not self._is_exact:
            return collection

        def build(folder: Path) -> None:
            with stage(context.progress, f"vectors of {self._options.title}", collection.count, "vectors") as progress:
                ExactSearch.write(collection, folder, progress.advance)

        parts = {"kind": self._options.kind, "id": collection.id, "content": collection.content}
        read = partial(ExactSearch.read, collection)
        return context.keep("collections", parts, f"vectors of {collection}", build, read)

    def check(self, questions: Sequence[Question]) -> None:
        """Check that the collection fits the documents and the embedder, and understands all conditions.

        Raises InputError with all that is wrong.
        """
        collection, context, conditions = self._collection, self._context, self._conditions
        if not collection.count:
            raise InputError(f"{context.setting}: {collection} is empty; there is nothing to search.")
        faults = list(self._invalid_conditions(questions))
        if not faults:
            count, faults = placement.survey(collection.pages(conditions), context.library, self._options)
            if not count:
                faults = [f"no item of {collection.count:,} meets {conditions}."]
            elif not faults:
                faults = [self._agreement(questions).fault]
        messages = [f"{context.setting}: {collection}: {fault}" for fault in faults if fault]
        if messages:
            more = [f"and {len(messages) - _MOST_FAULTS:,} more faults."] if len(messages) > _MOST_FAULTS else []
            raise InputError(*messages[:_MOST_FAULTS], *more)

    def _invalid_conditions(self, questions: Sequence[Question]) -> Iterator[str]:
        """A fault for each invalid condition, with the place where it was written."""
        asked = {json.dumps(self._conditions): ("the config", self._conditions)}
        for question in questions:
            own = Conditions(question.where, question.where_document)
            asked.setdefault(json.dumps(own), (f"the query {short(question.text, 60)!r}", own))
        for whose, written in asked.values():
            try:
                self._collection.check_conditions(written)
            except ValueError as error:
                yield f"{written} of {whose}: {error}{'' if str(error).endswith('?') else '.'}"

    def _agreement(self, questions: Sequence[Question]) -> VectorAgreement:
        """The agreement of the searched vectors with the setting's embedder."""
        collection, context = self._collection, self._context
        if questions:
            dimension = context.embed_queries([questions[0].text]).shape[1]
            if dimension != collection.dimension:
                fault = placement.other_dimension(collection.dimension, dimension, collection.made_with)
                return VectorAgreement("no", fault)
        if not self._options.check:
            return VectorAgreement("not checked, because of check: false")
        texts, stored = collection.sample(placement.SAMPLED, self._conditions)
        if not texts:
            return VectorAgreement("not checked, because there is no stored text")
        return placement.compare_vectors(
            texts, stored, collection.space, collection.made_with, context.embed_texts, context.embed_queries
        )

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        vectors = self._context.embed_queries([question.text for question in questions])
        spans: list[dict[int, float]] = [{} for _ in questions]  # of each question: codes of spans, and their scores
        rows_by_conditions: dict[str, list[int]] = {}
        for row, question in enumerate(questions):
            rows_by_conditions.setdefault(json.dumps(self._conditions.joined(question)), []).append(row)
        repeated = 0
        for conditions, rows in rows_by_conditions.items():
            repeated += self._find_spans(spans, rows, vectors, Conditions(*json.loads(conditions)), depth)
        facts = {} if self._context.is_fresh or self._is_exact else self._facts(questions, spans, repeated)
        codes, scores = [list(row)[:depth] for row in spans], [list(row.values())[:depth] for row in spans]
        return Candidates.of(self._spans.chunks(), from_rows(codes, scores), facts)

    def _find_spans(
        self, spans: Sequence[dict[int, float]], rows: list[int], vectors: Floats, conditions: Conditions, depth: int
    ) -> int:
        """Fill ``spans`` of the questions at ``rows`` with at least ``depth`` spans each, if there are as many.

        Several items may be in one span, so more items are requested until there are enough spans. Returns how many
        of the first ``depth`` items were in the span of an earlier item.
        """
        repeated, count, wanted = 0, self._collection.count, depth
        while rows:
            hits_by_row = dict(zip(rows, self._searched.nearest(vectors[rows], wanted, conditions), strict=True))
            for row, hits in hits_by_row.items():
                for span, score in zip(self._items.spans(hits.items), hits.scores.tolist(), strict=True):
                    spans[row].setdefault(self._spans.code(*span), score)
            if wanted == depth:
                repeated = sum(len(hits.items) - len(spans[row]) for row, hits in hits_by_row.items())
            has_more = {row: len(hits.items) == min(wanted, count) < count for row, hits in hits_by_row.items()}
            rows = [row for row in rows if len(spans[row]) < depth and has_more[row]]
            wanted = deeper(wanted, self._searched.width)
        return repeated

    def _facts(self, questions: Sequence[Question], spans: Sequence[Sized], repeated: int) -> Facts:
        collection, agreement = self._collection, self._agreement(questions)
        texts, stored = collection.sample(placement.SAMPLED, self._conditions)
        facts: dict[str, Fact] = {
            "collection": self._options.title,
            "collection_id": collection.id,
            "items": collection.count,
            "dimension": collection.dimension,
            "space": collection.space,
            **collection.facts,
            "checked": agreement.said,
            "vectors_agree": agreement.agrees,
            "items_located": self._items.located,
            "items_as_whole_documents": self._items.whole,
            "items_at_the_same_place": repeated,
        }
        if texts:
            facts["normalised"] = placement.is_normalised(stored)
        if any(question.where or question.where_document for question in questions):
            facts["queries_with_conditions"] = sum(bool(each.where or each.where_document) for each in questions)
            facts["queries_without_items"] = sum(not row for row in spans)
        return facts
