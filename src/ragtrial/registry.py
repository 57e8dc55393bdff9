"""Families of interchangeable parts: a name, and the class or value behind it."""

from __future__ import annotations

import importlib
import logging
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ragtrial.errors import InputError, did_you_mean, listed

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

logger = logging.getLogger(__name__)

T = TypeVar("T")

_VERSION = re.compile(r"^Version: *(\S+)", re.MULTILINE)


class Registry(Generic[T]):
    """The members of one family by name.

    ``noun`` is the name of a member in messages ("chunker"). The modules of ``package`` register its members; a module
    that is named as a member, with - or _, is imported alone when that member is needed. Other distributions add
    members by entry points of the group ``ragtrial.<family>``, the last name of ``package``: the entry point has the
    name of the member, and its value is the member or the module that registers it. Two members with one name are an
    error. Families that share a package have a ``base``, the class of all members or of their classes. Members are
    sorted by name unless ``in_order`` of their registration.
    """

    def __init__(self, noun: str, package: str = "", base: type | None = None, *, in_order: bool = False) -> None:
        self.noun = noun
        self._base = base
        self._in_order = in_order
        self._members: dict[str, T] = {}
        self._package = package
        self._is_complete = False

    def register(self, name: str) -> Callable[[T], T]:
        """A decorator that registers its argument under ``name``."""

        def add(member: T) -> T:
            if name in self._members:
                raise ValueError(f"{self.noun} {name!r} is registered twice: {self._members[name]!r} and {member!r}")
            self._members[name] = member
            return member

        return add

    def names(self) -> list[str]:
        return list(self._all())

    def members(self) -> Iterator[tuple[str, T]]:
        yield from self._all().items()

    def registered(self) -> Iterator[tuple[str, T]]:
        """The members so far: without plug-ins that were not named yet, which take time to look for."""
        yield from self._members.items()

    def find(self, name: object) -> T | None:
        """The member called ``name``; None if there is none. Imports as few modules as possible.

        Raises InputError for a plug-in that cannot be loaded.
        """
        if not isinstance(name, str):
            return None
        if self._package and name not in self._members:
            module = name.replace("-", "_")
            if module in self._modules:
                importlib.import_module(f"{self._package}.{module}")
            if name not in self._members:
                import_members(importlib.import_module(self._package))
            if name not in self._members and name in self._plug_ins:
                self._load(self._plug_ins[name])
        return self._members.get(name)

    def __contains__(self, name: object) -> bool:
        return self.find(name) is not None

    def __getitem__(self, name: str) -> T:
        """The member called ``name``; KeyError with the valid names and the nearest one otherwise."""
        member = self.find(name)
        if member is None:
            raise KeyError(self.unknown(name))
        return member

    def unknown(self, name: str) -> str:
        """The sentence that ``name`` is not a member, with the nearest name and all valid names."""
        near = did_you_mean(name, self._all())
        return f"there is no {self.noun} {name!r}.{near} Known: {listed(sorted(self._members), 40)}."

    @cached_property
    def _modules(self) -> frozenset[str]:
        package = importlib.import_module(self._package)
        return frozenset(module.name for module in pkgutil.iter_modules(package.__path__))

    @cached_property
    def _plug_ins(self) -> Mapping[str, EntryPoint]:
        family = self._package.rpartition(".")[2]
        return {entry.name: entry for entry in entry_points(group=f"ragtrial.{family}")}

    def _load(self, entry: EntryPoint) -> None:
        """Add the member of an entry point. Raises InputError if that is not possible."""
        distribution = entry.dist.name if entry.dist else ""
        try:
            value = entry.load()
            if entry.name not in self._members and self._is_member(value):
                self.register(entry.name)(value)
            if isinstance(member := self._members.get(entry.name), type):
                setattr(member, "distribution", distribution)  # noqa: B010 - T may be any type
        except Exception as error:
            raise InputError(
                f"the {self.noun} {entry.name!r} of the package {distribution} ({entry.value}) cannot be loaded: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _is_member(self, value: object) -> bool:
        """True if the value of an entry point is a member itself; a module registers its own members."""
        if self._base is None or isinstance(value, ModuleType):
            return not isinstance(value, ModuleType)
        return issubclass(value, self._base) if isinstance(value, type) else isinstance(value, self._base)

    def _all(self) -> Mapping[str, T]:
        """All members, sorted by name if they are in a package, plug-ins last. A plug-in that cannot be loaded is
        reported.
        """
        if self._package and not self._is_complete:
            import_members(importlib.import_module(self._package))
            if not self._in_order:
                self._members = dict(sorted(self._members.items()))
            self._is_complete = True
            for name in sorted(self._plug_ins.keys() - self._members.keys()):
                try:
                    self._load(self._plug_ins[name])
                except InputError as error:
                    logger.warning("%s", error)
        return self._members


class AnyOf:
    """The annotation of a config value that is a member of one of ``families``, with ``kind`` as the discriminator.

    Only the named kind is imported and built; a schema, and the faults of a value, cover all kinds.
    """

    def __init__(self, *families: Registry[Any]) -> None:
        self._families = families

    def classes(self) -> list[type]:
        """All that a value may be."""
        return [member for family in self._families for _, member in family.members()]

    @cached_property
    def _union(self) -> TypeAdapter[Any]:
        from typing import Annotated, Union

        from pydantic import Field, TypeAdapter

        classes = tuple(self.classes())
        many = Annotated[Union[classes], Field(discriminator="kind")]  # type: ignore[valid-type]  # noqa: UP007
        return TypeAdapter(many if len(classes) > 1 else classes[0])

    def _validated(self, value: object) -> Any:
        from pydantic import ValidationError

        kind = value.get("kind") if isinstance(value, Mapping) else getattr(value, "kind", None)
        named = next((one for family in self._families if (one := family.find(kind)) is not None), None)
        if named is not None:
            with suppress(ValidationError):
                return named.model_validate(value)
        return self._union.validate_python(value)

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core.core_schema import no_info_plain_validator_function

        return no_info_plain_validator_function(self._validated)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(self._union.core_schema)


def late(name: str) -> Any:
    """The function ``module:name`` of a later part, imported when it is called for.

    A comparison that is printed and a run that shows its progress need the parts that show, which come last.
    """
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(f"ragtrial.{module}"), attribute)


def import_members(package: ModuleType) -> None:
    """Import every module of ``package``, so that its members register themselves."""
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


@cache
def installed_version(name: str) -> str | None:
    """The version of a package, as pip names it; None if it is not installed.

    One line of its metadata is looked at: to parse all of it takes several times as long.
    """
    with suppress(PackageNotFoundError):
        package = distribution(name)
        version = _VERSION.search(package.read_text("METADATA") or "")
        return version[1] if version else package.version
    return None
