"""The effects of the parameters of a sweep, all else equal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ragtrial.comparison.number_text import probability, signed, signed_interval
from ragtrial.comparison.statistics.estimates import side_of
from ragtrial.views.sections.base import AnalysisInput, PageSection, View, ViewInput, registered
from ragtrial.views.table import Table, mean_number

if TYPE_CHECKING:
    from pydantic import JsonValue

    from ragtrial.comparison.sweep_effects import ContrastPart, EffectsPart, LevelsPart


class EffectsView(View["EffectsPart"]):
    """The effect of each parameter, and where two depend on each other; nothing where nothing was swept."""

    name, order = "axes", 40
    help = "Effect of each parameter of a sweep, and where two depend on each other."
    is_on_page = True

    def compute(self, given: AnalysisInput) -> EffectsPart | None:
        from ragtrial.comparison.sweep_effects import sweep_effects

        return sweep_effects(given.contest, given.aim.procedure)

    def blocks(self, part: EffectsPart | None, width: int, *, everything: bool) -> Iterator[str | Table]:
        if part is None:
            yield "\nNo axes: these settings are no sweep over the values of a parameter."
            return
        yield effect_table(part)
        yield interaction_table(part, everything=everything)

    def page(self, given: ViewInput) -> PageSection | None:
        part = self.of(given.analysis)
        if part is None:
            return None
        tables = [
            ("Effect of each parameter, all else equal", effect_table(part)),
            ("Interactions between parameters", interaction_table(part)),
        ]
        return PageSection("Parameters", tables, data=_page_data(part))


def effect_table(effects: EffectsPart) -> Table:
    """One row per level of a parameter: its effect compared with the reference, all else equal."""
    titles = [f"effect on {effects.metric}", "from", "to", "pairs", "mean", "difference", "interval", "p", "note"]
    rows, before = [], ""
    for part in effects.effects:
        name = part.levels.parameter
        named = ["" if name == before else name, *_ends(part.levels), str(part.matched)]
        rows.append([*named, mean_number(part.mean, part.n), *_cells(part)])
        before = name
    return _with_notes(titles, rows)


def interaction_table(effects: EffectsPart, *, everything: bool = False) -> Table:
    """One row per interaction whose interval leaves out 0, or for all."""
    titles = ["effect of", "from", "to", "is greater with", "at", "than at", "fours", "by", "interval", "p", "note"]
    rows = [
        [part.first.parameter, *_ends(part.first), part.second.parameter, *_ends(part.second)[::-1],
         str(part.matched), *_cells(part)]
        for part in effects.interactions if everything or side_of(part.ci)
    ]  # fmt: skip
    return _with_notes(titles, rows)


def _with_notes(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """The table, without its last column where that says nothing."""
    if any(row[-1] for row in rows):
        return Table.of(titles, rows, texts=(0, -1))
    return Table.of(titles[:-1], [row[:-1] for row in rows])


def _cells(part: ContrastPart) -> list[str]:
    """The difference, its interval, p, and why there is none."""
    if part.difference is None:
        return ["-", "-", "-", "no query counts for all" if part.matched else "no settings match in all else"]
    interval = signed_interval(part.ci, part.n)
    p = "-" if part.p_corrected is None else probability(part.p_corrected)
    few = "" if part.ci else f"{part.differing} of {part.n:,} queries differ"
    return [signed(part.difference, part.n), interval, p, few]


def _ends(levels: LevelsPart) -> list[str]:
    return [level_text(levels.reference), level_text(levels.level)]


def level_text(value: JsonValue) -> str:
    """A value of a sweep, nearly as it is written in a config."""
    if isinstance(value, dict) and value.keys() == {"share", "of"}:
        return f"{value['share']} of {value['of']}"
    if isinstance(value, list):
        return ", ".join(map(level_text, value))
    return value if isinstance(value, str) else json.dumps(value)


def _page_data(effects: EffectsPart) -> dict[str, Any]:
    def contrast(part: ContrastPart, label: str) -> dict[str, Any]:
        return {"difference": part.difference, "ci": part.ci, "label": label}

    interactions = []
    for part in effects.interactions:
        first, second = (one.parameter.rpartition(".")[2] for one in (part.first, part.second))
        at = ", not ".join(_ends(part.second)[::-1])
        interactions.append(contrast(part, f"{first} {' → '.join(_ends(part.first))}; {second} {at}"))
    shown = [
        {**contrast(part, " → ".join(_ends(part.levels))), "parameter": part.levels.parameter}
        for part in effects.effects
    ]
    return {"metric": effects.metric, "effects": shown, "interactions": interactions}


registered(EffectsView())
