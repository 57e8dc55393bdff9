"""Two settings query by query; and one query: both rankings, the moves between them, their worth and their reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ragtrial.comparison.comparison_input import ComparedSetting, ComparisonInput, Pair
from ragtrial.comparison.statistics.samples import unrounded
from ragtrial.components.refiners import REFINERS, Refiner
from ragtrial.errors import Fault, ReportError, did_you_mean, listed
from ragtrial.evaluation.metrics import Metric, parse_metric
from ragtrial.evaluation.metrics.base import FirstHit, HitCount, WeightedSum
from ragtrial.records import FoundText, Unit, highest_grades
from ragtrial.report.model import Report, part_file
from ragtrial.report.schema import JudgmentPart, Part, QueryPart
from ragtrial.scoring.query_details import QueryRanking, load_query

Outcome = Literal["won", "tied", "lost"]


class QueryDifference(Part):
    """One query for two settings."""

    id: str
    text: str
    baseline: float
    """The baseline's value."""

    setting: float
    difference: float
    """The setting's value less the baseline's."""

    outcome: Outcome
    """For the setting."""


class QueryDifferences(Part):
    """Every query that counts for both of two settings."""

    metric: str
    baseline: str
    setting: str
    won: int
    tied: int
    lost: int
    not_counted: int
    """Queries that do not count for one of the two, or for neither."""

    queries: list[QueryDifference]
    """Largest loss first, largest gain last; equal differences in the order of the labels."""


class SharedQuery(Part):
    """A query of which all settings make the same."""

    id: str
    text: str
    value: float
    """The lowest of the settings' values, which is the highest, too, where none separates them."""


class SharedQueries(Part):
    """The queries that do not separate the settings: all fail, or all do equally well."""

    metric: str
    settings: int
    queries: int
    """How many count for at least one setting."""

    failed: list[SharedQuery]
    """No setting has a value above 0: documents, labels or questions are at fault, or all settings alike. None where
    lower values are better."""

    failed_count: int
    equal: list[SharedQuery]
    """All settings have the same value, and do not fail; empty if there is only one setting."""

    equal_count: int


def query_differences(inputs: ComparisonInput, pair: Pair) -> QueryDifferences:
    """Every query of two settings by the primary metric."""
    scores = inputs.scores(inputs.primary)
    baseline, setting = scores.values[pair.baseline], scores.values[pair.setting]
    differences = scores.differences([pair])[0]
    counted = np.flatnonzero(~np.isnan(differences))
    sign = inputs.sign(inputs.primary)
    signs: dict[float, Outcome] = {1.0: "won", 0.0: "tied", -1.0: "lost"}
    queries = [
        QueryDifference(
            id=inputs.queries[place].id,
            text=inputs.queries[place].text,
            baseline=float(baseline[place]),
            setting=float(setting[place]),
            difference=float(differences[place]),
            outcome=signs[sign * float(np.sign(differences[place]))],
        )
        for place in counted[np.argsort(sign * differences[counted], kind="stable")].tolist()
    ]
    outcomes = [query.outcome for query in queries]
    return QueryDifferences(
        metric=inputs.primary,
        baseline=inputs.names[pair.baseline],
        setting=inputs.names[pair.setting],
        won=outcomes.count("won"),
        tied=outcomes.count("tied"),
        lost=outcomes.count("lost"),
        not_counted=len(inputs.queries) - len(queries),
        queries=queries,
    )


