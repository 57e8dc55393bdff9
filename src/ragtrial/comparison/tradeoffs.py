"""Quality against costs: the settings that no cheaper setting beats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

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
    in_tokens = all(one.tokens is not None for setting in settings for one in setting.context)
    columns = {name: _column(settings, name, k, in_tokens=in_tokens) for name in _COSTS}
    known: list[CostName] = [name for name, column in columns.items() if not np.isnan(column).all()]
    quality = inputs.sign(inputs.primary) * means
    fronts = {name: pareto(quality, [columns[name]]) for name in known}
    of_all = pareto(quality, [columns[name] for name in known])
    parts = [
        TradeoffPart(
            setting=setting.name,
            mean=finite(means[place]),
            n=int(n[place]),
            latency=finite(columns["latency"][place]),
            context=finite(columns["context"][place]),
            index=None if (size := finite(columns["index"][place])) is None else int(size),
            vector_bytes=setting.part.costs.vector_bytes if setting.part.costs else None,
            undominated={name: _marked(fronts[name], place, means, columns[name]) for name in known},
            undominated_in_all=_marked(of_all, place, means, *(columns[name] for name in known)) if known else None,
        )
        for place, setting in enumerate(inputs.settings)
    ]
    return TradeoffsPart(
        metric=inputs.primary,
        k=k,
        context_unit="tokens" if in_tokens else "characters",
        costs=known,
        settings=[parts[place] for place in np.lexsort((np.arange(len(parts)), -quality)).tolist()],
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


def _column(settings: Sequence[SettingPart], cost: CostName, k: int | None, *, in_tokens: bool) -> Scores:
    """A cost of each setting, NaN where it is not known."""
    known: list[float | None] = []
    for setting in settings:
        if cost == "latency":
            known.append(setting.latency.p50 if setting.latency else None)
        elif cost == "index":
            known.append(setting.costs.index_bytes if setting.costs else None)
        else:
            cutoff = max((one.k for one in setting.context), default=None) if k is None else k
            found = next((size for size in setting.context if size.k == cutoff), None)
            known.append(None if found is None else found.tokens if in_tokens else found.characters)
    return np.array(known, dtype=np.float64)  # None becomes NaN


def _marked(front: Bools, place: int, *needed: Scores) -> bool | None:
    return None if any(np.isnan(one[place]) for one in needed) else bool(front[place])


def _warnings(settings: Sequence[SettingPart]) -> Iterator[WarningPart]:
    machines = dict.fromkeys(setting.latency.machine for setting in settings if setting.latency)
    if len(machines) > 1:
        yield WarningPart(
            code="latency-machines",
            message=f"latencies were measured on different machines, and do not compare: {'; '.join(machines)}.",
        )
