"""What commands that read a report take when it is large: seconds, processor time and memory, each in its own process.

    python benchmarks/large_reports.py [--settings 8] [--queries 10000] [--hits 30] [--folder FOLDER] [--json PATH]

The report has random rankings of 5,000 documents and the scores of six metrics, and is written as runs write theirs.
With ``--folder`` it is kept there, and read from there if it exists already.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quiet import refuse_if_busy

from ragtrial.evaluation.metrics import parse_metric
from ragtrial.report.model import SCHEMA_VERSION, Report, write_report
from ragtrial.report.schema import DatasetPart, JudgmentPart, MeanPart, MetricPart, QueryColumns, QueryPart, SettingPart

METRICS = ("ndcg@10", "precision@10", "recall@10", "rr@10", "ap@10", "judged@10")
RUN = "20260101T000000Z-00000a"
DOCUMENTS = 5000
LENGTH = 800
"""Characters of a document, which is a chunk."""


def large_report(settings: int, queries: int) -> Report:
    """A report with random scores."""
    chance = random.Random(0)
    asked = [
        QueryPart(
            id=f"question-{number}",
            text=f"What does part {number} do?",
            tags=["a" if number % 2 else "b"],
            relevant_docs=[JudgmentPart(doc=name_of(number % DOCUMENTS), relevance=2)],
        )
        for number in range(queries)
    ]
    return Report(
        schema_version=SCHEMA_VERSION,
        experiment="large",
        run_id=RUN,
        config={"experiment": "large"},
        dataset=DatasetPart(documents=DOCUMENTS, empty_documents=0, queries=queries,
                            documents_fingerprint="0" * 32, labels_fingerprint="1" * 32),
        primary_metric=METRICS[0],
        metrics={name: _metric_part(name) for name in METRICS},
        prompt=None,
        queries=asked,
        settings=[_setting(f"setting-{number:02}", queries, chance) for number in range(settings)],
        failures=[],
        warnings=[],
        environment={},
    )  # fmt: skip


def name_of(document: int) -> str:
    return f"guides/chapter-{document % 97}/page-{document}.md"


def _metric_part(name: str) -> MetricPart:
    definition = parse_metric(name).definition
    return MetricPart(
        formula=definition.formula, family=definition.family, counted="all queries", source=definition.source
    )


def _setting(name: str, queries: int, chance: random.Random) -> SettingPart:
    values = {metric: [chance.random() for _ in range(queries)] for metric in METRICS}
    means = {metric: MeanPart(mean=sum(column) / queries, n=queries) for metric, column in values.items()}
    nothing = [False] * queries
    columns = QueryColumns(evaluations={**values}, short=nothing, skipped=nothing, collapsed=[3] * queries)
    return SettingPart(name=name, fingerprint=name, parameters={"retriever": {"kind": "custom"}}, scores=means,
                       counts={}, index={}, health=None, audit=None, timings={}, latency=None,
                       per_query=columns)  # fmt: skip


def _rows(report: Report, hits: int, seed: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(seed)
    for query in report.queries:
        found = chance.sample(range(DOCUMENTS), hits)
        docs = [name_of(document) for document in found]
        yield {
            "query": query.id,
            "docs": docs,
            "chunks": [f"{doc}#0-{LENGTH}" for doc in docs],
            "starts": [0] * hits,
            "ends": [LENGTH] * hits,
            "scores": sorted((chance.random() for _ in found), reverse=True),
            "grades": [None] * hits,
        }


def _texts() -> Iterator[dict[str, Any]]:
    for document in range(DOCUMENTS):
        doc = name_of(document)
        text = (f"Page {document} says what part {document} does. " * 40)[:LENGTH]
        yield {"chunk": f"{doc}#0-{LENGTH}", "doc": doc, "title": "", "start": 0, "end": LENGTH, "text": text}


def _written(folder: Path, options: argparse.Namespace) -> Path:
    path = folder / "large" / RUN
    if not path.exists():
        report = large_report(options.settings, options.queries)
        rankings = {one.name: _rows(report, options.hits, seed) for seed, one in enumerate(report.settings)}
        write_report(report, folder, rankings, _texts(), "experiment: large\n")
    return path


def _measured(*arguments: str) -> dict[str, float]:
    """Seconds, those of the processor, and the most memory in MiB of one command."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "ragtrial", *arguments], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"ragtrial {' '.join(arguments)} ended with {os.waitstatus_to_exitcode(status)}")
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "processor": round(used.ru_utime + used.ru_stime, 1),
        "MiB": round(used.ru_maxrss / 2**10),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=int, default=8)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--hits", type=int, default=30)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        report = _written(options.folder or Path(scratch), options)
        page = str(Path(scratch) / "page.html")
        commands = {
            "show": ["show", str(report)],
            "show --query": ["show", str(report), "--query", "question-7"],
            "compare": ["compare", str(report)],
            "report": ["report", str(report), "-o", page],
        }
        made = {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
            "report.json MB": round((report / "report.json").stat().st_size / 1e6, 1),
            "folder MB": round(sum(path.stat().st_size for path in report.rglob("*.*")) / 1e6, 1),
            **{name: _measured(*arguments) for name, arguments in commands.items()},
        }
        made["page MB"] = round(Path(page).stat().st_size / 1e6, 1)
    text = json.dumps(made, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    refuse_if_busy()
    main()
