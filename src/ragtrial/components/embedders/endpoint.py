"""The base of embedders behind endpoints: requests, and how vectors of queries and documents are kept apart."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Annotated, Any, ClassVar

from pydantic import Field

from ragtrial.cache.fingerprints import Digest, file_digest
from ragtrial.components.embedders.base import MeteredEncode, sided
from ragtrial.components.embedders.declared import DeclaredEmbedder
from ragtrial.components.endpoints.client import Client
from ragtrial.components.endpoints.embeddings import EmbeddingReply
from ragtrial.components.endpoints.options import EndpointOptions
from ragtrial.errors import EndpointError
from ragtrial.rankings import Floats

_LEAST_CHARACTERS = 2
"""Characters per token, where there is no tokenizer: few, so that batches are too small rather than too large."""


class EndpointEmbedder(EndpointOptions, DeclaredEmbedder):
    """An embedding model behind an endpoint."""

    unhashed: ClassVar[frozenset[str]] = EndpointOptions.unhashed | DeclaredEmbedder.unhashed | {"batch_tokens"}
    is_local: ClassVar[bool] = False

    cut_option: ClassVar[str] = "cut_to"

    dimensions: Annotated[int, Field(ge=1)] | None = None
    """The number of dimensions to request from the endpoint (default: the model's full size). Each number is a pass of
    its own, which is paid for; a service that has no such option answers with an error."""

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
        """The extra fields of requests for queries, and of those for documents."""

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
    def tells_sides(self) -> bool:
        query, document = self.side_fields()
        return query != document

    def fingerprint_parts(self, digest: Digest = file_digest) -> dict[str, Any]:
        asked = {"dimensions": self.dimensions, "normalize": self.normalize, "fields": list(self.side_fields())}
        return {"backend": self.kind, **self.answered_by(), **asked}

    def dimension(self) -> int | None:
        return self.dimensions

    def load(self) -> MeteredEncode:
        return _Encode(self)


class _Encode(MeteredEncode):
    def __init__(self, embedder: EndpointEmbedder) -> None:
        self.tokens: int | None = 0
        self._embedder = embedder
        self._client = Client(embedder)
        self._lock = Lock()

    def __call__(self, texts: Sequence[str]) -> Floats:
        fields, plain = self._sorted(texts)
        reply = self._embedder.request(self._client, plain, fields)
        wanted, found = self._embedder.dimensions, reply.vectors.shape[1]
        if wanted is not None and found != wanted:
            raise EndpointError(
                f"the model {self._embedder.model!r} at {self._embedder.base_url} answered with vectors of {found} "
                f"dimensions, and `dimensions` asks for {wanted}; not every model can shorten its vectors."
            )
        with self._lock:
            self.tokens = None if self.tokens is None or reply.tokens is None else self.tokens + reply.tokens
        return reply.vectors

    def _sorted(self, texts: Sequence[str]) -> tuple[Mapping[str, Any], Sequence[str]]:
        """The extra fields of a request for texts that are all queries or all documents, and the texts to send."""
        if not self._embedder.tells_sides:
            return self._embedder.side_fields()[0], texts
        side, plain = sided(texts)
        return self._embedder.side_fields()[side], plain
