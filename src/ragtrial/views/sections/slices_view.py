"""Differences by kind of query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragtrial.comparison.number_text import digits_of, signed
from ragtrial.comparison.statistics.estimates import side_of
from ragtrial.views.sections.base import AnalysisInput, PageSection, View, ViewInput, registered
from ragtrial.views.table import Column, Table

if TYPE_CHECKING:
    from ragtrial.comparison.slices import SlicePart, SlicesPart
    from ragtrial.report.schema import WarningPart

_PAGE_WIDTH = 160


class SlicesView(View["SlicesPart"]):
    """The comparison again, by tag, number of answers, and length."""

    name, order = "slices", 30
    help = "The same by tag, number of answers, and length."
    is_on_page = True

    def compute(self, given: AnalysisInput) -> SlicesPart:
        from ragtrial.comparison.slices import compare_slices

        return compare_slices(given.contest, given.close, given.aim.procedure)

    def warnings(self, part: SlicesPart) -> Sequence[WarningPart]:
        return part.warnings

    def blocks(self, part: SlicesPart | None, width: int, *, everything: bool) -> Iterator[str | Table]:
        if part:
            yield "\n" + slice_heading(part)
            yield slice_overview(part, width)

    def page(self, given: ViewInput) -> PageSection | None:
        part = self.of(given.analysis)
        if not part or not part.comparisons:
            return None
        tables = [(slice_heading(part), slice_overview(part, _PAGE_WIDTH))]
        return PageSection("By kind of query", tables, data=part.model_dump(mode="json"))


def slice_heading(slices: SlicesPart) -> str:
    """One line above the overview: the meaning of the differences and of their marks."""
    if not slices.comparisons:
        return "No slices: by tag, relevant documents and length all queries are of one kind."
    baselines = {part.baseline for part in slices.comparisons}
    shared = baselines.pop() if len(baselines) == 1 else "the baseline of each"
    left_out = f" {slices.settings_left_out:,} more settings are left out." if slices.settings_left_out else ""
    return (
        f"Differences in {slices.metric} from {shared}, by kind of query.{left_out} ± half-width of the interval; "
        "* significant; ! significant and opposite to the overall result"
    )


def slice_overview(slices: SlicesPart, width: int) -> Table:
    """One row per slice, with the differences of as many settings as fit ``width``.

    Behind a difference are half of its interval, if that fits for all, a * if the interval leaves out 0, and a ! if it
    contradicts the overall result.
    """
    whole = _differences(slices, intervals=True)
    return whole if whole.width <= width else _differences(slices, intervals=False).fitted(width, "--json has all")


def _differences(slices: SlicesPart, *, intervals: bool) -> Table:
    settings = list(dict.fromkeys(part.setting for part in slices.comparisons))
    cells: dict[tuple[str, str, str], list[str]] = {}
    for part in slices.comparisons:
        row = cells.setdefault((part.slicing, part.name, f"{part.queries:,}"), [])
        row.append(_marked(part, interval=intervals))
    rows, before = [], ""
    for (slicing, name, queries), marked in cells.items():
        rows.append(["" if slicing == before else slicing, name, queries, *marked])
        before = slicing
    columns = [Column(name, importance=-place if place else None) for place, name in enumerate(settings)]
    return Table([Column("queries by", is_text=True), Column("slice", is_text=True), Column("queries"), *columns], rows)


def _marked(part: SlicePart, *, interval: bool) -> str:
    if part.difference is None:
        return "-"
    if part.ci is None:
        return f"{signed(part.difference, part.n)}{' ' * (8 if interval else 1)}"
    half = f" ±{(part.ci[1] - part.ci[0]) / 2:.{digits_of(part.n)}f}" if interval else ""
    return f"{signed(part.difference, part.n)}{half}{'!' if part.contradicts else '*' if side_of(part.ci) else ' '}"


registered(SlicesView())
