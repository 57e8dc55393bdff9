"""A view: something that is looked into beside a comparison, with its option, its computing and all of its forms.

Options are looked up for `--help`: files of views import what computes where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ragtrial.registry import Registry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ragtrial.comparison.comparing import ComparisonOptions
    from ragtrial.comparison.comparison_input import ComparisonInput, Pair
    from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart
    from ragtrial.report.schema import WarningPart
    from ragtrial.views.table import Table

T = TypeVar("T")
V = TypeVar("V", bound="View[Any]")

AnalysisOptions = Mapping[str, str | bool]
"""What is asked for beside the comparison: by the name of its view, True or the value of its option."""


@dataclass(frozen=True)
class AnalysisInput:
    """From what a view computes its part."""

    contest: ComparisonInput
    aim: ComparisonOptions
    comparison: Comparison
    options: AnalysisOptions

    @cached_property
    def close(self) -> Sequence[ComparisonPart]:
        """The comparisons that are looked at closely."""
        from ragtrial.comparison.comparing import close_comparisons

        return close_comparisons(self.comparison)

    @property
    def pair(self) -> Pair:
        """The two settings of the first of these."""
        from ragtrial.comparison.comparison_input import Pair

        return Pair(self.contest.place(self.close[0].baseline), self.contest.place(self.close[0].setting))


@dataclass(frozen=True)
class ViewInput:
    """What the page and plots are made of."""

    contest: ComparisonInput
    analysis: Comparison


@dataclass(frozen=True)
class PageSection:
    """What a view gives to the page."""

    heading: str = ""
    """Of its own section, in which the browser may draw; without one it is only in the summary."""

    tables: Sequence[tuple[str, Table]] = ()
    """Each below its caption."""

    notes: Sequence[str] = ()
    """Lines below the tables."""

    summary: Sequence[str] = ()
    """Lines below the verdicts."""

    more: Sequence[str] = ()
    """More of them, to unfold."""

    about_more: str = ""
    """The headline of these."""

    data: Any = None
    """What the browser draws, as JSON; it finds it under the name of the view."""


class View(Generic[T]):
    """One view. What it has no form for stays as it is here."""

    name: ClassVar[str]
    """Its option, its part of the JSON, and its section of the page are called so."""

    order: ClassVar[int]
    """Where it is among the views: ascending."""

    help: ClassVar[str] = ""
    """What the option does; without a text there is none."""

    metavar: ClassVar[str] = ""
    """The value of the option; a flag has none."""

    alone: ClassVar[str] = ""
    """What the option shows, if it shows that and nothing else."""

    is_always_computed: ClassVar[bool] = False
    is_on_page: ClassVar[bool] = False
    """Whether the page needs it to be computed."""

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
        from ragtrial.report.schema import Part

        return {self.name: part.model_dump(mode="json") if isinstance(part, Part) else part}

    def warnings(self, part: T) -> Sequence[WarningPart]:
        return ()

    def summary_lines(self, part: T) -> Sequence[str]:
        """Lines below the verdicts, in the terminal and in files."""
        return ()

    def blocks(self, part: T | None, width: int, *, everything: bool) -> Iterable[str | Table]:
        """What the terminal shows where the option is given; ``everything`` means however much."""
        return ()

    def page(self, given: ViewInput) -> PageSection | None:
        """What the page has of it; None where there is nothing."""
        return None


VIEWS: Registry[View[Any]] = Registry("view")


def registered(view: V) -> V:
    """``view``, as one of all."""
    VIEWS.register(view.name)(view)
    return view


def all_views() -> list[View[Any]]:
    """All views, in their order."""
    return sorted((view for _, view in VIEWS.members()), key=lambda view: view.order)
