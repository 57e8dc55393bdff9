"""YAML without its traps: every value has its place, and nothing is guessed.

PyYAML parses; this module decides what a scalar means. As in YAML 1.2's core schema, but stricter where YAML 1.1 or
people slip: only true and false are booleans (``no`` and ``on`` are texts), ``010`` and ``12:30`` are texts, ``1e-3``
is a number; keys may not repeat, tags are refused, aliases are bounded.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from ragtrial.errors import ConfigError, Fault
from ragtrial.options import VARIABLE, LocatedText

KeyPath = tuple[str | int, ...]

_MOST_VALUES = 20_000
_MOST_NESTING = 50
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None,
          "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}  # fmt: skip

AS_WRITTEN: Mapping[str, str] = MappingProxyType({})
"""The environment in which variables stay as they are written, or have their default: none is read."""


class _Loader(yaml.SafeLoader):
    """PyYAML's parser without implicit tags: only written tags count."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        return ""


@dataclass
class YamlText:
    """The content of a YAML text: values, the same with variables unresolved, and the place of each."""

    value: Any
    written: Any
    places: dict[KeyPath, Fault] = field(default_factory=dict)

    def fault_at(self, path: KeyPath, message: str) -> Fault:
        """A fault at ``path``, or at the nearest place above it that is written down."""
        while path not in self.places and path:
            path = path[:-1]
        place = self.places.get(path, Fault())
        return Fault(place.file, place.line, place.column, message)

    def without(self, *keys: str) -> YamlText:
        """The same mapping without some of its keys."""
        value, written = (
            {key: inner for key, inner in whole.items() if key not in keys} for whole in (self.value, self.written)
        )
        gone = [(key,) for key in keys]
        return YamlText(value, written, {path: inner for path, inner in self.places.items() if path[:1] not in gone})


def merged(base: YamlText, over: YamlText) -> YamlText:
    """``over`` merged into ``base``, with the places of both; common keys have the place of ``over``.

    The keys of a section that another kind replaces have no place any more.
    """
    gone: list[KeyPath] = []
    value, written = merged_values(base.value, over.value, (), gone), merged_values(base.written, over.written)
    kept = {path: place for path, place in base.places.items() if not any(path[: len(cut)] == cut for cut in gone)}
    return YamlText(value, written, {**kept, **over.places})


def merged_values(base: Any, over: Any, path: KeyPath = (), gone: list[KeyPath] | None = None) -> Any:
    """``over`` on ``base``: mappings are merged key by key; another ``kind`` or anything else replaces.

    The paths of the sections that one of another kind replaces are added to ``gone``.
    """
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    if "kind" in over and over["kind"] != base.get("kind", over["kind"]):
        if gone is not None:
            gone.append(path)
        return over
    laid = {key: merged_values(base[key], new, (*path, key), gone) if key in base else new for key, new in over.items()}
    return {**base, **laid}


def parse_yaml(text: str, file: str, folder: Path, environment: Mapping[str, str] | None = None) -> YamlText:
    """The content of ``text``; variables come from ``environment`` (the process's own by default; or AS_WRITTEN).

    Strings remember ``folder``, for the paths among them. Raises ConfigError with line and column for everything
    that is wrong: all of it at once, as far as the text can be parsed.
    """
    try:
        node = _Loader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_syntax_fault(error, file, text)) from None
    except yaml.reader.ReaderError as error:
        line, column = text.count("\n", 0, error.position) + 1, error.position - text.rfind("\n", 0, error.position)
        message = f"has the character U+{ord(text[error.position]):04X}, which YAML forbids; remove it."
        raise ConfigError(Fault(file, line, column, message)) from None
    except RecursionError:
        raise ConfigError(Fault(file, message="is nested too deeply to be a config.")) from None
    walker = _Walker(file, folder, os.environ if environment is None else environment)
    if node is None:
        raise ConfigError(Fault(file, message="is empty; a config has keys and values. `ragtrial init` writes one."))
    value, written = walker.walk(node, (), 0)
    if walker.faults:
        raise ConfigError(*dict.fromkeys(walker.faults))
    return YamlText(value, written, walker.places)


_ADVICE = {
    "expected <block end>": "this line does not continue the lines above. Are the keys indented alike? Is a text "
    "with quotes in it quoted as a whole?",
    "mapping values are not": "a second ':' cannot be here: put a text that holds ': ' in quotes, or indent the line "
    "less.",
    "found character '\\t'": "indent with spaces, YAML allows no tabs.",
    "expected a single document": "a second document begins here ('---'); one file is one config.",
}
"""The advice for messages of PyYAML."""


