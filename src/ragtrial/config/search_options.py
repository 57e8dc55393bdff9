"""A search: how settings are chosen along the axes of a sweep, and which queries confirm the best.

search:
  method: tpe                       # random (default) | tpe
  settings: 60
  minutes: 30
  held_out: 0.3                     # a share of the queries, or tags: [test]
  group_by: document
  within: {latency.p95: 0.3, tokens@10: 2000}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError

from ragtrial.errors import did_you_mean, listed
from ragtrial.options import Options
from ragtrial.report.schema import COSTS, context_cost

Method = Literal["random", "tpe"]


def _limit(name: str) -> str:
    if name not in COSTS and context_cost(name) is None:
        known = [*COSTS, "tokens@K", "characters@K"]
        raise ValueError(f"there is no such limit.{did_you_mean(name, known)} It must be one of {listed(known, 20)}.")
    return name


Limits = dict[Annotated[str, AfterValidator(_limit)], Annotated[float, Field(ge=0, allow_inf_nan=False)]]


class SearchOptions(Options):
    """A search for the best setting along the axes of the sweep, instead of all combinations."""

    @property
    def packages(self) -> Mapping[str, str]:  # type: ignore[override]  # which depends on the method
        return {"optuna": "search"} if self.method == "tpe" else {}

    method: Method = "random"
    """How settings are chosen. `random` never looks at the labels, so every query counts for the verdict. `tpe`
    (Optuna's tree-structured Parzen estimator) looks at the labels and needs `held_out`."""

    settings: Annotated[int, Field(ge=2)] = 60
    """The maximum number of settings to try, in addition to the config itself and to `sweep.include`."""

    minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Start no new setting after this many minutes (default: no limit). The same command continues where a search
    stopped."""

    calls: Annotated[int, Field(ge=1)] | None = None
    """Start no new setting after this many requests to endpoints (default: no limit). Cached answers do not count."""

    within: Limits = Field(default={})
    """Cost limits for the best setting: `latency.p50`, `latency.p95`, `latency.p99` (seconds per query), `tokens@10`,
    `characters@10` (the text of that many hits), `index_bytes`, `embedding_seconds`, `indexing_seconds`; in money
    `embedding_cost` (all texts) and `query_cost` (a thousand queries), at the `price` of endpoints."""

    held_out: Annotated[float, Field(gt=0, lt=1)] | Annotated[list[str], Field(min_length=1)] | None = None
    """Queries that are kept out of the search and alone decide the verdict: a share of all queries, drawn with `seed`,
    or all queries with one of these tags."""

    group_by: Literal["document"] | None = None
    """Keep queries with a common relevant document on the same side of a `held_out` share."""

    finalists: Annotated[int, Field(ge=1)] = 3
    """The number of best settings to compare with one another."""

    baseline: str | None = None
    """The retriever to compare the best setting with, using its options in the config (default: the first
    retriever)."""

    @property
    def is_adaptive(self) -> bool:
        """True if settings are chosen by the scores of others, which invalidates tests on the same queries."""
        return self.method != "random"


def is_limit(name: object, value: object) -> bool:
    """True if ``search.within`` may have such an entry."""
    try:
        SearchOptions.model_validate({"within": {name: value}})
    except ValidationError:
        return False
    return True
