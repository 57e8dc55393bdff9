"""Chunks, labelled passages, and where the two meet: all as columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ragtrial.rankings import Bools, Codes, Counts, starts_of


@dataclass(frozen=True, eq=False)
class ChunkSpans:
    """Chunks as characters ``starts`` to ``ends`` (int64) of ``documents`` (int32 codes), each of shape (chunks,)."""

    documents: Codes
    starts: Counts
    ends: Counts

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def lengths(self) -> Counts:
        return self.ends - self.starts


@dataclass(frozen=True, eq=False)
class Passages:
    """Places in documents that belong to queries.

    The places of query ``i`` are ``starts[i]:starts[i + 1]`` (``starts`` int64, (queries + 1,)), ascending in their
    document: characters ``begins`` to ``ends`` (int64) of ``documents`` (int32; negative for a document without
    chunks). ``judgments`` (int64) has the judgment of each place. All except ``starts`` have shape (passages,).
    """

    starts: Counts
    documents: Codes
    begins: Counts
    ends: Counts
    judgments: Counts

    @classmethod
    def from_places(
        cls, queries: int, rows: Counts, documents: Codes, begins: Counts, ends: Counts, judgments: Counts
    ) -> Passages:
        """From places in any order: ``rows`` has the query of each."""
        order = np.lexsort((begins, documents, rows))
        starts = starts_of(rows, queries)
        return cls(starts, documents[order].astype(np.int32), begins[order], ends[order], judgments[order])

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def lengths(self) -> Counts:
        return self.ends - self.begins

    @cached_property
    def rows(self) -> Counts:
        """The query of each passage, shape (passages,)."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def chosen(self, which: Bools) -> Passages:
        """The passages at the True places of ``which``, shape (passages,)."""
        starts = starts_of(self.rows[which], len(self.starts) - 1)
        return Passages(starts, self.documents[which], self.begins[which], self.ends[which], self.judgments[which])

    def merged(self) -> Passages:
        """The characters in any passage of a query, as passages that neither overlap nor touch.

        ``judgments`` has the judgment of the first passage of each.
        """
        if not len(self):
            return self
        key = self.rows * (int(self.documents.max(initial=0)) + 2) + self.documents + 1
        # The furthest end so far, of the same query and document: keys are far apart, so that each begins anew.
        far = int(self.ends.max()) + 1
        reach = np.maximum.accumulate(key * far + self.ends)
        new = np.ones(len(self), dtype=np.bool_)
        new[1:] = (key[1:] != key[:-1]) | (self.begins[1:] > (reach[:-1] - key[:-1] * far))
        last = np.append(np.flatnonzero(new)[1:] - 1, len(self) - 1)
        merged = self.chosen(new)
        ends = (reach - key * far)[last]
        return Passages(merged.starts, merged.documents, merged.begins, ends, merged.judgments)


@dataclass(frozen=True, eq=False)
class Meetings:
    """Each overlap of a ranked chunk with a passage of its query, in the order of queries, ranks and passages.

    The overlaps of query ``i`` are ``starts[i]:starts[i + 1]`` (``starts`` int64, (queries + 1,)). The chunk at
    ``ranks`` (int32, from 1 on) adds ``gained`` new characters (int64, may be 0) of ``passages`` (int64); all ranks
    down to it have ``covered`` (int64) characters together. All except ``starts`` have shape (meetings,).
    """

    starts: Counts
    passages: Counts
    ranks: npt.NDArray[np.int32]
    gained: Counts
    covered: Counts

    def __len__(self) -> int:
        return len(self.passages)

    @cached_property
    def rows(self) -> Counts:
        """The query of each meeting, shape (meetings,)."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