def shared_queries(inputs: ComparisonInput) -> SharedQueries:
    """The queries that all settings fail, and the queries that separate no settings, by the primary metric.

    A setting for which a query does not count is ignored.
    """
    values = inputs.scores(inputs.primary).values
    says = ~np.isnan(values)
    counted = says.any(axis=0)
    lowest = np.where(says, values, np.inf).min(axis=0, initial=np.inf)
    highest = np.where(says, values, -np.inf).max(axis=0, initial=-np.inf)
    fails = counted & (highest <= 0) & (inputs.sign(inputs.primary) > 0)
    apart = unrounded(highest - lowest, np.abs(highest) + np.abs(lowest))
    failed, equal = (
        [
            SharedQuery(id=inputs.queries[place].id, text=inputs.queries[place].text, value=float(lowest[place]))
            for place in np.flatnonzero(chosen).tolist()
        ]
        for chosen in (fails, counted & ~fails & (says.sum(axis=0) > 1) & (apart == 0))
    )
    return SharedQueries(
        metric=inputs.primary,
        settings=len(inputs.settings),
        queries=int(counted.sum()),
        failed=failed,
        failed_count=len(failed),
        equal=equal,
        equal_count=len(equal),
    )


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
    """Null if it is not judged."""

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
    """Its contribution to the difference of the metric; null if the metric is no sum over documents."""

    parts_baseline: list[PartRank]
    """Its ranks in the parts of the baseline; empty for a setting without parts."""

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
    """Every document of either ranking, largest share of the difference first, then by best rank."""

    not_found: list[JudgmentPart]
    """Judged with a grade above 0, and found by neither."""

    passages: list[PassageMove] | None
    """One for each label, under unit: span; null if documents are found."""

    why_no_shares: str | None
    """Why the difference is not split among documents; null where it is."""

    notes: list[str]
    """Explanations of the rankings, and data that the reports do not keep."""


