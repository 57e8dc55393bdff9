"""The data of the page as JSON in columns: small, and read by the browser in blocks when they are needed.

There are the hits of each setting, the ranks below them, texts, and why rankings differ.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ragtrial.comparison.comparison_input import ComparedSetting, ComparisonInput
from ragtrial.comparison.query_differences import GainShare, KeptPart, Key, kept_parts, rank_in_row, why_no_shares
from ragtrial.errors import Fault, ReportError
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import metric_called
from ragtrial.rankings import Bools, Codes, Counts
from ragtrial.records import Unit
from ragtrial.report.model import TEXTS, Row
from ragtrial.report.schema import QueryPart

HITS_SHOWN = 20
"""The hits of a query that the page shows; of those below it has only ranks."""

UNJUDGED = -1_000_000

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


def page_blocks(
    inputs: ComparisonInput, hits: FoundHits, ranked: Sequence[str], baseline: str | None
) -> dict[str, str]:
    """All blocks by name, packed; texts have the room that the others leave."""
    deep = deep_ranks(inputs.queries, hits)
    summary, reasons = _summary_block(inputs, hits, ranked, baseline), _reasons_block(inputs, hits, deep)
    shown, wanted = _hits_block(hits, deep)
    parts = {"summary": summary, "hits": shown, "reasons": reasons, "wordings": [own.wordings for own in hits.settings]}
    blocks = {name: packed(part) for name, part in parts.items()}
    return {**blocks, "texts": packed(_text_block(inputs, wanted, sum(map(len, blocks.values()))))}


def _summary_block(
    inputs: ComparisonInput, hits: FoundHits, ranked: Sequence[str], baseline: str | None
) -> dict[str, Any]:
    """Settings in the order of ``ranked``, questions, every value of the chosen metrics, and the rank of each first
    answer.
    """
    report, has_rankings = inputs.report, all(setting.report.has_rankings for setting in inputs.settings)
    k = metric_called(inputs.primary).k if has_rankings else None
    return {
        "metrics": [
            {"name": name, "formula": report.metrics[name].formula, "better": report.metrics[name].better}
            for name in inputs.metrics
        ],
        "settings": list(inputs.names),
        "order": [inputs.setting_index(name) for name in ranked],
        "baseline": baseline,
        "queries": [_query(query) for query in inputs.queries],
        "values": [_columns(inputs.scores(metric).values) for metric in inputs.metrics],
        "k": k,
        "has_rankings": has_rankings,
        "first": [own.first_relevant(report.relevance_threshold, k).tolist() for own in hits.settings],
        "unit": report.unit,
    }


def _hits_block(hits: FoundHits, deep: Sequence[DeepRanks]) -> tuple[dict[str, Any], list[str]]:
    """The hits of each setting and query as indices of chunks, and the ids of the chunks, best ranks first.

    Below the shown hits there are only ranks, from ``deep``.
    """
    best = np.full(len(hits.keys), np.iinfo(np.int64).max)
    for own in hits.settings:
        np.minimum.at(best, own.codes[own.is_shown], own.ranks[own.is_shown])
    shown = np.flatnonzero(best < np.iinfo(np.int64).max)
    new = np.zeros(len(hits.keys), dtype=np.int64)
    new[shown] = np.arange(len(shown))
    documents: dict[str, int] = {}
    chunks = []
    for code in shown.tolist():
        doc, start, end = hits.keys[code]
        chunks.append([documents.setdefault(doc, len(documents)), start, end])
    pairs = zip(hits.settings, deep, strict=True)
    parts = [{**_shown(own, new), "below": _below(below, documents)} for own, below in pairs]
    order = shown[np.lexsort((shown, best[shown]))]
    return {"documents": list(documents), "chunks": chunks, "found": parts}, [hits.names[code] for code in order]


def _shown(own: SettingHits, codes: Counts) -> dict[str, list[Any]]:
    """The shown hits of a setting in columns, their chunks as ``codes``."""
    shown = own.is_shown
    scores = [None if math.isnan(score) else float(f"{score:.5g}") for score in own.scores[shown].tolist()]
    lengths = [min(length, HITS_SHOWN) for length in own.lengths]
    chunks, grades = codes[own.codes[shown]].tolist(), own.grades[shown].tolist()
    return {"lengths": lengths, "chunks": chunks, "scores": scores, "grades": grades}


def _below(deep: DeepRanks, documents: dict[str, int]) -> dict[str, Any]:
    """Ranks below the shown hits in columns; a document that is new is added to ``documents``."""
    entries = [(key, rank) for ranks in deep for key, rank in ranks.items()]
    keys = [[documents.setdefault(key[0], len(documents)), *key[1:]] for key, _ in entries]
    return {"lengths": [len(ranks) for ranks in deep], "keys": keys, "ranks": [rank for _, rank in entries]}


def _text_block(inputs: ComparisonInput, wanted: Sequence[str], taken: int) -> dict[str, Any]:
    """Title, text and headings by chunk, in the order of ``wanted`` until there is no more room.

    ``left_out`` counts those left out, and ``taken`` is how long the page is without them.
    """
    room = min(TEXT_BYTES, int((ALL_BYTES - taken) / _ENVELOPE))
    places = {name: place for place, name in enumerate(wanted) if name}
    rows: dict[str, dict[str, Any]] = {}
    for report in {id(contender.report): contender.report for contender in inputs.settings}.values():
        if report.has_rankings and report.file(TEXTS).is_file():
            rows = report.texts(places) | rows
    ordered = sorted(rows.values(), key=lambda row: places[row["chunk"]])
    shown = list(_within(ordered, room))
    return {"texts": shown, "left_out": len(places) - len(shown)}


def _within(rows: Iterable[dict[str, Any]], room: int) -> Iterator[list[Any]]:
    packer, size = zlib.compressobj(6), 0
    for row in rows:
        shown = row["doc"], row["start"], row["end"], row["title"], row["text"][:_TEXT_CHARACTERS]
        kept = [*shown, *filter(None, [row.get("headings")])]
        size += len(packer.compress(json.dumps(kept, ensure_ascii=False).encode("utf-8", "surrogatepass")))
        if size > room:
            return
        yield kept


def _query(query: QueryPart) -> dict[str, Any]:
    labels = [
        [label.doc, label.relevance, [[span.start, span.end] for span in label.spans], *filter(None, [label.group])]
        for label in query.relevant_docs
    ]
    return {"id": query.id, "text": query.text, "tags": query.tags, "labels": labels}


def _columns(values: Scores) -> list[list[float | None]]:
    return [[None if np.isnan(value) else round(value, 6) for value in row] for row in values.tolist()]


@dataclass(frozen=True, eq=False)
class SettingHits:
    """All hits of a setting by query: the hits of the query at ``place`` are at ``starts[place : place + 2]``."""

    starts: Counts
    codes: Codes
    scores: Scores
    grades: Codes
    """``UNJUDGED`` where a hit is not judged."""

    wordings: list[list[str]] | None
    """The wordings that were asked for each query; None if there are none."""

    @property
    def lengths(self) -> list[int]:
        """Hits of each query."""
        return [*np.diff(self.starts).tolist()]

    @cached_property
    def ranks(self) -> Counts:
        """The rank of each hit, from 1."""
        return np.arange(1, len(self.codes) + 1) - np.repeat(self.starts[:-1], np.diff(self.starts))

    @cached_property
    def is_shown(self) -> Bools:
        """Which hits are among the first ``HITS_SHOWN`` of their query."""
        return np.asarray(self.ranks <= HITS_SHOWN)

    def first_relevant(self, threshold: int, k: int | None) -> Counts:
        """The rank of the first hit of each query whose grade is at least ``threshold``, up to ``k``; 0 without one."""
        relevant = np.flatnonzero((self.grades >= threshold) & (self.ranks <= (k or len(self.codes))))
        queries = np.searchsorted(self.starts, relevant, side="right") - 1
        first, at = np.unique(queries, return_index=True)
        ranks = np.zeros(len(self.starts) - 1, dtype=np.int64)
        ranks[first] = self.ranks[relevant[at]]
        return ranks

    def of_query(self, place: int) -> list[int]:
        """The codes of all hits of a query, best first."""
        return [*self.codes[self.starts[place] : self.starts[place + 1]].tolist()]

    def relevant(self, place: int) -> list[int]:
        """The codes of the shown hits of a query that help."""
        first, last = self.starts[place], min(self.starts[place + 1], self.starts[place] + HITS_SHOWN)
        return [*self.codes[first:last][self.grades[first:last] > 0].tolist()]


class FoundHits:
    """The hits of all settings as codes of chunks.

    ``keys`` has document, start and end of each chunk, ``names`` its id, empty where whole documents were ranked.
    """

    def __init__(self, inputs: ComparisonInput) -> None:
        """Raises ReportError if rankings are missing or damaged."""
        self.unit: Unit = inputs.report.unit
        self.keys: list[Key] = []
        self.names: list[str] = []
        self._codes: dict[Key, int] = {}
        self.queries = [query.id for query in inputs.queries]
        self.settings = [self._read(contender) for contender in inputs.settings]

    def place(self, code: int) -> Key:
        """The key of a hit: its document, or the characters of its chunk under unit: span."""
        doc, start, end = self.keys[code]
        return (doc, start, end) if self.unit == "span" else (doc, None, None)

    def shown(self, own: SettingHits, row: int) -> list[Key]:
        """The keys of the shown hits of a setting for the query at ``row``."""
        return [self.place(code) for code in own.of_query(row)[:HITS_SHOWN]]

    def _read(self, contender: ComparedSetting) -> SettingHits:
        lengths, codes, wordings = [0], list[int](), list[list[str]]()
        scores, grades = list[float | None](), list[int]()
        report, name = contender.report, contender.part.name
        try:
            nothing: Iterable[Row] = ({"docs": [], "grades": []} for _ in self.queries)
            for row in report.rankings(name, self.queries) if report.has_rankings else nothing:
                new = self._coded(row)
                wordings.append(list(map(str, row.get("wordings") or ())))
                lengths.append(len(new))
                codes += new
                scores += row.get("scores") or [None] * len(new)
                grades += (UNJUDGED if grade is None else grade for grade in row["grades"])
            columns = np.array(codes, np.int32), np.array(scores, np.float64), np.array(grades, np.int32)
            return SettingHits(np.cumsum(lengths), *columns, wordings if any(wordings) else None)
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise ReportError(Fault(str(report.ranking_file(name)), message=f"is damaged: {error}.")) from error

    def _coded(self, row: Row) -> list[int]:
        docs = row["docs"]
        nothing: Iterable[None] = [None] * len(docs)
        columns = (row.get(name) or nothing for name in ("starts", "ends", "chunks"))
        codes = []
        for doc, start, end, chunk in zip(docs, *columns, strict=True):
            code = self._codes.setdefault((doc, start, end), len(self.keys))
            if code == len(self.keys):
                self.keys.append((doc, start, end))
                self.names.append(chunk or "")
            codes.append(code)
        return codes


DeepRanks = Sequence[Mapping[Key, int]]
"""For each query the ranks of documents or chunks below the shown hits, if another setting shows them, or they are
relevant."""


def deep_ranks(queries: Sequence[QueryPart], hits: FoundHits) -> list[DeepRanks]:
    """The ranks of each setting below its shown hits."""
    wanted = [{key for own in hits.settings for key in hits.shown(own, row)} for row in range(len(queries))]
    if hits.unit == "document":
        for keys, query in zip(wanted, queries, strict=True):
            keys |= {(label.doc, None, None) for label in query.relevant_docs if label.relevance > 0}
    return [
        [
            {key: rank for rank, code in enumerate(own.of_query(row)[HITS_SHOWN:], HITS_SHOWN + 1)
             if (key := hits.place(code)) in keys}
            for row, keys in enumerate(wanted)
        ]
        for own in hits.settings
    ]  # fmt: skip


def _reasons_block(inputs: ComparisonInput, hits: FoundHits, deep: Sequence[DeepRanks]) -> dict[str, Any]:
    """Why rankings differ: the gain of each hit and its rank in each part, 0 for none, aligned with the hits.

    ``adds_below`` has the gains of hits in ``deep``. ``others`` are relevant documents, or chunks, that a part of the
    setting found and the setting did not.
    """
    has_groups = any(one.group is not None for query in inputs.queries for one in query.relevant_docs)
    why = why_no_shares(inputs.primary, inputs.report.unit, has_groups=has_groups)
    gains = None if why else [GainShare.of(inputs.primary, query, inputs.report) for query in inputs.queries]
    wanted = list(_relevant(inputs, hits))
    settings = []
    for setting, own, below in zip(inputs.settings, hits.settings, deep, strict=True):
        parts, notes = kept_parts(setting, [query.id for query in inputs.queries])
        keys = [hits.shown(own, row) for row in range(len(inputs.queries))]
        shown = [[(key, rank) for rank, key in enumerate(of_query, 1)] for of_query in keys]
        deeper = [list(ranks.items()) for ranks in below]
        passages = setting.part.per_query.passages
        settings.append(
            {
                "adds": None if gains is None else list(_adds(gains, shown)),
                "adds_below": None if gains is None else list(_adds(gains, deeper)),
                "notes": notes,
                "parts": [_part(part, inputs.queries, keys) for part in parts],
                "others": list(_others(parts, inputs.queries, keys, wanted)),
                "passages": None if passages is None else [[part.found for part in parts] for parts in passages],
            }
        )
    return {"metric": inputs.primary, "why_no_shares": why, "settings": settings}


def _adds(gains: Sequence[GainShare], ranks: Sequence[Sequence[tuple[Key, int]]]) -> Iterator[float]:
    """The gain of each document at its rank, query by query."""
    for gain, of_query in zip(gains, ranks, strict=True):
        for (doc, *_), rank in of_query:
            yield round(gain.at(doc, rank), 5)


def _part(part: KeptPart, queries: Sequence[QueryPart], keys: Sequence[Sequence[Key]]) -> dict[str, Any]:
    depths = [len(part.rows[query.id]["docs"]) if query.id in part.rows else 0 for query in queries]
    ranks = [rank for query, own in zip(queries, keys, strict=True) for rank in _ranks(part, query, own)]
    return {"name": part.name, "depths": depths, "ranks": ranks}


def _ranks(part: KeptPart, query: QueryPart, keys: Sequence[Key]) -> list[int]:
    if query.id not in part.rows:
        return [0] * len(keys)
    row = part.rows[query.id]
    places: dict[str, list[int]] = {}
    for place, doc in enumerate(row["docs"]):
        places.setdefault(doc, []).append(place)
    return [rank_in_row(row, key, places.get(key[0], ())) or 0 for key in keys]


def _relevant(inputs: ComparisonInput, hits: FoundHits) -> Iterator[list[Key]]:
    """For each query the labelled documents, or under unit: span the relevant chunks that any setting shows."""
    for place, query in enumerate(inputs.queries):
        if hits.unit == "document":
            keys: list[Key] = [(label.doc, None, None) for label in query.relevant_docs if label.relevance > 0]
        else:
            keys = [hits.keys[code] for own in hits.settings for code in own.relevant(place)]
        yield list(dict.fromkeys(keys))


def _others(
    parts: Sequence[KeptPart], queries: Sequence[QueryPart], keys: Sequence[Sequence[Key]], wanted: Sequence[list[Key]]
) -> Iterator[list[Any]]:
    if not parts:
        return
    for place, (query, own) in enumerate(zip(queries, keys, strict=True)):
        missing = [key for key in wanted[place] if key not in own]
        columns = [_ranks(part, query, missing) for part in parts]
        for key, ranks in zip(missing, zip(*columns, strict=True), strict=True):
            if any(ranks):
                yield [place, *key, list(ranks)]
