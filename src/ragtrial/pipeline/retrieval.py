"""From a retriever's answers to rankings of what is scored: asking on until there are enough, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np

from ragtrial.cache.arrays import read_arrays, write_arrays
from ragtrial.components.retrievers import Candidates, Facts, OpenRetriever
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.rankings import PADDING, Bools, Codes, Collapsed, Counts, Rankings, collapse, deeper, unfilled
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

    def covers(self, other: Depth) -> bool:
        return self.candidates >= other.candidates and self.units >= other.units


@dataclass(frozen=True, eq=False)
class Retrieved:
    """Ranked documents or chunks of many queries, and the chunks that brought them.

    ``places`` has for each of them how many hits were read down to it, shape as the rankings, 0 at the padding;
    ``seen`` counts the hits that came in all, shape (queries,).
    """

    rankings: Rankings
    units: Codes
    places: Counts
    seen: Counts

    @property
    def read(self) -> Counts:
        """Hits read for each query: down to the last that is kept, or all where there are too few."""
        full = self.rankings.lengths == self.rankings.depth
        last = self.places[:, -1] if self.rankings.depth else np.zeros(len(self.rankings), dtype=np.int64)
        return np.where(full & (self.rankings.depth > 0), last, self.seen)

    @property
    def collapsed(self) -> Collapsed:
        """The rankings with the hits that brought them; of those that were read, how many brought nothing new."""
        return Collapsed(self.rankings, self.units, self.places, self.read - self.rankings.lengths)

    def cut(self, depth: int) -> Retrieved:
        """The first ``depth`` of every query."""
        return Retrieved(self.rankings.cut(depth), self.units[:, :depth], self.places[:, :depth], self.seen)


@dataclass(frozen=True, eq=False)
class Ranked:
    """What is known of a setting's rankings: the hits as they came, cut at some depth, and what is scored of them.

    ``stages`` are kind and name of those that the retriever keeps for itself.
    """

    candidates: Candidates
    retrieved: Retrieved
    stages: frozenset[tuple[str, str]] = frozenset()

    @property
    def units(self) -> Chunks:
        return self.candidates.units

    @property
    def skipped(self) -> Bools:
        return self.candidates.skipped

    @property
    def facts(self) -> Facts:
        return self.candidates.facts

    def cut(self, depth: Depth) -> Ranked:
        """As deep as ``depth``, where it is deeper."""
        held = self.candidates
        cut = Candidates(held.units, held.rankings.cut(depth.candidates), held.skipped, held.facts)
        return Ranked(cut, self.retrieved.cut(depth.units), self.stages)

    def save(self, folder: Path, known: Mapping[str, Chunks]) -> None:
        """Write all of it into ``folder``; units that are not ``known`` by their name, too."""
        candidates, retrieved = self.candidates, self.retrieved
        of_candidates = candidates.skipped, candidates.rankings.codes, candidates.rankings.scores
        ranked, others = retrieved.rankings, (retrieved.units, retrieved.places, retrieved.seen)
        kept = {"units": candidates.units.name, "facts": dict(candidates.facts), "stages": sorted(self.stages)}
        in_words = np.frombuffer(json.dumps(kept).encode(), np.uint8)
        write_arrays(folder / _FILE, [in_words, *of_candidates, ranked.codes, ranked.scores, *others])
        if candidates.units.name not in known:
            (folder / "units").mkdir()
            candidates.units.write(folder / "units")

    @classmethod
    def load(cls, folder: Path, library: Library, known: Mapping[str, Chunks]) -> Self:
        """What was saved in ``folder``."""
        in_words, skipped, codes, scores, ranked, ranked_scores, *of_retrieved = read_arrays(folder / _FILE)
        kept = json.loads(in_words.tobytes())
        name = str(kept["units"])
        units = known[name] if name in known else Chunks(library, folder / "units", name)
        retrieved = Retrieved(Rankings(ranked, ranked_scores), *of_retrieved)
        candidates = Candidates(units, Rankings(codes, scores), skipped, kept["facts"])
        return cls(candidates, retrieved, _stages(kept))


def stages_kept(folder: Path) -> frozenset[tuple[str, str]]:
    """The ``stages`` of rankings that were saved."""
    (in_words,) = islice(read_arrays(folder / _FILE), 1)
    return _stages(json.loads(in_words.tobytes()))


def _stages(kept: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset((str(kind), str(name)) for kind, name in kept["stages"])


def skipped_in(folder: Path) -> int:
    """How many questions were skipped in the rankings of ``folder``; 0 where these cannot be read."""
    try:
        return sum(int(np.count_nonzero(skipped)) for skipped in islice(read_arrays(folder / _FILE), 1, 2))
    except (OSError, ValueError):
        return 0


def retrieve(
    retriever: OpenRetriever,
    questions: Sequence[Question],
    wanted: Depth,
    unit: Unit,
    advance: Callable[[int], None] = lambda _: None,
    width: Callable[[int], int | None] = lambda _: None,
) -> Ranked:
    """The rankings of ``questions``, as deep as ``wanted``.

    Under ``unit: document`` hits collapse to their documents, the first one wins. A question whose hits hold fewer
    units than are wanted is asked again for twice as many hits, until it has enough or no more come. ``advance`` is
    told of every question that is done.

    ``width`` tells how widely the retriever searches for so many hits (see ``Store.width``). What only a wider search
    finds comes after what was found before: so the first units of a ranking do not depend on how many more are wanted.
    """
    depth = wanted.hits
    before: Collapsed | None = None
    read = 0
    candidates: Candidates | None = None
    ranked = _RankingRows(len(questions), wanted.units)
    pending = np.arange(len(questions))
    while len(pending):
        asked = [questions[index] for index in pending.tolist()]
        found = retriever.search(asked, depth)
        candidates = _with_later(candidates, found, pending, wanted.candidates)
        collapsed = collapsed_to(found, unit)
        if before is not None:
            collapsed = before.then(collapsed, read)
        lengths = found.rankings.lengths
        enough = (collapsed.rankings.lengths >= wanted.units) | (lengths < depth) | found.skipped
        done = enough | (lengths <= ranked.seen[pending])
        ranked.fill(pending, done, collapsed.cut(wanted.units), lengths)
        advance(int(done.sum()))
        pending = pending[~done]
        read, depth = depth, deeper(depth, width)
        # A search that is no wider begins with all that was found before.
        is_wider = before is not None or width(depth) != width(read)
        before = collapsed.of(~done) if is_wider else None
    if candidates is None:
        candidates = retriever.search([], depth)
    return Ranked(candidates, ranked.retrieved())


def ranked_from(candidates: Candidates, depth: Depth, unit: Unit) -> Ranked:
    """What is scored of rankings that are as deep as they can be."""
    rows = _RankingRows(len(candidates.rankings), depth.units)
    everything, all_rows = np.arange(len(candidates.rankings)), np.ones(len(candidates.rankings), dtype=np.bool_)
    lengths = candidates.rankings.lengths
    rows.fill(everything, all_rows, collapsed_to(candidates, unit).cut(depth.units), lengths)
    cut = candidates.rankings.cut(depth.candidates)
    kept = Candidates(candidates.units, cut, candidates.skipped, candidates.facts)
    return Ranked(kept, rows.retrieved())


def collapsed_to(found: Candidates, unit: Unit) -> Collapsed:
    """``found`` with each unit that is scored once."""
    units = found.units
    return collapse(found.rankings, units.document if unit == "document" else np.arange(len(units), dtype=np.int32))


def found_texts(ranked: Ranked, library: Library) -> list[FoundText]:
    """The hits of the first question, with their texts."""
    units, scores = ranked.units, ranked.retrieved.rankings.scores[0].tolist()
    hits = []
    for rank, (unit, score) in enumerate(zip(ranked.retrieved.units[0].tolist(), scores, strict=True), 1):
        if unit != PADDING:
            title, span = library.titles[int(units.document[unit])], units.span(unit)
            where = (units.document_id(unit), title, span.start, span.end)
            known = None if np.isnan(score) else score
            hits.append(FoundText(rank, *where, known, units.text(unit), pages=units.pages(unit)))
    return hits


def _with_later(first: Candidates | None, later: Candidates, rows: Counts, depth: int) -> Candidates:
    """``first`` with the units of ``later``, and the questions that were skipped then, which had been asked again."""
    if first is None:
        cut = later.rankings.cut(depth)
        return Candidates(later.units, Rankings(cut.codes.copy(), cut.scores.copy()), later.skipped.copy(), later.facts)
    skipped = first.skipped.copy()
    skipped[rows] |= later.skipped
    first.rankings.codes[skipped], first.rankings.scores[skipped] = PADDING, np.nan
    return Candidates(later.units, first.rankings, skipped, first.facts)


class _RankingRows:
    """Rankings that are filled row by row."""

    def __init__(self, queries: int, depth: int) -> None:
        self._rankings = unfilled(queries, depth)
        self._units = self._rankings.codes.copy()
        self._places = np.zeros((queries, depth), dtype=np.int64)
        self.seen = np.zeros(queries, dtype=np.int64)

    def fill(self, rows: Counts, done: Bools, kept: Collapsed, seen: Counts) -> None:
        """Write what is ``done`` of some ``rows``."""
        self.seen[rows] = seen
        is_all = len(rows) == len(self.seen) and bool(done.all())  # as is usual, and quicker in one piece
        target, source = (slice(None), kept) if is_all else (rows[done], kept.of(done))
        width = kept.rankings.depth
        self._rankings.codes[target, :width] = source.rankings.codes
        self._rankings.scores[target, :width] = source.rankings.scores
        self._units[target, :width] = source.units
        self._places[target, :width] = source.places

    def retrieved(self) -> Retrieved:
        return Retrieved(self._rankings, self._units, self._places, self.seen)
