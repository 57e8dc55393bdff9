"""Two settings query by query, and the reasons: the gain of each hit, and its rank in the parts of a setting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from ragtrial.comparison.comparison_input import ComparedSetting, ComparisonInput, Pair
from ragtrial.comparison.statistics.samples import unrounded
from ragtrial.components.refiners.base import REFINERS, Refiner
from ragtrial.errors import Fault, ReportError
from ragtrial.evaluation.metrics import Metric, metric_called
from ragtrial.evaluation.metrics.base import HitCount, WeightedSum
from ragtrial.records import Unit, highest_grades
from ragtrial.report.model import Report, part_file
from ragtrial.report.schema import Part, QueryPart

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
    """No setting has a value above 0: documents, labels or questions are at fault, or all settings alike."""

    failed_count: int | None
    """None where lower values are better: then no value says that a setting fails."""

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
            id=inputs.queries[row].id,
            text=inputs.queries[row].text,
            baseline=float(baseline[row]),
            setting=float(setting[row]),
            difference=float(differences[row]),
            outcome=signs[sign * float(np.sign(differences[row]))],
        )
        for row in counted[np.argsort(sign * differences[counted], kind="stable")].tolist()
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
    can_fail = inputs.sign(inputs.primary) > 0
    fails = counted & (highest <= 0) & can_fail
    apart = unrounded(highest - lowest, np.abs(highest) + np.abs(lowest))
    failed, equal = (
        [
            SharedQuery(id=inputs.queries[row].id, text=inputs.queries[row].text, value=float(lowest[row]))
            for row in np.flatnonzero(chosen).tolist()
        ]
        for chosen in (fails, counted & ~fails & (says.sum(axis=0) > 1) & (apart == 0))
    )
    return SharedQueries(
        metric=inputs.primary,
        settings=len(inputs.settings),
        queries=int(counted.sum()),
        failed=failed,
        failed_count=len(failed) if can_fail else None,
        equal=equal,
        equal_count=len(equal),
    )


Key = tuple[str, int | None, int | None]
"""A document, and, where chunks are ranked, the characters of one."""

_ASKED_OTHERWISE = "was asked other wordings of the question; what it found for them is not kept."
_NOT_KEPT = "is not a setting of the report, which has no ranking of it. Run the experiment again."


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
    entries = list(_walk(setting.report, parameters, queries, ""))
    notes, refiner = [str(note) for note in entries if isinstance(note, str)], _refiner(parameters)
    if refiner and refiner.explanation:
        options = defaultdict[str, Any](lambda: None, parameters["retriever"])
        explanation = refiner.explanation.format_map(options | {"parts": " and ".join(parameters["parts"])})
        notes.insert(0, f"{explanation}.")
    return [part for part in entries if isinstance(part, KeptPart)], [f"{setting.name}: {note}" for note in notes]


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

    @classmethod
    def of(cls, metric: str, query: QueryPart, report: Report) -> Self:
        """The gains of ``query`` for ``metric``, for which ``why_no_shares`` must be None."""
        parsed = metric_called(metric)
        judged = highest_grades((judgment.doc, judgment.relevance) for judgment in query.relevant_docs)
        grades = np.array(list(judged.values()), dtype=np.int32)
        relevant, structure = grades >= parsed.threshold(report.relevance_threshold), parsed.definition.structure
        gains = parsed.gain(grades) if parsed.definition.family == "graded" else relevant.astype(np.float64)
        ideal = 1.0
        if isinstance(structure, WeightedSum) and structure.normalised:
            best = np.sort(gains)[::-1][: parsed.k]
            ideal = float(best @ structure.weight(parsed, np.arange(1, len(best) + 1))) or 1.0
        return cls(parsed, dict(zip(judged, gains.tolist(), strict=True)), int(relevant.sum()), ideal)

    def at(self, doc: str, rank: int) -> float:
        """The contribution of a document at a rank, counted from 1."""
        gain, structure = self.gains.get(doc), self.metric.definition.structure
        if not gain or (self.metric.k is not None and rank > self.metric.k):
            return 0.0
        if isinstance(structure, WeightedSum):
            return gain * float(structure.weight(self.metric, np.array([rank]))[0]) / self.ideal
        if isinstance(structure, HitCount):
            return float(structure.value(self.metric, *np.array([[gain], [self.relevant]]))[0])
        raise TypeError(f"{self.metric} is no sum over documents")


def why_no_shares(metric: str, unit: Unit, *, has_groups: bool = False) -> str | None:
    """Why a metric's value is not split among documents, a sentence; None where it is."""
    parsed = metric_called(metric)
    if unit == "span":
        return "passages count, which may be found in several chunks together."
    if has_groups:
        return "some labels are alternatives, which count once."
    if dict(parsed.parameters).get("judged_only"):
        return f"{metric} drops hits that nobody judged, and others move up."
    structure = parsed.definition.structure
    return None if isinstance(structure, HitCount | WeightedSum) else f"{metric} is no sum over documents."
