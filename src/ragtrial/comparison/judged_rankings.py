"""The rankings of compared settings, and their scores under further judgments.

The difference of two settings is scored in two scenarios for their unjudged hits. In one scenario, every unjudged hit
that the setting ranks higher than the baseline gets the highest grade of the labels, and all other unjudged hits get
grade 0. In the other scenario, the hits that the baseline ranks higher get the highest grade. They are scenarios and no
bounds: other grades may lead to a larger difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.comparison_parts import ComparisonPart, Verdict
from ragtrial.dataset.library import NamedDocuments
from ragtrial.dataset.spans import ChunkSpans
from ragtrial.errors import DamagedReportError, Fault, ReportError
from ragtrial.evaluation.evaluators import scores_of
from ragtrial.evaluation.grading import DocumentLabels, Scores, grade_spans
from ragtrial.evaluation.metrics import Metric, metric_called
from ragtrial.evaluation.spans import Overlaps, span_labels
from ragtrial.rankings import Rankings, from_rows
from ragtrial.records import Judgment, Query, Span, Unit, highest_grades
from ragtrial.report.schema import Part
from ragtrial.scoring.labels import labels_of_report
from ragtrial.scoring.query_details import grade_of_chunk

HitKey = str | tuple[str, int, int]
"""A hit as labels know it: a document, or under unit: span the stretch of a document: its first character and the one
after its last."""

Case = tuple[int, Mapping[HitKey, int]]
"""A query by its row, and grades of some hits in addition to its labels."""

USUAL_DEPTH = 10
"""How deep rankings are judged where the metric that decides has no cutoff."""

_BLOCK = 2**13
_CLOSE = 1e-9


class JudgedRankings:
    """The rankings of the settings of ``inputs``, each read once, and the labels that judge them.

    Settings are given by their index, queries by their row. ``labels``, one query for each row, replace the labels of
    the reports.
    """

    def __init__(self, inputs: ComparisonInput, labels: Sequence[Query] | None = None) -> None:
        self._inputs = inputs
        self._given = labels
        self._report = inputs.report
        self.unit: Unit = self._report.unit
        scored = self._report.config.get("score")
        self._skips_negatives = isinstance(scored, dict) and bool(scored.get("trec_compat"))
        self._hits: dict[int, list[list[HitKey]]] = {}
        self._codes: dict[Any, int] = {}
        self._rankings: dict[int, Rankings] = {}
        self._now: dict[tuple[int, str], Scores] = {}

    def hits(self, setting: int) -> list[list[HitKey]]:
        """The hits of a setting for each query, best first. Raises ReportError if they cannot be read."""
        if setting not in self._hits:
            report, name = self._inputs.settings[setting].report, self._inputs.settings[setting].part.name
            rows = report.rankings(name, [query.id for query in self._inputs.queries])
            try:
                self._hits[setting] = [list(dict.fromkeys(hits_of_row(row, self.unit))) for row in rows]
            except (LookupError, TypeError, ValueError, OverflowError) as error:
                message = "is damaged: it lacks what report.json names."
                raise ReportError(Fault(str(report.ranking_file(name)), message=message)) from error
        return self._hits[setting]

    def usual_depth(self) -> int:
        """How deep rankings are judged unless a user says: as deep as the metric that decides looks."""
        return metric_called(self._inputs.primary).k or USUAL_DEPTH

    def best_ranks(self, row: int, depth: int) -> dict[HitKey, int]:
        """The first ``depth`` hits of all settings for the query at ``row``, each with its best rank."""
        ranks: dict[HitKey, int] = {}
        for setting in range(len(self._inputs.settings)):
            for rank, hit in enumerate(self.hits(setting)[row][:depth], 1):
                ranks[hit] = min(rank, ranks.get(hit, rank))
        return ranks

    def grade(self, row: int, hit: HitKey) -> int | None:
        """The grade of a hit of the query at ``row``; None if it is not judged."""
        if not isinstance(hit, str):
            return grade_of_chunk(self._inputs.queries[row], *hit)
        grade = self._grades[row].get(hit)
        return None if self._skips_negatives and grade is not None and grade < 0 else grade

    def unjudged(self, setting: int, k: int | None) -> list[dict[HitKey, int]]:
        """For each query, the unjudged hits among the first ``k`` of a setting, with their ranks."""
        return [
            {hit: rank for rank, hit in enumerate(hits[:k], 1) if self.grade(row, hit) is None}
            for row, hits in enumerate(self.hits(setting))
        ]

    @cached_property
    def highest_grade(self) -> int:
        """The highest grade of all labels, at least 0."""
        return max([0, *(grade for grades in self._grades for grade in grades.values())])

    def scores(self, setting: int, metric: Metric, cases: Sequence[Case]) -> Scores:
        """The scores of a setting in each of ``cases``, by the ordinary metrics; shape (cases,).

        Raises ReportError as ``hits`` does, and for labels without a quote under unit: span.
        """
        if metric.is_function:
            raise ReportError(f"{metric} is a function, which is called only where a config names it.")
        blocks = [cases[start : start + _BLOCK] for start in range(0, len(cases), _BLOCK)]
        return np.concatenate([np.zeros(0), *(self._scores(setting, metric, block) for block in blocks)])

    def scores_now(self, setting: int, metric: Metric) -> Scores:
        """The scores by the labels as they are, (queries,). Raises ReportError if the report has others."""
        if (setting, str(metric)) in self._now:
            return self._now[setting, str(metric)]
        scores = self.scores(setting, metric, [(row, {}) for row in range(len(self._queries))])
        apart = np.abs(scores - self._inputs.scores(str(metric)).values[setting]) > _CLOSE  # NaN, not counted, is not
        if apart.any():
            raise ReportError(
                "the rankings and labels that the report keeps do not give its scores (queries that differ: "
                f"{int(apart.sum()):,}); it was changed, or scored in another way. Run it again."
            )
        self._now[setting, str(metric)] = scores
        return scores

    @cached_property
    def _queries(self) -> Sequence[Query]:
        if self._given is not None:
            return self._given
        known = {query.id: query for query in labels_of_report(self._report).queries}
        return [known[query.id] for query in self._inputs.queries]

    @cached_property
    def _queries_with_spans(self) -> Sequence[Query]:
        """The queries; under unit: span labels of whole documents have the characters of these."""
        if self.unit == "document":
            return self._queries
        whole = {name: (Span(at.start, at.end),) for name, at in self._report.dataset.judged_whole.items()}
        judged = {judgment.doc for query in self._queries for judgment in query.relevant_docs if not judgment.spans}
        if not judged <= whole.keys():
            raise ReportError(
                "labels without a quote are of whole documents, and a report that was written before has not kept "
                f"their lengths. Write it again: ragtrial rescore {self._report.folder}"
            )
        queries = []
        for query in self._queries:
            labels = (replace(label, spans=label.spans or whole[label.doc]) for label in query.relevant_docs)
            queries.append(replace(query, relevant_docs=tuple(labels)))
        return queries

    @cached_property
    def _grades(self) -> list[dict[str, int]]:
        return [
            highest_grades((judgment.doc, judgment.relevance) for judgment in query.relevant_docs)
            for query in self._queries
        ]

    def _coded(self, setting: int) -> Rankings:
        """The hits of a setting as codes, the same for all settings."""
        if setting not in self._rankings:
            codes = self._codes
            rows = [[codes.setdefault(hit, len(codes)) for hit in hits] for hits in self.hits(setting)]
            self._rankings[setting] = from_rows(rows)
        return self._rankings[setting]

    def _scores(self, setting: int, metric: Metric, cases: Sequence[Case]) -> Scores:
        report, rows = self._inputs.settings[setting].report, [row for row, _ in cases]
        coded, codes = self._coded(setting), self._codes
        ranked = Rankings(coded.codes[rows, : metric.k], coded.scores[rows, : metric.k])
        threshold = report.relevance_threshold
        if self.unit == "document":
            by_document = DocumentLabels.of([_with_more(self._queries[row], more) for row, more in cases], codes)
            graded = by_document.grade(ranked, ranked.depth, threshold)
        else:
            queries = [_with_more(self._queries_with_spans[row], more) for row, more in cases]
            documents = (judgment.doc for query in queries for judgment in query.relevant_docs)
            library = NamedDocuments([*(hit[0] for hit in codes), *documents])
            table = np.array([(library.positions[doc], *span) for doc, *span in codes], dtype=np.int64).reshape(-1, 3)
            chunks = ChunkSpans(table[:, 0].astype(np.int32), table[:, 1], table[:, 2])
            labels = span_labels(queries, library)
            share = report.span_coverage or 0.5
            overlaps = Overlaps(ranked.codes, chunks, labels.passages, labels.judgments, share, is_whole=False)
            graded = grade_spans(overlaps, labels.judgments, ranked.depth, threshold)
        return scores_of(metric, replace(graded, depth=None, skips_negatives=self._skips_negatives))


def hits_of_row(row: Mapping[str, Any], unit: Unit) -> list[HitKey]:
    """The hits in a row of rankings/, best first. Raises LookupError or TypeError for a damaged row."""
    return list(row["docs"] if unit == "document" else zip(row["docs"], row["starts"], row["ends"], strict=True))


def _with_more(query: Query, more: Mapping[HitKey, int]) -> Query:
    """The query with further judgments."""
    judgments = [
        Judgment(hit, grade) if isinstance(hit, str) else Judgment(hit[0], grade, spans=(Span(*hit[1:]),))
        for hit, grade in more.items()
    ]
    return replace(query, relevant_docs=(*query.relevant_docs, *judgments))


MOST_QUERIES = 10_000
"""The number of queries, over all comparisons, for which unjudged hits are weighed by default; 10,000 take some
seconds."""


class UnjudgedPart(Part):
    """The difference of two settings in two scenarios of labels for their unjudged hits, which are no bounds.

    Only hits at or above the metric's cutoff in either ranking are graded. The queries of the mean stay as they are.
    """

    metric: str
    baseline: str
    setting: str
    difference: float | None
    """As the labels have it; null over no queries."""

    low: float | None = None
    """The difference if all went in favour of the baseline; null where it is not known."""

    high: float | None = None
    """The difference if all went in favour of the setting."""

    n: int
    unjudged: int | None = None
    """Unjudged documents or chunks of these queries, at or above the metric's cutoff in either ranking; null if
    unknown."""

    queries_with_unjudged: int | None = None
    highest_grade: int
    depends_on_unjudged: bool | None = None
    """True if one of the scenarios contradicts the verdict; null if the verdict claims nothing, or the scenarios are
    unknown."""

    why_not_known: str | None = None
    """Why the two are not known, in a sentence; null where they are."""


def unjudged_parts(inputs: ComparisonInput, comparisons: Sequence[ComparisonPart], margin: float) -> list[UnjudgedPart]:
    """The scenarios of each of ``comparisons``, which are comparisons of settings of ``inputs``.

    Missing rankings, and rankings that do not give the report's scores, are no error: the part states them. Raises
    DamagedReportError for rankings whose bytes have changed.
    """
    rankings = JudgedRankings(inputs)
    return [_part(inputs, rankings, part, margin) for part in comparisons]


def depend_on_unjudged(inputs: ComparisonInput, claims: Sequence[ComparisonPart], margin: float) -> Sequence[bool]:
    """For each of ``claims``, whether labels of unjudged hits could change it; False if that is unknown.

    Up to MOST_QUERIES queries are weighed. Claims beyond them depend on unjudged hits if there are any. Scores of a
    table depend on no hits.
    """
    if not all(setting.report.has_rankings for setting in inputs.settings):
        return [False] * len(claims)
    weighed = claims[: max(1, MOST_QUERIES // max(1, len(inputs.queries)))]
    known = [part.depends_on_unjudged is True for part in unjudged_parts(inputs, weighed, margin)]
    return known + [min(claim.judged or 0.0, claim.judged_baseline or 0.0) < 1 for claim in claims[len(weighed) :]]


def could_be_undone(verdict: Verdict | None, low: float, high: float, margin: float) -> bool | None:
    """True if a gain as low as ``low``, or as high as ``high``, would contradict the verdict.

    The sign or the margin decides, not chance. None for a verdict that claims nothing.
    """
    if verdict == "better":
        return low <= 0
    if verdict == "worse":
        return high >= 0
    if verdict == "worse within the margin":
        return high >= 0 or low <= -margin
    return low <= -margin if verdict == "no worse" else None


def _part(inputs: ComparisonInput, rankings: JudgedRankings, part: ComparisonPart, margin: float) -> UnjudgedPart:
    compared = part.model_dump(include={"metric", "baseline", "setting", "difference", "n"})
    scenarios = UnjudgedPart(**compared, highest_grade=rankings.highest_grade)
    try:
        extremes = _extremes(inputs, rankings, part)
    except DamagedReportError:
        raise
    except ReportError as error:
        return scenarios.model_copy(update={"why_not_known": str(error)})
    sign = inputs.sign(part.metric)
    ends = [sign * end for end in (extremes["low"], extremes["high"], part.difference or 0.0)]
    depends = could_be_undone(part.verdict, min(ends), max(ends), margin)
    return scenarios.model_copy(update={**extremes, "depends_on_unjudged": depends})


def _extremes(inputs: ComparisonInput, rankings: JudgedRankings, part: ComparisonPart) -> dict[str, Any]:
    """Both differences and the hits they are about. Raises ReportError where they are not known."""
    metric, indices = metric_called(part.metric), [inputs.setting_index(name) for name in (part.baseline, part.setting)]
    rows = np.flatnonzero(~np.isnan(inputs.scores(part.metric).values[indices]).any(axis=0)).tolist()
    if not rows:
        raise ReportError("no query counts for both.")
    for index in indices:
        rankings.scores_now(index, metric)
    of_baseline, of_setting = (rankings.unjudged(index, metric.k) for index in indices)

    def difference(favoured: Sequence[Mapping[HitKey, int]], others: Sequence[Mapping[HitKey, int]]) -> float:
        cases = [(row, _favouring(favoured[row], others[row], rankings.highest_grade)) for row in rows]
        before, after = (rankings.scores(index, metric, cases) for index in indices)
        return float((after - before).mean())

    low, high = difference(of_baseline, of_setting), difference(of_setting, of_baseline)
    if inputs.sign(part.metric) < 0:
        low, high = high, low
    hits = [len({*of_baseline[row], *of_setting[row]}) for row in rows]
    return {"low": low, "high": high, "unjudged": sum(hits), "queries_with_unjudged": sum(map(bool, hits))}


def _favouring(own: Mapping[HitKey, int], others: Mapping[HitKey, int], highest: int) -> dict[HitKey, int]:
    """The highest grade for the hits that one ranking has higher up than the other, or alone; 0 for all others."""
    return {hit: highest if own.get(hit, inf) < others.get(hit, inf) else 0 for hit in {**own, **others}}
