"""The rankings of a report as they are scored again, in columns: what was found, where it is, and how large it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.dataset.spans import ChunkSpans
from ragtrial.errors import Fault, ReportError
from ragtrial.evaluation.context_sizes import ContextSizes, sizes_of
from ragtrial.rankings import PADDING, Bools, Counts, Rankings, from_rows
from ragtrial.report.model import Report
from ragtrial.report.schema import QueryColumns, SettingPart

_NO_TOKENS = -1


@dataclass(frozen=True)
class StoredChunk:
    """A ranked chunk: its document, its first character and the one behind its last, and its tokens if known."""

    doc: str
    start: int
    end: int
    tokens: int


@dataclass(frozen=True, eq=False)
class StoredSetting:
    """What a setting found for some queries, in their order.

    ``ranked`` has codes of ``chunks``, which are in the order of these codes, by name. ``top_k`` is how many hits were
    kept; ``is_all`` says whether the queries are all that the setting was asked.
    """

    part: SettingPart
    per_query: QueryColumns
    ranked: Rankings
    chunk_places: dict[str, StoredChunk]
    top_k: int
    is_all: bool

    @cached_property
    def skipped(self) -> Bools:
        """Which queries could not be answered, shape (queries,)."""
        return np.array(self.per_query.skipped, dtype=np.bool_)

    @property
    def docs(self) -> dict[str, None]:
        """The documents of its hits, each once."""
        return dict.fromkeys(one.doc for one in self.chunk_places.values())

    def documents(self, library: Library) -> Rankings:
        """The ranked documents, by their places in ``library``, and their scores."""
        return self._recoded([library.positions[one.doc] for one in self.chunk_places.values()])

    def chunks(self, library: Library, whole: Chunks | None) -> tuple[Rankings, ChunkSpans]:
        """The ranked chunks and where each is: by their places in ``whole`` where all chunks are known."""
        if whole is not None:
            code = {name: position for position, name in enumerate(whole.ids(range(len(whole))))}
            ranked = self._recoded([code[name] for name in self.chunk_places])
            return ranked, ChunkSpans(whole.document, whole.start, whole.end)
        found = [(library.positions.get(one.doc, PADDING), one.start, one.end) for one in self.chunk_places.values()]
        columns = np.array(found, dtype=np.int64).reshape(-1, 3)
        return self.ranked, ChunkSpans(columns[:, 0].astype(np.int32), columns[:, 1], columns[:, 2])

    def _recoded(self, codes: Sequence[int]) -> Rankings:
        """The rankings with the chunk at each place called ``codes`` there."""
        return Rankings(np.array([*codes, PADDING], dtype=np.int32)[self.ranked.codes], self.ranked.scores)

    def counts(self) -> dict[str, int | None]:
        """The counts of the setting over these queries; None for those that are known of all together alone."""
        collapsed, kept = sum(self.per_query.collapsed), int(self.ranked.lengths.sum())
        own: dict[str, int | None] = {
            "queries_too_long": None,
            "chunks_read": kept + collapsed,
            "chunks_collapsed": collapsed,
            "documents_kept": kept,
            "chunks_kept": kept,
            "queries_short": int((self.ranked.lengths < self.top_k).sum()),
            "queries_without_hits": int(((self.ranked.lengths == 0) & ~self.skipped).sum()),
            "queries_skipped": int(self.skipped.sum()),
        }
        return {name: own.get(name, count) for name, count in self.part.counts.items()}

    def are_of(self, chunks: Chunks) -> bool:
        """Whether the ranked chunks are all among ``chunks``, of which there are as many as the report counts."""
        if self.part.counts.get("chunks") not in (None, len(chunks)):
            return False
        return self.chunk_places.keys() <= set(chunks.ids(range(len(chunks))))

    def sizes(self) -> ContextSizes:
        """How large the first hits are."""
        places = self.chunk_places.values()
        characters = self._by_hit([one.end - one.start for one in places])
        has_tokens = all(one.tokens != _NO_TOKENS for one in places)
        return sizes_of(characters, self._by_hit([one.tokens for one in places]) if has_tokens else None)

    def _by_hit(self, values: Sequence[int]) -> Counts:
        return np.array([*values, 0], dtype=np.int64)[self.ranked.codes]


def stored_setting(report: Report, setting: SettingPart, queries: Sequence[str], top_k: int) -> StoredSetting:
    """The rankings of a setting of ``report`` for ``queries``. Raises ReportError if they are not there."""
    places = {query.id: place for place, query in enumerate(report.queries)}
    chunks: dict[str, StoredChunk] = {}
    code_of: dict[str, int] = {}
    codes, scores = [], []
    try:
        for row in report.rankings(setting.name, queries):
            tokens = row.get("tokens", [_NO_TOKENS] * len(row["docs"]))
            for name, *place in zip(row["chunks"], row["docs"], row["starts"], row["ends"], tokens, strict=True):
                if name not in chunks:
                    code_of[name], chunks[name] = len(chunks), StoredChunk(*place)
            codes.append([code_of[name] for name in row["chunks"]])
            scores.append([math.nan if one is None else one for one in row["scores"]])
        ranked = from_rows(codes, scores)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        message = f"is damaged: it lacks what report.json names ({error}); run the experiment again."
        raise ReportError(Fault(str(report.ranking_file(setting.name)), message=message)) from error
    per_query = setting.per_query.at([places[query] for query in queries])
    return StoredSetting(setting, per_query, ranked, chunks, top_k, is_all=len(queries) == len(places))
