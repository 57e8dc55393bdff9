"""The interface of embedders, and the checks of every vector."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ragtrial.cache.fingerprints import Digest, file_digest
from ragtrial.components.embedders.model_files import named_tokenizer
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.engines.base import normalized
from ragtrial.errors import EmbedderError, counted
from ragtrial.options import ModelName, Options
from ragtrial.rankings import Floats
from ragtrial.registry import AnyOf, Registry

Encode = Callable[[Sequence[str]], npt.NDArray[Any]]
"""Texts to vectors, shape (texts, dimension), in the order of the texts.

If calls are billed, it has the attribute ``tokens``: their total so far, None if the endpoint does not report it.
"""


SIDES = ("query\x1f", "document\x1f")
"""Marks before texts for a model that encodes queries and documents differently; the model does not get them. One text
then has two vectors in the cache, as with two prefixes."""


def without_side(text: str) -> str:
    """``text`` without its mark of ``SIDES``, if it has one."""
    return text.removeprefix(SIDES[0]).removeprefix(SIDES[1])


def sided(texts: Sequence[str]) -> tuple[int, list[str]]:
    """The common side of ``texts``, as a position in ``SIDES``, and the texts without its mark."""
    side = {int(text.startswith(SIDES[1])) for text in texts}
    if len(side) > 1:
        raise ValueError("queries and texts of documents do not go to a model together")
    return side.pop(), [without_side(text) for text in texts]


class Embedder(Options):
    """A model, and how it is called."""

    unhashed: ClassVar[frozenset[str]] = frozenset({"batch_size"})

    kind: str

    normalize: bool = True
    """Scale every vector to length 1."""

    dimensions: Annotated[int, Field(ge=1)] | None = None
    """Keep only the first N numbers of every vector, and scale it again if `normalize` is true. All values of this key
    share one embedding pass (default: the whole vectors)."""

    batch_size: Annotated[int, Field(ge=1)] = 32
    """How many texts the model gets at once, an endpoint in one request; affects speed and memory, not results."""

    may_change: ClassVar[bool] = False
    """If true, the model may change while its ``hashed_parts`` stay the same."""

    is_local: ClassVar[bool] = True
    """If true, the model runs on this machine, so workers can load it."""

    cut_option: ClassVar[str] = "dimensions"
    """The option with the number of dimensions that are used of every vector."""

    @property
    def distinguishes_sides(self) -> bool:
        """If true, the model encodes queries and documents differently: ``SIDES`` precede the prefixes then."""
        return False

    @property
    def used_dimensions(self) -> int | None:
        """How many numbers of every cached vector are used; None for all."""
        used: int | None = getattr(self, self.cut_option)
        return used

    @property
    def untruncated(self) -> Self:
        """The embedder of the cached vectors, which are not truncated."""
        if self.used_dimensions is None:
            return self
        whole = self.model_copy(update={self.cut_option: None})
        whole.model_fields_set.discard(self.cut_option)  # the user did not choose it
        return whole

    def check(self) -> None:
        """Raise InputError if it is already clear that the model cannot be loaded."""

    @property
    def calls_at_once(self) -> int:
        """How many batches the model works on at once."""
        return 1

    @property
    def batch_length(self) -> int | None:
        """The maximum total length of a batch; None for no limit. See ``CachedEmbedder.lengths``."""
        return None

    def cost(self, tokens: float) -> float | None:
        """The cost of a number of tokens, None without a price."""
        return None

    @property
    def is_paid(self) -> bool:
        """If true, the price of tokens is known, so they must be counted."""
        return self.cost(0) is not None

    @abstractmethod
    def prefixes(self) -> tuple[str, str]:
        """The texts that precede every query, and every text of a document."""

    def unused_prompts(self) -> Iterator[str]:
        """A sentence for each side for which the model declares prompts that are not used."""
        yield from ()

    @abstractmethod
    def hashed_parts(self, digest: Digest = file_digest) -> dict[str, Any]:
        """The options and the files that change the vector of a text, without its prefix, as JSON values.

        ``digest`` hashes files. Raises ModelNotFoundError. Loads no model.
        """

    @property
    def has_tokenizer(self) -> bool:
        """If true, the options allow a tokenizer."""
        return True

    @abstractmethod
    def tokenizer(self) -> Tokenizer | None:
        """The model's tokenizer, None if it is not available. Raises ModelNotFoundError. Loads no model."""

    @abstractmethod
    def max_tokens(self) -> int | None:
        """How many tokens of a text the model reads, None if unknown. Loads no model."""

    def dimension(self) -> int | None:
        """The dimension of the vectors, None if the model's files do not say. Loads no model."""
        return None

    @abstractmethod
    def load(self) -> Encode:
        """The model, ready to encode. Raises EmbedderError if it cannot be loaded."""

    def similarity(self) -> Literal["cosine", "ip", "l2"] | None:
        """The space that the model was trained for, as its files declare; None if they do not. Loads no model."""
        return None


EMBEDDERS: Registry[type[Embedder]] = Registry("embedder", __package__)

