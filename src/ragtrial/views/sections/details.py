"""Details of a comparison: costs, parameters, slices, unjudged hits, the choice of the best setting, and a judge."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import JsonValue

from ragtrial.comparison.comparison_parts import JudgePart
from ragtrial.comparison.judged_rankings import MOST_QUERIES, UnjudgedPart, unjudged_parts
from ragtrial.comparison.number_text import mean_number, number, probability, signed, signed_interval
from ragtrial.comparison.selection import SelectionPart
from ragtrial.comparison.slices import SlicePart, SlicesPart, compare_slices
from ragtrial.comparison.sweep_effects import EffectsPart, LevelsPart, sweep_effects
from ragtrial.errors import counted, listed
from ragtrial.report.schema import WarningPart
from ragtrial.views.sections.base import AnalysisInput, PageSection, View, registered
from ragtrial.views.table import Column, Table


class SelectionView(View[SelectionPart]):
    """The winner's luck; nothing where reports are compared name by name."""

    name, order = "selection", 10
    is_always_computed = True

    def compute(self, given: AnalysisInput) -> SelectionPart | None:
        return given.comparison.selection

    def summary_lines(self, part: SelectionPart) -> Sequence[str]:
        return [f"{part.sentence}."]

    def section(self, part: SelectionPart) -> PageSection:
        return PageSection(summary=self.summary_lines(part))


SELECTION = registered(SelectionView())


class JudgeView(View[JudgePart]):
    """Where a comparison has a judge."""

    name, order = "judge", 15
    is_always_computed = True

    def compute(self, given: AnalysisInput) -> JudgePart | None:
        return given.comparison.judge

    def as_json(self, part: JudgePart | None) -> dict[str, Any]:
        return {} if part is None else super().as_json(part)

    def summary_lines(self, part: JudgePart) -> Sequence[str]:
        return part.sentences

    def section(self, part: JudgePart) -> PageSection:
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
    yield ("The judge's mean scores minus people's", Table.of(["setting", "bias", "interval"], settings, texts=(0,)))
    if part.agreement.n:
        grades = part.agreement.grades
        counts = [[str(grade), *map(str, row)] for grade, row in zip(grades, part.agreement.confusion, strict=True)]
        table = Table.of(["people", *map(str, grades)], counts)
        yield "People's grades (rows) and the judge's grades (columns)", table


JUDGE = registered(JudgeView())


MOST_LINES = 3
"""Verdicts that depend on unlabelled hits, in one line."""


