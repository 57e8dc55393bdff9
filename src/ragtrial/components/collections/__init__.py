"""Existing collections, searched as they are. One file per kind, named as the kind, registers it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from ragtrial.components.collections.base import (
    COLLECTIONS,
    DEFAULT_KIND,
    Collection,
    CollectionOptions,
    Fact,
    FieldNames,
    Found,
    Item,
    NamedCollectionOptions,
    VectorFieldNames,
    opened,
)
from ragtrial.components.collections.conditions import ALL, Conditions
from ragtrial.registry import AnyOf


def _of_a_kind(value: object) -> object:
    return {"kind": DEFAULT_KIND, **value} if isinstance(value, Mapping) and "kind" not in value else value


if TYPE_CHECKING:
    AnyCollection = CollectionOptions
else:
    AnyCollection = Annotated[Any, AnyOf(COLLECTIONS), BeforeValidator(_of_a_kind)]

__all__ = [
    "ALL",
    "COLLECTIONS",
    "AnyCollection",
    "Collection",
    "CollectionOptions",
    "Conditions",
    "Fact",
    "FieldNames",
    "Found",
    "Item",
    "NamedCollectionOptions",
    "VectorFieldNames",
    "opened",
]
