"""Quality against costs: the settings that no cheaper setting beats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.statistics.estimates import finite
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.rankings import Bools
from ragtrial.report.schema import Part, SettingPart, WarningPart

CostName = Literal["latency", "context", "index"]
_COSTS: tuple[CostName, ...] = ("latency", "context", "index")


class TradeoffPart(Part):
    """A setting's quality and costs; null where one is not known."""

    setting: str
    mean: float | None
    """The mean of the primary metric over the compared queries."""

    n: int
    latency: float | None
    """Seconds per query, the median."""

    context: float | None
    """How much text its first hits are, down to the cutoff of the metric, mean over queries."""

    index: int | None
    """Bytes of its index."""

    vector_bytes: int | None = None
    """Bytes of a vector as it is searched."""

    undominated: dict[CostName, bool | None]
    """For each cost that any setting has: whether no setting is as good and as cheap, and better in one of the two.
    Null where the quality or the cost is not known."""

    undominated_in_all: bool | None
    """The same for all these costs together; null if the quality or a cost is unknown. Only a setting with known costs
    can beat another."""


class TradeoffsPart(Part):
    """Settings, best first, with the Pareto sets marked. By means alone: what differs may do so by chance."""

    metric: str
    k: int | None
    """Where the context is cut; null for the whole ranking."""

    context_unit: Literal["tokens", "characters"]
    """Tokens where they are known of all settings that have a context."""

    costs: list[CostName]
    """The costs that are known for any setting."""

    settings: list[TradeoffPart]
    warnings: list[WarningPart]


def weigh_costs(inputs: ComparisonInput) -> TradeoffsPart:
    """Quality by the primary metric against latency, context and index size, with the Pareto set of each and of all.

    Settings that are equal in everything do not beat each other. Unknown values neither beat nor are beaten.
    """
    settings, k = [setting.part for setting in inputs.settings], parse_metric(inputs.primary).k
    scores = inputs.scores(inputs.primary)
    means, n = scores.means, (~np.isnan(scores.values)).sum(axis=1)
    in_tokens = all(size.tokens is not None for setting in settings for size in setting.context)
    unit: Literal["tokens", "characters"] = "tokens" if in_tokens else "characters"
    costs = [_costs(setting, k, unit) for setting in settings]
    columns = {name: np.array([own[name] for own in costs], dtype=np.float64) for name in _COSTS}  # None becomes NaN
    known: list[CostName] = [name for name, column in columns.items() if not np.isnan(column).all()]
    quality = inputs.sign(inputs.primary) * means
    fronts = {name: pareto(quality, [columns[name]]) for name in known}
    whole = pareto(quality, [columns[name] for name in known])
    parts = [
        TradeoffPart(
            setting=setting.name,
            mean=finite(means[row]),
            n=int(n[row]),
            **costs[row],
            vector_bytes=setting.part.costs.vector_bytes if setting.part.costs else None,
            undominated={name: _marked(fronts[name], row, means, columns[name]) for name in known},
            undominated_in_all=_marked(whole, row, means, *(columns[name] for name in known)) if known else None,
        )
        for row, setting in enumerate(inputs.settings)
    ]
    return TradeoffsPart(
        metric=inputs.primary,
        k=k,
        context_unit=unit,
        costs=known,
        settings=[parts[row] for row in np.argsort(-quality, kind="stable").tolist()],
        warnings=list(_warnings(settings)),
    )


def pareto(quality: Scores, costs: Sequence[Scores]) -> Bools:
    """The settings that no other setting dominates, shape (settings,); NaN is unknown.

    A setting dominates another if it is at least as good and at most as costly in everything, and better in something.
    A comparison with an unknown value is false.
    """
    at_least = quality[:, None] >= quality[None, :]
    better = quality[:, None] > quality[None, :]
    for cost in costs:
        at_least &= cost[:, None] <= cost[None, :]
        better |= cost[:, None] < cost[None, :]
    return np.asarray(~(at_least & better).any(axis=0))


def _costs(setting: SettingPart, k: int | None, unit: str) -> dict[CostName, Any]:
    """The costs of a setting; None where one is not known."""
    cutoff = max((size.k for size in setting.context), default=None) if k is None else k
    size = next((size for size in setting.context if size.k == cutoff), None)
    return {
        "latency": setting.latency and setting.latency.p50,
        "context": size and getattr(size, unit),
        "index": setting.costs and setting.costs.index_bytes,
    }


def _marked(front: Bools, row: int, *needed: Scores) -> bool | None:
    return None if any(np.isnan(column[row]) for column in needed) else bool(front[row])


def _warnings(settings: Sequence[SettingPart]) -> Iterator[WarningPart]:
    machines = dict.fromkeys(setting.latency.machine for setting in settings if setting.latency)
    if len(machines) > 1:
        yield WarningPart(
            code="latency-machines",
            message=f"latencies were measured on different machines, and do not compare: {'; '.join(machines)}.",
        )
