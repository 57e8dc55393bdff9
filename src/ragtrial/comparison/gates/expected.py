"""Expected scores with tolerances, and whether a report has them: OK, nearly, or FAIL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ragtrial.report.schema import Part, SettingPart

TOLERANCE = 0.001
NEARLY = 0.01
"""Where a file says nothing else: what counts as equal, and what only nearly does."""

Agreement = Literal["OK", "nearly", "FAIL", "not checked"]

_ROUNDING = 1e-12


@dataclass(frozen=True)
class ExpectedScore:
    """The value that a setting should have: within ``tolerance`` it has, within ``nearly`` it nearly has."""

    setting: str
    metric: str
    value: float
    tolerance: float = TOLERANCE
    nearly: float = NEARLY


class ExpectedOutcome(Part):
    """An expected score, and what was found."""

    setting: str
    metric: str
    expected: float
    tolerance: float
    nearly: float
    found: float | None
    """Null where no query counts, which fails, and for a setting that could not be run, which is not checked."""

    outcome: Agreement


def judge_expected(
    expected: Sequence[ExpectedScore], settings: Mapping[str, SettingPart], failed: Collection[str] = ()
) -> list[ExpectedOutcome]:
    """What came of every expected score, in their order; a score too high is as unexpected as one too low.

    ``failed`` are settings that could not be run.
    """
    return [_judged(one, settings, failed) for one in expected]


def _judged(one: ExpectedScore, settings: Mapping[str, SettingPart], failed: Collection[str]) -> ExpectedOutcome:
    found = None if one.setting in failed else settings[one.setting].scores[one.metric].mean
    return ExpectedOutcome(
        setting=one.setting,
        metric=one.metric,
        expected=one.value,
        tolerance=one.tolerance,
        nearly=one.nearly,
        found=found,
        outcome="not checked" if one.setting in failed else _agreement(one, found),
    )


def _agreement(one: ExpectedScore, found: float | None) -> Agreement:
    if found is None:
        return "FAIL"
    off = abs(found - one.value) - _ROUNDING * max(1.0, abs(one.value))
    return "OK" if off <= one.tolerance else "nearly" if off <= one.nearly else "FAIL"
