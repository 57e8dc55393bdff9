"""What scoring by passages costs, beside scoring by documents on the same rankings.

    python benchmarks/spans.py [--shape 5000x100x3] [--rounds 9] [--characters] [--json PATH]

A shape is queries x hits x labels of a query. Chunks are 1,000 characters of documents that have 20 of them, each
repeating 100 of the one before; a label is a passage of 300 characters, most of them near a hit. As documents, the very
same rankings of chunks are scored: each chunk is a document, and each label judges the one that its passage begins in.
Both join rankings and labels and compute the same metrics, per query and as means; --characters adds to the passages
the metrics of characters, which documents do not have. One process, nothing kept from round to round; the two are
interleaved, in turning order. Printed are medians, and the median of the ratios within a round.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import re
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from quiet import refuse_if_busy

from ragtrial.dataset.spans import ChunkSpans, Passages
from ragtrial.evaluation.evaluators import evaluate
from ragtrial.evaluation.grading import DocumentLabels, GradedRankings, grade_spans
from ragtrial.evaluation.metrics import Metric, parse_metric
from ragtrial.evaluation.spans import Overlaps
from ragtrial.rankings import Codes, Floats, Rankings
from ragtrial.runs.qrels import Judgments

METRICS = [
    *(f"{name}@{k}" for name in ("precision", "recall", "f1", "hit_rate") for k in (1, 3, 5, 10)),
    "rr@10", "ap@10", "dcg@5", "dcg@10", "ndcg@5", "ndcg@10", "judged@5", "judged@10",
]  # fmt: skip
CHARACTERS = [
    *(f"{name}@{k}" for name in ("span_recall", "span_precision", "span_iou") for k in (1, 3, 5, 10)),
    "span_precision_ceiling",
]
CHUNKS_OF_DOCUMENT, SIZE, OVERLAP, PASSAGE = 20, 1000, 100, 300


@dataclass(frozen=True, eq=False)
class Case:
    """Rankings of chunks, and labels as passages; ``judged`` has the chunk that the passage of each begins in."""

    codes: Codes
    chunks: ChunkSpans
    passages: Passages
    judged: Codes
    judgments: Judgments


@dataclass(frozen=True)
class Times:
    """Medians of the rounds, in seconds, and the median of their ratios."""

    documents: float
    spans: float
    ratio: float


def made(queries: int, hits: int, labels: int) -> Case:
    generator = np.random.default_rng(7)
    documents = max(queries * hits // 100, 50)
    count = documents * CHUNKS_OF_DOCUMENT
    place = np.arange(count)
    begins = (place % CHUNKS_OF_DOCUMENT) * (SIZE - OVERLAP)
    chunks = ChunkSpans((place // CHUNKS_OF_DOCUMENT).astype(np.int32), begins, begins + SIZE)
    order = np.argsort(generator.random((queries, 8 * hits)), axis=1)[:, :hits]
    codes: Codes = ((order + generator.integers(0, count, (queries, 1))) % count).astype(np.int32)
    # Three labels of four are in what is found; each chunk is judged once, as documents are.
    near = np.argsort(generator.random((queries, hits)), axis=1)[:, :labels]
    found = np.take_along_axis(codes, near, axis=1)
    judged: Codes = np.where(generator.random(found.shape) < 0.75, found, (found + 9 * hits) % count).astype(np.int32)
    rows = np.repeat(np.arange(queries), labels)
    starts = chunks.starts[judged.ravel()] + generator.integers(0, SIZE - PASSAGE // 2, judged.size)
    passages = Passages.from_places(
        queries, rows, chunks.documents[judged.ravel()], starts, starts + PASSAGE, np.arange(judged.size)
    )
    judgments = Judgments(
        np.arange(queries + 1) * labels, generator.integers(0, 4, judged.size, dtype=np.int32), np.zeros(queries, bool)
    )
    return Case(codes, chunks, passages, judged.ravel(), judgments)


def evaluated(graded: GradedRankings, metrics: list[Metric]) -> dict[str, float]:
    return {name: evaluation.mean.mean or 0.0 for name, evaluation in evaluate(metrics, graded).items()}


def by_documents(case: Case, metrics: list[Metric]) -> dict[str, float]:
    scores: Floats = np.zeros(case.codes.shape, dtype=np.float32)
    judgments = Judgments(case.judgments.starts, case.judgments.grades, case.judgments.ordered)
    graded = DocumentLabels(judgments, case.judged).grade(Rankings(case.codes, scores), case.codes.shape[1])
    return evaluated(graded, metrics)


def by_spans(case: Case, metrics: list[Metric]) -> dict[str, float]:
    given, judgments = case.passages, Judgments(case.judgments.starts, case.judgments.grades, case.judgments.ordered)
    passages = Passages(given.starts, given.documents, given.begins, given.ends, given.judgments)
    overlaps = Overlaps(case.codes, case.chunks, passages, judgments, 0.5, is_whole=True)
    return evaluated(grade_spans(overlaps, judgments, case.codes.shape[1]), metrics)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measured(case: Case, rounds: int, *, characters: bool) -> Times:
    metrics = [parse_metric(name) for name in METRICS]
    of_spans = metrics + [parse_metric(name) for name in CHARACTERS if characters]
    ways: list[Callable[[], object]] = [lambda: by_documents(case, metrics), lambda: by_spans(case, of_spans)]
    taken: list[list[float]] = [[], []]
    for way in ways:
        way()
    for number in range(rounds):
        for index in (0, 1) if number % 2 else (1, 0):
            taken[index].append(seconds(ways[index]))
    ratios = [spans / documents for documents, spans in zip(*taken, strict=True)]
    return Times(statistics.median(taken[0]), statistics.median(taken[1]), statistics.median(ratios))


def processor() -> str:
    with suppress(OSError):
        named = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        if named:
            return named.group(1)
    return platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", help="queries x hits x labels (default: 5000x100x3)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--characters", action="store_true", help="with the metrics of characters, for passages alone")
    parser.add_argument("--json", type=Path, help="write the figures there")
    arguments = parser.parse_args()
    print(f"{processor()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, {dt.date.today()}")
    figures = {}
    for shape in arguments.shape or ["5000x100x3"]:
        queries, hits, labels = map(int, shape.split("x"))
        times = measured(made(queries, hits, labels), arguments.rounds, characters=arguments.characters)
        figures[shape] = asdict(times)
        print(
            f"{shape}: documents {1000 * times.documents:.1f} ms, passages {1000 * times.spans:.1f} ms, "
            f"ratio {times.ratio:.2f} (medians of {arguments.rounds} rounds)"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    refuse_if_busy()
    main()
