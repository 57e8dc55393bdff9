"""What was asked beside a query, and why its hits have their scores, for the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ragtrial.scoring.query_details import Explanation, Weighted


def explanation_row(one: Explanation, hits_shown: int) -> dict[str, Any] | None:
    """The wordings, the query's terms, and of each shown hit the matches and terms; None if there are none.

    Raises ValueError for a weight that is not a number.
    """
    if not one:
        return None
    hits = [[_rounded(hit) for hit in column[:hits_shown]] for column in (one.matches, one.terms)]
    return {"wordings": one.wordings, "terms": _rounded(one.query_terms), "matches": hits[0], "hit_terms": hits[1]}


def _rounded(terms: Sequence[Weighted]) -> list[list[Any]]:
    if not all(math.isfinite(worth) for _, worth in terms):
        raise ValueError("a weight is not a number")
    return [[term, round(worth, 2)] for term, worth in terms]
