"""A function in Python, for any API and any library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ragtrial.cache.fingerprints import Digest, file_digest
from ragtrial.components.embedders.base import EMBEDDERS, DeclaredEmbedder, Encode, checked, sided
from ragtrial.components.user_functions import FunctionName, import_object, version_parts
from ragtrial.errors import EmbedderError, counted
from ragtrial.rankings import Floats


@EMBEDDERS.register("custom")
class CustomEmbedder(DeclaredEmbedder):
    """A Python function from a list of texts to one vector for each."""

    kind: Literal["custom"] = "custom"
    """A Python function from a list of texts to one vector for each."""

    function: FunctionName
    """`package.module:function`, installed or in the folder of the config; called with a list of at most `batch_size`
    texts. Or an object, or a class of such, with the methods of LangChain (`embed_query`, `embed_documents`), of
    LlamaIndex, of sentence-transformers, or with `encode` or `embed`."""

    version: str | None = None
    """Your version of the function: its cached vectors are used while it stays the same (default: the hash of its
    files)."""

    @property
    def distinguishes_sides(self) -> bool:
        return len(set(_methods(import_object(self.function, _is_embedder)))) > 1

    def hashed_parts(self, digest: Digest = file_digest) -> dict[str, Any]:
        parts = {"backend": "custom", "function": str(self.function), "normalize": self.normalize}
        return parts | version_parts(self.function, self.version, digest, _is_embedder)

    def load(self) -> Encode:
        named = import_object(self.function, _is_embedder)
        calls = _methods(named)
        try:
            made = named() if isinstance(named, type) else named
        except Exception as error:
            raise EmbedderError(f"{self.function} cannot be made: {type(error).__name__}: {error}") from error

        def encode(texts: Sequence[str]) -> npt.NDArray[Any]:
            side, plain = sided(texts) if len(set(calls)) > 1 else (1, list(texts))
            call = getattr(made, calls[side]) if calls[side] else made
            parts: list[Floats] = []
            for start in range(0, len(plain), self.batch_size):
                batch = plain[start : start + self.batch_size]
                try:
                    vectors = [call(text) for text in batch] if calls[side] in _ONE_BY_ONE else call(batch)
                except Exception as error:
                    said = " ".join(str(error).split())
                    message = f"{self.function} raised {type(error).__name__} for {counted(len(batch), 'text')}: {said}"
                    raise EmbedderError(message) from error
                parts.append(checked(vectors, batch, parts[0].shape[1] if parts else None, str(self.function)))
            return np.concatenate(parts)

        return encode


_METHODS = (
    ("embed_query", "embed_documents"),
    ("get_query_embedding", "get_text_embedding_batch"),
    ("encode_query", "encode_document"),
    ("encode", "encode"),
    ("embed", "embed"),
)
"""The methods for queries and documents of objects of LangChain, LlamaIndex, sentence-transformers and others."""

_ONE_BY_ONE = frozenset({"embed_query", "get_query_embedding"})


def _methods(found: object) -> tuple[str, str]:
    """The methods of an object that embed queries and documents, "" for itself."""
    return next((pair for pair in _METHODS if all(callable(getattr(found, name, None)) for name in pair)), ("", ""))


def _is_embedder(found: object) -> bool:
    return _methods(found) != ("", "") or (callable(found) and not isinstance(found, type))
