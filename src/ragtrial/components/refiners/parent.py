"""Small chunks found, the larger text around them returned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from ragtrial.components.chunkers import AnyChunker
from ragtrial.components.refiners.base import REFINERS, OpenRefiner, SingleInputRefiner
from ragtrial.components.retrievers.base import Candidates, Facts, RetrieverContext
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.places import ForeignPlaces
from ragtrial.rankings import PADDING, Bools, Codes, Counts, Rankings, collapse
from ragtrial.records import Question, ReportWarning, WarningCode


def holding(parents: Chunks, units: Chunks, codes: Counts) -> Counts:
    """The one of ``parents`` that holds most characters of each of ``codes``; of equal ones the first.

    ``PADDING`` where none holds any. A unit without characters is held by its document's first. ``parents`` are in the
    order of their documents, and ascending in start and in end within each, as chunkers make them.
    """
    best, most = np.full(len(codes), PADDING, dtype=np.int64), np.zeros(len(codes), dtype=np.int64)
    if not len(parents):
        return best
    document, start, end = units.document[codes].astype(np.int64), units.start[codes], units.end[codes]
    # ForeignPlaces of all documents on one line, each document on a stretch of its own.
    width = 1 + max(int(parents.end.max()), int(end.max(initial=0)))
    row, parent_row = document * width, parents.document.astype(np.int64) * width
    first = np.searchsorted(parent_row + parents.end, row + start, side="right")
    last = np.searchsorted(parent_row + parents.start, row + end, side="left")
    for step in range(int((last - first).max(initial=0))):
        place = np.minimum(first + step, len(parents) - 1)
        held = np.minimum(end, parents.end[place]) - np.maximum(start, parents.start[place])
        is_better = (first + step < last) & (held > most)
        best[is_better], most[is_better] = place[is_better], held[is_better]
    of_document = np.minimum(np.searchsorted(parents.document, document), len(parents) - 1)
    is_empty = (start == end) & (parents.document[of_document] == document)
    best[is_empty] = of_document[is_empty]
    return best


@dataclass(frozen=True, eq=False)
class Stretches:
    """Characters ``start`` to ``end`` (int64) around units; ``is_short`` marks those that ended at a gap."""

    start: Counts
    end: Counts
    is_short: Bools


def neighbourhoods(units: Chunks, codes: Counts, count: int) -> Stretches:
    """Each of ``codes`` with the ``count`` units before and after it in the same document, as one stretch.

    Which are beside one another is told by their places. At a gap, characters other than white space that are in no
    unit, a stretch ends: what stands there is not known.
    """
    near = np.flatnonzero(np.isin(units.document, units.document[codes]))
    near = near[np.lexsort((near, units.end[near], units.start[near], units.document[near]))]
    place_of = np.full(len(units), PADDING, dtype=np.int64)
    place_of[near] = np.arange(len(near))
    place = place_of[codes]
    is_same, is_gap = _edges(units, near)
    of_document, of_run = _Runs.of(is_same), _Runs.of(is_same & ~is_gap)
    low, high = of_run.around(place, count)
    wanted_low, wanted_high = of_document.around(place, count)
    end = units.end[near]
    furthest = end[low]
    for step in range(1, int((high - low).max(initial=0)) + 1):
        furthest = np.maximum(furthest, end[np.minimum(low + step, high)])
    return Stretches(units.start[near][low], furthest, (low > wanted_low) | (high < wanted_high))


@dataclass(frozen=True, eq=False)
class _Runs:
    """The first and the last of the run that each of some units in a row is in, shape (units,)."""

    first: Counts
    last: Counts

    @classmethod
    def of(cls, goes_on: Bools) -> _Runs:
        """``goes_on`` says of each but the last whether the next is in the same run."""
        begins = np.flatnonzero(np.concatenate(([True], ~goes_on)))
        ends = np.append(begins[1:], len(goes_on) + 1) - 1
        return cls(np.repeat(begins, ends - begins + 1), np.repeat(ends, ends - begins + 1))

    def around(self, place: Counts, count: int) -> tuple[Counts, Counts]:
        """From ``count`` before ``place`` to ``count`` after it, within the run."""
        return np.maximum(place - count, self.first[place]), np.minimum(place + count, self.last[place])


def _edges(units: Chunks, order: Counts) -> tuple[Bools, Bools]:
    """For each unit of ``order`` but the last: whether the next is of its document, and whether a gap is before it."""
    document, start, end = units.document[order].astype(np.int64), units.start[order], units.end[order]
    row = document * (1 + int(end.max(initial=0)))
    reached = np.maximum.accumulate(row + end) - row  # the furthest end so far in the same document
    is_same = document[1:] == document[:-1]
    is_gap = is_same & (start[1:] > reached[:-1])
    for place in np.flatnonzero(is_gap).tolist():
        between = units.library.text(int(document[place]))[reached[place] : start[place + 1]]
        is_gap[place] = bool(between.strip())
    return is_same, is_gap


@REFINERS.register("parent")
class Parent(SingleInputRefiner):
    """The larger text that each hit of another retriever stands in.

    The first hit in a parent brings it, with its score, to its rank; later ones are dropped, and counted. With
    ``neighbours`` those are dropped that stand within what was returned before; stretches may overlap in part.
    """

    named_by = ("returns",)

    explanation: ClassVar[str] = (
        "returns the text around what {parts} finds; a hit's rank there is that of the first chunk inside it"
    )

    kind: Literal["parent"] = "parent"
    """The larger text that each hit stands in: small chunks are found, large ones returned."""

    returns: Literal["chunk", "neighbours", "document"] = "document"
    """What is returned for a hit: the `chunk` of `chunker` that holds most of its characters, the hit with its
    `neighbours`, or the whole document."""

    chunker: AnyChunker | None = None
    """What cuts the larger chunks, with `returns: chunk`."""

    neighbours: Annotated[int, Field(ge=1)] = 1
    """How many chunks before and after the hit are returned with it, with `returns: neighbours`."""

    @model_validator(mode="after")
    def _says_what_is_returned(self) -> Parent:
        given = [name for name in ("chunker", "neighbours") if name in self.model_fields_set and getattr(self, name)]
        if given and "returns" not in self.model_fields_set:
            wanted = "chunk" if given[0] == "chunker" else given[0]
            raise ValueError(
                f"{given[0]} is given and plays no part, as whole documents are returned by default; add returns: "
                f"{wanted}, or take {given[0]} out."
            )
        return self

    @model_validator(mode="after")
    def _chunker_where_chunks(self) -> Parent:
        if self.returns == "chunk" and self.chunker is None:
            raise ValueError(
                "returns is chunk, which needs the chunker of the larger chunks: add one, such as "
                "chunker: {kind: recursive, size: 800, overlap: 0}, or set returns: neighbours or document."
            )
        return self

    @property
    def reached_by(self) -> frozenset[str]:
        return frozenset({"chunker"} if self.returns == "chunk" else ())

    def identity(self) -> dict[str, Any]:
        """``neighbours`` counts only where they are returned."""
        parts = super().identity()
        return parts if self.returns == "neighbours" else {**parts, "neighbours": None}

    def open(self, context: RetrieverContext) -> OpenRefiner:
        return _OpenParent(self, context)

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        hits, smaller, same = facts["hits"], facts["smaller_parent"], facts["own_parent"]
        if smaller:
            yield ReportWarning(
                WarningCode.SMALL_PARENTS,
                f"{setting}: {smaller:,} of {hits:,} hits are larger than the chunk returned for them. Set a chunker "
                "for larger chunks than those that are found.",
            )
        if hits and same == hits:
            yield ReportWarning(
                WarningCode.OWN_PARENTS,
                f"{setting}: each of the {hits:,} hits is its own parent, so nothing was changed; what is found is as "
                "large as what is returned.",
            )
        if facts["without_parent"]:
            yield ReportWarning(
                WarningCode.NO_PARENT,
                f"{setting}: {facts['without_parent']:,} of {hits:,} hits are in no chunk of its chunker, which leaves "
                "text out; they were dropped.",
            )
        if facts["at_gap"]:
            yield ReportWarning(
                WarningCode.UNKNOWN_NEIGHBOURS,
                f"{setting}: of {facts['at_gap']:,} of {hits:,} hits not all neighbours are known, as text beside "
                "them is in no chunk that the part names; less is returned for them.",
            )


@dataclass(frozen=True)
class _OpenParent:
    options: Parent
    context: RetrieverContext

    @cached_property
    def _places(self) -> ForeignPlaces:
        return ForeignPlaces(self.context.library)

    def refine(self, questions: Sequence[Question], parts: Sequence[Candidates]) -> Candidates:
        (part,) = parts
        codes, scores = part.rankings.codes, part.rankings.scores
        is_hit = codes != PADDING
        found, of_hit = np.unique(codes[is_hit], return_inverse=True)
        around = self._around(part.units, found)
        parents = np.full_like(codes, PADDING)
        parents[is_hit] = around.codes[of_hit]
        if self.options.returns == "neighbours":
            parents = _uncovered(part.units, codes, around.units, parents)
        brought = Rankings(parents, np.where(parents != PADDING, scores, np.float32(np.nan)))
        kept = collapse(brought, np.arange(len(around.units), dtype=np.int32)).rankings
        facts = around.facts(part.units, found, np.bincount(of_hit, minlength=len(found)))
        same = int(facts["hits"]) - int(facts["without_parent"]) - int(kept.lengths.sum())
        return Candidates(around.units, kept, part.skipped, {**facts, "same_parent": same})

    def _around(self, units: Chunks, found: Counts) -> _Around:
        """The parent of each unit that was found."""
        whole = np.zeros(len(found), dtype=np.bool_)
        if self.options.returns == "chunk":
            parents = self.context.chunks()
            return _Around(parents, holding(parents, units, found), whole)
        documents = units.document[found].tolist()
        if self.options.returns == "document":
            codes = [self._places.code(document) for document in documents]
        else:
            stretches = neighbourhoods(units, found, self.options.neighbours)
            bounds = zip(documents, stretches.start.tolist(), stretches.end.tolist(), strict=True)
            codes, whole = [self._places.code(*one) for one in bounds], stretches.is_short
        return _Around(self._places.chunks(), np.array(codes, dtype=np.int64), whole)


@dataclass(frozen=True, eq=False)
class _Around:
    """The parent of each unit that was found: a position in ``units``, PADDING where there is none."""

    units: Chunks
    codes: Counts
    is_short: Bools

    def facts(self, found_units: Chunks, found: Counts, times: Counts) -> dict[str, int]:
        """What is counted of all hits; each of the ``found`` is so many ``times`` one."""
        has_parent = self.codes != PADDING
        parents, units, counts = self.codes[has_parent], found[has_parent], times[has_parent]
        starts, ends = self.units.start[parents], self.units.end[parents]
        own_starts, own_ends = found_units.start[units], found_units.end[units]
        return {
            "hits": int(times.sum()),
            "without_parent": int(times[~has_parent].sum()),
            "smaller_parent": int(counts[ends - starts < own_ends - own_starts].sum()),
            "own_parent": int(counts[(starts == own_starts) & (ends == own_ends)].sum()),
            "at_gap": int(times[self.is_short].sum()),
        }


def _uncovered(units: Chunks, codes: Codes, stretches: Chunks, parents: Codes) -> Codes:
    """``parents`` without those of hits that stand within a stretch that an earlier hit of the question brought."""
    kept = parents.copy()
    if not len(units):
        return kept
    document, start, end = units.document[codes], units.start[codes], units.end[codes]
    begins, ends = stretches.start[parents], stretches.end[parents]
    for column in range(1, codes.shape[1]):
        before, own = np.s_[:, :column], np.s_[:, column : column + 1]
        covers = (kept[before] != PADDING) & (document[before] == document[own])
        covers &= (begins[before] <= start[own]) & (end[own] <= ends[before])
        kept[covers.any(axis=1), column] = PADDING
    return kept
