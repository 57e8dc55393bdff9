"""Ranks below the hits that the page shows: where a setting has what other settings have among theirs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragtrial.comparison.side_by_side import Key
from ragtrial.report.schema import QueryPart
from ragtrial.views.page.found import HITS_SHOWN, FoundHits, SettingHits


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
