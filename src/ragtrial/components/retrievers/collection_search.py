"""A collection that is there already, checked before the run and searched as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Sized
from functools import partial
from pathlib import Path

import numpy as np

from ragtrial.components.interfaces import Candidates, Fact, Facts, RetrieverContext
from ragtrial.dataset.chunks import ForeignPlaces
from ragtrial.dataset.texts import short
from ragtrial.engines import Collection, CollectionOptions, Conditions, opened
from ragtrial.engines.exact import ExactSearch
from ragtrial.engines.placement import (
    SAMPLED,
    ItemPlaces,
    VectorAgreement,
    compare,
    is_normalised,
    other_dimension,
    survey,
)
from ragtrial.errors import InputError
from ragtrial.progress import stage
from ragtrial.rankings import deeper, from_rows
from ragtrial.records import Question, ReportWarning

_MOST_FAULTS = 20


def check_collection(
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
        count, faults = survey(held.pages(conditions), context.library, options)
        if not count:
            faults = [f"no item of {held.count:,} meets {conditions}."]
        elif not faults:
            faults = [_agreement(held, options, conditions, context, questions).fault]
    found = [f"{context.setting}: {held}: {fault}" for fault in faults if fault]
    if found:
        more = [f"and {len(found) - _MOST_FAULTS:,} more faults."] if len(found) > _MOST_FAULTS else []
        raise InputError(*found[:_MOST_FAULTS], *more)


def warnings_of(options: CollectionOptions, setting: str, facts: Facts) -> Iterator[ReportWarning]:
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


def exact_search(held: Collection, context: RetrieverContext) -> ExactSearch:
    """Exact search over the vectors of a collection, which are read once for each of its contents."""

    def build(folder: Path) -> None:
        with stage(context.progress, f"vectors of {held.options.title}", held.count, "vectors") as progress:
            ExactSearch.write(held, folder, progress.advance)

    parts = {"kind": held.options.kind, "id": held.id, "content": held.content}
    return context.keep("collections", parts, f"vectors of {held}", build, partial(ExactSearch.read, held))


class OpenCollection:
    """A collection at work, searched by its engine or exactly.

    Rows are in the order of the search, equal distances too; a place is in a row once.
    """

    def __init__(
        self,
        searched: Collection | ExactSearch,
        options: CollectionOptions,
        conditions: Conditions,
        context: RetrieverContext,
    ) -> None:
        self._options = options
        self._conditions = conditions
        self._context = context
        self._held = opened(options)
        self._nearest = searched.nearest
        self._is_exact = isinstance(searched, ExactSearch)
        self._items = ItemPlaces(context.library, options)
        self._places = ForeignPlaces(context.library)

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        vectors = self._context.embed_queries([question.text for question in questions])
        rows: list[dict[int, float]] = [{} for _ in questions]
        repeated = 0
        for conditions, members in grouped(questions, self._conditions).items():
            pending, asked = np.array(members), depth
            while len(pending):
                # An item may be at the place of another: ask on until there are enough places, or no more items.
                found = self._nearest(vectors[pending], asked, Conditions(*json.loads(conditions)))
                short_of: list[int] = []
                for row, one in zip(pending.tolist(), found, strict=True):
                    for place, score in zip(self._items.of(one.items), one.scores.tolist(), strict=True):
                        rows[row].setdefault(self._places.code(*place), score)
                    repeated += len(one.items) - len(rows[row]) if asked == depth else 0
                    if len(rows[row]) < depth and len(one.items) == min(asked, self._held.count) < self._held.count:
                        short_of.append(row)
                pending, asked = np.array(short_of, dtype=np.int64), deeper(asked, self._width)
        facts = {} if self._context.is_fresh or self._is_exact else self._facts(questions, rows, repeated)
        rankings = from_rows([list(row)[:depth] for row in rows], [list(row.values())[:depth] for row in rows])
        return Candidates.of(self._places.chunks(), rankings, facts)

    def _width(self, depth: int) -> int | None:
        return None if self._is_exact else self._held.width(depth)

    def _facts(self, questions: Sequence[Question], rows: Sequence[Sized], repeated: int) -> Facts:
        held = self._held
        texts, stored = held.sample(SAMPLED, self._conditions)
        agreement = _agreement(held, self._options, self._conditions, self._context, questions)
        facts: dict[str, Fact] = {
            "collection": held.options.title,
            "collection_id": held.id,
            "items": held.count,
            "dimension": held.dimension,
            "space": held.space,
            **held.facts(),
            "checked": agreement.said,
            "vectors_agree": agreement.agrees,
            "items_located": self._items.located,
            "items_as_whole_documents": self._items.whole,
            "items_at_the_same_place": repeated,
        }
        if texts:
            facts["normalised"] = is_normalised(stored)
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
            return VectorAgreement("no", other_dimension(held.dimension, dimension, held.made_with))
    if not options.check:
        return VectorAgreement("not checked, because of check: false")
    texts, stored = held.sample(SAMPLED, conditions)
    if not texts:
        return VectorAgreement("not checked, because there is no stored text")
    return compare(texts, stored, held.space, held.made_with, context.embed_texts, context.embed_queries)
