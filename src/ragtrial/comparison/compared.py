"""The settings of a comparison as its conclusion needs them: means, counts, costs and names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ragtrial.comparison.commands import Commands
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.comparison_parts import FoundPart
from ragtrial.comparison.tradeoffs import weigh_costs
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.records import Direction
from ragtrial.report.schema import PAID, ScoredPart


@dataclass(frozen=True)
class Cheapest:
    """The cheapest of some settings: by which cost, in words, and how much it is."""

    setting: str
    cost: str


@dataclass(frozen=True)
class Compared:
    """Settings with their means of ``metric``, which decides.

    ``found`` counts the questions for which each setting finds an answer; None if that is unknown. ``called`` has the
    names of settings in sentences. ``cheapest`` of some settings is None if no cost is known for all of them, or all
    costs are equal. ``are_pairs_by_name``: settings of equal names in several reports are compared.
    """

    means: Mapping[str, float | None]
    metric: str
    scored: ScoredPart
    better: Direction = "higher"
    found: FoundPart | None = None
    commands: Commands = field(default_factory=Commands)
    called: Mapping[str, str] = field(default_factory=dict)
    cheapest: Callable[[Sequence[str]], Cheapest | None] = lambda _names: None
    are_pairs_by_name: bool = False

    def ranked(self, names: Sequence[str]) -> list[str]:
        """``names``, best mean first; those without one last."""
        sign = -1 if self.better == "lower" else 1
        return sorted(names, key=lambda name: math.inf if (mean := self.means[name]) is None else -sign * mean)


def compared_of(inputs: ComparisonInput, commands: Commands, estimated: Scores | None = None) -> Compared:
    """The settings of ``inputs``; ``estimated`` are their means with a judge, for which answers are not counted."""
    values = inputs.scores(inputs.primary).values
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        means = np.where(known, values, 0.0).sum(axis=1) / known.sum(axis=1) if estimated is None else estimated
    return Compared(
        means={name: None if np.isnan(mean) else float(mean) for name, mean in zip(inputs.names, means, strict=True)},
        metric=inputs.primary,
        scored=inputs.scored_queries(),
        better="higher" if inputs.sign(inputs.primary) > 0 else "lower",
        found=found_answers(inputs) if estimated is None else None,
        commands=commands,
        called=_called(inputs),
        cheapest=partial(cheapest_of, inputs),
        are_pairs_by_name=inputs.are_pairs_by_name,
    )


def found_answers(inputs: ComparisonInput) -> FoundPart | None:
    """For how many of the questions that count for all settings each finds an answer where the deciding metric cuts.

    None without a cutoff, where grades of 1 are not relevant, and where a report has no hit_rate at that cutoff.
    """
    k = parse_metric(inputs.primary).k
    settings = [setting.part for setting in inputs.settings]
    columns = [setting.per_query.evaluations.get(f"hit_rate@{k}") for setting in settings]
    thresholds = {setting.report.relevance_threshold for setting in inputs.settings}
    if k is None or thresholds != {1} or any(column is None for column in columns):
        return None
    hits = np.array(columns, dtype=np.float64)  # None becomes NaN
    counted = ~np.isnan(hits).any(axis=0) & ~np.isnan(inputs.scores(inputs.primary).values).any(axis=0)
    counts = np.count_nonzero(hits[:, counted] > 0, axis=1)
    return FoundPart(
        k=k,
        questions=int(counted.sum()),
        by_setting={name: int(count) for name, count in zip(inputs.names, counts, strict=True)},
    )


def cheapest_of(inputs: ComparisonInput, names: Sequence[str]) -> Cheapest | None:
    """The cheapest of the settings called ``names``: by money, or else by latency, context or size of the index.

    By the first of these that is known of all and not the same for all; None where there is none.
    """
    weighed = weigh_costs(inputs)
    parts = {part.setting: part for part in weighed.settings}
    settings = {name: inputs.settings[inputs.place(name)].part for name in names}
    unit = f"{weighed.context_unit}@{weighed.k}" if weighed.k else weighed.context_unit
    costs: list[tuple[str, Callable[[str], float | None], str, float]] = [
        ("for 1,000 queries", lambda name: settings[name].cost(PAID[1]), ".2f", 1.0),
        ("ms per query", lambda name: parts[name].latency, ",.1f", 1000.0),
        (unit, lambda name: parts[name].context, ",.0f", 1.0),
        ("MB of index", lambda name: parts[name].index, ",.1f", 1e-6),
    ]
    for title, cost, form, scale in costs:
        known = {name: scale * value for name in names if (value := cost(name)) is not None}
        if len(known) == len(names) and len(set(known.values())) > 1:
            cheapest, dearest = min(known, key=lambda name: known[name]), max(known.values())
            return Cheapest(
                cheapest, f"{format(known[cheapest], form)} {title}, the others up to {format(dearest, form)}"
            )
    return None


def _called(inputs: ComparisonInput) -> dict[str, str]:
    """The name of each setting in sentences, short if no more than two reports are compared name by name."""
    is_short = inputs.are_pairs_by_name and len(inputs.report_names) == 2
    return {one.name: one.part.name if is_short else one.name for one in inputs.settings}
