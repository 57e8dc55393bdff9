"""Ranks below the hits that a report shows: where a setting has what other settings have among theirs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragtrial.comparison.contest import ComparedSetting, ComparisonSet
from ragtrial.comparison.queries.part_ranks import Key
from ragtrial.records import Unit
from ragtrial.report.model import HITS_SHOWN, read_lines
from ragtrial.report.schema import HitPart, QueryPart, QueryScores


@dataclass(frozen=True)
class DeepRanks:
    """The rest of a setting's rankings, query by query."""

    lengths: Sequence[int]
    """How long the whole rankings are."""

    ranks: Sequence[Mapping[Key, int]]
    """By document or chunk, for those below the shown hits that another setting shows, or that are relevant."""


def deep_ranks(contest: ComparisonSet) -> list[DeepRanks | None]:
    """One for each contender; None where rankings go on below the shown hits and the report has not kept them.

    Raises ReportError if a file of rankings is damaged.
    """
    unit = contest.contenders[0].report.unit
    found = [{one.id: one for one in contender.setting.queries} for contender in contest.contenders]
    wanted = {query.id: set(_wanted(query, found, unit)) for query in contest.queries}
    return [_of(contender, own, wanted, unit) for contender, own in zip(contest.contenders, found, strict=True)]


def hit_key(hit: HitPart, unit: Unit) -> Key:
    """What a hit is found under: its document, or the characters of its chunk."""
    return (hit.doc, hit.start, hit.end) if unit == "span" else (hit.doc, None, None)


def _wanted(query: QueryPart, found: Sequence[Mapping[str, QueryScores]], unit: Unit) -> Iterator[Key]:
    for own in found:
        yield from (hit_key(hit, unit) for hit in (own[query.id].hits if query.id in own else ()))
    if unit == "document":
        yield from ((label.doc, None, None) for label in query.relevant_docs if label.relevance > 0)


def _of(
    contender: ComparedSetting, own: Mapping[str, QueryScores], wanted: Mapping[str, Collection[Key]], unit: Unit
) -> DeepRanks | None:
    lengths = {name: len(own[name].hits) if name in own else 0 for name in wanted}
    ranks: dict[str, dict[Key, int]] = {name: {} for name in wanted}
    if max(lengths.values()) >= HITS_SHOWN:
        path = contender.report.ranking_file(contender.setting.name)
        if not path.is_file():
            return None
        for row in read_lines(path):
            name, keys = str(row.get("query")), _keys(row, unit)
            if name not in wanted:
                continue
            lengths[name] = len(keys)
            deep = enumerate(keys[HITS_SHOWN:], HITS_SHOWN + 1)
            ranks[name] = {key: rank for rank, key in deep if key in wanted[name]}
    return DeepRanks(list(lengths.values()), list(ranks.values()))


def _keys(row: Mapping[str, Any], unit: Unit) -> list[Key]:
    if unit == "span":
        return list(zip(row["docs"], row["starts"], row["ends"], strict=True))
    return [(doc, None, None) for doc in row["docs"]]
