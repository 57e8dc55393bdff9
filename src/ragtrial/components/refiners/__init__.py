"""Rankings in, better rankings out. A file for each kind, of its name, registers it."""

from ragtrial.components.refiners.base import REFINERS, OpenRefiner, Refiner

__all__ = ["REFINERS", "OpenRefiner", "Refiner"]
