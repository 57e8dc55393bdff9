"""What is wrong with a sweep, all of it at once, before any combination is tried."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations as pairs
from typing import Any

from pydantic import BaseModel

from ragtrial.config.combinations import (
    Combination,
    identity_of,
    included,
    is_excluded,
    of_matrix,
    shown_whole,
    size_refusal,
    written_at,
)
from ragtrial.config.setting_names import template_faults
from ragtrial.config.strict_yaml import KeyPath
from ragtrial.config.sweep import Axis, RangeAxis, ShareAxis, SweepOptions
from ragtrial.errors import did_you_mean, listed
from ragtrial.options import dotted, shown

PlacedFault = tuple[KeyPath, str]

SWEPT = ("chunker", "context", "embedder", "store", "retrievers")
"""The sections of a config that settings are made of."""


def axis_faults(sweep: SweepOptions, config: Mapping[str, Any], model: type[BaseModel]) -> list[PlacedFault]:
    """Each fault of ``sweep`` with its place. ``config`` is the content it stands in, ``model`` the config's class.

    Looked for are keys that name no option, or none of a setting; keys that overlap; values that stand twice; shares of
    what is no whole number; a matrix too large to be built; a template of names with unknown fields; and, if there is
    nothing of these, entries of ``exclude`` that drop nothing and of ``include`` that repeat a combination.
    """
    faults = [*_key_faults(sweep, config, model), *_value_faults(sweep), *_share_faults(sweep, config)]
    faults += _exclude_key_faults(sweep)
    faults += template_faults(sweep)
    refusal = size_refusal(sweep)
    if refusal:
        faults.append((("sweep", "matrix"), refusal))
    return faults or list(_combination_faults(sweep, config))


def _key_faults(sweep: SweepOptions, config: Mapping[str, Any], model: type[BaseModel]) -> Iterator[PlacedFault]:
    options = AxisKeys(model.model_json_schema(), config, sweep.named_keys())
    combined = [[(axis.where, key) for axis in sweep.axes() for key in axis.keys]]
    for number, entry in enumerate(sweep.include):
        combined.append([(("sweep", "include", number, key), key) for key in entry])
    for together in combined:
        there_are = []
        for where, key in together:
            refusal = options.refusal(key)
            if refusal:
                yield where, f"{dotted(where)} {refusal}"
            else:
                there_are.append((where, key))
        yield from _overlaps(there_are)


def _overlaps(named: Sequence[tuple[KeyPath, str]]) -> Iterator[PlacedFault]:
    """Keys of one combination of which one is, or reaches into, the other."""
    for (first_place, first), (second_place, second) in pairs(named, 2):
        if first == second:
            yield second_place, f"{dotted(second_place)} names {second} twice; a key can be in one axis only."
        for (place, inner), outer in (((first_place, first), second), ((second_place, second), first)):
            if inner.startswith(outer + "."):
                rest = inner.removeprefix(outer + ".")
                message = (
                    f"{dotted(place)} reaches into {outer}, which is given whole in the same combination; write {rest} "
                    f"into the values of {outer}."
                )
                yield place, message


def _value_faults(sweep: SweepOptions) -> Iterator[PlacedFault]:
    for axis in sweep.axes():
        if len(axis.keys) > 1:
            yield from _row_faults(axis)
        if isinstance(axis.values, list):
            yield from _repeated(axis.values, axis.where)
        if isinstance(axis.values, ShareAxis):
            yield from _repeated(axis.values.share, (*axis.where, "share"))


def _row_faults(axis: Axis) -> Iterator[PlacedFault]:
    """What is wrong with the rows of keys that move together."""
    like = f"[{', '.join(axis.keys)}]"
    if not isinstance(axis.values, list):
        yield axis.where, f"{dotted(axis.where)} must be a list of lists, each like {like}."
        return
    for position, row in enumerate(axis.values):
        where = (*axis.where, position)
        if not isinstance(row, list) or len(row) != len(axis.keys):
            found = f"a list of {len(row)}" if isinstance(row, list) else shown(row)
            yield where, f"{dotted(where)} is {found}; it must be a list of {len(axis.keys)} values: {like}."


def _repeated(values: Sequence[Any], where: KeyPath) -> Iterator[PlacedFault]:
    first: dict[object, int] = {}
    for position, value in enumerate(values):
        identity = identity_of(value)
        if identity in first:
            place, other = (*where, position), dotted((*where, first[identity]))
            yield place, f"{dotted(place)} is {shown_whole(value)}, as {other} is; take one of them out."
        first.setdefault(identity, position)


def _must_be_whole(where: KeyPath, value: object, follower: str) -> PlacedFault:
    return where, f"{dotted(where)} is {shown_whole(value)}; {follower} is a share of it, so it must be a whole number."


def _share_faults(sweep: SweepOptions, config: Mapping[str, Any]) -> Iterator[PlacedFault]:
    axes = sweep.axes()
    by_key = {key: (axis, column) for axis in axes for column, key in enumerate(axis.keys)}
    for axis in axes:
        if not isinstance(axis.values, ShareAxis):
            continue
        place, of = (*axis.where, "of"), axis.values.of
        outer = next((key for key in by_key if of.startswith(key + ".")), None)
        if outer is not None:
            yield place, f"{dotted(place)} is {of}, and {outer} is an axis as a whole; vary {of} itself."
        elif of not in by_key:
            found = written_at(config, of)
            if not _is_whole(found):
                near = did_you_mean(of, by_key.keys() - axis.keys)
                says = "has no such key" if found is None else f"has {shown(found)} there"
                message = (
                    f"{dotted(place)} is {of}, which is no axis, and the config {says}; a share is of a whole number."
                )
                yield place, message + near
        else:
            yield from _not_whole(axis, *by_key[of], place)
        for number, entry in enumerate(sweep.include):
            if of in entry and axis.keys[0] not in entry and not _is_whole(entry[of]):
                yield _must_be_whole(("sweep", "include", number, of), entry[of], axis.keys[0])


def _not_whole(axis: Axis, other: Axis, column: int, place: KeyPath) -> Iterator[PlacedFault]:
    """What keeps ``axis`` from being a share of the key in ``column`` of ``other``."""
    key, name = axis.keys[0], dotted(place)
    if other is axis:
        yield place, f"{name} is {key} itself; a share is of another key."
    elif isinstance(other.values, ShareAxis):
        yield place, f"{name} is {other.keys[0]}, which is a share itself; take it of {other.values.of}."
    elif isinstance(other.values, RangeAxis):
        if not all(number.is_integer() for number in (other.values.range[0], other.values.range[2])):
            yield place, f"{name} is {other.keys[0]}, whose range is not of whole numbers; a share is of whole numbers."
    else:
        for position, row in enumerate(other.values):
            is_row = len(other.keys) > 1
            if is_row and (not isinstance(row, list) or len(row) != len(other.keys)):
                continue
            value: Any = row[column] if is_row else row
            if not _is_whole(value):
                where = (*other.where, position, *([column] if is_row else []))
                yield _must_be_whole(where, value, key)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _exclude_key_faults(sweep: SweepOptions) -> Iterator[PlacedFault]:
    """Entries of ``exclude`` that name no axis, or no value of theirs."""
    by_key = {key: (axis, column) for axis in sweep.axes() for column, key in enumerate(axis.keys)}
    for number, entry in enumerate(sweep.exclude):
        for key, value in entry.items():
            where: KeyPath = ("sweep", "exclude", number, key)
            if key not in by_key:
                near, known = did_you_mean(key, by_key), listed(by_key, 40) or "none"
                yield where, f"{dotted(where)}: {key} is no axis of the matrix.{near} Its axes: {known}."
                continue
            values = _values_of(*by_key[key])
            if values is not None and identity_of(value) not in map(identity_of, values):
                known = listed(map(shown_whole, values))
                yield where, f"{dotted(where)} is {shown_whole(value)}, which is no value of that axis: {known}."


def _values_of(axis: Axis, column: int) -> Sequence[Any] | None:
    """What a key takes; None if that depends on other keys, or is more than could be listed."""
    if isinstance(axis.values, RangeAxis) and axis.count <= 1000:
        return [axis.values.at(position) for position in range(axis.count)]
    if not isinstance(axis.values, list):
        return None
    rows = [row if len(axis.keys) > 1 else [row] for row in axis.values]
    return [row[column] for row in rows if isinstance(row, list) and column < len(row)]


def _combination_faults(sweep: SweepOptions, config: Mapping[str, Any]) -> Iterator[PlacedFault]:
    """What is wrong between the combinations of a sweep whose parts are each right."""
    drops = [False] * len(sweep.exclude)
    kept: dict[object, Combination] = {}
    is_small = size_refusal(sweep.model_copy(update={"sample": None})) is None
    for one in of_matrix(sweep, config) if is_small else ():
        hits = [is_excluded(one, entry) for entry in sweep.exclude]
        drops = [was or is_now for was, is_now in zip(drops, hits, strict=True)]
        if not any(hits):
            kept[one.identity] = one
    for number, has_dropped in enumerate(drops):
        if not has_dropped:
            where: KeyPath = ("sweep", "exclude", number)
            yield where, f"{dotted(where)} drops nothing: no combination of the matrix has all of its values."
    named = {key for entry in sweep.include for key in entry}
    if sweep.matrix and is_small and not kept and named.isdisjoint(key for axis in sweep.axes() for key in axis.keys):
        rest = "leave both out to run what include has" if sweep.include else "there is nothing to run"
        yield ("sweep", "exclude"), f"sweep.exclude drops every combination of the matrix; {rest}."
    # Of a matrix that is drawn from, a combination may be included that is to be tried whatever is drawn.
    first: dict[object, KeyPath] = dict.fromkeys(kept, ("sweep", "matrix")) if sweep.sample is None else {}
    for number, one in enumerate(included(sweep)):
        where = ("sweep", "include", number)
        if one.identity in first:
            yield where, f"{dotted(where)} repeats a combination of {dotted(first[one.identity])}: {one}; take it out."
        first.setdefault(one.identity, where)


@dataclass(frozen=True)
class AxisKeys:
    """The options of a config: ``schema`` is its JSON Schema, ``config`` its content as it stands.

    ``named`` are all keys that the sweep names: one of them may be the kind of a section.
    """

    schema: Mapping[str, Any]
    config: Mapping[str, Any]
    named: Collection[str]

    def refusal(self, key: str) -> str | None:
        """Why ``key`` cannot be varied, as the rest of a sentence; None if it can."""
        first, *rest = parts = key.split(".")
        if not all(parts):
            return "has a part that is empty; keys are written like chunker.size."
        if first not in SWEPT:
            return self._no_section(first)
        if parts == ["retrievers"]:
            return "names all retrievers; name one and an option of it, like retrievers.dense.top_k."
        nodes, found = self._objects(self.schema["properties"][first]), self.config.get(first)
        path = [first]
        for part in rest:
            if path == ["retrievers"] and isinstance(found, Mapping) and part not in found:
                near = did_you_mean(part, found)
                return f"names a retriever that is not there: {part!r}.{near} Known: {listed(found, 40)}."
            step = self._step(nodes, found, path, part)
            if isinstance(step, str):
                return step
            nodes = step
            found = found.get(part) if isinstance(found, Mapping) else None
            path.append(part)
        return None

    def _no_section(self, first: str) -> str:
        sections = f"An axis reaches into {', '.join(SWEPT[:-1])} or {SWEPT[-1]}."
        if first in self.schema["properties"]:
            return f"is no part of a setting, and cannot be varied. {sections}"
        return f"names no option: there is no {first!r} in a config.{did_you_mean(first, SWEPT)} {sections}"

    def _step(self, nodes: list[Mapping[str, Any]], found: Any, path: list[str], part: str) -> list[Any] | str:
        """What the schema has for ``part`` of the section at ``path``, or why there is nothing."""
        section = ".".join(path)
        sections = [node for node in nodes if node.get("type") == "object"]
        if not sections:
            whole = "takes it whole" if any(node.get("type") == "array" for node in nodes) else "ends there"
            return f"names no option: {section} has no keys; an axis {whole}."
        kinds = [kind for kind in map(_kind_of, sections) if kind]
        kind = found.get("kind") if isinstance(found, Mapping) else None
        is_swept = f"{section}.kind" in self.named
        if len(kinds) > 1 and not is_swept and part != "kind":
            if kind is None:
                return self._no_kind(section, kinds[0], part)
            sections = [node for node in sections if _kind_of(node) == kind]
        options = {name: one for node in sections for name, one in node.get("properties", {}).items()}
        if part in options:
            return [
                one for node in sections if part in node.get("properties", {})
                for one in self._objects(node["properties"][part])
            ]  # fmt: skip
        free = [one for node in sections for one in self._free(node)]
        if free:
            return free
        which = f", which is of kind {kind}" if len(kinds) > 1 and kind and not is_swept else ""
        near = did_you_mean(part, options)
        return f"names no option: there is no {part!r} in {section}{which}.{near} Known: {listed(options, 40)}."

    def _no_kind(self, section: str, kind: str, part: str) -> str:
        shared = section.rpartition(".")[2]
        other = f", or vary {shared}.{part}, which reaches all" if section != shared and shared in SWEPT else ""
        return (
            f"reaches into {section}, which is not in the config, so that its kind is not known; write it there, like "
            f"`{shared}: {{kind: {kind}}}`{other}."
        )

    def _free(self, node: Mapping[str, Any]) -> Iterator[Any]:
        """What a mapping with names of the user's own holds."""
        more = node.get("additionalProperties")
        if more is True:
            yield {"type": "object", "additionalProperties": True}
        elif isinstance(more, Mapping):
            yield from self._objects(more)
        for one in node.get("patternProperties", {}).values():
            yield from self._objects(one)

    def _objects(self, node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The schemas that ``node`` allows, references and choices resolved."""
        if "$ref" in node:
            return self._objects(self.schema["$defs"][node["$ref"].rpartition("/")[2]])
        choices = [*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())]
        return [one for choice in choices for one in self._objects(choice)] if choices else [node]


def _kind_of(node: Mapping[str, Any]) -> str | None:
    kind = node.get("properties", {}).get("kind", {}).get("const")
    return None if kind is None else str(kind)
