"""A comparison in one call, as Python code asks for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from ragtrial.comparison.comparing import ComparisonOptions, compare_settings
from ragtrial.comparison.comparison_parts import Comparison
from ragtrial.comparison.contest import contest_of
from ragtrial.comparison.report_inputs import Reference
from ragtrial.comparison.statistics.procedures import DEFAULT
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.comparison.verdicts import too_wide
from ragtrial.errors import ComparisonError


def compare(
    *reports: Reference,
    baseline: Reference | None = None,
    settings: Sequence[str] | None = None,
    metric: str | None = None,
    metrics: Sequence[str] | None = None,
    margin: float = 0.02,
    confidence: float = 0.95,
    all_pairs: bool = False,
    common: bool = False,
    procedure: str = DEFAULT,
    flips: int = 10_000,
    seed: int = 0,
    directory: str | Path = "results",
) -> Comparison:
    """Which settings of one or more reports are better, by how much, and how sure one can be.

    A report is a ``Report``, its folder, its id or ``latest`` (looked for in ``directory``), or one of its settings,
    ``REPORT:SETTING``. Settings of several reports are called so, too. All others are compared with ``baseline``, a
    setting or a report (then those of equal names); without one all pairs are, and of several reports the first is it,
    unless ``all_pairs`` are asked for. ``metric`` decides, or the first of ``metrics``, or the primary metric of the
    first report; the others are shown beside it. A difference below ``margin`` would not matter. ``procedure`` is one
    of docs/statistics.md; by that which is usual all intervals of a metric hold together with the probability
    ``confidence``. With ``common`` only those queries are compared that have the same labels in all reports.

    Raises InputError for reports that cannot be read or may not be compared, and for numbers out of range.
    """
    flipping = checked_procedure(margin, confidence, flips, seed)
    contest = contest_of(
        reports,
        metrics,
        primary=metric,
        settings=settings,
        baseline=baseline,
        all_pairs=all_pairs,
        common=common,
        directory=directory,
    )
    check_margin(margin, contest.primary)
    return compare_settings(contest, ComparisonOptions(contest.baseline, margin, flipping, procedure))


def checked_procedure(margin: float, confidence: float, flips: int, seed: int) -> Procedure:
    """How sure one wants to be, and by how many flips. Raises ComparisonError for a number out of range."""
    for name, value, fits, expected in (
        ("margin", margin, 0 <= margin < math.inf, "a number from 0 on"),
        ("confidence", confidence, 0.5 <= confidence <= 0.9999, "from 0.5 to 0.9999"),
        ("flips", flips, flips >= 100, "at least 100"),
        ("seed", seed, seed >= 0, "at least 0"),
    ):
        if not fits:
            raise ComparisonError(f"{name} is {value!r}; it must be {expected}.")
    level = round(1 - confidence, 12)  # 1 - 0.9 falls short of 0.1
    least = math.ceil(1 / level - 1)
    if flips < least:
        raise ComparisonError(
            f"{flips:,} flips never show a difference with confidence {confidence:g}; take {least:,} or more."
        )
    return Procedure(level, flips, seed)


def check_margin(margin: float, metric: str) -> None:
    """Raises ComparisonError for a margin beyond which no difference in ``metric`` could be: all would be within it."""
    if told := too_wide(margin, metric):
        raise ComparisonError(told)
