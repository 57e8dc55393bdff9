"""How far a score could go: with other judgments, with equal scores in another order, with a better ranking."""

from ragtrial.ranges.base import Bounds
from ragtrial.ranges.ceiling import attainable
from ragtrial.ranges.ties import tie_range, ties_that_matter
from ragtrial.ranges.unjudged import bounds, why_unbounded

__all__ = ["Bounds", "attainable", "bounds", "tie_range", "ties_that_matter", "why_unbounded"]
