"""What a report keeps of the parts of a fusion or a reranker that are no settings of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.dataset.chunks import Chunks
from ragtrial.rankings import PADDING, Rankings, collapse
from ragtrial.records import Unit

FOLDER = "parts"
"""Below rankings/."""


def part_file(whole: Mapping[str, Any], entry: str) -> str:
    """The name, below rankings/ and without its ending, of what ``whole`` looked at of its part ``entry``.

    ``whole`` are the parameters of a setting, or of a part with parts, as they stand in the report. Equal parts that
    are looked at equally deep have one file, whatever is made of them.
    """
    looked_at = whole["retriever"].get("candidates")
    return f"{FOLDER}/{entry}-{fingerprint([whole['parts'][entry], looked_at])[:12]}"


def part_rows(queries: Sequence[str], units: Chunks, rankings: Rankings, unit: Unit) -> Iterator[dict[str, Any]]:
    """One row per query: its documents, or chunks, best first, each once, with the scores (None: not known).

    Scores have as many digits as tell one float32 from the next.
    """
    owner = units.document if unit == "document" else np.arange(len(units), dtype=np.int32)
    found = collapse(rankings, owner)
    for row, query in enumerate(queries):
        codes = [code for code in found.units[row].tolist() if code != PADDING]
        scores = found.rankings.scores[row, : len(codes)].tolist()
        places = {"starts": units.start[codes].tolist(), "ends": units.end[codes].tolist()} if unit == "span" else {}
        yield {
            "query": query,
            "docs": [units.library.ids[document] for document in units.document[codes].tolist()],
            **places,
            "scores": [None if math.isnan(score) else float(f"{score:.9g}") for score in scores],
        }
