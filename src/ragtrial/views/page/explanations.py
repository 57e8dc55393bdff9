"""What was asked beside a query, and why its hits have their scores, for the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ragtrial.comparison.contest import ComparedSetting, ComparisonSet
from ragtrial.errors import Fault, ReportError
from ragtrial.report.model import HITS_SHOWN, read_lines
from ragtrial.report.schema import QueryPart
from ragtrial.scoring.query_details import Explanation, Weighted


def explanations_block(contest: ComparisonSet) -> list[list[dict[str, Any] | None] | None]:
    """For each setting and query the wordings, the query's terms, and of each hit the matches and terms.

    None where the report has none of them. Raises ReportError if a file of rankings is damaged.
    """
    return [_of_setting(contender, contest.queries) for contender in contest.contenders]


def _of_setting(contender: ComparedSetting, queries: Sequence[QueryPart]) -> list[dict[str, Any] | None] | None:
    path = contender.report.ranking_file(contender.setting.name)
    if not path.is_file():
        return None
    try:
        found = {str(row.get("query")): _packed(Explanation.of(row)) for row in read_lines(path)}
    except (TypeError, ValueError) as error:
        raise ReportError(Fault(str(path), message="is damaged; run the experiment again.")) from error
    made = [found.get(query.id) for query in queries]
    return made if any(made) else None


def _packed(one: Explanation) -> dict[str, Any] | None:
    if not one:
        return None
    hits = [[_rounded(hit) for hit in column[:HITS_SHOWN]] for column in (one.matches, one.terms)]
    return {"wordings": one.wordings, "terms": _rounded(one.query_terms), "matches": hits[0], "hit_terms": hits[1]}


def _rounded(terms: Sequence[Weighted]) -> list[list[Any]]:
    if not all(math.isfinite(worth) for _, worth in terms):
        raise ValueError("a weight is not a number")
    return [[term, round(worth, 2)] for term, worth in terms]
