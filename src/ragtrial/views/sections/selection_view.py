"""How well the best setting is expected to do on new questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragtrial.views.sections.base import AnalysisInput, PageSection, View, ViewInput, registered

if TYPE_CHECKING:
    from ragtrial.comparison.statistics.selection import SelectionPart


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
