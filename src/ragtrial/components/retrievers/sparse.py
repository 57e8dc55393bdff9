"""The chunks that share the most important terms with the question, as a learned sparse model weighs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from ragtrial.cache.vectors import Keys
from ragtrial.components.retrievers.base import RETRIEVERS
from ragtrial.components.token_vectors import postings
from ragtrial.components.token_vectors.cache import TokenEncoder
from ragtrial.components.token_vectors.indexed import TokenRetriever, TokenSearch
from ragtrial.components.token_vectors.models import Form
from ragtrial.rankings import Counts


@RETRIEVERS.register("sparse")
class SparseRetriever(TokenRetriever):
    """The chunks nearest to the question by learned sparse vectors (SPLADE and its kin), by exact search.

    A sparse encoder of the sentence-transformers library gives a text a weight for each term of its vocabulary, also
    for terms that are not in it. The score is the inner product of both vectors, summed over the terms that they
    share; a chunk that shares none is not found. Source: Formal et al. 2021, SPLADE.
    """

    form: ClassVar[Form] = "sparse"

    kind: Literal["sparse"] = "sparse"
    """The chunks that share the most important terms with the question, as weighted by a sparse encoder (SPLADE)."""

    @property
    def version(self) -> int:
        return postings.VERSION

    def write_index(self, folder: Path, encoder: TokenEncoder, keys: Keys) -> dict[str, Any]:
        weights = postings.Postings.write(folder, encoder.blocks(keys))
        return {"terms_per_chunk": round(weights / len(keys), 1)}

    def open_index(self, folder: Path, order: Counts) -> TokenSearch:
        return postings.Postings(folder, order)
