"""From a sweep to combinations of values, and from a combination to a config."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import Any

from ragtrial.config.extends import merged, merged_values
from ragtrial.config.strict_yaml import KeyPath, YamlText
from ragtrial.config.sweep import Axis, ShareAxis, ShareOfKey, SweepOptions
from ragtrial.errors import ConfigError, Fault
from ragtrial.options import shown

MOST_COMBINATIONS = 100_000
"""A matrix with more is never built; it can only be sampled from."""

_NONE: Mapping[str, Any] = MappingProxyType({})
_Entries = tuple[tuple[str, Any, KeyPath], ...]


@dataclass(frozen=True, eq=False)
class Combination(Mapping[str, Any]):
    """A value for each key that it names, in the order of the sweep; ``where`` has the place of each in the config."""

    chosen: Mapping[str, Any]
    where: Mapping[str, KeyPath]

    def __getitem__(self, key: str) -> Any:
        return self.chosen[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.chosen)

    def __len__(self) -> int:
        return len(self.chosen)

    @cached_property
    def identity(self) -> Hashable:
        """Equal for combinations with the same keys and values, whatever the order of keys."""
        return identity_of(self.chosen)

    def only(self, keys: Iterable[str]) -> Combination:
        """The part of it that ``keys`` name; keys that it does not have are passed over."""
        wanted = set(keys)
        return Combination(
            {key: value for key, value in self.chosen.items() if key in wanted},
            {key: place for key, place in self.where.items() if key in wanted},
        )

    def __str__(self) -> str:
        return described(self.chosen)


def described(values: Mapping[str, Any]) -> str:
    """``chunker.size 128, embedder.model 'tiny'``, for messages."""
    return ", ".join(f"{key} {shown_whole(value)}" for key, value in values.items()) or "the config as it stands"


def shown_whole(value: Any) -> str:
    """A value as messages show it, mappings and lists with what they hold, on one line."""
    if isinstance(value, Mapping):
        text = "{" + ", ".join(f"{key}: {shown_whole(one)}" for key, one in value.items()) + "}"
    elif isinstance(value, list):
        text = "[" + ", ".join(map(shown_whole, value)) + "]"
    else:
        return shown(value)
    return text if len(text) <= 60 else text[:57] + "..."


def identity_of(value: Any) -> Hashable:
    """What is equal for equal values: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return tuple(map(identity_of, value))
    if isinstance(value, dict | Mapping):
        return frozenset((key, identity_of(one)) for key, one in value.items())
    return (bool, value) if isinstance(value, bool) else (value, None)


def unique(combinations: Iterable[Combination]) -> list[Combination]:
    """The combinations, each once: of equal ones the first."""
    first: dict[Hashable, Combination] = {}
    for combination in combinations:
        first.setdefault(combination.identity, combination)
    return list(first.values())


def combinations(sweep: SweepOptions, seed: int, config: Mapping[str, Any] = _NONE) -> list[Combination]:
    """The combinations of the matrix, the last axis fastest, then those of ``include``; none stands twice.

    ``sample`` draws from those of the matrix that ``exclude`` leaves, with ``seed``, and keeps their order. ``config``
    is the content of the config: shares of what is no axis are shares of what it has. Of what ``axis_faults`` refuses
    only the size is looked at: raises ConfigError for a matrix that is too large to be built.
    """
    refusal = size_refusal(sweep)
    if refusal:
        raise ConfigError(Fault(message=refusal))
    return unique([*_sampled(sweep, seed, config), *included(sweep)])


def size_refusal(sweep: SweepOptions) -> str | None:
    """Why the matrix is too large to be built, None if it is not."""
    size = sweep.size()
    if size <= MOST_COMBINATIONS or (_needs_no_look(sweep) and (sweep.sample or size) <= MOST_COMBINATIONS):
        return None
    counts = " x ".join(f"{axis.count:,}" for axis in sweep.axes() if axis.count > 1)
    found = f"sweep has {size:,} combinations ({counts})"
    if sweep.sample:
        return (
            f"{found}; from more than {MOST_COMBINATIONS:,} a sample of at most so many can be drawn, and only without "
            "exclude and lists of shares: take axes or values out."
        )
    return (
        f"{found}; max_settings is {sweep.max_settings:,}: take axes or values out, join keys that move together in "
        f"one entry, or draw some at random with sample: {sweep.max_settings}."
    )


def of_matrix(sweep: SweepOptions, config: Mapping[str, Any] = _NONE) -> Iterator[Combination]:
    """Every combination of the matrix, before ``exclude`` and ``sample``; the last axis is the fastest."""
    if not sweep.matrix:
        return iter(())
    columns = ([tuple(axis.at(position)) for position in range(axis.count)] for axis in sweep.axes())
    return (_combined(row, config) for row in product(*columns))


