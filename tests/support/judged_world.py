"""Two settings of sixty queries, people's labels of them, and a judge that is right for most texts."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from contests import changed_queries
from ragtrial.report.model import Report
from scored_runs import scored_report

QUERIES = [f"q{number:02}" for number in range(60)]
METRIC = "ndcg@3"


def world(folder: Path, people: int = 60) -> Report:
    """Two settings; what answers a query is a or b, for most of them what ``new`` has first."""
    random = np.random.default_rng(4)
    runs: dict[str, dict[str, str]] = {"old": {}, "new": {}}
    labels: dict[str, dict[str, int]] = {}
    for place, name in enumerate(QUERIES):
        order = ["a", "b", "c", "d"]
        runs["old"][name] = " ".join(random.permutation(order)[:3])
        runs["new"][name] = " ".join(random.permutation(order)[:3])
        labels[name] = {"a": 1, "b": 0, "c": 0, "d": 0} if place < people else {"z": 0}
    return scored_report(folder, labels, runs, "--metrics", METRIC)


def judged(folder: Path, rows: Sequence[Mapping[str, object]] | None = None, right: float = 0.7) -> Path:
    """All texts of all queries, graded rightly but for some."""
    random = np.random.default_rng(5)
    if rows is None:
        rows = [
            {"query": query, "doc": doc, "grade": int((3 if doc == "a" else 0) if random.random() < right
                                                      else random.integers(0, 4))}
            for query in QUERIES for doc in "abcd"
        ]  # fmt: skip
    file = folder / "judgments.jsonl"
    base = {"model": "m", "prompt": "0" * 16}
    file.write_text("".join(json.dumps({**base, **row}) + "\n" for row in rows), encoding="utf-8")
    return file


def tagged(report: Report, names: Sequence[str], tag: str) -> Report:
    return changed_queries(report, **{name: {"tags": [tag]} for name in names})
