"""A search: how settings are chosen along the axes of a sweep, and which queries confirm the best.

search:
  method: tpe                       # random (default) | greedy | tpe | halving
  settings: 60
  minutes: 30
  held_out: 0.3                     # a share of the queries, or tags: [test]
  group_by: document
  within: {latency.p95: 0.3, tokens@10: 2000}
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from ragtrial.options import Options

Method = Literal["random", "greedy", "tpe", "halving"]

LIMITS = ("latency.p50", "latency.p95", "latency.p99", "index_bytes", "embedding_seconds", "indexing_seconds")
"""The costs that can be limited, beside ``tokens@K`` and ``characters@K``."""

_CONTEXT = re.compile(r"(tokens|characters)@([1-9][0-9]*)")


class SearchOptions(Options):
    """A search for the best setting along the axes of the sweep, instead of all combinations."""

    method: Method = "random"
    """How settings are chosen: `random` never looks at the labels, so every query counts for the verdict. `greedy` (the
    best value of one axis after the other), `tpe` (Optuna's tree-structured Parzen estimator) and `halving` (the better
    third goes on to more queries) look at them, and need `held_out`."""

    settings: Annotated[int, Field(ge=2)] = 60
    """How many settings are tried at most, beside those of the config and of `sweep.include`."""

    minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """After so many minutes no other setting is begun. The same command goes on where a search ended (default: no
    limit)."""

    within: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(default={})
    """The most that the best setting may cost: `latency.p50`, `latency.p95`, `latency.p99` (seconds per query),
    `tokens@10`, `characters@10` (the text of so many hits), `index_bytes`, `embedding_seconds`, `indexing_seconds`."""

    held_out: Annotated[float, Field(gt=0, lt=1)] | Annotated[list[str], Field(min_length=1)] | None = None
    """The queries that no choice looks at, and that alone decide the verdict: a share of them, drawn with `seed`, or
    all with one of these tags."""

    group_by: Literal["document"] | None = None
    """Keep queries that have a relevant document in common on one side of a `held_out` share."""

    finalists: Annotated[int, Field(ge=1)] = 3
    """How many of the best are compared with one another."""

    baseline: str | None = None
    """The retriever that, with the options that the config has, the best setting is compared with (default: the first
    one)."""

    @property
    def is_adaptive(self) -> bool:
        """Whether settings are chosen by the scores of others, which voids tests on the same queries."""
        return self.method != "random"


def context_limit(name: str) -> tuple[str, int] | None:
    """The unit and the cutoff of ``tokens@10`` or ``characters@10``; None for another name."""
    found = _CONTEXT.fullmatch(name)
    return (found[1], int(found[2])) if found else None
