"""What a run or a comparison came to: all that is told to people and to continuous integration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ragtrial.comparison.comparison_parts import Comparison
from ragtrial.comparison.gates.conditions import GateOutcome
from ragtrial.comparison.gates.expected import ExpectedOutcome
from ragtrial.report.schema import FailurePart, SettingPart

FAILED = 1
INCOMPLETE = 4

_RUN_ID = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z")


@dataclass(frozen=True, eq=False)
class Findings:
    """Gates and expected scores with what came of them, beside what they were judged by.

    ``subject`` is what was run or compared, ``run_id`` that of the newest report; ``settings`` are those that were
    scored, best first, ``failures`` those that could not be run.
    """

    subject: str
    run_id: str
    primary_metric: str
    settings: Mapping[str, SettingPart]
    comparison: Comparison | None = None
    gates: tuple[GateOutcome, ...] = ()
    expected: tuple[ExpectedOutcome, ...] = ()
    failures: tuple[FailurePart, ...] = ()

    @property
    def time(self) -> str:
        """When the newest report was made, UTC, as ISO 8601 without a zone; the epoch where its id does not say."""
        match = _RUN_ID.match(self.run_id)
        return "{}-{}-{}T{}:{}:{}".format(*match.groups()) if match else "1970-01-01T00:00:00"

    @cached_property
    def failed(self) -> int:
        """How many gates and expected scores failed."""
        of_gates = sum(gate.outcome == "failed" for gate in self.gates)
        return of_gates + sum(one.outcome == "FAIL" for one in self.expected)

    @cached_property
    def unchecked(self) -> int:
        """How many gates and expected scores could not be checked, or not for all settings, and did not fail."""
        of_gates = sum(
            gate.outcome == "not checked"
            or (gate.outcome == "passed" and any(finding.outcome == "not checked" for finding in gate.findings))
            for gate in self.gates
        )
        return of_gates + sum(one.outcome == "not checked" for one in self.expected)

    @property
    def exit_code(self) -> int:
        """1 where anything failed, which no second try will mend; else 4 where a setting could not be run; else 0."""
        return FAILED if self.failed else INCOMPLETE if self.failures or self.unchecked else 0
