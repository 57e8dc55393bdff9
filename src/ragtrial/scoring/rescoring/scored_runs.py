"""Reports of runs that other tools made, scored again: their rankings are documents alone, their rules a protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ragtrial.errors import CutoffError, InputError
from ragtrial.evaluation.metrics import parse_metrics
from ragtrial.report.model import Report, new_run_id
from ragtrial.runs.inputs import RunInput
from ragtrial.scoring.as_report import write_score_report
from ragtrial.scoring.rescoring.new_labels import choose_labels
from ragtrial.scoring.score_runs import Protocol, score_given


def is_of_given_runs(report: Report) -> bool:
    """Whether it was made by ``ragtrial score -o``."""
    return set(report.config) == {"score"}


def rescore_given_runs(
    report: Report, labels: str | Path | None, metrics: str | None, target: str | Path | None
) -> Report:
    """Score the rankings of a report of ``ragtrial score`` again, by its own rules, and write that as a report.

    ``labels`` and ``metrics`` are by default those of ``report``. Raises CutoffError for metrics that look deeper than
    was kept; InputError where unjudged hits were dropped from cut rankings, since what would move up was not kept.
    """
    rules = report.config["score"]
    chosen = choose_labels(report, labels)
    protocol = _protocol(rules, metrics)
    deep = [str(one) for one in protocol.metrics if protocol.depth is not None and (one.k or 0) > protocol.depth]
    if metrics is not None and deep:
        raise CutoffError(
            f"{', '.join(deep)}: run {report.run_id} kept only the first {protocol.depth} hits (--depth)."
        )
    if protocol.judged_only and protocol.depth is not None and labels is not None:
        raise InputError(
            f"run {report.run_id} was scored with --judged-only and --depth {protocol.depth}: which hits would move up "
            "by other labels was not kept. Score its runs again with `ragtrial score`."
        )
    given = RunInput(chosen.labels, (str(report.folder),))
    scoring = score_given(given, protocol)
    runs = tuple(replace(run, warnings=(*chosen.warnings, *run.warnings)) for run in scoring.runs)
    sources = {"qrels": rules["qrels"] if labels is None else str(labels), "runs": rules["runs"]}
    run_id = new_run_id(datetime.now(UTC))
    folder = report.folder.with_name(f"{report.folder.name}-{run_id}") if target is None else Path(target)
    others = {"run_id": run_id, "parent": report.run_id, "config": {"score": {**protocol.as_json(), **sources}}}
    return write_score_report(replace(scoring, runs=runs), given, folder, others)


def _protocol(rules: Mapping[str, Any], metrics: str | None) -> Protocol:
    chosen = tuple(parse_metrics(rules["metrics"] if metrics is None else metrics))
    names = [field.name for field in fields(Protocol) if field.name != "metrics" and field.name in rules]
    return Protocol(chosen, **{name: rules[name] for name in names})
