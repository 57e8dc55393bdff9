"""Embedding models behind endpoints, in the forms of OpenAI, Cohere and Voyage."""

from __future__ import annotations

import base64
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, JsonValue

from ragtrial.cache.fingerprints import Digest, file_digest
from ragtrial.components.embedders.base import EMBEDDERS, DeclaredEmbedder, Encode, checked, sided
from ragtrial.components.endpoints.client import Client, answer_budget, billed, in_order, member, named
from ragtrial.components.endpoints.options import EndpointOptions, EndpointUrl
from ragtrial.errors import EmbedderError, EndpointError
from ragtrial.rankings import Floats

_MOST_DIMENSIONS = 8192
"""Numbers of a vector at most, where their count is not known."""


EmbeddingReply = tuple[Floats, int | None]
"""Vectors, float32 (texts, dimension), in the order of the texts, and the billed tokens, None if not reported."""


def embed(
    client: Client, texts: Sequence[str], fields: Mapping[str, Any], dimensions: int | None = None
) -> EmbeddingReply:
    """The vectors of ``texts``, requested in OpenAI's form with some more ``fields``.

    ``dimensions`` is their expected size; None if that is unknown. Raises EndpointError.
    """
    body = {"model": client.options.model, "input": list(texts), **fields}
    answer = client.post("embeddings", body, answer_budget(texts, len(texts) * (dimensions or _MOST_DIMENSIONS)))
    who = named(client)
    rows = in_order(member(answer, "data", list, who), len(texts), who)
    vectors = matrix([row.get("embedding") for row in rows], texts, who)
    return vectors, billed(answer, "usage", ("total_tokens", "prompt_tokens"))


def matrix(vectors: Sequence[Any], texts: Sequence[str], who: str) -> Floats:
    """Vectors as float32 (texts, dimension). Raises EndpointError for another shape, and other values than numbers."""
    try:
        return checked([_numbers(vector, who) for vector in vectors], texts, None, who)
    except EmbedderError as error:
        raise EndpointError(str(error)) from error


def _numbers(vector: Any, who: str) -> Any:
    """A list of numbers as it is; base64 (of float32, little-endian) as an array."""
    if isinstance(vector, str):
        with suppress(ValueError):
            return np.frombuffer(base64.b64decode(vector, validate=True), dtype="<f4")
    elif isinstance(vector, list) and vector and {*map(type, vector)} <= {int, float}:  # a boolean is no number
        return vector
    raise EndpointError(f"{who} answered with a vector that is neither numbers nor base64 of float32 numbers.")


_LEAST_CHARACTERS = 2
"""Characters per token, where there is no tokenizer: few, so that batches are too small rather than too large."""


