"""One query of two settings: both rankings, what moved from one to the other, what that is worth, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

from ragtrial.comparison.contest import ComparisonSet, Pair
from ragtrial.comparison.queries.part_ranks import KeptPartRankings, Key, PartRank, kept_parts, ranks_in
from ragtrial.comparison.queries.shares import shares_of
from ragtrial.errors import ReportError, did_you_mean, listed
from ragtrial.records import FoundText
from ragtrial.report.schema import JudgmentPart, Part, QueryPart
from ragtrial.scoring.query_details import QueryRanking, load_query

Movement = Literal["up", "down", "same", "new", "gone"]

TEXT_SHOWN = 240
"""Characters of a text that are kept of it."""


class RankedHit(Part):
    """A hit of a ranking. Where whole documents were ranked elsewhere, place and text are null."""

    rank: int
    doc: str
    start: int | None
    end: int | None
    score: float | None
    """The retriever's or the refiner's own: of a reranker the model's, of mmr the value when the hit was chosen."""

    grade: int | None
    """Null where nobody judged it."""

    text: str | None
    """How it begins."""


class Move(Part):
    """A document, or a chunk, and where it is in both rankings."""

    doc: str
    start: int | None
    """Null where whole documents are ranked."""

    end: int | None
    grade: int | None
    movement: Movement
    """From the baseline's ranking to the setting's."""

    rank_baseline: int | None
    """Null where it is not in the ranking, as deep as that was kept."""

    rank: int | None
    share: float | None
    """What it adds to the difference of the metric; null where the metric is no sum over documents."""

    parts_baseline: list[PartRank]
    """Where it is in what the baseline is made of; empty for a setting without parts."""

    parts: list[PartRank]


class PassageMove(Part):
    """A labelled passage, and the rank at which each setting has found it; null where it has not."""

    doc: str
    relevance: int
    found_baseline: int | None
    found: int | None


class SideBySide(Part):
    """One query of two settings."""

    id: str
    text: str
    metric: str
    baseline: str
    setting: str
    value_baseline: float | None
    """Null where the metric is not defined for the query."""

    value: float | None
    difference: float | None
    hits_baseline: list[RankedHit]
    hits: list[RankedHit]
    moves: list[Move]
    """Every document of either ranking: those that explain most of the difference first, then by their best rank."""

    not_found: list[JudgmentPart]
    """Judged with a grade above 0, and found by neither."""

    passages: list[PassageMove] | None
    """Of each label, under unit: span; null where documents are found."""

    why_no_shares: str | None
    """Why the difference is not split among documents; null where it is."""

    notes: list[str]
    """What can be said of how the settings came to their rankings, and what the reports have not kept of it."""


def side_by_side(contest: ComparisonSet, pair: Pair, query: str) -> SideBySide:
    """One query of two contenders by the primary metric.

    Raises ReportError for a query that is not compared, and where a report's rankings cannot be read.
    """
    asked = next((one for one in contest.queries if one.id == query), None)
    if asked is None:
        names = [one.id for one in contest.queries]
        near = did_you_mean(query, names)
        raise ReportError(f"no query {query!r} is compared.{near} There are {len(names):,}: {listed(names)}.")
    metric = contest.primary
    contenders = contest.contenders[pair.baseline], contest.contenders[pair.setting]
    rankings = [load_query(one.report, [one.setting], query)[0] for one in contenders]
    kept = [kept_parts(contender, [query]) for contender in contenders]
    before, after = (ranking.evaluations.get(metric) for ranking in rankings)
    shares = shares_of(metric, asked, rankings, contenders[0].report)
    passages = _passage_moves(asked, rankings)
    return SideBySide(
        id=asked.id,
        text=asked.text,
        metric=metric,
        baseline=contenders[0].name,
        setting=contenders[1].name,
        value_baseline=before,
        value=after,
        difference=None if before is None or after is None else after - before,
        hits_baseline=[_ranked_hit(hit) for hit in rankings[0].hits],
        hits=[_ranked_hit(hit) for hit in rankings[1].hits],
        moves=_moves(rankings, kept, shares, of_chunks=contenders[0].report.unit == "span"),
        not_found=list(_not_found(asked, rankings, passages)),
        passages=passages,
        why_no_shares=shares if isinstance(shares, str) else None,
        notes=[
            *dict.fromkeys(note for one in kept for note in one.notes),
            *(_asked(ranking) for ranking in rankings if ranking.wordings),
        ],
    )


def _asked(ranking: QueryRanking) -> str:
    texts = "; ".join(repr(" ".join(text.split())[:TEXT_SHOWN]) for text in ranking.wordings)
    return f"{ranking.setting.name}: asked beside the query: {texts}"


def _ranked_hit(hit: FoundText) -> RankedHit:
    text = None if hit.text is None else " ".join(hit.text.split())[:TEXT_SHOWN]
    return RankedHit(
        rank=hit.rank, doc=hit.doc, start=hit.start, end=hit.end, score=hit.score, grade=hit.grade, text=text
    )


def _moves(
    rankings: Sequence[QueryRanking],
    kept: Sequence[KeptPartRankings],
    shares: Mapping[str, float] | str,
    *,
    of_chunks: bool,
) -> list[Move]:
    def key(hit: FoundText) -> Key:
        return (hit.doc, hit.start, hit.end) if of_chunks else (hit.doc, None, None)

    query = rankings[0].query.id
    sides = [{key(hit): hit for hit in reversed(ranking.hits)} for ranking in rankings]
    moves = []
    for place in {**sides[0], **sides[1]}:
        before, after = (side.get(place) for side in sides)
        known = cast("FoundText", after or before)
        first, second = (None if hit is None else hit.rank for hit in (before, after))
        moves.append(
            Move(
                doc=place[0],
                start=place[1],
                end=place[2],
                grade=known.grade,
                movement=_movement(first, second),
                rank_baseline=first,
                rank=second,
                share=None if isinstance(shares, str) else shares.get(known.doc, 0.0),
                parts_baseline=ranks_in(kept[0], query, place),
                parts=ranks_in(kept[1], query, place),
            )
        )
    return sorted(moves, key=_weight)


def _movement(before: int | None, after: int | None) -> Movement:
    if before is None:
        return "new"
    if after is None:
        return "gone"
    return "same" if before == after else "up" if after < before else "down"


def _weight(move: Move) -> tuple[float, int, int]:
    best = min(rank for rank in (move.rank_baseline, move.rank) if rank is not None)
    return -abs(move.share or 0.0), -max(move.grade or 0, 0), best


def _not_found(
    query: QueryPart, rankings: Sequence[QueryRanking], passages: Sequence[PassageMove] | None
) -> Iterator[JudgmentPart]:
    docs = {hit.doc for ranking in rankings for hit in ranking.hits}
    for place, label in enumerate(query.relevant_docs):
        passage = passages[place] if passages else None
        found = label.doc in docs if passage is None else passage.found_baseline or passage.found
        if label.relevance > 0 and not found:
            yield label


def _passage_moves(query: QueryPart, rankings: Sequence[QueryRanking]) -> list[PassageMove] | None:
    before, after = (ranking.passages for ranking in rankings)
    if before is None or after is None:
        return None
    return [
        PassageMove(doc=label.doc, relevance=label.relevance, found_baseline=one.found, found=other.found)
        for label, one, other in zip(query.relevant_docs, before, after, strict=True)
    ]