class UnjudgedView(View[list[UnjudgedPart]]):
    """Scenarios of comparisons by the primary metric; with many, only comparisons with the best setting.

    Comparisons that claim something come first, up to MOST_QUERIES queries in all, or without limit if the option is
    given.
    """

    name, order = "unjudged", 20
    help = "Each difference in two scenarios: all unjudged hits go in favour of one setting."
    is_always_computed = True

    def compute(self, given: AnalysisInput) -> list[UnjudgedPart]:
        unclaimed = ("inconclusive", "identical", "too few differences")
        close = sorted(given.close, key=lambda part: part.verdict in unclaimed)
        if self.name not in given.asked:
            close = close[: max(1, MOST_QUERIES // len(given.inputs.queries))]
        return unjudged_parts(given.inputs, close, given.options.margin)

    def as_json(self, part: list[UnjudgedPart] | None) -> dict[str, Any]:
        return {self.name: [one.model_dump(mode="json") for one in part or ()]}

    def summary_lines(self, part: Sequence[UnjudgedPart]) -> Sequence[str]:
        """One line about the verdicts that labels of unjudged hits could change."""
        scenarios = []
        for one in (one for one in part if one.depends_on_unjudged):
            ends = f"{signed(one.low, one.n)} or {signed(one.high, one.n)}"
            scenarios.append(f"{one.setting} {ends} ({counted(one.unjudged or 0, 'hit')})")
        if not scenarios:
            return []
        return [
            "If all hits without a label went in favour of one side, the difference would be (two scenarios, not "
            f"limits): {listed(scenarios, MOST_LINES)}."
        ]

    def blocks(self, part: list[UnjudgedPart] | None, width: int, *, everything: bool) -> Iterator[str | Table]:
        yield unjudged_table(part or ())
        reasons = dict.fromkeys((own.metric, own.why_not_known) for own in part or () if own.why_not_known)
        yield from (f"{metric}: what unjudged hits could change is not known: {why}" for metric, why in reasons)

    def section(self, part: Sequence[UnjudgedPart]) -> PageSection:
        return PageSection(summary=self.summary_lines(part))


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


UNJUDGED = registered(UnjudgedView())


_PAGE_WIDTH = 160


class SlicesView(View[SlicesPart]):
    """The comparison again, by tag, number of answers, and length."""

    name, order = "slices", 30
    help = "The same by tag, number of answers, and length."
    is_on_page = True

    def compute(self, given: AnalysisInput) -> SlicesPart:
        return compare_slices(given.inputs, given.close, given.options.procedure)

    def warnings(self, part: SlicesPart) -> Sequence[WarningPart]:
        return part.warnings

    def blocks(self, part: SlicesPart | None, width: int, *, everything: bool) -> Iterator[str | Table]:
        if part:
            yield "\n" + slice_heading(part)
            yield slice_overview(part, width)

    def section(self, part: SlicesPart) -> PageSection | None:
        """The overview, if any difference is significant in a slice."""
        tables = [(slice_heading(part), slice_overview(part, _PAGE_WIDTH))]
        shown = [f"{row.setting} differs for {row.slicing} {row.name}" for row in part.comparisons
                 if row.ci and not row.ci[0] <= 0 <= row.ci[1]]  # fmt: skip
        return PageSection("Kinds of question", tables, finding=listed(shown, 3)) if shown else None


def slice_heading(slices: SlicesPart) -> str:
    """One line above the overview: the meaning of the differences and of their marks."""
    if not slices.comparisons:
        return "No slices: by tag, relevant documents and length all questions are of one kind."
    baselines = {part.baseline for part in slices.comparisons}
    shared = baselines.pop() if len(baselines) == 1 else "the baseline of each"
    left_out = f" {slices.settings_left_out:,} more settings are left out." if slices.settings_left_out else ""
    return (
        f"Differences in {slices.metric} from {shared}, by kind of question.{left_out} ± half-width of the interval; "
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
    columns = [Column("questions by", is_text=True), Column("slice", is_text=True), Column("questions")]
    columns += [Column(name, importance=-place if place else None) for place, name in enumerate(settings)]
    return Table(columns, rows)


def _marked(part: SlicePart, *, interval: bool) -> str:
    if part.difference is None:
        return "-"
    if part.ci is None:
        return f"{signed(part.difference, part.n)}{' ' * (8 if interval else 1)}"
    half = f" ±{mean_number((part.ci[1] - part.ci[0]) / 2, part.n)}" if interval else ""
    mark = "!" if part.contradicts else " " if part.ci[0] <= 0 <= part.ci[1] else "*"
    return signed(part.difference, part.n) + half + mark


registered(SlicesView())


class EffectsView(View[EffectsPart]):
    """The effect of each parameter; nothing where nothing was swept."""

    name, order = "axes", 40
    help = "Effect of each parameter of a sweep."
    is_on_page = is_first = True

    def compute(self, given: AnalysisInput) -> EffectsPart | None:
        return sweep_effects(given.inputs, given.options.procedure)

    def blocks(self, part: EffectsPart | None, width: int, *, everything: bool) -> Iterator[str | Table]:
        yield effect_table(part) if part else "No axes: these settings are no sweep over the values of a parameter."

    def section(self, part: EffectsPart) -> PageSection:
        return PageSection("Options", [("Effect of each parameter, all else equal", effect_table(part))])


def effect_table(effects: EffectsPart) -> Table:
    """One row per level of a parameter: its effect compared with the reference, all else equal.

    A note says why there is no interval; the column is left out where there is none.
    """
    titles = [f"effect on {effects.metric}", "from", "to", "pairs", "mean", "difference", "interval", "p", "note"]
    rows, before = [], ""
    for part in effects.effects:
        name = part.levels.parameter
        cells = ["-", "-", "-", "no question counts for all" if part.matched else "no settings match in all else"]
        if part.difference is not None:
            p = "-" if part.p_corrected is None else probability(part.p_corrected)
            few = "" if part.ci else f"questions that differ: {part.differing} of {part.n:,}"
            cells = [signed(part.difference, part.n), signed_interval(part.ci, part.n), p, few]
        levels = ["" if name == before else name, *_ends(part.levels), str(part.matched)]
        rows.append([*levels, mean_number(part.mean, part.n), *cells])
        before = name
    if any(row[-1] for row in rows):
        return Table.of(titles, rows, texts=(0, -1))
    return Table.of(titles[:-1], [row[:-1] for row in rows])


def _ends(levels: LevelsPart) -> list[str]:
    return [level_text(levels.reference), level_text(levels.level)]


def level_text(value: JsonValue) -> str:
    """A value of a sweep, nearly as it is written in a config."""
    if isinstance(value, dict) and value.keys() == {"share", "of"}:
        return f"{value['share']} of {value['of']}"
    if isinstance(value, list):
        return ", ".join(map(level_text, value))
    return value if isinstance(value, str) else json.dumps(value)


registered(EffectsView())
