"""Where a hit is in the parts of a setting: what a fusion fused, or a reranker put in another order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragtrial.comparison.contest import ComparedSetting
from ragtrial.components.refiners import REFINERS, Refiner
from ragtrial.errors import Fault, ReportError
from ragtrial.report.model import Report, part_file
from ragtrial.report.schema import Part

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


@dataclass(frozen=True)
class KeptPartRankings:
    """What a report has of the parts of a setting for some queries, and what is to be said of them."""

    parts: tuple[KeptPart, ...]
    notes: tuple[str, ...]


def kept_parts(contender: ComparedSetting, queries: Sequence[str]) -> KeptPartRankings:
    """The parts of a contender, and theirs, for these queries. Raises ReportError if their files are damaged."""
    parameters = contender.setting.parameters
    if not parameters.get("parts"):
        return KeptPartRankings((), ())
    found = list(_walk(contender.report, parameters, queries, ""))
    notes, refiner = [], _refiner(parameters)
    if refiner and refiner.explanation:  # what its kind does
        options = defaultdict[str, Any](lambda: None, parameters["retriever"])
        said = refiner.explanation.format_map(options | {"parts": " and ".join(parameters["parts"])})
        notes.append(f"{contender.name}: {said}.")
    notes += [f"{contender.name}: {one}" for one in found if isinstance(one, str)]
    return KeptPartRankings(tuple(one for one in found if isinstance(one, KeptPart)), tuple(notes))


def ranks_in(kept: KeptPartRankings, query: str, key: Key) -> list[PartRank]:
    """Where a document, or a chunk, is in each of the parts."""
    ranks = []
    for part in kept.parts:
        row = part.rows[query]
        rank = rank_in_row(row, key, [place for place, doc in enumerate(row["docs"]) if doc == key[0]])
        score = row["scores"][rank - 1] if rank and row.get("scores") else None
        ranks.append(PartRank(part=part.name, rank=rank, score=score, kept=len(row["docs"])))
    return ranks


def rank_in_row(row: Mapping[str, Any], key: Key, places: Sequence[int]) -> int | None:
    """The rank of a document, or a chunk, whose document is at these ``places`` of a part's row, from 0.

    Of a chunk its own rank, or else that of the first one in the part that overlaps it; None where there is none.
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
    """The rankings that were kept of a part; of one that is a setting of the report itself, that setting's."""
    name = part_file(whole, entry)
    if not report.ranking_file(name).exists():
        wanted = _without_values(whole["parts"][entry])
        same = (one.name for one in report.settings if _without_values(one.parameters) == wanted)
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
