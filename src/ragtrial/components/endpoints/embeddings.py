"""Embeddings from endpoints in OpenAI's form, which most servers speak."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ragtrial.components.endpoints.answers import billed, in_order, member, named
from ragtrial.components.endpoints.bodies import vectors_budget
from ragtrial.components.endpoints.client import Client
from ragtrial.errors import EndpointError
from ragtrial.rankings import Floats


@dataclass(frozen=True, eq=False)
class EmbeddingReply:
    """Vectors, float32 (texts, dimension), in the order of the texts; and how many tokens are billed, if it says so."""

    vectors: Floats
    tokens: int | None


def embed(
    client: Client, texts: Sequence[str], fields: Mapping[str, Any], dimensions: int | None = None
) -> EmbeddingReply:
    """The vectors of ``texts``, requested in OpenAI's form with some more ``fields``.

    They have so many ``dimensions``; None where that is not known. Raises EndpointError.
    """
    body = {"model": client.options.model, "input": list(texts), **fields}
    answer = client.post("embeddings", body, vectors_budget(len(texts), dimensions))
    who = named(client)
    rows = in_order(member(answer, "data", list, who), len(texts), who)
    vectors = [_vector(row.get("embedding"), who) for row in rows]
    return EmbeddingReply(matrix(vectors, len(texts), who), billed(answer, "usage", ("total_tokens", "prompt_tokens")))


def matrix(vectors: Sequence[Any], count: int, who: str) -> Floats:
    """Vectors as float32 (count, dimension). Raises EndpointError for another shape, and other values than numbers."""
    try:
        if not all(isinstance(vector, np.ndarray) or {*map(type, vector)} <= {int, float} for vector in vectors):
            raise TypeError("neither true nor a text is a number")
        with np.errstate(over="ignore"):  # what is too large is infinite
            made = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EndpointError(
            f"{who} answered with vectors of different lengths, or with values that are not numbers."
        ) from error
    if made.ndim != 2 or made.shape[0] != count or not made.shape[1]:
        raise EndpointError(f"{who} answered with vectors of the shape {made.shape} for {count:,} texts.")
    if not np.isfinite(made).all():
        bad = int((~np.isfinite(made).all(axis=1)).sum())
        raise EndpointError(f"{who} answered with NaN or infinity in the vectors of {bad:,} of {count:,} texts.")
    return made


def _vector(value: Any, who: str) -> Any:
    """A list of numbers as it is; base64 (of float32, little-endian) as an array."""
    if not isinstance(value, str):
        return value
    try:
        return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
    except (binascii.Error, ValueError) as error:
        raise EndpointError(f"{who} answered with a vector that is not base64 of float32 numbers.") from error
