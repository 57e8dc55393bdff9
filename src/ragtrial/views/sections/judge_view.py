"""What a judge's judgments are worth beside people's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ragtrial.comparison.figures import signed
from ragtrial.views.sections.base import AnalysisInput, PageSection, View, ViewInput, registered
from ragtrial.views.table import Table

if TYPE_CHECKING:
    from ragtrial.comparison.judge.judge_part import AgreementPart, JudgePart


class JudgeView(View["JudgePart"]):
    """Where a comparison has a judge."""

    name, order = "judge", 15
    is_always_computed = True

    def compute(self, given: AnalysisInput) -> JudgePart | None:
        return given.comparison.judge

    def as_json(self, part: JudgePart | None) -> dict[str, Any]:
        return {} if part is None else super().as_json(part)

    def summary_lines(self, part: JudgePart) -> Sequence[str]:
        return part.sentences

    def page(self, given: ViewInput) -> PageSection | None:
        part = self.of(given.analysis)
        if part is None:
            return None
        return PageSection("The judge", list(judge_tables(part)), summary=part.sentences)


def judge_tables(part: JudgePart) -> Iterator[tuple[str, Table]]:
    """The comparisons, the settings, and the grades, each with a caption."""
    rows = [
        [
            one.setting, one.baseline, signed(one.people_difference), signed(one.judge_difference),
            _number(one.correlation), signed(one.bias), _ends(one.bias_ci), _whole(one.worth),
            "-" if one.people_needed is None else f"{one.people_needed:,}", one.basis.value,
        ]
        for one in part.comparisons
    ]  # fmt: skip
    titles = ["setting", "against", "people", "judge", "correlation", "bias", "interval", "worth", "needed", "labels"]
    yield "Differences by people and by the judge", Table.of(titles, rows, texts=(0, 1, 9))
    settings = [[one.setting, signed(one.bias), _ends(one.ci)] for one in part.bias]
    yield (
        "Mean scores by the judge less those by people",
        Table.of(["setting", "bias", "interval"], settings, texts=(0,)),
    )
    if part.agreement.n:
        yield "Grades of people (rows) and of the judge (columns)", _confusion(part.agreement)


def _confusion(part: AgreementPart) -> Table:
    rows = [
        [str(grade), *(f"{count:,}" for count in row)] for grade, row in zip(part.grades, part.confusion, strict=True)
    ]
    return Table.of(["people", *map(str, part.grades)], rows, texts=(0,))


def _ends(ends: tuple[float, float] | None) -> str:
    return "-" if ends is None else f"{signed(ends[0])} {signed(ends[1])}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


JUDGE = registered(JudgeView())
