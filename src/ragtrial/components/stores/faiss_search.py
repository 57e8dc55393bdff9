"""What all FAISS indexes share: the name of the file, adding and searching in batches, and FAISS's error messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ragtrial.rankings import Rankings, unfilled

FILE = "index.faiss"
ADD_BATCH = 10_000
_QUERY_BATCH = 256


def search_in_batches(
    index: Any, queries: Any, depth: int, prepared: Callable[[Any], Any], *, gives_distances: bool
) -> Rankings:
    """The nearest vectors of ``index``, at most ``depth``, to each of the ``prepared`` queries.

    Scores are FAISS's own, or minus these where it gives distances.
    """
    depth = min(depth, int(index.ntotal))
    made = unfilled(len(queries), depth)
    for start in range(0, len(queries) if depth else 0, _QUERY_BATCH):
        rows = slice(start, start + _QUERY_BATCH)
        scores, codes = index.search(prepared(queries[rows]), depth)
        is_hit = codes >= 0  # FAISS fills up with -1
        made.codes[rows][is_hit] = codes[is_hit]
        made.scores[rows][is_hit] = (-scores if gives_distances else scores)[is_hit]
    return made


def message_of(error: BaseException) -> str:
    """FAISS's message, without the place in its source code."""
    text = " ".join(str(error).split())
    return re.sub(r"^Error in .*? at \S+: (Error: )?", "", text).rstrip(".") or type(error).__name__
