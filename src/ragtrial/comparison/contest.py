"""What is compared: settings of one or more reports, over the same queries and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ragtrial.errors import ReportError, did_you_mean, listed
from ragtrial.grading import Scores
from ragtrial.records import Caution
from ragtrial.report import Report
from ragtrial.report_parts import QueryPart, SettingPart


@dataclass(frozen=True, eq=False)
class Contender:
    """A setting of a report. ``name`` is ``SETTING``, or ``REPORT:SETTING`` where several reports are compared."""

    name: str
    report: Report
    setting: SettingPart


@dataclass(frozen=True)
class Pair:
    """Two contenders, by their place: the difference is that of ``setting`` less that of ``baseline``."""

    baseline: int
    setting: int


@dataclass(frozen=True, eq=False)
class PairedScores:
    """One metric's values, shape (contenders, queries); NaN where a query does not count for a contender."""

    metric: str
    values: Scores

    def differences(self, pairs: Sequence[Pair]) -> Scores:
        """Shape (pairs, queries); NaN where a query does not count for both."""
        settings, baselines = [pair.setting for pair in pairs], [pair.baseline for pair in pairs]
        return np.asarray(self.values[settings] - self.values[baselines])


@dataclass(frozen=True, eq=False)
class Contest:
    """Contenders that may be compared, over ``queries``, by ``metrics``, of which the first is the primary one."""

    contenders: tuple[Contender, ...]
    queries: tuple[QueryPart, ...]
    metrics: tuple[str, ...]
    cautions: tuple[Caution, ...] = ()

    @property
    def primary(self) -> str:
        return self.metrics[0]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(contender.name for contender in self.contenders)

    def place(self, name: str) -> int:
        """Where the contender called ``name`` stands. Raises ReportError with those that there are."""
        if name not in self.names:
            near = did_you_mean(name, self.names)
            raise ReportError(f"no setting {name!r} is compared.{near} There are: {listed(self.names)}.")
        return self.names.index(name)

    def pairs(self, baseline: str | None = None) -> tuple[Pair, ...]:
        """Every other contender against ``baseline``, or all pairs; of those the one that stands first is it."""
        if baseline is None:
            return tuple(Pair(first, second) for first, second in combinations(range(len(self.contenders)), 2))
        place = self.place(baseline)
        return tuple(Pair(place, other) for other in range(len(self.contenders)) if other != place)

    def scores(self, metric: str) -> PairedScores:
        """The values of a metric for each contender and each of the queries."""
        values = np.full((len(self.contenders), len(self.queries)), np.nan)
        places = {query.id: place for place, query in enumerate(self.queries)}
        for row, contender in enumerate(self.contenders):
            for query in contender.setting.queries:
                value = query.evaluations.get(metric)
                if value is not None and query.id in places:
                    values[row, places[query.id]] = value
        return PairedScores(metric, values)


def contest_of(reports: Sequence[Report], metrics: Sequence[str] | None = None) -> Contest:
    """All settings of ``reports``."""
    several = len(reports) > 1
    contenders = tuple(
        Contender(f"{report.run_id}:{setting.name}" if several else setting.name, report, setting)
        for report in reports
        for setting in report.settings
    )
    primary = reports[0].primary_metric
    names = list(reports[0].metrics) if metrics is None else list(metrics)
    names = [primary, *(name for name in names if name != primary)] if metrics is None else names
    return Contest(contenders, tuple(reports[0].queries), tuple(names))
