"""Means over k: what each setting scores where the ranking is cut earlier or later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ragtrial.comparison.contest import Contest
from ragtrial.evaluation.metrics import parse_metric


@dataclass(frozen=True)
class Curve:
    """A metric that has several cutoffs."""

    metric: str
    """Without its cutoff."""

    cutoffs: tuple[int, ...]
    """Ascending."""

    means: dict[str, list[float | None]]
    """For each setting the mean at each cutoff, over the queries that count for it; None where it has none."""


def curves_of(contest: Contest) -> Iterator[Curve]:
    """One for each metric of the first report that has two cutoffs or more."""
    by_name: dict[str, list[tuple[int, str]]] = {}
    for name in contest.contenders[0].report.metrics:
        metric = parse_metric(name)
        if metric.k is not None:
            by_name.setdefault(str(metric.at(None)), []).append((metric.k, name))
    for base, cutoffs in by_name.items():
        if len(cutoffs) > 1:
            ordered = sorted(cutoffs)
            means = {
                contender.name: [
                    contender.setting.scores[name].mean if name in contender.setting.scores else None
                    for _, name in ordered
                ]
                for contender in contest.contenders
            }
            yield Curve(base, tuple(k for k, _ in ordered), means)
