"""By which rules a report is scored again: those of its config, changed by --set and --metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from ragtrial.config import ExperimentConfig
from ragtrial.config.load import config_as_written
from ragtrial.config.metric_choice import MetricChoice, choose_metrics, depth_of
from ragtrial.errors import ConfigError, CutoffError, Fault, InputError, MetricError
from ragtrial.evaluation.metrics import Metric, parse_metric
from ragtrial.evaluation.metrics.base import Family
from ragtrial.evaluation.metrics.spelling import spellings
from ragtrial.report.model import Report

_KEY = "evaluators."


def config_of(report: Report, overrides: Sequence[str], metrics: str | None, folder: Path) -> ExperimentConfig:
    """The config of ``report`` with other ``evaluators``, its paths taken as relative to ``folder``.

    ``metrics`` are names with commas between, in place of those of the config; the first decides. Raises InputError
    for overrides of anything else: they would need another run; MetricError; ConfigError.
    """
    keys = [override.partition("=")[0].strip() for override in overrides]
    faults = [
        Fault(f"--set #{number}", message=f"{key} cannot be changed without another run; "
              "only keys of evaluators can.")
        for number, key in enumerate(keys, 1)
        if not key.startswith(_KEY)
    ]  # fmt: skip
    faults += [
        Fault(f"--set #{number}", message="evaluators.unit is what was ranked; for another one run the experiment.")
        for number, key in enumerate(keys, 1)
        if key == f"{_KEY}unit"
    ]
    if faults:
        raise InputError(*faults)
    written = report.config if metrics is None else _with_metrics(report.config, metrics)
    return config_as_written(written, folder, overrides, f"the config of run {report.run_id}")


def chosen_metrics(config: ExperimentConfig, *, ordered: bool) -> MetricChoice:
    """The metrics of ``config``, as a run chooses them. Raises CutoffError for those that look deeper than was kept."""
    deep = list(dict.fromkeys(_too_deep(config)))
    if deep:
        depth = depth_of(config)
        raise CutoffError(
            f"{', '.join(deep)}: only the first {depth} hits were kept (top_k), and deeper ones are not known. Choose "
            "lower cutoffs, or run the experiment with a higher top_k."
        )
    choice, faults = choose_metrics(config, ordered=ordered)
    if faults:
        raise ConfigError(*(config.fault_at(where, message) for where, message in faults))
    return choice


def _too_deep(config: ExperimentConfig) -> Iterator[str]:
    depth, options = depth_of(config), config.evaluators
    for family in get_args(Family):
        own = getattr(options, family)
        yield from (f"evaluators.{family}.k {k}" for k in own.k or () if k > depth)
        yield from (name for name in own.metrics if (parse_metric(name).k or 0) > depth)
    if options.primary_metric and (parse_metric(options.primary_metric).k or 0) > depth:
        yield options.primary_metric


def _with_metrics(written: Mapping[str, Any], names: str) -> dict[str, Any]:
    """The config with these metrics alone, each in its family."""
    metrics: list[Metric] = []
    faults: list[Fault] = []
    for name in spellings(names):
        try:
            metrics.append(parse_metric(name))
        except MetricError as error:
            faults += error.faults
    if faults:
        raise MetricError(*faults)
    if not metrics:
        raise MetricError(f"{names!r} names no metric; write them like ndcg@10,ap,rbp(p=0.8)@10.")
    families = {
        family: {"k": [], "metrics": [str(one) for one in metrics if one.definition.family == family]}
        for family in get_args(Family)
    }
    evaluators = {**written.get("evaluators", {}), **families, "primary_metric": str(metrics[0])}
    return {**written, "evaluators": evaluators}
