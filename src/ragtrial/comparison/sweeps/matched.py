"""The settings of a sweep as a design: which levels of which parameters each has, and which differ in one alone."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from pydantic import JsonValue

from ragtrial.comparison.contest import ComparedSetting
from ragtrial.report.model import Report
from ragtrial.report.schema import SettingPart

RETRIEVER = "retriever"
"""The parameter that says which entry of ``retrievers`` a setting is of."""


@dataclass(frozen=True)
class Level:
    """A value; equal for equal ones, 1 and 1.0 among them. ``key`` is its canonical JSON."""

    key: str

    @classmethod
    def of(cls, value: Any) -> Level:
        return cls(json.dumps(_plain(value), sort_keys=True, default=str))

    @property
    def value(self) -> JsonValue:
        made: JsonValue = json.loads(self.key)
        return made


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


Levels = frozenset[tuple[str, Level]]
"""Some parameters, by name, with their levels."""


@dataclass(frozen=True)
class Cell:
    """A setting: its place among the contenders, the report that it is of, its retriever and its levels."""

    place: int
    report: int
    retriever: str
    levels: Mapping[str, Level]

    def without(self, *names: str) -> Levels:
        return frozenset((name, level) for name, level in self.levels.items() if name not in names)


@dataclass(frozen=True)
class SweptParameter:
    """What was varied, and its levels: numbers by size, others as they first come. The first is the reference."""

    name: str
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class MatchedPair:
    """Settings, by their places, that differ in one parameter alone; ``rest`` is what they have in common."""

    reference: int
    setting: int
    retriever: str
    rest: tuple[int, Levels]


@dataclass(frozen=True)
class Design:
    """The settings of a sweep."""

    cells: tuple[Cell, ...]

    def parameters(self) -> list[SweptParameter]:
        """Those with two levels or more, in the order in which they come, the retriever last."""
        found: dict[str, dict[Level, None]] = {}
        for cell in self.cells:
            for name, level in cell.levels.items():
                found.setdefault(name, {})[level] = None
        made = [SweptParameter(name, tuple(_ordered(levels))) for name, levels in found.items()]
        made.append(SweptParameter(RETRIEVER, tuple(dict.fromkeys(Level.of(cell.retriever) for cell in self.cells))))
        return [one for one in made if len(one.levels) > 1]

    def pairs(self, parameter: SweptParameter, level: int, ignored: str | None = None) -> list[MatchedPair]:
        """The pairs of settings at the reference and at ``level`` of a parameter, which agree in all else.

        They are of one report and, but for RETRIEVER, of one retriever; ``ignored`` is left out of ``rest``.
        """
        reference, other = parameter.levels[0], parameter.levels[level]
        if parameter.name == RETRIEVER:
            return list(self._pairs_of_retrievers(str(reference.value), str(other.value)))
        left: dict[tuple[int, str, Levels], Cell] = {}
        for cell in self.cells:
            if cell.levels.get(parameter.name) == reference:
                left[cell.report, cell.retriever, cell.without(parameter.name)] = cell
        return [
            MatchedPair(
                found.place, cell.place, cell.retriever, (cell.report, cell.without(parameter.name, ignored or ""))
            )
            for cell in self.cells
            if cell.levels.get(parameter.name) == other
            and (found := left.get((cell.report, cell.retriever, cell.without(parameter.name))))
        ]

    def _pairs_of_retrievers(self, reference: str, other: str) -> Iterator[MatchedPair]:
        """Settings of two retrievers that agree in all parameters that reach both."""
        common = self._reaching(reference) & self._reaching(other)
        left = [cell for cell in self.cells if cell.retriever == reference]
        right = [cell for cell in self.cells if cell.retriever == other]
        for one, two in product(left, right):
            rest = _common(two, common)
            if one.report == two.report and _common(one, common) == rest:
                yield MatchedPair(one.place, two.place, other, (two.report, rest))

    def meet(self, one: SweptParameter, two: SweptParameter, level: int) -> bool:
        """Whether two parameters reach a setting together; if the second is RETRIEVER, whether ``one`` reaches both."""
        if one == two:
            return False
        if two.name == RETRIEVER:
            return all(one.name in self._reaching(str(two.levels[place].value)) for place in (0, level))
        return any(one.name in cell.levels and two.name in cell.levels for cell in self.cells)

    def fours(
        self, first: tuple[SweptParameter, int], second: tuple[SweptParameter, int]
    ) -> list[tuple[MatchedPair, MatchedPair]]:
        """Pairs of ``first`` at the reference of ``second``, each with one at its level: all four agree in all else.

        ``first`` is not RETRIEVER, and must reach both where ``second`` is.
        """
        (one, level), (two, other) = first, second
        if two.name == RETRIEVER:
            names = [str(two.levels[place].value) for place in (0, other)]
            common = self._reaching(names[0]) & self._reaching(names[1])
            pairs = self.pairs(one, level)
            left, right = ([pair for pair in pairs if pair.retriever == name] for name in names)
            return [(a, b) for a, b in product(left, right) if _within(a.rest, common) == _within(b.rest, common)]
        at = {cell.place: cell.levels.get(two.name) for cell in self.cells}
        pairs = self.pairs(one, level, ignored=two.name)
        found = {(pair.retriever, pair.rest): pair for pair in pairs if at[pair.setting] == two.levels[0]}
        return [
            (found[pair.retriever, pair.rest], pair)
            for pair in pairs
            if at[pair.setting] == two.levels[other] and (pair.retriever, pair.rest) in found
        ]

    def _reaching(self, retriever: str) -> set[str]:
        return {name for cell in self.cells if cell.retriever == retriever for name in cell.levels}


def _common(cell: Cell, names: set[str]) -> Levels:
    return frozenset((name, level) for name, level in cell.levels.items() if name in names)


def _within(rest: tuple[int, Levels], names: set[str]) -> tuple[int, Levels]:
    return rest[0], frozenset((name, level) for name, level in rest[1] if name in names)


def _ordered(levels: Mapping[Level, None]) -> list[Level]:
    """By size where all are numbers, or lists of as many numbers; a share counts as a number."""
    sizes = {level: _size(level.value) for level in levels}
    if any(size is None for size in sizes.values()) or len({len(size or ()) for size in sizes.values()}) > 1:
        return list(levels)
    return sorted(levels, key=lambda level: sizes[level] or ())


def _size(value: JsonValue) -> tuple[float, ...] | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (value,)
    if isinstance(value, list):
        sizes = [_size(one) for one in value]
        return None if None in sizes else tuple(number for size in sizes for number in size or ())
    if isinstance(value, dict) and value.keys() == {"share", "of"}:
        return _size(value["share"])
    return None


def design_of(contenders: Sequence[ComparedSetting]) -> Design:
    """The settings of sweeps, without those of retrievers that none of the values reaches.

    A value that a combination does not name, as those of ``include`` may not, is what the config has.
    """
    reports = {id(contender.report): contender.report for contender in contenders}
    cells: list[Cell] = []
    for number, (known, report) in enumerate(reports.items()):
        places = [place for place, contender in enumerate(contenders) if id(contender.report) == known]
        sweep, reaching = _Sweep.of(report), dict[str, dict[str, None]]()
        for place in places:
            setting = contenders[place].setting
            reaching.setdefault(_entry(setting, report), {}).update(dict.fromkeys(_values(setting)))
        for place in places:
            setting = contenders[place].setting
            entry = _entry(setting, report)
            if reaching[entry]:
                cells.append(Cell(place, number, entry, sweep.levels(setting, entry, list(reaching[entry]))))
    return Design(tuple(cells))


def _values(setting: SettingPart) -> Mapping[str, Any]:
    values = setting.parameters.get("values")
    return values if isinstance(values, Mapping) else {}


def _entry(setting: SettingPart, report: Report) -> str:
    """The entry of ``retrievers`` that a setting is of; by its name, where its parameters do not tell."""
    if "entry" in setting.parameters:
        return str(setting.parameters["entry"])
    entries = [entry for entry in report.config.get("retrievers") or {} if setting.name.startswith(entry)]
    kind = (setting.parameters.get("retriever") or {}).get("kind")
    return str(max(entries, key=len, default=kind or setting.name))


@dataclass(frozen=True)
class _Sweep:
    """A config, and what its sweep says: what moves together, and what is a share of what; by dotted keys."""

    config: Mapping[str, Any]
    together: Sequence[tuple[str, ...]]
    shares: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, report: Report) -> _Sweep:
        sweep = report.config.get("sweep")
        matrix = sweep.get("matrix") if isinstance(sweep, Mapping) else None
        axes: Mapping[str, Any] = matrix if isinstance(matrix, Mapping) else {}
        shares = {key: one for key, one in axes.items() if isinstance(one, Mapping) and {"share", "of"} <= one.keys()}
        return cls(report.config, [tuple(key.strip() for key in entry.split(",")) for entry in axes], shares)

    def levels(self, setting: SettingPart, entry: str, keys: Sequence[str]) -> dict[str, Level]:
        """The level of each parameter of a setting, those whose values are known; ``keys`` reach its retriever."""
        values = {key: self._value(setting, entry, key) for key in keys}
        made: dict[str, Level] = {}
        for key in keys:
            group = next((group for group in self.together if key in group), (key,))
            moved = [one for one in group if one in keys]
            if moved[0] == key and not any(values[one] is _UNKNOWN for one in moved):
                taken = [self._as_share(setting, entry, one, values[one]) for one in moved]
                made[", ".join(moved)] = Level.of(taken if len(taken) > 1 else taken[0])
        return made

    def _value(self, setting: SettingPart, entry: str, key: str) -> Any:
        """What a dotted key of the config is for a setting, by its combination, as written, or by default."""
        values = _values(setting)
        if key in values:
            return values[key]
        path = key.split(".")
        written = _at(self.config, path)
        if written is not _UNKNOWN or path[0] != "retrievers":
            return _at(setting.parameters, path) if written is _UNKNOWN else written
        inside = ["retriever"] if path[1] == entry else ["parts", path[1], "retriever"]
        return _at(setting.parameters, [*inside, *path[2:]])

    def _as_share(self, setting: SettingPart, entry: str, key: str, value: Any) -> Any:
        """The share that a value was computed from, as the sweep computes it; else the value."""
        if key not in self.shares:
            return value
        share, of = self.shares[key]["share"], str(self.shares[key]["of"])
        whole = self._value(setting, entry, of)
        for one in share if isinstance(share, list | tuple) else (share,):
            if isinstance(whole, int) and math.floor(Fraction(repr(one)) * whole + Fraction(1, 2)) == value:
                return {"share": one, "of": of}
        return value


_UNKNOWN = object()


def _at(section: Any, path: Sequence[str]) -> Any:
    """What stands at a path in nested mappings, or _UNKNOWN."""
    for name in path:
        if not isinstance(section, Mapping) or name not in section:
            return _UNKNOWN
        section = section[name]
    return section
