"""Checks whether the embedder makes the stored vectors from the stored texts, and finds the likely cause if not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ragtrial.components.embedders.base import lengths_of
from ragtrial.components.stores.base import Space
from ragtrial.rankings import Floats

Embed = Callable[[Sequence[str]], Floats]

SAMPLED = 5
_SAME = 0.999
"""The least cosine of the same model on another machine, in another precision or another format."""
_NEAR = 0.99
"""The least cosine that is accepted, and reported: hosted and quantized models vary this much."""
_SAME_LENGTH = 0.01
_PREFIXES = (
    "passage: ",
    "query: ",
    "search_document: ",
    "search_query: ",
    "title: none | text: ",
    "Represent this sentence for searching relevant passages: ",
)
"""Prefixes that well-known models expect before a text."""


@dataclass(frozen=True)
class VectorAgreement:
    """``said`` is a few words for the report; ``fault`` says what is wrong and what to do, empty if nothing is.

    ``agrees`` is whether the embedder was shown to make the stored vectors.
    """

    said: str
    fault: str = ""
    agrees: bool = False


def compare(
    texts: Sequence[str], stored: Floats, space: Space, made_with: str, as_documents: Embed, as_queries: Embed
) -> VectorAgreement:
    """Whether ``stored``, float32 (texts, dimension), agrees with what the embedder makes of ``texts``.

    ``made_with`` is the model that made the vectors, as the collection says; empty if it says nothing.
    """
    made = as_documents(texts)
    cosines = _cosines(stored, made)
    least = float(cosines.min())
    if least < _SAME:
        cause = _cause(texts, stored, as_documents, as_queries)
        if not cause and least >= _NEAR:
            return VectorAgreement(f"nearly (cosine {least:.4f})")
        cause = cause or f"Another model made them{_as_it_says(made_with)}, or this one from other texts"
        return VectorAgreement(
            "no",
            f"its vectors were not made with this embedder: {len(texts)} stored texts, embedded again, reach only a "
            f"cosine of {cosines.min():.3f} to {cosines.max():.3f} with them. {cause}; set embedder to what made the "
            "vectors, or collection.check: false if they were made of other texts than those stored.",
        )
    length, own = float(np.median(lengths_of(stored))), float(np.median(lengths_of(made)))
    ratio = float(np.median(lengths_of(stored) / np.maximum(lengths_of(made), 1e-30)))
    if abs(ratio - 1) <= _SAME_LENGTH:
        return VectorAgreement(f"ok (cosine {least:.4f})", agrees=True)
    if space != "l2":  # the length of the query changes no order, and stored vectors are as they are
        return VectorAgreement(f"ok (cosine {least:.4f}, other length)", agrees=True)
    mend = "true" if abs(length - 1) <= _SAME_LENGTH else "false"
    return VectorAgreement(
        "no",
        f"its vectors have the embedder's direction and another length: {length:.3g}, not {own:.3g}. Its space is l2, "
        f"in which the length counts; set normalize: {mend} for the embedder.",
    )


def other_dimension(stored: int, made: int, made_with: str) -> str:
    """The fault of vectors that cannot be compared."""
    return (
        f"its vectors have {stored} dimensions, those of the embedder {made}: another model made them"
        f"{_as_it_says(made_with)}. Set embedder to that model."
    )


def is_normalised(stored: Floats) -> bool:
    """Whether all vectors have length 1."""
    return bool((abs(lengths_of(stored) - 1) <= _SAME_LENGTH).all())


def _cause(texts: Sequence[str], stored: Floats, as_documents: Embed, as_queries: Embed) -> str:
    if _cosines(stored, as_queries(texts)).min() >= _SAME:
        return "Embedded as queries are, the texts agree: set document_prefix to what query_prefix is"
    for prefix in _PREFIXES:
        if _cosines(stored, as_documents([prefix + text for text in texts])).min() >= _SAME:
            return f"With {prefix!r} before each text they agree: set document_prefix: {prefix!r}"
    return ""


def _as_it_says(made_with: str) -> str:
    return f" (the collection says: {made_with})" if made_with else ""


def _cosines(stored: Floats, made: Floats) -> Floats:
    one, other = stored.astype(np.float64), made.astype(np.float64)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    cosines = np.einsum("ij,ij->i", one, other) / np.where(lengths > 0, lengths, 1)
    return np.asarray(cosines, dtype=np.float32)
