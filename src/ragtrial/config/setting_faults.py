"""What is wrong with the settings of a config: each fault once, with the settings that have it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ragtrial.config.models import ExperimentConfig
from ragtrial.config.settings import Setting
from ragtrial.config.strict_yaml import KeyPath
from ragtrial.config.variants import content_of, follow
from ragtrial.errors import Fault, InputError, ModelNotFoundError, listed
from ragtrial.options import LocatedText, located

_NAMING = ("model", "function", "tokenizer_model")
"""The options whose values name what may not be there."""


@dataclass
class _Found:
    """A fault, its place, and what has it: settings by the model that is at fault, "" where it is no model."""

    place: Fault
    settings: dict[str, dict[str, None]] = field(default_factory=dict)


@dataclass
class SettingFaults:
    """Collects what ``of`` finds; models that are missing for one reason are one fault."""

    unchecked: dict[Setting, None] = field(default_factory=dict)
    """The settings of which not all could be checked without a model."""

    _kinds: set[type[InputError]] = field(default_factory=set)
    _wrong: dict[str, _Found] = field(default_factory=dict)
    _to_fetch: dict[str, _Found] = field(default_factory=dict)

    @contextmanager
    def of(self, setting: Setting) -> Iterator[None]:
        """Keep an InputError that is raised inside as one of ``setting``."""
        try:
            yield
        except InputError as error:
            to_fetch = isinstance(error, ModelNotFoundError) and error.may_be_fetched
            if to_fetch:
                self.unchecked[setting] = None
            else:
                self._kinds.add(type(error))
            model, reason = getattr(error, "model", None), getattr(error, "reason", "")
            for fault in error.faults:
                fault = at_option(setting.config, fault)
                message = reason if model else fault.message.removeprefix(f"{setting.name}: ")
                place = replace(fault, message="") if fault.file else _place(setting, model or message)
                key = f"{place}{message}" if fault.file else message
                found = (self._to_fetch if to_fetch else self._wrong).setdefault(key, _Found(place))
                found.settings.setdefault(model or "", {})["" if fault.file else setting.entry] = None
                found.place = replace(found.place, message=message)

    def __bool__(self) -> bool:
        return bool(self._wrong)

    @property
    def faults(self) -> list[Fault]:
        """The faults, in the order in which they were found."""
        return [replace(one.place, message=_message(one)) for one in self._wrong.values()]

    @property
    def to_fetch(self) -> list[str]:
        """Models that a run looks for on the hub, and what was not checked for want of them."""
        return [_message(one) for one in self._to_fetch.values()]

    def raise_any(self) -> None:
        """Raise InputError with all faults, if there are any; of the kind that they all are, if they are of one."""
        if self._wrong:
            kind = self._kinds.copy().pop() if len(self._kinds) == 1 else InputError
            raise kind(*self.faults)


@contextmanager
def at_options(config: ExperimentConfig) -> Iterator[None]:
    """An InputError about a path that is not there is one about the option that names it."""
    try:
        yield
    except InputError as error:
        raise type(error)(*(at_option(config, fault) for fault in error.faults)) from error


def at_option(config: ExperimentConfig, fault: Fault) -> Fault:
    """``fault``; if it is about a path that is not there and that the config names, its place is there."""
    if not fault.file or fault.line or Path(fault.file).exists():
        return fault
    for path, text in _texts(content_of(config).value, ()):
        if located(text) == fault.file:
            return replace(config.fault_at(path, ""), message=f"{fault.file}: {fault.message}")
    return fault


def _texts(content: Any, path: KeyPath) -> Iterator[tuple[KeyPath, LocatedText]]:
    """The texts of a config's file, each with its path of keys."""
    if isinstance(content, LocatedText) and content.strip():
        yield path, content
    pairs = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in pairs:
        yield from _texts(value, (*path, key))


def _message(found: _Found) -> str:
    models = [name for name in found.settings if name]
    if models:
        named = [f"{model!r} ({_settings(found.settings[model])})" for model in models]
        return f"the model {named[0]} {found.place.message}" if len(named) == 1 else (
            f"the models {listed(named)} {found.place.message}"
        )  # fmt: skip
    settings = found.settings[""]
    return found.place.message if "" in settings else f"{_settings(settings)}: {found.place.message}"


def _settings(names: dict[str, None]) -> str:
    quoted = [repr(name) for name in names]
    return f"setting {quoted[0]}" if len(quoted) == 1 else f"settings {listed(quoted, 5)}"


def _place(setting: Setting, named: str) -> Fault:
    """Where the option stands whose value is ``named``, or is a part of it; else the entry of the setting."""
    content, entry = content_of(setting.config).value, ("retrievers", setting.entry)
    sections = [entry, *(place for part in ("embedder", "chunker") for place in ((*entry, part), (part,)))]
    for path in ((*section, option) for section in sections for option in _NAMING):
        value = follow(content, path)
        if isinstance(value, str) and any(name in named for name in (value.partition(":")[0], located(value))):
            return setting.config.fault_at(path, "")
    return setting.config.fault_at(entry, "")
