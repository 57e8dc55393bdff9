"""What the parameters of a sweep do, all else equal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ragtrial.comparison.figures import probability, signed
from ragtrial.errors import PlotError, counted
from ragtrial.views.plots.forests import MOST_ROWS as MOST_DRAWN
from ragtrial.views.plots.forests import ForestRow, forest, side
from ragtrial.views.sections.base import AnalysisInput, PageSection, Plot, View, ViewInput, registered
from ragtrial.views.table import Table, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pydantic import JsonValue

    from ragtrial.comparison.sweeps.effects import ContrastPart, EffectPart, EffectsPart, InteractionPart, LevelsPart

MOST_ROWS = 20


class EffectsView(View["EffectsPart"]):
    """The effect of each parameter, and where two depend on each other; nothing where nothing was swept."""

    name, order = "axes", 40
    help = "What each parameter of a sweep does, and where two depend on each other."
    is_on_page = True

    def compute(self, given: AnalysisInput) -> EffectsPart | None:
        from ragtrial.comparison.sweeps.effects import sweep_effects

        return sweep_effects(given.contest, given.aim.procedure)

    def blocks(self, part: EffectsPart | None, width: int, *, everything: bool) -> Iterator[str | Table]:
        if part is None:
            yield "\nNo axes: these settings are no sweep over the values of a parameter."
            return
        yield effect_table(part, everything=everything)
        yield interaction_table(part, everything=everything)
        yield left_out_line(part, everything=everything)

    def page(self, given: ViewInput) -> PageSection | None:
        part = self.of(given.analysis)
        if part is None:
            return None
        tables = [
            ("All else equal, over settings that differ in it alone", effect_table(part)),
            ("Where one parameter's effect depends on another", interaction_table(part)),
        ]
        return PageSection("What each parameter does", tables, [left_out_line(part)], data=_page_data(part))


def effect_table(effects: EffectsPart, *, everything: bool = False) -> Table:
    """One row per level of a parameter: what it adds to the reference, all else equal.

    Of many the ones with the largest differences; ``left_out_line`` counts the rest.
    """
    titles = [f"effect on {effects.metric}", "from", "to", "pairs", "mean", "difference", "interval", "p", ""]
    rows, before = [], ""
    for part in _largest(effects.effects, everything=everything):
        levels = part.levels
        named = ["" if levels.parameter == before else levels.parameter, *_from_to(levels)]
        rows.append([*named, str(part.matched), number(part.mean), *_cells(part)])
        before = levels.parameter
    return Table.of(titles, rows, texts=(0, -1))


def interaction_table(effects: EffectsPart, *, everything: bool = False) -> Table:
    """One row per interaction whose interval leaves out 0, or for all."""
    titles = ["effect of", "from", "to", "is greater with", "at", "than at", "fours", "by", "interval", "p", ""]
    rows = []
    for part in effects.interactions if everything else filter(_is_shown, effects.interactions):
        second = _from_to(part.second)[::-1]
        named = [part.first.parameter, *_from_to(part.first), part.second.parameter, *second]
        rows.append([*named, str(part.matched), *_cells(part)])
    return Table.of(titles, rows, texts=(0, -1))


def left_out_line(effects: EffectsPart, *, everything: bool = False) -> str:
    """One line about what the tables leave out; empty if they have all."""
    if everything:
        return ""
    hidden = len(effects.effects) - len(_largest(effects.effects, everything=False))
    parts = [f"{counted(hidden, 'smaller effect')} not shown"] if hidden else []
    hidden_pairs = [part for part in effects.interactions if not _is_shown(part)]
    unknown = sum(part.matched == 0 for part in hidden_pairs)
    if len(hidden_pairs) > unknown:
        parts.append(f"{counted(len(hidden_pairs) - unknown, 'interaction')} not to be told from 0")
    if unknown:
        parts.append(f"{counted(unknown, 'interaction')} without settings that match in all else")
    return f"{'; '.join(parts)}." if parts else ""


def change_text(levels: LevelsPart) -> str:
    """From one value to another: ``100 → 200``."""
    return " → ".join(_from_to(levels))


def interaction_text(part: InteractionPart) -> str:
    """Which effect is set against itself under which other values: ``size 100 → 200; k1 1.5, not 1.2``."""
    first, second = (one.parameter.rpartition(".")[2] for one in (part.first, part.second))
    return f"{first} {change_text(part.first)}; {second} {', not '.join(_from_to(part.second)[::-1])}"


def _largest(parts: Sequence[EffectPart], *, everything: bool) -> list[EffectPart]:
    if everything or len(parts) <= MOST_ROWS:
        return list(parts)
    least = sorted((abs(part.difference or 0.0) for part in parts), reverse=True)[MOST_ROWS - 1]
    return [part for part in parts if abs(part.difference or 0.0) >= least][:MOST_ROWS]


def _is_shown(part: InteractionPart) -> bool:
    return side(part.ci) != 0


def _cells(part: ContrastPart) -> list[str]:
    """The difference, its interval, p, and why there is none."""
    if part.difference is None:
        return ["-", "-", "-", "no settings match in all else" if not part.matched else "no query counts for all"]
    why = "" if part.ci else f"only {part.differing} of {part.n:,} queries differ" if part.differing else "identical"
    interval = "-" if part.ci is None else f"{signed(part.ci[0])} {signed(part.ci[1])}"
    p = "-" if part.p_corrected is None else probability(part.p_corrected)
    return [signed(part.difference), interval, p, why]


def _from_to(levels: LevelsPart) -> list[str]:
    return [level_text(levels.reference), level_text(levels.level)]


def level_text(value: JsonValue) -> str:
    """A value of a sweep as it is written in a config, or nearly."""
    if isinstance(value, dict):
        if value.keys() == {"share", "of"}:
            return f"{value['share']} of {value['of']}"
        return f"{{{', '.join(f'{key}: {level_text(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return ", ".join(map(level_text, value))
    return value if isinstance(value, str) else json.dumps(value)


def _page_data(effects: EffectsPart) -> dict[str, Any]:
    def contrast(part: ContrastPart, label: str) -> dict[str, Any]:
        return {"difference": part.difference, "ci": part.ci, "label": label}

    return {
        "metric": effects.metric,
        "effects": [
            {**contrast(part, change_text(part.levels)), "parameter": part.levels.parameter} for part in effects.effects
        ],
        "interactions": [contrast(part, interaction_text(part)) for part in effects.interactions],
    }


def effect_plot(given: ViewInput) -> Figure:
    """What each parameter of a sweep does, all else equal. Raises PlotError."""
    found = EFFECTS.of(given.analysis)
    parts = [part for part in found.effects if part.difference is not None] if found else []
    if not found or not parts:
        why = "nothing was swept" if not found else "no two settings agree in all but one parameter"
        raise PlotError(f"there is no plot of effects: {why}.")
    rows: list[ForestRow] = []
    for parameter in dict.fromkeys(part.levels.parameter for part in parts):
        rows.append(ForestRow(parameter))
        here = [part for part in parts if part.levels.parameter == parameter]
        rows += [ForestRow(change_text(part.levels), part.difference, part.ci, side(part.ci)) for part in here]
    return forest(rows[: 2 * MOST_DRAWN], f"effect on {found.metric}, all else equal")


EFFECTS = registered(EffectsView(effects=Plot(effect_plot)))
