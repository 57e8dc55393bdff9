"""Runs that were made elsewhere and scored here, as a report that is read and compared like any other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.presence import only_writer
from ragtrial.errors import Fault, InputError, RunError
from ragtrial.pipeline.metric_descriptions import metric_part
from ragtrial.report.environment import environment, without_secrets
from ragtrial.report.model import HITS_SHOWN, SCHEMA_VERSION, Report, new_run_id, write_folder
from ragtrial.report.schema import (
    DatasetPart,
    HitPart,
    JudgmentPart,
    MeanPart,
    QueryPart,
    QueryScores,
    SettingPart,
    WarningPart,
)
from ragtrial.runs.inputs import RunInput, distinct, load_judgments, loaded_runs
from ragtrial.runs.qrels import Qrels, Run
from ragtrial.runs.streams import is_read_once, name_of
from ragtrial.runs.trec.in_memory import in_order
from ragtrial.scoring.score_runs import RunScores, Scoring


def write_score_report(
    scoring: Scoring, given: RunInput, target: str | Path, others: Mapping[str, Any] | None = None
) -> Report:
    """Write what was scored as the folder ``target``, which is new; the report, with ``others`` of its fields.

    Raises InputError if ``target`` is there already or a run came from standard input, which cannot be read again;
    RunError if it cannot be written.
    """
    folder = Path(target)
    check_target(folder, given)
    judged = load_judgments(given)
    qrels = judged.qrels
    runs = [
        in_order(run, scoring.protocol.order)
        for source, name in given.named_runs()
        for run in loaded_runs(source, name, given, judged.labels, lenient=scoring.protocol.trec_compat)
    ]
    rows = [_rows(qrels, run, scoring.protocol.depth) for run in runs]
    names = distinct([file_name(run.name) for run in scoring.runs])
    scored = tuple(replace(run, name=name) for run, name in zip(scoring.runs, names, strict=True))
    report = _report(replace(scoring, runs=scored), qrels, rows, given, folder.name).model_copy(update=others)
    rankings = {run.name: iter(ranked.values()) for run, ranked in zip(scored, rows, strict=True)}
    try:
        with only_writer(folder.parent, folder.name):
            return write_folder(report, folder, rankings, [], json.dumps(report.config, indent=1) + "\n")
    except OSError as error:
        message = f"cannot be written: {error.strerror or error}. Free space, or name another folder."
        raise RunError(Fault(str(folder), message=message)) from error


def check_target(folder: Path, given: RunInput) -> None:
    """Raises InputError if a report of what is given cannot become ``folder``, before anything is scored."""
    if folder.exists():
        raise InputError(Fault(str(folder), message="is there already; a report is a new folder. Name another one."))
    for source in (given.qrels, *given.runs):
        if isinstance(source, str | Path) and is_read_once(source):
            message = "is read once, and a report cannot be made of standard input or a pipe; save it to a file first."
            raise InputError(Fault(name_of(source), message=message))


def _report(
    scoring: Scoring, qrels: Qrels, rows: list[dict[str, dict[str, Any]]], given: RunInput, experiment: str
) -> Report:
    protocol = scoring.protocol
    queries = list(_query_parts(qrels))
    settings = [_setting(run, ranked, qrels, protocol.depth) for run, ranked in zip(scoring.runs, rows, strict=True)]
    warnings = dict.fromkeys(warning for run in scoring.runs for warning in run.warnings)
    sources = {"qrels": _shown(given.qrels), "runs": [_shown(source) for source in given.runs]}
    return Report(
        schema_version=SCHEMA_VERSION,
        experiment=experiment,
        run_id=new_run_id(datetime.now(UTC)),
        config={"score": {**sources, **protocol.as_json()}},
        dataset=DatasetPart(
            documents=None,
            empty_documents=None,
            queries=len(queries),
            documents_fingerprint=None,
            labels_fingerprint=fingerprint([query.model_dump(mode="json") for query in queries]),
        ),
        primary_metric=str(protocol.metrics[0]),
        metrics={
            str(metric): metric_part(metric, protocol.relevance_threshold, protocol.no_relevant)
            for metric in protocol.metrics
        },
        prompt=None,
        queries=queries,
        settings=settings,
        failures=[],
        warnings=[WarningPart(code=warning.code, message=warning.message) for warning in warnings],
        environment=environment(),
    )


def _setting(run: RunScores, ranked: dict[str, dict[str, Any]], qrels: Qrels, depth: int | None) -> SettingPart:
    counts: dict[str, int | None] = {
        "rows": run.counts.rows,
        "duplicates": run.counts.duplicates,
        "queries_tied": run.counts.tied,
        "queries_without_hits": run.mismatch.missing,
        "queries_not_judged": run.mismatch.unknown,
    }
    return SettingPart(
        name=run.name,
        fingerprint=fingerprint(list(ranked.values())),
        parameters={"retriever": {"kind": "run_file"}},
        scores={name: MeanPart(mean=mean.mean, n=mean.n) for name, mean in run.scores.items()},
        counts=counts,
        index={},
        health=None,
        audit=None,
        timings=dict(run.seconds),
        latency=None,
        queries=list(_query_scores(run, ranked, qrels, depth)),
    )


def _rows(qrels: Qrels, run: Run, depth: int | None) -> dict[str, dict[str, Any]]:
    """For each judged query what the run found for it, as it stands in rankings/; nothing where it has nothing."""
    documents = list(run.documents)
    scores = None if run.values is None or run.by_rank else run.values.tolist()
    places = {query: index for index, query in enumerate(run.queries)}
    rows: dict[str, dict[str, Any]] = {}
    for query in qrels.queries:
        start, end = (0, 0) if query not in places else run.starts[places[query] : places[query] + 2].tolist()
        end = end if depth is None else min(end, start + depth)
        rows[query] = {"query": query, "docs": documents[start:end]}
        if scores is not None:
            rows[query]["scores"] = scores[start:end]
    return rows


def _query_scores(
    run: RunScores, ranked: dict[str, dict[str, Any]], qrels: Qrels, depth: int | None
) -> Iterator[QueryScores]:
    documents, grades = list(qrels.documents), qrels.judgments.grades.tolist()
    starts = qrels.judgments.starts.tolist()
    values = run.per_query()
    for index, query in enumerate(qrels.queries):
        row = ranked[query]
        known = dict(zip(documents[starts[index] : starts[index + 1]], grades[starts[index] : starts[index + 1]],
                         strict=True))  # fmt: skip
        scores = row.get("scores") or [None] * len(row["docs"])
        hits = [
            HitPart(doc=doc, chunk=None, start=None, end=None, rank=rank, score=score, grade=known.get(doc))
            for rank, (doc, score) in enumerate(zip(row["docs"][:HITS_SHOWN], scores, strict=False), 1)
        ]
        short = depth is not None and len(row["docs"]) < depth
        yield QueryScores(id=query, evaluations=values[query], hits=hits, short=short, collapsed=0)


def _query_parts(qrels: Qrels) -> Iterator[QueryPart]:
    documents, grades, starts = list(qrels.documents), qrels.judgments.grades.tolist(), qrels.judgments.starts.tolist()
    for index, query in enumerate(qrels.queries):
        rows = zip(documents[starts[index] : starts[index + 1]], grades[starts[index] : starts[index + 1]], strict=True)
        yield QueryPart(
            id=query,
            text="",
            tags=[],
            ordered=bool(qrels.judgments.ordered[index]),
            relevant_docs=[JudgmentPart(doc=doc, relevance=grade) for doc, grade in rows],
        )


def file_name(name: str) -> str:
    """``name`` as a file can be called: with nothing in it that leads elsewhere, and not too long."""
    return re.sub(r"[^\w.-]+", "-", name).strip(".-")[:100] or "run"


def _shown(source: Any) -> str:
    return without_secrets(str(source)) if isinstance(source, str | Path) else type(source).__name__