class EndpointEmbedder(EndpointOptions, DeclaredEmbedder):
    """An embedding model behind an endpoint."""

    unhashed: ClassVar[frozenset[str]] = EndpointOptions.unhashed | DeclaredEmbedder.unhashed | {"batch_tokens"}
    is_local: ClassVar[bool] = False

    cut_option: ClassVar[str] = "cut_to"

    dimensions: Annotated[int, Field(ge=1)] | None = None
    """The number of dimensions to request from the endpoint (default: the model's full size). Each number is a separate
    pass with its own price; a service without this option answers with an error."""

    cut_to: Annotated[int, Field(ge=1)] | None = None
    """Keep only the first N numbers of every vector, and scale it again if `normalize` is true. All values of this key
    share one embedding pass (default: the vectors as they come)."""

    batch_size: Annotated[int, Field(ge=1)] = 64

    batch_tokens: Annotated[int, Field(ge=1)] = 100_000
    """The maximum number of tokens in one request. Without a tokenizer, two characters count as one token."""

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    @abstractmethod
    def side_fields(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The extra fields of requests for queries, and of requests for documents."""

    @abstractmethod
    def request(self, client: Client, texts: Sequence[str], fields: Mapping[str, Any]) -> EmbeddingReply:
        """The vectors of ``texts`` from the endpoint itself. Raises EndpointError."""

    @property
    def calls_at_once(self) -> int:
        return self.concurrency

    @property
    def batch_length(self) -> int | None:
        return self.batch_tokens * (1 if self.has_tokenizer else _LEAST_CHARACTERS)

    def cost(self, tokens: float) -> float | None:
        return None if self.price is None else tokens * self.price / 1e6

    @property
    def distinguishes_sides(self) -> bool:
        query, document = self.side_fields()
        return query != document

    def hashed_parts(self, digest: Digest = file_digest) -> dict[str, Any]:
        asked = {"dimensions": self.dimensions, "normalize": self.normalize, "fields": list(self.side_fields())}
        return {"backend": self.kind, **self.answered_by(), **asked}

    def dimension(self) -> int | None:
        return self.dimensions

    def load(self) -> Encode:
        return _Encode(self)


class _Encode:
    def __init__(self, embedder: EndpointEmbedder) -> None:
        self.tokens: int | None = 0
        self._embedder = embedder
        self._client = Client(embedder)
        self._lock = Lock()

    def __call__(self, texts: Sequence[str]) -> Floats:
        side, plain = sided(texts) if self._embedder.distinguishes_sides else (0, texts)
        vectors, tokens = self._embedder.request(self._client, plain, self._embedder.side_fields()[side])
        wanted, found = self._embedder.dimensions, vectors.shape[1]
        if wanted is not None and found != wanted:
            raise EndpointError(
                f"the model {self._embedder.model!r} at {self._embedder.base_url} answered with vectors of {found} "
                f"dimensions, and `dimensions` asks for {wanted}; not every model can shorten its vectors."
            )
        with self._lock:
            self.tokens = None if self.tokens is None or tokens is None else self.tokens + tokens
        return vectors


@EMBEDDERS.register("openai")
class OpenAIEmbedder(EndpointEmbedder):
    """A model behind any endpoint in OpenAI's form (`/embeddings`), hosted or your own."""

    kind: Literal["openai"] = "openai"
    """A model behind any OpenAI-compatible endpoint (`/embeddings`), hosted or your own."""

    encoding: Literal["base64", "float"] | None = "base64"
    """The encoding of vectors in replies: base64 is exact and a quarter of the size; float is for servers that support
    nothing else; null sends no `encoding_format`, for servers that refuse it."""

    query_fields: dict[str, JsonValue] = Field(default={})
    """Extra fields for query requests, as the endpoint's manual names them, like `{task: retrieval.query}`."""

    document_fields: dict[str, JsonValue] = Field(default={})
    """Extra fields for document requests, like `{task: retrieval.passage}`."""

    def side_fields(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        return {**self.fields, **self.query_fields}, {**self.fields, **self.document_fields}

    def request(self, client: Client, texts: Sequence[str], fields: Mapping[str, Any]) -> EmbeddingReply:
        asked = {"encoding_format": self.encoding, "dimensions": self.dimensions, **fields}
        return embed(client, texts, asked, self.dimensions)


@EMBEDDERS.register("cohere")
class CohereEmbedder(EndpointEmbedder):
    """A model of Cohere; requests mark texts as queries or documents."""

    kind: Literal["cohere"] = "cohere"
    """A Cohere model, like embed-v4.0; requests mark texts as queries or documents."""

    base_url: EndpointUrl = "https://api.cohere.com/v2"
    """The URL before `/embed`."""

    batch_size: Annotated[int, Field(ge=1, le=96)] = 96

    truncate: Literal["none", "end", "start"] = "end"
    """The end to cut from a text that is too long; with `none`, such a text is an error."""

    def side_fields(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        cut = {"truncate": self.truncate.upper(), **self.fields}
        return {"input_type": "search_query", **cut}, {"input_type": "search_document", **cut}

    def request(self, client: Client, texts: Sequence[str], fields: Mapping[str, Any]) -> EmbeddingReply:
        asked = {"embedding_types": ["float"], "output_dimension": self.dimensions, **fields}
        body = {"model": self.model, "texts": list(texts), **asked}
        most_bytes = answer_budget(texts, len(texts) * (self.dimensions or _MOST_DIMENSIONS))
        answer, who = client.post("embed", body, most_bytes), named(client)
        vectors = member(member(answer, "embeddings", dict, who), "float", list, who)
        return matrix(vectors, texts, who), billed(answer, "meta", "billed_units", ("input_tokens",))


@EMBEDDERS.register("voyage")
class VoyageEmbedder(EndpointEmbedder):
    """A model of Voyage AI; requests mark texts as queries or documents."""

    kind: Literal["voyage"] = "voyage"
    """A Voyage AI model, like voyage-3.5; requests mark texts as queries or documents."""

    base_url: EndpointUrl = "https://api.voyageai.com/v1"
    """The URL before `/embeddings`."""

    batch_size: Annotated[int, Field(ge=1, le=1000)] = 128

    truncate: bool = True
    """Cut the end of a text that is too long; with false, such a text is an error."""

    def side_fields(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        cut = {"truncation": self.truncate, **self.fields}
        return {"input_type": "query", **cut}, {"input_type": "document", **cut}

    def request(self, client: Client, texts: Sequence[str], fields: Mapping[str, Any]) -> EmbeddingReply:
        asked = {"encoding_format": "base64", "output_dimension": self.dimensions, **fields}
        return embed(client, texts, asked, self.dimensions)
