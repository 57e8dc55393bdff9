"""Warnings of one kind: three are printed, and of more the number."""

from __future__ import annotations

import pytest

from ragtrial.cli.terminal import Terminal
from ragtrial.records import ReportWarning, WarningCode


@pytest.mark.parametrize(("count", "rest"), [(1, []), (3, []), (4, ["1 more"]), (9, ["6 more"])])
def test_after_three_warnings_of_a_kind_only_their_number_is_printed(
    count: int, rest: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(as_json=False, quiet=False, verbose=False, no_color=True)
    terminal.warn([ReportWarning(WarningCode.FILES_MISSING, f"file {number}") for number in range(count)])
    lines = capsys.readouterr().err.splitlines()
    assert sum("file " in line for line in lines) == min(count, 3)
    assert [line.strip() for line in lines if line.strip().startswith("... and")] == [
        f"... and {more} of the kind {WarningCode.FILES_MISSING} (--json shows all)" for more in rest
    ]
