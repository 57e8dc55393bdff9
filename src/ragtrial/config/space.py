"""The space of a search: the settings at the points along the axes of a sweep."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from ragtrial.config.models import ExperimentConfig, scored
from ragtrial.config.settings import Setting, named_setting, setting_of
from ragtrial.config.sweep import Axis, Combination, SettingNames
from ragtrial.config.variants import Check, Variant, probes_of, variant_of
from ragtrial.errors import ConfigError, Fault

_COMPLETIONS = 20
"""If none of this number of random combinations with a value is valid, the value itself is wrong."""

_LISTED = 20_000
"""Spaces of fewer points are listed as a whole."""

Positions = tuple[float | None, ...]
"""A position for each axis; None for the config's own value."""


@dataclass(frozen=True)
class Point:
    """An entry of ``retrievers`` and a position on every axis."""

    entry: str
    positions: Positions


class Space:
    """The points along the axes of a config with a sweep, and the setting at each, built once."""

    def __init__(self, config: ExperimentConfig) -> None:
        self.config = config
        self.axes: list[Axis] = config.sweep.axes() if config.sweep else []
        self.entries = list(scored(config))
        self._names = SettingNames.of(config.sweep) if config.sweep else None
        self._variants: dict[Positions, Variant | ConfigError] = {}
        self._settings: dict[Point, Setting | None] = {}

    def combination(self, positions: Positions) -> Combination:
        """The values at ``positions``."""
        placed = zip(self.axes, positions, strict=True)
        return Combination.of(axis.at(position) for axis, position in placed if position is not None)

    def variant(self, positions: Positions) -> Variant | None:
        """The config with the values at ``positions``; None if these are invalid, or excluded by the sweep."""
        combination = self.combination(positions)
        if positions not in self._variants:
            try:
                self._variants[positions] = variant_of(self.config, combination)
            except ConfigError as error:
                self._variants[positions] = error
        variant, excluded = self._variants[positions], self.config.sweep.exclude if self.config.sweep else []
        return None if isinstance(variant, ConfigError) or any(map(combination.agrees, excluded)) else variant

    def refusals(self) -> list[Fault]:
        """The faults of the points that were asked for, each once."""
        errors = [error for error in self._variants.values() if isinstance(error, ConfigError)]
        return list(dict.fromkeys(fault for error in errors for fault in error.faults))

    def at(self, point: Point) -> Setting | None:
        """The setting of a point; None if its values are invalid, or excluded by the sweep."""
        if point not in self._settings:
            variant = self.variant(point.positions)
            self._settings[point] = named_setting(variant, point.entry, self._names) if variant else None
        return self._settings[point]

    @cached_property
    def reached(self) -> Mapping[str, Sequence[bool]]:
        """For each entry, whether each axis changes its settings."""
        configs = [self.config, *(probe.config for probe in probes_of(self.config))]
        settings = {entry: [setting_of(config, entry) for config in configs] for entry in self.entries}
        return {
            entry: [any(setting.is_reached(key) for setting in own for key in axis.keys) for axis in self.axes]
            for entry, own in settings.items()
        }

    @cached_property
    def size(self) -> int | None:
        """The number of points; None with a continuous axis."""
        reached = [[axis for axis, one in zip(self.axes, row, strict=True) if one] for row in self.reached.values()]
        if any(axis.is_continuous for axes in reached for axis in axes):
            return None
        return sum(math.prod(len(axis.positions) for axis in axes) for axes in reached)

    def all_points(self) -> list[Point] | None:
        """Every point; None if there are too many."""
        if self.size is None or self.size > _LISTED:
            return None
        points = []
        for entry, reached in self.reached.items():
            positions = (axis.positions if one else [None] for axis, one in zip(self.axes, reached, strict=True))
            points += [Point(entry, row) for row in product(*positions)]
        return points

    def drawn(self, chance: random.Random) -> Point:
        """A point, each entry and each position as likely as any other."""
        entry = chance.choice(self.entries)
        return Point(entry, tuple(
            chance.random() if axis.is_continuous else chance.randrange(len(axis.positions)) for axis in self.axes
        ))  # fmt: skip

    def plain(self, point: Point) -> Point:
        """The point without positions on axes that do not change its entry."""
        pairs = zip(point.positions, self.reached[point.entry], strict=True)
        return Point(point.entry, tuple(position if is_reached else None for position, is_reached in pairs))


def invalid_values(config: ExperimentConfig, check: Check) -> Iterator[Fault]:
    """The faults of values that no combination can have: neither the config as it is, nor a random one.

    A value that contradicts only some others makes combinations that a search leaves out.
    """
    space, chance = Space(config), random.Random(config.seed)  # noqa: S311 - not a secret
    for number, axis in enumerate(space.axes):
        for position in axis.positions:
            try:
                variant = variant_of(config, axis.at(position)).config
                faults = [variant.fault_at(*fault) for fault in check(variant)]
            except ConfigError as error:
                faults = list(error.faults)
            for _ in range(_COMPLETIONS if faults else 0):
                drawn = list(space.drawn(chance).positions)
                drawn[number] = float(position)
                completed = space.variant(tuple(drawn))
                if completed is not None and not check(completed.config):
                    break
            else:
                yield from faults
