"""Reports that contradict themselves, or have nothing in them, are not compared."""

from __future__ import annotations

import pytest

from contests import RUN, report_of
from ragtrial.comparison.comparison_input import input_of
from ragtrial.errors import ComparisonError
from ragtrial.report.model import Report
from ragtrial.report.schema import FailurePart


def test_what_no_report_may_be_is_refused_all_at_once() -> None:
    twice = report_of({"a": [0.5, 0.5], "b": [0.5, 0.5]})
    a, b = twice.settings
    report = twice.model_copy(update={"settings": [a, a, b], "queries": [*twice.queries, twice.queries[1]]})
    with pytest.raises(ComparisonError) as caught:
        input_of([report])
    assert str(caught.value).splitlines() == [
        f"report {RUN}: has two of the setting 'a'. It was changed by hand; run it again.",
        f"report {RUN}: has two of the query 'q2'. It was changed by hand; run it again.",
    ]


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (report_of({"a": [], "b": []}), "has no queries; there is nothing to compare."),
        (report_of({}, queries=report_of({"a": [1.0]}).queries, failures=[FailurePart(name="a", error="x")]),
         "has no settings; there is nothing to compare."),
    ],
)  # fmt: skip
def test_a_report_of_nothing_is_nothing_to_compare(report: Report, message: str) -> None:
    with pytest.raises(ComparisonError) as caught:
        input_of([report])
    assert str(caught.value) == f"report {RUN}: {message}"
