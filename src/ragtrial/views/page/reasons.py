"""Why rankings differ, as columns for the page: what each hit adds to the metric, and its rank in the parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ragtrial.comparison.contest import ComparedSetting, ComparisonSet
from ragtrial.comparison.queries.part_ranks import KeptPart, KeptPartRankings, Key, kept_parts, rank_in_row
from ragtrial.comparison.queries.shares import GainShare, gain_share, why_no_shares
from ragtrial.report.schema import QueryPart, QueryScores
from ragtrial.views.page.deep_ranks import DeepRanks, hit_key

_NO_RANKINGS = "{name}: the report has no rankings/, so the ranks in its parts are not known."


def reasons_block(contest: ComparisonSet, deep: Sequence[DeepRanks | None]) -> dict[str, Any]:
    """For each setting, aligned with its hits query by query: what they add, and their ranks in each part, 0 for none.

    ``adds_below`` is the first of these for what ``deep`` has. ``others`` are relevant documents, or chunks, that are
    not among a setting's own hits, and are in a part of it.
    """
    report = contest.contenders[0].report
    why = why_no_shares(contest.primary, report.unit)
    worths = None if why else [gain_share(contest.primary, query, report) for query in contest.queries]
    wanted = list(_relevant(contest))
    return {
        "metric": contest.primary,
        "why_no_shares": why,
        "settings": [
            _setting(contest.queries, contender, worths, wanted, below)
            for contender, below in zip(contest.contenders, deep, strict=True)
        ],
    }


def _setting(
    queries: Sequence[QueryPart],
    contender: ComparedSetting,
    worths: Sequence[GainShare] | None,
    wanted: Sequence[list[Key]],
    below: DeepRanks | None,
) -> dict[str, Any]:
    found = {one.id: one for one in contender.setting.queries}
    hits = [found[query.id].hits if query.id in found else [] for query in queries]
    kept = _kept(contender, [query.id for query in queries if query.id in found])
    keys = [[hit_key(hit, contender.report.unit) for hit in of_query] for of_query in hits]
    lengths = below.lengths if below else [len(of_query) for of_query in hits]
    shown = [[(hit.doc, hit.rank) for hit in of_query] for of_query in hits]
    deeper = [[(key[0], rank) for key, rank in ranks.items()] for ranks in below.ranks] if below else []
    return {
        "adds": None if worths is None else list(_adds(worths, shown, lengths)),
        "adds_below": None if worths is None or not below else list(_adds(worths, deeper, lengths)),
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
        "passages": _passages([found.get(query.id) for query in queries]),
    }


def _kept(contender: ComparedSetting, queries: Sequence[str]) -> KeptPartRankings:
    if contender.setting.parameters.get("parts") and not (contender.report.folder / "rankings").is_dir():
        return KeptPartRankings((), (_NO_RANKINGS.format(name=contender.name),))
    return kept_parts(contender, queries)


def _adds(
    worths: Sequence[GainShare], found: Sequence[Sequence[tuple[str, int]]], lengths: Sequence[int]
) -> Iterator[float]:
    """What each document adds at its rank, query by query."""
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


def _relevant(contest: ComparisonSet) -> Iterator[list[Key]]:
    """For each query the labelled documents, or under unit: span the relevant chunks that any setting found."""
    found = [{one.id: one.hits for one in contender.setting.queries} for contender in contest.contenders]
    for query in contest.queries:
        if contest.contenders[0].report.unit == "document":
            keys: list[Key] = [(label.doc, None, None) for label in query.relevant_docs if label.relevance > 0]
        else:
            hits = [hit for of_setting in found for hit in of_setting.get(query.id, ())]
            keys = [(hit.doc, hit.start, hit.end) for hit in hits if hit.grade is not None and hit.grade > 0]
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


def _passages(queries: Sequence[QueryScores | None]) -> list[list[int | None]] | None:
    """For each query the rank at which each labelled passage was found; null where documents are found."""
    if all(one is None or one.passages is None for one in queries):
        return None
    return [[part.found for part in one.passages or ()] if one else [] for one in queries]
