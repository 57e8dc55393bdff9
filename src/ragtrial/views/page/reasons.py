"""Why rankings differ, as columns for the page: what each hit adds to the metric, and its rank in the parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ragtrial.comparison.comparison_input import ComparedSetting, ComparisonInput
from ragtrial.comparison.side_by_side import (
    GainShare,
    KeptPart,
    KeptPartRankings,
    Key,
    gain_share,
    kept_parts,
    rank_in_row,
    why_no_shares,
)
from ragtrial.report.schema import PassagePart, QueryPart
from ragtrial.views.page.hits import HITS_SHOWN, DeepRanks, FoundHits


def reasons_block(contest: ComparisonInput, found: FoundHits, deep: Sequence[DeepRanks]) -> dict[str, Any]:
    """The gain of each hit and its rank in each part, 0 for none, aligned with the hits of each setting.

    ``adds_below`` has the gains of hits in ``deep``. ``others`` are relevant documents, or chunks, that a part of the
    setting found and the setting did not.
    """
    report = contest.report
    why = why_no_shares(contest.primary, report.unit)
    worths = None if why else [gain_share(contest.primary, query, report) for query in contest.queries]
    wanted = list(_relevant(contest, found))
    return {
        "metric": contest.primary,
        "why_no_shares": why,
        "settings": [
            _setting(contest.queries, contender, worths, wanted, _shown_keys(found, place), below)
            for place, (contender, below) in enumerate(zip(contest.settings, deep, strict=True))
        ],
    }


def _setting(
    queries: Sequence[QueryPart],
    contender: ComparedSetting,
    worths: Sequence[GainShare] | None,
    wanted: Sequence[list[Key]],
    keys: Sequence[list[Key]],
    below: DeepRanks,
) -> dict[str, Any]:
    kept = kept_parts(contender, [query.id for query in queries])
    shown = [[(key[0], rank) for rank, key in enumerate(of_query, 1)] for of_query in keys]
    deeper = [[(key[0], rank) for key, rank in ranks.items()] for ranks in below.ranks]
    return {
        "adds": None if worths is None else list(_adds(worths, shown, below.lengths)),
        "adds_below": None if worths is None else list(_adds(worths, deeper, below.lengths)),
        "notes": list(kept.notes),
        "parts": [
            {
                "name": part.name,
                "depths": [len(part.rows[query.id]["docs"]) if query.id in part.rows else 0 for query in queries],
                "ranks": [rank for query, own in zip(queries, keys, strict=True) for rank in _ranks(part, query, own)],
            }
            for part in kept.parts
        ],
        "others": list(_others(kept, queries, keys, wanted)),
        "passages": _passages(contender.part.per_query.passages),
    }


def _adds(
    worths: Sequence[GainShare], found: Sequence[Sequence[tuple[str, int]]], lengths: Sequence[int]
) -> Iterator[float]:
    """The gain of each document at its rank, query by query."""
    for worth, of_query, length in zip(worths, found, lengths, strict=True):
        for doc, rank in of_query:
            yield round(worth.at(doc, rank, length), 5)


def _ranks(part: KeptPart, query: QueryPart, keys: Sequence[Key]) -> list[int]:
    if query.id not in part.rows:
        return [0] * len(keys)
    row = part.rows[query.id]
    places: dict[str, list[int]] = {}
    for place, doc in enumerate(row["docs"]):
        places.setdefault(doc, []).append(place)
    return [rank_in_row(row, key, places.get(key[0], ())) or 0 for key in keys]


def _shown_keys(found: FoundHits, setting: int) -> list[list[Key]]:
    own = found.settings[setting]
    return [[found.place(code) for code in own.of_query(place)[:HITS_SHOWN]] for place in range(len(found.queries))]


def _relevant(contest: ComparisonInput, found: FoundHits) -> Iterator[list[Key]]:
    """For each query the labelled documents, or under unit: span the relevant chunks that any setting shows."""
    for place, query in enumerate(contest.queries):
        if found.unit == "document":
            keys: list[Key] = [(label.doc, None, None) for label in query.relevant_docs if label.relevance > 0]
        else:
            keys = [found.keys[code] for own in found.settings for code in own.relevant(place)]
        yield list(dict.fromkeys(keys))


def _others(
    kept: KeptPartRankings, queries: Sequence[QueryPart], keys: Sequence[Sequence[Key]], wanted: Sequence[list[Key]]
) -> Iterator[list[Any]]:
    if not kept.parts:
        return
    for place, (query, own) in enumerate(zip(queries, keys, strict=True)):
        missing = [key for key in wanted[place] if key not in own]
        columns = [_ranks(part, query, missing) for part in kept.parts]
        for key, ranks in zip(missing, zip(*columns, strict=True), strict=True):
            if any(ranks):
                yield [place, *key, list(ranks)]


def _passages(queries: Sequence[Sequence[PassagePart]] | None) -> list[list[int | None]] | None:
    """For each query the rank at which each labelled passage was found; null where documents are found."""
    return None if queries is None else [[part.found for part in parts] for parts in queries]
