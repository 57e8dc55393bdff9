"""A comparison with what views find beside it."""

from __future__ import annotations

from typing import Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from ragtrial.comparison.comparing import ComparisonOptions, compare_settings
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.comparison_parts import Comparison
from ragtrial.report.schema import WarningPart
from ragtrial.views.sections import VIEWS, all_views
from ragtrial.views.sections.base import AnalysisInput


class Analysis(Comparison):
    """A comparison, and what views found beside it; as JSON, one document with the parts of all views."""

    found: dict[str, Any] = Field(exclude=True)
    """By the name of the view; None where there is nothing. What was not asked for is not in it."""

    @model_serializer(mode="wrap")
    def _with_all_parts(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        parts: dict[str, Any] = handler(self)
        for view in all_views():
            parts |= view.as_json(self.found.get(view.name))
        return parts

    @property
    def all_warnings(self) -> list[WarningPart]:
        """Those of the comparison, then those of what was found beside it."""
        found = [(view, view.of(self)) for view in all_views()]
        return [*self.warnings, *(one for view, part in found if part is not None for one in view.warnings(part))]


def analyse(contest: ComparisonInput, aim: ComparisonOptions, **options: str | bool) -> Analysis:
    """The comparison, what is always looked into beside it, and the views that ``options`` name.

    A view takes True, or the value of its option: ``slices=True, query="q7"``. Raises ComparisonError or ReportError
    if the baseline or the query is missing, KeyError for an unknown view.
    """
    chosen = {VIEWS[name].name: value for name, value in options.items() if value not in (False, None)}
    made = compare_settings(contest, aim)
    given = AnalysisInput(contest, aim, made, chosen)
    found = {view.name: view.compute(given) for view in all_views() if view.is_always_computed or view.name in chosen}
    return Analysis(**dict(made), found=found)
