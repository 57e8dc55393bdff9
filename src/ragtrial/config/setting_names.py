"""The names of the settings of a sweep: short, distinct, and fit for file names."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.config.sweep import SweepOptions, identity_of

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
            there = [one for one in others if one.startswith(own) or not one.startswith("retrievers.")]
            others = [one.removeprefix(own) for one in there]
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
        return _mapping_shown(value, [one for one in others if isinstance(one, Mapping)], is_whole=is_whole)
    if isinstance(value, list):
        return "-".join(_shown(one, is_whole=is_whole) for one in value).lstrip(_SEPARATORS) or "empty"
    if value is None or isinstance(value, bool):
        return "none" if value is None else str(value).lower()
    text = str(value)
    if not isinstance(value, str):
        return text.replace("+", "")
    if not is_whole:
        text = text.rstrip("/").rpartition("/")[2]
    return _UNSAFE.sub("-", text).strip(_SEPARATORS) or "empty"


def _mapping_shown(value: Mapping[str, Any], others: Sequence[Mapping[str, Any]], *, is_whole: bool) -> str:
    """The kind, and the differences from ``others`` of the same kind, or all options if the whole is wanted."""
    alike = [other for other in others if other.get("kind") == value.get("kind")]
    parts = [_shown(value["kind"])] if "kind" in value else []
    for key, one in value.items():
        differs = any(identity_of([other[key]] if key in other else None) != identity_of([one]) for other in alike)
        if key != "kind" and (is_whole or differs):
            label = _shown(one, is_whole=is_whole or isinstance(one, Mapping))
            parts.append(label if key in _SPEAKS_FOR_ITSELF else key + _glued(label, one))
    return _UNSAFE.sub("-", "-".join(parts)).strip(_SEPARATORS) or "empty"


def _glued(label: str, value: Any) -> str:
    """A label behind a key: ``128`` in size128, ``-lucene`` in method-lucene; what ends with a digit gets ``_0.9``."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return label if is_number else f"-{label}"
