"""A view of a comparison: its option, its computation and all its forms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ragtrial.comparison.comparing import ComparisonOptions, close_comparisons
from ragtrial.comparison.comparison_input import ComparisonInput, Pair
from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart
from ragtrial.registry import Registry
from ragtrial.report.schema import Part, WarningPart
from ragtrial.views.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
V = TypeVar("V", bound="View[Any]")


@dataclass(frozen=True)
class AnalysisInput:
    """The input from which a view computes its part."""

    inputs: ComparisonInput
    options: ComparisonOptions
    comparison: Comparison
    asked: Collection[str]
    """The names of the views that were asked for."""

    @cached_property
    def close(self) -> Sequence[ComparisonPart]:
        """The comparisons that are looked at closely."""
        return close_comparisons(self.comparison)

    @property
    def pair(self) -> Pair:
        """The two settings of the first of these."""
        return self.inputs.pair(self.close[0].baseline, self.close[0].setting)


@dataclass(frozen=True)
class ViewInput:
    """The input of the page and of plots."""

    inputs: ComparisonInput
    analysis: Comparison


@dataclass(frozen=True)
class PageSection:
    """The part of a view on the page."""

    heading: str = ""
    """The heading of its section; without one the view is only in the summary."""

    tables: Sequence[tuple[str, Table]] = ()
    """Each below its caption."""

    notes: Sequence[str] = ()
    """Lines below the tables."""

    summary: Sequence[str] = ()
    """Lines below the verdicts."""

    finding: str = ""
    """The finding in a few words, next to the heading; without it, the first caption."""


class View(Generic[T]):
    """One view. The methods here are for forms that a view does not have."""

    name: ClassVar[str]
    """Its option, its part of the JSON, and its section of the page are called so."""

    order: ClassVar[int]
    """Where it is among the views: ascending."""

    help: ClassVar[str] = ""
    """The help of the option; without a text there is no option."""

    is_always_computed: ClassVar[bool] = False
    is_on_page: ClassVar[bool] = False
    """Computed for the page."""

    is_first: ClassVar[bool] = False
    """In the terminal above the verdicts."""

    def __init__(self, **plots: Callable[[ViewInput], Figure]) -> None:
        """With its plots, by the names that `ragtrial report --plot` takes.

        Drawing raises PlotError where there are no data for it.
        """
        self.plots = plots

    def compute(self, given: AnalysisInput) -> T | None:
        """Its part of the analysis; None where there is nothing."""
        return None

    def of(self, comparison: Comparison) -> T | None:
        """Its part of a comparison, if that is an Analysis; None where it was not asked for, or there is nothing."""
        found: T | None = getattr(comparison, "found", {}).get(self.name)
        return found

    def as_json(self, part: T | None) -> dict[str, Any]:
        """The keys that it adds to the JSON of an analysis."""
        return {self.name: part.model_dump(mode="json") if isinstance(part, Part) else part}

    def warnings(self, part: T) -> Sequence[WarningPart]:
        return ()

    def summary_lines(self, part: T) -> Sequence[str]:
        """Lines below the verdicts, in the terminal and in files."""
        return ()

    def blocks(self, part: T | None, width: int, *, everything: bool) -> Iterable[str | Table]:
        """The blocks in the terminal if the option is given; ``everything`` lifts the limits on rows."""
        return ()

    def page(self, given: ViewInput) -> PageSection | None:
        """The section of the page; None if there is nothing to show."""
        part = self.of(given.analysis)
        return None if part is None else self.section(part)

    def section(self, part: T) -> PageSection | None:
        """The section of the page about its part."""
        return None


VIEWS: Registry[View[Any]] = Registry("view", __package__, View)


def registered(view: V) -> V:
    """``view``, as one of all."""
    VIEWS.register(view.name)(view)
    return view


def all_views() -> list[View[Any]]:
    """All views, in their order."""
    return sorted((view for _, view in VIEWS.members()), key=lambda view: view.order)


def plot_names() -> list[str]:
    """The plots of all views."""
    return [name for view in all_views() for name in view.plots]
