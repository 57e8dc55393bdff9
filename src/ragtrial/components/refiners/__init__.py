"""Rankings in, better rankings out. One file per kind, named as the kind, registers it."""

from ragtrial.components.refiners.base import REFINERS, OpenRefiner, Refiner

__all__ = ["REFINERS", "OpenRefiner", "Refiner"]
