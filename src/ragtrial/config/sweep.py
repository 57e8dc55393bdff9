"""The axes of a sweep, the combinations of their values, the names of settings, and a search along the axes.

search:
  method: tpe                       # random (default) | tpe
  settings: 60
  minutes: 30
  held_out: 0.3                     # a share of the queries, or tags: [test]
  group_by: document
  within: {latency.p95: 0.3, tokens@10: 2000}
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.config.strict_yaml import KeyPath
from ragtrial.errors import did_you_mean, listed
from ragtrial.options import LocatedText, Options, dotted, shown
from ragtrial.registry import Registry
from ragtrial.report.schema import COSTS, context_cost

MOST_COMBINATIONS = 100_000
"""A matrix with more is never built."""

PlacedFault = tuple[KeyPath, str]


def _two_ends(ends: list[int | float]) -> list[int | float]:
    if len(ends) != 2 or not all(map(math.isfinite, ends)) or not ends[0] < ends[1]:
        raise ValueError("must be two finite numbers, the lower one first.")
    return ends


class BetweenAxis(Options):
    """Any number between two, for a search; only whole numbers between whole numbers."""

    between: Annotated[list[int | float], AfterValidator(_two_ends)]
    """[lowest, highest]: only whole numbers, if both are written as whole numbers."""

    log: bool = False
    """Draw numbers on a logarithmic scale: as many from 1 to 10 as from 10 to 100."""

    @model_validator(mode="after")
    def _has_logarithms(self) -> BetweenAxis:
        if self.log and self.between[0] <= 0:
            raise ValueError(f"log needs numbers above 0; the lowest is {self.between[0]:g}.")
        return self

    def at(self, share: float) -> int | float:
        """The number that far on the way from the lowest (0) to the highest (1), to four digits."""
        low, high = self.between
        if self.log:
            value = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
        else:
            value = low + share * (high - low)
        if isinstance(low, int) and isinstance(high, int):
            return min(max(round(value), low), high)
        digits = 3 - math.floor(math.log10(value if self.log else high - low))
        return float(min(max(round(value, digits), low), high))


def _shape_of(value: object) -> str | None:
    if isinstance(value, list):
        return "a list"
    keys = set(value) if isinstance(value, Mapping) else set()
    return "two ends" if isinstance(value, BetweenAxis) or (keys and keys <= {"between", "log"}) else None


AxisValues = Annotated[
    Annotated[list[Any], Field(min_length=1), Tag("a list")] | Annotated[BetweenAxis, Tag("two ends")],
    Discriminator(
        _shape_of,
        custom_error_type="axis",
        custom_error_message="an axis is a list of values, or {between: [lowest, highest]}",
    ),
]


class SweepOptions(Options):
    """Many settings from one config: every combination of values along axes."""

    matrix: dict[str, AxisValues] = Field(default={})
    """Axes: dotted keys of the config, each with a list of values or, for a search, `{between: [0.0, 1.0]}`.
    Values may be whole mappings; a mapping of another kind replaces the config's, others are laid over it. A swept
    `kind` keeps the options that both kinds have in common. Keys that move together are in one entry, joined by commas,
    with a list of lists: `"chunker.size, chunker.overlap": [[128, 20], [256, 40]]`."""

    include: list[dict[str, Any]] = Field(default=[])
    """More combinations, each with values by dotted keys; what one does not name stays as the config has it. They run
    regardless of `exclude`."""

    exclude: list[Annotated[dict[str, Any], Field(min_length=1)]] = Field(default=[])
    """Combinations of the matrix to leave out: the combinations that agree with all values of an entry."""

    max_settings: Annotated[int, Field(ge=1)] = 200
    """The most settings that a sweep may have; more are refused before anything is run."""

    @model_validator(mode="after")
    def _names_an_axis(self) -> SweepOptions:
        if not self.matrix and not self.include:
            raise ValueError("names no axis; give it a matrix, like {chunker.size: [128, 256]}, or include.")
        return self

    def axes(self) -> list[Axis]:
        """The entries of the matrix, in its order."""
        entries = self.matrix.items()
        return [Axis(keys_in(entry), ("sweep", "matrix", entry), axis_values) for entry, axis_values in entries]

    def swept_keys(self) -> list[str]:
        """Every dotted key that the matrix or ``include`` names, each once, in their order."""
        swept = [key for entry in self.matrix for key in keys_in(entry)]
        return list(dict.fromkeys([*swept, *(key for entry in self.include for key in entry)]))

    def included(self) -> list[Combination]:
        """The combinations of ``include``."""
        entries = enumerate(self.include)
        return [Combination(own, {key: ("sweep", "include", row, key) for key in own}) for row, own in entries]

    def given(self) -> list[Combination]:
        """The combinations that a search does not choose: the config as it is, and ``include``."""
        return unique([Combination({}, {}), *self.included()])


def keys_in(entry: str) -> tuple[str, ...]:
    """The dotted keys of an entry of the matrix: one, or several joined by commas."""
    return tuple(key.strip() for key in entry.split(","))


@dataclass(frozen=True)
class Axis:
    """An entry of the matrix: keys that move together, and their values at each position.

    ``where`` is its place in the config. A position is an index in the list of values; on a continuous axis it is a
    share of the range, from 0 to 1.
    """

    keys: tuple[str, ...]
    where: KeyPath
    values: list[Any] | BetweenAxis

    @property
    def is_continuous(self) -> bool:
        """True if it has any value between two ends."""
        return isinstance(self.values, BetweenAxis)

    @property
    def is_ordered(self) -> bool:
        """True if its positions have the order of its values, which are numbers."""
        if isinstance(self.values, BetweenAxis):
            return True
        numbers = [value for value in self.values if isinstance(value, int | float) and not isinstance(value, bool)]
        return numbers == sorted(numbers) and len(numbers) == len(self.values)

    @property
    def positions(self) -> Sequence[float]:
        """All positions; the two ends of a continuous axis."""
        return [0.0, 1.0] if isinstance(self.values, BetweenAxis) else range(len(self.values))

    def at(self, position: float) -> Combination:
        """The keys with their values at ``position``."""
        if isinstance(self.values, BetweenAxis):
            return Combination({self.keys[0]: self.values.at(position)}, {self.keys[0]: self.where})
        row, where = self.values[int(position)], (*self.where, int(position))
        if len(self.keys) == 1:
            return Combination({self.keys[0]: row}, {self.keys[0]: where})
        places = {key: (*where, column) for column, key in enumerate(self.keys)}
        return Combination(dict(zip(self.keys, row, strict=True)), places)


@dataclass(frozen=True)
class Combination:
    """A value for each dotted key that it names, and the place of each in the config, in the order of the sweep."""

    values: Mapping[str, Any]
    where: Mapping[str, KeyPath]

    @classmethod
    def of(cls, parts: Iterable[Combination]) -> Combination:
        """The values of all ``parts``."""
        values: dict[str, Any] = {}
        where: dict[str, KeyPath] = {}
        for part in parts:
            values.update(part.values)
            where.update(part.where)
        return cls(values, where)

    @cached_property
    def identity(self) -> Hashable:
        """Equal for combinations with the same keys and values, in any order of keys."""
        return identity_of(self.values)

    def agrees(self, entry: Mapping[str, Any]) -> bool:
        """True if it has every value that ``entry`` names."""
        return all(key in self.values and identity_of(self.values[key]) == identity_of(entry[key]) for key in entry)

    def __str__(self) -> str:
        return ", ".join(f"{key} {shown(value)}" for key, value in self.values.items()) or "the config as it stands"


def identity_of(value: Any) -> Hashable:
    """A key that is equal for equal values: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return tuple(map(identity_of, value))
    if isinstance(value, Mapping):
        return frozenset((key, identity_of(inner)) for key, inner in value.items())
    return (bool, value) if isinstance(value, bool) else (value, None)


