"""A function in Python, for any API and any library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ragtrial.cache.fingerprints import Digest, file_digest
from ragtrial.components.embedders.base import EMBEDDERS, Encode, checked
from ragtrial.components.embedders.declared import DeclaredEmbedder
from ragtrial.components.user_functions import FunctionName, import_function, version_parts
from ragtrial.errors import EmbedderError
from ragtrial.rankings import Floats


@EMBEDDERS.register("custom")
class CustomEmbedder(DeclaredEmbedder):
    """A Python function from a list of texts to one vector for each."""

    kind: Literal["custom"] = "custom"
    """A Python function from a list of texts to one vector for each."""

    function: FunctionName
    """`package.module:function`, installed or beside the config; called with a list of at most `batch_size` texts."""

    version: str | None = None
    """Your version of the function: its cached vectors are used while it stays the same (default: the hash of its
    files)."""

    def fingerprint_parts(self, digest: Digest = file_digest) -> dict[str, Any]:
        parts = {"backend": "custom", "function": str(self.function), "normalize": self.normalize}
        return parts | version_parts(self.function, self.version, digest)

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
