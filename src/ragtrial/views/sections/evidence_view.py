"""The basis of a comparison: the choice of the best setting, and a judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ragtrial.comparison.number_text import signed, signed_interval
from ragtrial.views.sections.base import AnalysisInput, PageSection, View, ViewInput, registered
from ragtrial.views.table import Table, number

if TYPE_CHECKING:
    from ragtrial.comparison.judge import AgreementPart, JudgePart
    from ragtrial.comparison.selection import SelectionPart


class SelectionView(View["SelectionPart"]):
    """The winner's luck; nothing where reports are compared name by name."""

    name, order = "selection", 10
    is_always_computed = True

    def compute(self, given: AnalysisInput) -> SelectionPart | None:
        return given.comparison.selection

    def summary_lines(self, part: SelectionPart) -> Sequence[str]:
        return [f"{part.sentence}."]

    def page(self, given: ViewInput) -> PageSection | None:
        part = self.of(given.analysis)
        return PageSection(summary=self.summary_lines(part)) if part else None


SELECTION = registered(SelectionView())


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
            number(one.correlation, 2), signed(one.bias), signed_interval(one.bias_ci), number(one.worth, 0),
            number(one.people_needed, 0), one.basis.value,
        ]
        for one in part.comparisons
    ]  # fmt: skip
    titles = ["setting", "against", "people", "judge", "correlation", "bias", "interval", "worth", "needed", "labels"]
    yield "Differences according to people and to the judge", Table.of(titles, rows, texts=(0, 1, 9))
    settings = [[one.setting, signed(one.bias), signed_interval(one.ci)] for one in part.bias]
    yield (
        "The judge's mean scores minus people's",
        Table.of(["setting", "bias", "interval"], settings, texts=(0,)),
    )
    if part.agreement.n:
        yield "People's grades (rows) and the judge's grades (columns)", _confusion(part.agreement)


def _confusion(part: AgreementPart) -> Table:
    rows = [
        [str(grade), *(f"{count:,}" for count in row)] for grade, row in zip(part.grades, part.confusion, strict=True)
    ]
    return Table.of(["people", *map(str, part.grades)], rows, texts=(0,))


JUDGE = registered(JudgeView())
