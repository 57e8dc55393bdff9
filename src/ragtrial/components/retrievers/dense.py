"""Nearest vectors: in an index of chunks, or in a collection that is there already."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, JsonValue, PrivateAttr, model_validator

from ragtrial.cache.fingerprints import Digest
from ragtrial.components.interfaces import RETRIEVERS, Candidates, Fact, Facts, RetrieverContext, VectorRetriever
from ragtrial.dataset.chunks import ForeignPlaces
from ragtrial.dataset.texts import short
from ragtrial.engines import AnyCollection, Collection, CollectionOptions, Conditions, Store, opened, placement
from ragtrial.engines.exact import ExactSearch
from ragtrial.engines.placement import ItemPlaces, VectorAgreement
from ragtrial.errors import InputError
from ragtrial.options import shown
from ragtrial.progress import stage
from ragtrial.rankings import deeper, from_rows
from ragtrial.records import Question, ReportWarning

_OF_COLLECTIONS = ("collection", "where", "where_document", "filter")


@RETRIEVERS.register("dense")
class DenseRetriever(VectorRetriever):
    """The chunks whose vectors are nearest to the query's."""

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
    def reached_by(self) -> frozenset[str]:
        return frozenset({"embedder"}) if self.collection is not None else super().reached_by

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

    def identity(self) -> dict[str, Any]:
        identity = super().identity()
        if self.collection is None:
            return {name: value for name, value in identity.items() if name not in _OF_COLLECTIONS}
        if self.filter is None:
            del identity["filter"]
        identity["collection"] = collection = self.collection.identity()
        if self._is_exact:
            for name in self.collection.search_options:
                collection.pop(name, None)
            identity["search"] = "exact"
        return identity

    def inputs(self, digest: Digest) -> Any:
        if self.collection is None:
            return None
        return dict(opened(self.collection).inputs())

    def width(self, store: Store, depth: int) -> int | None:
        if self.collection is None:
            return super().width(store, depth)
        return None if self._is_exact else opened(self.collection).width(depth)

    def asked(self, question: Question) -> Any:
        if self.collection is None:
            return question.text
        where, where_document, _ = self._conditions.joined(question)  # the filter is the same for all
        return [question.text, where, where_document]

    def check(self, context: RetrieverContext, questions: Sequence[Question]) -> None:
        if self.collection is not None:
            _check_collection(self.collection, self._conditions, context, questions)

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        if self.collection is not None:
            yield from _warnings_of(self.collection, setting, facts)

    def open(self, context: RetrieverContext) -> _OpenCollection | _OpenDense:
        if self.collection is None:
            return _OpenDense(context)
        held = opened(self.collection)
        searched = _exact_search(held, context) if self._is_exact else held
        return _OpenCollection(searched, self.collection, self._conditions, context)

    @property
    def _conditions(self) -> Conditions:
        return Conditions(self.where, self.where_document, self.filter)


@dataclass(frozen=True)
class _OpenDense:
    context: RetrieverContext

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        vectors = self.context.embed_queries([question.text for question in questions])
        return Candidates.of(self.context.chunks(), self.context.index().search(vectors, depth))


_MOST_FAULTS = 20


def _check_collection(
    options: CollectionOptions, conditions: Conditions, context: RetrieverContext, questions: Sequence[Question]
) -> None:
    """Look whether the collection is there, fits the documents and the embedder, and understands all conditions.

    Raises InputError with all that is wrong.
    """
    try:
        held = opened(options, afresh=True)
    except InputError as error:
        raise InputError(*(f"{context.setting}: {fault.message}" for fault in error.faults)) from error
    if not held.count:
        raise InputError(f"{context.setting}: {held} is empty; there is nothing to search.")
    faults = list(_refused(held, conditions, questions))
    if not faults:
        count, faults = placement.survey(held.pages(conditions), context.library, options)
        if not count:
            faults = [f"no item of {held.count:,} meets {conditions}."]
        elif not faults:
            faults = [_agreement(held, options, conditions, context, questions).fault]
    found = [f"{context.setting}: {held}: {fault}" for fault in faults if fault]
    if found:
        more = [f"and {len(found) - _MOST_FAULTS:,} more faults."] if len(found) > _MOST_FAULTS else []
        raise InputError(*found[:_MOST_FAULTS], *more)


def _warnings_of(options: CollectionOptions, setting: str, facts: Facts) -> Iterator[ReportWarning]:
    """The warnings about a collection that was searched, according to its facts."""
    yield from options.warnings(setting, facts)
    if not facts.get("vectors_agree"):
        checked = facts.get("checked")
        message = f"{setting}: whether the embedder is the one that made the collection's vectors: {checked}."
        yield ReportWarning("collection-not-checked", message)
    if facts.get("space") == "l2" and facts.get("normalised") is False:
        yield ReportWarning(
            "l2-lengths",
            f"{setting}: the collection compares by l2, and its vectors are of different lengths: how long a vector is "
            "counts beside its direction. Most models are trained for cosine.",
        )
    if facts.get("queries_without_items"):
        yield ReportWarning(
            "conditions-without-items",
            f"{setting}: queries whose where and where_document let no item of the collection through: "
            f"{facts['queries_without_items']:,}.",
        )


