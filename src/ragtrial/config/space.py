"""What a search may try: an entry of ``retrievers`` and a position on every axis of the sweep."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from ragtrial.config.models import ExperimentConfig, scored
from ragtrial.config.sweep import Axis, Combination, PlacedFault, agrees, resolved
from ragtrial.config.variants import Variant, content_of, variant_of
from ragtrial.errors import ConfigError, Fault

_DEPTHS = ("top_k", "candidates")
"""Options that say how deep rankings are looked at."""

_COMPLETIONS = 20
"""Of so many random combinations with a value one must be valid, or the value itself is wrong."""

Positions = tuple[float | None, ...]
"""A position for each axis: a place in its list, or, where it is continuous, a share of the way from 0 to 1; None for
what the config has."""


@dataclass(frozen=True)
class Point:
    """An entry of ``retrievers`` and a position on every axis."""

    entry: str
    positions: Positions


class Space:
    """The points along the axes of a config with a sweep; without one, no axes."""

    def __init__(self, config: ExperimentConfig) -> None:
        self.config = config
        self._content = content_of(config).value
        self._exclude = config.sweep.exclude if config.sweep else []
        self.axes: list[Axis] = config.sweep.axes() if config.sweep else []
        self.entries = list(scored(config))
        self._variants: dict[Positions, Variant | ConfigError] = {}

    def points(self, entry: str, reached: Sequence[bool]) -> Iterator[Point]:
        """Every point of an entry, of the axes that are ``reached``; asked of none that is continuous."""
        positions = [range(axis.count) if one else [None] for axis, one in zip(self.axes, reached, strict=True)]
        return (Point(entry, row) for row in product(*positions))

    def drawn(self, chance: random.Random) -> Point:
        """A point, each entry and each position as likely as any other."""
        return Point(chance.choice(self.entries), tuple(_drawn(axis, chance) for axis in self.axes))

    def combination(self, positions: Positions) -> Combination:
        """The values at ``positions``. Raises ConfigError for shares of what is no whole number."""
        placed = zip(self.axes, positions, strict=True)
        chosen = [one for axis, at in placed if at is not None for one in axis.at(at)]
        given = Combination({key: value for key, value, _ in chosen}, {key: where for key, _, where in chosen})
        faults: dict[PlacedFault, None] = {}
        made = resolved(given, self._content, faults)
        if faults:
            raise ConfigError(*(self.config.fault_at(*fault) for fault in faults))
        return made

    def variant(self, positions: Positions) -> Variant | None:
        """The config with the values at ``positions``; None where it refuses them, or ``exclude`` leaves them out."""
        if positions not in self._variants:
            try:
                self._variants[positions] = variant_of(self.config, self.combination(positions))
            except ConfigError as error:
                self._variants[positions] = error
        found = self._variants[positions]
        if isinstance(found, ConfigError) or any(agrees(Combination(found.values, {}), one) for one in self._exclude):
            return None
        return found

    def refusals(self) -> list[Fault]:
        """Why the config refused points that were asked for, each reason once."""
        refused = [one for one in self._variants.values() if isinstance(one, ConfigError)]
        return list(dict.fromkeys(fault for error in refused for fault in error.faults))

    def deepest(self, positions: Positions) -> Positions:
        """The same with rankings looked at as deep as any of its axes has it."""
        return tuple(
            _deepest(axis) if axis.is_ordered and axis.keys[0].rpartition(".")[2] in _DEPTHS else at
            for axis, at in zip(self.axes, positions, strict=True)
        )


def invalid_values(config: ExperimentConfig, check: Callable[[ExperimentConfig], list[PlacedFault]]) -> Iterator[Fault]:
    """The faults of values that no combination can have: neither the config as it is, nor a random one.

    A value that is wrong beside some others only makes combinations that a search leaves out.
    """
    space, chance = Space(config), random.Random(config.seed)  # noqa: S311 - not a secret
    for number, axis in enumerate(space.axes):
        for position in axis.positions(2):
            faults = list(_faults(config, axis.combination(position), check))
            if not faults:
                continue
            for _ in range(_COMPLETIONS):
                drawn = list(space.drawn(chance).positions)
                drawn[number] = float(position)
                variant = space.variant(tuple(drawn))
                if variant is not None and not check(variant.config):
                    break
            else:
                yield from faults


def _faults(
    config: ExperimentConfig, values: Combination, check: Callable[[ExperimentConfig], list[PlacedFault]]
) -> Iterator[Fault]:
    try:
        faults: dict[PlacedFault, None] = {}
        made = variant_of(config, resolved(values, content_of(config).value, faults)).config
        yield from (config.fault_at(*fault) for fault in faults)
        yield from (made.fault_at(*fault) for fault in check(made))
    except ConfigError as error:
        yield from error.faults


def _drawn(axis: Axis, chance: random.Random) -> float:
    return chance.random() if axis.is_continuous else chance.randrange(axis.count)


def _deepest(axis: Axis) -> float:
    return max(axis.positions(2), key=lambda at: next(axis.at(at))[1])
