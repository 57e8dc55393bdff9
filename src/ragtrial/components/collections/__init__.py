"""Existing collections, searched as they are. One file per kind; each registers itself."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

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
from ragtrial.options import union_of
from ragtrial.registry import import_members

import_members(sys.modules[__name__])


def _of_a_kind(value: object) -> object:
    return {"kind": DEFAULT_KIND, **value} if isinstance(value, Mapping) and "kind" not in value else value


if TYPE_CHECKING:
    AnyCollection = CollectionOptions
else:
    AnyCollection = Annotated[union_of(COLLECTIONS), BeforeValidator(_of_a_kind)]

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
