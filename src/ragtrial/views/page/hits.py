"""The hits of each setting in columns, the ranks below them, and why hits have their scores."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ragtrial.comparison.comparison_input import ComparedSetting, ComparisonInput
from ragtrial.comparison.side_by_side import Key
from ragtrial.errors import Fault, ReportError
from ragtrial.evaluation.grading import Scores
from ragtrial.rankings import Bools, Codes, Counts
from ragtrial.records import Unit
from ragtrial.report.rows import Row
from ragtrial.report.schema import QueryPart
from ragtrial.scoring.query_details import Explanation, Weighted


def explanation_row(one: Explanation, hits_shown: int) -> dict[str, Any] | None:
    """The wordings, the query's terms, and of each shown hit the matches and terms; None if there are none.

    Raises ValueError for a weight that is not a number.
    """
    if not one:
        return None
    hits = [[_rounded(hit) for hit in column[:hits_shown]] for column in (one.matches, one.terms)]
    return {"wordings": one.wordings, "terms": _rounded(one.query_terms), "matches": hits[0], "hit_terms": hits[1]}


def _rounded(terms: Sequence[Weighted]) -> list[list[Any]]:
    if not all(math.isfinite(worth) for _, worth in terms):
        raise ValueError("a weight is not a number")
    return [[term, round(worth, 2)] for term, worth in terms]


HITS_SHOWN = 20
"""The hits of a query that the page shows; of those below it has only ranks."""

UNJUDGED = -1_000_000


@dataclass(frozen=True, eq=False)
class SettingHits:
    """All hits of a setting by query: the hits of the query at ``place`` are at ``starts[place : place + 2]``."""

    starts: Counts
    codes: Codes
    scores: Scores
    grades: Codes
    """``UNJUDGED`` where a hit is not judged."""

    explanations: list[dict[str, Any] | None] | None
    """For each query what ``explanation_row`` gives; None where there is nothing to explain."""

    @property
    def lengths(self) -> list[int]:
        """Hits of each query."""
        return [*np.diff(self.starts).tolist()]

    @cached_property
    def ranks(self) -> Counts:
        """The rank of each hit, from 1."""
        return np.arange(1, len(self.codes) + 1) - np.repeat(self.starts[:-1], np.diff(self.starts))

    @cached_property
    def is_shown(self) -> Bools:
        """Which hits are among the first ``HITS_SHOWN`` of their query."""
        return np.asarray(self.ranks <= HITS_SHOWN)

    def of_query(self, place: int) -> list[int]:
        """The codes of all hits of a query, best first."""
        return [*self.codes[self.starts[place] : self.starts[place + 1]].tolist()]

    def relevant(self, place: int) -> list[int]:
        """The codes of the shown hits of a query that help."""
        first, last = self.starts[place], min(self.starts[place + 1], self.starts[place] + HITS_SHOWN)
        return [*self.codes[first:last][self.grades[first:last] > 0].tolist()]


class FoundHits:
    """The hits of all settings as codes of chunks.

    ``keys`` has document, start and end of each chunk, ``names`` its id, empty where whole documents were ranked.
    """

    def __init__(self, contest: ComparisonInput) -> None:
        """Raises ReportError if rankings are missing or damaged."""
        self.unit: Unit = contest.report.unit
        self.keys: list[Key] = []
        self.names: list[str] = []
        self._codes: dict[Key, int] = {}
        self.queries = [query.id for query in contest.queries]
        self.settings = [self._read(contender) for contender in contest.settings]

    def place(self, code: int) -> Key:
        """The key of a hit: its document, or the characters of its chunk under unit: span."""
        doc, start, end = self.keys[code]
        return (doc, start, end) if self.unit == "span" else (doc, None, None)

    def _read(self, contender: ComparedSetting) -> SettingHits:
        lengths, codes, why = [0], list[int](), list[dict[str, Any] | None]()
        scores, grades = list[float | None](), list[int]()
        report, name = contender.report, contender.part.name
        try:
            for row in report.rankings(name, self.queries):
                found = self._coded(row)
                why.append(explanation_row(Explanation.of(row), HITS_SHOWN))
                lengths.append(len(found))
                codes += found
                scores += row.get("scores") or [None] * len(found)
                grades += (UNJUDGED if grade is None else grade for grade in row["grades"])
            return SettingHits(
                np.cumsum(lengths),
                np.array(codes, dtype=np.int32),
                np.array(scores, dtype=np.float64),
                np.array(grades, dtype=np.int32),
                why if any(why) else None,
            )
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise ReportError(Fault(str(report.ranking_file(name)), message=f"is damaged: {error}.")) from error

    def _coded(self, row: Row) -> list[int]:
        docs = row["docs"]
        nothing: Iterable[None] = [None] * len(docs)
        columns = (row.get(name) or nothing for name in ("starts", "ends", "chunks"))
        codes = []
        for doc, start, end, chunk in zip(docs, *columns, strict=True):
            code = self._codes.setdefault((doc, start, end), len(self.keys))
            if code == len(self.keys):
                self.keys.append((doc, start, end))
                self.names.append(chunk or "")
            codes.append(code)
        return codes


@dataclass(frozen=True)
class DeepRanks:
    """The rest of a setting's rankings, query by query."""

    lengths: Sequence[int]
    """How long the whole rankings are."""

    ranks: Sequence[Mapping[Key, int]]
    """By document or chunk, for those below the shown hits that another setting shows, or that are relevant."""


def deep_ranks(queries: Sequence[QueryPart], found: FoundHits) -> list[DeepRanks]:
    """One for each setting."""
    wanted = [set(_wanted(place, query, found)) for place, query in enumerate(queries)]
    return [DeepRanks(own.lengths, list(_ranks(own, found, wanted))) for own in found.settings]


def _wanted(place: int, query: QueryPart, found: FoundHits) -> Iterator[Key]:
    for own in found.settings:
        yield from map(found.place, own.of_query(place)[:HITS_SHOWN])
    if found.unit == "document":
        yield from ((label.doc, None, None) for label in query.relevant_docs if label.relevance > 0)


def _ranks(own: SettingHits, found: FoundHits, wanted: Sequence[Collection[Key]]) -> Iterator[dict[Key, int]]:
    for place, of_query in enumerate(wanted):
        below = enumerate(map(found.place, own.of_query(place)[HITS_SHOWN:]), HITS_SHOWN + 1)
        yield {key: rank for rank, key in below if key in of_query}
