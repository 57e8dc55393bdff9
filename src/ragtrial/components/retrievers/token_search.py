"""Retrieval by token vectors (late interaction) and by term weights (sparse models)."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Literal

import numpy as np

from ragtrial.cache.vectors import Keys
from ragtrial.components import interfaces
from ragtrial.components.batching import TextList, TextSource, lengths_of
from ragtrial.components.embedders.model_files import ModelLayout
from ragtrial.components.interfaces import RETRIEVERS, Candidates, ChunkRetriever, Facts, RetrieverContext, place_order
from ragtrial.components.token_vectors import indexes
from ragtrial.components.token_vectors.models import Form, TokenModel, has_words
from ragtrial.components.token_vectors.vectors import TokenEncoder, TokenVectors
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.dataset.chunks import Chunks
from ragtrial.errors import RunError
from ragtrial.progress import stage
from ragtrial.rankings import PADDING, Codes, Counts
from ragtrial.records import Question, ReportWarning

_MOST = 8
"""How many terms or matches are shown."""

Named = Callable[[Sequence[int]], list[str]]
"""The words of ids."""


def sparse_matches(query: TokenVectors, hits: Sequence[TokenVectors], named: Named) -> interfaces.QueryMatches:
    """The shared terms, each with the product of both weights; over all shared terms these add up to the score."""
    found = []
    for hit in hits:
        shared, here, there = np.intersect1d(query.ids, hit.ids, assume_unique=True, return_indices=True)
        worth = query.vectors[here, 0].astype(np.float64) * hit.vectors[there, 0]
        found.append(interfaces.HitMatches(_largest(shared.tolist(), worth.tolist(), named), _weights(hit, named)))
    return interfaces.QueryMatches(_weights(query, named), tuple(found))


def late_matches(
    query: TokenVectors, hits: Sequence[TokenVectors], tokenizer: Tokenizer | None
) -> interfaces.QueryMatches:
    """For each token of the question the most similar token of the text, and the similarity; without special tokens."""
    if tokenizer is None or (query.ids < 0).any():
        return interfaces.QueryMatches((), tuple(interfaces.HitMatches(()) for _ in hits))
    is_word = np.array([not tokenizer.is_special(number) for number in query.ids.tolist()], dtype=np.bool_)
    asked = TokenVectors(query.ids[is_word], query.vectors[is_word])
    found = []
    for hit in hits:
        if not len(asked) or not len(hit) or (hit.ids < 0).any():
            found.append(interfaces.HitMatches(()))
            continue
        near = indexes.similarities(asked, hit.vectors)
        best = near.argmax(axis=1)
        pairs = zip(tokenizer.words(asked.ids.tolist()), tokenizer.words(hit.ids[best].tolist()), strict=True)
        named = [one if one == other else f"{one} ~ {other}" for one, other in pairs]
        ranked = sorted(zip(named, near.max(axis=1).tolist(), strict=True), key=lambda pair: (-pair[1], pair[0]))
        once = dict(reversed(ranked))  # keeps the better one of equal matches
        found.append(interfaces.HitMatches(tuple(sorted(once.items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST])))
    return interfaces.QueryMatches((), tuple(found))


def _weights(text: TokenVectors, named: Named) -> tuple[interfaces.Weighted, ...]:
    return _largest(text.ids.tolist(), text.vectors[:, 0].tolist(), named)


def _largest(ids: Sequence[int], worth: Sequence[float], named: Named) -> tuple[interfaces.Weighted, ...]:
    """The words of the largest values, with these; equal values by id."""
    best = sorted(zip(ids, worth, strict=True), key=lambda pair: (-pair[1], pair[0]))[:_MOST]
    return tuple(zip(named([number for number, _ in best]), (value for _, value in best), strict=True))


TokenSearch = indexes.Postings | indexes.TokenIndex
"""An index of chunks, open."""


class MatchingModel(TokenModel):
    """A model whose scores can be explained by terms or tokens."""

    has_matches = True

    def matches(
        self, context: RetrieverContext, questions: Sequence[Question], units: Chunks, codes: Codes
    ) -> list[interfaces.QueryMatches]:
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

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        """Warnings about the ends of texts that the model did not read, and prompts that it declares but does not
        use.
        """
        for message in ModelLayout(self.folder).unused_prompts(self.model):
            yield ReportWarning("prompts-not-used", message)
        if facts.get("texts_too_long"):
            yield ReportWarning.of_verdict(
                "too-long",
                f"{setting}: {facts['texts_too_long']:,} of {facts['texts']:,} texts are longer than the "
                f"{facts['max_length']:,} tokens that the model reads; the rest of each is ignored. Use smaller "
                "chunks, or a model that reads more.",
            )

    def lengths(self, texts: TextSource) -> Counts | None:
        """How many tokens each text has for the model, None if that is not known."""
        tokenizer = self.tokenizer()
        return None if tokenizer is None else lengths_of(texts, self.document_prompt, tokenizer)

    def facts_of(self, lengths: Counts | None, texts: int) -> dict[str, Any]:
        """How many of ``texts`` the model does not read to the end; ``lengths`` are in tokens, None if unknown."""
        limit = self.length
        too_long = None if lengths is None or limit is None else int((lengths > limit).sum())
        return {"texts": texts, "texts_too_long": too_long, "max_length": limit}


class TokenRetriever(MatchingModel, ChunkRetriever):
    """A retriever of chunks by their token vectors or term weights."""

    version: ClassVar[int]
    """Part of the fingerprint of the index."""

    def open(self, context: RetrieverContext) -> _OpenTokenRetriever:
        return _OpenTokenRetriever(self, context)

    @abstractmethod
    def write_index(self, folder: Path, encoder: TokenEncoder, keys: Keys) -> dict[str, Any]:
        """Write the index of the chunks under ``keys`` into ``folder``; facts about it."""

    @abstractmethod
    def open_index(self, folder: Path, order: Counts) -> TokenSearch:
        """The index in ``folder``; ``order`` is the tie order of each chunk."""


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
            lengths = retriever.lengths(texts)
            encoder = retriever.encoder(context, is_fresh=False)
            with stage(context.progress, f"{retriever.form} vectors", len(texts), "chunks") as progress:
                keys = encoder.fill(texts, "document", lengths, progress.advance)
            begin = perf_counter()
            facts = retriever.write_index(folder, encoder, keys) | retriever.facts_of(lengths, len(texts))
            costs = {"embedding": encoder.spent(keys).seconds, "indexing": perf_counter() - begin}
            (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
            (folder / "seconds.json").write_text(json.dumps(costs), encoding="utf-8")

        def read(folder: Path) -> tuple[TokenSearch, Facts]:
            facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
            return retriever.open_index(folder, place_order(chunks)), facts

        parts = {"model": retriever.inputs(context.digest), "texts": texts.name, "version": retriever.version}
        return context.keep(retriever.form, parts, f"{retriever.form} vectors ({retriever.model})", build, read)


@RETRIEVERS.register("late")
class LateRetriever(TokenRetriever):
    """The chunks nearest to the question by late interaction (ColBERT and its kin), by exact search.

    A late-interaction model of the sentence-transformers library gives every token a vector. The score is MaxSim: for
    each token of the question the largest inner product with any token of the chunk, summed. Every chunk is compared;
    the vectors are read from the disk block by block. Source: Khattab & Zaharia 2020, ColBERT.
    """

    form: ClassVar[Form] = "late"
    version: ClassVar[int] = indexes.MAXSIM_VERSION

    kind: Literal["late"] = "late"
    """The chunks whose tokens match the question's tokens best: late interaction (ColBERT), with exact MaxSim."""

    def write_index(self, folder: Path, encoder: TokenEncoder, keys: Keys) -> dict[str, Any]:
        sizes = [(len(one), one.vectors.shape[1]) for block in encoder.blocks(keys) for one in block]
        tokens, width = np.array([size for size, _ in sizes], dtype=np.int64), sizes[0][1]
        indexes.TokenIndex.write(folder, encoder.blocks(keys), tokens, width)
        return {"token_vectors": int(tokens.sum()), "dimension": width}

    def open_index(self, folder: Path, order: Counts) -> TokenSearch:
        return indexes.TokenIndex(folder, order, is_mean=self.mean_over_tokens())


@RETRIEVERS.register("sparse")
class SparseRetriever(TokenRetriever):
    """The chunks nearest to the question by learned sparse vectors (SPLADE and its kin), by exact search.

    A sparse encoder of the sentence-transformers library gives a text a weight for each term of its vocabulary, also
    for terms that are not in it. The score is the inner product of both vectors, summed over the terms that they
    share; a chunk that shares none is not found. Source: Formal et al. 2021, SPLADE.
    """

    form: ClassVar[Form] = "sparse"
    version: ClassVar[int] = indexes.POSTINGS_VERSION

    kind: Literal["sparse"] = "sparse"
    """The chunks that share the most important terms with the question, as weighted by a sparse encoder (SPLADE)."""

    def write_index(self, folder: Path, encoder: TokenEncoder, keys: Keys) -> dict[str, Any]:
        weights = indexes.Postings.write(folder, encoder.blocks(keys))
        return {"terms_per_chunk": round(weights / len(keys), 1)}

    def open_index(self, folder: Path, order: Counts) -> TokenSearch:
        return indexes.Postings(folder, order)
