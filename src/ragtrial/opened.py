"""A setting at work: its index open, its embedder ready."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from ragtrial.embedders.cached import CachedEmbedder
from ragtrial.rankings import Codes, Floats
from ragtrial.retrievers import Retrieved, retrieve_units
from ragtrial.setting import Setting
from ragtrial.stores import Index


@dataclass(frozen=True)
class _Materials:
    """What the plan hands to a retriever."""

    opened: Index
    embed: Callable[[Sequence[str]], Floats]

    def index(self) -> Index:
        return self.opened

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        return self.embed(texts)


@dataclass(frozen=True)
class Opened:
    """A setting at work. ``unit_of`` maps a chunk's code to that of its document, or to itself."""

    setting: Setting
    unit_of: Codes
    index: Index
    embedder: CachedEmbedder

    def retrieve(self, queries: Sequence[str]) -> Retrieved:
        """The ranked units of many queries."""
        return self._search(queries, self.embedder.embed_queries)

    def retrieve_alone(self, query: str) -> Retrieved:
        """The ranked units of one query, embedded by the model itself: nothing is read from the disk's cache."""
        prefix = self.embedder.query_prefix
        # Once, however often more chunks are asked for: a system at work would keep the vector, too.
        embed_once = cache(lambda texts: self.embedder.embed_now([prefix + text for text in texts]))
        return self._search([query], lambda texts: embed_once(tuple(texts)))

    def _search(self, queries: Sequence[str], embed: Callable[[Sequence[str]], Floats]) -> Retrieved:
        retriever = self.setting.retriever.open(_Materials(self.index, embed))
        return retrieve_units(retriever, queries, self.setting.retriever.top_k, self.unit_of)