def combinations(sweep: SweepOptions) -> tuple[list[Combination], list[PlacedFault]]:
    """The combinations of the matrix, the last axis fastest, then the combinations of ``include``, each once; and
    faults.
    """
    axes = sweep.axes()
    counts = [len(axis.positions) for axis in axes]
    if (size := math.prod(counts)) > MOST_COMBINATIONS:
        message = (
            f"sweep has {size:,} combinations ({' x '.join(f'{count:,}' for count in counts if count > 1)}); at most "
            f"{MOST_COMBINATIONS:,} are built: take axes or values out, join keys that move together in one entry, or "
            "use a search."
        )
        return [], [(("sweep", "matrix"), message)]
    faults: list[PlacedFault] = []
    values = ([axis.at(position) for position in axis.positions] for axis in axes)
    matrix = unique(map(Combination.of, product(*values))) if axes else []
    for number, entry in enumerate(sweep.exclude):
        if not any(combination.agrees(entry) for combination in matrix):
            where: KeyPath = ("sweep", "exclude", number)
            message = f"{dotted(where)} drops nothing: no combination of the matrix has all of its values."
            faults.append((where, message))
    kept = [combination for combination in matrix if not any(map(combination.agrees, sweep.exclude))]
    all_combinations = unique([*kept, *sweep.included()])
    if not all_combinations:
        message = "sweep.exclude drops every combination of the matrix; there is nothing to run."
        faults.append((("sweep", "exclude"), message))
    return all_combinations, faults


