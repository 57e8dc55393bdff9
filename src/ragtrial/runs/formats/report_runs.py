"""Our own rankings, of a report (each of its settings is a run) or of one rankings file; and the labels of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ragtrial.records import highest_grades
from ragtrial.runs.faults import Faults, shown
from ragtrial.runs.formats.gathering import packed
from ragtrial.runs.formats.numerals import are_numbers
from ragtrial.runs.formats.rows import json_lines
from ragtrial.runs.qrels import Qrels, Run
from ragtrial.runs.streams import Source


def report_runs(reference: Source, directory: Source, faults: Faults) -> list[Run]:
    """A run for each setting of a report, in its order. Raises ReportError where there is no report."""
    from ragtrial.report.model import load_report

    report = load_report(reference, directory)
    runs = []
    for setting in report.settings:
        path = report.folder / "rankings" / f"{setting.name}.jsonl.gz"
        run = rankings_run(path, setting.name, Faults(str(path), faults.error))
        runs.append(replace(run, of_chunks=report.unit == "span"))
    return runs


def report_qrels(reference: Source, directory: Source) -> Qrels:
    """The labels that a report was scored by. Raises ReportError where there is no report."""
    from ragtrial.report.model import load_report

    return Qrels.of(
        (query.id, list(highest_grades((one.doc, one.relevance) for one in query.relevant_docs).items()), query.ordered)
        for query in load_report(reference, directory).queries
    )


def rankings_run(source: Source, name: str, faults: Faults) -> Run:
    """The run of a rankings file: a row for each query, best first, with ``query``, ``docs`` and ``scores``.

    The order of a row is the ranking. The scores are the run's values only where they say no other order.
    """
    queries: dict[str, int] = {}
    documents: list[str] = []
    scores: list[float] = []
    lengths: list[int] = []
    in_order = True
    for number, row in enumerate(json_lines(source, faults)):
        query, docs, own = row.get("query"), row.get("docs"), row.get("scores")
        wrong = _wrong(query, docs, own)
        if wrong:
            faults.add_row(number, wrong)
            continue
        if query in queries:
            faults.add_row(number, f"query {query!r} has a row already.")
        queries[str(query)] = number
        documents += docs  # type: ignore[arg-type]
        lengths.append(len(docs))  # type: ignore[arg-type]
        in_order = in_order and own is not None and is_descending(own)  # type: ignore[arg-type]
        scores += own or []  # type: ignore[arg-type]
    if not queries and not faults.count:
        raise faults.fail("has no rankings.")
    faults.raise_any()
    return ranked_run(name, list(queries), lengths, documents, scores if in_order else None, faults)


def ranked_run(
    name: str,
    queries: Sequence[str],
    lengths: Sequence[int],
    documents: list[str],
    scores: Sequence[float] | None,
    faults: Faults,
) -> Run:
    """A run whose rows stand best first, ``lengths`` of them for each query."""
    packed(queries, faults, "query")
    starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64)
    values = np.array(scores, dtype=np.float64) if scores is not None else None
    return Run(name, tuple(queries), starts, packed(documents, faults), values)


def is_descending(scores: Sequence[float]) -> bool:
    """Whether no score is above the one before it."""
    return all(later <= earlier for earlier, later in pairwise(scores))


def _wrong(query: object, docs: object, scores: object) -> str:
    if not isinstance(query, str):
        return f"must have an id under `query`; found {shown(query)}."
    if not isinstance(docs, list) or not all(isinstance(document, str) for document in docs):
        return f"must have a list of ids under `docs`; found {shown(docs)}."
    if scores is not None and (not isinstance(scores, list) or not are_numbers(scores)):
        return f"must have a list of numbers under `scores`; found {shown(scores)}."
    if scores is not None and len(scores) != len(docs):
        return f"has {len(docs)} docs and {len(scores)} scores."
    return ""
