"""How the settings of a sweep are called: short, telling, fit for file names, each another."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.config.combinations import described, identity_of
from ragtrial.config.strict_yaml import KeyPath
from ragtrial.config.sweep import RangeAxis, ShareAxis, SweepOptions
from ragtrial.errors import did_you_mean, listed
from ragtrial.options import shown

LONGEST_NAME = 100

_FIELD = re.compile(r"\{([^{}]*)\}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MINUS = re.compile(r"^-(?=[0-9])")
_SEPARATORS = "._-"
_SPEAKS_FOR_ITSELF = ("kind", "model", "function")
"""Last parts of keys whose values need no key before them."""


@dataclass(frozen=True)
class SettingNames:
    """Names for retrievers with values of a sweep's keys.

    Each value of a key is shown in another way: a model by the last part of its path, a mapping by its kind and what
    differs from others of that kind; and with more where that is not enough to tell them apart.
    """

    template: str | None
    keys: Sequence[str]
    labels: Mapping[str, Mapping[Hashable, str]]

    @classmethod
    def of(cls, sweep: SweepOptions) -> SettingNames:
        labels = {key: _labels_of(values) for key, values in _listed_values(sweep).items()}
        return cls(sweep.name, sweep.named_keys(), labels)

    def name(self, retriever: str, values: Mapping[str, Any]) -> str:
        """The name of ``retriever`` with ``values``, those that reach it: at most 100 of letters, digits, ., _ and -.

        By the template; a field for a value that is not among ``values`` is left out with the text before it. Without a
        template the retriever, then its own options, then the others, each with the last part of its key, or as much of
        the key as no other axis ends with. What is longer is cut and ends with a hash of the whole.
        """
        made = self._by_default(retriever, values) if self.template is None else self._filled(retriever, values)
        made = _MINUS.sub("minus", _UNSAFE.sub("-", made)).strip(_SEPARATORS) or retriever
        if len(made) <= LONGEST_NAME:
            return made
        return made[: LONGEST_NAME - 9].rstrip(_SEPARATORS) + "-" + fingerprint(made)[:8]

    def clashes(self, settings: Iterable[tuple[str, Mapping[str, Any]]]) -> list[tuple[KeyPath, str]]:
        """A fault for the first two of ``settings`` (retriever and values) that come out with one name; letters' case
        does not tell names apart, since it does not tell files apart everywhere. Equal settings are one.
        """
        first: dict[str, tuple[str, Mapping[str, Any]]] = {}
        for retriever, values in settings:
            name = self.name(retriever, values)
            other, others = first.setdefault(name.casefold(), (retriever, values))
            if (retriever, identity_of(values)) == (other, identity_of(others)):
                continue
            both = f"{other} with {described(others)}, and {retriever} with {described(values)}"
            missing = self._that_differs((other, others), (retriever, values))
            if self.template is None:
                field = missing or "{retriever}"
                says = f"two settings come out as {name!r}: {both}. Write sweep.name, a template with {field} in it."
                return [(("sweep",), says)]
            step = f"put {missing} into it" if missing else "put - or _ between its fields"
            return [(("sweep", "name"), f"sweep.name {self.template!r} gives the name {name!r} to {both}; {step}.")]
        return []

    def _that_differs(self, one: tuple[str, Mapping[str, Any]], other: tuple[str, Mapping[str, Any]]) -> str | None:
        """The first field that the template lacks and that tells two settings apart."""
        used = set(_FIELD.findall(self.template or ""))
        fields = ["retriever"] if one[0] != other[0] else []
        fields += [key for key in self.keys if identity_of(_value(one[1], key)) != identity_of(_value(other[1], key))]
        return next((f"{{{field}}}" for field in fields if field not in used), None)

    def _filled(self, retriever: str, values: Mapping[str, Any]) -> str:
        text, end = "", 0
        for match in _FIELD.finditer(self.template or ""):
            lead, field = (self.template or "")[end : match.start()], match[1]
            if field == "retriever":
                text += lead + retriever
            elif field in values:
                text += lead + self._label(field, values[field])
            end = match.end()
        return text + (self.template or "")[end:]

    def _by_default(self, retriever: str, values: Mapping[str, Any]) -> str:
        own = f"retrievers.{retriever}."
        in_order = sorted(values, key=lambda key: not key.startswith(own))
        return "-".join([retriever, *(self._part(retriever, key, values[key]) for key in in_order)])

    def _part(self, retriever: str, key: str, value: Any) -> str:
        label = self._label(key, value)
        short = self._short_key(retriever, key)
        if short in _SPEAKS_FOR_ITSELF and isinstance(value, str):
            return label
        if isinstance(value, Mapping) and "kind" in value:
            return label
        glued = _glued(label, value)
        return f"{short}_{glued}" if short[-1].isdigit() and glued[0].isdigit() else short + glued

    def _label(self, key: str, value: Any) -> str:
        return self.labels.get(key, {}).get(identity_of(value)) or _shown(value)

    def _short_key(self, retriever: str, key: str) -> str:
        """The end of ``key`` that no other axis has, for names of ``retriever``, whose own options come without it."""
        own = f"retrievers.{retriever}."
        others = [other for other in self.keys if other != key]
        whole = key
        if key.startswith(own):
            others = [
                other.removeprefix(own) for other in others if other.startswith(own) or not _of_a_retriever(other)
            ]
            whole = key.removeprefix(own)
        parts = whole.split(".")
        for length in range(1, len(parts) + 1):
            end = ".".join(parts[-length:])
            if not any(f".{other}".endswith(f".{end}") for other in others):
                return end
        return key


def template_faults(sweep: SweepOptions) -> list[tuple[KeyPath, str]]:
    """What is wrong with the template of names: fields that are no keys of the sweep, characters unfit for files."""
    where: KeyPath = ("sweep", "name")
    template = sweep.name
    if template is None:
        return []
    faults: list[tuple[KeyPath, str]] = []
    known = ["retriever", *sweep.named_keys()]
    for field in dict.fromkeys(_FIELD.findall(template)):
        if field not in known:
            fields = listed((f"{{{name}}}" for name in known), 40)
            message = (
                f"sweep.name has the field {{{field}}}, which is unknown.{did_you_mean(field, known)} Known: {fields}."
            )
            faults.append((where, message))
    rest = _FIELD.sub("", template)
    wrong = sorted(set("".join(_UNSAFE.findall(rest))))
    if {"{", "}"} & set(wrong):
        faults.append(
            (where, f"sweep.name is {shown(template)}; a field stands between {{ and }}, like {{retriever}}.")
        )
    elif wrong:
        found = " ".join(map(repr, wrong))
        message = (
            f"sweep.name has {found}; names are made of letters, digits, '.', '_', '-' and fields like {{retriever}}."
        )
        faults.append((where, message))
    if not _FIELD.search(template) and not faults:
        message = f"sweep.name is {shown(template)}, without any field; write it with fields, like {{retriever}}."
        faults.append((where, message))
    return faults


def _of_a_retriever(key: str) -> bool:
    return key.startswith("retrievers.")


def _value(values: Mapping[str, Any], key: str) -> Any:
    return [values[key]] if key in values else None


def _listed_values(sweep: SweepOptions) -> dict[str, list[Any]]:
    """The values that a sweep lists for each key; numbers that are computed need no label."""
    found: dict[str, dict[Hashable, Any]] = {key: {} for key in sweep.named_keys()}
    for axis in sweep.axes():
        if not isinstance(axis.values, RangeAxis | ShareAxis):
            for position in range(axis.count):
                for key, value, _ in axis.at(position):
                    found[key].setdefault(identity_of(value), value)
    for entry in sweep.include:
        for key, value in entry.items():
            found[key].setdefault(identity_of(value), value)
    return {key: list(values.values()) for key, values in found.items()}


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
    """The kind, and what differs from ``others`` of the same kind, or all if the whole is wanted."""
    alike = [other for other in others if other.get("kind") == value.get("kind")]
    parts = [_shown(value["kind"])] if "kind" in value else []
    for key, one in value.items():
        differs = any(identity_of(_value(other, key)) != identity_of([one]) for other in alike)
        if key != "kind" and (is_whole or differs):
            label = _shown(one, is_whole=is_whole or isinstance(one, Mapping))
            parts.append(label if key in _SPEAKS_FOR_ITSELF else key + _glued(label, one))
    return _UNSAFE.sub("-", "-".join(parts)).strip(_SEPARATORS) or "empty"


def _glued(label: str, value: Any) -> str:
    """A label behind a key: ``128`` in size128, ``-lucene`` in method-lucene; what ends with a digit gets ``_0.9``."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return label if is_number else f"-{label}"
