"""Retrieval by token vectors (late interaction) and by term weights (sparse models)."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Literal

import numpy as np

from ragtrial.cache.vectors import Keys
from ragtrial.components import token_vectors
from ragtrial.components.interfaces import RETRIEVERS, Candidates, ChunkRetriever, Facts, RetrieverContext, place_order
from ragtrial.components.token_vectors import Form, TokenEncoder, TokenModel
from ragtrial.errors import RunError
from ragtrial.progress import stage
from ragtrial.rankings import Counts
from ragtrial.records import Question

TokenSearch = token_vectors.Postings | token_vectors.TokenIndex
"""An index of chunks, open."""


class TokenRetriever(TokenModel, ChunkRetriever):
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

        parts = {"model": retriever.hashed_content(context.digest), "texts": texts.name, "version": retriever.version}
        return context.keep(retriever.form, parts, f"{retriever.form} vectors ({retriever.model})", build, read)


@RETRIEVERS.register("late")
class LateRetriever(TokenRetriever):
    """The chunks nearest to the question by late interaction (ColBERT and its kin), by exact search.

    A late-interaction model of the sentence-transformers library gives every token a vector. The score is MaxSim: for
    each token of the question the largest inner product with any token of the chunk, summed. Every chunk is compared;
    the vectors are read from the disk block by block. Source: Khattab & Zaharia 2020, ColBERT.
    """

    form: ClassVar[Form] = "late"
    version: ClassVar[int] = token_vectors.MAXSIM_VERSION

    kind: Literal["late"] = "late"
    """The chunks whose tokens match the question's tokens best: late interaction (ColBERT), with exact MaxSim."""

    def write_index(self, folder: Path, encoder: TokenEncoder, keys: Keys) -> dict[str, Any]:
        sizes = [(len(one), one.vectors.shape[1]) for block in encoder.blocks(keys) for one in block]
        tokens, width = np.array([size for size, _ in sizes], dtype=np.int64), sizes[0][1]
        token_vectors.TokenIndex.write(folder, encoder.blocks(keys), tokens, width)
        return {"token_vectors": int(tokens.sum()), "dimension": width}

    def open_index(self, folder: Path, order: Counts) -> TokenSearch:
        return token_vectors.TokenIndex(folder, order, is_mean=self.mean_over_tokens())


@RETRIEVERS.register("sparse")
class SparseRetriever(TokenRetriever):
    """The chunks nearest to the question by learned sparse vectors (SPLADE and its kin), by exact search.

    A sparse encoder of the sentence-transformers library gives a text a weight for each term of its vocabulary, also
    for terms that are not in it. The score is the inner product of both vectors, summed over the terms that they
    share; a chunk that shares none is not found. Source: Formal et al. 2021, SPLADE.
    """

    form: ClassVar[Form] = "sparse"
    version: ClassVar[int] = token_vectors.POSTINGS_VERSION

    kind: Literal["sparse"] = "sparse"
    """The chunks that share the most important terms with the question, as weighted by a sparse encoder (SPLADE)."""

    def write_index(self, folder: Path, encoder: TokenEncoder, keys: Keys) -> dict[str, Any]:
        weights = token_vectors.Postings.write(folder, encoder.blocks(keys))
        return {"terms_per_chunk": round(weights / len(keys), 1)}

    def open_index(self, folder: Path, order: Counts) -> TokenSearch:
        return token_vectors.Postings(folder, order)
