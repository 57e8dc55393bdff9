"""Rankings of chunks and labelled passages, written down in few words, and what a plain reading makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from ragtrial.dataset.spans import ChunkSpans, Passages
from ragtrial.evaluation.evaluators import scores_of
from ragtrial.evaluation.grading import GradedRankings, grade_spans
from ragtrial.evaluation.metrics import Metric, parse_metric
from ragtrial.evaluation.spans import Overlaps
from ragtrial.rankings import from_rows
from ragtrial.runs.qrels import Judgments

Place = tuple[int, int, int]
"""A document, the first character, and the one behind the last."""


@dataclass(frozen=True)
class Label:
    """A passage that answers: its places, any of which will do, and its grade."""

    places: tuple[Place, ...]
    grade: int = 1


@dataclass(frozen=True)
class SpanScenario:
    """Chunks in order, and for each query a ranking of some of them (by position) and its labels."""

    chunks: tuple[Place, ...]
    rankings: tuple[tuple[int, ...], ...]
    labels: tuple[tuple[Label, ...], ...]

    def graded(self, threshold: int = 1, coverage: float = 0.5, depth: int = 10) -> GradedRankings:
        labels = [label for row in self.labels for label in row]
        judgments = Judgments(
            np.cumsum([0, *map(len, self.labels)], dtype=np.int64),
            np.array([label.grade for label in labels], dtype=np.int32),
            np.ones(len(self.labels), dtype=np.bool_),
        )
        rows = [query for query, row in enumerate(self.labels) for label in row for _ in label.places]
        of = [number for number, label in enumerate(labels) for _ in label.places]
        places = np.array([place for label in labels for place in label.places], dtype=np.int64).reshape(-1, 3)
        passages = Passages.from_places(
            len(self.labels), np.array(rows, dtype=np.int64), places[:, 0].astype(np.int32), places[:, 1], places[:, 2],
            np.array(of, dtype=np.int64),
        )  # fmt: skip
        chunks = np.array(self.chunks, dtype=np.int64).reshape(-1, 3)
        spans = ChunkSpans(chunks[:, 0].astype(np.int32), chunks[:, 1], chunks[:, 2])
        codes = from_rows(self.rankings).codes[:, :depth]
        overlaps = Overlaps(codes, spans, passages, judgments, coverage, is_whole=True)
        return grade_spans(overlaps, judgments, depth, threshold)

    def characters(self, chunk: int) -> set[tuple[int, int]]:
        return in_place(self.chunks[chunk])


def in_place(place: Place) -> set[tuple[int, int]]:
    document, start, end = place
    return {(document, character) for character in range(start, end)}


def one_query(chunks: Sequence[Place], ranking: Sequence[int], *labels: Label) -> SpanScenario:
    return SpanScenario(tuple(chunks), (tuple(ranking),), (labels,))


def value(metric: str | Metric, graded: GradedRankings) -> float:
    """The one query's score."""
    return float(values(metric, graded)[0])


def values(metric: str | Metric, graded: GradedRankings) -> list[float]:
    metric = parse_metric(metric) if isinstance(metric, str) else metric
    return [*scores_of(metric, graded).tolist()]


@st.composite
def chunkings(draw: st.DrawFn, documents: int = 2) -> tuple[Place, ...]:
    """Chunks as chunkers make them: ascending in document, start and end; they may overlap and leave gaps."""
    chunks: list[Place] = []
    for document in range(documents):
        start, end = -1, 0
        for step, more in draw(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 12)), max_size=6)):
            start = start + step
            end = max(end + 1, start + more)
            chunks.append((document, start, end))
    return tuple(chunks)


places = st.tuples(st.integers(0, 1), st.integers(0, 25), st.integers(1, 10)).map(
    lambda drawn: (drawn[0], drawn[1], drawn[1] + drawn[2])
)
single_labels = st.builds(Label, st.tuples(places), st.integers(0, 3))
labels_with_alternatives = st.builds(Label, st.lists(places, min_size=1, max_size=3, unique=True).map(tuple),
                                     st.integers(0, 3))  # fmt: skip


@st.composite
def span_scenarios(draw: st.DrawFn, label: st.SearchStrategy[Label] = single_labels) -> SpanScenario:
    chunks = draw(chunkings())
    queries = draw(st.integers(1, 3))
    ranking = st.lists(st.sampled_from(range(len(chunks))), unique=True, max_size=8) if chunks else st.just([])
    return SpanScenario(
        chunks,
        tuple(tuple(draw(ranking)) for _ in range(queries)),
        tuple(tuple(draw(st.lists(label, max_size=4))) for _ in range(queries)),
    )
