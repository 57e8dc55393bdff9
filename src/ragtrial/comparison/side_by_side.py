"""One query of two settings: both rankings, what moved from one to the other, what that is worth, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

import numpy as np

from ragtrial.comparison.contest import Contender, Contest, Pair
from ragtrial.comparison.joint_hits import threshold_of
from ragtrial.comparison.part_ranks import Kept, Key, PartRank, kept_parts, ranks_in
from ragtrial.drilldown import FoundText, QueryRanking, load_query
from ragtrial.errors import ReportError, did_you_mean, listed
from ragtrial.grading import Unit
from ragtrial.metrics import Metric, parse_metric
from ragtrial.metrics.graded import discount
from ragtrial.ranges.base import gains
from ragtrial.records import highest_grades
from ragtrial.report import Report
from ragtrial.report_parts import JudgmentPart, Part, PassagePart, QueryPart

Movement = Literal["up", "down", "same", "new", "gone"]

_ADDED_UP = ("dcg", "ndcg", "rbp", "precision", "set_precision", "recall", "set_recall", "capped_recall", "f1")
_CLOSE = 1e-9

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
    """A document, or a chunk, and where it stands in both rankings."""

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
    """Where it stands in what the baseline is made of; empty for a setting without parts."""

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


def side_by_side(contest: Contest, pair: Pair, query: str, metric: str | None = None) -> SideBySide:
    """One query of two contenders by ``metric``, or else the primary one.

    Raises ReportError for a query that is not compared, and where a report's rankings cannot be read.
    """
    asked = _query(contest, query)
    metric = contest.primary if metric is None else metric
    contenders = contest.contenders[pair.baseline], contest.contenders[pair.setting]
    rankings = _loaded(contenders, query)
    kept = [kept_parts(contender, query) for contender in contenders]
    values = [ranking.evaluations.get(metric) for ranking in rankings]
    shares = shares_of(metric, asked, rankings, contenders[0].report)
    passages = _passage_moves(asked, rankings)
    return SideBySide(
        id=asked.id,
        text=asked.text,
        metric=metric,
        baseline=contenders[0].name,
        setting=contenders[1].name,
        value_baseline=values[0],
        value=values[1],
        difference=None if values[0] is None or values[1] is None else values[1] - values[0],
        hits_baseline=[_ranked_hit(hit) for hit in rankings[0].hits],
        hits=[_ranked_hit(hit) for hit in rankings[1].hits],
        moves=_moves(rankings, kept, shares, of_chunks=contenders[0].report.unit == "span"),
        not_found=list(_not_found(asked, rankings, passages)),
        passages=passages,
        why_no_shares=shares if isinstance(shares, str) else None,
        notes=list(dict.fromkeys(note for one in kept for note in one.notes)),
    )


def _query(contest: Contest, name: str) -> QueryPart:
    for query in contest.queries:
        if query.id == name:
            return query
    names = [query.id for query in contest.queries]
    raise ReportError(
        f"no query {name!r} is compared.{did_you_mean(name, names)} There are {len(names):,}: {listed(names)}."
    )


def _loaded(contenders: Sequence[Contender], query: str) -> list[QueryRanking]:
    """The rankings of two contenders; those of one report are read together."""
    first, second = contenders
    if first.report is second.report:
        return load_query(first.report, [first.setting, second.setting], query)
    return [load_query(one.report, [one.setting], query)[0] for one in contenders]


def _ranked_hit(hit: FoundText) -> RankedHit:
    text = None if hit.text is None else " ".join(hit.text.split())[:TEXT_SHOWN]
    return RankedHit(
        rank=hit.rank, doc=hit.doc, start=hit.start, end=hit.end, score=hit.score, grade=hit.grade, text=text
    )


def _moves(
    rankings: Sequence[QueryRanking], kept: Sequence[Kept], shares: Mapping[str, float] | str, *, of_chunks: bool
) -> list[Move]:
    def key(hit: FoundText) -> Key:
        return (hit.doc, hit.start, hit.end) if of_chunks else (hit.doc, None, None)

    sides = [{key(hit): hit for hit in reversed(ranking.hits)} for ranking in rankings]
    moves = []
    for place in {**sides[0], **sides[1]}:
        before, after = (side.get(place) for side in sides)
        known = cast("FoundText", after or before)
        ranks = [None if hit is None else hit.rank for hit in (before, after)]
        moves.append(
            Move(
                doc=place[0],
                start=place[1],
                end=place[2],
                grade=known.grade,
                movement=_movement(*ranks),
                rank_baseline=ranks[0],
                rank=ranks[1],
                share=None if isinstance(shares, str) else shares.get(known.doc, 0.0),
                parts_baseline=ranks_in(kept[0], place),
                parts=ranks_in(kept[1], place),
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
    columns = zip(query.relevant_docs, before, after, strict=True)
    return [_passage_move(*column) for column in columns]


def _passage_move(label: JudgmentPart, before: PassagePart, after: PassagePart) -> PassageMove:
    return PassageMove(doc=label.doc, relevance=label.relevance, found_baseline=before.found, found=after.found)


def shares_of(
    metric: str, query: QueryPart, rankings: Sequence[QueryRanking], report: Report
) -> dict[str, float] | str:
    """What each document adds to the difference of two rankings: they sum to it. Or why that cannot be said.

    Documents that add nothing are not in it.
    """
    parsed = parse_metric(metric)
    why = _why_no_shares(parsed, report.unit)
    values = [ranking.evaluations.get(metric) for ranking in rankings]
    if why is None and None in values:
        why = f"{metric} is not defined for this query."
    if why is not None:
        return why
    grades = highest_grades((one.doc, one.relevance) for one in query.relevant_docs)
    worth, whole = _worth(parsed, grades, threshold_of(report, metric))
    shares: dict[str, float] = {}
    for ranking, sign in zip(rankings, (-1.0, 1.0), strict=True):
        for hit in ranking.hits:
            weight = _weight_of(parsed, hit.rank, len(ranking.hits))
            if weight and worth.get(hit.doc):
                shares[hit.doc] = shares.get(hit.doc, 0.0) + sign * worth[hit.doc] * weight / whole
    difference = cast("float", values[1]) - cast("float", values[0])
    if abs(sum(shares.values()) - difference) > _CLOSE:
        return "the ranking and the labels that the report keeps do not give its scores: it was changed."
    return shares


def _why_no_shares(metric: Metric, unit: Unit) -> str | None:
    if unit == "span":
        return "passages count, which may be found in several chunks together."
    if dict(metric.parameters).get("judged_only"):
        return f"{metric} drops hits that nobody judged, and others move up."
    if metric.name in ("rr", "hit_rate"):
        return f"{metric} looks at the first relevant hit alone."
    if metric.name not in _ADDED_UP:
        return f"{metric} is no sum over documents."
    return None


def _worth(metric: Metric, grades: Mapping[str, int], threshold: int) -> tuple[dict[str, float], float]:
    """What each judged document brings, before its rank is looked at, and what the sum is divided by."""
    docs, known = list(grades), np.array(list(grades.values()), dtype=np.int32)
    k = metric.k or 0
    if metric.name in ("dcg", "ndcg"):
        gained = gains(metric, known)
        best = np.sort(gained)[::-1][: metric.k]
        ideal = float(best @ discount(np.arange(1, len(best) + 1)))
        return dict(zip(docs, gained.tolist(), strict=True)), 1.0 if metric.name == "dcg" else ideal or 1.0
    relevant = known >= int(dict(metric.parameters).get("rel", threshold))
    count = int(relevant.sum())
    whole = {"recall": count, "set_recall": count, "capped_recall": min(count, k), "f1": (k + count) / 2}
    return dict(zip(docs, relevant.astype(float).tolist(), strict=True)), float(whole.get(metric.name, 1) or 1)


def _weight_of(metric: Metric, rank: int, length: int) -> float:
    """What a document at this rank weighs in a ranking of this length."""
    if metric.k is not None and rank > metric.k:
        return 0.0
    match metric.name:
        case "dcg" | "ndcg":
            return float(discount(np.array([rank]))[0])
        case "rbp":
            p = float(dict(metric.parameters)["p"])
            return float((1 - p) * p ** (rank - 1))
        case "precision":
            return 1 / cast("int", metric.k)
        case "set_precision":
            return 1 / length
    return 1.0
