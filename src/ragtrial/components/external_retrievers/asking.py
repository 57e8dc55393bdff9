"""Questions to a retriever of the user's: in batches, each answer read and placed, or why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragtrial.components.external_retrievers.hit_placement import Answer, place, place_plain
from ragtrial.components.external_retrievers.hits import Hit, read_hit
from ragtrial.components.external_retrievers.systems import System, guarded
from ragtrial.dataset.library import Library
from ragtrial.dataset.passages import short
from ragtrial.errors import RetrieverError


@dataclass(frozen=True)
class Asking:
    """How questions are put: ``batch_size`` in a call (None: all), and whether each of a failed batch is asked alone.

    ``document`` is the key of metadata that has a document's id; None for the usual places.
    """

    library: Library
    document: str | None = None
    batch_size: int | None = None
    retries: bool = False

    def answers(
        self, system: System, queries: Sequence[str], depth: int
    ) -> Iterator[tuple[str, Answer | RetrieverError]]:
        """Each question with its answer, or with what went wrong, as they come. Raises RunError.

        Without ``retries`` nothing is asked after a call in which something went wrong.
        """
        size = (self.batch_size or max(len(queries), 1)) if system.at_once else 1
        for start in range(0, len(queries), size):
            is_whole = True
            for query, answer in self._batch(system, queries[start : start + size], depth):
                is_whole = is_whole and isinstance(answer, Answer)
                yield query, answer
            if not (is_whole or self.retries):
                return

    def _batch(
        self, system: System, queries: Sequence[str], depth: int
    ) -> Iterator[tuple[str, Answer | RetrieverError]]:
        try:
            answers = system.ask(queries, depth)
        except RetrieverError as error:
            if len(queries) == 1 or not self.retries:
                yield from ((query, error) for query in queries)
                return
            for query in queries:
                yield from self._batch(system, [query], depth)
            return
        for query, hits in zip(queries, answers, strict=True):
            yield query, self._read(system, query, hits, depth)

    def _read(self, system: System, query: str, hits: Sequence[object], depth: int) -> Answer | RetrieverError:
        asked = depth if system.takes_number else None
        answer = place_plain(hits, self.library, asked)
        if answer is not None:
            return answer
        found: list[Hit] = []
        try:
            with guarded(system.name, [query]):
                found += (read_hit(raw, self.document) for raw in hits)
        except RetrieverError as error:
            return RetrieverError(f"{_of(system, query)}: hit {len(found) + 1} {error}.")
        try:
            return place(found, self.library, asked)
        except RetrieverError as error:
            return RetrieverError(f"{_of(system, query)}: {error}")


def _of(system: System, query: str) -> str:
    return f"{system.name}, query {short(query)!r}"
