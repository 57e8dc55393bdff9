"""What the parameters of a sweep do, as tables and lines for the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import JsonValue

from ragtrial.comparison.figures import probability, signed
from ragtrial.comparison.sweeps.effects import ContrastPart, EffectPart, EffectsPart, InteractionPart, LevelsPart
from ragtrial.views.table import counted

MOST_ROWS = 20


def effect_table(effects: EffectsPart, *, everything: bool = False) -> list[list[str]]:
    """A header and one row per level of a parameter: what it adds to the reference, all else equal.

    Of many the ones with the largest differences; ``left_out_line`` counts the rest.
    """
    rows = [[f"effect on {effects.metric}", "from", "to", "pairs", "mean", "difference", "interval", "p", ""]]
    before = ""
    for part in _largest(effects.effects, everything=everything):
        levels = part.levels
        named = ["" if levels.parameter == before else levels.parameter, *_from_to(levels)]
        rows.append([*named, str(part.matched), "-" if part.mean is None else f"{part.mean:.4f}", *_cells(part)])
        before = levels.parameter
    return rows


def interaction_table(effects: EffectsPart, *, everything: bool = False) -> list[list[str]]:
    """A header and one row per interaction whose interval leaves out 0, or for all; nothing if there is none."""
    shown = [part for part in effects.interactions if everything or _is_told(part)]
    if not shown:
        return []
    rows = [["effect of", "from", "to", "is greater with", "at", "than at", "fours", "by", "interval", "p", ""]]
    for part in shown:
        second = _from_to(part.second)[::-1]
        named = [part.first.parameter, *_from_to(part.first), part.second.parameter, *second]
        rows.append([*named, str(part.matched), *_cells(part)])
    return rows


def left_out_line(effects: EffectsPart, *, everything: bool = False) -> str:
    """One line about what the tables leave out; empty if they have all."""
    if everything:
        return ""
    hidden = len(effects.effects) - len(_largest(effects.effects, everything=False))
    parts = [f"{counted(hidden, 'smaller effect')} not shown"] if hidden else []
    untold = [part for part in effects.interactions if not _is_told(part)]
    unknown = sum(part.matched == 0 for part in untold)
    if len(untold) > unknown:
        parts.append(f"{counted(len(untold) - unknown, 'interaction')} not to be told from 0")
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


def _is_told(part: InteractionPart) -> bool:
    return part.ci is not None and (part.ci[0] > 0 or part.ci[1] < 0)


def _cells(part: ContrastPart) -> list[str]:
    """The difference, its interval, p, and why there is none."""
    if part.difference is None:
        return ["-", "-", "-", "no settings match in all else" if not part.matched else "no query counts for all"]
    why = "" if part.ci else f"only {part.differing} of {part.n:,} queries differ" if part.differing else "identical"
    interval = "-" if part.ci is None else f"{signed(part.ci[0])} {signed(part.ci[1])}"
    return [signed(part.difference), interval, "-" if part.p_corrected is None else probability(part.p_corrected), why]


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