def unique(combinations: Iterable[Combination]) -> list[Combination]:
    """The distinct combinations, in the order of their first occurrence."""
    first: dict[Hashable, Combination] = {}
    for combination in combinations:
        first.setdefault(combination.identity, combination)
    return list(first.values())


@dataclass(frozen=True)
class SearchMethod:
    """A way to choose settings: ``search`` asks a ``SearchRun`` for them.

    A method that ``is_adaptive`` looks at scores, so that the verdict needs held-out queries. ``packages`` are those of
    ``Options``.
    """

    search: Callable[[Any], None]
    is_adaptive: bool = True
    packages: Mapping[str, str] = field(default_factory=dict)


METHODS: Registry[SearchMethod] = Registry("search method", "ragtrial.search", SearchMethod)


def _method(name: str) -> str:
    if name not in METHODS:
        raise ValueError(METHODS.unknown(name))
    return name


def _methods(schema: dict[str, Any]) -> None:
    schema["enum"] = METHODS.names()


def _limit(name: str) -> str:
    if name not in COSTS and context_cost(name) is None:
        known = [*COSTS, "tokens@K", "characters@K"]
        raise ValueError(f"there is no such limit.{did_you_mean(name, known)} It must be one of {listed(known, 20)}.")
    return name


Limits = dict[Annotated[str, AfterValidator(_limit)], Annotated[float, Field(ge=0, allow_inf_nan=False)]]


