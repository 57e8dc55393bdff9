"""Fusion by ranx, in a process of its own: without numba's compiler, whose pauses are longer than all the work.

Reads JSON from stdin: ``lists`` (one mapping of query to document to score each) and ``weights``. Writes what ranx
makes of them to stdout: fused scores, by the name of the fusion.
"""

from __future__ import annotations

import json
import os
import sys

os.environ["NUMBA_DISABLE_JIT"] = "1"

from ranx import Run
from ranx.fusion import rrf, wsum
from ranx.normalization import min_max_norm, zmuv_norm

Scores = dict[str, dict[str, float]]


def plain(run: Run) -> Scores:
    return {query: {doc: float(score) for doc, score in hits.items()} for query, hits in run.to_dict().items()}


def filled(runs: list[Run]) -> list[Run]:
    """The lists with every document, those that are missing at the lowest score of their list."""
    lists = [plain(run) for run in runs]
    union = {query: {doc for one in lists for doc in one[query]} for query in lists[0]}
    return [Run({q: {d: one[q].get(d, min(one[q].values())) for d in union[q]} for q in union}) for one in lists]


given = json.load(sys.stdin)
runs = [Run(one) for one in given["lists"]]
min_max, z_score = ([norm(run) for run in runs] for norm in (min_max_norm, zmuv_norm))
json.dump(
    {
        "rrf": plain(rrf(runs, k=60)),
        "min_max": plain(wsum(min_max, given["weights"])),
        "z_score": plain(wsum(filled(z_score), given["weights"])),
    },
    sys.stdout,
)
