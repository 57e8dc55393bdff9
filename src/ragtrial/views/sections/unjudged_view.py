"""The effect of unjudged hits on a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ragtrial.comparison.number_text import signed
from ragtrial.views.sections.base import AnalysisInput, PageSection, View, ViewInput, registered
from ragtrial.views.table import Table

if TYPE_CHECKING:
    from ragtrial.comparison.unjudged import UnjudgedPart

MOST_LINES = 3


class UnjudgedView(View["list[UnjudgedPart]"]):
    """Scenarios of comparisons by the primary metric; with many, only comparisons with the best setting.

    Comparisons that claim something come first, up to MOST_QUERIES queries in all, or without limit if the option is
    given.
    """

    name, order = "unjudged", 20
    help = "Each difference in two scenarios: all unjudged hits go in favour of one setting."
    is_always_computed = True

    def compute(self, given: AnalysisInput) -> list[UnjudgedPart]:
        from ragtrial.comparison.unjudged import MOST_QUERIES, unjudged_parts

        unclaimed = ("inconclusive", "identical", "too few differences")
        close = sorted(given.close, key=lambda part: part.verdict in unclaimed)
        if self.name not in given.options:
            close = close[: max(1, MOST_QUERIES // len(given.contest.queries))]
        return unjudged_parts(given.contest, close, given.aim.margin)

    def as_json(self, part: list[UnjudgedPart] | None) -> dict[str, Any]:
        return {self.name: [one.model_dump(mode="json") for one in part or ()]}

    def summary_lines(self, part: Sequence[UnjudgedPart]) -> Sequence[str]:
        """The verdicts that labels of unjudged hits could change; the first lines, and the number of the others."""
        lines = _dependent(part)
        if len(lines) > MOST_LINES:
            more = f"More verdicts that depend on unlabelled hits: {len(lines) - MOST_LINES:,} (--json shows all)."
            lines[MOST_LINES:] = [more]
        return lines

    def blocks(self, part: list[UnjudgedPart] | None, width: int, *, everything: bool) -> Iterator[str | Table]:
        yield unjudged_table(part or ())
        yield from unjudged_reasons(part or ())

    def page(self, given: ViewInput) -> PageSection:
        lines = _dependent(self.of(given.analysis) or ())
        more = lines[MOST_LINES:]
        about = f"{len(more):,} more that depend on unlabelled hits"
        return PageSection(summary=lines[:MOST_LINES], more=more, about_more=about)


def _dependent(parts: Sequence[UnjudgedPart]) -> list[str]:
    return [f"{part.setting} against {part.baseline}: {part.sentence}." for part in parts if part.depends_on_unjudged]


def unjudged_table(parts: Sequence[UnjudgedPart]) -> Table:
    """One row per comparison: the difference, and the difference in two scenarios of unjudged hits."""
    verdicts = {None: "", True: "depends", False: "holds"}
    rows = [
        [
            part.setting, part.baseline, *(signed(end, part.n) for end in (part.low, part.difference, part.high)),
            "-" if part.unjudged is None else f"{part.unjudged:,}",
            verdicts[part.depends_on_unjudged],
        ]
        for part in parts
    ]  # fmt: skip
    titles = ["scenarios", "against", "all against", "difference", "all for", "unjudged", "verdict"]
    return Table.of(titles, rows, texts=(0, 1))


def unjudged_reasons(parts: Sequence[UnjudgedPart]) -> list[str]:
    """Each reason once why the scenarios of a comparison are not known."""
    reasons = dict.fromkeys((part.metric, part.why_not_known) for part in parts if part.why_not_known)
    return [f"{metric}: what unjudged hits could change is not known: {why}" for metric, why in reasons]


UNJUDGED = registered(UnjudgedView())
