"""The data of the page as JSON in columns: small, and read by the browser in blocks when they are needed."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ragtrial.comparison.comparison_input import ComparedSetting, ComparisonInput
from ragtrial.comparison.comparison_parts import Comparison
from ragtrial.evaluation.grading import Scores
from ragtrial.rankings import Counts
from ragtrial.report.model import TEXTS
from ragtrial.report.schema import QueryPart
from ragtrial.views.page.hits import HITS_SHOWN, DeepRanks, FoundHits, SettingHits

TEXT_BYTES = 6_000_000
"""The bytes of compressed texts on the page; texts of the best ranks come first."""

ALL_BYTES = 14_000_000
"""How long the whole page may become for the sake of texts."""

_ENVELOPE = 4 / 3
"""Base64 makes it longer."""

_TEXT_CHARACTERS = 2000
"""The longest text of a hit that is shown."""


def packed(value: Any) -> str:
    """``value`` as JSON, compressed, in base64; the same bytes for the same value."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return b64encode(gzip.compress(text.encode("utf-8", "surrogatepass"), 6, mtime=0)).decode("ascii")


def summary_block(contest: ComparisonInput, comparison: Comparison, drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, queries, every value of the chosen metrics, the comparison, and the data ``drawn`` by views."""
    report = contest.report
    return {
        **drawn,
        "metrics": [
            {"name": name, "formula": report.metrics[name].formula, "better": report.metrics[name].better}
            for name in contest.metrics
        ],
        "settings": [_setting(contender) for contender in contest.settings],
        "queries": [_query(query) for query in contest.queries],
        "values": [_columns(contest.scores(metric).values) for metric in contest.metrics],
        "comparison": {
            "comparisons": [part.model_dump(mode="json") for part in comparison.comparisons],
            "procedure": comparison.procedure.model_dump(mode="json"),
            "primary_metric": comparison.primary_metric,
        },
        "unit": report.unit,
    }


def hits_block(found: FoundHits, deep: Sequence[DeepRanks]) -> tuple[dict[str, Any], list[str]]:
    """The hits of each setting and query as indices of chunks, and the ids of the chunks, best ranks first.

    Below the shown hits there are only ranks, from ``deep``.
    """
    best = np.full(len(found.keys), np.iinfo(np.int64).max)
    for own in found.settings:
        np.minimum.at(best, own.codes[own.is_shown], own.ranks[own.is_shown])
    shown = np.flatnonzero(best < np.iinfo(np.int64).max)
    new = np.zeros(len(found.keys), dtype=np.int64)
    new[shown] = np.arange(len(shown))
    documents: dict[str, int] = {}
    chunks = []
    for code in shown.tolist():
        doc, start, end = found.keys[code]
        chunks.append([documents.setdefault(doc, len(documents)), start, end])
    parts = [
        {**_shown(own, new), "below": _below(below, documents)} for own, below in zip(found.settings, deep, strict=True)
    ]
    order = shown[np.lexsort((shown, best[shown]))]
    return {"documents": list(documents), "chunks": chunks, "found": parts}, [found.names[code] for code in order]


def _shown(own: SettingHits, codes: Counts) -> dict[str, list[Any]]:
    """The shown hits of a setting in columns, their chunks as ``codes``."""
    shown = own.is_shown
    scores = [None if math.isnan(score) else float(f"{score:.5g}") for score in own.scores[shown].tolist()]
    return {
        "lengths": [min(length, HITS_SHOWN) for length in own.lengths],
        "chunks": codes[own.codes[shown]].tolist(),
        "scores": scores,
        "grades": own.grades[shown].tolist(),
    }


def _below(deep: DeepRanks, documents: dict[str, int]) -> dict[str, Any]:
    """Ranks below the shown hits in columns; a document that is new is added to ``documents``."""
    entries = [(key, rank) for ranks in deep.ranks for key, rank in ranks.items()]
    return {
        "lengths": [len(ranks) for ranks in deep.ranks],
        "keys": [[documents.setdefault(key[0], len(documents)), *key[1:]] for key, _ in entries],
        "ranks": [rank for _, rank in entries],
    }


def text_block(contest: ComparisonInput, wanted: Sequence[str], taken: int) -> dict[str, Any]:
    """Title and text by chunk, in the order of ``wanted`` until there is no more room, and how many were left out.

    ``taken`` is how long the page is without them.
    """
    room = min(TEXT_BYTES, int((ALL_BYTES - taken) / _ENVELOPE))
    places = {name: place for place, name in enumerate(wanted) if name}
    rows: dict[str, dict[str, Any]] = {}
    for report in {contender.report.folder: contender.report for contender in contest.settings}.values():
        if report.file(TEXTS).is_file():
            rows = report.texts(places) | rows
    ordered = sorted(rows.values(), key=lambda row: places[row["chunk"]])
    shown = list(_within(ordered, room))
    return {"texts": shown, "left_out": len(places) - len(shown)}


def _within(rows: Iterable[dict[str, Any]], room: int) -> Iterator[list[Any]]:
    packer, size = zlib.compressobj(6), 0
    for row in rows:
        kept = [row["doc"], row["start"], row["end"], row["title"], row["text"][:_TEXT_CHARACTERS]]
        size += len(packer.compress(json.dumps(kept, ensure_ascii=False).encode("utf-8", "surrogatepass")))
        if size > room:
            return
        yield kept


def _setting(contender: ComparedSetting) -> dict[str, Any]:
    scores = contender.part.scores
    return {"name": contender.name, "scores": {name: [mean.mean, mean.n] for name, mean in scores.items()}}


def _query(query: QueryPart) -> dict[str, Any]:
    return {
        "id": query.id,
        "text": query.text,
        "tags": query.tags,
        "labels": [
            [label.doc, label.relevance, [[span.start, span.end] for span in label.spans]]
            for label in query.relevant_docs
        ],
    }


def _columns(values: Scores) -> list[list[float | None]]:
    return [[None if np.isnan(value) else round(value, 6) for value in row] for row in values.tolist()]