AnyEmbedder = Annotated[Embedder, AnyOf(EMBEDDERS)]


def checked(vectors: Any, texts: Sequence[str], dimension: int | None, who: str) -> Floats:
    """``vectors`` as float32 (texts, dimension).

    Raises EmbedderError for another shape or dimension, or values that are not finite numbers.
    """
    try:
        with np.errstate(over="ignore"):  # too large values become infinite
            array = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbedderError(f"{who} returned {type(vectors).__name__}, not an array of numbers: {error}.") from error
    if array.ndim != 2 or array.shape[0] != len(texts) or array.shape[1] == 0:
        raise EmbedderError(
            f"{who} returned the shape {array.shape} for {counted(len(texts), 'text')}; it must be ({len(texts)}, "
            "dimension): one vector per text, in their order."
        )
    if dimension is not None and array.shape[1] != dimension:
        raise EmbedderError(f"{who} returned vectors of dimension {array.shape[1]}; before they had {dimension}.")
    bad = ~np.isfinite(array).all(axis=1)
    if bad.any():
        first = texts[int(bad.argmax())]
        raise EmbedderError(
            f"{who} returned NaN or infinity for {int(bad.sum())} of {counted(len(texts), 'text')}; "
            f"the first begins {first[:60]!r}."
        )
    return array


def truncated(vectors: Floats, dimensions: int, *, normalize: bool) -> Floats:
    """The first ``dimensions`` numbers of every row, with ``normalize`` scaled to length 1 again.

    For models that were trained for it (Matryoshka representation learning, Kusupati et al. 2022). Equal to
    ``truncate_dim`` of sentence-transformers. Raises EmbedderError if there are fewer.
    """
    if dimensions > vectors.shape[1] > 0:
        raise EmbedderError(too_many(dimensions, vectors.shape[1]))
    if dimensions == vectors.shape[1]:
        return vectors
    first = np.ascontiguousarray(vectors[:, :dimensions])
    return normalized(first) if normalize else first


def too_many(dimensions: int, dimension: int, option: str = "dimensions") -> str:
    """The message for an ``option`` with more ``dimensions`` than the ``dimension`` of the vectors."""
    return f"embedder.{option} is {dimensions}; the model's vectors have {dimension}. Set it lower, or leave it out."


class DeclaredEmbedder(Embedder):
    """An embedder whose model is a service, or inside a function: the config declares its properties."""

    may_change: ClassVar[bool] = True

    query_prefix: str = ""
    """Text to put before every query."""

    document_prefix: str = ""
    """Text to put before every document text."""

    tokenizer_model: ModelName | None = None
    """The tokenizer for measuring chunk sizes and batches: a hub name, a folder or a tokenizer.json."""

    max_length: Annotated[int, Field(ge=1)] | None = None
    """The number of tokens of a text that the model reads; longer texts are counted, with a warning."""

    def prefixes(self) -> tuple[str, str]:
        return self.query_prefix, self.document_prefix

    @property
    def has_tokenizer(self) -> bool:
        return self.tokenizer_model is not None

    def tokenizer(self) -> Tokenizer | None:
        return None if self.tokenizer_model is None else named_tokenizer(self.tokenizer_model)

    def max_tokens(self) -> int | None:
        return self.max_length


Shard = Sequence[Sequence[str]]
"""Batches of texts, prefixes included, that one worker embeds. The model gets one batch at a time, so vectors do not
depend on the number of workers."""


class Workers(Protocol):
    """Processes with the model of an embedder, which they load when they are first used."""

    count: int
    """How many shards are embedded at once."""

    def embed(self, shard: Shard) -> list[Floats]:
        """The vectors of each batch. Raises EmbedderError as ``model_vectors`` does, by the position in the shard."""
        ...

    def release(self) -> None:
        """End the processes and free their memory; new processes start when they are needed."""
        ...


def model_vectors(embedder: Embedder, encode: Encode, texts: Sequence[str]) -> Floats:
    """The vectors of a batch in the form of the cache, float32 (texts, dimension).

    Raises EmbedderError; its ``position`` is the index of the failing text, if the others can be embedded.
    """

    def vectors_of(some: Sequence[str]) -> Floats:
        vectors = checked(encode(some), some, None, f"the embedder ({embedder.kind})")
        return normalized(vectors) if embedder.normalize else vectors

    # A request to an endpoint is paid for: it is not repeated to find the text.
    return blaming_a_text(vectors_of, texts) if embedder.is_local else vectors_of(texts)


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
    """The vectors that ``embed`` returns for ``texts``. If it raises EmbedderError because of a single text, the error
    gets the ``position`` of that text.

    Each text is tried alone. If several fail, or none does, the cause is different and no text is blamed.
    """
    try:
        return embed(texts)
    except EmbedderError:
        faults: list[EmbedderError] = []
        for position in range(len(texts)):
            try:
                embed(texts[position : position + 1])
            except EmbedderError as fault:
                fault.position = position
                faults.append(fault)
            if len(faults) > 1:
                raise
        if not faults:
            raise
        raise faults[0] from faults[0].__cause__
