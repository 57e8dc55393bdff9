"""The base of sparse and late retrieval: encoded chunks, an index of them that is kept, and the search."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ragtrial.cache.vectors import Keys
from ragtrial.components.embedders.model_layout import ModelLayout
from ragtrial.components.retrievers.base import (
    Candidates,
    ChunkRetriever,
    Facts,
    OpenRetriever,
    QueryMatches,
    RetrieverContext,
    place_order,
)
from ragtrial.components.text_batches import TextList, lengths_of
from ragtrial.components.token_vectors.cache import TokenEncoder, TokenVectors
from ragtrial.components.token_vectors.matches import late_matches, sparse_matches
from ragtrial.components.token_vectors.models import TokenModel, has_words
from ragtrial.dataset.chunks import Chunks
from ragtrial.errors import RunError
from ragtrial.progress import stage
from ragtrial.rankings import PADDING, Codes, Counts, Rankings
from ragtrial.records import Question, ReportWarning, WarningCode


class TokenSearch(Protocol):
    """An index of chunks, open."""

    def search(self, queries: Sequence[TokenVectors], depth: int) -> Rankings: ...


class MatchingModel(TokenModel):
    """A model whose scores can be explained by terms or tokens."""

    has_matches = True

    def matches(
        self, context: RetrieverContext, questions: Sequence[Question], units: Chunks, codes: Codes
    ) -> list[QueryMatches]:
        encoder, tokenizer = self.encoder(context), self.tokenizer()
        found = np.unique(codes[codes != PADDING])
        texts = list(context.texts(units).indexed_texts(found.tolist()))
        keys = encoder.fill(TextList(texts), "document")
        is_vocabulary = tokenizer is not None and has_words(self.folder)

        def named(ids: Sequence[int]) -> list[str]:
            return tokenizer.words(ids) if tokenizer and is_vocabulary else [f"#{number}" for number in ids]

        made = []
        queries = encoder.of_texts([question.text for question in questions], "query")
        for query, row in zip(queries, codes, strict=True):
            places = np.searchsorted(found, row[row != PADDING])
            hits = [one for block in encoder.blocks(keys[places]) for one in block]
            sparse = self.form == "sparse"
            made.append(sparse_matches(query, hits, named) if sparse else late_matches(query, hits, tokenizer))
        return made

    def warnings_of_texts(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        """What the model did not read: the end of some texts, prompts that it declares."""
        for message in ModelLayout(self.folder).unused_prompts(self.model):
            yield ReportWarning(WarningCode.PROMPTS_NOT_USED, message)
        if facts.get("texts_too_long"):
            yield ReportWarning(
                WarningCode.TOO_LONG,
                f"{setting}: {facts['texts_too_long']:,} of {facts['texts']:,} texts are longer than the "
                f"{facts['max_length']:,} tokens that the model reads; the rest of each is ignored. Use smaller "
                "chunks, or a model that reads more.",
            )

    def facts_of(self, lengths: Counts | None, texts: int) -> dict[str, Any]:
        """How many of ``texts`` the model does not read to the end; ``lengths`` are in tokens, None if unknown."""
        limit = self.length
        too_long = None if lengths is None or limit is None else int((lengths > limit).sum())
        return {"texts": texts, "texts_too_long": too_long, "max_length": limit}


class TokenRetriever(MatchingModel, ChunkRetriever):
    """A retriever of chunks by their token vectors or term weights."""

    @property
    @abstractmethod
    def version(self) -> int:
        """Part of the fingerprint of the index."""

    def open(self, context: RetrieverContext) -> OpenRetriever:
        return _OpenTokenRetriever(self, context)

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        yield from self.warnings_of_texts(setting, facts)

    @abstractmethod
    def write_index(self, folder: Path, encoder: TokenEncoder, keys: Keys) -> dict[str, Any]:
        """Write the index of the chunks under ``keys`` into ``folder``; facts about it."""

    @abstractmethod
    def open_index(self, folder: Path, order: Counts) -> TokenSearch:
        """The index in ``folder``; ``order`` is the place of each chunk among those of equal score."""


@dataclass(frozen=True)
class _OpenTokenRetriever:
    """Opens its index when it is first asked, and keeps it."""

    retriever: TokenRetriever
    context: RetrieverContext

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        index, facts = self._index
        queries = self._encoder.of_texts([question.text for question in questions], "query")
        return Candidates.of(self.context.chunks(), index.search(queries, depth), facts)

    @cached_property
    def _encoder(self) -> TokenEncoder:
        return self.retriever.encoder(self.context)

    @cached_property
    def _index(self) -> tuple[TokenSearch, Facts]:
        context, retriever = self.context, self.retriever
        texts, chunks = context.texts(), context.chunks()
        if not len(chunks):
            raise RunError(f"{context.setting}: there are no chunks to search.")

        def build(folder: Path) -> None:
            lengths = self._lengths()
            encoder = retriever.encoder(context, is_fresh=False)
            with stage(context.progress, f"{retriever.form} vectors", len(texts), "chunks") as progress:
                keys = encoder.fill(texts, "document", lengths, progress.advance)
            facts = retriever.write_index(folder, encoder, keys) | retriever.facts_of(lengths, len(texts))
            (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")

        def read(folder: Path) -> tuple[TokenSearch, Facts]:
            facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
            return retriever.open_index(folder, place_order(chunks)), facts

        parts = {"model": retriever.inputs(context.digest), "texts": texts.name, "version": retriever.version}
        return context.keep(retriever.form, parts, f"{retriever.form} vectors ({retriever.model})", build, read)

    def _lengths(self) -> Counts | None:
        """How many tokens each chunk has for the model."""
        tokenizer, prompt = self.retriever.tokenizer(), self.retriever.document_prompt
        return None if tokenizer is None else lengths_of(self.context.texts(), prompt, tokenizer)
