"""Questions that a model drafted, and how far they favour retrievers that match words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragtrial.views.sections.base import AnalysisInput, View, registered

if TYPE_CHECKING:
    from ragtrial.comparison.drafted import DraftedPart


class DraftedView(View["DraftedPart"]):
    """Where the labels have drafted questions; a warning of the comparison says it in words."""

    name, order = "drafted", 16
    is_always_computed = True

    def compute(self, given: AnalysisInput) -> DraftedPart | None:
        return given.comparison.drafted

    def as_json(self, part: DraftedPart | None) -> dict[str, Any]:
        return {} if part is None else super().as_json(part)


DRAFTED = registered(DraftedView())
