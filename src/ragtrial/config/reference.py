"""The keys of a config: the JSON Schema for editors, and each key with meaning, value, default and range."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ragtrial.config.models import ExperimentConfig
from ragtrial.dataset.labels import LabelsFile

EXTENDS = {
    "description": "A config, or several, that this one extends and overrides; paths are relative to this file.",
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
}
"""The key that the loader resolves before a config is read."""

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def config_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a config.

    As in the loader, a config with ``extends`` may leave out keys of its base, and numbers, true and false may come
    from ``${VARIABLES}``.
    """
    schema: dict[str, Any] = _as_loaded(ExperimentConfig.model_json_schema())
    schema["properties"]["extends"] = EXTENDS
    schema["anyOf"] = [{"required": schema.pop("required")}, {"required": ["extends"]}]
    return {"$schema": _DRAFT, **schema}


def labels_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a prompt_queries.json."""
    return {"$schema": _DRAFT, **LabelsFile.model_json_schema()}


def _as_loaded(schema: Any) -> Any:
    """``schema`` as strict as the loader with names, and with variables where it wants a number, true or false."""
    if isinstance(schema, list):
        return [_as_loaded(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    loaded = {key: _as_loaded(value) for key, value in schema.items()}
    if loaded.get("type") in ("integer", "number", "boolean"):
        loaded |= {"type": [loaded["type"], "string"], "pattern": r"\$\{[A-Za-z_]"}
    if "patternProperties" in loaded:
        loaded.setdefault("additionalProperties", False)  # names that do not fit are refused, not passed over
    return loaded


_TYPES = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "text"}
_RANGE = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
_OWN = re.compile(r"^retrievers\.[^.]+\.(?=(chunker|context|embedder|store)\b)")

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class ConfigKey:
    """A key of the config; ``default`` as YAML spells it, "required", or "" for a key that is not set."""

    name: str
    value: str
    default: str
    meaning: str


@dataclass(frozen=True)
class ConfigSection:
    """A mapping of the config at ``path`` ("" is the config itself), of one ``kind`` where it may be of several."""

    path: str
    kind: str
    about: str
    keys: tuple[ConfigKey, ...]


@cache
def config_sections() -> tuple[ConfigSection, ...]:
    """Every mapping that a config may have, in the order of the models. The parts that a retriever shares with the
    config (chunker, context, embedder and store) are there once, under the config's own key.
    """
    schema = ExperimentConfig.model_json_schema()
    schema["properties"] |= {"extends": EXTENDS}
    return tuple(_sections("", schema, str(schema["description"]), schema))


def look_up(name: str) -> list[ConfigSection]:
    """The sections that ``name`` means as a path or a kind, or else the keys of that name, like ``chunker.size``.

    Kinds with equal keys are one section.
    """
    name = _OWN.sub("", name)
    sections = config_sections()
    whole = [section for section in sections if name and name in (section.path, section.kind)]
    merged: dict[tuple[str, tuple[ConfigKey, ...]], ConfigSection] = {}
    for one in [] if whole else sections:
        keys = tuple(key for key in one.keys if name in (key.name, f"{one.kind}.{key.name}") or _is_at(name, one, key))
        before = merged.get((one.path, keys))
        if keys:
            kind = f"{before.kind}, {one.kind}" if before else one.kind
            merged[one.path, keys] = replace(one, kind=kind, about="", keys=keys)
    return whole or list(merged.values())


def config_names() -> list[str]:
    """All that ``look_up`` finds something for."""
    sections = config_sections()
    keys = [f"{section.path}.{key.name}".lstrip(".") for section in sections for key in section.keys]
    return [*dict.fromkeys([*keys, *(section.kind for section in sections if section.kind)])]


def _is_at(name: str, section: ConfigSection, key: ConfigKey) -> bool:
    pattern = re.escape(f"{section.path}.{key.name}").replace("NAME", "[^.]+").replace("KEY", ".+")
    return re.fullmatch(pattern, name) is not None


def _sections(path: str, model: Schema, about: str, root: Schema) -> Iterator[ConfigSection]:
    """``model`` at ``path``, then the models inside it."""
    properties: Schema = model["properties"]
    kind = properties.get("kind", {})
    required = model.get("required", ())
    keys = [_key(name, node, name in required) for name, node in properties.items() if node is not kind]
    yield ConfigSection(path, str(kind.get("const", "")), _line(kind.get("description", about)), tuple(keys))
    for name, node in properties.items():
        if path and name in root["properties"]:
            continue
        for inner, more in _models(node, root):
            where = f"{path}.{name}{more}".lstrip(".")
            meaning = inner["description"] if more else node.get("description", inner["description"])
            yield from _sections(where, inner, meaning, root)


def _models(node: Schema, root: Schema, more: str = "") -> Iterator[tuple[Schema, str]]:
    """The models that a value may be, and the path between its key and theirs."""
    reference = str(node.get("$ref", "")).rpartition("/")[2]
    if reference and "properties" in root["$defs"][reference]:
        yield root["$defs"][reference], more
    for choice in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from _models(choice, root, more)
    for inner in node.get("patternProperties", {}).values():
        yield from _models(inner, root, ".NAME")
    if isinstance(node.get("additionalProperties"), Mapping):
        yield from _models(node["additionalProperties"], root, ".KEY")


def _key(name: str, node: Schema, is_required: bool) -> ConfigKey:  # noqa: FBT001 - of one caller
    default = node.get("default")
    if isinstance(default, Mapping):
        default = {"kind": default["kind"]} if "kind" in default else None
    shown = "" if default in (None, [], {}) else _plain(default)
    return ConfigKey(name, _value(node), "required" if is_required else shown, _line(node.get("description", "")))


def _value(node: Schema) -> str:
    """The type of a value and its range, in words."""
    choices = [choice for choice in (*node.get("anyOf", ()), *node.get("oneOf", ())) if choice.get("type") != "null"]
    if choices:
        return " or ".join(dict.fromkeys(map(_value, choices)))
    if "enum" in node or "const" in node:
        return " or ".join(f"`{choice}`" for choice in node.get("enum", [node.get("const")]))
    if node.get("type") == "array":
        inner = _value(node.get("items", {}))
        return "list" if inner == "any" else f"list of: {inner}"
    if ("$ref" in node and not node["$ref"].endswith("JsonValue")) or node.get("type") == "object":
        return "mapping"
    limits = [f"{words} {node[limit]}" for limit, words in _RANGE.items() if limit in node]
    return ", ".join([_TYPES.get(node.get("type", ""), "any"), *limits])


def _plain(value: Any) -> str:
    """``value`` as YAML may spell it: without quotes where it needs none."""
    return re.sub(r'"([A-Za-z][\w/.-]*)"', r"\1", json.dumps(value, ensure_ascii=False))


def _line(text: str) -> str:
    return " ".join(text.split())
