"""The chunks whose tokens are nearest to those of the question: late interaction, as in ColBERT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ragtrial.cache.vectors import Keys
from ragtrial.components.retrievers.base import RETRIEVERS
from ragtrial.components.token_vectors import maxsim
from ragtrial.components.token_vectors.cache import TokenEncoder, TokenVectors
from ragtrial.components.token_vectors.indexed import TokenRetriever, TokenSearch
from ragtrial.components.token_vectors.models import Form
from ragtrial.rankings import Counts, Rankings


@RETRIEVERS.register("late")
class LateRetriever(TokenRetriever):
    """The chunks nearest to the question by late interaction (ColBERT and its kin), by exact search.

    A late-interaction model of the sentence-transformers library gives every token a vector. The score is MaxSim: for
    each token of the question the largest inner product with any token of the chunk, summed. Every chunk is compared;
    the vectors are read from the disk block by block. Source: Khattab & Zaharia 2020, ColBERT.
    """

    form: ClassVar[Form] = "late"

    kind: Literal["late"] = "late"
    """The chunks whose tokens best match those of the question: late interaction (ColBERT), with exact MaxSim."""

    @property
    def version(self) -> int:
        return maxsim.VERSION

    def write_index(self, folder: Path, encoder: TokenEncoder, keys: Keys) -> dict[str, Any]:
        sizes = [(len(one), one.vectors.shape[1]) for block in encoder.blocks(keys) for one in block]
        tokens, width = np.array([size for size, _ in sizes], dtype=np.int64), sizes[0][1]
        maxsim.TokenIndex.write(folder, encoder.blocks(keys), tokens, width)
        return {"token_vectors": int(tokens.sum()), "dimension": width}

    def open_index(self, folder: Path, order: Counts) -> TokenSearch:
        return _MaxSim(maxsim.TokenIndex(folder, order), is_mean=self.mean_over_tokens())


@dataclass(frozen=True)
class _MaxSim:
    index: maxsim.TokenIndex
    is_mean: bool

    def search(self, queries: Sequence[TokenVectors], depth: int) -> Rankings:
        return self.index.search(queries, depth, is_mean=self.is_mean)
