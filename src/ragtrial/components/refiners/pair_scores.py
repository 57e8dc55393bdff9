"""Local cross-encoders: what a model's files say about it, and the scores of pairs, each computed once and kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ragtrial.cache.fingerprints import DIGEST_BYTES
from ragtrial.cache.vectors import Keys, VectorCache, text_keys
from ragtrial.components.retrievers.base import Fact
from ragtrial.components.text_batches import longest_first
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.errors import ModelNotFoundError, RunError
from ragtrial.rankings import Counts, Floats

Precision = Literal["float32", "bfloat16"]
Pair = tuple[str, str]
"""A question and a text."""

Score = Callable[[Sequence[Pair]], Floats]
"""Pairs to raw scores, float32 (pairs,), in one batch; larger is better."""


def wrong_kind(folder: Path) -> str | None:
    """Why the model in ``folder`` does not give a pair of texts one score, by its files; None where nothing says so.

    An embedding model would be loaded all the same, with a last layer of random weights.
    """
    own, config = _json(folder, "config_sentence_transformers.json"), _json(folder, "config.json")
    kind = own.get("model_type") or ("SentenceTransformer" if (folder / "modules.json").exists() else None)
    if kind not in (None, "CrossEncoder"):
        return f"it is an embedding model ({kind})" if kind == "SentenceTransformer" else f"it is a {kind}"
    name = str(next(iter(config.get("architectures") or ()), ""))
    if not name.endswith("ForSequenceClassification"):
        return None if kind or not name else f"it has no layer that gives a score (its architecture is {name})"
    labels = len(config.get("id2label") or ()) or config.get("num_labels", 2)
    has_more = len(_json(folder, "modules.json")) > 1
    return None if has_more or labels == 1 else f"it gives a pair {labels} scores (one for each of its labels)"


def load(folder: Path, device: str | None, precision: Precision, length: int | None) -> Score:
    """The model in ``folder``, ready to score; of a pair it reads ``length`` tokens. Raises RunError."""
    from sentence_transformers import CrossEncoder
    from transformers.utils import logging

    import torch  # isort: skip

    was_drawn = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # the library types it not
    try:
        model = CrossEncoder(str(folder), device=device, model_kwargs={"dtype": getattr(torch, precision)})
    except Exception as error:
        raise RunError(f"the reranker in {folder} cannot be loaded: {error}") from error
    finally:
        if was_drawn:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]  # nor this
    if model.num_labels != 1:
        raise RunError(f"the reranker in {folder} gives a pair {model.num_labels} scores; use a model that gives one.")
    if length is not None:
        model.max_seq_length = length
    raw = torch.nn.Identity()  # the default for one label is a sigmoid, which makes all good scores 1.0

    def score(pairs: Sequence[Pair]) -> Floats:
        try:
            made = model.predict(list(pairs), batch_size=len(pairs), show_progress_bar=False, activation_fn=raw)
        except (RuntimeError, ValueError, IndexError) as error:
            raise RunError(f"the reranker in {folder} failed on a batch of {len(pairs)} pairs: {error}") from error
        scores = np.asarray(made, dtype=np.float32)
        if scores.shape != (len(pairs),) or not np.isfinite(scores).all():
            bad = "NaN or infinity" if scores.shape == (len(pairs),) else f"the shape {scores.shape}"
            raise RunError(
                f"the reranker in {folder} returned {bad} for {len(pairs)} pairs, the first with the question "
                f"{pairs[0][0][:60]!r}; use a model that gives each pair one finite score."
            )
        return scores

    return score


def _json(folder: Path, name: str) -> Any:
    """What a file of the model says, nothing if it is not there. Raises ModelNotFoundError."""
    path = folder / name
    if not path.exists():
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelNotFoundError(f"{path} is not JSON: {error}. Fetch the model again.") from error


_MOST_TEXTS = 1_024  # whose tokens are held at once


@dataclass(frozen=True, eq=False)
class TextPairs:
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

    def scores(self, pairs: TextPairs, lengths: Counts, advance: Callable[[int], None]) -> Floats:
        """One score for each pair, float32 (pairs,); ``advance`` is called for all that are done.

        Each batch is kept before the next begins. Raises RunError and WorkspaceError.
        """
        made = np.empty(len(pairs), dtype=np.float32)
        wanted, keys = np.arange(len(pairs)), pairs.keys()
        with nullcontext() if self.path is None else VectorCache(self.path, self.what) as kept:
            if kept is not None:
                is_missing = kept.missing(keys)
                made[~is_missing] = kept.read(keys[~is_missing]).reshape(-1)
                wanted = np.flatnonzero(is_missing)
                advance(len(pairs) - len(wanted))
            order = longest_first(wanted, lengths)
            for start in range(0, len(order), self.batch_size):
                batch = order[start : start + self.batch_size]
                if self._score is None:
                    self._score = self.load()
                made[batch] = self._score(pairs.at(batch))
                if kept is not None:
                    kept.write(keys[batch], made[batch, np.newaxis])
                advance(len(batch))
        return made

    def billed(self, question: Counts) -> dict[str, Fact]:
        """Nothing is."""
        return {}


def _tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> Counts:
    """Tokens of each text on its own, without special tokens."""
    counts: list[int] = []
    for start in range(0, len(texts), _MOST_TEXTS):
        counts += tokenizer.alone(texts[start : start + _MOST_TEXTS])
    return np.array(counts, dtype=np.int64)
