"""Texts through a loaded model, here or in a worker: what is checked of the vectors, and which text is at fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from ragtrial.components.embedders.base import Embedder, Encode, checked, normalized
from ragtrial.errors import EmbedderError
from ragtrial.rankings import Floats

Shard = Sequence[Sequence[str]]
"""Batches of texts, prefixes included, that one worker embeds. The model is given a batch at a time, as it is here, so
that vectors depend on no number of workers."""


class Workers(Protocol):
    """Processes that have loaded the model of an embedder, or will when they are asked for the first time."""

    count: int
    """How many shards are embedded at once."""

    def embed(self, shard: Shard) -> list[Floats]:
        """The vectors of each batch. Raises EmbedderError as ``model_vectors`` does, by the position in the shard."""
        ...

    def release(self) -> None:
        """End the processes, and free their memory; others begin when they are needed."""
        ...


def model_vectors(embedder: Embedder, encode: Encode, texts: Sequence[str]) -> Floats:
    """The vectors of a batch as they are kept, float32 (texts, dimension).

    Raises EmbedderError; its ``position`` is that of the text at fault, where the others can be embedded.
    """

    def made(some: Sequence[str]) -> Floats:
        vectors = checked(encode(some), some, None, f"the embedder ({embedder.kind})")
        return normalized(vectors) if embedder.normalize else vectors

    # A request to an endpoint is paid for: it is not repeated to find the text.
    return blaming_a_text(made, texts) if embedder.is_local else made(texts)


def shard_vectors(embedder: Embedder, encode: Encode, shard: Shard) -> Iterator[Floats]:
    """The vectors of each batch of a shard, one after another. Raises as ``Workers.embed`` does."""
    before = 0
    for batch in shard:
        try:
            yield model_vectors(embedder, encode, batch)
        except EmbedderError as error:
            raise error.moved(before) from error
        before += len(batch)


def blaming_a_text(embed: Callable[[Sequence[str]], Floats], texts: Sequence[str]) -> Floats:
    """What ``embed`` gives for ``texts``. Its EmbedderError gets the ``position`` of the text at fault, if it is one.

    That is found by halves. Where both fail, or neither does by itself, the cause is another, and no text is blamed.
    """
    try:
        return embed(texts)
    except EmbedderError as error:
        found, first, last = error, 0, len(texts)
        while last - first > 1:
            middle = (first + last) // 2
            failed = {half: _failure(embed, texts[slice(*half)]) for half in ((first, middle), (middle, last))}
            failing = {half: why for half, why in failed.items() if why is not None}
            if len(failing) != 1:
                raise
            (((first, last), found),) = failing.items()
        found.position = first
        raise found from found.__cause__


def _failure(embed: Callable[[Sequence[str]], Floats], texts: Sequence[str]) -> EmbedderError | None:
    try:
        embed(texts)
    except EmbedderError as error:
        return error
    return None