class SearchOptions(Options):
    """A search for the best setting along the axes of the sweep, instead of all combinations."""

    @property
    def packages(self) -> Mapping[str, str]:  # type: ignore[override]  # which depends on the method
        return METHODS[self.method].packages

    method: Annotated[str, AfterValidator(_method), Field(json_schema_extra=_methods)] = "random"
    """How settings are chosen. `random` never looks at the labels, so every query counts for the verdict. `tpe`
    (Optuna's tree-structured Parzen estimator) looks at the labels and needs `held_out`."""

    settings: Annotated[int, Field(ge=2)] = 60
    """The maximum number of settings to try, in addition to the config itself and to `sweep.include`."""

    minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Start no new setting after this many minutes (default: no limit). The same command continues where a search
    stopped."""

    calls: Annotated[int, Field(ge=1)] | None = None
    """Start no new setting after this many requests to endpoints (default: no limit). Cached answers do not count."""

    within: Limits = Field(default={})
    """Cost limits for the best setting: `latency.p50`, `latency.p95`, `latency.p99` (seconds per query), `tokens@10`,
    `characters@10` (the text of that many hits), `index_bytes`, `embedding_seconds`, `indexing_seconds`; in money
    `embedding_cost` (all texts) and `query_cost` (a thousand queries), at the `price` of endpoints."""

    held_out: Annotated[float, Field(gt=0, lt=1)] | Annotated[list[str], Field(min_length=1)] | None = None
    """Queries that are kept out of the search and alone decide the verdict: a share of all queries, drawn with `seed`,
    or all queries with one of these tags."""

    group_by: Literal["document"] | None = None
    """Keep queries with a common relevant document on the same side of a `held_out` share."""

    baseline: str | None = None
    """The retriever to compare the best setting with, using its options in the config (default: the first
    retriever)."""


LONGEST_NAME = 100

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_SEPARATORS = "._-"
_SPEAKS_FOR_ITSELF = ("kind", "model", "function")
"""Last parts of keys whose values need no key before them."""


@dataclass(frozen=True)
class SettingNames:
    """Names for retrievers with values of a sweep's keys.

    Each value of a key is shown differently: a model by the last part of its path, a mapping by its kind and its
    differences from others of that kind, and in more detail if that does not distinguish them.
    """

    keys: Sequence[str]
    labels: Mapping[str, Mapping[Hashable, str]]

    @classmethod
    def of(cls, sweep: SweepOptions) -> SettingNames:
        listed: dict[str, dict[Hashable, Any]] = {key: {} for key in sweep.swept_keys()}
        axes = [axis for axis in sweep.axes() if not axis.is_continuous]
        for combination in [*(axis.at(position) for axis in axes for position in axis.positions), *sweep.included()]:
            for key, value in combination.values.items():
                listed[key].setdefault(identity_of(value), value)
        return cls(list(listed), {key: _labels_of(list(values.values())) for key, values in listed.items()})

    def name(self, retriever: str, values: Mapping[str, Any]) -> str:
        """The name of ``retriever`` with the ``values`` that it depends on: at most 100 letters, digits, ., _ and -.

        The retriever, then its own options, then the others, each with the last part of its key, or as much of the key
        as no other axis ends with. A longer name is cut and ends with a hash of the whole.
        """
        own = f"retrievers.{retriever}."
        in_order = sorted(values, key=lambda key: not key.startswith(own))
        name = "-".join([retriever, *(self._part(retriever, key, values[key]) for key in in_order)])
        if len(name) <= LONGEST_NAME:
            return name
        return name[: LONGEST_NAME - 9].rstrip(_SEPARATORS) + "-" + fingerprint(name)[:8]

    def _part(self, retriever: str, key: str, value: Any) -> str:
        label = self.labels.get(key, {}).get(identity_of(value)) or _shown(value)
        short = self._short_key(retriever, key)
        if (short in _SPEAKS_FOR_ITSELF and isinstance(value, str)) or (isinstance(value, Mapping) and "kind" in value):
            return label
        glued = _glued(label, value)
        return f"{short}_{glued}" if short[-1].isdigit() and glued[0].isdigit() else short + glued

    def _short_key(self, retriever: str, key: str) -> str:
        """The end of ``key`` that no other axis has, for names of ``retriever``, whose own options come without it."""
        own = f"retrievers.{retriever}."
        others = [other for other in self.keys if other != key]
        if key.startswith(own):  # options of other retrievers are not among its own
            near = [one for one in others if one.startswith(own) or not one.startswith("retrievers.")]
            others = [one.removeprefix(own) for one in near]
        parts = key.removeprefix(own).split(".")
        ends = (".".join(parts[-length:]) for length in range(1, len(parts) + 1))
        return next((end for end in ends if not any(f".{other}".endswith(f".{end}") for other in others)), key)


def _labels_of(values: Sequence[Any]) -> dict[Hashable, str]:
    """A label for each value, no two alike, even where case does not count."""
    short = [_shown(value, others=values) for value in values]
    whole = [_shown(value, is_whole=True) for value in values]
    hashed = [f"{text[:40]}-{fingerprint(value)[:8]}" for text, value in zip(whole, values, strict=True)]
    labels: list[str] = []
    for labels in (short, whole, hashed):
        alone = {label.casefold() for label in labels}
        glued = {_glued(label, value).casefold() for label, value in zip(labels, values, strict=True)}
        if len(alone) == len(glued) == len(values):
            break
    return {identity_of(value): label for value, label in zip(values, labels, strict=True)}


def _shown(value: Any, *, others: Sequence[Any] = (), is_whole: bool = False) -> str:
    """``value`` in letters, digits, ``.``, ``_`` and ``-``; shortened, unless the whole is wanted."""
    if isinstance(value, Mapping):
        return _mapping_shown(value, [inner for inner in others if isinstance(inner, Mapping)], is_whole=is_whole)
    if isinstance(value, list):
        return "-".join(_shown(inner, is_whole=is_whole) for inner in value).lstrip(_SEPARATORS) or "empty"
    if value is None or isinstance(value, bool):
        return "none" if value is None else str(value).lower()
    text = value.written if isinstance(value, LocatedText) else str(value)
    if not isinstance(value, str):
        return text.replace("+", "")
    if not is_whole:
        text = text.rstrip("/").rpartition("/")[2]
    return _UNSAFE.sub("-", text).strip(_SEPARATORS) or "empty"


def _mapping_shown(value: Mapping[str, Any], others: Sequence[Mapping[str, Any]], *, is_whole: bool) -> str:
    """The kind, and the differences from ``others`` of the same kind, or all options if the whole is wanted."""
    alike = [other for other in others if other.get("kind") == value.get("kind")]
    parts = [_shown(value["kind"])] if "kind" in value else []
    for key, option in value.items():
        differs = any(identity_of([other[key]] if key in other else None) != identity_of([option]) for other in alike)
        if key != "kind" and (is_whole or differs):
            label = _shown(option, is_whole=is_whole or isinstance(option, Mapping))
            parts.append(label if key in _SPEAKS_FOR_ITSELF else key + _glued(label, option))
    return _UNSAFE.sub("-", "-".join(parts)).strip(_SEPARATORS) or "empty"


def _glued(label: str, value: Any) -> str:
    """A label behind a key: ``128`` in size128, ``-lucene`` in method-lucene; what ends with a digit gets ``_0.9``."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return label if is_number else f"-{label}"
