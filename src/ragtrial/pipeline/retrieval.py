"""Rankings of the scored units from the answers of a retriever, which is asked again until there are enough."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Self

import numpy as np

from ragtrial.cache.arrays import is_within, read_arrays, write_arrays
from ragtrial.components.interfaces import Candidates
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.rankings import PADDING, Codes, Counts, Rankings, collapse, deeper, unfilled
from ragtrial.records import FoundText, Question, Unit

RANKINGS_FORMAT = 4
"""The version of the format of kept rankings, which is part of their key."""

_FILE = "rankings.npys"  # the first array has the bytes of a JSON object: one file takes less time than two


@dataclass(frozen=True)
class Depth:
    """The depth of a ranking: ``candidates`` are raw hits, ``units`` are documents or other scored units."""

    candidates: int = 0
    units: int = 0

    @property
    def hits(self) -> int:
        """The number of hits to request first."""
        return max(self.candidates, self.units, 1)

    def __or__(self, other: Depth) -> Depth:
        return Depth(max(self.candidates, other.candidates), max(self.units, other.units))


@dataclass(frozen=True, eq=False)
class SettingRankings:
    """The hits of a setting: raw, cut at some depth, and as rankings of the scored ``unit``.

    ``rankings`` rank documents or chunks. ``units`` are the first chunks of these, and ``ranks`` the number of hits
    read down to each, both in the rankings' shape, 0 at the padding; ``hit_counts`` has all hits of each query,
    shape (queries,). ``stages`` are kind and name of the stages that the retriever keeps itself.
    """

    candidates: Candidates
    rankings: Rankings
    units: Codes
    ranks: Counts
    hit_counts: Counts
    unit: Unit
    stages: frozenset[tuple[str, str]] = frozenset()

    @property
    def read(self) -> Counts:
        """Hits read for each query: down to the last kept unit, or all hits if there are too few."""
        if not self.rankings.depth:
            return self.hit_counts
        return np.where(self.rankings.lengths == self.rankings.depth, self.ranks.max(axis=1), self.hit_counts)

    @property
    def dropped(self) -> Counts:
        """Hits read for each query that brought nothing new."""
        return self.read - self.rankings.lengths

    def cut(self, depth: Depth) -> SettingRankings:
        """The rankings, cut at ``depth``."""
        candidates = replace(self.candidates, rankings=self.candidates.rankings.cut(depth.candidates))
        rankings, units, ranks = self.rankings.cut(depth.units), self.units[:, : depth.units], self.ranks
        return replace(self, candidates=candidates, rankings=rankings, units=units, ranks=ranks[:, : depth.units])

    def with_last_first(self, positions: Counts) -> SettingRankings:
        """The rankings with equal scores in descending order of ``positions``, shape (documents,)."""
        rankings = self.rankings
        groups = np.cumsum(np.diff(rankings.scores, axis=1, prepend=np.nan) != 0, axis=1)  # NaN equals no other score
        order = np.lexsort((-positions[rankings.codes], groups))
        codes, units = (np.take_along_axis(array, order, axis=1) for array in (rankings.codes, self.units))
        ranks = np.take_along_axis(self.ranks, order, axis=1)
        return replace(self, rankings=Rankings(codes, rankings.scores), units=units, ranks=ranks)

    def save(self, folder: Path, known: Mapping[str, Chunks]) -> None:
        """Write the rankings into ``folder``, with their chunks unless these are ``known`` by name."""
        raw, units = self.candidates.rankings, self.candidates.units
        facts = dict(self.candidates.facts)
        values = {"units": units.name, "facts": facts, "stages": sorted(self.stages), "unit": self.unit}
        first = np.frombuffer(json.dumps(values).encode(), np.uint8)
        arrays = (raw.codes, raw.scores, self.rankings.codes, self.rankings.scores)
        counts = self.units, self.ranks, self.hit_counts
        write_arrays(folder / _FILE, [first, self.candidates.skipped, *arrays, *counts])
        if units.name not in known:
            (folder / "units").mkdir()
            units.write(folder / "units")

    @classmethod
    def load(cls, folder: Path, library: Library, known: Mapping[str, Chunks]) -> Self:
        """The rankings that were saved in ``folder``. Raises ValueError for arrays that do not fit one another."""
        first, skipped, codes, scores, ranked, ranked_scores, brought, ranks, hit_counts = read_arrays(folder / _FILE)
        values = json.loads(first.tobytes())
        name = str(values["units"])
        chunks = known[name] if name in known else Chunks(library, folder / "units", name)
        fits = codes.shape == scores.shape and ranked.shape == ranked_scores.shape == brought.shape == ranks.shape
        fits = fits and (len(codes),) == skipped.shape == hit_counts.shape == (len(ranked),)
        if not fits or not all(is_within(part, len(chunks), PADDING) for part in (codes, brought)):
            raise ValueError("its arrays do not fit one another, or its units")
        most = max(len(chunks), len(library))
        if not is_within(ranks, int(hit_counts.max(initial=0)) + 1) or not is_within(ranked, most, PADDING):
            raise ValueError("it ranks units that do not exist")
        candidates = Candidates(chunks, Rankings(codes, scores), skipped, values["facts"])
        rankings, unit = Rankings(ranked, ranked_scores), values["unit"]
        return cls(candidates, rankings, brought, ranks, hit_counts, unit, stages_kept(folder))


def stages_kept(folder: Path) -> frozenset[tuple[str, str]]:
    """The ``stages`` of rankings that were saved."""
    values = json.loads(next(read_arrays(folder / _FILE)).tobytes())
    return frozenset((str(kind), str(name)) for kind, name in values["stages"])


def skipped_in(folder: Path) -> int:
    """The number of questions that were skipped in the rankings of ``folder``; 0 if these cannot be read."""
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
) -> SettingRankings:
    """The rankings of ``questions``, as deep as ``wanted``, from the hits that ``search`` finds at some depth.

    Under ``unit: document`` hits collapse to their documents; the first hit wins. Hits of a question's own document
    are dropped. A question with fewer units than wanted is asked again for twice as many hits, until it has enough or
    no more come; with ``is_whole`` there never are more. ``advance`` is called for every finished question.

    ``width`` is the width of a search for a number of hits (see ``Store.width``). Hits that only a wider search finds
    come last: so the first units of a ranking do not depend on how many more are wanted.
    """
    depth, read = wanted.hits, 0
    first = found = search(questions, depth)
    rankings = unfilled(len(questions), wanted.units)
    units, ranks = rankings.codes.copy(), np.zeros(rankings.codes.shape, dtype=np.int64)
    hit_counts, skipped = np.zeros(len(questions), dtype=np.int64), np.zeros(len(questions), dtype=np.bool_)
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
        done = is_enough | (lengths < depth) | (lengths <= hit_counts[pending])
        kept = collapsed.cut(wanted.units).of(done)
        filled = pending[done], slice(kept.rankings.depth)
        rankings.codes[filled], rankings.scores[filled] = kept.rankings.codes, kept.rankings.scores
        units[filled], ranks[filled] = kept.units, kept.ranks
        hit_counts[pending], skipped[pending] = lengths, found.skipped
        advance(int(done.sum()))
        pending = pending[~done]
        if not len(pending):
            break
        read, depth = depth, deeper(depth, width)
        # A search of the same width begins with all earlier hits.
        before = collapsed.of(~done) if before is not None or width(depth) != width(read) else None
        found = search([questions[index] for index in pending.tolist()], depth)
    raw, is_out = first.rankings.cut(wanted.candidates), skipped[:, None]
    candidates = Rankings(np.where(is_out, PADDING, raw.codes), np.where(is_out, np.nan, raw.scores))
    return SettingRankings(
        Candidates(found.units, candidates, skipped, first.facts), rankings, units, ranks, hit_counts, unit
    )


def _without(rankings: Rankings, document: Codes, own: Codes) -> Rankings:
    """The rankings without the chunks of each question's own document; padding replaces them."""
    if not len(document) or bool((own == PADDING).all()):
        return rankings
    is_own = (document[rankings.codes] == own[:, None]) & (rankings.codes != PADDING)
    return Rankings(np.where(is_own, PADDING, rankings.codes), np.where(is_own, np.nan, rankings.scores))


def found_texts(ranked: SettingRankings, library: Library, row: int = 0) -> list[FoundText]:
    """The hits of the question at ``row``, with their texts."""
    chunks, hits = ranked.candidates.units, []
    scores = ranked.rankings.scores[row].tolist()
    for rank, (unit, score) in enumerate(zip(ranked.units[row].tolist(), scores, strict=True), 1):
        if unit != PADDING:
            document, span = int(chunks.document[unit]), chunks.span(unit)
            where = (library.ids[document], library.titles[document], span.start, span.end)
            known = None if np.isnan(score) else score
            about = None, chunks.pages(unit), tuple(library.headings(document, span))
            hits.append(FoundText(rank, *where, known, chunks.text(unit), *about))
    return hits
