"""Rankings in, better rankings out. One file per kind; each registers itself."""

import sys

from ragtrial.components.refiners.base import REFINERS, OpenRefiner, Refiner
from ragtrial.registry import import_members

import_members(sys.modules[__name__])

__all__ = ["REFINERS", "OpenRefiner", "Refiner"]
