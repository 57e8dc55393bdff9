"""The configs that a sweep makes of one: its combinations laid over it, each checked as if it had been written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ragtrial.config.axes import axis_faults
from ragtrial.config.combinations import combinations, with_values
from ragtrial.config.models import ExperimentConfig
from ragtrial.config.strict_yaml import KeyPath, YamlText
from ragtrial.errors import ConfigError, Fault
from ragtrial.options import validate

PlacedFault = tuple[KeyPath, str]


@dataclass(frozen=True)
class Variant:
    """A config without a sweep, and the values by dotted keys that were laid over it."""

    values: Mapping[str, Any]
    config: ExperimentConfig


def variants_of(config: ExperimentConfig) -> tuple[Variant, ...]:
    """The configs that ``config`` stands for, in the order of its sweep; itself, without one. Raises ConfigError."""
    if config.sweep is None:
        return (Variant({}, config),)
    made: tuple[Variant, ...] | None = config._variants  # noqa: SLF001 - a part of it that takes other parts to make
    if made is None:
        made = _made(config, config._content or YamlText(config.as_written, config.as_written))  # noqa: SLF001
        config._variants = made  # noqa: SLF001
    return made


def check_variants(config: ExperimentConfig, check: Callable[[ExperimentConfig], list[PlacedFault]]) -> None:
    """Raise ConfigError for all that ``check`` finds wrong with the configs that a sweep makes, each once."""
    found: dict[Fault, None] = {}
    for variant in variants_of(config) if config.sweep else ():
        found |= dict.fromkeys(variant.config.fault_at(*fault) for fault in check(variant.config))
    if found:
        raise ConfigError(*found)


def _made(config: ExperimentConfig, content: YamlText) -> tuple[Variant, ...]:
    sweep = config.sweep
    if sweep is None:
        return ()
    faults = [content.fault_at(*fault) for fault in axis_faults(sweep, content.value, ExperimentConfig)]
    if faults:
        raise ConfigError(*faults)
    made, wrong = [], dict[Fault, None]()
    for combination in combinations(sweep, config.seed, content.value):
        laid = with_values(content, combination)
        try:
            one = validate(ExperimentConfig, laid.value, ConfigError, laid.fault_at)
        except ConfigError as error:
            wrong |= dict.fromkeys(error.faults)
            continue
        one.remember(laid, config.file, None)
        made.append(Variant(combination, one))
    if wrong:
        raise ConfigError(*wrong)
    return tuple(made)


def all_configs(config: ExperimentConfig) -> Iterator[ExperimentConfig]:
    """The config of every variant."""
    return (variant.config for variant in variants_of(config))
