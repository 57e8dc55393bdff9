"""Keys of a config that have a new name: read under the former one, too, with a warning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ragtrial.components.retrievers import RETRIEVERS
from ragtrial.config.strict_yaml import KeyPath, YamlText
from ragtrial.errors import ConfigError
from ragtrial.options import dotted
from ragtrial.records import ReportWarning, WarningCode

_FORMER = {"of": "inputs"}
"""The options of refiners that have a new name."""

_DOTTED = re.compile(rf"(?<![\w.])(retrievers\.[\w-]+\.)({'|'.join(_FORMER)})(?![\w.])")
"""Such an option in the dotted keys of a sweep."""

_NAME: KeyPath = ("sweep", "name")

_ENTRY = re.compile(r"retrievers\.[\w-]+")


def with_new_names(content: YamlText) -> tuple[YamlText, list[ReportWarning]]:
    """``content`` with the new names of its keys, and a warning for each key that has a former one.

    Raises ConfigError where a key is there under both names.
    """
    found: dict[KeyPath, str] = {}
    faults = []
    for path, name, section in _former_keys(content.value, ()):
        found[path] = name
        if name in section:
            message = f"{dotted(path)} is now called {name}, which is there, too; take one out."
            faults.append(content.fault_at(path, message))
    if faults:
        raise ConfigError(*faults)
    messages = {path: f"{dotted(path)} is now called {name}; rename it." for path, name in found.items()}
    template = _template(content.value)
    if _DOTTED.search(template):
        messages[_NAME] = f"sweep.name has a field with a former name; write {_renamed_in(template)}."
    if not messages:
        return content, []
    places = {_moved(path, found): place for path, place in content.places.items()}
    made = YamlText(_renamed(content.value, (), found), _renamed(content.written, (), found), places)
    return made, [ReportWarning(WarningCode.RENAMED_KEY, str(content.fault_at(*told))) for told in messages.items()]


def _former_keys(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str, Mapping[Any, Any]]]:
    """The path of each key with a former name, its new name, and the section that it is in."""
    if isinstance(value, list):
        for position, one in enumerate(value):
            yield from _former_keys(one, (*path, position))
    if isinstance(value, Mapping):
        for key, one in value.items():
            if key in _FORMER and _is_entry(path) and value.get("kind") not in RETRIEVERS:
                yield (*path, key), _FORMER[key], value
            elif path[:1] == ("sweep",) and _DOTTED.search(str(key)):
                yield (*path, key), _renamed_in(key), value
            yield from _former_keys(one, (*path, key))


def _is_entry(path: KeyPath) -> bool:
    """Whether an entry of ``retrievers`` is at ``path``: its own, or one among the values of a sweep."""
    if path[:1] != ("sweep",):
        return path[:1] == ("retrievers",) and len(path) == 2
    name = next(part for part in reversed(path) if isinstance(part, str))
    return len(path) > 3 and any(_ENTRY.fullmatch(key.strip()) for key in name.split(","))


def _template(config: Any) -> str:
    """The names that a sweep gives its settings."""
    sweep = config.get("sweep") if isinstance(config, Mapping) else None
    name = sweep.get("name") if isinstance(sweep, Mapping) else None
    return name if isinstance(name, str) else ""


def _renamed_in(text: str) -> str:
    return _DOTTED.sub(lambda found: found[1] + _FORMER[found[2]], text)


def _moved(path: KeyPath, found: Mapping[KeyPath, str]) -> KeyPath:
    return tuple(found.get(path[: length + 1], part) for length, part in enumerate(path))


def _renamed(value: Any, path: KeyPath, found: Mapping[KeyPath, str]) -> Any:
    if isinstance(value, dict):
        return {found.get((*path, key), key): _renamed(one, (*path, key), found) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, (*path, position), found) for position, one in enumerate(value)]
    return _renamed_in(value) if path == _NAME and isinstance(value, str) else value
