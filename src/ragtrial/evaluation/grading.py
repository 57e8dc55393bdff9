"""Rankings joined with judgments: the one place where ids become numbers. From here on scoring is arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ragtrial.errors import CutoffError
from ragtrial.evaluation.spans import Overlaps
from ragtrial.rankings import PADDING, Bools, Counts, Rankings, starts_of
from ragtrial.records import Query, Unit
from ragtrial.runs.lines import places_of
from ragtrial.runs.qrels import Grades, Judgments, RunHits, judged_documents

Scores = npt.NDArray[np.float64]
"""One value per query, shape (queries,)."""

_LONGEST = 2**31 - 1


@dataclass(frozen=True, eq=False)
class GradedRankings:
    """The judged hits of many queries, best first, and the limits that each query's judgments set.

    Unjudged hits are only counted. Rankings are long and judgments few, so this is small at any depth. The judged hits
    of query ``i`` are ``starts[i]:starts[i + 1]`` (``starts`` int64, (queries + 1,)): their ``ranks`` from 1 on (int32,
    ascending), and the ``indices`` of their judgments in ``judgments`` (int64). A document is at most once in a
    ranking. ``lengths`` counts the hits of each query, judged or not. ``depth`` is the requested top_k (a ranking may
    be shorter), None if a ranking is complete. A document is relevant from grade ``threshold`` on. ``ties`` has the
    first and the last rank with the score of each hit, int32 (hits, 2), None without scores. If
    ``skips_negatives``, a grade below 0 means the same as for trec_eval: in the pool, and not judged.

    With ``overlaps`` the rankings consist of chunks, and passages are judged: a judged hit is then a passage that was
    found, ``ranks`` has the chunk that completes it (several may have one rank, the higher grade first), and
    ``lengths`` counts chunks.

    With ``members``, int32 (hits,), the judgments are groups: a hit is a member of a group, with this grade.
    """

    judgments: Judgments
    starts: Counts
    ranks: npt.NDArray[np.int32]
    indices: Counts
    lengths: Counts
    depth: int | None
    threshold: int = 1
    ties: npt.NDArray[np.int32] | None = None
    skips_negatives: bool = False
    overlaps: Overlaps | None = None
    members: Grades | None = None

    def __len__(self) -> int:
        return len(self.judgments)

    @property
    def unit(self) -> Unit:
        """The unit that is found, and counted as relevant or not."""
        return "document" if self.overlaps is None else "span"

    @cached_property
    def rows(self) -> Counts:
        """The query of each judged hit, shape (hits,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    @cached_property
    def grades(self) -> Grades:
        """The grade of each judged hit, shape (hits,)."""
        return self.judgments.grades[self.indices] if self.members is None else self.members

    @cached_property
    def of_groups(self) -> GradedRankings:
        """A copy in which groups are found instead of documents or passages; itself without groups.

        A group is found, or its level rises, with a member of it; a document in several groups is several hits.
        """
        groups = self.judgments.groups
        if groups is None:
            return self
        begins, ends = (np.searchsorted(groups.judgments, self.indices, side=side) for side in ("left", "right"))
        members, hits = places_of(begins, ends - begins), np.repeat(np.arange(len(self.ranks)), ends - begins)
        order = np.lexsort((-groups.grades[members].astype(np.int64), self.ranks[hits], self.rows[hits]))
        members, hits = members[order], hits[order]
        return replace(
            self,
            judgments=self.judgments.of_groups,
            starts=starts_of(self.rows[hits], len(self)),
            ranks=self.ranks[hits],
            indices=groups.numbers[members],
            ties=None,
            members=groups.grades[members],
        )

    def level_rises(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """How much each hit raises the highest of its group's ``values`` (hits,) so far, from 0 on; shape (hits,).

        Without groups these are the values.
        """
        if self.members is None or not len(values):
            return values
        order = np.argsort(self.indices, kind="stable")
        known, codes = np.unique(values[order], return_inverse=True)
        keys = np.maximum.accumulate(self.indices[order] * len(known) + codes)  # each group begins anew
        levels = known[keys % len(known)]
        is_first = np.diff(self.indices[order], prepend=-1) != 0
        rises = np.zeros_like(levels)
        rises[order] = levels - np.where(is_first, 0, np.roll(levels, 1))
        return np.asarray(rises)

    def grades_by_rank(self, query: int) -> dict[int, int]:
        """The grade of each judged hit of one query by its rank.

        A chunk has the grade of the passages that it overlaps.
        """
        if self.overlaps is not None:
            rows, ranks, grades = self.overlaps.hits
            start, end = np.searchsorted(rows, [query, query + 1])
            return dict(zip(ranks[start:end].tolist(), grades[start:end].tolist(), strict=True))
        start, end = self.starts[query : query + 2]
        return dict(zip(self.ranks[start:end].tolist(), self.grades[start:end].tolist(), strict=True))

    @cached_property
    def relevant(self) -> Bools:
        """Which judged hits are relevant, shape (hits,); of the hits of a group the first."""
        reaches = np.asarray(self.grades >= self.threshold)
        return reaches if self.members is None else np.asarray(self.level_rises(reaches.astype(np.int8)) > 0)

    @cached_property
    def is_judged(self) -> Bools:
        """The hits that count as judged, shape (hits,): without grades below 0 if ``skips_negatives``."""
        return self.grades >= 0 if self.skips_negatives else np.ones(len(self.ranks), dtype=np.bool_)

    @cached_property
    def relevant_counts(self) -> Counts:
        """Relevant documents of each query (R), retrieved or not, shape (queries,)."""
        return self.judgments.relevant_counts(self.threshold)

    @cached_property
    def relevant_so_far(self) -> Counts:
        """Relevant hits of the query down to each hit, itself included, shape (hits,)."""
        return self.so_far(self.relevant)

    @cached_property
    def label_positions(self) -> Counts:
        """The index from 0 on of each relevant hit among the query's relevant documents, in label order; (hits,).

        For other hits: the number of relevant documents before them in the labels, minus 1.
        """
        judgments = self.judgments
        through = np.concatenate(([0], np.cumsum(judgments.grades >= self.threshold, dtype=np.int64)))
        return (through[1:] - through[judgments.starts[:-1]][judgments.rows] - 1)[self.indices]

    def positions(self, which: Bools) -> Counts:
        """The rank at which each hit selected by ``which`` counts, shape (hits,); the other values are arbitrary.

        It is its own rank; but each rank has room for one, and of several passages or groups found with one hit the
        second counts at the next free rank. So no gain can exceed the gain of the ideal order, which has one at each
        rank.
        """
        if self.overlaps is None and self.members is None:
            return self.ranks.astype(np.int64)
        positions, chosen = self.ranks.astype(np.int64), np.flatnonzero(which)
        rows, ranks = self.rows[chosen], positions[chosen]
        places = self.so_far(which)[chosen] - 1
        apart = rows * (int(ranks.max(initial=0)) + int(places.max(initial=0)) + 1)  # each query begins anew
        positions[chosen] = np.maximum.accumulate(ranks - places + apart) - apart + places
        return positions

    def relevant_units(self, k: int) -> Counts:
        """How many of the first ``k`` documents, or chunks, are relevant, shape (queries,).

        A chunk is if it overlaps a relevant passage, be it found or not. Raises CutoffError as ``within`` does.
        """
        return self._units(self.relevant, k, self.threshold)

    def forbidden_units(self, k: int) -> Counts:
        """How many of the first ``k`` documents, or overlaps of chunks with passages, have a grade below 0, (queries,).

        None if ``skips_negatives``. Raises CutoffError as ``within`` does.
        """
        within = self.within(k)
        if self.overlaps is None:
            return self.count((self.grades < 0) & within & (not self.skips_negatives))
        met, overlaps = self.overlaps.meetings, self.overlaps
        unwanted = (overlaps.grades[overlaps.passages.judgments[met.passages]] < 0) & (met.ranks <= k)
        return np.bincount(met.rows[unwanted], minlength=len(self))

    def judged_units(self, k: int | None) -> Counts:
        """How many of the first ``k`` documents, or chunks, are judged, (queries,); as ``relevant_units``."""
        return self._units(self.is_judged, k, np.iinfo(np.int32).min)

    def _units(self, which: Bools, k: int | None, least: int) -> Counts:
        """How many of the first ``k`` hits ``which`` selects; of chunks, how many overlap a grade from ``least`` on."""
        if self.overlaps is None:
            return self.count(which & self.within(k))
        self._check(k)
        rows, ranks, grades = self.overlaps.hits
        overlapping = (grades >= least) & (ranks <= (_LONGEST if k is None else k))
        return np.bincount(rows[overlapping], minlength=len(self)).astype(np.int64)

    def retrieved(self, k: int | None) -> Counts:
        """How many of the first ``k`` places are filled, shape (queries,). Raises CutoffError as ``within`` does."""
        self._check(k)
        return self.lengths if k is None else np.minimum(self.lengths, k)

    def within(self, k: int | None, positions: Counts | None = None) -> Bools:
        """Which judged hits are among the first ``k``, shape (hits,); all where ``k`` is None.

        By their ranks, or by ``positions``. Raises CutoffError for a ``k`` below 1 or beyond ``depth``.
        """
        self._check(k)
        places = self.ranks if positions is None else positions
        return np.ones(len(self.ranks), dtype=np.bool_) if k is None else np.asarray(places <= k)

    def count(self, which: Bools) -> Counts:
        """How many hits of each query are meant by ``which``, shape (queries,)."""
        return np.bincount(self.rows[which], minlength=len(self)).astype(np.int64)

    def so_far(self, which: Bools) -> Counts:
        """The number of hits of the query selected by ``which`` down to each hit, itself included, (hits,)."""
        through = np.concatenate(([0], np.cumsum(which, dtype=np.int64)))
        return through[1:] - through[self.starts[:-1]][self.rows]

    def total(self, terms: npt.NDArray[Any], which: Bools) -> Scores:
        """The sum of each query's ``terms``, given for all hits, over the hits meant by ``which``, shape (queries,).

        Added from the first hit to the last: its last bit depends neither on other queries nor on hits further down.
        """
        return np.bincount(self.rows[which], weights=terms[which], minlength=len(self)).astype(np.float64)

    def highest(self, terms: npt.NDArray[Any], which: Bools) -> Scores:
        """The highest of each query's ``terms`` from 0 on, given for all hits, among those meant by ``which``; or 0."""
        highest = np.zeros(len(self))
        np.maximum.at(highest, self.rows[which], terms[which])
        return highest

    def parts(self, size: int) -> Iterator[GradedRankings]:
        """Rankings of documents, ``size`` queries at a time, which limits the memory of computations."""
        for start in range(0, max(len(self), 1), size):
            yield self if len(self) <= size else self._part(slice(start, start + size))

    def _part(self, queries: slice) -> GradedRankings:
        starts = self.starts[queries.start : queries.stop + 1]
        hits = slice(starts[0], starts[-1])
        return replace(
            self,
            judgments=self.judgments.part(queries),
            starts=starts - starts[0],
            ranks=self.ranks[hits],
            indices=self.indices[hits] - self.judgments.starts[queries.start],
            lengths=self.lengths[queries],
            ties=None if self.ties is None else self.ties[hits],
        )

    def at_threshold(self, threshold: int) -> GradedRankings:
        """A copy with another lowest grade of relevant documents."""
        return self if threshold == self.threshold else replace(self, threshold=threshold)

    def cut(self, depth: int | Counts) -> GradedRankings:
        """The first ``depth`` hits of every query, or as many as it says for each; nothing below was retrieved."""
        depths = np.broadcast_to(np.minimum(depth, _LONGEST), len(self)).astype(np.int64)
        cut = self._kept(self.ranks <= depths[self.rows], self.ranks)
        overlaps = self.overlaps and self.overlaps.cut(depths)
        return replace(cut, lengths=np.minimum(self.lengths, depths), overlaps=overlaps)

    @cached_property
    def condensed(self) -> GradedRankings:
        """A copy without unjudged hits; hits below them move up. Source: Sakai 2007, Alternatives to Bpref."""
        kept = self.is_judged
        condensed = self._kept(kept, self.so_far(kept).astype(np.int32))
        if condensed.ties is not None:
            condensed = replace(condensed, ties=condensed._ranks_of_groups(condensed.ties[:, 0]))  # noqa: SLF001
        return replace(condensed, lengths=np.diff(condensed.starts))

    def _ranks_of_groups(self, groups: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """First and last rank of each stretch of equal ``groups`` in a query whose hits have no gaps, (hits, 2)."""
        begins = self.group_starts(groups)
        sizes = np.diff(np.append(begins, len(groups)))
        first = np.repeat(self.ranks[begins], sizes)
        return np.stack([first, first + np.repeat(sizes, sizes) - 1], axis=1).astype(np.int32)

    def group_starts(self, groups: npt.NDArray[Any]) -> Counts:
        """The first judged hit of each stretch of equal ``groups``, given for all hits, in one query."""
        new = np.ones(len(groups), dtype=np.bool_)
        new[1:] = (groups[1:] != groups[:-1]) | (self.rows[1:] != self.rows[:-1])
        return np.flatnonzero(new)

    def _kept(self, kept: Bools, ranks: npt.NDArray[np.int32]) -> GradedRankings:
        starts, ties = starts_of(self.rows[kept], len(self)), None if self.ties is None else self.ties[kept]
        return replace(self, starts=starts, ranks=ranks[kept], indices=self.indices[kept], ties=ties)

    def _check(self, k: int | None) -> None:
        if k is not None and k < 1:
            raise CutoffError(f"k is {k}; it must be at least 1.")
        if k is not None and self.depth is not None and k > self.depth:
            raise CutoffError(
                f"k is {k}, but only the first {self.depth} hits were kept (top_k); raise top_k or lower k."
            )


def graded_hits(judgments: Judgments, hits: RunHits, threshold: int, *, skips_negatives: bool) -> GradedRankings:
    """The judged hits of a run as rankings to be scored, at their whole depth."""
    ties = np.stack([hits.tie_first, hits.tie_last], axis=1)
    whole = GradedRankings(judgments, hits.starts, hits.ranks, hits.judgments, hits.lengths, None, threshold, ties)
    return replace(whole, skips_negatives=skips_negatives)


def retrieving(judgments: Judgments, indices: Counts, threshold: int, *, skips_negatives: bool) -> GradedRankings:
    """Rankings of judged documents alone: of these ``indices`` in ``judgments``, int64 (hits,), query by query."""
    starts = starts_of(judgments.rows[indices], len(judgments))
    lengths = np.diff(starts)
    ranks = (np.arange(len(indices)) - np.repeat(starts[:-1], lengths) + 1).astype(np.int32)
    return GradedRankings(judgments, starts, ranks, indices, lengths, None, threshold, skips_negatives=skips_negatives)


@dataclass(frozen=True, eq=False)
class DocumentLabels:
    """The judgments of queries, and the document of each.

    ``codes``, int32 (judgments,), are positions of documents, each once for a query; PADDING for a document that no
    ranking can hold.
    """

    judgments: Judgments
    codes: npt.NDArray[np.int32]

    @classmethod
    def of(cls, queries: Sequence[Query], positions: Mapping[str, int]) -> DocumentLabels:
        """The labels of ``queries`` by document position.

        If several labels name a document, the highest grade counts.
        """
        labels = [[(label.doc, label.relevance, label.group) for label in query.relevant_docs] for query in queries]
        documents, judgments = judged_documents(labels, [query.ordered for query in queries])
        return cls(judgments, np.array([positions.get(name, PADDING) for name in documents], dtype=np.int32))

    def grade(self, rankings: Rankings, depth: int, threshold: int = 1) -> GradedRankings:
        """The grades of the first ``depth`` documents, in the same codes, joined by one sorted search."""
        judgments, codes, rankings = self.judgments, self.codes, rankings.cut(depth)
        having = np.flatnonzero(codes >= 0)
        keys = (judgments.rows << 32) + codes  # query and code in one number
        order = having[np.argsort(keys[having], kind="stable")]
        keys = np.append(keys[order], -1)  # nothing is found at the end
        ranked, width = rankings.codes.ravel(), max(rankings.depth, 1)
        is_judged = np.zeros(max(ranked.max(initial=-1), codes.max(initial=-1)) + 2, dtype=np.bool_)  # the last: for -1
        is_judged[codes[having]] = True
        known = np.flatnonzero(is_judged[ranked])  # few of many: judged for any query
        wanted = (known // width << 32) + ranked[known]
        places = np.searchsorted(keys[:-1], wanted)
        is_hit = keys[places] == wanted
        rows, columns = np.divmod(known[is_hit], width)
        starts, ranks = starts_of(rows, len(rankings)), (columns + 1).astype(np.int32)
        return GradedRankings(judgments, starts, ranks, order[places[is_hit]], rankings.lengths, depth, threshold)


def grade(
    rankings: Rankings, documents: Sequence[str], queries: Sequence[Query], depth: int, threshold: int = 1
) -> GradedRankings:
    """The grades of ranked documents.

    ``rankings`` has one row per query of ``queries`` and codes that are positions in ``documents``; each document at
    most once per row. A document that several labels of one query name has the highest of their grades. Only the
    first ``depth`` hits are kept. Raises ValueError when rows and queries differ in number.
    """
    if len(rankings) != len(queries):
        raise ValueError(f"{len(rankings)} rankings for {len(queries)} queries")
    labels = DocumentLabels.of(queries, {name: code for code, name in enumerate(documents)})
    return labels.grade(rankings, depth, threshold)


def grade_spans(overlaps: Overlaps, judgments: Judgments, depth: int, threshold: int = 1) -> GradedRankings:
    """The grades of ranked chunks: passages of ``judgments``, each at the rank where it is found."""
    ranks = overlaps.found_judgments
    indices = np.flatnonzero(ranks)
    chunks = judgments.rows[indices] * (overlaps.codes.shape[1] + 1) + ranks[indices]
    order = np.lexsort((-judgments.grades[indices].astype(np.int64), chunks))  # equal grades stay in label order
    indices = indices[order]
    starts = starts_of(judgments.rows[indices], len(judgments))
    lengths = np.count_nonzero(overlaps.codes != PADDING, axis=1).astype(np.int64)
    return GradedRankings(judgments, starts, ranks[indices], indices, lengths, depth, threshold, overlaps=overlaps)
