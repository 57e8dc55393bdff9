"""Small chunks found, the larger text around them returned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from ragtrial.components.chunkers.base import AnyChunker
from ragtrial.components.interfaces import Candidates, Facts, RetrieverContext
from ragtrial.components.refiners.base import REFINERS, OpenRefiner, SingleInputRefiner
from ragtrial.dataset.chunks import Chunks, SpanCodes
from ragtrial.rankings import PADDING, Bools, Codes, Counts, Rankings, collapse
from ragtrial.records import Question, ReportWarning


def holding(parents: Chunks, units: Chunks, codes: Counts) -> Counts:
    """The parent that holds most characters of each of ``codes``; ties: the first.

    ``PADDING`` where none holds any. A unit without characters is held by its document's first. ``parents`` are in the
    order of their documents, and ascending in start and in end within each, as chunkers make them.
    """
    best, most = np.full(len(codes), PADDING, dtype=np.int64), np.zeros(len(codes), dtype=np.int64)
    if not len(parents):
        return best
    document, start, end = units.document[codes].astype(np.int64), units.start[codes], units.end[codes]
    # All documents on one line, each document on a separate stretch.
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


def neighbourhoods(units: Chunks, codes: Counts, count: int) -> list[tuple[int, int, bool]]:
    """Each of ``codes`` with the ``count`` units before and after it in the same document: start, end, is it short.

    Neighbours are known from their places. At a gap, characters other than white space that are in no unit, a stretch
    ends, and is short: the text there is not known.
    """
    near = np.flatnonzero(np.isin(units.document, units.document[codes]))
    near = near[np.lexsort((near, units.end[near], units.start[near], units.document[near]))]
    document, start, end = (one[near].tolist() for one in (units.document, units.start, units.end))
    begins, gaps = [True] * (len(near) + 1), [False] * (len(near) + 1)  # before each unit, and after the last
    reached = 0
    for place in range(1, len(near)):
        begins[place] = document[place] != document[place - 1]
        reached = end[place - 1] if begins[place - 1] else max(reached, end[place - 1])
        if not begins[place] and start[place] > reached:
            gaps[place] = bool(units.library.text(document[place])[reached : start[place]].strip())
    place_of = {code: place for place, code in enumerate(near.tolist())}
    made = []
    for place in (place_of[code] for code in codes.tolist()):
        low = high = place
        while place - low < count and not (begins[low] or gaps[low]):
            low -= 1
        while high - place < count and not (begins[high + 1] or gaps[high + 1]):
            high += 1
        is_short = (place - low < count and gaps[low]) or (high - place < count and gaps[high + 1])
        made.append((start[low], max(end[low : high + 1]), is_short))
    return made


@REFINERS.register("parent")
class Parent(SingleInputRefiner):
    """The larger text that each hit of another retriever is in.

    The first hit in a parent brings it, with its score, to its rank; later hits in it are dropped, and counted. With
    ``neighbours``, stretches inside an earlier one are dropped; stretches may overlap in part.
    """

    named_by = ("returns",)

    explanation: ClassVar[str] = (
        "returns the text around what {parts} finds; a hit's rank there is that of the first chunk inside it"
    )

    kind: Literal["parent"] = "parent"
    """The larger text around each hit: small chunks are found, large chunks are returned."""

    returns: Literal["chunk", "neighbours", "document"] = "document"
    """The text that is returned for a hit: the `chunk` of `chunker` that holds most of its characters, the hit with its
    `neighbours`, or the whole document."""

    chunker: AnyChunker | None = None
    """The chunker of the larger chunks, with `returns: chunk`."""

    neighbours: Annotated[int, Field(ge=1)] = 1
    """How many chunks before and after the hit are returned with it, with `returns: neighbours`."""

    @model_validator(mode="after")
    def _says_what_is_returned(self) -> Parent:
        for name, returns in (("chunker", "chunk"), ("neighbours", "neighbours")):
            if name in self.model_fields_set and getattr(self, name) and "returns" not in self.model_fields_set:
                raise ValueError(f"{name} is not used by default, `returns: document`; add returns: {returns}.")
        if self.returns == "chunk" and self.chunker is None:
            raise ValueError(
                "returns: chunk needs the chunker of the larger chunks; add one, such as chunker: {kind: recursive, "
                "size: 800, overlap: 0}."
            )
        return self

    @property
    def depends_on(self) -> frozenset[str]:
        return frozenset({"chunker"} if self.returns == "chunk" else ())

    def has_comparable_scores(self, of_parts: Sequence[bool]) -> bool:
        return all(of_parts)

    def hashed_options(self) -> dict[str, Any]:
        """``neighbours`` counts only where they are returned."""
        parts = super().hashed_options()
        return parts if self.returns == "neighbours" else {**parts, "neighbours": None}

    def open(self, context: RetrieverContext) -> OpenRefiner:
        return _OpenParent(self, context)

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        for fact, (code, what) in _WARNINGS.items():
            if facts[fact] and (fact != "own_parent" or facts[fact] == facts["hits"]):
                yield ReportWarning(code, f"{setting}: {what} ({facts[fact]:,} of {facts['hits']:,} hits).")


_WARNINGS = {
    "smaller_parent": (
        "small-parents",
        "some hits are larger than the chunk returned for them; set a chunker for larger chunks than those found",
    ),
    "own_parent": ("own-parents", "each hit is its own parent, so nothing was changed; return more than what is found"),
    "without_parent": (
        "no-parent",
        "some hits are in no chunk of its chunker, which leaves text out; they were dropped",
    ),
    "at_gap": (
        "unknown-neighbours",
        "not all neighbours of some hits are known, as text beside them is in no chunk that the part names",
    ),
}


@dataclass(frozen=True)
class _OpenParent:
    options: Parent
    context: RetrieverContext

    @cached_property
    def _places(self) -> SpanCodes:
        return SpanCodes(self.context.library)

    def refine(self, questions: Sequence[Question], parts: Sequence[Candidates]) -> Candidates:
        (part,) = parts
        codes, units = part.rankings.codes, part.units
        is_hit = codes != PADDING
        found, of_hit = np.unique(codes[is_hit], return_inverse=True)
        around, parent_of, is_short = self._around(units, found)
        parents = np.full_like(codes, PADDING)
        parents[is_hit] = parent_of[of_hit]
        if self.options.returns == "neighbours":
            parents = _uncovered(units, codes, around, parents)
        brought = Rankings(parents, np.where(parents != PADDING, part.rankings.scores, np.float32(np.nan)))
        kept = collapse(brought, np.arange(len(around), dtype=np.int32)).rankings

        has_parent = parent_of != PADDING
        own, its = found[has_parent], parent_of[has_parent]
        begins, ends = units.start[own] - around.start[its], units.end[own] - around.end[its]
        times = np.bincount(of_hit, minlength=len(found))
        counts = {
            "hits": times,
            "without_parent": times[~has_parent],
            "smaller_parent": times[has_parent][ends > begins],
            "own_parent": times[has_parent][(begins == 0) & (ends == 0)],
            "at_gap": times[is_short],
        }
        facts = {name: int(count.sum()) for name, count in counts.items()}
        facts["same_parent"] = facts["hits"] - facts["without_parent"] - int(kept.lengths.sum())
        return Candidates(around, kept, part.skipped, facts)

    def _around(self, units: Chunks, found: Counts) -> tuple[Chunks, Counts, Bools]:
        """All parents, the parent of each unit (PADDING if there is none), and a mark for short parents."""
        is_short = np.zeros(len(found), dtype=np.bool_)
        if self.options.returns == "chunk":
            return self.context.chunks(), holding(self.context.chunks(), units, found), is_short
        documents = units.document[found].tolist()
        if self.options.returns == "document":
            codes = [self._places.code(document) for document in documents]
        else:
            stretches = neighbourhoods(units, found, self.options.neighbours)
            places = zip(documents, stretches, strict=True)
            codes = [self._places.code(at, start, end) for at, (start, end, _) in places]
            is_short[:] = [short for _, _, short in stretches]
        return self._places.chunks(), np.array(codes, dtype=np.int64), is_short


def _uncovered(units: Chunks, codes: Codes, stretches: Chunks, parents: Codes) -> Codes:
    """``parents`` without parents of hits inside a stretch that an earlier hit of the question brought."""
    kept = parents.copy()
    if not len(units) or not len(stretches):
        return kept
    document, start, end = units.document[codes], units.start[codes], units.end[codes]
    begins, ends = stretches.start[parents], stretches.end[parents]
    for column in range(1, codes.shape[1]):
        before, own = np.s_[:, :column], np.s_[:, column : column + 1]
        covers = (kept[before] != PADDING) & (document[before] == document[own])
        covers &= (begins[before] <= start[own]) & (end[own] <= ends[before])
        kept[covers.any(axis=1), column] = PADDING
    return kept
