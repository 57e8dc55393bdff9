"""The metrics of a config: the standard metrics of each family at its cutoffs, and named metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from ragtrial.components.user_functions import FunctionReference
from ragtrial.config.models import ExperimentConfig, FamilyOptions, scored
from ragtrial.config.strict_yaml import KeyPath
from ragtrial.config.sweep import PlacedFault
from ragtrial.config.variants import all_configs, follow
from ragtrial.errors import MetricError, counted
from ragtrial.evaluation.metrics import METRICS, Metric, parse_metric
from ragtrial.evaluation.metrics.base import LabelKind, MetricFamily
from ragtrial.options import dotted
from ragtrial.records import Query, Unit

_STANDARD_CUTOFFS = {"order_unaware": (1, 3, 5, 10), "order_aware": (10,), "graded": (5, 10)}


@dataclass(frozen=True)
class PlacedFunction(FunctionReference):
    """A function that is a metric, and the place in the config that names it."""

    where: KeyPath = ()


@dataclass(frozen=True)
class MetricChoice:
    """The metrics of a run, in the order of the families, and the primary metric."""

    metrics: tuple[Metric, ...]
    primary: Metric
    functions: Mapping[str, PlacedFunction] = field(default_factory=dict)
    """The functions of the user among the metrics, by name."""

    def at_depth(self, depth: int | None) -> MetricChoice:
        """The same metrics, each cut at ``depth`` alone: for rankings that end elsewhere.

        Without metrics that divide by the cutoff, which are meaningless for such rankings.
        """
        kept = [metric for metric in self.metrics if not metric.definition.divides_by_k]
        at = [metric if metric.definition.cut == "none" else metric.at(depth) for metric in kept]
        return MetricChoice(tuple(dict.fromkeys(at)), self.primary)


def depth_of(config: ExperimentConfig) -> int:
    """The deepest cutoff that every setting can serve: the lowest top_k."""
    return min((depth for depth, _ in _depths(config)), default=1)


def _depths(config: ExperimentConfig) -> list[tuple[int, str]]:
    """The top_k of all settings, with their entries."""
    return [(ranker.top_k, name) for variant in all_configs(config) for name, ranker in scored(variant).items()]


def choose_metrics(config: ExperimentConfig, labels: Iterable[Query] = ()) -> tuple[MetricChoice, list[PlacedFault]]:
    """The metrics of ``config``, and its faults, each at its place.

    Metrics that need ``labels`` of some kind are standard metrics if any query has such labels.
    """
    kinds = set[LabelKind]()
    for query in labels:
        kinds |= {"order"} if query.ordered else set()
        kinds |= {"groups"} if any(label.group is not None for label in query.relevant_docs) else set()
        kinds |= {"forbidden"} if any(label.relevance < 0 for label in query.relevant_docs) else set()
    depth, unit = depth_of(config), config.evaluators.unit
    faults, too_deep = list[PlacedFault](), list[PlacedFault]()
    chosen, places = list[Metric](), dict[str, KeyPath]()
    for family in get_args(MetricFamily):
        options: FamilyOptions = getattr(config.evaluators, family)
        where: KeyPath = ("evaluators", family)
        cutoffs = [k for k in (_STANDARD_CUTOFFS[family] if options.k is None else options.k) if k <= depth]
        too_deep += [((*where, "k", index), f"{k},") for index, k in enumerate(options.k or ()) if k > depth]
        if options.k is None:
            cutoffs = cutoffs or [depth]
        for name, known in METRICS.registered():
            if known.family == family and known.standard and known.has_unit(unit) and known.labels in {None, *kinds}:
                chosen += [parse_metric(name).at(k) for k in (cutoffs if known.cut != "none" else [None])]
        for index, text in enumerate(options.metrics):
            place: KeyPath = (*where, "metrics", index)
            metric = _parsed(text, unit, depth, place, faults, too_deep)
            if metric and metric.definition.family != family:
                right = metric.definition.family
                faults.append((place, f"{dotted(place)} is {metric}, which is {right}; list it in evaluators.{right}."))
            elif metric:
                chosen.append(metric)
                places[metric.name] = place
    named = config.evaluators.primary_metric
    primary = _parsed(named, unit, depth, ("evaluators", "primary_metric"), faults, too_deep) if named else None
    primary = primary or parse_metric("ndcg").at(min(10, depth))
    places.setdefault(primary.name, ("evaluators", "primary_metric"))
    if too_deep:  # one fault for all
        place, what = too_deep[0]
        by = ", ".join(dict.fromkeys(repr(name) for top_k, name in _depths(config) if top_k == depth))
        others = f" (and {counted(len(too_deep) - 1, 'more cutoff')})" if len(too_deep) > 1 else ""
        message = f"{dotted(place)} is {what} above the top_k of {depth} of {by}{others}; only that many are kept."
        faults.insert(0, (place, f"{message} Lower k, or raise every retriever's top_k."))
    functions = {name: _function(config, name, place) for name, place in places.items() if ":" in name}
    return MetricChoice(_sorted([*chosen, primary]), primary, functions), faults


def _function(config: ExperimentConfig, name: str, where: KeyPath) -> PlacedFunction:
    """The function that is named at a place of ``config``, and may be in a file beside the file that has the name."""
    return PlacedFunction(name, getattr(follow(config.content.value, where), "folder", Path.cwd()), where)


def _parsed(
    text: str, unit: Unit, depth: int, where: KeyPath, faults: list[PlacedFault], too_deep: list[PlacedFault]
) -> Metric | None:
    metric = parse_metric(text)
    try:
        metric.check_unit(unit)
    except MetricError as error:
        faults.append((where, f"{dotted(where)}: {error}"))
        return None
    if metric.definition.of_chunks:
        return metric
    if metric.definition.cut == "none":
        fault = f"{dotted(where)} is {metric}, which has no cutoff, and a run keeps only the first hits (top_k)."
        faults.append((where, f"{fault} `ragtrial score` has it, for whole rankings."))
        return None
    if metric.k is not None and metric.k > depth:
        too_deep.append((where, f"{metric}, cut"))
        return None
    return metric if metric.k else metric.at(depth)


def _sorted(metrics: list[Metric]) -> tuple[Metric, ...]:
    """By family and name as they are registered, then by cutoff; each once."""
    order = {name: index for index, (name, _) in enumerate(METRICS.registered())}
    families = list(get_args(MetricFamily))

    def key(metric: Metric) -> tuple[int, int, str, int]:
        family, last = families.index(metric.definition.family), len(order)
        return family, order.get(metric.name, last), str(metric.at(None)), metric.k or 0

    return tuple(sorted(dict.fromkeys(metrics), key=key))
