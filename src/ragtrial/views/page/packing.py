"""What the page draws, as JSON in columns: small, and read by the browser in blocks, each when it is needed."""

from __future__ import annotations

import gzip
import json
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ragtrial.comparison.comparison_parts import Comparison
from ragtrial.comparison.contest import ComparedSetting, ComparisonSet
from ragtrial.comparison.queries.part_ranks import Key
from ragtrial.evaluation.grading import Scores
from ragtrial.report.model import HITS_SHOWN, read_lines
from ragtrial.report.schema import QueryPart
from ragtrial.views.page.deep_ranks import DeepRanks

TEXT_BYTES = 6_000_000
"""How much of the texts, compressed, is taken along: those of the best ranks."""

ALL_BYTES = 14_000_000
"""How long the whole page may become for the sake of texts."""

_ENVELOPE = 4 / 3
"""Base64 makes it longer."""

_TEXT_CHARACTERS = 2000
"""Of a hit's text more is not shown."""

_UNJUDGED = -1_000_000


def packed(value: Any) -> str:
    """``value`` as JSON, compressed, in base64; the same bytes for the same value."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return b64encode(gzip.compress(text.encode("utf-8", "surrogatepass"), 6, mtime=0)).decode("ascii")


def summary_block(contest: ComparisonSet, comparison: Comparison, drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, queries, every value of the chosen metrics, the comparison, and what views have ``drawn``."""
    report = contest.contenders[0].report
    return {
        **drawn,
        "metrics": [{"name": name, "formula": report.metrics[name].formula} for name in contest.metrics],
        "settings": [_setting(contender) for contender in contest.contenders],
        "queries": [_query(query) for query in contest.queries],
        "values": [_columns(contest.scores(metric).values) for metric in contest.metrics],
        "comparison": {
            "comparisons": [part.model_dump(mode="json") for part in comparison.comparisons],
            "procedure": comparison.procedure.model_dump(mode="json"),
            "primary_metric": comparison.primary_metric,
        },
        "unit": report.unit,
        "hits_shown": HITS_SHOWN,
    }


def hits_block(contest: ComparisonSet, deep: Sequence[DeepRanks | None]) -> tuple[dict[str, Any], list[str]]:
    """What each setting found for each query, as indices of chunks, and the ids of these, best ranks first.

    Below the hits that are shown, ``deep``, there are ranks alone, null where they are not known.
    """
    documents: dict[str, int] = {}
    chunks: dict[Key, int] = {}
    names: list[str] = []
    rows: list[list[int | None]] = []
    ranks: list[int] = []
    found = []
    for contender, below in zip(contest.contenders, deep, strict=True):
        by_query = {one.id: one for one in contender.setting.queries}
        lengths, codes, scores, grades = [], [], [], []
        for query in contest.queries:
            hits = by_query[query.id].hits if query.id in by_query else []
            lengths.append(len(hits))
            for hit in hits:
                code = chunks.setdefault((hit.doc, hit.start, hit.end), len(rows))
                if code == len(rows):
                    rows.append([documents.setdefault(hit.doc, len(documents)), hit.start, hit.end])
                    names.append(hit.chunk or "")
                    ranks.append(hit.rank)
                ranks[code] = min(ranks[code], hit.rank)
                codes.append(code)
                scores.append(None if hit.score is None else float(f"{hit.score:.5g}"))
                grades.append(_UNJUDGED if hit.grade is None else hit.grade)
        part = {"lengths": lengths, "chunks": codes, "scores": scores, "grades": grades}
        found.append({**part, "below": None if below is None else _below(below, documents)})
    order = sorted(range(len(rows)), key=lambda code: (ranks[code], code))
    return {"documents": list(documents), "chunks": rows, "found": found}, [names[code] for code in order]


def _below(deep: DeepRanks, documents: dict[str, int]) -> dict[str, Any]:
    """Ranks below the shown hits in columns; a document that is new is added to ``documents``."""
    entries = [(key, rank) for ranks in deep.ranks for key, rank in ranks.items()]
    return {
        "lengths": [len(ranks) for ranks in deep.ranks],
        "keys": [[documents.setdefault(key[0], len(documents)), *key[1:]] for key, _ in entries],
        "ranks": [rank for _, rank in entries],
    }


def text_block(contest: ComparisonSet, wanted: Sequence[str], taken: int) -> dict[str, Any]:
    """Title and text by chunk, in the order of ``wanted`` until there is no more room, and how many were left out.

    ``taken`` is how long the page is without them.
    """
    room = min(TEXT_BYTES, int((ALL_BYTES - taken) / _ENVELOPE))
    places = {name: place for place, name in enumerate(wanted) if name}
    rows: dict[str, dict[str, Any]] = {}
    for report in {contender.report.folder: contender.report for contender in contest.contenders}.values():
        path = report.file("texts.jsonl.gz")
        for row in read_lines(path) if path.is_file() else ():
            if row["chunk"] in places:
                rows.setdefault(row["chunk"], row)
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
    scores = contender.setting.scores
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