def side_by_side(inputs: ComparisonInput, pair: Pair, query: str) -> SideBySide:
    """One query of two settings by the primary metric.

    Raises ReportError for a query that is not compared, and where a report's rankings cannot be read.
    """
    by_id = {one.id: one for one in inputs.queries}
    if query not in by_id:
        near = did_you_mean(query, [*by_id])
        raise ReportError(f"no query {query!r} is compared.{near} There are {len(by_id):,}: {listed(by_id)}.")
    metric, asked = inputs.primary, by_id[query]
    settings = inputs.settings[pair.baseline], inputs.settings[pair.setting]
    rankings = [load_query(setting.report, [setting.part], query)[0] for setting in settings]
    kept = [kept_parts(setting, [query]) for setting in settings]
    before, after = (ranking.evaluations.get(metric) for ranking in rankings)
    shares = shares_of(metric, asked, rankings, settings[0].report)
    passages = _passage_moves(asked, rankings)
    wordings = [_asked(ranking) for ranking in rankings if ranking.wordings]
    return SideBySide(
        id=asked.id,
        text=asked.text,
        metric=metric,
        baseline=settings[0].name,
        setting=settings[1].name,
        value_baseline=before,
        value=after,
        difference=None if before is None or after is None else after - before,
        hits_baseline=[_ranked_hit(hit) for hit in rankings[0].hits],
        hits=[_ranked_hit(hit) for hit in rankings[1].hits],
        moves=_moves(rankings, [parts for parts, _ in kept], shares, of_chunks=settings[0].report.unit == "span"),
        not_found=list(_not_found(asked, rankings, passages)),
        passages=passages,
        why_no_shares=shares if isinstance(shares, str) else None,
        notes=[*dict.fromkeys(note for _, notes in kept for note in notes), *wordings],
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
    kept: Sequence[Sequence[KeptPart]],
    shares: Mapping[str, float] | str,
    *,
    of_chunks: bool,
) -> list[Move]:
    def key(hit: FoundText) -> Key:
        return (hit.doc, hit.start, hit.end) if of_chunks else (hit.doc, None, None)

    query = rankings[0].query.id
    before, after = ({key(hit): hit for hit in reversed(ranking.hits)} for ranking in rankings)
    moves = []
    for place, hit in {**before, **after}.items():
        old, new = (side[place].rank if place in side else None for side in (before, after))
        moves.append(
            Move(
                doc=place[0],
                start=place[1],
                end=place[2],
                grade=hit.grade,
                movement=_movement(old, new),
                rank_baseline=old,
                rank=new,
                share=None if isinstance(shares, str) else shares.get(hit.doc, 0.0),
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
    for row, label in enumerate(query.relevant_docs):
        found = passages[row].found_baseline or passages[row].found if passages else label.doc in docs
        if label.relevance > 0 and not found:
            yield label


def _passage_moves(query: QueryPart, rankings: Sequence[QueryRanking]) -> list[PassageMove] | None:
    before, after = (ranking.passages for ranking in rankings)
    if before is None or after is None:
        return None
    return [
        PassageMove(doc=label.doc, relevance=label.relevance, found_baseline=old.found, found=new.found)
        for label, old, new in zip(query.relevant_docs, before, after, strict=True)
    ]


Key = tuple[str, int | None, int | None]
"""A document, and, where chunks are ranked, the characters of one."""

_ASKED_OTHERWISE = "was asked other wordings of the question; what it found for them is not kept."
_NOT_KEPT = "is not a setting of the report, which has no ranking of it. Run the experiment again."


class PartRank(Part):
    """Where a hit is in a part of a setting."""

    part: str
    """Its name; of a part of a part both names, as in `hybrid > dense`."""

    rank: int | None
    """Null where it is not among the hits that are kept of the part."""

    score: float | None
    """The part's own score for it; null where that is not known."""

    kept: int
    """How many hits of the part are kept for the query."""


@dataclass(frozen=True)
class KeptPart:
    """The rankings of a part: rows as they are in the report, by query."""

    name: str
    rows: Mapping[str, Mapping[str, Any]]


def kept_parts(setting: ComparedSetting, queries: Sequence[str]) -> tuple[list[KeptPart], list[str]]:
    """The parts of a setting, and theirs, for these queries, and notes about them.

    Raises ReportError if their files are damaged.
    """
    parameters = setting.part.parameters
    if not parameters.get("parts"):
        return [], []
    found = list(_walk(setting.report, parameters, queries, ""))
    notes, refiner = [str(note) for note in found if isinstance(note, str)], _refiner(parameters)
    if refiner and refiner.explanation:
        options = defaultdict[str, Any](lambda: None, parameters["retriever"])
        explanation = refiner.explanation.format_map(options | {"parts": " and ".join(parameters["parts"])})
        notes.insert(0, f"{explanation}.")
    return [part for part in found if isinstance(part, KeptPart)], [f"{setting.name}: {note}" for note in notes]


def ranks_in(parts: Sequence[KeptPart], query: str, key: Key) -> list[PartRank]:
    """Where a document, or a chunk, is in each of the parts."""
    ranks = []
    for part in parts:
        row = part.rows[query]
        rank = rank_in_row(row, key, [place for place, doc in enumerate(row["docs"]) if doc == key[0]])
        score = row["scores"][rank - 1] if rank and row.get("scores") else None
        ranks.append(PartRank(part=part.name, rank=rank, score=score, kept=len(row["docs"])))
    return ranks


def rank_in_row(row: Mapping[str, Any], key: Key, places: Sequence[int]) -> int | None:
    """The rank of a document or chunk, whose document is at these ``places`` of a part's row, counted from 0.

    A chunk that is not in the row has the rank of the first chunk that overlaps it; None if there is none.
    """
    _, start, end = key
    if start is not None and end is not None:
        starts, ends = row["starts"], row["ends"]
        same = [place for place in places if (starts[place], ends[place]) == (start, end)]
        places = same or [place for place in places if starts[place] < end and start < ends[place]]
    return places[0] + 1 if places else None


def _walk(report: Report, whole: Mapping[str, Any], queries: Sequence[str], above: str) -> Iterator[KeptPart | str]:
    """Each part, or a sentence that says why it is not there."""
    for entry, parameters in whole.get("parts", {}).items():
        name = f"{above}{entry}"
        refiner = _refiner(whole)
        if refiner and refiner.asks_other_texts:
            yield f"{name} {_ASKED_OTHERWISE}"
            continue
        rows = _rows(report, whole, entry, queries)
        yield f"{name} {_NOT_KEPT}" if rows is None else KeptPart(name, rows)
        yield from _walk(report, parameters, queries, f"{name} > ")


def _rows(
    report: Report, whole: Mapping[str, Any], entry: str, queries: Sequence[str]
) -> Mapping[str, Mapping[str, Any]] | None:
    """The kept rankings of a part. A part that is a setting of the report has the rankings of that setting."""
    name = part_file(whole, entry)
    if not report.ranking_file(name).exists():
        wanted = _without_values(whole["parts"][entry])
        same = (setting.name for setting in report.settings if _without_values(setting.parameters) == wanted)
        if (whole_setting := next(same, None)) is None:
            return None
        name = whole_setting
    rows = dict(zip(queries, report.rankings(name, queries), strict=True))
    if not all(isinstance(row.get("docs"), list) for row in rows.values()):
        raise ReportError(Fault(str(report.ranking_file(name)), message="is damaged: a row has no docs."))
    return rows


def _without_values(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters without what a sweep calls them: parts do not know of it."""
    return {name: value for name, value in parameters.items() if name not in ("entry", "values")}


def _refiner(parameters: Mapping[str, Any]) -> type[Refiner] | None:
    """Its kind of refiner; None where no such kind is registered."""
    return dict(REFINERS.members()).get(parameters["retriever"].get("kind"))


@dataclass(frozen=True)
class GainShare:
    """The gains of the judged documents of a query, for a metric that is a sum over documents.

    ``gains`` has the gain of each judged document before its rank counts; ``relevant`` is R, and ``ideal`` the divisor
    of a normalised sum.
    """

    metric: Metric
    gains: Mapping[str, float]
    relevant: int
    ideal: float

    def at(self, doc: str, rank: int, length: int) -> float:
        """The contribution of a document at a rank, counted from 1, of a ranking of ``length`` hits."""
        gain, structure = self.gains.get(doc), self.metric.definition.structure
        if not gain or (self.metric.k is not None and rank > self.metric.k):
            return 0.0
        if isinstance(structure, WeightedSum):
            return gain * float(structure.weight(self.metric, np.array([rank]))[0]) / self.ideal
        if isinstance(structure, HitCount):
            return float(structure.value(self.metric, *np.array([[gain], [self.relevant], [length]]))[0])
        raise TypeError(f"{self.metric} is no sum over documents")


def why_no_shares(metric: str, unit: Unit) -> str | None:
    """Why a metric's value is not split among documents, a sentence; None where it is."""
    parsed = parse_metric(metric)
    if unit == "span":
        return "passages count, which may be found in several chunks together."
    if dict(parsed.parameters).get("judged_only"):
        return f"{metric} drops hits that nobody judged, and others move up."
    structure = parsed.definition.structure
    if isinstance(structure, FirstHit):
        return f"{metric} looks at the first relevant hit alone."
    return None if isinstance(structure, HitCount | WeightedSum) else f"{metric} is no sum over documents."


def gain_share(metric: str, query: QueryPart, report: Report) -> GainShare:
    """The gains of a query's judged documents for ``metric``, for which ``why_no_shares`` must be None."""
    parsed = parse_metric(metric)
    judged = highest_grades((judgment.doc, judgment.relevance) for judgment in query.relevant_docs)
    grades = np.array(list(judged.values()), dtype=np.int32)
    relevant, structure = grades >= parsed.threshold(report.relevance_threshold), parsed.definition.structure
    gains = parsed.gain(grades) if parsed.definition.family == "graded" else relevant.astype(np.float64)
    ideal = 1.0
    if isinstance(structure, WeightedSum) and structure.normalised:
        best = np.sort(gains)[::-1][: parsed.k]
        ideal = float(best @ structure.weight(parsed, np.arange(1, len(best) + 1))) or 1.0
    return GainShare(parsed, dict(zip(judged, gains.tolist(), strict=True)), int(relevant.sum()), ideal)


def shares_of(
    metric: str, query: QueryPart, rankings: Sequence[QueryRanking], report: Report
) -> dict[str, float] | str:
    """The contribution of each document to the difference of two rankings, or the reason why there is none.

    The contributions sum to the difference. Documents without a contribution are left out.
    """
    why = why_no_shares(metric, report.unit)
    if why is None and any(ranking.evaluations.get(metric) is None for ranking in rankings):
        why = f"{metric} is not defined for this query."
    if why is not None:
        return why
    share = gain_share(metric, query, report)
    shares: dict[str, float] = {}
    for ranking, sign in zip(rankings, (-1.0, 1.0), strict=True):
        for hit in ranking.hits:
            if added := share.at(hit.doc, hit.rank, len(ranking.hits)):
                shares[hit.doc] = shares.get(hit.doc, 0.0) + sign * added
    return shares
