"""Counting tokens and finding where they start, with the Rust library behind every fast tokenizer and without torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ragtrial.cache.fingerprints import file_digest
from ragtrial.errors import ModelNotFoundError
from ragtrial.rankings import Counts

if TYPE_CHECKING:
    import tokenizers

CHARACTERS_PER_TOKEN = 4
"""For English text, by the usual rule of thumb."""

_OTHER_BYTES = 2.3
"""Bytes of UTF-8 that are about one token of current models, in scripts beyond ASCII."""

_WORD = re.compile(r"\S+")


def estimated_tokens(text: str) -> float:
    """The approximate number of tokens of ``text`` for a model with an unknown tokenizer, in any script."""
    latin = len(text.encode("ascii", "ignore"))
    return latin / CHARACTERS_PER_TOKEN + (most_tokens(text) - latin) / _OTHER_BYTES


def most_tokens(text: str) -> int:
    """The most tokens that ``text`` can be: each is at least one byte of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


class Tokenizer:
    """The tokenizer of a ``tokenizer.json``, with the truncation and padding that such files carry switched off.

    The file is read when something is counted: a run whose lengths are all cached counts nothing. All counting methods
    raise ModelNotFoundError for a file that cannot be read, as ``check`` does.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def fingerprint(self) -> str:
        return file_digest(self._path)

    @cached_property
    def _tokenizer(self) -> tokenizers.Tokenizer:
        import tokenizers

        try:
            read = tokenizers.Tokenizer.from_file(str(self._path))
        except Exception as error:  # the library raises the bare class
            raise ModelNotFoundError(f"{self._path} is not a tokenizer file that can be read: {error}") from error
        read.no_truncation()
        read.no_padding()
        return read

    def check(self) -> None:
        """Raise ModelNotFoundError if the file cannot be read."""
        _ = self._tokenizer

    @property
    def special_tokens(self) -> int:
        """How many tokens a model adds to a text."""
        return int(self._tokenizer.num_special_tokens_to_add(is_pair=False))

    @property
    def pair_special_tokens(self) -> int:
        """How many tokens a model adds to two texts that it reads together."""
        return int(self._tokenizer.num_special_tokens_to_add(is_pair=True))

    @cached_property
    def _tokens_begin_with_space(self) -> bool:
        probe = self._tokenizer.encode("a a", add_special_tokens=False)
        return any(start == 1 for start, _ in probe.offsets)

    def counts(self, texts: Sequence[str]) -> Counts:
        """Tokens of each text with the special tokens that a model adds, shape (texts,)."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=True)
        return np.array([len(encoding) for encoding in encodings], dtype=np.int64)

    def starts(self, texts: Sequence[str]) -> list[list[int]]:
        """For each text the character at which each token starts, ascending, without special tokens.

        A token that begins with white space starts at its first other character: a piece then has the same length
        within the text as without the white space at its ends.
        """
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        if not self._tokens_begin_with_space:
            return [[start for start, _ in encoding.offsets] for encoding in encodings]
        pairs = zip(texts, encodings, strict=True)
        return [[_visible_start(text, *offset) for offset in encoding.offsets] for text, encoding in pairs]

    def alone(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, read on its own, without special tokens."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(encoding) for encoding in encodings]


def _visible_start(text: str, start: int, end: int) -> int:
    if not text[start:end][:1].isspace():
        return start
    left = len(text[start:end].lstrip())
    return end - left if left else start


class Words:
    """Counts words, the longest stretches without white space, as a tokenizer counts tokens."""

    fingerprint = "words"
    special_tokens = 0

    def counts(self, texts: Sequence[str]) -> Counts:
        """Words of each text, shape (texts,)."""
        return np.array(self.alone(texts), dtype=np.int64)

    def starts(self, texts: Sequence[str]) -> list[list[int]]:
        """For each text the character at which each word starts, ascending."""
        return [[word.start() for word in _WORD.finditer(text)] for text in texts]

    def alone(self, texts: Sequence[str]) -> list[int]:
        """Words of each text."""
        return [len(text.split()) for text in texts]


UnitCounter = Tokenizer | Words
"""A counter of lengths in units other than characters."""
