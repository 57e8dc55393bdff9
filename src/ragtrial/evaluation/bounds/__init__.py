"""How far a score could go: with other judgments, with equal scores in another order, with a better ranking."""

from ragtrial.evaluation.bounds.base import Bounds
from ragtrial.evaluation.bounds.ceiling import attainable
from ragtrial.evaluation.bounds.ties import tie_range, ties_that_matter
from ragtrial.evaluation.bounds.unjudged_hits import bounds, why_unbounded

__all__ = ["Bounds", "attainable", "bounds", "tie_range", "ties_that_matter", "why_unbounded"]
