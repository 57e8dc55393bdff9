"""Small worlds to score: rankings and labels by document name, joined the way the product joins them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from ragtrial.evaluation.evaluators import scores_of
from ragtrial.evaluation.grading import GradedRankings, Scores, grade
from ragtrial.evaluation.metrics import METRICS, Metric, parse_metric
from ragtrial.rankings import from_rows
from ragtrial.records import Judgment, Query


@dataclass(frozen=True)
class Scenario:
    """Per query: the documents ranked, best first; the grade of each judged one, in label order; is that an order?"""

    rankings: tuple[tuple[str, ...], ...]
    labels: tuple[Mapping[str, int], ...]
    ordered: tuple[bool, ...]

    @property
    def longest(self) -> int:
        return max((len(ranking) for ranking in self.rankings), default=0)

    def __len__(self) -> int:
        return len(self.rankings)

    def graded(self, depth: int = 20, threshold: int = 1) -> GradedRankings:
        documents = sorted({name for ranking in self.rankings for name in ranking})
        code_of = {name: code for code, name in enumerate(documents)}
        rankings = from_rows([[code_of[name] for name in ranking] for ranking in self.rankings])
        queries = [
            Query(f"q{index}", "?", tuple(Judgment(doc, value) for doc, value in labels.items()), ordered=ordered)
            for index, (labels, ordered) in enumerate(zip(self.labels, self.ordered, strict=True))
        ]
        return grade(rankings, documents, queries, depth, threshold)


OF_DOCUMENTS = [name for name, definition in METRICS.members() if definition.documents]
"""The metrics of rankings of documents."""

OF_SPANS = [name for name, definition in METRICS.members() if definition.spans]
"""The metrics of rankings of chunks, in which passages are found."""

SCALE = 25
"""The highest grade that tests give to metrics which want to know it."""


def example(name: str, k: int | None = 3) -> Metric:
    """The metric of that name with its default parameters, cut at ``k`` if it has a cutoff."""
    definition = METRICS[name]
    parameters = (("max", SCALE),) if "max" in definition.parameters else ()
    return Metric(name, None if definition.cut == "none" else k, parameters)


Labels = str | Mapping[str, int]


def scenario(*queries: tuple[str, Labels], ordered: bool = True) -> Scenario:
    """One (ranking, labels) per query: names with spaces between; labels as such a text all have grade 1."""
    return Scenario(
        tuple(tuple(ranking.split()) for ranking, _ in queries),
        tuple(dict.fromkeys(labels.split(), 1) if isinstance(labels, str) else labels for _, labels in queries),
        (ordered,) * len(queries),
    )


def hit_grades(graded: GradedRankings) -> list[list[int | None]]:
    """The grade of each hit of each query, best first; None where nobody judged it."""
    rows = [graded.grades_by_rank(query) for query in range(len(graded))]
    return [
        [row.get(rank) for rank in range(1, length + 1)]
        for row, length in zip(rows, graded.lengths.tolist(), strict=True)
    ]


def hit_places(graded: GradedRankings) -> list[list[int | None]]:
    """The place of each relevant hit among the query's relevant documents, None for other hits."""
    rows: list[list[int | None]] = [[None] * length for length in graded.lengths.tolist()]
    for hit in graded.relevant.nonzero()[0].tolist():
        rows[int(graded.rows[hit])][int(graded.ranks[hit]) - 1] = int(graded.label_positions[hit])
    return rows


def relevant_hits(graded: GradedRankings, k: int | None = None) -> list[list[bool]]:
    """Which of the first ``k`` hits of each query are relevant."""
    rows = [[False] * length for length in graded.retrieved(k).tolist()]
    for hit in (graded.relevant & graded.within(k)).nonzero()[0].tolist():
        rows[int(graded.rows[hit])][int(graded.ranks[hit]) - 1] = True
    return rows


def judged_grades(graded: GradedRankings) -> list[list[int]]:
    """The grades of all judged documents of each query, highest first."""
    starts = graded.judgments.starts.tolist()
    return [graded.judgments.descending[start:end].tolist() for start, end in pairwise(starts)]


def scores(metric: str | Metric, graded: GradedRankings) -> Scores:
    """The values of a metric by its spelling."""
    metric = parse_metric(metric) if isinstance(metric, str) else metric
    return scores_of(metric, graded)


def score(metric: str, ranking: str, labels: Labels, threshold: int = 1) -> float:
    """The value of a metric for one query with ordered labels."""
    (value,) = scores(metric, scenario((ranking, labels)).graded(threshold=threshold))
    return float(value)
