"""The configs of a sweep or of a search space."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

from ragtrial.config.models import ExperimentConfig, scored
from ragtrial.config.setting_names import template_faults
from ragtrial.config.strict_yaml import KeyPath, YamlText, merged, merged_values
from ragtrial.config.sweep import (
    Axis,
    Combination,
    PlacedFault,
    SweepOptions,
    agrees,
    combinations,
    given_before,
    identity_of,
    resolved,
)
from ragtrial.errors import ConfigError, Fault, did_you_mean, listed
from ragtrial.options import declarations, dotted, kinds_at, validate
from ragtrial.records import ReportWarning

SWEPT = ("chunker", "context", "embedder", "store", "retrievers")
"""The sections of a config that are parts of settings."""


@dataclass(frozen=True)
class Variant:
    """A config without a sweep, and the values by dotted keys that were laid over it."""

    values: Mapping[str, Any]
    config: ExperimentConfig


def variants_of(config: ExperimentConfig) -> tuple[Variant, ...]:
    """The configs that ``config`` stands for, in the order of its sweep; itself, without one. Raises ConfigError.

    With a search, the config without its sweep, and the combinations of ``include``: the others are chosen during the
    run.
    """
    if config.sweep is None:
        return (Variant({}, config),)
    sweep = config.sweep
    return config.once("variants", lambda: _made(config, sweep, config.content))


def variant_of(config: ExperimentConfig, combination: Combination) -> Variant:
    """``config`` with the values of ``combination``, whose shares are taken, laid over it. Raises ConfigError."""
    laid = with_values(config.content, combination)
    one = validate(ExperimentConfig, laid.value, ConfigError, laid.fault_at)
    one.remember(laid, config.file)
    return Variant(combination.values, one)


def probes_of(config: ExperimentConfig) -> list[Variant]:
    """With a search, the config with one value of one axis each, both ends of a continuous axis; only valid configs.

    They show which models and files a search may use before it begins.
    """
    return config.once("probes", lambda: list(_probes(config)))


def _probes(config: ExperimentConfig) -> Iterator[Variant]:
    for axis in config.sweep.axes() if config.sweep and config.search else ():
        for position in axis.positions(2):
            faults: dict[PlacedFault, None] = {}
            with suppress(ConfigError):
                one = resolved(axis.combination(position), config.content.value, faults)
                if not faults:
                    yield variant_of(config, one)


def listed_config(config: ExperimentConfig, combinations: Sequence[Combination]) -> ExperimentConfig:
    """``config`` with a sweep over ``combinations`` alone, and without a search."""
    content, sweep = config.content, dict[str, Any]()
    if config.sweep and config.sweep.name:
        sweep["name"] = config.sweep.name
    sweep["max_settings"] = max(len(combinations) * len(config.retrievers), 1)
    value = {**sweep, "include": [dict(combination.values) for combination in combinations]}
    written = {**sweep, "include": [_as_written(content, combination) for combination in combinations]}
    wholes = (content.value, value), (content.written, written)
    base = [{**{key: one for key, one in whole.items() if key != "search"}, "sweep": rows} for whole, rows in wholes]
    places = {path: place for path, place in content.places.items() if path[:1] != ("sweep",)}
    made = YamlText(base[0], base[1], places)
    validated = validate(ExperimentConfig, made.value, ConfigError, made.fault_at)
    validated.remember(made, config.file)
    return validated


def _as_written(content: YamlText, combination: Combination) -> dict[str, Any]:
    """The values of a combination, with variables where they were written."""
    return {key: _written_value(content, new, combination.where[key]) for key, new in combination.values.items()}


def _written_value(content: YamlText, new: Any, origin: KeyPath) -> Any:
    """The written form of the value ``new`` from ``origin``; the value itself if it was computed."""
    is_literal = identity_of(follow(content.value, origin)) == identity_of(new)
    return follow(content.written, origin) if is_literal else new


def combinations_given(config: ExperimentConfig) -> list[Combination]:
    """The fixed variants of a config with a search: the config as it is, and ``include``."""
    return given_before(config.sweep, config.content.value)[0] if config.sweep else [Combination({}, {})]


def all_configs(config: ExperimentConfig) -> Iterator[ExperimentConfig]:
    """The config of every variant, and representatives of the variants that a search may try."""
    return (variant.config for variant in (*variants_of(config), *probes_of(config)))


def check_variants(config: ExperimentConfig, check: Callable[[ExperimentConfig], list[PlacedFault]]) -> None:
    """Raise ConfigError for all that ``check`` finds wrong with the configs that a sweep makes, each once."""
    found: dict[Fault, None] = {}
    for one in all_configs(config) if config.sweep else ():
        found |= dict.fromkeys(one.fault_at(*fault) for fault in check(one))
    if found:
        raise ConfigError(*found)


def _made(config: ExperimentConfig, sweep: SweepOptions, content: YamlText) -> tuple[Variant, ...]:
    combined: list[Combination] = []
    faults = [*sweep_faults(sweep, content.value)]
    if not faults and config.search:
        combined, faults = given_before(sweep, content.value)
    elif not faults:
        combined, faults = combinations(sweep, config.seed, content.value)
    wrong = dict.fromkeys(content.fault_at(*fault) for fault in faults)
    made = []
    for combination in combined if not wrong else ():
        try:
            made.append(variant_of(config, combination))
        except ConfigError as error:
            wrong |= dict.fromkeys(error.faults)
    wrong |= dict.fromkeys(content.fault_at(*fault) for fault in template_faults(sweep))
    if wrong:
        raise ConfigError(*wrong)
    return tuple(made)


def sweep_faults(sweep: SweepOptions, config: Mapping[str, Any]) -> Iterator[PlacedFault]:
    """The faults of the keys and rows of a sweep; ``config`` is the content that contains it.

    Options that are not there, or have another value than they may, are found when a combination is laid over it.
    """
    together = [[(axis.where, key) for axis in sweep.axes() for key in axis.keys]]
    together += [[(("sweep", "include", number, key), key) for key in one] for number, one in enumerate(sweep.include)]
    for named in together:
        for where, key in named:
            if refusal := _refusal(key, config):
                yield where, f"{dotted(where)}: {refusal}"
        for number, (where, key) in enumerate(named):
            for _, other in named[:number]:
                if any(f"{one}.".startswith(f"{two}.") for one, two in permutations((key, other))):
                    yield where, f"{dotted(where)}: {key} and {other} set the same option; leave one of them out."
    for axis in sweep.axes():
        yield from _axis_faults(axis, is_searched=bool(config.get("search")))


def _axis_faults(axis: Axis, *, is_searched: bool) -> Iterator[PlacedFault]:
    if axis.is_continuous and not is_searched:
        yield axis.where, f"{dotted(axis.where)} is any value between two; that takes a search, or list the values."
    rows = axis.values if isinstance(axis.values, list) else [None]
    for position, row in enumerate(rows if len(axis.keys) > 1 else ()):
        if not isinstance(row, list) or len(row) != len(axis.keys):
            place: KeyPath = (*axis.where, position)
            yield place, f"{dotted(place)} must be a list of {len(axis.keys)} values: [{', '.join(axis.keys)}]."


def _refusal(key: str, config: Mapping[str, Any]) -> str | None:
    """Why ``key`` cannot be varied, as far as its section says; None if it can."""
    section, *rest = key.split(".")
    if section not in SWEPT:
        near = did_you_mean(section, SWEPT)
        return (
            f"{key} is not an option of a setting.{near} An axis reaches into {', '.join(SWEPT[:-1])} or {SWEPT[-1]}."
        )
    known = config.get("retrievers")
    if section == "retrievers" and isinstance(known, Mapping) and (not rest or rest[0] not in known):
        name = rest[0] if rest else ""
        return f"there is no retriever {name!r}.{did_you_mean(name, known)} Known: {listed(known)}."
    return None


def with_values(content: YamlText, values: Combination) -> YamlText:
    """The config with ``values`` laid over it, and without its sweep and its search.

    Mappings are merged, mappings of another ``kind`` replaced; see ``laid_over`` for a ``kind`` alone. Values, and the
    sections that they change, have their places in the sweep, so that a fault of validation is reported there. Raises
    ConfigError as ``laid_over`` does.
    """
    value: dict[str, Any] = {}
    written: dict[str, Any] = {}
    places: dict[KeyPath, Fault] = {}
    for key, new in values.values.items():
        path, origin = tuple(key.split(".")), values.where[key]
        value = merged_values(value, _nested(path, new))
        written = merged_values(written, _nested(path, _written_value(content, new, origin)))
        sections = (path[:length] for length in range(1, len(path) + 1) if path[:length] != ("retrievers",))
        places.update(dict.fromkeys(sections, content.fault_at(origin, "")))
        if isinstance(new, dict | list):
            below = {place: fault for place, fault in content.places.items() if place[: len(origin)] == origin}
            places.update({(*path, *place[len(origin) :]): fault for place, fault in below.items()})
    base = [
        {key: one for key, one in whole.items() if key not in ("sweep", "search")}
        for whole in (content.value, content.written)
    ]
    return laid_over(
        YamlText(base[0], base[1], content.places), YamlText(value, written, places), values.values, "sweep whole"
    )


@dataclass(frozen=True)
class KindChange:
    """A ``kind`` that is chosen by itself, for a section that has another one.

    ``kept`` are the written options of the section that both kinds inherit from one declaration, ``dropped`` the
    options that the new kind lacks, ``unlike`` the options that each kind declares for itself. Options that are chosen
    with the kind are in none of these.
    """

    section: KeyPath
    before: str
    after: str
    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    unlike: tuple[str, ...]

    def warning(self) -> ReportWarning:
        """The options that are dropped."""
        name = dotted(self.section)
        message = (
            f"{name}.kind: {self.after} has no {listed(self.dropped)}; the values for kind: {self.before} are left out "
            "there."
        )
        return ReportWarning("dropped-options", message)

    def refusal(self, advice: str) -> str:
        """Why an option that means one thing to the old kind and another to the new one cannot be kept."""
        name = dotted(self.section)
        return (
            f"{name}.kind: {listed(self.unlike)} of kind: {self.before} is not that of kind: {self.after}; {advice} "
            f"sections, like {name}: [{{kind: {self.before}, ...}}, {{kind: {self.after}, ...}}]."
        )


def kind_changes(content: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[KindChange]:
    """The kinds that ``values``, by dotted keys, choose by themselves for sections of ``content`` of another kind."""
    for key, kind in values.items():
        *section, option = key.split(".")
        options = follow(content, tuple(section))
        if option != "kind" or not isinstance(options, Mapping) or options.get("kind", kind) == kind:
            continue
        kinds = kinds_at(ExperimentConfig, section, content)
        if kind not in kinds or options["kind"] not in kinds:
            continue  # validation gives the better message
        before, after = declarations(kinds[options["kind"]]), declarations(kinds[kind])
        chosen = {other.split(".")[len(section)] for other in values if other.split(".")[: len(section)] == section}
        names = [name for name in options if name not in chosen]
        yield KindChange(
            tuple(section),
            options["kind"],
            kind,
            kept=tuple(name for name in names if name in after and before.get(name) is after[name]),
            dropped=tuple(name for name in names if name not in after),
            unlike=tuple(name for name in names if name in after and before.get(name, after[name]) is not after[name]),
        )


def laid_over(content: YamlText, over: YamlText, values: Mapping[str, Any], advice: str) -> YamlText:
    """``over``, which has ``values`` by dotted keys, on ``content``.

    A section for which another kind is chosen by itself keeps the options that both kinds inherit from one declaration.
    Raises ConfigError where the two kinds declare an option of the section apart.
    """
    faults = []
    for change in kind_changes(content.value, values):
        if change.unlike:
            faults.append(over.fault_at((*change.section, "kind"), change.refusal(advice)))
        kept = [_options(whole, change) for whole in (content.value, content.written)]
        length = len(change.section)
        places = {
            path: place for path, place in content.places.items()
            if path[:length] == change.section and path[length : length + 1] in [(name,) for name in change.kept]
        }  # fmt: skip
        value, written = (merged_values(one, two) for one, two in zip(kept, (over.value, over.written), strict=True))
        over = YamlText(value, written, {**places, **over.places})
    if faults:
        raise ConfigError(*faults)
    return merged(content, over)


def _options(content: Any, change: KindChange) -> Any:
    """The options of ``content`` that ``change`` keeps, in their section."""
    options = follow(content, change.section)
    return _nested(change.section, {name: options[name] for name in change.kept})


def dropped_options(config: ExperimentConfig) -> Iterator[ReportWarning]:
    """A warning for each kind that a sweep chooses for a section with options that this kind lacks."""
    content = config.content.value
    for variant in (*variants_of(config), *probes_of(config)):
        yield from (change.warning() for change in kind_changes(content, variant.values) if change.dropped)


def _nested(path: KeyPath, value: Any) -> Any:
    for part in reversed(path):
        value = {part: value}
    return value


def follow(content: Any, path: KeyPath) -> Any:
    """The value under ``path`` in ``content``; None if there is none."""
    for part in path:
        try:
            content = content[part]
        except (KeyError, IndexError, TypeError):
            return None
    return content


_DEPTHS = ("top_k", "candidates")
"""Options that say how deep rankings are looked at."""

_COMPLETIONS = 20
"""If none of this number of random combinations with a value is valid, the value itself is wrong."""

Positions = tuple[float | None, ...]
"""A position for each axis: an index in its list, or, if it is continuous, a share of the range from 0 to 1; None for
the config's own value."""


@dataclass(frozen=True)
class Point:
    """An entry of ``retrievers`` and a position on every axis."""

    entry: str
    positions: Positions


class Space:
    """The points along the axes of a config with a sweep; without one, no axes."""

    def __init__(self, config: ExperimentConfig) -> None:
        self.config = config
        self._content = config.content.value
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
        """The values at ``positions``. Raises ConfigError for shares of values that are not whole numbers."""
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

    A value that contradicts only some others makes combinations that a search leaves out.
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
        made = variant_of(config, resolved(values, config.content.value, faults)).config
        yield from (config.fault_at(*fault) for fault in faults)
        yield from (made.fault_at(*fault) for fault in check(made))
    except ConfigError as error:
        yield from error.faults


def _drawn(axis: Axis, chance: random.Random) -> float:
    return chance.random() if axis.is_continuous else chance.randrange(axis.count)


def _deepest(axis: Axis) -> float:
    return max(axis.positions(2), key=lambda at: next(axis.at(at))[1])
