"""What it takes to read a large report for a comparison: seconds and memory, in a process of its own.

    python benchmarks/comparison_reading.py [--settings 20] [--queries 5000] [--hits 20] [--folder FOLDER] [--json PATH]

The report is made of the real models and written by ``write_report``: values of six metrics and ``--hits`` hits for
each query of each setting. With ``--folder`` it is kept there, and taken from there if it is there already.

Prints the size of report.json, then for reading without hits, as a comparison does, and with them, as ``show`` does:
the seconds, those of the processor with imports, and the most memory that the process had, in GiB.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragtrial.evaluation.metrics import parse_metric
from ragtrial.report.model import Report, load_report, write_report
from ragtrial.report.schema import (
    DatasetPart,
    HitPart,
    JudgmentPart,
    MeanPart,
    MetricPart,
    QueryPart,
    QueryScores,
    SettingPart,
)

METRICS = ("ndcg@10", "precision@10", "recall@10", "rr@10", "ap@10", "judged@10")
RUN = "20260101T000000Z-00000a"


def large_report(settings: int, queries: int, hits: int) -> Report:
    """A report with random scores; the queries' texts are such as make Python keep four bytes per character."""
    chance = random.Random(0)
    asked = [
        QueryPart(
            id=f"question-{number}",
            text=f"What does part {number} do 🙂?",
            tags=["a" if number % 2 else "b"],
            relevant_docs=[JudgmentPart(doc=f"guides/chapter-{number % 97}/page-{number}.md", relevance=2)],
        )
        for number in range(queries)
    ]
    return Report(
        schema_version=1,
        experiment="large",
        run_id=RUN,
        config={"experiment": "large"},
        dataset=DatasetPart(documents=queries, empty_documents=0, queries=queries, documents_fingerprint="0" * 32,
                            labels_fingerprint="1" * 32),
        primary_metric=METRICS[0],
        metrics={name: _metric_part(name) for name in METRICS},
        prompt=None,
        queries=asked,
        settings=[_setting(f"setting-{number:02}", asked, hits, chance) for number in range(settings)],
        failures=[],
        warnings=[],
        environment={},
    )  # fmt: skip


def _metric_part(name: str) -> MetricPart:
    definition = parse_metric(name).definition
    return MetricPart(
        formula=definition.formula, family=definition.family, counted="all queries", source=definition.source
    )


def _setting(name: str, queries: list[QueryPart], hits: int, chance: random.Random) -> SettingPart:
    scores = [_query_scores(query.id, hits, chance) for query in queries]
    means = {
        metric: MeanPart(mean=sum(one.evaluations[metric] or 0 for one in scores) / len(scores), n=len(scores))
        for metric in METRICS
    }
    return SettingPart(name=name, fingerprint=name, parameters={}, scores=means, counts={}, index={}, health=None,
                       audit=None, timings={}, latency=None, queries=scores)  # fmt: skip


def _query_scores(query: str, hits: int, chance: random.Random) -> QueryScores:
    found = []
    for rank in range(1, hits + 1):
        doc, start = f"guides/chapter-{chance.randrange(97)}/page-{chance.randrange(5000)}.md", chance.randrange(9000)
        found.append(HitPart(
            doc=doc, chunk=f"{doc}#{start}-{start + 800}", start=start, end=start + 800, rank=rank,
            score=chance.random(), grade=None, tokens=200,
        ))  # fmt: skip
    values: dict[str, float | None] = {metric: chance.random() for metric in METRICS}
    return QueryScores.model_construct(
        id=query, evaluations=values, hits=found, short=False, skipped=False, collapsed=3, passages=None
    )


def _rows(setting: SettingPart) -> Iterator[dict[str, Any]]:
    for query in setting.queries:
        yield {"query": query.id, "docs": [hit.doc for hit in query.hits]}


def _written(folder: Path, options: argparse.Namespace) -> Path:
    report = folder / "large" / RUN
    if not report.exists():
        made = large_report(options.settings, options.queries, options.hits)
        rankings: Mapping[str, Iterator[dict[str, Any]]] = {one.name: _rows(one) for one in made.settings}
        write_report(made, folder, rankings, [], "experiment: large\n")
    return report


def _measured(report: Path, *, hits: bool) -> dict[str, float]:
    """Seconds and GiB of a fresh process that reads the report."""
    arguments = [sys.executable, __file__, "--read", str(report), *(["--with-hits"] if hits else [])]
    made = subprocess.run(arguments, capture_output=True, text=True, check=True)
    return dict(json.loads(made.stdout))


def _read(report: Path, *, hits: bool) -> None:
    started = time.perf_counter()
    if hits:
        load_report(report)
    else:
        from ragtrial.comparison.contest import contest_of

        contest = contest_of([report])
        for metric in contest.metrics:
            contest.scores(metric)
    seconds, busy = time.perf_counter() - started, time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"seconds": round(seconds, 2), "of the processor": round(busy, 2), "gib": round(peak, 3)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=int, default=20)
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--hits", type=int, default=20)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--with-hits", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        _read(options.read, hits=options.with_hits)
        return
    with tempfile.TemporaryDirectory() as scratch:
        report = _written(options.folder or Path(scratch), options)
        size = (report / "report.json").stat().st_size / 1e6
        told = {
            "megabytes": round(size, 1),
            "without hits": _measured(report, hits=False),
            "with hits": _measured(report, hits=True),
        }
    print(json.dumps(told, indent=1))
    if options.json:
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
