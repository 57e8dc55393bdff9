"""A function of the user's: any API, any library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ragtrial.cache.fingerprints import Digest, file_digest
from ragtrial.components.embedders.base import EMBEDDERS, Embedder, Encode, checked
from ragtrial.components.embedders.model_files import named_tokenizer
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.components.user_functions import FunctionName, import_function, version_parts
from ragtrial.errors import EmbedderError
from ragtrial.options import ModelName
from ragtrial.rankings import Floats


@EMBEDDERS.register("custom")
class CustomEmbedder(Embedder):
    """A Python function from a list of texts to one vector for each."""

    may_change = True

    kind: Literal["custom"] = "custom"
    """A Python function from a list of texts to one vector for each."""

    function: FunctionName
    """`package.module:function`, installed or beside the config; called with a list of at most `batch_size` texts."""

    version: str | None = None
    """Your version of the function: cached vectors are used while it stays the same (default: the hash of its file)."""

    query_prefix: str = ""
    """Text to put before every query."""

    document_prefix: str = ""
    """Text to put before every document text."""

    tokenizer_model: ModelName | None = None
    """The tokenizer for measuring chunk sizes: a hub name, a folder or a tokenizer.json."""

    max_length: Annotated[int, Field(ge=1)] | None = None
    """The number of tokens of a text that the model reads; longer texts are counted, with a warning."""

    def prefixes(self) -> tuple[str, str]:
        return self.query_prefix, self.document_prefix

    def fingerprint_parts(self, digest: Digest = file_digest) -> dict[str, Any]:
        parts = {"backend": "custom", "function": str(self.function), "normalize": self.normalize}
        return parts | version_parts(self.function, self.version, digest)

    @property
    def has_tokenizer(self) -> bool:
        return self.tokenizer_model is not None

    def tokenizer(self) -> Tokenizer | None:
        return None if self.tokenizer_model is None else named_tokenizer(self.tokenizer_model)

    def max_tokens(self) -> int | None:
        return self.max_length

    def load(self) -> Encode:
        function = import_function(self.function)

        def encode(texts: Sequence[str]) -> npt.NDArray[Any]:
            parts: list[Floats] = []
            for start in range(0, len(texts), self.batch_size):
                batch = list(texts[start : start + self.batch_size])
                try:
                    vectors = function(batch)
                except Exception as error:
                    said = " ".join(str(error).split())
                    message = f"{self.function} raised {type(error).__name__} for {len(batch)} texts: {said}"
                    raise EmbedderError(message) from error
                parts.append(checked(vectors, batch, parts[0].shape[1] if parts else None, str(self.function)))
            return np.concatenate(parts)

        return encode
