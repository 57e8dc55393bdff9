"""The configs of a sweep, and of a search along its axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from ragtrial.config.models import ExperimentConfig
from ragtrial.config.strict_yaml import KeyPath, YamlText, merged, merged_values
from ragtrial.config.sweep import Axis, Combination, PlacedFault, SweepOptions, combinations, identity_of
from ragtrial.errors import ConfigError, Fault, did_you_mean, listed
from ragtrial.options import declarations, dotted, kinds_at
from ragtrial.records import ReportWarning

SWEPT = ("chunker", "context", "embedder", "store", "retrievers")
"""The sections of a config that are parts of settings."""

Check = Callable[[ExperimentConfig], list[PlacedFault]]


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
    return config.once("variants", lambda: tuple(_variants(config, sweep)))


def _variants(config: ExperimentConfig, sweep: SweepOptions) -> list[Variant]:
    content, variants = config.content, list[Variant]()
    chosen, faults = list[Combination](), list(sweep_faults(sweep, content.value))
    if not faults:
        chosen, faults = (sweep.given(), []) if config.search else combinations(sweep)
    wrong = dict.fromkeys(content.fault_at(*fault) for fault in faults)
    for combination in chosen:
        try:
            variants.append(variant_of(config, combination))
        except ConfigError as error:
            wrong |= dict.fromkeys(error.faults)
    ConfigError.raise_any(wrong)
    return variants


def variant_of(config: ExperimentConfig, combination: Combination) -> Variant:
    """``config`` with the values of ``combination`` laid over it. Raises ConfigError."""
    return Variant(combination.values, ExperimentConfig.of(with_values(config.content, combination), config.file))


def probes_of(config: ExperimentConfig) -> list[Variant]:
    """With a search, the config with one value of one axis each, both ends of a continuous axis; only valid configs.

    They show which models and files a search may use before it begins.
    """
    return config.once("probes", lambda: list(_probes(config)))


def _probes(config: ExperimentConfig) -> Iterator[Variant]:
    for axis in config.sweep.axes() if config.sweep and config.search else ():
        for position in axis.positions:
            with suppress(ConfigError):
                yield variant_of(config, axis.at(position))


def all_configs(config: ExperimentConfig) -> Iterator[ExperimentConfig]:
    """The configs of the variants, and with a search of the probes."""
    return (variant.config for variant in (*variants_of(config), *probes_of(config)))


def listed_config(config: ExperimentConfig, combinations: Sequence[Combination]) -> ExperimentConfig:
    """``config`` with a sweep over ``combinations`` alone, and without a search."""
    base, most = config.content.without("sweep", "search"), max(len(combinations) * len(config.retrievers), 1)
    values = [dict(combination.values) for combination in combinations]
    written = [
        {key: _written_value(config.content, new, one.where[key]) for key, new in one.values.items()}
        for one in combinations
    ]
    value, as_written = (
        {**whole, "sweep": {"max_settings": most, "include": rows}}
        for whole, rows in ((base.value, values), (base.written, written))
    )
    return ExperimentConfig.of(YamlText(value, as_written, base.places), config.file)


def _written_value(content: YamlText, new: Any, origin: KeyPath) -> Any:
    """The written form of the value ``new`` from ``origin``; the value itself if it was computed."""
    is_literal = identity_of(follow(content.value, origin)) == identity_of(new)
    return follow(content.written, origin) if is_literal else new


def sweep_faults(sweep: SweepOptions, config: Mapping[str, Any]) -> Iterator[PlacedFault]:
    """The faults of the keys and rows of a sweep; ``config`` is the content that contains it.

    Options that are not there, or have another value than they may, are found when a combination is laid over it.
    """
    together = [[(axis.where, key) for axis in sweep.axes() for key in axis.keys]]
    together += [[(where, key) for key, where in combination.where.items()] for combination in sweep.included()]
    for named in together:
        for where, key in named:
            if refusal := _refusal(key, config):
                yield where, f"{dotted(where)}: {refusal}"
        for number, (where, key) in enumerate(named):
            for _, other in named[:number]:
                if any(f"{first}.".startswith(f"{second}.") for first, second in permutations((key, other))):
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
        near, known = did_you_mean(section, SWEPT), f"{', '.join(SWEPT[:-1])} or {SWEPT[-1]}"
        return f"{key} is not an option of a setting.{near} An axis reaches into {known}."
    retrievers = config.get("retrievers")
    if section == "retrievers" and isinstance(retrievers, Mapping) and (not rest or rest[0] not in retrievers):
        name = rest[0] if rest else ""
        return f"there is no retriever {name!r}.{did_you_mean(name, retrievers)} Known: {listed(retrievers)}."
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
        value = merged_values(value, nested(path, new))
        written = merged_values(written, nested(path, _written_value(content, new, origin)))
        sections = (path[:length] for length in range(1, len(path) + 1) if path[:length] != ("retrievers",))
        places.update(dict.fromkeys(sections, content.fault_at(origin, "")))
        if isinstance(new, dict | list):
            below = {place: fault for place, fault in content.places.items() if place[: len(origin)] == origin}
            places.update({(*path, *place[len(origin) :]): fault for place, fault in below.items()})
    base = content.without("sweep", "search")
    return laid_over(base, YamlText(value, written, places), values.values, "sweep whole")


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
        return ReportWarning.of_verdict("dropped-options", message)

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
        section, length = change.section, len(change.section)
        if change.unlike:
            faults.append(over.fault_at((*section, "kind"), change.refusal(advice)))
        value, written = (
            merged_values(nested(section, {name: follow(whole, section)[name] for name in change.kept}), new)
            for whole, new in ((content.value, over.value), (content.written, over.written))
        )
        kept = [(*section, name) for name in change.kept]
        places = {path: place for path, place in content.places.items() if path[: length + 1] in kept}
        over = YamlText(value, written, {**places, **over.places})
    ConfigError.raise_any(faults)
    return merged(content, over)


def dropped_options(config: ExperimentConfig) -> Iterator[ReportWarning]:
    """A warning for each kind that a sweep chooses for a section with options that this kind lacks."""
    content = config.content.value
    for variant in (*variants_of(config), *probes_of(config)):
        yield from (change.warning() for change in kind_changes(content, variant.values) if change.dropped)


def nested(path: Sequence[str | int], value: Any) -> Any:
    """``value`` under ``path`` in mappings that have nothing else."""
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
