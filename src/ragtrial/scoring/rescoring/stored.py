"""The rankings of a report as they are scored again: rows of documents and chunks, and how large these are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ragtrial.components.embedders import Embedder
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.dataset.spans import ChunkSpans
from ragtrial.errors import Fault, ModelNotFoundError, ReportError
from ragtrial.evaluation.context_sizes import ContextSizes, sizes_of
from ragtrial.rankings import PADDING, Bools, Counts, Rankings, from_rows
from ragtrial.report.model import Report, read_lines
from ragtrial.report.schema import QueryScores, SettingPart

_COLUMNS = ("docs", "chunks", "starts", "ends", "scores")


@dataclass(frozen=True, eq=False)
class StoredSetting:
    """What a setting found for some queries, in their order: ``rows`` as they are in rankings/, best first.

    ``top_k`` is how many hits were kept; ``is_all`` says whether the queries are all that it was asked.
    """

    part: SettingPart
    rows: Sequence[Mapping[str, Any]]
    queries: Sequence[QueryScores]
    top_k: int
    is_all: bool

    @cached_property
    def lengths(self) -> Counts:
        """Hits of each query, shape (queries,)."""
        return np.array([len(row["docs"]) for row in self.rows], dtype=np.int64)

    @cached_property
    def skipped(self) -> Bools:
        """Which queries could not be answered, shape (queries,)."""
        return np.array([query.skipped for query in self.queries], dtype=np.bool_)

    def documents(self, library: Library) -> Rankings:
        """The ranked documents, by their places in ``library``, and their scores."""
        codes = [[library.positions[doc] for doc in row["docs"]] for row in self.rows]
        return from_rows(codes, [[math.nan if one is None else one for one in row["scores"]] for row in self.rows])

    def chunks(self, library: Library, whole: Chunks | None) -> tuple[Rankings, ChunkSpans]:
        """The ranked chunks and where each is: by their places in ``whole`` where all chunks are known."""
        if whole is not None:
            code = {name: position for position, name in enumerate(whole.ids(range(len(whole))))}
            spans = ChunkSpans(whole.document, whole.start, whole.end)
        else:
            found = {
                chunk: (library.positions.get(doc, PADDING), start, end)
                for row in self.rows
                for chunk, doc, start, end in zip(row["chunks"], row["docs"], row["starts"], row["ends"], strict=True)
            }
            code = {chunk: position for position, chunk in enumerate(found)}
            columns = np.array(list(found.values()), dtype=np.int64).reshape(-1, 3)
            spans = ChunkSpans(columns[:, 0].astype(np.int32), columns[:, 1], columns[:, 2])
        return from_rows([[code[chunk] for chunk in row["chunks"]] for row in self.rows]), spans

    def counts(self) -> dict[str, int | None]:
        """The counts of the setting over these queries; None for those that are known of all together alone."""
        collapsed, kept = sum(query.collapsed for query in self.queries), int(self.lengths.sum())
        own: dict[str, int | None] = {
            "queries_too_long": None,
            "chunks_read": kept + collapsed,
            "chunks_collapsed": collapsed,
            "documents_kept": kept,
            "chunks_kept": kept,
            "queries_short": int((self.lengths < self.top_k).sum()),
            "queries_without_hits": int(((self.lengths == 0) & ~self.skipped).sum()),
            "queries_skipped": int(self.skipped.sum()),
        }
        return {name: own.get(name, count) for name, count in self.part.counts.items()}

    def are_of(self, chunks: Chunks) -> bool:
        """Whether the ranked chunks are all among ``chunks``, of which there are as many as the report counts."""
        if self.part.counts.get("chunks") not in (None, len(chunks)):
            return False
        return {chunk for row in self.rows for chunk in row["chunks"]} <= set(chunks.ids(range(len(chunks))))

    def sizes(self, tokens: Mapping[str, int] | None) -> ContextSizes:
        """How large the first hits are, by the tokens of each chunk; None where these are not known."""
        shape = len(self.rows), int(self.lengths.max(initial=0))
        characters, counted = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for index, row in enumerate(self.rows):
            length = len(row["docs"])
            characters[index, :length] = np.array(row["ends"]) - np.array(row["starts"])
            if tokens is not None:
                counted[index, :length] = [tokens[chunk] for chunk in row["chunks"]]
        return sizes_of(characters, None if tokens is None else counted)


def stored_setting(report: Report, setting: SettingPart, queries: Sequence[str], top_k: int) -> StoredSetting:
    """The rankings of a setting of ``report`` for ``queries``. Raises ReportError if they are not there."""
    path = report.ranking_file(setting.name)
    scores = {query.id: query for query in setting.queries}
    try:
        rows = {row["query"]: row for row in read_lines(path)}
        chosen = [rows[query] for query in queries]
        if any(len({len(row[column]) for column in _COLUMNS}) > 1 for row in chosen):
            raise LookupError("columns of unlike lengths")
        return StoredSetting(setting, chosen, [scores[query] for query in queries], top_k, len(rows) == len(queries))
    except (LookupError, TypeError) as error:
        message = f"is damaged: it lacks what report.json names ({error}); run the experiment again."
        raise ReportError(Fault(str(path), message=message)) from error


def chunk_tokens(report: Report, settings: Sequence[StoredSetting], embedder: Embedder) -> dict[str, int] | None:
    """The tokens of each ranked chunk: those that the report tells, and of deeper hits those that are counted now.

    None where they cannot be known: the run had no tokenizer, or there is none now.
    """
    hits = [hit for setting in report.settings for query in setting.queries for hit in query.hits]
    known = {hit.chunk: hit.tokens for hit in hits if hit.chunk and hit.tokens is not None}
    wanted = {chunk for setting in settings for row in setting.rows for chunk in row["chunks"]} - known.keys()
    if not wanted:
        return known
    tokenizer = None
    with suppress(ModelNotFoundError):
        tokenizer = embedder.tokenizer() if known else None
    rows = read_lines(report.file("texts.jsonl.gz")) if tokenizer else ()
    texts = {row["chunk"]: row["text"] for row in rows if row["chunk"] in wanted}
    if tokenizer is None or texts.keys() != wanted:
        return None
    counts = tokenizer.counts(list(texts.values())) - tokenizer.special_tokens
    return {**known, **dict(zip(texts, counts.tolist(), strict=True))}
