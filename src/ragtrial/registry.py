"""Families of interchangeable parts: a name, and the class or value behind it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Generic, TypeVar

from ragtrial.errors import did_you_mean, listed

T = TypeVar("T")


class Registry(Generic[T]):
    """The members of one family by name, in the order of registration.

    ``noun`` is what one member is called in messages ("chunker"). Two members with one name are refused.
    """

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self._members: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """A decorator that adds what it decorates under ``name``."""

        def add(member: T) -> T:
            if name in self._members:
                raise ValueError(f"{self.noun} {name!r} is registered twice: {self._members[name]!r} and {member!r}")
            self._members[name] = member
            return member

        return add

    def names(self) -> list[str]:
        return list(self._members)

    def members(self) -> Iterator[tuple[str, T]]:
        yield from self._members.items()

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __getitem__(self, name: str) -> T:
        """The member called ``name``; KeyError with the valid names and the nearest one otherwise."""
        try:
            return self._members[name]
        except KeyError:
            raise KeyError(self.unknown(name)) from None

    def unknown(self, name: str) -> str:
        """The sentence that says ``name`` is not a member, with the nearest one and all valid ones."""
        near = did_you_mean(name, self._members)
        return f"there is no {self.noun} {name!r}.{near} Known: {listed(sorted(self._members), 40)}."


def import_members(package: ModuleType) -> None:
    """Import every module of ``package``, so that its members register themselves."""
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
