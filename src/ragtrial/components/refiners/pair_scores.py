"""The scores of questions with texts, each made once and kept: asking a cross-encoder is what costs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragtrial.cache.fingerprints import DIGEST_BYTES
from ragtrial.cache.vectors import Keys, VectorCache, text_keys
from ragtrial.components.refiners.cross_encoder import Pair, Score
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.rankings import Counts, Floats

_MOST_TEXTS = 1_024  # whose tokens are held at once


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which of some ``questions`` and ``texts`` are put together, each pair once.

    ``question`` and ``text``, int64 (pairs,), are positions in them.
    """

    questions: Sequence[str]
    texts: Sequence[str]
    question: Counts
    text: Counts

    def __len__(self) -> int:
        return len(self.question)

    def keys(self) -> Keys:
        """The key of every pair, shape (pairs, 16)."""
        both = np.hstack([text_keys(self.questions)[self.question], text_keys(self.texts)[self.text]])
        hashes = b"".join(hashlib.blake2b(row.tobytes(), digest_size=DIGEST_BYTES).digest() for row in both)
        return np.frombuffer(hashes, dtype=np.uint8).reshape(-1, DIGEST_BYTES)

    def at(self, positions: Counts) -> list[Pair]:
        """The questions and texts of some pairs."""
        chosen = zip(self.question[positions].tolist(), self.text[positions].tolist(), strict=True)
        return [(self.questions[question], self.texts[text]) for question, text in chosen]

    def lengths(self, tokenizer: Tokenizer | None) -> Counts:
        """Tokens of each pair with the special tokens that a model adds; characters without a tokenizer."""
        if tokenizer is None:
            questions, texts = [np.array([len(one) for one in them]) for them in (self.questions, self.texts)]
            return np.asarray(questions[self.question] + texts[self.text], dtype=np.int64)
        questions, texts = _tokens(tokenizer, self.questions), _tokens(tokenizer, self.texts)
        return np.asarray(questions[self.question] + texts[self.text] + tokenizer.pair_special_tokens)


@dataclass(eq=False)
class PairScores:
    """What ``load`` scores, ``batch_size`` pairs at a time; kept in the file ``path``, which ``what`` describes.

    The model is loaded when the first pair is missing, and stays. With ``path`` None nothing is kept or read.
    """

    load: Callable[[], Score]
    batch_size: int
    path: Path | None
    what: str
    _score: Score | None = None

    def scores(self, pairs: Pairs, lengths: Counts, advance: Callable[[int], None]) -> Floats:
        """One score for each pair, float32 (pairs,); ``advance`` is told of all that are done.

        Each batch is kept before the next begins. Raises RunError and WorkspaceError.
        """
        if self.path is None:
            made = np.empty(len(pairs), dtype=np.float32)
            self._make(pairs, np.arange(len(pairs)), lengths, made.__setitem__, advance)
            return made
        keys = pairs.keys()
        with VectorCache(self.path, self.what) as kept:
            absent = np.flatnonzero(kept.missing(keys))
            advance(len(keys) - len(absent))

            def keep(batch: Counts, scores: Floats) -> None:
                kept.write(keys[batch], scores[:, np.newaxis])

            self._make(pairs, absent, lengths, keep, advance)
            return kept.read(keys).reshape(-1)

    def _make(
        self,
        pairs: Pairs,
        wanted: Counts,
        lengths: Counts,
        keep: Callable[[Counts, Floats], None],
        advance: Callable[[int], None],
    ) -> None:
        """Score the ``wanted`` pairs, longest first: a batch wastes no padding, and the most memory is asked for first.

        Of equal length the earlier goes first, so that equal pairs make equal batches.
        """
        order = wanted[np.argsort(-lengths[wanted], kind="stable")]
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            if self._score is None:
                self._score = self.load()
            keep(batch, self._score(pairs.at(batch)))
            advance(len(batch))


def _tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> Counts:
    """Tokens of each text on its own, without special tokens."""
    counts: list[int] = []
    for start in range(0, len(texts), _MOST_TEXTS):
        counts += tokenizer.alone(texts[start : start + _MOST_TEXTS])
    return np.array(counts, dtype=np.int64)