def included(sweep: SweepOptions) -> list[Combination]:
    """The combinations of ``include``, with the values that follow from theirs as one share of another key."""
    followers = [(axis.keys[0], axis.where, axis.values) for axis in sweep.axes() if isinstance(axis.values, ShareAxis)]
    made = []
    for number, entry in enumerate(sweep.include):
        chosen = dict(entry)
        where: dict[str, KeyPath] = {key: ("sweep", "include", number, key) for key in entry}
        for key, place, values in followers:
            if key not in entry and values.of in entry and len(values.share) == 1:
                chosen[key], where[key] = ShareOfKey(values.share[0], values.of).taken_of(entry[values.of]), place
        made.append(Combination(chosen, where))
    return made


def is_excluded(combination: Combination, entry: Mapping[str, Any]) -> bool:
    """Whether ``combination`` agrees with every value that ``entry`` names."""
    return all(
        key in combination and identity_of(combination[key]) == identity_of(value) for key, value in entry.items()
    )


def written_at(content: Any, dotted_key: str) -> Any:
    """What a config's content has under a dotted key; None if it has nothing there."""
    for part in dotted_key.split("."):
        content = content.get(part) if isinstance(content, Mapping) else None
    return content


def with_values(content: YamlText, values: Combination) -> YamlText:
    """The config with ``values`` laid over it, and without its sweep.

    Mappings are merged, those of another ``kind`` replaced, as --set does. The places of values, and of the sections
    that they reach into, are their places in the sweep: a fault of validation is reported where the value stands.
    """
    value: dict[str, Any] = {}
    written: dict[str, Any] = {}
    places: dict[KeyPath, Fault] = {}
    for key, new in values.items():
        path, origin = tuple(key.split(".")), values.where[key]
        literal = _follow(content.value, origin)
        as_written = _follow(content.written, origin) if identity_of(literal) == identity_of(new) else new
        value = merged_values(value, _nested(path, new))
        written = merged_values(written, _nested(path, as_written))
        here = content.fault_at(origin, "")
        sections = (path[:length] for length in range(1, len(path) + 1) if path[:length] != ("retrievers",))
        places.update(dict.fromkeys(sections, here))
        if isinstance(new, dict | list):
            places.update(_below(content.places, origin, path))
    bare = YamlText(_without_sweep(content.value), _without_sweep(content.written), content.places)
    return merged(bare, YamlText(value, written, places))


def _sampled(sweep: SweepOptions, seed: int, config: Mapping[str, Any]) -> Sequence[Combination]:
    if sweep.sample and _needs_no_look(sweep):
        axes = sweep.axes()
        return [_combined(_row_at(axes, index), config) for index in _drawn(sweep.size(), sweep.sample, seed)]
    kept = unique(
        one for one in of_matrix(sweep, config) if not any(is_excluded(one, entry) for entry in sweep.exclude)
    )
    return [kept[index] for index in _drawn(len(kept), sweep.sample, seed)]


def _needs_no_look(sweep: SweepOptions) -> bool:
    """Whether all combinations of the matrix are wanted and differ, so that some can be drawn without building it."""
    shares = [axis.values.share for axis in sweep.axes() if isinstance(axis.values, ShareAxis)]
    return not sweep.exclude and all(len(share) == 1 for share in shares)


def _drawn(size: int, sample: int | None, seed: int) -> Iterable[int]:
    if sample is None or sample >= size:
        return range(size)
    drawing = random.Random(seed)  # noqa: S311 - not a secret
    if size <= MOST_COMBINATIONS:
        return sorted(drawing.sample(range(size), sample))
    drawn: set[int] = set()  # what Python can count in a range may be less than the size
    while len(drawn) < sample:
        drawn.add(drawing.randrange(size))
    return sorted(drawn)


def _row_at(axes: Sequence[Axis], index: int) -> list[_Entries]:
    """What each axis has in combination number ``index`` of the matrix."""
    row: list[_Entries] = []
    for axis in reversed(axes):
        index, position = divmod(index, axis.count)
        row.append(tuple(axis.at(position)))
    return row[::-1]


def _combined(row: Iterable[_Entries], config: Mapping[str, Any]) -> Combination:
    chosen = {key: value for entries in row for key, value, _ in entries}
    where = {key: place for entries in row for key, _, place in entries}
    for key, value in chosen.items():
        if isinstance(value, ShareOfKey):
            chosen[key] = value.taken_of(chosen[value.of] if value.of in chosen else written_at(config, value.of))
    return Combination(chosen, where)


def _nested(path: tuple[str, ...], value: Any) -> Any:
    for part in reversed(path):
        value = {part: value}
    return value


def _follow(content: Any, path: KeyPath) -> Any:
    for part in path:
        try:
            content = content[part]
        except (KeyError, IndexError, TypeError):
            return None
    return content


def _below(places: Mapping[KeyPath, Fault], origin: KeyPath, path: KeyPath) -> dict[KeyPath, Fault]:
    length = len(origin)
    return {(*path, *place[length:]): fault for place, fault in places.items() if place[:length] == origin}


def _without_sweep(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != "sweep"}