def _exact_search(held: Collection, context: RetrieverContext) -> ExactSearch:
    """Exact search over the vectors of a collection, which are read once for each of its contents."""

    def build(folder: Path) -> None:
        with stage(context.progress, f"vectors of {held.options.title}", held.count, "vectors") as progress:
            ExactSearch.write(held, folder, progress.advance)

    parts = {"kind": held.options.kind, "id": held.id, "content": held.content}
    return context.keep("collections", parts, f"vectors of {held}", build, partial(ExactSearch.read, held))


@dataclass
class _OpenCollection:
    """A collection at work, searched by its engine or exactly.

    Rows are in the order of the search, equal distances too; a place is in a row once.
    """

    searched: Collection | ExactSearch
    options: CollectionOptions
    conditions: Conditions
    context: RetrieverContext

    def __post_init__(self) -> None:
        self._held = opened(self.options)
        self._is_exact = isinstance(self.searched, ExactSearch)
        self._items = ItemPlaces(self.context.library, self.options)
        self._places = ForeignPlaces(self.context.library)

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        vectors = self.context.embed_queries([question.text for question in questions])
        rows: list[dict[int, float]] = [{} for _ in questions]
        repeated = 0
        for conditions, members in grouped(questions, self.conditions).items():
            pending, asked = np.array(members), depth
            while len(pending):
                # An item may be at the place of another: ask on until there are enough places, or no more items.
                found = self.searched.nearest(vectors[pending], asked, Conditions(*json.loads(conditions)))
                short_of: list[int] = []
                for row, one in zip(pending.tolist(), found, strict=True):
                    for place, score in zip(self._items.of(one.items), one.scores.tolist(), strict=True):
                        rows[row].setdefault(self._places.code(*place), score)
                    repeated += len(one.items) - len(rows[row]) if asked == depth else 0
                    if len(rows[row]) < depth and len(one.items) == min(asked, self._held.count) < self._held.count:
                        short_of.append(row)
                pending, asked = np.array(short_of, dtype=np.int64), deeper(asked, self._width)
        facts = {} if self.context.is_fresh or self._is_exact else self._facts(questions, rows, repeated)
        rankings = from_rows([list(row)[:depth] for row in rows], [list(row.values())[:depth] for row in rows])
        return Candidates.of(self._places.chunks(), rankings, facts)

    def _width(self, depth: int) -> int | None:
        return None if self._is_exact else self._held.width(depth)

    def _facts(self, questions: Sequence[Question], rows: Sequence[Sized], repeated: int) -> Facts:
        held = self._held
        texts, stored = held.sample(placement.SAMPLED, self.conditions)
        agreement = _agreement(held, self.options, self.conditions, self.context, questions)
        facts: dict[str, Fact] = {
            "collection": held.options.title,
            "collection_id": held.id,
            "items": held.count,
            "dimension": held.dimension,
            "space": held.space,
            **held.facts,
            "checked": agreement.said,
            "vectors_agree": agreement.agrees,
            "items_located": self._items.located,
            "items_as_whole_documents": self._items.whole,
            "items_at_the_same_place": repeated,
        }
        if texts:
            facts["normalised"] = placement.is_normalised(stored)
        if any(question.where or question.where_document for question in questions):
            facts["queries_with_conditions"] = sum(bool(one.where or one.where_document) for one in questions)
            facts["queries_without_items"] = sum(not row for row in rows)
        return facts


def grouped(questions: Sequence[Question], conditions: Conditions) -> dict[str, list[int]]:
    """The positions of the questions by the conditions that they are asked under, written as JSON."""
    groups: dict[str, list[int]] = {}
    for position, question in enumerate(questions):
        groups.setdefault(json.dumps(conditions.joined(question)), []).append(position)
    return groups


def _refused(held: Collection, conditions: Conditions, questions: Sequence[Question]) -> Iterator[str]:
    """The conditions that cannot be, each with where it was written."""
    asked = {json.dumps(conditions): ("the config", conditions)}
    for question in questions:
        own = Conditions(question.where, question.where_document)
        asked.setdefault(json.dumps(own), (f"the query {short(question.text, 60)!r}", own))
    for whose, written in asked.values():
        try:
            held.check_conditions(written)
        except ValueError as error:
            yield f"{written} of {whose}: {error}{'' if str(error).endswith('?') else '.'}"


def _agreement(
    held: Collection,
    options: CollectionOptions,
    conditions: Conditions,
    context: RetrieverContext,
    questions: Sequence[Question],
) -> VectorAgreement:
    """The agreement of the searched vectors with the setting's embedder."""
    if questions:
        dimension = context.embed_queries([questions[0].text]).shape[1]
        if dimension != held.dimension:
            return VectorAgreement("no", placement.other_dimension(held.dimension, dimension, held.made_with))
    if not options.check:
        return VectorAgreement("not checked, because of check: false")
    texts, stored = held.sample(placement.SAMPLED, conditions)
    if not texts:
        return VectorAgreement("not checked, because there is no stored text")
    return placement.compare(texts, stored, held.space, held.made_with, context.embed_texts, context.embed_queries)
