"""From a retriever's answers to rankings of what is scored: asking on until there are enough, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Self

import numpy as np

from ragtrial.cache.arrays import is_within, read_arrays, write_arrays
from ragtrial.components.retrievers import Candidates
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.rankings import PADDING, Codes, Counts, Rankings, collapse, deeper, unfilled
from ragtrial.records import FoundText, Question, Unit

RANKINGS_FORMAT = 3
"""How rankings are written: part of what they go by, so that none is read that was written otherwise."""

_FILE = "rankings.npys"  # the first array is of the bytes of a JSON object: one file takes less time than two


@dataclass(frozen=True)
class Depth:
    """How deep a ranking must be: ``candidates`` hits as they come, ``units`` documents (or what else is scored)."""

    candidates: int = 0
    units: int = 0

    @property
    def hits(self) -> int:
        """How many hits are asked for at first."""
        return max(self.candidates, self.units, 1)

    def __or__(self, other: Depth) -> Depth:
        return Depth(max(self.candidates, other.candidates), max(self.units, other.units))


@dataclass(frozen=True, eq=False)
class Ranked:
    """What a setting found: its hits as they came, cut at some depth, and what is scored of them.

    ``rankings`` are of documents or chunks. ``units`` are the chunks that brought them, and ``places`` how many hits
    were read down to each, both of the rankings' shape, places 0 at the padding; ``seen`` counts the hits that came in
    all, shape (queries,). ``stages`` are kind and name of those that the retriever keeps for itself.
    """

    candidates: Candidates
    rankings: Rankings
    units: Codes
    places: Counts
    seen: Counts
    stages: frozenset[tuple[str, str]] = frozenset()

    @property
    def read(self) -> Counts:
        """Hits read for each query: down to the last that is kept, or all where there are too few."""
        if not self.rankings.depth:
            return self.seen
        return np.where(self.rankings.lengths == self.rankings.depth, self.places.max(axis=1), self.seen)

    @property
    def dropped(self) -> Counts:
        """Hits read for each query that brought nothing new."""
        return self.read - self.rankings.lengths

    def cut(self, depth: Depth) -> Ranked:
        """As deep as ``depth``, where it is deeper."""
        candidates = replace(self.candidates, rankings=self.candidates.rankings.cut(depth.candidates))
        rankings, units, places = self.rankings.cut(depth.units), self.units[:, : depth.units], self.places
        return Ranked(candidates, rankings, units, places[:, : depth.units], self.seen, self.stages)

    def with_last_first(self, place: Counts) -> Ranked:
        """Where scores are equal, what has the highest ``place``, shape (documents,), comes first."""
        rankings = self.rankings
        groups = np.cumsum(np.diff(rankings.scores, axis=1, prepend=np.nan) != 0, axis=1)  # NaN is equal to nothing
        order = np.lexsort((-place[rankings.codes], groups))
        codes, units = (np.take_along_axis(one, order, axis=1) for one in (rankings.codes, self.units))
        places = np.take_along_axis(self.places, order, axis=1)
        return replace(self, rankings=Rankings(codes, rankings.scores), units=units, places=places)

    def save(self, folder: Path, known: Mapping[str, Chunks]) -> None:
        """Write all of it into ``folder``; units that are not ``known`` by their name, too."""
        held = self.candidates
        in_words = {"units": held.units.name, "facts": dict(held.facts), "stages": sorted(self.stages)}
        first = np.frombuffer(json.dumps(in_words).encode(), np.uint8)
        of_rankings = (held.rankings.codes, held.rankings.scores, self.rankings.codes, self.rankings.scores)
        write_arrays(folder / _FILE, [first, held.skipped, *of_rankings, self.units, self.places, self.seen])
        if held.units.name not in known:
            (folder / "units").mkdir()
            held.units.write(folder / "units")

    @classmethod
    def load(cls, folder: Path, library: Library, known: Mapping[str, Chunks]) -> Self:
        """What was saved in ``folder``. Raises ValueError for arrays that do not fit one another."""
        first, skipped, codes, scores, ranked, ranked_scores, brought, places, seen = read_arrays(folder / _FILE)
        in_words = json.loads(first.tobytes())
        name = str(in_words["units"])
        units = known[name] if name in known else Chunks(library, folder / "units", name)
        fits = codes.shape == scores.shape and ranked.shape == ranked_scores.shape == brought.shape == places.shape
        fits = fits and (len(codes),) == skipped.shape == seen.shape == (len(ranked),)
        if not fits or not all(is_within(part, len(units), PADDING) for part in (codes, brought)):
            raise ValueError("its arrays do not fit one another, or its units")
        if not is_within(places, int(seen.max(initial=0)) + 1) or not is_within(
            ranked, max(len(units), len(library)), PADDING
        ):
            raise ValueError("it ranks what is not there")
        candidates = Candidates(units, Rankings(codes, scores), skipped, in_words["facts"])
        return cls(candidates, Rankings(ranked, ranked_scores), brought, places, seen, stages_kept(folder))


def stages_kept(folder: Path) -> frozenset[tuple[str, str]]:
    """The ``stages`` of rankings that were saved."""
    in_words = json.loads(next(read_arrays(folder / _FILE)).tobytes())
    return frozenset((str(kind), str(name)) for kind, name in in_words["stages"])


def skipped_in(folder: Path) -> int:
    """How many questions were skipped in the rankings of ``folder``; 0 where these cannot be read."""
    try:
        return sum(int(np.count_nonzero(skipped)) for skipped in islice(read_arrays(folder / _FILE), 1, 2))
    except (OSError, ValueError):
        return 0


def retrieve(
    search: Callable[[Sequence[Question], int], Candidates],
    questions: Sequence[Question],
    wanted: Depth,
    unit: Unit,
    advance: Callable[[int], None] = lambda _: None,
    width: Callable[[int], int | None] = lambda _: None,
    *,
    is_whole: bool = False,
) -> Ranked:
    """The rankings of ``questions``, as deep as ``wanted``, from what ``search`` finds for them at some depth.

    Under ``unit: document`` hits collapse to their documents, the first one wins. Hits of the document that is the
    question itself are dropped. A question whose hits hold fewer units than are wanted is asked again for twice as
    many hits, until it has enough or no more come; with ``is_whole`` there never are more. ``advance`` is called for
    every question that is done.

    ``width`` tells how widely is searched for so many hits (see ``Store.width``). What only a wider search finds
    comes after what was found before: so the first units of a ranking do not depend on how many more are wanted.
    """
    depth, read = wanted.hits, 0
    first = found = search(questions, depth)
    rankings = unfilled(len(questions), wanted.units)
    units, places = rankings.codes.copy(), np.zeros(rankings.codes.shape, dtype=np.int64)
    seen, skipped = np.zeros(len(questions), dtype=np.int64), np.zeros(len(questions), dtype=np.bool_)
    pending, before = np.arange(len(questions)), None
    library = found.units.library
    known = (library.position(question.own_document) if question.own_document else None for question in questions)
    own = np.array([PADDING if place is None else place for place in known], dtype=np.int32)
    while True:
        chunks, lengths = found.units, found.rankings.lengths
        owner = chunks.document if unit == "document" else np.arange(len(chunks), dtype=np.int32)
        collapsed = collapse(_without(found.rankings, chunks.document, own[pending]), owner)
        if before is not None:
            collapsed = before.then(collapsed, read)
        is_enough = (collapsed.rankings.lengths >= wanted.units) | found.skipped | is_whole
        done = is_enough | (lengths < depth) | (lengths <= seen[pending])
        kept = collapsed.cut(wanted.units).of(done)
        filled = pending[done], slice(kept.rankings.depth)
        rankings.codes[filled], rankings.scores[filled] = kept.rankings.codes, kept.rankings.scores
        units[filled], places[filled] = kept.units, kept.places
        seen[pending], skipped[pending] = lengths, found.skipped
        advance(int(done.sum()))
        pending = pending[~done]
        if not len(pending):
            break
        read, depth = depth, deeper(depth, width)
        # A search that is no wider begins with all that was found before.
        before = collapsed.of(~done) if before is not None or width(depth) != width(read) else None
        found = search([questions[index] for index in pending.tolist()], depth)
    held, is_out = first.rankings.cut(wanted.candidates), skipped[:, None]
    candidates = Rankings(np.where(is_out, PADDING, held.codes), np.where(is_out, np.nan, held.scores))
    return Ranked(Candidates(found.units, candidates, skipped, first.facts), rankings, units, places, seen)


def _without(rankings: Rankings, document: Codes, own: Codes) -> Rankings:
    """The rankings without the chunks of each question's own document; padding in their place."""
    if not len(document) or bool((own == PADDING).all()):
        return rankings
    is_own = (document[rankings.codes] == own[:, None]) & (rankings.codes != PADDING)
    return Rankings(np.where(is_own, PADDING, rankings.codes), np.where(is_own, np.nan, rankings.scores))


def found_texts(ranked: Ranked, library: Library) -> list[FoundText]:
    """The hits of the first question, with their texts."""
    chunks, hits = ranked.candidates.units, []
    scores = ranked.rankings.scores[0].tolist()
    for rank, (unit, score) in enumerate(zip(ranked.units[0].tolist(), scores, strict=True), 1):
        if unit != PADDING:
            title, span = library.titles[int(chunks.document[unit])], chunks.span(unit)
            where = (chunks.document_id(unit), title, span.start, span.end)
            known = None if np.isnan(score) else score
            hits.append(FoundText(rank, *where, known, chunks.text(unit), pages=chunks.pages(unit)))
    return hits
