"""The report of scored run files, which is read and compared like any other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.config.metric_choice import MetricChoice
from ragtrial.config.models import EvaluatorOptions
from ragtrial.dataset.texts import normalised
from ragtrial.errors import Fault, InputError, without_secrets
from ragtrial.pipeline.reporting import build_report
from ragtrial.pipeline.scored_setting import ScoredSetting
from ragtrial.records import Judgment, PromptQueries, highest_grades
from ragtrial.report.model import Report, Row, write_report
from ragtrial.runs.formats.own_files import spellings
from ragtrial.runs.formats.rows import distinct
from ragtrial.runs.inputs import RunInput
from ragtrial.runs.joins import in_order
from ragtrial.runs.qrels import Run
from ragtrial.runs.streams import is_read_once, name_of
from ragtrial.scoring.labels import labels_of_qrels
from ragtrial.scoring.score_runs import RunScores, Scoring


def write_score_report(scoring: Scoring, target: str | Path) -> Report:
    """Write the scored runs as a report in the new folder ``target``; runs have names that files may have.

    Raises InputError if ``target`` exists, and the errors of ``score_report``; RunError if it cannot be written.
    """
    folder = Path(target)
    check_new(folder)
    names = distinct([file_name(run.name) for run in scoring.runs])
    runs = tuple(replace(run, name=name) for run, name in zip(scoring.runs, names, strict=True))
    report, rankings = _built(replace(scoring, runs=runs), folder.name)
    config = json.dumps(report.config, indent=1) + "\n"
    return write_report(report, folder.parent, rankings, [], config, name=folder.name)


def score_report(scoring: Scoring) -> Report:
    """The scored runs as a report that has its rankings in memory, and is in no folder.

    Raises InputError if a run came from standard input, which cannot be read again.
    """
    report, rankings = _built(scoring, "scores")
    return report.holding(rankings)


def _built(scoring: Scoring, experiment: str) -> tuple[Report, dict[str, list[Row]]]:
    protocol, given = scoring.protocol, scoring.given
    _check_sources(given)
    qrels = given.judgments()
    labels = _of_documents(qrels.labels) if qrels.labels else labels_of_qrels(qrels, {})
    runs = [
        in_order(run, protocol.order)
        for source, name in given.named_runs()
        for run in given.loaded(source, name, qrels.labels, lenient=protocol.trec_compat)
    ]
    pairs = zip(scoring.runs, runs, strict=True)
    rankings = {scored.name: list(_rows(labels, run, protocol.depth)) for scored, run in pairs}
    settings = [_setting(run, rankings[run.name], protocol.depth) for run in scoring.runs]
    sources = {"qrels": _shown(given.qrels), "runs": [_shown(source) for source in given.runs]}
    report = build_report(
        settings,
        labels,
        MetricChoice(protocol.metrics, protocol.metrics[0]),
        EvaluatorOptions(
            relevance_threshold=protocol.relevance_threshold,
            no_relevant=protocol.no_relevant,
            clusters=protocol.clusters,
        ),
        None,
        [warning for run in scoring.runs for warning in run.warnings],
        documents=dict.fromkeys(("documents", "empty_documents", "documents_fingerprint")),
        experiment=experiment,
        config={"score": {**sources, **protocol.as_json()}},
        failures=[],
    )
    return report, rankings


def _of_documents(labels: PromptQueries) -> PromptQueries:
    """Labels of whole documents, as qrels have them, each document in its first spelling."""
    queries = []
    for query in labels.queries:
        spelled = spellings(query)
        judgments = (
            Judgment(spelled[normalised(one.doc)], one.relevance, group=one.group) for one in query.relevant_docs
        )
        queries.append(replace(query, relevant_docs=tuple(judgments)))
    return PromptQueries(tuple(queries), labels.prompt)


def check_new(folder: Path) -> None:
    """Raise InputError if ``folder`` exists."""
    if folder.exists():
        raise InputError(Fault(str(folder), message="is there already; a report is a new folder. Name another one."))


def check_target(folder: Path, given: RunInput) -> None:
    """Raise InputError if the runs cannot become a report in ``folder``, before anything is scored."""
    check_new(folder)
    _check_sources(given)


def _check_sources(given: RunInput) -> None:
    for source in (given.qrels, *given.runs):
        if isinstance(source, str | Path) and is_read_once(source):
            message = "is read once, and a report cannot be made of standard input or a pipe; save it to a file first."
            raise InputError(Fault(name_of(source), message=message))


def _setting(run: RunScores, rows: list[Row], depth: int | None) -> ScoredSetting:
    counts: dict[str, int | None] = {"rows": run.counts.rows, "duplicates": run.counts.duplicates}
    queries = {"tied": run.counts.tied, "without_hits": run.counts.missing, "not_judged": run.counts.unknown}
    counts |= {f"queries_{name}": count for name, count in queries.items()}
    known: dict[str, Any] = {"fingerprint": fingerprint(rows), "parameters": {"retriever": {"kind": "run_file"}}}
    known |= {"index": {}, "health": None, "timings": dict(run.seconds), "latency": None}
    return ScoredSetting(
        name=run.name,
        query_ids=run.queries,
        evaluations=run.evaluations,
        known=known,
        counts=counts,
        short=[depth is not None and len(row["docs"]) < depth for row in rows],
        skipped=np.zeros(len(rows), dtype=np.bool_),
        collapsed=[0] * len(rows),
        top_scores=np.full(len(rows), np.nan),
    )


def _rows(labels: PromptQueries, run: Run, depth: int | None) -> Iterator[Row]:
    """One row of rankings/ for each judged query, empty if the run has no hits for it."""
    documents = list(run.documents)
    scores = None if run.values is None or run.by_rank else run.values.tolist()
    bounds = dict(zip(run.queries, pairwise(run.starts.tolist()), strict=True))
    for query in labels.queries:
        start, end = bounds.get(query.id, (0, 0))
        end = end if depth is None else min(end, start + depth)
        grades = highest_grades((label.doc, label.relevance) for label in query.relevant_docs)
        docs = documents[start:end]
        row: Row = {"query": query.id, "docs": docs, "grades": [grades.get(doc) for doc in docs]}
        yield row if scores is None else {**row, "scores": scores[start:end]}


def file_name(name: str) -> str:
    """``name`` as a file name: without separators of paths, and not too long."""
    return re.sub(r"[^\w.-]+", "-", name).strip(".-")[:100] or "run"


def _shown(source: Any) -> str:
    return without_secrets(str(source)) if isinstance(source, str | Path) else type(source).__name__
