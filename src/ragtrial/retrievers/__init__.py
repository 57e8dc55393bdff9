"""Queries in, rankings out. One file per kind; each registers itself."""

import sys
from typing import TYPE_CHECKING

from ragtrial.options import union_of
from ragtrial.registry import import_members
from ragtrial.retrievers.base import RETRIEVERS, Materials, OpenRetriever, Retrieved, Retriever, retrieve_units

import_members(sys.modules[__name__])

if TYPE_CHECKING:
    AnyRetriever = Retriever
else:
    AnyRetriever = union_of(RETRIEVERS)

__all__ = [
    "RETRIEVERS",
    "AnyRetriever",
    "Materials",
    "OpenRetriever",
    "Retrieved",
    "Retriever",
    "retrieve_units",
]