def _syntax_fault(error: yaml.MarkedYAMLError, file: str, text: str) -> Fault:
    mark, description = error.problem_mark or error.context_mark, str(error)
    message = next((advice for words, advice in _ADVICE.items() if words in description), None)
    if mark and text[: mark.index + 1].endswith("${"):
        message = 'a variable inside {...} or [...] must be in quotes, like "${NAME}".'
    if message is None:
        begun = error.context_mark.line + 1 if error.context_mark else 0
        may_have = f"; the mistake may be in line {begun}" if begun else ""
        message = f"{error.problem or 'is not YAML'}{may_have}.".replace("<stream end>", "end of file")
    return Fault(file, mark.line + 1 if mark else 0, mark.column + 1 if mark else 0, message)


class _Walker:
    """Turns nodes into values and records their places. One walk, one file."""

    def __init__(self, file: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.places: dict[KeyPath, Fault] = {}
        self.faults: list[Fault] = []
        self._file = file
        self._folder = folder
        self._environment = environment
        self._values = 0

    def walk(self, node: yaml.Node, path: KeyPath, depth: int) -> tuple[Any, Any]:
        """The value of ``node`` and the same as written; faults are added to ``faults``."""
        self._bound(node, depth)
        self.places.setdefault(path, self._fault(node, ""))
        if node.tag:
            self._refuse_tag(node)
            return None, None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            pairs = [self.walk(child, (*path, index), depth + 1) for index, child in enumerate(node.value)]
            return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        return self._scalar(node)

    def _mapping(self, node: yaml.Node, path: KeyPath, depth: int) -> tuple[dict[str, Any], dict[str, Any]]:
        value: dict[str, Any] = {}
        written: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key_node, child in self._entries(node, depth):
            if key_node.tag:
                self._refuse_tag(key_node)
            key = key_node.value
            if key in first:
                self.faults.append(self._fault(key_node, f"duplicate key {key!r} (first used in line {first[key]})."))
                continue
            first[key] = key_node.start_mark.line + 1
            self.places[(*path, key)] = self._fault(key_node, "")
            value[key], written[key] = self.walk(child, (*path, key), depth + 1)
        return value, written

    def _entries(self, node: yaml.Node, depth: int) -> list[tuple[yaml.Node, yaml.Node]]:
        """The entries of a mapping whose keys are names; entries merged by ``<<`` come after its own."""
        own: list[tuple[yaml.Node, yaml.Node]] = []
        sources: list[yaml.Node] = []
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.faults.append(self._fault(key, "a key must be a plain name."))
            elif key.value != "<<":
                own.append((key, child))
            else:
                sources += child.value if isinstance(child, yaml.SequenceNode) else [child]
        for source in sources:
            self._bound(source, depth)
            if not isinstance(source, yaml.MappingNode):
                self.faults.append(self._fault(source, "<< must name a mapping (an alias like *base)."))
                continue
            names = {key.value for key, _ in own}
            merged_in = self._entries(source, depth + 1)
            self._values += len(merged_in)
            own += [entry for entry in merged_in if entry[0].value not in names]
        return own

    def _scalar(self, node: yaml.Node) -> tuple[Any, Any]:
        text, is_plain = node.value, getattr(node, "style", None) is None
        resolved = VARIABLE.sub(lambda match: self._variable(match, node), text) if "${" in text else text
        if resolved != text and VARIABLE.search(VARIABLE.sub("", text)):
            message = "has a variable in the default of another; write the default as it is meant."
            self.faults.append(self._fault(node, message))
        value: Any = LocatedText(resolved, self._folder, text)
        if is_plain and resolved in _WORDS:
            value = _WORDS[resolved]
        elif is_plain and _NUMBER.fullmatch(resolved):
            if math.isinf(float(resolved)):
                self.faults.append(self._fault(node, "is too large for a number; put it in quotes if it is a text."))
                return None, None
            value = int(resolved) if _INTEGER.fullmatch(resolved) else float(resolved)
        return value, value if resolved == text else text

    def _variable(self, match: re.Match[str], node: yaml.Node) -> str:
        name, default = match.groups()
        if self._environment is AS_WRITTEN:
            return default or match[0]
        value = self._environment.get(name)
        if value is None and default is None:
            message = f"the environment variable {name} is not set; set it, or write ${{{name}:-a default}}."
            self.faults.append(self._fault(node, message))
        return value or default or ""  # as in a shell, an empty variable is no better than none

    def _bound(self, node: yaml.Node, depth: int) -> None:
        """Aliases may hold aliases, and themselves: stop long before memory or the stack does."""
        self._values += 1
        if self._values > _MOST_VALUES:
            raise ConfigError(self._fault(node, f"aliases expand to more than {_MOST_VALUES:,} values; write fewer."))
        if depth > _MOST_NESTING:
            message = f"is an alias of what it is in, or more than {_MOST_NESTING} levels deep; no config needs it."
            raise ConfigError(self._fault(node, message))

    def _refuse_tag(self, node: yaml.Node) -> None:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        self.faults.append(self._fault(node, f"the tag {tag!r} is not allowed; write plain values."))

    def _fault(self, node: yaml.Node, message: str) -> Fault:
        return Fault(self._file, node.start_mark.line + 1, node.start_mark.column + 1, message)
