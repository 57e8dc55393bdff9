"""Counting tokens and finding where they start, with the Rust library behind every fast tokenizer and without torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ragtrial.errors import ModelNotFoundError
from ragtrial.rankings import Counts
from ragtrial.storage.fingerprints import file_digest

if TYPE_CHECKING:
    import tokenizers


class Tokenizer:
    """The tokenizer of a ``tokenizer.json``, with the truncation and padding that such files carry switched off."""

    def __init__(self, path: Path) -> None:
        import tokenizers

        try:
            self._tokenizer: tokenizers.Tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises the bare class
            raise ModelNotFoundError(f"{path} is not a tokenizer file that can be read: {error}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.fingerprint = file_digest(path)
        self.special_tokens = int(self._tokenizer.num_special_tokens_to_add(is_pair=False))

    def counts(self, texts: Sequence[str]) -> Counts:
        """Tokens of each text with the special tokens that a model adds, shape (texts,)."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=True)
        return np.array([len(encoding) for encoding in encodings], dtype=np.int64)

    def starts(self, texts: Sequence[str]) -> list[list[int]]:
        """For each text the character at which each token starts, ascending, without special tokens."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [[start for start, _ in encoding.offsets] for encoding in encodings]
