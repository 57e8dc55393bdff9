"""Whether a dotted key is an option that a sweep may vary, as the config's JSON Schema has them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ragtrial.errors import did_you_mean, listed

SWEPT = ("chunker", "context", "embedder", "store", "retrievers")
"""The sections of a config that settings are made of."""


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
